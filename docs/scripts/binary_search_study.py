"""How often, and by how much, does the paper's binary search miss the best strength?

Exact curves of real models on scikit-learn's own data, made long-tailed, against the searches::

    python docs/scripts/binary_search_study.py            # run, then render; about a minute
    python docs/scripts/binary_search_study.py --render   # page and figure from the run file

The run file keeps the configuration, the versions and one row per curve; every number and the
figure of ``docs/binary-search-study.md`` come from it.
"""

from __future__ import annotations

import argparse
import json
import platform
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import sklearn
from sklearn.datasets import load_breast_cancer, load_digits, load_wine, make_classification
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import reprior as rp

Vector: TypeAlias = np.ndarray[Any, Any]
Run: TypeAlias = dict[str, Any]

DOCS = Path(__file__).resolve().parents[1]
PAGE = DOCS / "binary-search-study.md"
RUN_FILE = DOCS / "results" / "binary-search-study.json"
FIGURE = DOCS / "figures" / "binary-search-study.svg"

#: Two values of a metric that are closer than this are one value: the profile's are multiples
#: of 2**-50, and no validation set of this study can tell 1e-9 apart.
EQUAL = 1e-9

#: A search that ends needs a dozen calls. One that makes this many does not end.
PATIENCE = 200

#: The printed algorithm leaves [0, 2]: it is given a profile of all that it can ask for.
WIDE = (-10.0, 10.0 + PATIENCE)

#: A class keeps at least this many samples, however steep the tail.
FEWEST = 2

#: The synthetic data has a validation set that the real ones are too small for: it shows what
#: is left of the trouble when steps are fine.
DATASETS: dict[str, Callable[[], tuple[Vector, Vector]]] = {
    "digits": lambda: load_digits(return_X_y=True),
    "wine": lambda: load_wine(return_X_y=True),
    "breast_cancer": lambda: load_breast_cancer(return_X_y=True),
    "synthetic": lambda: make_classification(
        20_000, n_informative=10, n_classes=10, n_clusters_per_class=1, random_state=0
    ),
}

#: Share of a dataset to train on, and no more samples than this.
TRAIN_SHARE, MOST_TO_TRAIN = 0.4, 2_000

MODELS: dict[str, Callable[[int], Any]] = {
    "logistic regression": lambda _: make_pipeline(
        StandardScaler(), LogisticRegression(max_iter=2000)
    ),
    "random forest": lambda seed: RandomForestClassifier(100, random_state=seed),
    "gradient boosting": lambda seed: GradientBoostingClassifier(
        n_estimators=50, max_depth=2, max_features="sqrt", random_state=seed
    ),
    "naive Bayes": lambda _: GaussianNB(),
}


@dataclass(frozen=True)
class Config:
    """What is run. Seeds draw the split, the order of the classes, the tail and the model."""

    datasets: tuple[str, ...] = tuple(DATASETS)
    models: tuple[str, ...] = tuple(MODELS)
    metrics: tuple[str, ...] = ("balanced_accuracy", "macro_f1", "mean_iou", "accuracy")
    ratios: tuple[float, ...] = (5.0, 20.0, 100.0)
    mixes: tuple[str, ...] = ("even", "long-tailed")
    seeds: tuple[int, ...] = (0, 1, 2, 3)
    low: float = 0.0
    high: float = 2.0
    precision: float = 0.1


class Sample(NamedTuple):
    """Features and labels."""

    x: Vector
    y: Vector


@dataclass(frozen=True)
class Row:
    """One curve. Losses are in points (hundredths), on the tuning labels unless it says test."""

    dataset: str
    ratio: float
    seed: int
    model: str
    mix: str
    metric: str
    n_tune: int
    concave: bool
    unimodal: bool
    strict: bool
    grid_loss: float
    exact_loss: float
    grid_exact_loss: float
    test_loss: float
    n_evaluations: int
    printed_ends: bool


# -------------------------------------------------------------------- the algorithm as printed


class DoesNotEndError(Exception):
    """The printed algorithm made more calls than patience allows."""


