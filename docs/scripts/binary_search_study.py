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
import os
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


def profiles_of(
    config: Config, dataset: str, ratio: float, seed: int
) -> Iterator[tuple[str, str, rp.StrengthProfile, rp.StrengthProfile, rp.StrengthProfile]]:
    """Train every model; yield model, mix, and profiles: tune, tune on a wide range, test."""
    train, tune, test = split(dataset, seed)
    rng = np.random.default_rng([seed, int(ratio)])
    order = rng.permutation(len(np.unique(train.y)))
    train = long_tailed(train, ratio, order, rng)
    prior = rp.prior_from_labels(train.y, len(order))
    tails = [long_tailed(part, ratio, order, rng) for part in (tune, test)]
    # The printed algorithm leaves [low, high]: its metric needs a profile of all it may ask for.
    wide = (-10.0, 10.0 + PATIENCE)
    for name in config.models:
        model = MODELS[name](seed).fit(*train)
        for mix in config.mixes:
            profiles = []
            parts = (tune, test) if mix == "even" else tails
            for part, bounds in zip(
                (parts[0], parts[0], parts[1]),
                ((config.low, config.high), wide, (config.low, config.high)),
                strict=True,
            ):
                with np.errstate(divide="ignore"):  # a forest's 0 is −inf, and stays so
                    scores = model.predict_log_proba(part.x)
                profiles.append(
                    rp.StrengthProfile.from_scores(
                        scores, part.y, source_prior=prior, kind="log_probs", bounds=bounds
                    )
                )
            yield name, mix, profiles[0], profiles[1], profiles[2]


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
        for model, mix, tune, wide, test in profiles_of(config, dataset, ratio, seed):
            for metric in config.metrics:
                key = (dataset, ratio, seed, model, mix, metric)
                row, curve = measure_one(config, key, tune, wide, test)
                rows.append(row)
                curves.append(curve)
    return rows, curves


def measure_one(
    config: Config,
    key: tuple[str, float, int, str, str, str],
    tune: rp.StrengthProfile,
    wide: rp.StrengthProfile,
    test: rp.StrengthProfile,
) -> tuple[Row, dict[str, Any]]:
    """Measure one curve."""
    metric = key[-1]
    options: dict[str, Any] = {
        "low": config.low, "high": config.high, "precision": config.precision, "extend": False,
    }  # fmt: skip
    grid = rp.search_strength(lambda s: tune.evaluate(metric, s), method="grid", **options)
    binary = rp.search_strength(lambda s: tune.evaluate(metric, s), **options)
    exact = tune.best(metric)
    on_test = test.evaluate(metric, [exact.strength, binary.strength])
    concave, unimodal, strict = shape_of([value for _, value in grid.evaluated])
    row = Row(
        *key,
        n_tune=tune.n_samples,
        concave=concave,
        unimodal=unimodal,
        strict=strict,
        grid_loss=points(grid.value - binary.value),
        exact_loss=points(exact.value - binary.value),
        grid_exact_loss=points(exact.value - grid.value),
        test_loss=points(on_test[0] - on_test[1]),
        n_evaluations=binary.n_evaluations,
        printed_ends=ends(lambda s: wide.evaluate(metric, s)),
    )
    strengths, values = tune.curve(metric)
    curve = {
        "title": f"{dataset_title(row)}, {row.model}",
        "metric": metric,
        "strengths": [*strengths.tolist(), config.high],
        "values": [*values.tolist(), float(values[-1])],
        "evaluated": [list(pair) for pair in binary.evaluated],
        "found": [binary.strength, binary.value],
        "exact": [exact.strength, exact.value],
    }
    return row, curve


def points(difference: float) -> float:
    """Hundredths, to a millionth of a point, so that the run file is the same everywhere."""
    return round(100 * float(difference), 6) + 0.0


def dataset_title(row: Row) -> str:
    return f"{row.dataset.replace('_', ' ')} (ratio {row.ratio:g}, {row.mix} validation)"


def run(config: Config) -> Run:
    """Run the study; return the content of the run file."""
    rows, curves = measure(config)
    of_figure = [i for i, row in enumerate(rows) if row.dataset == config.datasets[0]]
    by_loss = sorted(of_figure, key=lambda i: rows[i].exact_loss)
    return {
        "config": asdict(config),
        "versions": {
            "python": platform.python_version(),
            "numpy": np.__version__,
            "scikit-learn": sklearn.__version__,
            "reprior": rp.__version__,
        },
        "columns": [field.name for field in fields(Row)],
        "rows": [list(asdict(row).values()) for row in rows],
        "figure": {
            "median": curves[by_loss[len(by_loss) // 2]],
            "worst": curves[by_loss[-1]],
        },
    }
