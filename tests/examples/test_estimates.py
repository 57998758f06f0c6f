"""The example of sharper means, what-if predictions and a Bayes factor."""

import re

import numpy as np
import pytest

from examples import estimates as example


@pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS:UserWarning")
def test_it_predicts_for_other_data_and_compares_two_models(capsys):
    example.main()
    text = capsys.readouterr().out
    found = re.search(r"curve against line: (\S+) \+- (\S+)", text)
    factor, error = float(found[1]), float(found[2])
    assert factor > 5 + 3 * error  # the data were made by a curve
    lines = [line for line in text.splitlines() if "response" in line]
    rows = {line[:24].strip(): line[24:].split() for line in lines}
    # Of the curve that made the data, at 10: 0.5 + 3 * 10 / 10.8, known to a posterior deviation.
    mean, sd = (float(value) for value in rows["response at 6, 10[1]"][:2])
    assert abs(mean - 3.278) < 4 * sd
    gain = float(rows["response at 6, 10[1]"][4])
    assert gain > 3
    assert 0 < float(rows["P(response at 10 > 3.4)"][0]) < 1


def test_what_if_leaves_the_data_of_the_model_alone():
    model = example.growth(np.linspace(0.1, 1.0, 5), np.ones(5), curved=True)
    before = model["dose"].get_value()
    with pytest.raises(AttributeError):
        example.what_if(None, model, np.array([2.0]))
    np.testing.assert_array_equal(model["dose"].get_value(), before)
