"""Real models on real data, in the manner of PyMC's example gallery.

    python efficiency.py --bench gallery --out results/gallery.csv

All free variables are scored; large Deterministics are left out, and no moments are known.
README.md in `../posteriors` says where the data come from.
"""

from __future__ import annotations

import choice_models
import group_models
import other_models
from posterior import collect

MODELS = collect(group_models, other_models, choice_models)
