"""Top-k accuracy over the strength of the correction, exactly: no grid of strengths."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from reprior.core.checks import check_labels
from reprior.core.prior import as_prior, as_target_prior, slopes
from reprior.exceptions import OptionError

__all__ = ["top_k_curve"]

Array: TypeAlias = np.ndarray[Any, Any]

#: Scores that are looked at at once: some copies of so many fit a CPU's cache or nearly so.
BLOCK = 1 << 19


def top_k_curve(
    scores: Any,
    labels: Any,
    *,
    source_prior: Any,
    k: int = 5,
    bounds: tuple[float, float] = (0.0, 2.0),
) -> tuple[Array, Array]:
    r"""Return the top-k accuracy as a step function of the strength, for a uniform target prior.

    The lines :math:`z_j + λ w_j` of the classes, with slopes :math:`w = \log P_t - \log P_s`, meet
    the line of the true class y at

    .. math:: λ_j = \frac{z_y - z_j}{w_j - w_y}

    where z are the scores of a sample. A class of larger slope is ahead of y from λ_j on, one of
    smaller slope up to λ_j. So y is among the first k where, for some i from 0 to k − 1, at most i
    of the former and at most k − 1 − i of the latter are ahead: from the (k − i)-th largest λ_j of
    the latter up to the (i + 1)-th smallest of the former. These k intervals need no sorting of
    all classes: the k smallest and the k largest crossings are enough.

    Parameters
    ----------
    scores : array of shape (N, K)
        Logits or log-probabilities.
    labels : integer array of shape (N,)
        Class indices.
    source_prior : array-like of shape (K,)
        P_s.
    k : int, default 5
        1 … K. With 1 it is the accuracy curve of :class:`reprior.StrengthProfile`.
    bounds : (float, float), default (0, 2)
        The strengths covered.

    Returns
    -------
    strengths, values : ndarray
        ``values[i]`` holds from ``strengths[i]`` to the next; the first strength is the lower
        bound. At a crossing the larger slope is ahead; of equal lines the lower index is.

    Examples
    --------
    >>> scores = np.array([[2.0, 1.0, 0.0], [3.0, 2.0, 0.0]])
    >>> top_k_curve(scores, [0, 2], source_prior=[0.6, 0.3, 0.1], k=2)
    (array([0.        , 1.44269504, 1.67433188]), array([0.5, 0. , 0.5]))
    """
    known = np.asarray(labels)
    z = np.asarray(scores)
    source = as_prior(source_prior, name="source_prior", n_classes=z.shape[-1])
    check_labels(known, n_classes=source.size, shape=z.shape[:-1])
    _check_k(k, source.size)
    w = slopes(source, as_target_prior("uniform", n_classes=source.size))
    step = max(1, BLOCK // source.size)
    parts = [
        _right_within(z[at : at + step].astype(np.float64), known[at : at + step], w, int(k))
        for at in range(0, known.size, step)
    ]
    begins, ends = (np.concatenate(each) for each in zip(*parts, strict=True))
    return _steps(begins, ends, known.size, bounds)


def _check_k(k: Any, n_classes: int) -> None:
    if isinstance(k, bool) or not isinstance(k, int | np.integer) or not 1 <= k <= n_classes:
        raise OptionError(
            f"`k` must be an integer from 1 to the number of classes, {n_classes}. Got {k!r}. "
            f"Pass a smaller k."
        )


def _right_within(z: Array, y: Array, w: Array, k: int) -> tuple[Array, Array]:
    """Begins and ends of the intervals [a, b) of strengths in which y is among the first k."""
    rows = np.arange(y.size)
    gap, rise = z[rows, y][:, None] - z, w - w[y][:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        crossing = gap / rise
    # Of equal slopes: ahead at every strength, or at none.
    ahead = (gap < 0) | ((gap == 0) & (np.arange(w.size) < y[:, None]))
    level = np.where(ahead, -np.inf, np.inf)
    rising = np.where(rise > 0, crossing, np.where(rise == 0, level, np.inf))
    falling = np.where(rise < 0, crossing, -np.inf)
    rising[rows, y] = np.inf
    enter = np.sort(np.partition(rising, k - 1, axis=1)[:, :k], axis=1)
    leave = np.sort(-np.partition(-falling, k - 1, axis=1)[:, :k], axis=1)
    # Both ends of the k intervals ascend, so that what is new in each begins where the last ended.
    last = np.pad(enter[:, :-1], ((0, 0), (1, 0)), constant_values=-np.inf)
    begin = np.maximum(leave, last)
    there = begin < enter
    return begin[there], enter[there]


def _steps(begins: Array, ends: Array, n: int, bounds: tuple[float, float]) -> tuple[Array, Array]:
    """The share of samples that are right, as steps, from the intervals in which they are."""
    low, high = bounds
    start = np.count_nonzero((begins <= low) & (ends > low))
    at = np.concatenate([begins, ends])
    change = np.repeat(np.array([1, -1]), [begins.size, ends.size])
    inside = (at > low) & (at <= high)
    strengths, where = np.unique(at[inside], return_inverse=True)
    moved = np.bincount(where, change[inside], strengths.size).astype(np.int64)
    kept = moved != 0  # one sample that comes where another goes leaves the share as it is
    values = np.concatenate([[start], start + np.cumsum(moved[kept])]) / n
    return np.concatenate([[low], strengths[kept]]), values
