"""The command line: `mjhmc-numba warm` compiles the sampler ahead, for images and clusters."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from mjhmc_numba.kernel.store import cache_folder
from mjhmc_numba.kernel.waiting import watched
from mjhmc_numba.process import Process
from mjhmc_numba.progress import Progress

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns its exit code."""
    parser = argparse.ArgumentParser(prog="mjhmc-numba", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("warm", help="compile the sampler, so that the first run need not")
    parser.parse_args(arguments)
    with Progress(stream=sys.stdout) as display, watched(display.compiling):
        Process.compile_kernel()
    folder = cache_folder()
    if folder is None:
        print("There is no folder that it can be kept in: every process compiles it.")
        return 1
    print(f"The sampler is ready in {folder}")
    return 0
