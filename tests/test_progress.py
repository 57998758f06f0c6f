import doctest
import io
import re
import sys
import threading
import types

import pytest

from mjhmc_numba.progress import ChainProgress, Progress, live

TITLES = ["chain", "draws", "phase", "diverging", "step size", "grad/draw", "time"]


class FakeStream(io.StringIO):
    """A text stream that says whether it is a terminal, and which encoding it has."""

    encoding = "utf-8"

    def __init__(self, tty=True, encoding="utf-8"):
        super().__init__()
        self.tty = tty
        self.encoding = encoding
        self.writes = 0

    def isatty(self):
        return self.tty

    def write(self, text):
        self.writes += 1
        return super().write(text)


class Clock:
    """Stands for the module `time`; moved by hand."""

    now = 100.0

    def monotonic(self):
        return self.now


def screen(text):
    """The lines that a terminal shows after `text`: characters, new lines, up, clear."""
    lines, row, col = [""], 0, 0
    for token in re.findall(r"\x1b\[[0-9;]*[A-Za-z]|\n|\r|[^\x1b\n\r]+", text):
        if token == "\n":
            row, col = row + 1, 0
            lines += [""] * (row + 1 - len(lines))
        elif token == "\r":
            col = 0
        elif token.startswith("\x1b[") and token.endswith("A"):
            row -= int(token[2:-1])
            assert row >= 0, "the cursor went above the first line"
        elif token in ("\x1b[K", "\x1b[J"):
            lines[row] = lines[row][:col]
            if token == "\x1b[J":
                del lines[row + 1 :]
        elif token.startswith("\x1b["):
            assert token.endswith("m"), f"an escape sequence that is not known here: {token!r}"
        else:
            lines[row] = lines[row][:col] + token + lines[row][col + len(token) :]
            col += len(token)
    assert lines[-1] == "", "the cursor is left at the start of a line of its own"
    return lines[:-1]


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(live, "time", clock)
    return clock


@pytest.fixture(autouse=True)
def _plain_terminal(monkeypatch):
    """No notebook, no colours, 100 x 24 characters, whatever the tests run in."""
    monkeypatch.setitem(sys.modules, "IPython", None)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("LINES", "24")


@pytest.fixture
def notebook(monkeypatch):
    """A Jupyter kernel: the pictures that its cell was given, in their order."""
    pictures = []

    class Handle:
        def update(self, picture, raw):
            assert raw
            pictures.append(picture)

    def display(picture, raw, display_id):
        assert raw
        assert display_id is True
        pictures.append(picture)
        return Handle()

    ipython = types.ModuleType("IPython")
    ipython.get_ipython = lambda: types.SimpleNamespace(kernel=object())
    ipython.display = types.ModuleType("IPython.display")
    ipython.display.display = display
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", ipython.display)
    return pictures


def warmup(done, total=2000, **fields):
    return ChainProgress(done=done, total=total, phase="warmup", **fields)


def draws(done, total=2000, **fields):
    return ChainProgress(done=done, total=total, phase="draws", **fields)


def finished(total=2000, **fields):
    return ChainProgress(done=total, total=total, phase="done", **fields)


def test_a_terminal_shows_a_header_one_line_per_chain_and_all_of_them_in_one(clock):
    stream = FakeStream()
    with Progress(stream=stream) as progress:
        clock.now += 4.0
        progress.update(
            [
                warmup(500, step_size=0.4321, gradients=6000, draws_done=500),
                draws(1500, divergences=3, step_size=0.25, gradients=10450, draws_done=500),
            ]
        )
        clock.now += 1.0
        progress.update(
            [
                warmup(500, step_size=0.4321, gradients=6000, draws_done=500),
                draws(1500, divergences=3, step_size=0.25, gradients=10450, draws_done=500),
            ]
        )
        header, first, second, last = screen(stream.getvalue())
    assert last == "Sampling: 50 % of 2 chains (0 done), 3 diverging, 0:01 elapsed, 0:03 left"
    assert header.split() == " ".join(TITLES).split()
    assert first.split()[:2] == ["0", "━━━━━━━╸──────────────────────"]
    assert first.split()[2:-3] == ["500/2000", "warm-up", "0", "0.432", "12.0"]
    assert second.split()[:2] == ["1", "━━━━━━━━━━━━━━━━━━━━━━╸───────"]
    assert second.split()[2:-3] == ["1500/2000", "draws", "3", "0.25", "20.9"]


