"""How much better a chain could move: a random search over motions, its coordinates frozen.

    python motion_search.py [--bench gallery --models rugby,baseball] [--tries 60]

One chain is warmed up as always. Its coordinates (metric and reparametrisation) stay; motions are
drawn at random: integrator, step size, path length, rungs, draws per path, partial refresh, path
jitter. Each makes four short chains that begin where the warm-up of four chains ended. The BEST by
effective samples per gradient are confirmed by longer runs with other seeds, as is the motion that
the warm-up chose; what was found by luck is lost there.

The search goes by the geometric mean of two efficiencies: of the smaller of bulk and tail, and of
squares. Each of them alone has a row too: the best confirmed motion by it.

Rows go to results/motion_search.csv, in the place of those with the same model and seed.
"""

from __future__ import annotations

import argparse
import math
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
import problems
from effective import ess
from efficiency import text
from measure import RESULTS
from per_second import alone, keep_row

import mjhmc_numba as mj
from mjhmc_numba.coordinates import Draws
from mjhmc_numba.density import as_target
from mjhmc_numba.process import Process, random_words
from mjhmc_numba.stats import COLUMN
from mjhmc_numba.tuned import INTEGRATORS, Tuned
from mjhmc_numba.warmup.metric import slowest_scale
from mjhmc_numba.warmup.recipe import RECIPE

TARGETS = [
    "eight_schools_noncentered",
    "garch11",
    "mesquite",
    "arK",
    "sblrc",
    "hier_logistic",
    "low_dim_gauss_mix",
    "kidscore_interaction",
    "nes2000",
    "student_t_20",
]
KEY = ("model", "seed", "what")
COLUMNS = [
    *KEY,
    "tries",
    "ess_per_1000",
    "squares_per_1000",
    "both_per_1000",
    "acceptance",
    "integrator",
    "step_size",
    "num_steps",
    "rungs",
    "draw_interval",
    "refresh_alpha",
    "refresh_jitter",
    "cpu_seconds",
]
BEST = 6  # motions that are confirmed
SEARCH_DRAWS, CONFIRM_DRAWS = 400, 1000  # per chain
SEEDS = range(4)  # of the confirmation
MOST_GRADIENTS = 300  # per draw of a motion that is tried
# What is drawn: acceptances that a step is made for, angles of a path in the slowest direction.
ACCEPTANCES, PATHS = (0.6, 0.97), (0.25, 2.2)
TURNS = 0.15, math.pi / 2  # of the harmonic integrator, a step
ALPHAS = 0.0, 0.0, 0.2, 0.4, 0.55, 0.7, 0.8
JITTERS = 0.0, 0.0, 0.3
RUNGS = 1, 2, 3, 4, 6
DRAWS_PER_PATH = 1.0, 1.0, 2.0, 0.5


class Motion(NamedTuple):
    """What a chain runs with beside its coordinates."""

    tuned: Tuned
    jitter: float = 0.0

    @property
    def row(self) -> dict:
        names = ("integrator", "step_size", "num_steps", "draw_interval", "refresh_alpha")
        row = {name: getattr(self.tuned, name) for name in names}
        row["rungs"] = round(1.0 / self.tuned.refresh_rate)
        return row | {"refresh_jitter": self.jitter}


class Worth(NamedTuple):
    """Effective samples per 1000 gradients."""

    ess: float
    squares: float
    acceptance: float

    @property
    def both(self) -> float:
        return math.sqrt(self.ess * self.squares)


