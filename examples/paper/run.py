"""The paper's figures: numbers into CSV files, pictures from these, and the page about them.

python examples/paper/run.py [--quick] [--plot] [figure ...]
"""

from __future__ import annotations

import argparse
import importlib
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))  # run as a program, from wherever


def main() -> None:
    from examples.paper import report
    from examples.paper.common import FIGURES, parameters

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("figures", nargs="*", metavar="figure", help=", ".join(FIGURES))
    parser.add_argument("--quick", action="store_true", help="smaller runs, into quick/")
    parser.add_argument("--plot", action="store_true", help="draw again from the CSV files alone")
    arguments = parser.parse_args()
    unknown = set(arguments.figures) - set(FIGURES)
    if unknown:
        parser.error(f"no figure {', '.join(sorted(unknown))}; there are {', '.join(FIGURES)}")
    place = HERE / "quick" if arguments.quick else HERE
    for name in arguments.figures or FIGURES:
        module = importlib.import_module(f"examples.paper.{name}")
        began = time.perf_counter()
        if not arguments.plot:
            module.compute(parameters(name, arguments.quick), place / "results")
        module.draw(place / "results", place / "figures")
        print(f"{name}: {time.perf_counter() - began:.0f} s", flush=True)
    report.write(place, partial=arguments.quick)


if __name__ == "__main__":
    main()
