"""MJHMC on a PyMC model, and beside nutpie and NUTS on two others: `make demo`.

Prints an ArviZ summary and the comparisons, and writes two pictures and a page to `demo/`.
"""

import logging
from pathlib import Path

import arviz as az
import matplotlib
import numpy as np
import pymc as pm

from mjhmc_numba.pymc import MJHMC, compare, report

matplotlib.use("Agg")
import matplotlib.pyplot as plt

FOLDER = Path("demo")
SEED = 2
NEXT = """
Where to go next:
  {page}                        a page about the last run, for your browser
  README.md                               your own model in six lines, and when to use another
  mjhmc_numba.pymc.sample(model=model)    instead of pm.sample()
  mjhmc_numba.pymc.compare(model)         the table above for your own model
  make paper QUICK=1                      the figures of the paper"""


def eight_schools(centred: bool) -> pm.Model:
    """Coaching effects in eight schools (Rubin 1981)."""
    effect = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
    error = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])
    with pm.Model(coords={"school": list("ABCDEFGH")}) as model:
        mu = pm.Normal("mu", 0, 5)
        tau = pm.HalfCauchy("tau", 5)
        if centred:
            theta = pm.Normal("theta", mu, tau, dims="school")
        else:
            z = pm.Normal("z", 0, 1, dims="school")
            theta = pm.Deterministic("theta", mu + tau * z, dims="school")
        pm.Normal("effect", theta, error, observed=effect, dims="school")
    return model


def hierarchical_regression() -> pm.Model:
    """Lines with an intercept and a slope for each of 12 groups, on data made here."""
    rng = np.random.default_rng(1)
    group = np.repeat(np.arange(12), 15)
    x = rng.normal(size=group.size)
    intercept, slope = rng.normal(1.0, 0.5, 12), rng.normal(-0.7, 0.3, 12)
    y = rng.normal(intercept[group] + slope[group] * x, 0.6)
    with pm.Model(coords={"group": np.arange(12), "coefficient": ["intercept", "slope"]}) as model:
        mean = pm.Normal("mean", 0, 2, dims="coefficient")
        spread = pm.HalfNormal("spread", 1, dims="coefficient")
        offset = pm.Normal("offset", 0, 1, dims=("coefficient", "group"))
        line = mean[:, None] + spread[:, None] * offset
        noise = pm.HalfNormal("noise", 1)
        pm.Normal("y", line[0, group] + line[1, group] * x, noise, observed=y)
    return model


def sample_with_step_method(model: pm.Model):
    """What you would write in your own notebook."""
    with model:
        return pm.sample(step=MJHMC(), chains=4, cores=2, random_seed=SEED)


def plot_agreement(data: dict, path: Path) -> None:
    """The posterior of eight schools by two samplers, as quantiles of each parameter."""
    levels = np.linspace(0.01, 0.99, 99)
    names = {"mu": "mu, the mean effect", "tau": "tau, the spread", "theta": "theta, school A"}
    figure, axes = plt.subplots(1, 3, figsize=(10, 3.4), layout="constrained")
    for ax, (name, label) in zip(axes, names.items(), strict=True):
        for sampler, style in (("nuts", {"lw": 4, "alpha": 0.35}), ("mjhmc", {"lw": 1.5})):
            draws = np.asarray(data[sampler]["posterior"][name])
            draws = draws.reshape(*draws.shape[:2], -1)[..., 0]
            ax.plot(np.quantile(draws, levels), levels, label=sampler.upper(), **style)
        ax.set_xlabel(label)
        ax.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("share of the draws below")
    axes[0].legend(frameon=False)
    figure.suptitle("Eight schools: the same posterior from both samplers")
    figure.savefig(path, dpi=120)


def plot_efficiency(comparisons: dict, path: Path) -> None:
    """Effective samples per gradient and per second, a row per model."""
    size = (10, 2.6 * len(comparisons))
    figure, axes = plt.subplots(len(comparisons), 2, figsize=size, layout="constrained")
    for row, (title, comparison) in zip(axes, comparisons.items(), strict=True):
        comparison.plot(ax=row)
        row[0].set_ylabel(title)
    figure.savefig(path, dpi=120)


def main() -> None:
    logging.getLogger("pymc").setLevel(logging.WARNING)
    FOLDER.mkdir(exist_ok=True)

    # Another model than those of the comparisons, so that each is compiled there by all samplers.
    print("Eight schools, written centred, with pm.sample(step=MJHMC()):\n")
    data = sample_with_step_method(eight_schools(centred=True))
    print(az.summary(data, var_names=["mu", "tau", "theta"]).to_string(), "\n")

    models = {
        "eight schools, non-centred": eight_schools(centred=False),
        "hierarchical regression": hierarchical_regression(),
    }
    comparisons = {}
    for title, model in models.items():
        print(f"Comparing MJHMC with nutpie and NUTS: {title} ...\n", flush=True)
        comparisons[title] = compare(model, cores=2, random_seed=SEED, quiet=True)
        print(f"{comparisons[title]}\n")
    print("The sampler itself was compiled above, once per machine.")

    plot_efficiency(comparisons, FOLDER / "efficiency.png")
    plot_agreement(comparisons["eight schools, non-centred"].data, FOLDER / "agreement.png")
    page = report(comparisons["hierarchical regression"].data["mjhmc"], FOLDER / "report.html")
    print(f"Pictures: {FOLDER / 'efficiency.png'}, {FOLDER / 'agreement.png'}")
    print(NEXT.format(page=page))


if __name__ == "__main__":
    main()
