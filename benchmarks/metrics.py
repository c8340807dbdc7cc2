"""The profile and the best strength of every metric, against those of macro_f1."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

import reprior as rp
from benchmarks.profile import scores_of
from benchmarks.timing import Row, compare
from reprior.metrics import METRIC_NAMES, PAIR_METRIC_NAMES, CountMetric, find_metric

#: (N, K), mean lead of the true class over unit noise, pairs of runs. Half of the rows switch or
#: more.
CASES = [((1_000_000, 14), 3.5, 7), ((10_000, 100), 5.0, 31)]
BAR = 3.0
IMAGES = 100
"""Images of equal size, for metrics per image."""

#: Names that take an argument, a class or a group.
WITH_PARTS = (
    *("macro_fbeta(2)", "weighted_fbeta(2)", "recall[0]", "precision[0]", "specificity[0]"),
    *("iou[0]", "f1[0]", "fbeta(2)[0]", "recall[few]", "worst_recall[few]"),
    "mean_dice_per_image[few]",
)


def geometric_mean(matrices: np.ndarray) -> np.ndarray:
    """Return the geometric mean of the recalls, smoothed, of confusion matrices (S, K, K)."""
    right = matrices.diagonal(axis1=1, axis2=2)
    recalls = (right + 1.0) / (matrices.sum(axis=2) + 2.0)
    return np.asarray(np.exp(np.log(recalls).mean(axis=1)))


def every_metric(n_classes: int) -> list[CountMetric]:
    """Return every metric but macro_f1; of names that mean the same only the first."""
    groups = {"few": range(n_classes // 2, n_classes)}
    rng = np.random.default_rng(0)
    costs = rng.uniform(0.5, 2.0, (n_classes, n_classes)) * (1.0 - np.eye(n_classes))
    named = [
        find_metric(name, n_classes=n_classes, class_groups=groups)
        for name in ("macro_f1", *METRIC_NAMES, *WITH_PARTS, *PAIR_METRIC_NAMES)
    ]
    meanings: dict[Any, CountMetric] = {}
    for metric in named:
        meanings.setdefault((type(metric), replace(metric, name="any")), metric)
    kept = [metric for metric in meanings.values() if metric.name != "macro_f1"]
    return [*kept, rp.Cost(costs), rp.metrics.from_confusion(geometric_mean)]


def rows() -> Iterator[Row]:
    for shape, lead, pairs in CASES:
        logits, labels, prior = scores_of(shape, lead)
        images = np.arange(shape[0]) // (shape[0] // IMAGES)

        def best(
            metric: str | CountMetric,
            image_ids: np.ndarray | None = None,
            logits: np.ndarray = logits,
            labels: np.ndarray = labels,
            prior: np.ndarray = prior,
        ) -> rp.Best:
            profile = rp.StrengthProfile.from_scores(
                logits, labels, source_prior=prior, image_ids=image_ids
            )
            return profile.best(metric)

        for metric in every_metric(shape[1]):
            own = images if metric.needs == "images" else None
            called = metric.name == "geometric_mean"
            yield compare(
                f"{'from_confusion' if called else metric.name}, {shape[0]:,} x {shape[1]:,}",
                lambda metric=metric, own=own, best=best: best(metric, own),  # type: ignore[misc]
                "macro_f1",
                lambda best=best: best("macro_f1"),  # type: ignore[misc]
                bar=np.nan if called else BAR,
                pairs=pairs,
            )
