r"""The smallest probability that a classifier can tell from 0, in the place of its zeros.

Forests, trees and nearest neighbours count votes, so that a class without a vote has the
probability 0. For decisions that is a score like any other, but the log-loss of a label whose class
is impossible is infinite, and no temperature helps. The floor is half of what one vote gives:

.. math:: p'_k = \max(p_k, f) \Big/ \sum_j \max(p_j, f)
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from sklearn.ensemble import BaggingClassifier, ExtraTreesClassifier, RandomForestClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier

import reprior as rp
from reprior.exceptions import Setting
from reprior.sklearn.cross_validation import inner_model
from reprior.sklearn.training import AveragedClassifier

__all__ = ["check_floor", "floored", "known_floor", "resolved_floor"]

Vector: TypeAlias = np.ndarray[Any, Any]


def check_floor(floor: Any, n_classes: int) -> None:
    """Refuse what is neither "auto", None nor a probability below 1 / K."""
    if floor is None or (isinstance(floor, str) and floor == "auto"):
        return
    number = isinstance(floor, float | int | np.floating | np.integer)
    if isinstance(floor, bool) or not number or not 0 <= floor < 1 / n_classes:
        raise rp.OptionError(
            argument="floor",
            rule=f"must be 'auto', None or a probability from 0 to below 1 / {n_classes}, for "
            f"{n_classes} classes",
            got=repr(floor),
            remedy=["Pass for example ", Setting("floor", 0.001), "."],
        )


def known_floor(model: Any) -> float | None:
    """Return half of the smallest positive probability of a fitted classifier; None if unknown.

    That is half a vote of a forest or of k neighbours, and half a sample of a tree's largest leaf.
    """
    if isinstance(model, AveragedClassifier):
        floors = [known_floor(each) for each in model.estimators]
        return None if None in floors else min(floors)  # type: ignore[type-var]
    inside = inner_model(model)
    if inside is not None:
        return known_floor(inside)
    if isinstance(model, RandomForestClassifier | ExtraTreesClassifier | BaggingClassifier):
        return 0.5 / len(model.estimators_)
    if isinstance(model, KNeighborsClassifier) and model.weights == "uniform":
        return 0.5 / float(model.n_neighbors)
    if isinstance(model, DecisionTreeClassifier):
        leaves = model.tree_.children_left == -1
        return 0.5 / float(model.tree_.n_node_samples[leaves].max())
    return None


def resolved_floor(
    floor: float | str | None, models: list[Any], *, by_log_loss: bool
) -> float | None:
    """Return the floor to apply: as given, or the models' smallest where "auto" needs one."""
    if floor is None or floor == 0:
        return None
    if not isinstance(floor, str):
        return float(floor)
    floors = [known_floor(model) for model in models] if by_log_loss else []
    known = [each for each in floors if each is not None]
    return min(known) if known else None


def floored(scores: Vector, floor: float | None, kind: str) -> Vector:
    """Return scores with probabilities of at least the floor, which sum to 1 again.

    Examples
    --------
    >>> floored(np.array([[0.9, 0.1, 0.0]]), 0.05, "probs").round(3)
    array([[0.857, 0.095, 0.048]])
    """
    if floor is None or kind == "logits":
        return scores
    if kind == "probs":
        raised = np.maximum(scores, scores.dtype.type(floor))
        return np.asarray(raised / raised.sum(axis=1, keepdims=True))
    raised = np.maximum(scores, scores.dtype.type(np.log(floor)))
    return np.asarray(raised - np.logaddexp.reduce(raised, axis=1, keepdims=True))
