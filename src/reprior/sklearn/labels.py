"""Class labels: which there are, where each is, how many of each."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from sklearn.frozen import FrozenEstimator
from sklearn.utils.validation import check_is_fitted

import reprior as rp

__all__ = ["class_index", "class_mass", "find_classes", "plain"]

Vector: TypeAlias = np.ndarray[Any, Any]


def find_classes(estimator: Any, y: Vector) -> Vector:
    """Return the classes of the labels; for a frozen estimator, those it knows."""
    if isinstance(estimator, FrozenEstimator):
        check_is_fitted(estimator)
        classes = np.asarray(estimator.classes_)
        unknown = np.flatnonzero(~np.isin(y, classes))
        if unknown.size:
            where = unknown[0]
            raise rp.LabelsError(
                f"`y` must be of classes that the frozen estimator knows. "
                f"Got y[{where}]={y.tolist()[where]!r}. Drop these samples, or train anew."
            )
    else:
        classes = np.unique(y)
    if classes.size < 2:
        got = f"1 class, {classes.tolist()[0]!r}" if classes.size else "no samples"
        raise rp.LabelsError(
            f"`y` must have at least two classes. Got {got}. Add samples of another class."
        )
    return classes


def class_index(y: Vector, classes: Vector) -> Vector:
    """Return the place in ``classes`` of every label; all labels must be among them."""
    order = np.argsort(classes)
    return np.asarray(order[np.searchsorted(classes, y, sorter=order)])


def class_mass(y: Vector, classes: Vector, sample_weight: Vector | None = None) -> Vector:
    """Return the number of samples of every class, or the sum of their weights."""
    counted = np.bincount(class_index(y, classes), sample_weight, minlength=classes.size)
    return counted.astype(np.float64)


def plain(classes: Vector) -> Vector:
    """Return objects that are all strings, or all integers, as an array of that type."""
    return np.asarray(classes.tolist())