def test_a_terminal_is_redrawn_in_place(clock):
    stream = FakeStream()
    with Progress(stream=stream) as progress:
        for done in range(0, 2000, 100):
            clock.now += 1.0
            progress.update([warmup(done)] * 3)
    lines = screen(stream.getvalue())
    assert len(lines) == 5
    assert all("1900/2000" in line for line in lines[1:4])


def test_lines_that_got_shorter_leave_nothing_behind(clock):
    stream = FakeStream()
    with Progress(stream=stream) as progress:
        clock.now += 1.0
        progress.update([warmup(10)])
        clock.now += 7200.0
        progress.update([warmup(20)])
        clock.now += 1.0
        progress.update([finished()])
    assert screen(stream.getvalue())[1].endswith(" 2:00:01")


def test_a_terminal_is_drawn_ten_times_a_second_at_most(clock):
    stream = FakeStream()
    with Progress(stream=stream) as progress:
        before = stream.writes
        for done in range(1000):  # one second
            clock.now += 0.001
            progress.update([warmup(done)])
        assert 8 <= stream.writes - before <= 10


def test_the_last_update_is_shown_even_if_it_came_too_soon(clock):
    stream = FakeStream()
    with Progress(stream=stream) as progress:
        clock.now += 1.0
        progress.update([warmup(500)])
        progress.update([finished()])
        assert "500/2000" in screen(stream.getvalue())[1]
    assert "2000/2000    done" in screen(stream.getvalue())[1]


def test_the_picture_of_an_interrupted_run_stays(clock):
    def interrupted():
        with Progress(stream=stream) as progress:
            progress.update([draws(1234)])
            raise KeyboardInterrupt

    stream = FakeStream()
    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert "1234/2000" in screen(stream.getvalue())[1]


