"""Posteriors with modes far apart, one of which has nearly all the mass: simulated data.

    python modes.py --bench several_modes

`MODELS[name]()` builds a model, and notes the parameters that its data were simulated with in
`TRUTH[name]`. They lie in the mode that has the mass; the other modes fit the data worse by tens
of units of log density, so that a chain which ends there is wrong, however well it mixes.
"""

from __future__ import annotations

import mixtures
import waves
from posterior import collect

MODELS = collect(mixtures, waves)
TRUTH = mixtures.TRUTH
