"""What a model predicts for samples, as estimates of a target prior by moments need it.

Classes, or their probabilities; their means, over all samples and over those of each label.
"""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from reprior.core.arrays import namespace, to_numpy
from reprior.core.binary import is_single_score, resolve_class_axis
from reprior.core.logspace import as_scores, refuse_scores, sum_tolerance, warn_if_probs
from reprior.core.probability_rows import (
    by_blocks,
    class_sums,
    largest_logits,
    largest_probs,
    normalised_sum,
    row_sums,
    totals,
    weighted_sum,
)
from reprior.core.shift.rows import Calibration, log_rows

__all__ = ["HardPredictions", "Predicted", "SoftPredictions", "predictions", "read_predictions"]

Vector: TypeAlias = np.ndarray[Any, Any]


class HardPredictions:
    """The class that is predicted for every sample."""

    def __init__(self, classes: NDArray[np.intp], n_classes: int) -> None:
        self.classes, self.n_classes = classes, n_classes

    def __len__(self) -> int:
        return self.classes.size

    def __getitem__(self, some: NDArray[np.bool_]) -> "HardPredictions":
        """Return those of some samples."""
        return HardPredictions(self.classes[some], self.n_classes)

    def mean(self) -> Vector:
        """Return how often each class is predicted."""
        return _normalised(self.sum())

    def sum(self) -> Vector:
        """Return for how many samples each class is predicted."""
        return np.bincount(self.classes, minlength=self.n_classes)

    def class_means(self, labels: NDArray[np.int64]) -> Vector:
        """Return how often each class is predicted where another is true: row, column."""
        k = self.n_classes
        counts = np.bincount(self.classes * k + labels, minlength=k * k).reshape(k, k)
        found: Vector = counts / counts.sum(axis=0)
        return found

    def along(self, direction: Vector) -> Vector:
        """Return the direction's entry of every sample's class."""
        found: Vector = direction[self.classes]
        return found


class SoftPredictions:
    """The model's probabilities: rows (N, K) of such, each times a factor of its own.

    ``total`` is their sum, if it is known.
    """

    def __init__(
        self, rows: NDArray[Any], factors: NDArray[np.float64], total: Vector | None = None
    ) -> None:
        self.rows, self.factors, self._total = rows, factors, total

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, some: NDArray[np.bool_]) -> "SoftPredictions":
        """Return those of some samples."""
        return SoftPredictions(self.rows[some], self.factors[some])

    def probabilities(self) -> Vector:
        """Return rows that sum to 1, multiplied out: those of some samples cost less."""
        dtype = np.result_type(self.rows.dtype, np.float32)
        found: Vector = np.multiply(self.rows, self.factors[:, None], dtype=dtype)
        return found

    def mean(self) -> Vector:
        """Return the mean probability of every class."""
        return _normalised(self.sum())

    def sum(self) -> Vector:
        """Return the sum of the probabilities of every class."""
        return weighted_sum(self.factors, self.rows) if self._total is None else self._total

    def class_means(self, labels: NDArray[np.int64]) -> Vector:
        """Return the mean probabilities of the samples of each label, a column each."""
        return _normalised(class_sums(self.factors, self.rows, labels)).T

    def along(self, direction: Vector) -> Vector:
        """Return the mean of the direction under every sample's probabilities."""
        found: Vector = (self.rows @ direction) * self.factors
        return found


Predicted: TypeAlias = HardPredictions | SoftPredictions
"""What a model predicts for samples: classes, or their probabilities."""


def predictions(rows: NDArray[Any], *, soft: bool) -> Predicted:
    """Return the hard or soft predictions of rows (N, K) of log-scores.

    The class that is predicted is the first of the largest score.
    """
    if not soft:
        return HardPredictions(rows.argmax(axis=1), rows.shape[1])
    mass = rows - rows.max(axis=1, keepdims=True)
    np.exp(mass, out=mass)
    return SoftPredictions(mass, 1.0 / row_sums(mass))


def read_predictions(
    scores: Any,
    n_classes: int,
    *,
    kind: str,
    class_axis: int,
    calibration: Calibration | None,
    soft: bool,
    summed: bool = False,
) -> Predicted:
    """Return the predictions of checked scores.

    They are those of their calibrated log-scores. These are not made where decisions can be read
    from the scores as they are (more finely: logarithms of neighbouring numbers may be equal), or
    probabilities are what was given. If they are to be ``summed`` later, that is done while they
    are at hand.
    """
    xp = namespace(scores)
    given = as_scores(scores, xp)
    axis = resolve_class_axis(given.shape, n_classes, class_axis)
    direct = kind == "probs" or (kind == "logits" and not soft)
    single = is_single_score(given.shape, n_classes, axis)
    if not direct or single or calibration is not None:
        rows = log_rows(
            scores, n_classes, kind=kind, class_axis=class_axis, calibration=calibration
        )
        return predictions(rows, soft=soft)
    rows = to_numpy(xp.moveaxis(given, axis, -1)).reshape(-1, n_classes)
    tolerance = sum_tolerance(given.dtype, kind, n_classes)

    def read(part: slice) -> Vector | tuple[Vector, Vector] | None:
        block = rows[part]
        if kind == "logits":
            return largest_logits(block)
        if not soft:
            return largest_probs(block, tolerance)
        if summed:
            return normalised_sum(block, tolerance)
        return totals(block, tolerance)

    found = by_blocks(read, rows.shape)
    good = [part for part in found if part is not None]
    if len(good) < len(found):
        refuse_scores(given, kind, axis=axis, tolerance=tolerance)
    if kind == "logits":
        warn_if_probs(rows, axis=-1, xp=namespace(rows))
    if not soft:
        return HardPredictions(np.concatenate(good), n_classes)
    if not summed:
        return SoftPredictions(rows, 1.0 / np.concatenate(good))
    factors, sums = zip(*good, strict=True)
    return SoftPredictions(rows, np.concatenate(factors), np.sum(sums, axis=0))


def _normalised(mass: Vector) -> Vector:
    found: Vector = mass / mass.sum(axis=-1, keepdims=True)
    return found