@pytest.mark.parametrize("columns", [1, 5, 15, 20, 30, 45, 60, 72, 80, 100, 300])
def test_no_line_is_wider_than_the_terminal(clock, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    stream = FakeStream()
    with Progress(stream=stream) as progress:
        clock.now += 36_000.0
        row = draws(10_000_000, 20_000_000, step_size=1.234e-9, gradients=10**10, draws_done=1)
        progress.update([row, row])
    lines = screen(stream.getvalue())
    assert len(lines) >= 2
    assert max(map(len, lines)) < columns or columns == 1
    assert all(lines)


def test_divergences_outlast_the_other_columns_in_a_narrow_terminal(clock, monkeypatch):
    shown = []
    for columns in range(100, 15, -1):
        monkeypatch.setenv("COLUMNS", str(columns))
        stream = FakeStream()
        with Progress(stream=stream) as progress:
            progress.update([warmup(0)])
        header = screen(stream.getvalue())[0]
        shown.append([title for title in TITLES if title in header])
    assert shown[0] == TITLES
    assert shown[-1] == ["chain", "diverging"]
    assert sorted(shown, key=len, reverse=True) == shown
    assert all("diverging" in titles for titles in shown)


def test_the_bar_is_as_long_as_the_share_that_is_done(clock):
    for done, full in [(0, 0), (500, 7), (1000, 15), (1999, 29), (2000, 30), (2100, 30)]:
        stream = FakeStream(encoding="ascii")
        with Progress(stream=stream) as progress:
            progress.update([draws(done)])
        bar = screen(stream.getvalue())[1].split()[1]
        assert len(bar) == 30
        assert bar == "#" * full + "." * (30 - full)


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252", "no-such-code", None])
def test_an_encoding_without_the_bar_gets_ascii(clock, encoding):
    stream = FakeStream(encoding=encoding)
    with Progress(stream=stream) as progress:
        progress.update([draws(700)])
    assert stream.getvalue().isascii()
    assert "####" in stream.getvalue()


def test_colours_take_no_room_and_mark_divergences(clock, monkeypatch):
    pictures = {}
    for no_colour in ("", "1"):
        monkeypatch.setenv("NO_COLOR", no_colour)
        stream = FakeStream()
        with Progress(stream=stream) as progress:
            progress.update([draws(700), draws(700, divergences=2)])
        pictures[no_colour] = stream.getvalue()
    assert screen(pictures[""]) == screen(pictures["1"])
    assert re.search(r"\x1b\[31m +2\x1b\[0m", pictures[""])
    assert not re.search(r"\x1b\[31m +0\x1b\[0m", pictures[""])
    assert "m" not in re.findall(r"\x1b\[[0-9;]*([A-Za-z])", pictures["1"])


def test_more_chains_than_lines_are_summed_up_below_those_at_work(clock, monkeypatch):
    monkeypatch.setenv("LINES", "8")
    stream = FakeStream()
    with Progress(stream=stream) as progress:
        for done in (100, 200, 300):
            clock.now += 1.0
            at_work = [draws(done), draws(done, divergences=1)]
            waiting = [ChainProgress(0, 2000)] * 28
            progress.update([finished()] * 10 + at_work + waiting)
    lines = screen(stream.getvalue())
    assert len(lines) == 7
    assert [line.split()[0] for line in lines[1:6]] == ["10", "11", "12", "13", "14"]
    assert lines[6] == "Sampling: 25 % of 40 chains (10 done), 1 diverging, 0:02 elapsed, 1:01 left"


def test_remaining_time_is_that_of_the_current_phase(clock):
    stream = FakeStream()
    with Progress(stream=stream) as progress:
        progress.update([warmup(0)])
        for done in (500, 1000):  # 10 s for 500 iterations
            clock.now += 10.0
            progress.update([warmup(done)])
            expected = f"< 0:{(2000 - done) // 50}"
            assert screen(stream.getvalue())[1].endswith(expected)
        progress.update([draws(1000)])
        clock.now += 5.0  # twice as fast
        progress.update([draws(1500)])
        assert screen(stream.getvalue())[1].endswith("0:25 < 0:05")


def test_a_chain_that_has_only_begun_is_taken_to_be_as_long_as_one_that_has_ended(clock):
    stream = FakeStream()
    with Progress(stream=stream) as progress:
        progress.update([warmup(0), ChainProgress(0, 2000)])
        clock.now += 20.0
        progress.update([finished(), warmup(0)])
        clock.now += 5.0  # at this pace it would take 1000 s
        progress.update([finished(), warmup(10)])
        assert screen(stream.getvalue())[-1].endswith("0:25 elapsed, 0:15 left")
        clock.now += 20.0  # it is slower than the other: its own pace counts
        progress.update([finished(), warmup(50)])
        assert screen(stream.getvalue())[-1].endswith("0:45 elapsed, 16:15 left")


def test_a_chain_that_waits_does_not_age_and_a_finished_one_stops(clock):
    stream = FakeStream()
    waiting = ChainProgress(0, 2000)
    with Progress(stream=stream) as progress:
        progress.update([warmup(0), waiting])
        clock.now += 10.0
        progress.update([finished(), waiting])
        clock.now += 100.0
        progress.update([finished(), waiting])
        _, first, second, _ = screen(stream.getvalue())
    assert first.endswith("  0:10")
    assert second.endswith("0:00 < -:--")


def test_a_file_gets_a_line_every_half_minute_and_one_at_the_end(clock):
    stream = FakeStream(tty=False)
    with Progress(stream=stream) as progress:
        for second in range(70):
            progress.update([warmup(10 * second), draws(20 * second, divergences=4)])
            clock.now += 1.0
        progress.update([finished(), finished(divergences=4)])
    assert stream.getvalue().splitlines() == [
        "Sampling: 22 % of 2 chains (0 done), 4 diverging, 0:30 elapsed, 2:50 left",
        "Sampling: 45 % of 2 chains (0 done), 4 diverging, 1:00 elapsed, 2:20 left",
        "Sampling: 100 % of 2 chains (2 done), 4 diverging, 1:10 elapsed",
    ]


def test_a_dumb_terminal_is_written_to_like_a_file(clock, monkeypatch):
    monkeypatch.setenv("TERM", "dumb")
    stream = FakeStream()
    with Progress(stream=stream) as progress:
        progress.update([warmup(1)] * 2)
    assert "\x1b" not in stream.getvalue()
    assert len(stream.getvalue().splitlines()) == 1


def test_text_goes_to_standard_error_unless_told(clock, capsys):
    with Progress() as progress:
        progress.update([finished()])
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("Sampling: 100 % of 1 chains")


def test_disabled_it_touches_nothing():
    class Untouchable:
        def __getattribute__(self, name):
            raise AssertionError(f"{name} was asked for")

    with Progress(enabled=False, stream=Untouchable()) as progress:
        progress.update([warmup(1), warmup(2)])


def test_mappings_are_rows_as_well(clock):
    pictures = []
    for row in (draws(700, step_size=0.5), draws(700, step_size=0.5)._asdict()):
        stream = FakeStream()
        with Progress(stream=stream) as progress:
            progress.update([row])
        pictures.append(stream.getvalue())
    assert "700/2000" in pictures[0]
    assert pictures[0] == pictures[1]


def test_a_display_that_fails_is_switched_off_and_sampling_goes_on(clock):
    class Broken(FakeStream):
        def write(self, text):
            self.writes += 1
            if self.writes > 1:
                raise BrokenPipeError
            return len(text)

    stream = Broken()
    with Progress(stream=stream) as progress:
        for done in (1, 2, 3):
            clock.now += 1.0
            progress.update([warmup(done)])
    assert stream.writes == 2


def test_an_interrupt_while_drawing_is_not_swallowed(clock):
    class Interrupted(FakeStream):
        def write(self, text):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), Progress(stream=Interrupted()) as progress:
        progress.update([warmup(0)])


