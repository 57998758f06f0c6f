"""Posteriors in the manner of well-known case studies, with data simulated from fixed seeds.

    python efficiency.py --bench case_studies

`MODELS[name]()` builds a model; its data are the same in every installation. There are no reference
moments. Rules of the warm-up were compared on some of them (see the remarks of RESULTS.md).
"""

from __future__ import annotations

import generalised_models
import hierarchical_models
import latent_models
import mechanistic_models
import regression_models
from posterior import collect

MODELS = collect(
    hierarchical_models, regression_models, generalised_models, latent_models, mechanistic_models
)
