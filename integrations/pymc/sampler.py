"""MJHMC for ``pm.sample(sampler=...)``, as PyMC will have it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mjhmc_numba.pymc.drop_in import sample
from mjhmc_numba.settings import Settings, choose_settings

try:
    from pymc.sampling.samplers.base import Sampler as _Base
except ImportError:  # PyMC to 6.4
    _Base = object

__all__ = ["MJHMCSampler"]


class MJHMCSampler(_Base):
    """Whole chains in native code as a sampler for ``pm.sample(sampler=MJHMCSampler())``.

    It is made without a model; PyMC hands over the model and the arguments of the run. PyMC to 6.4
    has no `sampler`: 6.4 raises, and 5.28 ignores the argument and samples by NUTS. There, use
    `mjhmc_numba.pymc.sample`.

    Parameters
    ----------
    jitter : bool
        Start at random points near the initial values.
    compile_kwargs : mapping, optional
        Handed to PyTensor's compilation.
    settings : Settings, optional
        What not to tune; instead of `options`.
    **options
        The fields of `mjhmc_numba.Settings`; unknown ones raise.
    """

    def __init__(
        self,
        *,
        jitter: bool = True,
        compile_kwargs: Mapping[str, Any] | None = None,
        settings: Settings | None = None,
        **options: Any,
    ):
        self.settings = choose_settings(settings, options)
        self.jitter = jitter
        self.compile_kwargs = compile_kwargs

    def sample_from_init(
        self,
        *,
        model: Any = None,
        draws: int = 1000,
        tune: int | None = 1000,
        chains: int | None = None,
        cores: int | None = None,
        blas_cores: int | str | None = "auto",
        initvals: Mapping | Sequence | None = None,
        random_seed: Any = None,
        progressbar: bool = True,
        quiet: bool = False,
        discard_tuned_samples: bool = True,
        keep_warning_stat: bool = False,
        var_names: Sequence[str] | None = None,
        idata_kwargs: Mapping[str, Any] | None = None,
        compute_convergence_checks: bool = True,
    ) -> Any:
        """Sample the model; the arguments are those of `mjhmc_numba.pymc.sample`."""
        return sample(
            draws,
            tune,
            chains,
            model,
            cores=cores,
            blas_cores=blas_cores,
            initvals=initvals,
            random_seed=random_seed,
            progressbar=progressbar,
            quiet=quiet,
            discard_tuned_samples=discard_tuned_samples,
            keep_warning_stat=keep_warning_stat,
            var_names=var_names,
            idata_kwargs=idata_kwargs,
            compute_convergence_checks=compute_convergence_checks,
            jitter=self.jitter,
            compile_kwargs=self.compile_kwargs,
            settings=self.settings,
        )