def test_a_notebook_shows_a_table_with_bars(clock, notebook, capsys):
    with Progress() as progress:
        clock.now += 1.0
        progress.update([warmup(500, step_size=0.125), draws(1500, divergences=7)])
        table = notebook[-1]["text/html"]
    assert [re.sub("<.*?>", "", cell) for cell in re.findall("<th.*?</th>", table)] == [
        "chain",
        "",
        *TITLES[1:],
    ]
    rows = [
        [re.sub("<.*?>", "", cell) for cell in re.findall("<td.*?</td>", row)]
        for row in re.findall("<tr>.*?</tr>", table)[1:]
    ]
    assert rows[0][:6] == ["0", "", "500/2000", "warm-up", "0", "0.125"]
    assert rows[1][:6] == ["1", "", "1500/2000", "draws", "7", "-"]
    assert re.findall(r"width: ([\d.]+)%", table) == ["25.0", "75.0"]
    assert table.count("font-weight: bold") == 1  # the seven
    assert "&lt;" in table
    assert not re.search(r"\d < ", table)
    assert capsys.readouterr().err == ""


def test_a_notebook_is_drawn_twice_a_second_at_most(clock, notebook):
    with Progress() as progress:
        before = len(notebook)
        for done in range(1000):  # one second
            clock.now += 0.001
            progress.update([warmup(done)])
        assert 1 <= len(notebook) - before <= 2