def printed_search(metric: Callable[[float], float], *, patience: int = PATIENCE) -> float:
    """Transcribe Algorithm 2 of the paper, line by line and in floats; its recursion as a loop."""
    calls = 0

    def value(strength: float) -> float:
        nonlocal calls
        calls += 1
        if calls > patience:
            raise DoesNotEndError(f"{patience} evaluations, the last at {strength:g}")
        return metric(strength)

    low, high, prec = 0.0, 2.0, 0.1
    if value(0.1) < value(0.0):
        return 0.0
    while value(high) >= value(0.0):
        high += 5 * prec
    while low != high:
        if high == low + 1:
            return low if value(low) >= value(high) else high
        middle = (low + high) / 2
        if value(middle) > value(middle + prec) and value(middle) > value(middle - prec):
            return middle
        if value(middle) > value(middle + prec) and value(middle) < value(middle - prec):
            high = middle - prec
        else:
            low = middle + prec
    return low


# ------------------------------------------------------------------------------- data and models


def long_tailed(sample: Sample, ratio: float, order: Vector, rng: np.random.Generator) -> Sample:
    """Keep n_max·ratio^(−i/(K−1)) samples of the i-th class of ``order``, at least two."""
    largest = np.bincount(sample.y).max()
    kept = []
    for i, k in enumerate(order):
        n = max(FEWEST, int(largest * ratio ** (-i / (len(order) - 1))))
        kept.append(rng.permutation(np.flatnonzero(sample.y == k))[:n])
    index = np.concatenate(kept)
    return Sample(sample.x[index], sample.y[index])


def split(dataset: str, seed: int) -> tuple[Sample, Sample, Sample]:
    """Split in a part to train, and halves of the rest to tune and to test, stratified."""
    x, y = DATASETS[dataset]()
    n_train = min(int(TRAIN_SHARE * len(y)), MOST_TO_TRAIN)
    x_train, x_rest, y_train, y_rest = train_test_split(
        x, y, train_size=n_train, stratify=y, random_state=seed
    )
    x_tune, x_test, y_tune, y_test = train_test_split(
        x_rest, y_rest, train_size=0.5, stratify=y_rest, random_state=seed
    )
    return Sample(x_train, y_train), Sample(x_tune, y_tune), Sample(x_test, y_test)


class Case(NamedTuple):
    """One model on one validation mix: its profiles for tuning, also on a wide range, and test."""

    model: str
    mix: str
    tune: rp.StrengthProfile
    wide: rp.StrengthProfile
    test: rp.StrengthProfile


def cases_of(config: Config, dataset: str, ratio: float, seed: int) -> Iterator[Case]:
    """Train every model on the long tail and profile its scores."""
    train, tune, test = split(dataset, seed)
    rng = np.random.default_rng([seed, int(ratio)])
    order = rng.permutation(len(np.unique(train.y)))
    train = long_tailed(train, ratio, order, rng)
    prior = rp.prior_from_labels(train.y, len(order))
    bounds = (config.low, config.high)
    parts = {
        "even": (tune, test),
        "long-tailed": tuple(long_tailed(part, ratio, order, rng) for part in (tune, test)),
    }

    def profile(scores: Vector, labels: Vector, bounds: tuple[float, float]) -> rp.StrengthProfile:
        return rp.StrengthProfile.from_scores(
            scores, labels, source_prior=prior, kind="log_probs", bounds=bounds
        )

    models = {name: MODELS[name](seed).fit(*train) for name in config.models}
    for (name, model), mix in product(models.items(), config.mixes):
        (x, y), (x_test, y_test) = parts[mix]
        with np.errstate(divide="ignore"):  # a forest's probability of 0 is −inf, and stays so
            scores, test_scores = model.predict_log_proba(x), model.predict_log_proba(x_test)
        yield Case(
            name,
            mix,
            profile(scores, y, bounds),
            profile(scores, y, WIDE),
            profile(test_scores, y_test, bounds),
        )


# ------------------------------------------------------------------------------------- measuring


def shape_of(values: Sequence[float]) -> tuple[bool, bool, bool]:
    """Whether values are concave, rise and then fall with plateaus allowed, and without any."""
    change = np.diff(np.asarray(values))
    direction = np.sign(np.where(np.abs(change) < EQUAL, 0.0, change))
    moving = direction[direction != 0]
    unimodal = bool((np.diff(moving) <= 0).all())
    return (
        bool((np.diff(change) <= EQUAL).all()),
        unimodal,
        unimodal and moving.size == change.size,
    )


