"""What the tests of per-class biases share: labelled scores with ties, and slow, plain answers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from tests.support import oracles
from tests.tuning.shared import rows_of

from reprior import CountMetric
from reprior.core import kernels
from reprior.metrics import find_metric
from reprior.profile import Constraint
from reprior.tuning import Ascent, Columns, Goal

UNIT = 0.75
"""Scores are multiples of this, and so are the biases at which anything changes."""

ROUNDING = 1e-12
"""Values are means of ratios in float64 and 2**-50 fixed point: off by some 1e-15."""

F2 = CountMetric("macro_f2", gain=5, support=4, predicted=1, average="seen")
STRANGE = CountMetric("strange", gain=1, support=2, predicted=0.25, true_positive=-1)
"""In which a class gains ever more from its true positives."""

METRICS = (*oracles.METRICS, F2, STRANGE)


@dataclass(frozen=True)
class BiasCase:
    """Labelled scores, and biases to begin with."""

    scores: Any
    labels: Any
    start: Any
    weights: Any = None

    @property
    def data(self) -> Columns:
        labels = np.asarray(self.labels, np.int64)
        return Columns(rows_of(np.asarray(self.scores), labels, self.weights))

    @property
    def n_classes(self) -> int:
        return int(np.shape(self.scores)[1])

    @property
    def movable(self) -> Any:
        return np.ones(self.n_classes, bool)

    def value(self, metric: str | CountMetric, biases: Any) -> float:
        """Return the metric at ``biases``, from an arg max and a confusion matrix."""
        predicted = (np.asarray(self.scores, np.float64) + biases).argmax(axis=1)
        matrix = oracles.confusion(self.labels, predicted, self.n_classes, self.weights)
        return plain_value(metric, matrix)

    def goal(self, metric: str | CountMetric, *rules: str) -> Goal:
        data, k = self.data, self.n_classes
        constraints = [Constraint.parse(rule).resolved(n_classes=k) for rule in rules]
        baseline = data.counts(data.predictions(np.zeros(k)))
        return Goal(find_metric(metric, n_classes=k), constraints, baseline)

    def ascent(self, metric: str | CountMetric, *rules: str) -> Ascent:
        return Ascent(self.data, self.goal(metric, *rules), np.asarray(self.start), self.movable)


def plain_value(metric: str | CountMetric, matrix: Any) -> float:
    """Return any count metric of a confusion matrix, by its definition."""
    if isinstance(metric, str) and "[" not in metric:
        return oracles.metric(metric, matrix)
    found = find_metric(metric, n_classes=matrix.shape[0])
    values = []
    for k in range(matrix.shape[0]):
        tp, p, s = matrix[k, k], matrix[:, k].sum(), matrix[k].sum()
        below = found.support * s + found.predicted * p + found.true_positive * tp
        if (found.average == "one" and k == found.of_class) or (
            found.average == "seen" and (s > 0 or p > 0)
        ):
            values.append(found.gain * tp / below if below > 0 else 0.0)
    return float(np.mean(values))


@st.composite
def bias_cases(
    draw: st.DrawFn, *, classes: tuple[int, int] = (2, 5), most: int = 14, gone: bool = True
) -> BiasCase:
    """Draw scores with many ties, duplicated rows and, if asked for, impossible classes."""
    n_classes, n = draw(st.integers(*classes)), draw(st.integers(1, most))
    scores = draw(hnp.arrays(np.int64, (n, n_classes), elements=st.integers(-4, 4))) * UNIT
    if gone and draw(st.booleans()):
        out = draw(hnp.arrays(bool, (n, n_classes)))
        scores = np.where(out & (np.arange(n_classes) > 0), -np.inf, scores)
    scores = scores.astype(draw(st.sampled_from(["f4", "f8"])))
    labels = draw(hnp.arrays(np.int64, n, elements=st.integers(0, n_classes - 1)))
    start = draw(hnp.arrays(np.int64, n_classes, elements=st.integers(-3, 3))) * UNIT / 2
    weights = None
    if draw(st.booleans()):
        weights = draw(hnp.arrays(np.int64, n, elements=st.integers(1, 4))) * 1.0
    return BiasCase(scores, labels, start, weights)


def random_biases(
    rng: np.random.Generator,
    n: int,
    n_classes: int,
    *,
    lead: float = 2.0,
    dtype: str = "f8",
    weighted: bool = False,
    absent: int = 0,
) -> BiasCase:
    """Return scores that know something of the labels; the last ``absent`` classes have none."""
    labels = rng.integers(n_classes - absent, size=n)
    scores = rng.normal(size=(n, n_classes)) + rng.normal(size=n_classes)
    scores[np.arange(n), labels] += lead
    weights = rng.integers(1, 5, n) * 1.0 if weighted else None
    return BiasCase(scores.astype(dtype), labels, np.zeros(n_classes), weights)


@contextmanager
def arrays_only() -> Iterator[None]:
    """Run as an installation without the extension does."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernels, "native", None)
        yield


def midpoints(case: BiasCase, biases: Any, k: int) -> Any:
    """Return a bias of class ``k`` in every interval on which nothing can change."""
    scores = np.asarray(case.scores, np.float64)
    others = np.delete(scores + biases, k, axis=1).max(axis=1)
    with np.errstate(invalid="ignore"):
        places = others - scores[:, k]
    places = np.unique(places[np.isfinite(places)])
    if not places.size:
        return np.array([biases[k]])
    return np.concatenate([[places[0] - 0.5], (places[1:] + places[:-1]) / 2, [places[-1] + 0.5]])


def with_bias(biases: Any, k: int, bias: float) -> Any:
    moved = np.array(biases, np.float64)
    moved[k] = bias
    return moved


def exhaustive(case: BiasCase, metric: str | CountMetric) -> float:
    """Return the best value of all biases of two or three classes.

    Scores are multiples of ``UNIT``, and so are all differences of biases at which a prediction
    changes. The plane of two differences is cut into squares by two of them, and each square
    into two triangles by the third: one point in each triangle is enough.
    """
    reach = np.arange(-10, 11) * UNIT
    best = -np.inf
    if case.n_classes == 2:
        for a in reach + UNIT / 2:
            best = max(best, case.value(metric, np.array([0.0, a])))
        return best
    for a in reach:
        for b in reach:
            for dx, dy in ((1 / 3, 2 / 3), (2 / 3, 1 / 3)):
                biases = np.array([0.0, a + dx * UNIT, b + dy * UNIT])
                best = max(best, case.value(metric, biases))
    return best