def test_a_notebook_keeps_the_last_state_and_a_line_of_text(clock, notebook):
    with Progress() as progress:
        progress.update([finished()])
    assert "2000/2000" in notebook[-1]["text/html"]
    assert notebook[-1]["text/plain"].startswith("Sampling: 100 %")


def test_a_stream_that_was_asked_for_is_used_in_a_notebook_too(clock, notebook):
    stream = FakeStream()
    with Progress(stream=stream) as progress:
        progress.update([warmup(0)])
    assert notebook == []
    assert stream.getvalue() != ""


def test_ipython_in_a_terminal_is_no_notebook(clock, notebook, monkeypatch):
    shell = types.SimpleNamespace()  # no kernel
    monkeypatch.setattr(sys.modules["IPython"], "get_ipython", lambda: shell)
    with Progress() as progress:
        progress.update([warmup(0)])
    assert notebook == []


# --- Compilation, overall time and the closing line ------------------------------------------


CLOSING = "Sampled 2 chains x (1000 + 1000) draws in 9.1 s: 1,234 gradients, 0 diverging"


def run_with_compilation(clock, stream=None):
    """All that a run reports, in its order."""
    with Progress(stream=stream) as progress:
        progress.compiling("gradient", None)
        progress.compiling("machine code", None)  # a part of it, not told
        progress.compiling("machine code", 4.0)
        progress.compiling("gradient", 4.2)
        progress.compiling("sampler", None)
        progress.compiling("sampler", 6.54)
        yield progress
        progress.update([warmup(10), warmup(20)])
        progress.compiling("Deterministics", None)
        clock.now += 1.0
        progress.update([draws(1500), finished()])
        progress.compiling("Deterministics", 0.96)
        yield progress
        progress.update([finished(), finished()])
        progress.finish(CLOSING)


NOTES = [
    "Compiling the model: gradient ... done in 4.2 s",
    "Compiling the sampler (once per machine, about 6 s) ... done in 6.5 s",
    "Compiling the model: Deterministics ... done in 1.0 s",
]


def test_a_terminal_shows_what_is_compiled_above_the_chains_and_closes_with_one_line(clock):
    stream = FakeStream()
    run = run_with_compilation(clock, stream)
    next(run)
    assert screen(stream.getvalue()) == NOTES[:2]
    next(run)
    lines = screen(stream.getvalue())
    assert lines[:3] == NOTES
    assert lines[-1].startswith("Sampling: 87 % of 2 chains (1 done)")
    assert list(run) == []
    lines = screen(stream.getvalue())
    assert lines[:3] == NOTES
    assert [line.split()[0] for line in lines[3:6]] == ["chain", "0", "1"]
    assert lines[6:] == [CLOSING]


def test_nothing_is_said_of_chains_while_something_is_compiled(clock):
    stream = FakeStream()
    with Progress(stream=stream) as progress:
        progress.compiling("sampler", None)
        clock.now += 60.0
    assert screen(stream.getvalue()) == [NOTES[1].removesuffix(" done in 6.5 s")]


def test_a_file_gets_a_line_for_each_compilation_and_the_closing_line(clock):
    stream = FakeStream(tty=False)
    with Progress(stream=stream) as progress:
        progress.compiling("gradient", None)
        assert stream.getvalue() == "Compiling the model: gradient ..."
        progress.compiling("gradient", 4.2)
        assert stream.getvalue() == NOTES[0] + "\n"
    stream = FakeStream(tty=False)
    assert len(list(run_with_compilation(clock, stream))) == 2
    assert stream.getvalue().splitlines() == [*NOTES, CLOSING]


def test_a_line_of_a_file_that_was_left_for_another_is_written_anew(clock):
    stream = FakeStream(tty=False)
    with Progress(stream=stream) as progress:
        progress.update([warmup(0)])
        progress.compiling("Deterministics", None)
        clock.now += 40.0
        progress.update([warmup(1000)])
        progress.compiling("Deterministics", 41.0)
        progress.finish(CLOSING)
    assert stream.getvalue().splitlines() == [
        "Compiling the model: Deterministics ...",
        "Sampling: 50 % of 1 chains (0 done), 0 diverging, 0:40 elapsed, 0:40 left",
        "Compiling the model: Deterministics ... done in 41.0 s",
        CLOSING,
    ]