def ends(metric: Callable[[float], float]) -> bool:
    """Whether the printed algorithm comes to an end."""
    try:
        printed_search(metric)
    except DoesNotEndError:
        return False
    return True


def measure(config: Config) -> tuple[list[Row], list[dict[str, Any]]]:
    """Compare the searches on every curve; return the rows and what a figure of each needs."""
    rows, curves = [], []
    for dataset, ratio, seed in product(config.datasets, config.ratios, config.seeds):
        for case in cases_of(config, dataset, ratio, seed):
            for metric in config.metrics:
                key = (dataset, ratio, seed, case.model, case.mix, metric)
                row, curve = measure_one(config, case, metric, key)
                rows.append(row)
                curves.append(curve)
    return rows, curves


def measure_one(
    config: Config, case: Case, metric: str, key: tuple[str, float, int, str, str, str]
) -> tuple[Row, dict[str, Any]]:
    """Measure one curve."""
    calls: list[tuple[float, float]] = []

    def value(strength: float) -> float:
        calls.append((strength, float(case.tune.evaluate(metric, strength))))
        return calls[-1][1]

    span: dict[str, Any] = {
        "low": config.low, "high": config.high, "precision": config.precision,
    }  # fmt: skip
    grid = rp.search_strength(value, method="grid", **span)
    calls.clear()
    binary = rp.search_strength(value, extend=False, **span)
    exact = case.tune.best(metric)
    on_test = case.test.evaluate(metric, [exact.strength, binary.strength])
    concave, unimodal, strict = shape_of([value for _, value in grid.evaluated])
    row = Row(
        *key,
        n_tune=case.tune.n_samples,
        concave=concave,
        unimodal=unimodal,
        strict=strict,
        grid_loss=points(grid.value - binary.value),
        exact_loss=points(exact.value - binary.value),
        grid_exact_loss=points(exact.value - grid.value),
        test_loss=points(on_test[0] - on_test[1]),
        n_evaluations=binary.n_evaluations,
        printed_ends=ends(lambda strength: case.wide.evaluate(metric, strength)),
    )
    return row, figure_data(row, case, calls, binary, exact)


def figure_data(
    row: Row,
    case: Case,
    calls: Sequence[tuple[float, float]],
    binary: rp.SearchResult,
    exact: rp.Best,
) -> dict[str, Any]:
    """Keep what a panel of the figure shows."""
    strengths, values = case.tune.curve(row.metric)
    return {
        **{name: getattr(row, name) for name in ("dataset", "ratio", "seed", "model", "mix")},
        "metric": row.metric,
        "strengths": [round(float(s), 6) for s in (*strengths, case.tune.bounds[1])],
        "values": [round(float(v), 6) for v in (*values, values[-1])],
        "calls": list(calls),
        "found": [binary.strength, binary.value],
        "exact": [exact.strength, exact.value],
    }


def points(difference: float) -> float:
    """Hundredths, to a millionth of a point, so that the run file is the same everywhere."""
    return round(100 * float(difference), 6) + 0.0


