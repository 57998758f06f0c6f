"""Speed-up over workers here, what a chain costs its caller, and 1,000 workers by simulation.

python examples/benchmark/scaling.py          # measures, simulates, writes SCALING.md
python examples/benchmark/scaling.py --page   # the page again from the rows of results/

What is compared is measured in turn, several times, and the best of each counts. On a machine that
others use too, run it with a priority above theirs (`chrt -f 1 python ...`).
"""

import argparse
import csv
import heapq
import multiprocessing
import os
import pickle
import time
import warnings
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

import numpy as np
import problems
from measure import RESULTS, interleaved

import mjhmc_numba as mj
import mjhmc_numba.pymc as mp
from mjhmc_numba import targets
from mjhmc_numba.executors import Reports, Shipped
from mjhmc_numba.executors.reports import REPORT_SECONDS, _pack
from mjhmc_numba.progress import ChainProgress

PAGE = Path(__file__).resolve().parent / "SCALING.md"
NDIM = 20
RUN = {"draws": 200, "tune": 300, "seed": 1, "progress": False, "check_gradient": False}
CHAINS = 64
WORKERS = (1, 2)
REPEATS = 5
# Many chains on threads: name, chains, and what differs from RUN.
MANY = (
    ("1,000 short chains, pooled", 1000, {"draws": 100, "tune": 100, "warmup": "pooled"}),
    ("200 longer ones, pooled", 200, {"draws": 1000, "tune": 300, "warmup": "pooled"}),
    ("64, each its own warm-up", CHAINS, {}),
)
# Whole runs of small models: folder, name.
SMALL = (("posteriors", "kidscore_interaction"), ("gallery", "baseball"))
SIMULATED = (1, 2, 10, 100, 1000)
CHAIN_SECONDS = (0.01, 0.1, 1.0, 10.0, 60.0)


# ------------------------------------------------------------------------- measurements


def pool(kind: str, workers: int):
    if kind == "threads":
        return ThreadPoolExecutor(workers)
    return ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"))


