r"""Biases shrunk towards where they started, the more the fewer labels a class has.

.. math:: b_k = s_k + \frac{n_k}{n_k + κ}\,(d_k - \bar d), \qquad
    \bar d = \frac{\sum_j d_j\,n_j / (n_j + κ)}{\sum_j n_j / (n_j + κ)}

with the start s, the tuned biases s + d, the number of labels n and the shrinkage κ, in labels: a
class with κ labels goes half the way. Adding a constant to all biases changes nothing, so what is
shrunk are differences from :math:`\bar d`. This is the estimate of random effects: d_k is known to
a variance that falls with n_k, and varies among the classes by an unknown amount, which κ stands
for and cross-validation finds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import numpy as np

from reprior.metrics.counts import ClassCounts
from reprior.tuning.columns import Columns
from reprior.tuning.crossval import stratified_folds, summed

__all__ = ["SHRINKAGES", "fold_counts", "label_numbers", "shrinkage_folds", "shrunk"]

Vector: TypeAlias = np.ndarray[Any, Any]

#: What cross-validation tries, from none to all the way back: thirds of a power of ten, for the
#: held-out metric changes little in between.
SHRINKAGES = (0.0, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0, np.inf)


def shrunk(start: Vector, biases: Vector, labels: Vector, shrinkage: float) -> Vector:
    """Move ``biases`` towards ``start``: not at all for a shrinkage of 0, all the way for inf.

    Parameters
    ----------
    start, biases : array of shape (K,)
        Where they began, and where they were tuned to. A class at −inf stays there.
    labels : array of shape (K,)
        The number of labels of each class. One without labels returns to its start.
    shrinkage : float
        κ, of at least 0.

    Examples
    --------
    >>> shrunk(np.zeros(3), np.array([0.0, 1.0, 2.0]), np.array([1e9, 90, 10]), 10.0).round(2)
    array([-0.79,  0.19,  0.6 ])
    """
    if shrinkage == 0:
        return biases.copy()
    kept = np.zeros_like(start)
    if np.isfinite(shrinkage):
        kept = labels / (labels + shrinkage)
    there = np.isfinite(start)
    moved = np.where(there, biases - np.where(there, start, 0.0), 0.0)
    weight = kept * there
    centre = weight @ moved / weight.sum() if weight.any() else 0.0
    return np.where(there, start + kept * (moved - centre), start)


def label_numbers(data: Columns) -> Vector:
    """Labels of each class, (K,); with weights, as many equal ones as would vary as much.

    That is Kish's effective number, (Σv)² / Σv².
    """
    k = data.n_classes
    if data.weights is None:
        return np.bincount(data.labels, minlength=k).astype(np.float64)
    total = np.bincount(data.labels, data.weights, minlength=k)
    squares = np.bincount(data.labels, data.weights**2, minlength=k)
    return np.divide(total**2, squares, out=np.zeros(k), where=squares > 0)


def shrinkage_folds(
    labels: Vector, groups: Vector | None, n_folds: int, rng: np.random.Generator
) -> Vector | None:
    """The fold of every sample, as many as can be; None where nothing can be divided.

    Samples of one group are in one fold. Without groups, folds are stratified.

    Examples
    --------
    >>> groups = np.array([7, 7, 7, 9, 9, 4])
    >>> folds = shrinkage_folds(np.zeros(6, int), groups, 5, np.random.default_rng(0))
    >>> [len(set(folds[groups == group].tolist())) for group in (4, 7, 9)], int(folds.max())
    ([1, 1, 1], 2)
    """
    number, unit_labels = np.arange(labels.size), labels
    if groups is not None:
        number = np.unique(groups, return_inverse=True)[1].reshape(-1)
        unit_labels = np.zeros(int(number.max()) + 1, np.int64)
    if unit_labels.size < 2:
        return None
    folds: Vector = stratified_folds(unit_labels, min(n_folds, unit_labels.size), rng)[number]
    return folds


def fold_counts(
    data: Columns, folds: Vector, tuned: Callable[[Columns], tuple[Vector, Vector]]
) -> list[ClassCounts]:
    """Held-out class counts of all folds together, for each of :data:`SHRINKAGES`.

    ``tuned`` gives start and biases for the other folds' samples.
    """
    return [summed(each) for each in zip(*_held_out(data, folds, tuned), strict=True)]


def _held_out(
    data: Columns, folds: Vector, tuned: Callable[[Columns], tuple[Vector, Vector]]
) -> Iterator[list[ClassCounts]]:
    for fold in range(int(folds.max()) + 1):
        rest, test = (
            data.taken(np.flatnonzero(folds != fold)),
            data.taken(np.flatnonzero(folds == fold)),
        )
        start, biases = tuned(rest)
        labels = label_numbers(rest)
        yield [
            test.counts(test.predictions(shrunk(start, biases, labels, shrinkage)))
            for shrinkage in SHRINKAGES
        ]
