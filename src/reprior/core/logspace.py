"""Log-sum-exp, log-softmax, and the way from scores of any kind to log-scores.

Nothing here adds a silent epsilon: a probability of 0 is the log-score −inf, and stays 0.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reprior._warnings import warn
from reprior.core.arrays import (
    Array,
    Namespace,
    accumulation_dtype,
    as_array,
    compute_dtype,
    device_of,
    dtype_name,
    is_floating,
    is_traced,
    to_numpy,
)
from reprior.core.checks import check_kind, first_index
from reprior.exceptions import (
    Argument,
    Element,
    LikelyProbabilitiesWarning,
    ScoresError,
    Setting,
    Words,
)

__all__ = [
    "are_distributions",
    "are_hard",
    "as_scores",
    "excluded_row",
    "log_scores",
    "log_softmax",
    "logsumexp",
    "normalise",
    "probabilities",
    "raw_remedy",
    "refuse_scores",
    "row_element",
    "sum_tolerance",
    "warn_if_probs",
    "warn_if_single_probs",
    "warn_of_probs",
]

FEW_SCORES = 20
"""Fewer single scores than this may lie in [0, 1] by chance and be logits all the same."""

ROW_SUM_TOLERANCE = 1e-3
"""How far a row of probabilities may miss 1: what rounding to three decimals does."""

_COARSE_EPS = {"float16": 2.0**-10, "bfloat16": 2.0**-7}
"""The spacing of numbers at 1 in the dtypes whose rounding alone can miss that tolerance."""


def logsumexp(x: Array, *, axis: int, xp: Namespace, keepdims: bool = False) -> Array:
    """Return log Σ exp(x) over ``axis``, summed in float64 where there is one.

    A row of −inf alone gives −inf.
    """
    peak = xp.max(x, axis=axis, keepdims=True)
    peak = xp.where(xp.isfinite(peak), peak, xp.zeros_like(peak))
    total = xp.log(_sum(xp.exp(x - peak), axis, xp)) + peak
    return total if keepdims else xp.squeeze(total, axis=axis)


def log_softmax(x: Array, *, axis: int, xp: Namespace) -> Array:
    """Return x − log Σ exp(x) over ``axis``."""
    return normalise(x, xp.max(x, axis=axis, keepdims=True), axis=axis, xp=xp, log=True)


def normalise(x: Array, peak: Array, *, axis: int, xp: Namespace, log: bool) -> Array:
    """Return the (log-)softmax of ``x`` over ``axis``, given the row maxima ``peak``."""
    shifted = x - peak
    mass = xp.exp(shifted)
    total = _sum(mass, axis, xp)
    return shifted - xp.log(total) if log else mass / total


def _sum(x: Array, axis: int, xp: Namespace) -> Array:
    wide = accumulation_dtype(xp, device_of(x))
    return xp.astype(xp.sum(x, axis=axis, keepdims=True, dtype=wide), x.dtype, copy=False)


def as_scores(scores: Any, xp: Namespace, *, name: str = "scores") -> Array:
    """Return scores as an array of ``xp``; refuse what is empty or holds no real numbers."""
    z = as_array(scores, xp)
    dtype = dtype_name(z.dtype)
    if not is_floating(z.dtype) and not dtype.startswith(("int", "uint")):
        raise ScoresError(
            argument=name,
            rule="must be real numbers",
            got=f"dtype {dtype}",
            remedy="Pass the model's logits or probabilities, one row per sample.",
        )
    if z.ndim == 0 or 0 in z.shape:
        raise ScoresError(
            argument=name,
            rule="must hold at least one sample",
            got=f"shape {tuple(z.shape)}",
            remedy="Pass an array with samples and a class axis.",
        )
    return z


def log_scores(
    scores: Array, kind: str, *, axis: int, xp: Namespace, tolerance: float | None = None
) -> Array:
    """Return log-scores in the compute dtype: logits as they are, log-probabilities normalised.

    Refuses NaN and +inf, rows with no finite score, and under ``"probs"`` and ``"log_probs"``
    rows that are no distribution; rows that miss 1 by at most 1e-3 are renormalised. Where
    values cannot be read (under ``jax.jit``) these checks are skipped.
    ``tolerance`` replaces the one that follows from the scores' dtype.

    Examples
    --------
    >>> import array_api_compat.numpy as xp
    >>> log_scores(np.array([[1.0, 0.0]]), "probs", axis=-1, xp=xp)
    array([[  0., -inf]])
    """
    check_kind(kind)
    z = as_scores(scores, xp)
    if kind != "logits":
        z, total = _with_totals(z, kind, axis=axis, xp=xp, tolerance=tolerance, name="scores")
        with np.errstate(divide="ignore"):
            return (xp.log(z) if kind == "probs" else z) - xp.log(total)
    z = xp.astype(z, compute_dtype(xp, z.dtype, device_of(z)), copy=False)
    if not is_traced(z):
        if not _rows_have_peaks(z, axis, xp):
            refuse_scores(scores, kind, axis=axis)
        warn_if_probs(z, axis=axis, xp=xp)
    return z


def probabilities(scores: Any, *, axis: int, xp: Namespace, name: str = "scores") -> Array:
    """Return probabilities in the compute dtype, checked, every row made to sum to 1."""
    z = as_scores(scores, xp, name=name)
    z, total = _with_totals(z, "probs", axis=axis, xp=xp, tolerance=None, name=name)
    return z / total


def _with_totals(
    scores: Array, kind: str, *, axis: int, xp: Namespace, tolerance: float | None, name: str
) -> tuple[Array, Array]:
    """Return (log-)probabilities in the compute dtype, and the sum of every row."""
    if tolerance is None:
        tolerance = sum_tolerance(scores.dtype, kind, int(scores.shape[axis]))
    z = xp.astype(scores, compute_dtype(xp, scores.dtype, device_of(scores)), copy=False)
    with np.errstate(invalid="ignore", over="ignore", under="ignore"):
        total = _sum(z if kind == "probs" else xp.exp(z), axis, xp)
    if not is_traced(z):
        good = bool(xp.all(xp.abs(total - 1.0) <= tolerance))
        if not good or (kind == "probs" and bool(xp.any(z < 0.0))):
            refuse_scores(scores, kind, axis=axis, tolerance=tolerance, name=name)
    return z, total


def _rows_have_peaks(z: Array, axis: int, xp: Namespace) -> bool:
    """Tell whether every row has a finite maximum; whole-array reductions are the cheapest."""
    if not bool(xp.max(z) < math.inf):
        return False
    return bool(xp.min(z) > -math.inf) or bool(xp.all(xp.max(z, axis=axis) > -math.inf))


def sum_tolerance(dtype: Any, kind: str, n_classes: int) -> float:
    """Return how far the sum of a row may be from 1 for scores stored in ``dtype``.

    1e-3, or what rounding to the dtype explains where that is more: a probability is stored to
    eps/2 of itself, and so its row sum; a log-probability to eps/2 of itself, and so the row sum
    to eps/2 times the row's entropy, at most log K.
    """
    eps = _COARSE_EPS.get(dtype_name(dtype), 0.0)
    return max(ROW_SUM_TOLERANCE, eps * (math.log(n_classes) if kind == "log_probs" else 1.0))


def warn_if_probs(z: Array, *, axis: int, xp: Namespace) -> None:
    """Warn where what was declared as logits has the shape of probabilities."""
    axis %= z.ndim
    # The first score, or the first row, settles nearly every case without a pass over the rest.
    first = z[tuple(slice(None) if i == axis else 0 for i in range(z.ndim))]
    if not bool((first[0] >= 0.0) & (first[0] <= 1.0)):
        return
    if are_distributions(first, 0, xp) and are_distributions(z, axis, xp):
        warn_of_probs(single_score=False, hard=are_hard(z, xp))


def warn_if_single_probs(z: Array, *, xp: Namespace) -> None:
    """Warn where single scores of two classes, declared as logits, all lie in [0, 1]."""
    if z.shape[0] >= FEW_SCORES and bool((xp.min(z) >= 0.0) & (xp.max(z) <= 1.0)):
        warn_of_probs(single_score=True, hard=are_hard(z, xp))


def are_hard(z: Array, xp: Namespace) -> bool:
    """Return whether all values are 0 or 1, as predicted labels are."""
    return bool(xp.all((z == 0.0) | (z == 1.0)))


def warn_of_probs(*, single_score: bool, hard: bool = False) -> None:
    """Warn that what was declared as logits looks like probabilities, or like predicted labels."""
    rule, what = "every row lies in [0, 1] and sums to 1", "probabilities"
    if single_score:
        rule, what = "every one of them lies in [0, 1]", "probabilities of the second class"
    if hard:
        rule = "every one of them is 0 or 1" if single_score else "every row is a single 1 among 0s"
        warn(
            LikelyProbabilitiesWarning(
                [Argument("scores"), f" look like predicted labels: {rule}."],
                remedy=[
                    "Labels have lost how sure the model is. Pass its logits, or its probabilities "
                    "with ",
                    Setting("kind", "probs"),
                    ".",
                ],
            )
        )
        return
    warn(
        LikelyProbabilitiesWarning(
            [
                Argument("scores"),
                " were declared as ",
                Setting("kind", "logits"),
                f", but {rule}.",
            ],
            remedy=[f"If they are {what}, pass ", Setting("kind", "probs"), "."],
        )
    )


def are_distributions(z: Array, axis: int, xp: Namespace) -> bool:
    """Return whether all rows lie in [0, 1] and sum to 1."""
    if not bool((xp.min(z) >= 0.0) & (xp.max(z) <= 1.0)):
        return False
    off = xp.abs(_sum(z, axis, xp) - 1.0)
    return bool(xp.all(off <= ROW_SUM_TOLERANCE))


def refuse_scores(
    scores: Any,
    kind: str,
    *,
    axis: int,
    tolerance: float = ROW_SUM_TOLERANCE,
    name: str = "scores",
) -> None:
    """Find what is wrong with scores that failed a check, and raise it."""
    host = to_numpy(scores)
    wide = host.astype(np.float64)
    bad = np.isnan(wide) | (wide == np.inf)
    if bad.any():
        raise ScoresError(
            argument=name,
            rule="must not contain NaN or +inf",
            got=_first_element(name, wide, bad),
            remedy="Drop the sample, or repair the model's output.",
        )
    if kind == "probs" and (wide < 0).any():
        raise ScoresError(
            argument=name,
            rule=["must not be negative", *_under(kind, name)],
            got=_first_element(name, wide, wide < 0),
            remedy=[*raw_remedy(name, first=True), " if these are the model's raw outputs."],
        )
    empty = np.all(wide == (0.0 if kind == "probs" else -np.inf), axis=axis)
    if empty.any():
        row = row_element(first_index(empty), host.ndim, axis, name)
        raise ScoresError(
            argument=name,
            rule="must have a finite score in every row",
            got=[row, " with probability 0 for every class"],
            remedy="Drop the sample, or repair the model's output.",
        )
    if kind != "logits":
        _refuse_sums(wide, kind, axis, tolerance, name)


def _refuse_sums(
    wide: NDArray[np.float64], kind: str, axis: int, tolerance: float, name: str
) -> None:
    with np.errstate(over="ignore", under="ignore"):
        probs = wide if kind == "probs" else np.exp(wide)
    above = probs > 1.0 + tolerance
    if above.any():
        raise ScoresError(
            argument=name,
            rule=[f"must be at most {'1' if kind == 'probs' else '0'}", *_under(kind, name)],
            got=_first_element(name, wide, above),
            remedy=[
                *raw_remedy(name, first=True),
                " if these are the model's raw outputs.",
                _percent_remedy(wide[first_index(above)], kind),
            ],
        )
    total = probs.sum(axis=axis)
    # A trifle stricter than the check that failed, whose exponentials may be of a shorter dtype.
    off = np.abs(total - 1.0) > 0.999 * tolerance
    if off.any():
        where = first_index(off)
        raise ScoresError(
            argument=name,
            rule=[
                "must sum to 1 over the class axis",
                *_under(kind, name),
                f", within {tolerance:g}",
            ],
            got=[row_element(where, wide.ndim, axis, name), f" with sum {total[where]:g}"],
            remedy=[
                "Normalise the rows, or ",
                *raw_remedy(name),
                " if these are raw outputs.",
                _percent_remedy(total[where], kind),
            ],
        )


def _percent_remedy(value: float, kind: str) -> Words:
    """Return what to do with percentages, which the scores of a file often are."""
    percent = kind == "probs" and 1.5 < value <= 101
    remedy = " If the rows sum to 100 they are percentages: divide them by 100."
    return Words("", remedy if percent else "")


def raw_remedy(name: str, *, first: bool = False) -> list[Any]:
    """Return what to do with logits where probabilities are asked for; ``first`` of a sentence.

    Functions of posteriors have no ``kind`` to declare.
    """
    if name.startswith("posterior"):
        return ["Take their softmax first" if first else "take their softmax first"]
    return ["Pass " if first else "pass ", Setting("kind", "logits")]


def _under(kind: str, name: str) -> list[Any]:
    return [] if name.startswith("posterior") else [" under ", Setting("kind", kind)]


def _first_element(name: str, scores: NDArray[np.float64], bad: NDArray[np.bool_]) -> Element:
    where = first_index(bad)
    return Element(name, where, float(scores[where]))


def row_element(where: tuple[int, ...], ndim: int, axis: int, name: str = "scores") -> Element:
    """Return a reference to a row: ``scores[3, :]`` for sample 3 of scores (N, K)."""
    index: list[Any] = list(where)
    index.insert(axis % ndim, ":")
    return Element(name, tuple(index))


def excluded_row(row: Element) -> ScoresError:
    """Return the error for a row whose every possible class has target prior 0."""
    return ScoresError(
        argument=row.name,
        rule=[
            "must leave some class of positive ",
            Argument("target_prior"),
            " possible in every row",
        ],
        got=[row, ", whose every possible class has target prior 0"],
        remedy="Give one of them a positive target prior, or drop the sample.",
    )