def resident(pid: int) -> float:
    """Megabytes that a process holds in memory."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def speed_ups(target) -> list[dict]:
    """Seconds of many chains on 1 and 2 workers, with both warm-ups."""
    rows = []
    for kind in ("threads", "processes"):
        pools = [pool(kind, workers) for workers in WORKERS]
        firsts = [
            first_chains(target, executor, w) for executor, w in zip(pools, WORKERS, strict=True)
        ]
        for warmup in ("separate", "pooled"):
            found: dict[int, list[dict]] = {workers: [] for workers in WORKERS}
            for _ in range(REPEATS):
                for executor, workers, first in zip(pools, WORKERS, firsts, strict=True):
                    found[workers].append(one_run(target, executor, kind, workers, warmup, first))
            for workers in WORKERS:
                rows.append(min(found[workers], key=lambda row: row["seconds"]))
                rows[-1]["megabytes"] = max(row["megabytes"] for row in found[workers])
                print(rows[-1], flush=True)
        for executor in pools:
            executor.shutdown()
    return rows


def first_chains(target, executor, workers: int) -> float:
    """Seconds of a chain per worker: they start, import, and load machine code."""
    began = time.perf_counter()
    mj.sample(target, chains=workers, executor=executor, **RUN)
    return time.perf_counter() - began


def one_run(target, executor, kind, workers, warmup, first) -> dict:
    before = resident(os.getpid())
    began, cpu = time.perf_counter(), time.process_time()
    result = mj.sample(target, chains=CHAINS, executor=executor, warmup=warmup, **RUN)
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    return {
        "kind": kind,
        "workers": workers,
        "warmup": warmup,
        "first_seconds": first,
        "seconds": seconds,
        "caller_cpu": cpu,
        "gradients": sum(result.gradients.values()),
        "megabytes": resident(os.getpid()) - before,
        "output_megabytes": output_bytes(result) / 1e6,
        "worker_megabytes": max(map(resident, getattr(executor, "_processes", None) or [0]))
        if kind == "processes"
        else 0.0,
    }


def timed(action) -> dict[str, float]:
    began, cpu = time.perf_counter(), time.process_time()
    action()
    return {"seconds": time.perf_counter() - began, "cpu": time.process_time() - cpu}


def on_one_and_two_cores(action) -> dict[str, float]:
    """Best seconds and CPU seconds of `action(cores)`."""
    both = {f"{w}": lambda w=w: timed(lambda: action(w)) for w in WORKERS}
    runs = interleaved(both, REPEATS)  # type: ignore[arg-type]
    one, two = (runs[f"{workers}"] for workers in WORKERS)
    return {
        "seconds_1": min(run["seconds"] for run in one),
        "seconds_2": min(run["seconds"] for run in two),
        "cpu_1": min(run["cpu"] for run in one),
        "cpu_2": min(run["cpu"] for run in two),
    }


def many_chains(target) -> list[dict]:
    """What chains cost beside their gradients, on threads."""
    rows = []
    for name, chains, options in MANY:
        gradients, took = [], []

        def run(cores, chains=chains, options=options, gradients=gradients, took=took):
            result = mj.sample(target, chains=chains, cores=cores, **RUN | options)
            gradients.append(sum(result.gradients.values()) / chains)
            took.append(target.gradient_seconds)

        measured = on_one_and_two_cores(run)
        row = {"what": name, "chains": chains, "gradients": gradients[0]}
        rows.append(row | {"gradient_seconds": min(took)} | measured)
        print(rows[-1], flush=True)
    return rows


def whole_runs() -> list[dict]:
    """A whole run of 4 chains of a small PyMC model, once it is compiled."""
    rows = []
    for folder, name in SMALL:
        compiled = mp.compile(problems.bench_models(problems.folder(folder))[name]())

        def run(cores, compiled=compiled):
            compiled.sample(
                1000, tune=1000, chains=4, cores=cores, random_seed=1, progressbar=False
            )

        rows.append(
            {"model": name, "dimensions": compiled.density.ndim} | on_one_and_two_cores(run)
        )
        print(rows[-1], flush=True)
    return rows


def output_bytes(result) -> int:
    return result.draws.nbytes + sum(values.nbytes for values in result.stats.values())


def seconds_of(action, repeats: int = 200) -> float:
    """CPU seconds of one call."""
    began = time.process_time()
    for _ in range(repeats):
        action()
    return (time.process_time() - began) / repeats


def caller_costs(target) -> dict[str, float]:
    """CPU seconds that a chain on an executor costs its caller, and bytes that travel."""
    compiled = mj.as_target(target)
    shipped = Shipped((compiled, mj.Settings()))
    sent = pickle.dumps(shipped)
    result = mj.sample(target, chains=1, **RUN)
    arrays = [result.draws, *result.stats.values(), result.tuned, result.ends]
    received = pickle.dumps(arrays)
    with ThreadPoolExecutor(1) as executor, Reports(executor) as reports:
        report = _pack(0, 1, ChainProgress(1, 2))
        note = seconds_of(lambda: reports._note(report))
    return {
        "send_seconds": seconds_of(lambda: pickle.dumps(shipped)),
        "sent_bytes": len(sent),
        "receive_seconds": seconds_of(lambda: pickle.loads(received)),
        "received_bytes": len(received),
        "report_seconds": note,
    }


# --------------------------------------------------------------------------- simulation


def simulate(workers: int, chain_seconds: np.ndarray, costs: dict[str, float]) -> dict:
    """One caller, who sends and receives one chain at a time, and many workers.

    A worker starts once, takes the next chain in line when it is free, and its result waits until
    the caller takes it. Reports slow the caller by the share of time that they take.
    """
    busy = min(workers, len(chain_seconds)) / REPORT_SECONDS * costs["report_seconds"]
    slow = 1 / max(1 - busy, 1e-3)
    sent = np.arange(1, len(chain_seconds) + 1) * costs["send_seconds"] * slow
    free = [costs["start_seconds"]] * workers
    ended = []
    for ready, seconds in zip(sent, chain_seconds, strict=True):
        begin = max(heapq.heappop(free), ready)
        heapq.heappush(free, begin + seconds)
        ended.append(begin + seconds)
    clock = sent[-1]
    for end in sorted(ended):
        clock = max(clock, end) + costs["caller_seconds"] * slow
    return {
        "workers": workers,
        "chain_seconds": float(chain_seconds.mean()),
        "seconds": float(clock),
        "efficiency": float(chain_seconds.sum() / (workers * clock)),
        "reports_busy": busy,
    }


def simulations(costs: dict[str, float], chains: int = 1000) -> list[dict]:
    rng = np.random.default_rng(1)
    spread = rng.lognormal(-0.02, 0.2, size=chains)  # chains differ by a fifth
    return [
        simulate(workers, seconds * spread, costs)
        for seconds in CHAIN_SECONDS
        for workers in SIMULATED
    ]


# --------------------------------------------------------------------------------- page


def write_rows(name: str, rows: list[dict]) -> None:
    with (RESULTS / f"scaling_{name}.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def read_rows(name: str, prefix: str = "scaling_") -> list[dict]:
    with (RESULTS / f"{prefix}{name}.csv").open() as file:
        return [{key: _number(value) for key, value in row.items()} for row in csv.DictReader(file)]


def _number(text: str):
    try:
        return float(text)
    except ValueError:
        return text


def page() -> str:
    runs, (costs,), simulated = read_rows("runs"), read_rows("costs"), read_rows("simulated")
    many, whole = read_rows("many"), read_rows("whole")
    alone = {(r["kind"], r["warmup"]): r["seconds"] for r in runs if r["workers"] == 1}
    lines = [
        "# Scaling",
        "",
        "Written by `examples/benchmark/scaling.py`.",
        "",
        f"## Here: {CHAINS} chains of {RUN['tune']} + {RUN['draws']} draws, a {NDIM}-d Gaussian",
        "",
        (
            "| executor | workers | warm-up | seconds | speed-up | CPU of the caller, ms per chain "
            "| memory of the caller, MB (output) | of a worker, MB |"
        ),
        "|---|---|---|---|---|---|---|---|",
    ]
    for r in runs:
        gain = alone[r["kind"], r["warmup"]] / r["seconds"]
        lines.append(
            f"| {r['kind']} | {r['workers']:.0f} | {r['warmup']} | {r['seconds']:.2f} | {gain:.2f} "
            f"| {1e3 * r['caller_cpu'] / CHAINS:.2f} | {r['megabytes']:.0f} "
            f"({r['output_megabytes']:.1f}) | {r['worker_megabytes']:.0f} |"
        )
    lines += [
        "",
        (
            "The caller's CPU includes that of its threads. Seconds are wall time on a machine of "
            f"2 cores, the best of {REPEATS} runs with a priority above all others'."
        ),
        "",
        *on_threads(many, whole),
        *four_chains(read_rows("pooled_warmup", "")),
        "## What a chain costs its caller",
        "",
        "| what | cost |",
        "|---|---|",
        f"| to start a worker, import and load machine code | {costs['start_seconds']:.1f} s |",
        f"| all that the caller does per chain | {1e3 * costs['caller_seconds']:.2f} ms |",
        (
            f"| ... of which to pickle it | {1e3 * costs['send_seconds']:.3f} ms, "
            f"{costs['sent_bytes']:.0f} bytes |"
        ),
        (
            f"| ... and to unpickle its draws | {1e3 * costs['receive_seconds']:.3f} ms, "
            f"{costs['received_bytes'] / 1e3:.0f} kB |"
        ),
        (
            f"| to read a report ({1 / REPORT_SECONDS:.0f} per second and chain) "
            f"| {1e6 * costs['report_seconds']:.1f} us |"
        ),
        "",
        "## 1,000 chains on many workers, simulated with these costs",
        "",
        "Efficiency, the share of all workers' time that is spent in chains:",
        "",
        "| seconds of a chain | " + " | ".join(f"{w} workers" for w in SIMULATED) + " |",
        "|---" * (len(SIMULATED) + 1) + "|",
    ]
    for seconds in CHAIN_SECONDS:
        near = [r for r in simulated if abs(r["chain_seconds"] / seconds - 1) < 0.2]
        cells = [f"{r['efficiency']:.3f} ({r['seconds']:.1f} s)" for r in near]
        lines.append(f"| {seconds:g} | " + " | ".join(cells) + " |")
    lines += ["", "The simulation against what was measured, in a pool that was open already:", ""]
    lines += [*checked(runs, costs), "", *reasoning(runs, costs, simulated), ""]
    return "\n".join(lines)


def four_chains(rows: list[dict]) -> list[str]:
    """What `pooled_warmup.py` has measured."""
    lines = [
        "## Four chains: a warm-up for each, or one for all",
        "",
        (
            f"Effective draws of the worst variable per 1,000 gradients, {rows[0]['model']}, "
            f"{rows[0]['seeds']:.0f} seeds, 1000 + 1000 draws: median and range "
            "(`pooled_warmup.py`)."
        ),
        "",
        "| warm-up | after it | with it |",
        "|---|---|---|",
    ]
    for r in rows:
        cells = (
            f"{r[name]:.0f} ({r[f'least_{name}']:.0f} to {r[f'most_{name}']:.0f})"
            for name in ("after", "in_all")
        )
        lines.append(f"| {r['warmup']} | {' | '.join(cells)} |")
    return [*lines, "", *FOUR.strip().splitlines(), ""]


def on_threads(many: list[dict], whole: list[dict]) -> list[str]:
    """Tables of many chains on threads, and of whole runs of small models."""
    lines = [
        f"## Many chains on threads, the same {NDIM}-d Gaussian",
        "",
        (
            "| what | gradients per chain | us per gradient in the kernel "
            "| ms per chain in the kernel | CPU, ms per chain | on 2 threads "
            "| wall time on 2 threads / on 1 |"
        ),
        "|---|---|---|---|---|---|---|",
    ]
    for r in many:
        kernel = r["gradients"] * r["gradient_seconds"]
        lines.append(
            f"| {r['what']} ({RUN_OF[r['what']]}) | {r['gradients']:.0f} "
            f"| {1e6 * r['gradient_seconds']:.2f} | {1e3 * kernel:.2f} "
            f"| {1e3 * r['cpu_1'] / r['chains']:.2f} | {1e3 * r['cpu_2'] / r['chains']:.2f} "
            f"| {r['seconds_2'] / r['seconds_1']:.2f} |"
        )
    lines += [
        "",
        "Whole runs of 4 chains of 1000 + 1000 draws of a small PyMC model, once it is compiled:",
        "",
        "| model | dimensions | s on one core | on two | two / one (bar: 0.6) |",
        "|---|---|---|---|---|",
    ]
    for r in whole:
        lines.append(
            f"| {r['model']} | {r['dimensions']:.0f} | {r['seconds_1']:.3f} | {r['seconds_2']:.3f} "
            f"| {r['seconds_2'] / r['seconds_1']:.2f} |"
        )
    return [*lines, "", *THREADS.strip().splitlines(), ""]


def checked(runs: list[dict], costs: dict) -> list[str]:
    """Measured seconds beside those that the simulation gives for the same run."""
    rows = [r for r in runs if r["kind"] == "processes" and r["warmup"] == "separate"]
    alone = next(r["seconds"] for r in rows if r["workers"] == 1)
    chain = alone / CHAINS - costs["caller_seconds"]
    lines = ["| workers | measured, s | simulated, s |", "|---|---|---|"]
    for r in rows:
        open_pool = costs | {"start_seconds": 0.0}
        simulated = simulate(int(r["workers"]), np.full(CHAINS, chain), open_pool)
        lines.append(f"| {r['workers']:.0f} | {r['seconds']:.2f} | {simulated['seconds']:.2f} |")
    return lines


RUN_OF = {
    name: f"{(RUN | options)['tune']} + {(RUN | options)['draws']} draws"
    for name, _, options in MANY
}
FOUR = """
For four chains the pilots cost more than what their better settings bring, and the settings of one
scatter as much as those of four: `warmup="separate"` stays the default.
"""
THREADS = """
All that is not in the kernel is Python, which runs one thread at a time: threads speed up what the
kernel does, and no more. Small chains take turns in Python, so that they do not hand it to each
other at every sum (that cost 1.35 to 1.8 times the time on one core). Where chains are short and
gradients cheap, processes scale and threads do not.
"""
REASONING = """
- **Start**: {start_seconds:.1f} s per worker. It is most of what runs of short
  chains take; a pool that stays open pays it once. That 1,000 processes which import at once wait
  for a shared file system is not in the simulation.
