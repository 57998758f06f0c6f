"""A pytest plugin: NUTS is PyMC's own. PyMC 6 would rather take nutpie where it is installed."""

from pymc.sampling import mcmc

if hasattr(mcmc, "NUTPIE_INSTALLED"):
    mcmc.NUTPIE_INSTALLED = False