class Frozen:
    """A warmed-up chain whose coordinates stay, and four places to start from."""

    def __init__(self, problem: problems.Problem, seed: int):
        _, self.result = problem.mjhmc(seed, 300, 1000)
        self.problem, self.chosen = problem, Motion(self.result.tuned[0])
        tuned = self.chosen.tuned
        self.target = as_target(problem.target())
        self.process = self._process(self.chosen, 0, 0)
        x = self.result.draws[0, ::3]
        known = [self.process.evaluate(point) for point in x]
        draws = Draws(x, np.array([d.grad for d in known]), np.array([d.logp for d in known]))
        self.points = draws.to(tuned.reparametrisation)
        scale = slowest_scale(tuned.metric, self.points.x, self.points.grad)
        self.slowest = max(scale, RECIPE.shortest_scale)

    def _process(self, motion: Motion, seed: int, chain: int) -> Process:
        words = random_words(np.random.SeedSequence([seed, chain]))
        settings = mj.Settings(refresh_jitter=motion.jitter)
        process = Process(self.target, settings, motion.tuned, words)
        process.start(self.result.draws[chain, -1])
        return process

    def worth(self, motion: Motion, seed: int, draws: int) -> Worth:
        """Of four chains with a motion."""
        made, rates, gradients = [], [], 0
        for chain in range(problems.CHAINS):
            process = self._process(motion, seed, chain)
            rows = np.empty((draws, self.problem.dim)), np.empty((draws, len(COLUMN)))
            process.run(*rows)
            made.append(rows[0])
            rates.append(np.nanmean(rows[1][:, COLUMN["acceptance_rate"]]))
            gradients += process.progress().gradients
        x = self.problem.scored(np.array(made))
        squares = ess((x - x.mean(axis=(0, 1))) ** 2, "bulk").min()
        worst = min(ess(x, "bulk").min(), ess(x, "tail").min())
        per = 1000.0 / gradients
        return Worth(per * worst, per * squares, float(np.mean(rates)))

    def step_for(self, integrator: str, acceptance: float) -> float:
        """The step size at which single steps are accepted so often, by halving an interval."""
        self.process.configure(self.chosen.tuned.replace(integrator=integrator))
        low, high = math.log(1e-3), math.log(20.0)
        for _ in range(12):
            middle = (low + high) / 2
            errors, _ = self.process.probe(self.points, integrator, math.exp(middle))
            accepted = np.exp(-np.maximum(np.nan_to_num(errors, nan=np.inf), 0.0)).mean()
            low, high = (middle, high) if accepted > acceptance else (low, middle)
        return math.exp(low)

    def random_motion(self, rng: np.random.Generator) -> Motion:
        """A motion that does not cost more than MOST_GRADIENTS per draw."""
        integrator = str(rng.choice(["leapfrog", "two_stage", "three_stage", "harmonic"]))
        stages = INTEGRATORS[integrator][0]
        angle = math.exp(rng.uniform(*np.log(PATHS)))
        if integrator == "harmonic":
            step = math.exp(rng.uniform(*np.log(TURNS)))
            steps = max(1, round(angle / step))
        else:
            step = self.step_for(integrator, rng.uniform(*ACCEPTANCES))
            steps = max(1, round(angle * self.slowest / (step * stages)))
        rungs = min(int(rng.choice(RUNGS)), steps)
        num_steps = max(1, round(steps / rungs))
        tuned = self.chosen.tuned.replace(
            integrator=integrator,
            step_size=step,
            num_steps=num_steps,
            refresh_rate=1.0 / rungs,
            draw_interval=rungs / float(rng.choice(DRAWS_PER_PATH)),
            refresh_alpha=float(rng.choice(ALPHAS)),
        )
        motion = Motion(tuned, float(rng.choice(JITTERS)))
        return motion if tuned.gradients_per_draw <= MOST_GRADIENTS else self.random_motion(rng)


def mean(several: list[Worth]) -> Worth:
    """Geometric over the seeds, as everywhere on the page."""
    logs = np.log(np.maximum(np.array(several), 1e-9))
    return Worth(*map(float, np.exp(logs.mean(axis=0))))


def search(frozen: Frozen, tries: int, seconds: float) -> tuple[list[Motion], int]:
    """The best motions of a random search, and how many were tried."""
    rng, ends = np.random.default_rng(1), time.process_time() + seconds
    found: list[tuple[float, int, Motion]] = []
    for k in range(tries):
        if time.process_time() > ends:
            break
        motion = frozen.random_motion(rng)
        found.append((frozen.worth(motion, 100 + k, SEARCH_DRAWS).both, k, motion))
    best = sorted(found, key=lambda entry: (entry[0], entry[1]), reverse=True)[:BEST]
    return [motion for *_, motion in best], len(found)


def rows_of(problem: problems.Problem, seed: int, arguments) -> list[dict]:
    """What was chosen, and the best of what was found by each measure."""
    began = time.process_time()
    frozen = Frozen(problem, seed)
    candidates, tried = search(frozen, arguments.tries, arguments.seconds)
    runs = {
        motion: mean([frozen.worth(motion, 900 + k, CONFIRM_DRAWS) for k in SEEDS])
        for motion in (frozen.chosen, *candidates)
    }
    base = {"model": problem.name, "seed": str(seed), "tries": tried}
    base["cpu_seconds"] = time.process_time() - began
    picks = {"chosen": frozen.chosen}
    for what in ("both", "ess", "squares"):
        picks[f"best {what}"] = max(runs, key=lambda motion: getattr(runs[motion], what))
    rows = []
    for what, motion in picks.items():
        worth = runs[motion]
        rows.append(base | {"what": what} | motion.row)
        rows[-1] |= {"ess_per_1000": worth.ess, "squares_per_1000": worth.squares}
        rows[-1] |= {"both_per_1000": worth.both, "acceptance": worth.acceptance}
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    problems.add_folder(parser)
    parser.add_argument("--models", help="names, separated by commas")
    parser.add_argument("--seeds", default="401")
    parser.add_argument("--tries", type=int, default=60)
    parser.add_argument("--seconds", type=float, default=60.0, help="CPU seconds of a search")
    parser.add_argument("--out", type=Path, default=RESULTS / "motion_search.csv")
    arguments = parser.parse_args()
    usual = ",".join(TARGETS) if arguments.bench == problems.POSTERIORS else None
    for name in problems.choose(arguments.models or usual, arguments.bench):
        problem = problems.load(name, arguments.bench)
        problem.compile("mjhmc")
        for seed in map(int, arguments.seeds.split(",")):
            for row in rows_of(problem, seed, arguments):
                shown = {column: text(row[column]) for column in COLUMNS}
                with alone(arguments.out):
                    keep_row(arguments.out, shown, KEY)
                print(shown, flush=True)


if __name__ == "__main__":
    main()