- **Stragglers**: with a chain per worker the run takes as long as its longest chain. In the
  simulation chains differ by a fifth (standard deviation of the logarithm), so the longest of
  1,000 takes about 1.9 times the mean: efficiency {last:.2f} with chains of a minute. More chains
  than workers help.
- **The caller** takes {caller_ms:.2f} ms of CPU per chain, so {per_second:.0f} chains per second:
  {all_chains:.1f} s for 1,000. One caller keeps 1,000 workers busy if chains take longer than that.
- **Reports** of 1,000 running chains take {reports:.1f} % of the caller's time.
- **Memory** breaks first: the caller holds all of the output, {kilobytes:.0f} kB per chain here and
  1 GB for 1,000 chains of 1,000 draws in 100 dimensions. Let each chain write a file (`run_chain`,
  `combine`), or keep fewer draws.
- **A pooled warm-up** has two rounds; while pilots run, the other workers wait. It pays where
  workers have many chains each: {cpu_ratio:.1f} times less CPU per chain on two threads here.
"""


def reasoning(runs: list[dict], costs: dict, simulated: list[dict]) -> list[str]:
    threads = {r["warmup"]: r["caller_cpu"] for r in runs if r["kind"] == "threads"}
    text = REASONING.format(
        start_seconds=costs["start_seconds"],
        last=simulated[-1]["efficiency"],
        caller_ms=1e3 * costs["caller_seconds"],
        per_second=1 / costs["caller_seconds"],
        all_chains=1000 * costs["caller_seconds"],
        reports=100 * simulated[-1]["reports_busy"],
        kilobytes=costs["received_bytes"] / 1e3,
        cpu_ratio=threads["separate"] / threads["pooled"],
    )
    return text.strip().splitlines()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--page", action="store_true", help="write the page from stored rows")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    if not given.page:
        target = targets.gaussian(np.linspace(0.5, 2.0, NDIM))
        runs = speed_ups(target)
        costs = caller_costs(target)
        apart = [r for r in runs if r["kind"] == "processes"]
        costs["start_seconds"] = min(r["first_seconds"] for r in apart)
        # All that the caller does: its pool's pipes, watching, collecting and diagnosing too.
        costs["caller_seconds"] = min(r["caller_cpu"] for r in apart) / CHAINS
        write_rows("runs", runs)
        write_rows("many", many_chains(mj.as_target(target)))
        write_rows("whole", whole_runs())
        write_rows("costs", [costs])
        write_rows("simulated", simulations(costs))
    PAGE.write_text(page())


if __name__ == "__main__":
    main()
