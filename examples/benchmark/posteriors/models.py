"""Posteriors whose moments are known: of posteriordb, and synthetic ones.

`MODELS[name]()` builds a model. Those of posteriordb state the same posterior as the Stan program
of that name: the same parameters, priors and likelihood, flat where Stan's is flat. All build under
PyMC 5.28 and 6.3. README.md says where data and references come from.
"""

from __future__ import annotations

import hierarchies
import regressions
import synthetic
import time_series
from posterior import collect

MODELS = collect(regressions, hierarchies, time_series, synthetic)
