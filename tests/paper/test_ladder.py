from pathlib import Path


def test_flip_and_leap_twice_is_the_identity(quick):
    claims, _ = quick("ladder")
    assert claims["loop_error"] < 1e-9  # ten digits are in the file


def test_a_flip_keeps_the_energy_and_a_leap_nearly_does(quick):
    claims, _ = quick("ladder")
    assert claims["flip_energy"] == 0
    assert 0 < claims["leap_energy"] < 0.01


def test_the_picture_is_drawn_from_the_csv_alone(quick):
    from examples.paper import ladder

    _, place = quick("ladder")
    picture = Path(place / "figures" / "ladder.png")
    before = picture.read_bytes()
    picture.unlink()
    ladder.draw(place / "results", place / "figures")
    assert picture.read_bytes() == before