def run(config: Config) -> Run:
    """Run the study; return the content of the run file."""
    rows, curves = measure(config)
    shown = [i for i, row in enumerate(rows) if row.dataset == config.datasets[0]]
    by_loss = sorted(shown, key=lambda i: rows[i].exact_loss)
    run: Run = {
        "config": asdict(config),
        "versions": {
            "python": platform.python_version(),
            "numpy": np.__version__,
            "scikit-learn": sklearn.__version__,
            "reprior": rp.__version__,
        },
        "figure": {"median": curves[by_loss[len(shown) // 2]], "worst": curves[by_loss[-1]]},
        "columns": [field.name for field in fields(Row)],
        "rows": [list(asdict(row).values()) for row in rows],
    }
    return json.loads(json.dumps(run))  # type: ignore[no-any-return]  # as it will be read


def write_run(run: Run, path: Path) -> None:
    """Write the run file, one line per curve so that a difference can be read."""
    head = json.dumps({k: v for k, v in run.items() if k != "rows"}, indent=1)
    lines = ",\n".join(json.dumps(row) for row in run["rows"])
    path.write_text(f'{head[:-2]},\n "rows": [\n{lines}\n]}}\n', encoding="utf-8")


# ------------------------------------------------------------------------------------- rendering

START = "<!-- results: written by docs/scripts/binary_search_study.py, do not edit -->"
END = "<!-- end of results -->"

HEADER = (
    "| {} | curves | concave | one peak | misses grid's best | loss, mean (max) "
    "| misses exact best | loss, mean (max) | loss on test data | calls | printed form ends |\n"
    "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n"
)


def share(flags: Sequence[bool]) -> str:
    return f"{100 * np.mean(flags):.0f} %"


def line(name: str, rows: Sequence[Row]) -> str:
    """One line of a table."""
    grid, exact = [row.grid_loss for row in rows], [row.exact_loss for row in rows]
    calls = [row.n_evaluations for row in rows]
    cells = [
        name,
        f"{len(rows):,}",
        share([row.concave for row in rows]),
        share([row.unimodal for row in rows]),
        share([loss > 0 for loss in grid]),
        f"{np.mean(grid):.2f} ({max(grid):.1f})",
        share([loss > 0 for loss in exact]),
        f"{np.mean(exact):.2f} ({max(exact):.1f})",
        with_error(rows),
        f"{np.mean(calls):.1f}",
        share([row.printed_ends for row in rows]),
    ]
    return f"| {' | '.join(cells)} |\n"


def with_sizes(dataset: str, rows: Sequence[Row]) -> str:
    """Name a dataset and how many validation samples its curves have."""
    sizes = [row.n_tune for row in rows]
    return f"{dataset.replace('_', ' ')} (n = {min(sizes):,} … {max(sizes):,})"


def splits(rows: Sequence[Row]) -> list[float]:
    """Mean loss on the test half, by split: the curves of one split are one observation."""
    losses: dict[tuple[str, float, int], list[float]] = {}
    for row in rows:
        losses.setdefault((row.dataset, row.ratio, row.seed), []).append(row.test_loss)
    return [float(np.mean(those)) for those in losses.values()]


def with_error(rows: Sequence[Row]) -> str:
    """Mean loss on the test half ± its standard error over splits."""
    means = splits(rows)
    error = np.std(means, ddof=1) / np.sqrt(len(means)) if len(means) > 1 else np.nan
    return f"{np.mean(means):.2f} ± {error:.2f}".replace("-", "−")


def results(run: Run) -> str:
    """The generated part of the page."""
    rows = [Row(**dict(zip(run["columns"], row, strict=True))) for row in run["rows"]]
    real = [row for row in rows if row.dataset != "synthetic"]
    by_metric = "".join(
        line(f"`{name}`", [row for row in real if row.metric == name])
        for name in run["config"]["metrics"]
    )
    by_data = "".join(
        line(with_sizes(name, those), those)
        for name in run["config"]["datasets"]
        for those in [[row for row in rows if row.dataset == name]]
    )
    versions = ", ".join(f"{name} {number}" for name, number in run["versions"].items())
    return (
        f"{summary(real, run)}\n"
        f"Real data, by metric:\n\n{HEADER.format('metric')}{by_metric}"
        f"{line('**all**', real)}\n"
        f"By data:\n\n{HEADER.format('data')}{by_data}\n"
        f"{caption(run)}\n\n"
        f"Run with {versions}.\n"
    )


def summary(rows: Sequence[Row], run: Run) -> str:
    """The findings in a few sentences."""
    span = run["config"]["high"] - run["config"]["low"]
    n_grid = round(span / run["config"]["precision"]) + 1
    missed = [row.exact_loss for row in rows if row.exact_loss > 0]
    calls = [row.n_evaluations for row in rows]
    return (
        f"On {len(rows):,} curves of real data:\n\n"
        f"- {share([row.concave for row in rows])} are concave on the grid, "
        f"{share([row.unimodal for row in rows])} rise and then fall if plateaus are allowed, and "
        f"{share([row.strict for row in rows])} do so without a plateau.\n"
        f"- The binary search misses the best point of the grid on "
        f"{share([row.grid_loss > 0 for row in rows])} of the curves, and the exact best on "
        f"{share([row.exact_loss > 0 for row in rows])}. Where it misses the exact best it loses "
        f"{np.mean(missed or [0]):.2f} points on average, {np.median(missed or [0]):.2f} in the "
        f"median and {max(missed, default=0):.1f} at most.\n"
        f"- On test data that neither saw, the exact best's lead over it is {with_error(rows)} "
        f"points (mean ± standard error over {len(splits(rows))} splits): it is better on "
        f"{share([row.test_loss > 0 for row in rows])} of the curves and worse on "
        f"{share([row.test_loss < 0 for row in rows])}.\n"
        f"- It makes {np.mean(calls):.1f} calls on average ({max(calls)} at most); the grid makes "
        f"{n_grid}, the exact profile one pass over the scores.\n"
        f"- As printed, Algorithm 2 ends within {PATIENCE} calls on "
        f"{share([row.printed_ends for row in rows])} of them.\n"
    )


def caption(run: Run) -> str:
    """The figure and what it shows."""
    panels = run["figure"]
    left, right = (
        f"{p['model']}, {p['metric']}, ratio {p['ratio']:g}, {p['mix']} validation, "
        f"seed {p['seed']}"
        for p in (panels["median"], panels["worst"])
    )
    dataset = panels["median"]["dataset"].replace("_", " ")
    return (
        f"![Two exact curves and the binary search on them](figures/{FIGURE.name})\n\n"
        f"*Of all curves of {dataset}, the one with the median loss (left: {left}) and the one "
        f"with the largest (right: {right}). Numbers are the order of the calls.*"
    )


def render(page: str, run: Run) -> str:
    """Put the results between the markers of the page."""
    block = f"{START}\n\n{results(run)}\n{END}"
    return re.sub(f"{re.escape(START)}.*?{re.escape(END)}", lambda _: block, page, flags=re.DOTALL)


def draw(run: Run, path: Path) -> None:
    """Draw the figure."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    style: dict[Any, Any] = {"svg.hashsalt": "reprior", "font.size": 10, "axes.spines.top": False,
             "axes.spines.right": False, "axes.titlesize": 10.5}  # fmt: skip
    with plt.rc_context(style):
        figure, axes = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
        # Matplotlib's stubs know the engine of no particular layout.
        figure.get_layout_engine().set(wspace=0.06)  # type: ignore[union-attr, call-arg]
        for axis, (name, panel) in zip(axes, run["figure"].items(), strict=True):
            draw_panel(axis, panel)
            lost = points(panel["exact"][1] - panel["found"][1])
            title = f"{name.capitalize()} case: loses {lost:.2f} points\n{panel['model']}"
            axis.set_title(title, loc="left")
        axes[0].legend(frameon=False, loc="lower center")
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None, dpi=150)
        plt.close(figure)


def draw_panel(axis: Any, panel: dict[str, Any]) -> None:
    """One exact curve, what the binary search saw of it, and both answers."""
    curve, seen, found, exact = "#8a8f98", "#0072b2", "#d55e00", "#009e73"
    percent = [100 * value for value in panel["values"]]
    axis.step(panel["strengths"], percent, where="post", color=curve, lw=1.3, label="exact curve")
    for order, (strength, value) in enumerate(panel["calls"], start=1):
        label = "binary search's calls" if order == 1 else None
        axis.plot(strength, 100 * value, "o", ms=6, mfc="white", mec=seen, mew=1.5, label=label)
        axis.annotate(
            str(order), (strength, 100 * value), (0, -15), textcoords="offset points",
            ha="center", fontsize=8, color=seen,
        )  # fmt: skip
    (strength, value), (best, most) = panel["found"], panel["exact"]
    around = {"ms": 12, "mfc": "none", "mew": 1.8, "ls": ""}
    axis.plot(strength, 100 * value, "D", mec=found, label="its answer", **around)
    axis.plot(best, 100 * most, "*", ms=11, color=exact, label="exact best", ls="")
    axis.set_xlabel("strength λ")
    axis.set_ylabel(f"{panel['metric'].replace('_', ' ').replace('iou', 'IoU')} (%)")
    axis.margins(y=0.1)
    axis.grid(alpha=0.25, lw=0.6)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the study and rewrite the page, or the latter alone."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--render", action="store_true", help="use the run file that is there")
    if not parser.parse_args(arguments).render:
        write_run(run(Config()), RUN_FILE)
    finished = json.loads(RUN_FILE.read_text(encoding="utf-8"))
    PAGE.write_text(render(PAGE.read_text(encoding="utf-8"), finished), encoding="utf-8")
    draw(finished, FIGURE)


if __name__ == "__main__":
    main()
