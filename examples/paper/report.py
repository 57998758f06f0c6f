"""README.md from README.template.md and the CSV files: no number on the page is typed.

In the template ``{{figure.key}}`` is a number of the figure's `claims`, ``{{figure.key:2}}`` the
same with two digits, ``{{table figure}}`` a table and ``{{verdict name}}`` one of the verdicts
below.
"""

from __future__ import annotations

import importlib
import math
import re
from numbers import Rational
from pathlib import Path

import numpy as np

from examples.paper.common import FIGURES, HERE, markdown, number, only, read_csv
from examples.paper.spectral_gap import HALF_ORDER


def write(place: Path, *, partial: bool = False) -> None:
    """Write the page into the folder `place`, beside its results and figures.

    If it is `partial`, as after a quick run, a number that was not computed is said to be so;
    otherwise it is an error.
    """
    try:
        claims = {name: _claims(name, place / "results") for name in FIGURES}
    except FileNotFoundError as missing:
        print(f"No page yet: {Path(missing.filename).name} is missing. Run the other figures.")
        return
    text = (HERE / "README.template.md").read_text()
    page = re.sub(r"\{\{(.+?)\}\}", lambda match: _filled(match[1], claims, place, partial), text)
    (place / "README.md").write_text(page)


def _claims(name: str, results: Path) -> dict:
    return importlib.import_module(f"examples.paper.{name}").claims(results)


def _filled(request: str, claims: dict, place: Path, partial: bool) -> str:
    if request.startswith("table "):
        return TABLES[request.removeprefix("table ")](place / "results")
    if request.startswith("verdict "):
        return verdicts(claims)[request.removeprefix("verdict ")]
    name, digits = request.split(":") if ":" in request else (request, "3")
    figure, key = name.split(".", 1)
    if partial and key not in claims[figure]:
        return "(not run)"
    value = claims[figure][key]
    exact = isinstance(value, (Rational, np.integer, str))
    return str(value) if exact else number(float(value), int(digits))


# -------------------------------------------------------------------- verdicts


def _ahead(one: float, one_error: float, other: float, other_error: float) -> int:
    """+1 if one is larger by more than two standard errors, -1 if smaller, else 0."""
    z = (one - other) / math.hypot(one_error, other_error)
    return 0 if abs(z) < 2 else int(math.copysign(1, z))


def verdicts(claims: dict) -> dict[str, str]:
    """What has become of the paper's claims, decided by the numbers."""
    gap, well = claims["spectral_gap"], claims["rough_well"]
    half = _ahead(gap["gap_real"], gap["gap_real_error"], HALF_ORDER, 0.0)
    faster = _ahead(gap["gap_real"], gap["gap_real_error"], 1.0, 0.0)
    experts = claims["experts"]
    kinds = ("ess_mean_ratio", "ess_square_ratio")
    poe = {_ahead(experts[kind], experts[f"{kind}_error"], 1.0, 0.0) for kind in kinds}
    words = {1: "**holds**", 0: "**undecided** within two standard errors", -1: "**fails**"}
    out = {
        "gap_faster": words[faster],
        "gap_half": words[1 if half >= 0 else -1],
        "experts": "**holds in part**" if 1 in poe and len(poe) > 1 else words[min(poe)],
    }
    for period in (8, 4):
        for choice in ("published", "reoptimised"):
            keys = [f"{choice}_{sampler}_{period}" for sampler in ("MJHMC", "HMC")]
            if keys[0] in well:
                # MJHMC by its better estimate, the weighted one.
                one, other = f"{keys[0]}_weighted", keys[1]
                numbers = [well[key + end] for key in (one, other) for end in ("", "_error")]
                out[f"{choice}_{period}"] = words[_ahead(*numbers)]
            else:
                out[f"{choice}_{period}"] = "not run"
        best, nuts = f"reoptimised_MJHMC_{period}_weighted", f"self-tuned_NUTS_{period}"
        if best in well and nuts in well:
            numbers = [well[key + end] for key in (best, nuts) for end in ("", "_error")]
            out[f"nuts_{period}"] = words[_ahead(*numbers)]
        else:
            out[f"nuts_{period}"] = "not run"
    return out


# ---------------------------------------------------------------------- tables


def _rough_well(results: Path) -> str:
    names = {"HMC": "control HMC", "default": "this package's default"}
    rows = []
    for row in read_csv(results / "rough_well_ess.csv"):
        weighted = f"{row['weighted_ess_per_1000']:.3f} ± {row['weighted_error']:.3f}"
        rows.append(
            {
                "period": row["period"],
                "settings": row["settings"].replace("reopt", "re-opt"),
                "sampler": names.get(row["sampler"], row["sampler"]),
                "by system time": f"{row['ess_per_1000']:.3f} ± {row['ess_error']:.3f}",
                "weighted": "" if math.isnan(row["weighted_error"]) else weighted,
            }
        )
    return markdown(rows)


def _search(results: Path) -> str:
    rows = []
    for row in read_csv(results / "search_best.csv"):
        visits = row["by_visits"]
        rows.append(
            {
                "period": row["period"],
                "search": row["search"],
                "ε": number(row["step_size"]),
                "β": number(row["beta"]),
                "M": row["num_steps"],
                "−Re(r) found": number(-row["objective"]),
                "again, by system time": number(-row["by_time"]),
                "again, by visits": "" if math.isnan(visits) else number(-visits),
            }
        )
    return markdown(rows)


def _experts(results: Path) -> str:
    rows = []
    for row in read_csv(results / "experts_ess.csv"):
        rows.append(
            {
                "sampler": row["sampler"],
                "ε": number(row["step_size"]),
                "M": row["num_steps"],
                "refresh rate or probability": number(row["refresh"]),
                "means": _with_error(row, "ess_mean"),
                "squares": _with_error(row, "ess_square"),
            }
        )
    return markdown(rows)


def _other_targets(results: Path) -> str:
    from examples.paper.other_targets import LABELS, NAMES

    rows = read_csv(results / "other_targets.csv")
    present = [name for name in NAMES if any(row["sampler"] == name for row in rows)]
    table = []
    for target in dict.fromkeys(row["target"] for row in rows):
        for key, what in (("ess_mean", "means"), ("ess_square", "squares")):
            line = {"target": LABELS[target], "of the": what}
            for sampler in present:
                row = only(rows, target=target, sampler=sampler)
                line[NAMES[sampler]] = _with_error(row, key)
            table.append(line)
    return markdown(table)


def _gap(results: Path) -> str:
    from examples.paper.spectral_gap import NAMES, QUANTITIES

    rows = read_csv(results / "spectral_gap.csv")
    large = max(row["rungs"] for row in rows)
    odd = max(row["rungs"] for row in rows if row["rungs"] % 2)
    heads = ("gap by real part", "gap by modulus", "variance × steps", "variance × rungs")
    table = []
    for sampler in ("sqrt", "metropolis", "barker"):
        line = {"sampler": NAMES[sampler]}
        for quantity, head in zip(QUANTITIES, heads, strict=True):
            size = odd if quantity == "gap_modulus" else large
            row = only(rows, rungs=size, sampler=sampler, quantity=quantity)
            line[f"{head}, {size} rungs"] = f"{row['ratio']:.3f} ± {row['ratio_error']:.3f}"
        table.append(line)
    return markdown(table)


def _with_error(row, key: str) -> str:
    return f"{number(row[key], 2)} ± {number(row[f'{key}_error'], 1)}"


TABLES = {
    "rough_well": _rough_well,
    "search": _search,
    "experts": _experts,
    "other_targets": _other_targets,
    "spectral_gap": _gap,
}
