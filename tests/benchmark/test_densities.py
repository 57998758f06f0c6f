"""The machine code of every model of the folders computes what PyTensor computes without Numba."""

import numpy as np
import pymc as pm
import pytest
from pytensor.compile.mode import Mode

from mjhmc_numba.pymc.density import ModelDensity
from tests.benchmark.programs import PROGRAMS, importable

PLAIN = Mode(linker="py", optimizer="fast_compile")  # each operation in Python, as written
with importable():
    import problems

    MODELS = {
        name: entry
        for folder in ("posteriors", "gallery", "case_studies")
        for name, entry in problems.bench_models(PROGRAMS / folder).items()
    }


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")  # of models, which say what they like
@pytest.mark.parametrize("name", MODELS)
def test_log_density_and_gradient_are_those_of_pytensor(name):
    model: pm.Model = MODELS[name]()
    density = ModelDensity(model)
    plain = model.logp_dlogp_function(
        density.value_vars, ravel_inputs=True, initial_point=model.initial_point(), mode=PLAIN
    )
    plain.set_extra_values({})
    rng = np.random.default_rng(1)
    start = density.layout.ravel(model.initial_point())
    for scale in (0.0, 0.1, 0.3):
        x = start + scale * rng.normal(size=density.ndim)
        logp, grad = density.logp_and_grad(x)
        wanted_logp, wanted_grad = plain(x)
        assert logp == pytest.approx(float(wanted_logp), rel=1e-9)
        size = 1.0 + np.abs(wanted_grad).max()  # sums of large terms may cancel
        np.testing.assert_allclose(grad, wanted_grad, rtol=1e-7, atol=1e-9 * size)