def test_a_compilation_that_failed_is_not_said_to_be_done(clock):
    stream = FakeStream(tty=False)
    with Progress(stream=stream) as progress:
        progress.compiling("gradient", None)
        progress.compiling("gradient", float("nan"))
    assert stream.getvalue() == "Compiling the model: gradient ... stopped\n"


@pytest.mark.parametrize("columns", [1, 5, 20, 45, 72])
@pytest.mark.parametrize("rows", [1, 2, 3, 5, 8])
def test_notes_and_the_closing_line_fit_into_a_small_terminal(clock, monkeypatch, columns, rows):
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("LINES", str(rows))
    stream = FakeStream()
    for _ in run_with_compilation(clock, stream):
        lines = screen(stream.getvalue())
        assert len(lines) <= max(rows - 1, 1)
        assert max(map(len, lines)) <= max(columns - 1, 1)
    told = "".join(screen(stream.getvalue())).replace(" ", "")
    assert told.endswith(CLOSING.replace(" ", ""))  # wrapped, and not cut


def test_a_notebook_shows_notes_and_the_closing_line(clock, notebook):
    assert len(list(run_with_compilation(clock))) == 2
    pictures = [picture["text/html"] for picture in notebook]
    assert pictures[0] == "<div>Compiling the model: gradient ...</div>"
    assert not any("<table>" in picture for picture in pictures[:4])
    assert re.findall("<div>(.*?)</div>", pictures[-1]) == [*NOTES, CLOSING]
    assert notebook[-1]["text/plain"].splitlines() == [*NOTES, CLOSING]


def test_marimo_shows_the_same(clock, monkeypatch):
    shown = []
    marimo = types.ModuleType("marimo")
    marimo.running_in_notebook = lambda: True
    marimo.Html = lambda text: ("html", text)
    marimo.output = types.SimpleNamespace(replace=shown.append)
    monkeypatch.setitem(sys.modules, "marimo", marimo)
    assert len(list(run_with_compilation(clock))) == 2
    kinds, pictures = zip(*shown, strict=True)
    assert set(kinds) == {"html"}
    assert re.findall("<div>(.*?)</div>", pictures[-1]) == [*NOTES, CLOSING]
    assert "2000/2000" in pictures[-1]


def test_another_thread_reports_a_compilation_and_the_main_thread_draws_it(clock, notebook):
    with Progress() as progress:
        progress.update([warmup(0)])
        before = len(notebook)
        thread = threading.Thread(target=progress.compiling, args=("Deterministics", None))
        thread.start()
        thread.join()
        assert len(notebook) == before
        clock.now += 1.0
        progress.update([warmup(1)])
        assert "Deterministics ..." in notebook[-1]["text/html"]


def test_the_overall_time_counts_chains_that_wait_for_a_core(clock):
    stream = FakeStream()
    with Progress(stream=stream) as progress:
        waiting = [ChainProgress(0, 2000)] * 2
        progress.update([warmup(0), warmup(0), *waiting])
        clock.now += 10.0
        progress.update([warmup(500), warmup(500), *waiting])  # each takes 40 s
        assert screen(stream.getvalue())[-1].endswith("0:10 elapsed, 1:10 left")
        progress.update([finished(), finished(), *waiting])
        clock.now += 1.0  # now the other two
        progress.update([finished(), finished(), warmup(0), warmup(0)])
        clock.now += 9.0
        progress.update([finished(), finished(), warmup(1000), warmup(1000)])
        assert screen(stream.getvalue())[-1].endswith("0:20 elapsed, 0:09 left")


def test_the_examples_of_the_docstrings_run():
    result = doctest.testmod(live)
    assert result.attempted > 0
    assert result.failed == 0
