"""Models of two classes that give one score per sample: the positive class's.

Scores of shape (N,), or with a class axis of length 1 such as (N, 1), become two columns
(negative, positive) for the mathematics. Results have the shape of the scores again.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from reprior.core.arrays import Array, Namespace, compute_dtype, device_of, is_traced, to_numpy
from reprior.core.checks import check_class_axis, first_index
from reprior.core.logspace import log_scores, raw_remedy
from reprior.exceptions import Element, ScoresError, Setting, Text

__all__ = [
    "contract",
    "expand",
    "expanded_axis",
    "is_single_score",
    "log_columns",
    "resolve_class_axis",
]


def is_single_score(shape: Sequence[int], n_classes: int, class_axis: int = -1) -> bool:
    """Tell whether scores of this shape give one score per sample for two classes.

    With K = 2 a vector is always N binary scores; with more classes it is one sample.

    Examples
    --------
    >>> is_single_score((5,), 2), is_single_score((5, 1), 2), is_single_score((5, 2), 2)
    (True, True, False)
    """
    return n_classes == 2 and (len(shape) == 1 or shape[class_axis] == 1)


def resolve_class_axis(shape: Sequence[int], n_classes: int, class_axis: Any) -> int:
    """Return the class axis counted from 0; refuse one that does not have K entries.

    Where K = 2, one entry is enough; then a vector may have any length.
    """
    axis = check_class_axis(shape, class_axis)
    if shape[axis] == n_classes or is_single_score(shape, n_classes, axis):
        return axis
    other = [i for i, length in enumerate(shape) if length == n_classes]
    remedy: Text = (
        "Check the order and number of classes, and that these are the model's outputs, not the "
        "features it is given."
    )
    if other:
        remedy = ["Pass ", Setting("class_axis", other[0]), "."]
    raise ScoresError(
        argument="scores",
        rule="must have one entry per class on the class axis",
        got=f"{shape[axis]} on axis {class_axis} of shape {tuple(shape)}, and {n_classes} classes "
        f"in the prior",
        remedy=remedy,
    )


def log_columns(scores: Array, kind: str, *, axis: int, xp: Namespace) -> Array:
    """Return checked log-scores with at least two entries on the class axis.

    For functions that know no prior, and so take the number of classes from the scores.
    """
    if scores.shape[axis] != 1:
        return log_scores(scores, kind, axis=axis, xp=xp)
    columns = expand(scores, kind, xp=xp, class_axis=axis)
    return columns if kind == "logits" else log_scores(columns, kind, axis=axis, xp=xp)


def expand(
    scores: Array, kind: str, *, xp: Namespace, class_axis: int = -1, name: str = "scores"
) -> Array:
    """Return the scores of (negative, positive) on a class axis of length 2.

    A logit z becomes [0, z], a probability p becomes [1 − p, p], a log-probability l becomes
    [log(1 − exp l), l]. A vector gets its class axis last.

    Examples
    --------
    >>> import array_api_compat.numpy as xp
    >>> expand(np.array([0.25]), "probs", xp=xp)
    array([[0.75, 0.25]])
    """
    z = xp.astype(scores, compute_dtype(xp, scores.dtype, device_of(scores)), copy=False)
    _check(z, kind, xp, name)
    if z.ndim == 1:
        z, class_axis = z[:, None], 1
    if kind == "logits":
        other = xp.zeros_like(z)
    elif kind == "probs":
        other = 1.0 - z
    else:
        other = _log1mexp(z, xp)
    return xp.concat([other, z], axis=class_axis)


def expanded_axis(ndim: int, class_axis: int) -> int:
    """Return where :func:`expand` puts the classes of single scores with ``ndim`` axes.

    Examples
    --------
    >>> expanded_axis(1, 0), expanded_axis(2, 0)
    (1, 0)
    """
    return 1 if ndim == 1 else class_axis


def contract(columns: Array, shape: Sequence[int], *, xp: Namespace, class_axis: int = -1) -> Array:
    """Return the positive class's part of two columns in the single-score ``shape``."""
    axis = -1 if len(shape) == 1 else class_axis
    return xp.reshape(xp.moveaxis(columns, axis, -1)[..., 1], tuple(shape))


def _log1mexp(log_p: Array, xp: Namespace) -> Array:
    """Return log(1 − exp l), accurate at both ends (Mächler 2012)."""
    with np.errstate(divide="ignore", under="ignore"):
        near = xp.log(-xp.expm1(log_p))
        far = xp.log1p(-xp.exp(log_p))
    return xp.where(log_p > -0.6931471805599453, near, far)


def _check(z: Array, kind: str, xp: Namespace, name: str) -> None:
    if is_traced(z):
        return
    low = -xp.inf if kind == "log_probs" else 0.0
    high = {"logits": xp.inf, "probs": 1.0, "log_probs": 0.0}[kind]
    if kind == "logits":
        good = xp.isfinite(z)
        rule = "must be finite where there is one score per sample"
        remedy: Text = "Drop the sample, or repair the model's output."
    else:
        good = (z >= low) & (z <= high)
        rule = (
            "must be a probability" if kind == "probs" else "must be a log-probability (at most 0)"
        )
        remedy = ["Drop the sample, or ", *raw_remedy(name), " if these are raw outputs."]
    if bool(xp.all(good)):
        return
    where = first_index(~to_numpy(good))
    got = Element(name, where, float(to_numpy(z)[where]))
    raise ScoresError(argument=name, rule=rule, got=got, remedy=remedy)
