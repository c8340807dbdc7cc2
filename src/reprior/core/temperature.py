"""One scalar temperature by log-loss: a convex problem in 1/T, solved by safeguarded Newton."""

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from reprior.core.arrays import (
    Array,
    Namespace,
    accumulation_dtype,
    constant,
    device_of,
    is_floating,
    is_numpy_namespace,
    namespace,
    to_numpy,
)
from reprior.core.binary import log_columns
from reprior.core.blocks import SHORT_ROW
from reprior.core.checks import (
    check_bounds,
    check_class_axis,
    check_kind,
    check_labels,
    check_sample_weight,
)
from reprior.core.logspace import as_scores
from reprior.exceptions import LabelsError, RepriorWarning, ScoresError

__all__ = ["LogLoss", "Loss", "TemperatureFit", "fit_temperature", "minimise"]

STEP_TOLERANCE = 1e-6
"""Newton stops at a step this small relative to 1/T: the next error is of its square."""

MAX_ITERATIONS = 60
"""Far more than bisection of the bounds to the tolerance needs; usual are 4 to 8."""

GROWTH = 4.0
"""The most by which 1/T may grow or shrink in a step before the optimum is bracketed."""

BOUNDS = (0.01, 100.0)
"""The range of T where none is given."""

BLOCK_ITEMS = 1 << 17
"""Scores per block on NumPy: one block and its two temporaries stay in the cache."""


@dataclass(frozen=True)
class TemperatureFit:
    """What :func:`fit_temperature` found.

    Attributes
    ----------
    temperature : float
        T, to divide log-scores by.
    log_loss : float
        The (weighted) mean log-loss in nats at T, on the labels it was fitted on.
    converged : bool
        Whether T is the minimum within the bounds.
    n_iterations : int
        Passes over the scores.
    at_bound : bool
        Whether T is an end of the bounds because the log-loss still falls there.
    """

    temperature: float
    log_loss: float
    converged: bool
    n_iterations: int
    at_bound: bool


def fit_temperature(
    scores: Any,
    labels: Any,
    *,
    sample_weight: Any = None,
    kind: str = "logits",
    class_axis: int = -1,
    ignore_index: int | None = None,
    bounds: tuple[float, float] = BOUNDS,
) -> TemperatureFit:
    r"""Return the temperature that minimises the log-loss of softmax(z / T).

    .. math:: \min_T \; \frac{1}{\sum_i v_i} \sum_i v_i
        \Bigl( \log \sum_k e^{z_{ik}/T} - z_{i y_i}/T \Bigr)

    where z_ik is the log-score of class k for sample i, y_i the sample's label, v_i its weight
    and T the temperature. In 1/T this is convex, with the slope E[z] − z_y and the curvature
    Var[z] under the tempered posterior: Newton's method, kept inside a bracket, cannot diverge.

    Parameters
    ----------
    scores : array of shape (..., K, ...)
        The model's outputs on validation samples. For two classes also one score per sample,
        that of class 1: shape (N,), or 1 on the class axis.
    labels : integer array of the scores' shape without the class axis
        Class indices.
    sample_weight : array of the labels' shape, optional
        Weights v.
    kind : {"logits", "probs", "log_probs"}, default "logits"
        What the scores are.
    class_axis : int, default -1
        The axis of the classes.
    ignore_index : int, optional
        A label that marks samples to leave out. Their scores, and those of samples of weight 0,
        are not looked at.
    bounds : (float, float), default (0.01, 100)
        The range of T. Where every sample is classified right the best T is 0, where scores say
        nothing it is infinite: the fit then ends at the bound, with a warning.

    Returns
    -------
    TemperatureFit
        Temperature, log-loss, and how the fit went.

    References
    ----------
    .. [1] Guo, Pleiss, Sun, Weinberger. "On Calibration of Modern Neural Networks", ICML 2017.
    .. [2] Tian, Liu, Glaser, Hsu, Kira. "Posterior Re-calibration for Imbalanced Datasets",
       NeurIPS 2020: temperature scaling as likelihood flattening, Sec. 3.3.

    Examples
    --------
    >>> import numpy as np
    >>> scores = np.array([[4.0, 0.0], [4.0, 0.0], [4.0, 0.0], [0.0, 4.0]])
    >>> fit_temperature(scores, np.array([0, 0, 0, 0])).temperature
    3.6410
    """
    check_kind(kind)
    low, high = check_bounds(bounds, positive=True)
    problem = _problem(scores, labels, sample_weight, kind, class_axis, ignore_index)
    return minimise(problem, (low, high), stacklevel=3)


def minimise(
    loss: "Callable[[float], Loss]", bounds: tuple[float, float], *, stacklevel: int
) -> TemperatureFit:
    """Return the temperature within ``bounds`` at which a log-loss, given of 1/T, is smallest.

    ``stacklevel`` is how many frames up the user's call is, for the warning at a bound.
    """
    low, high = bounds
    found = _minimise(loss, 1.0 / high, 1.0 / low)
    if not found.at_bound:
        return found
    sharp = found.temperature < math.sqrt(low * high)
    end = low if sharp else high
    why = (
        "every sample is classified right with room to spare"
        if sharp
        else "the scores say less about these labels than no scores would"
    )
    warnings.warn(
        f"the log-loss still falls at the bound T={end:g} of `bounds`, as it does where {why}. "
        f"Pass more or other validation data, or wider bounds.",
        RepriorWarning,
        stacklevel=stacklevel,
    )
    return replace(found, temperature=end)


class Loss(NamedTuple):
    """The log-loss at one 1/T, and its first and second derivative."""

    value: float
    slope: float
    curvature: float


def _problem(
    scores: Any,
    labels: Any,
    sample_weight: Any,
    kind: str,
    class_axis: int,
    ignore_index: int | None,
) -> Callable[[float], Loss]:
    """Check the arguments and return the log-loss as a function of 1/T."""
    xp = namespace(scores, labels, sample_weight)
    z = as_scores(scores, xp)
    axis = check_class_axis(z.shape, class_axis)
    if z.ndim == 1:
        z, axis = z[:, None], 1
    shape = tuple(length for i, length in enumerate(z.shape) if i != axis)
    n_classes = max(int(z.shape[axis]), 2)
    y = to_numpy(labels)
    check_labels(y, n_classes=n_classes, shape=shape, ignore_index=ignore_index)
    v = _weights(y, sample_weight, ignore_index)
    log_z = log_columns(_masked(z, v > 0, kind, axis=axis, xp=xp), kind, axis=axis, xp=xp)
    # Classes first where rows are short: sums then run along the samples.
    first = is_numpy_namespace(xp) and n_classes < SHORT_ROW
    rows = xp.moveaxis(log_z, axis, 0 if first else -1)
    rows = xp.reshape(rows, (n_classes, -1) if first else (-1, n_classes))
    kept = np.flatnonzero(v)
    if kept.size < v.size:
        rows = xp.take(rows, constant(kept, xp, like=rows), axis=1 if first else 0)
    y, v = y.reshape(-1)[kept].astype(np.int64), v.reshape(-1)[kept]
    loss = LogLoss(rows, y, v, axis=0 if first else 1, xp=xp)
    loss.refuse_impossible(y, kept)
    return loss


def _weights(y: NDArray[Any], sample_weight: Any, ignore_index: int | None) -> NDArray[np.float64]:
    """Return weights that sum to 1, 0 for ignored samples."""
    v: NDArray[np.float64] = np.ones(y.shape)
    if sample_weight is not None:
        check_sample_weight(sample_weight, y.shape)
        v = np.array(to_numpy(sample_weight), dtype=np.float64)
    if ignore_index is not None:
        v = np.where(y == ignore_index, 0.0, v)
    if not v.any():
        raise LabelsError(
            "`labels` must hold at least one sample of positive weight that is not ignored. "
            "Got none. Check `ignore_index` and `sample_weight`."
        )
    v /= v.max()  # first: the sum of huge weights is infinite
    v /= v.sum()
    return v


def _masked(z: Array, keep: NDArray[np.bool_], kind: str, *, axis: int, xp: Namespace) -> Array:
    """Return the scores with the rows to leave out, whatever they hold, made certain of class 0.

    Such rows pass every check, and the others keep their place in the sentences of errors.
    """
    if keep.all():
        return z
    if not is_floating(z.dtype):
        z = xp.astype(z, accumulation_dtype(xp, device_of(z)))
    certain = np.zeros(int(z.shape[axis]))
    certain[0] = 1.0
    if kind == "log_probs":
        certain = np.where(certain > 0, 0.0, -np.inf)
    shape = tuple(-1 if i == axis else 1 for i in range(z.ndim))
    row = xp.reshape(constant(certain, xp, like=z, dtype=z.dtype), shape)
    return xp.where(constant(np.expand_dims(keep, axis), xp, like=z), z, row)


class LogLoss:
    """The weighted log-loss of rows of log-scores as a function of 1/T.

    ``axis`` is that of the classes. Losses of parts add, if their weights sum to 1 together.
    """

    def __init__(
        self,
        rows: Array,
        labels: NDArray[np.int64],
        weights: NDArray[np.float64],
        *,
        axis: int,
        xp: Namespace,
    ) -> None:
        self.xp, self.axis, self.weights = xp, axis, weights
        self.wide = accumulation_dtype(xp, device_of(rows))
        # Shifted by the row maximum once: no later exponential overflows.
        self.rows = rows - xp.max(rows, axis=axis, keepdims=True)
        n_classes, n = int(rows.shape[axis]), labels.size
        place = labels * n + np.arange(n) if axis == 0 else np.arange(n) * n_classes + labels
        flat = xp.reshape(self.rows, (-1,))
        chosen = to_numpy(xp.take(flat, constant(place, xp, like=rows), axis=0))
        self.chosen = chosen.astype(np.float64)
        impossible = self.rows == -xp.inf
        self.finite = self.rows
        if bool(xp.any(impossible)):
            self.finite = xp.where(impossible, xp.zeros_like(self.rows), self.rows)
        self.step = max(1, BLOCK_ITEMS // n_classes) if is_numpy_namespace(xp) else n

    @classmethod
    def of_rows(
        cls, rows: NDArray[Any], labels: NDArray[np.int64], weights: NDArray[np.float64]
    ) -> "LogLoss":
        """Return the log-loss of NumPy log-scores (n, K): one part of a sum over many such."""
        first = rows.shape[1] < SHORT_ROW
        turned = np.ascontiguousarray(rows.T) if first else rows
        loss = cls(turned, labels, weights, axis=0 if first else 1, xp=namespace(rows))
        loss.refuse_impossible(labels, np.arange(labels.size))
        return loss

    def __call__(self, inverse: float) -> Loss:
        """Return the loss, its slope and its curvature at 1/T."""
        parts = [
            self._block(inverse, slice(start, start + self.step))
            for start in range(0, self.weights.size, self.step)
        ]
        value, slope, curvature = np.sum(parts, axis=0)
        return Loss(float(value), float(slope), float(curvature))

    def _block(self, inverse: float, part: slice) -> NDArray[np.float64]:
        xp, index = self.xp, (slice(None), part) if self.axis == 0 else (part, slice(None))
        mass = xp.exp(self.rows[index] * inverse)
        finite = self.finite[index]
        first = mass * finite
        total, first, second = (
            to_numpy(xp.sum(x, axis=self.axis, dtype=self.wide)).astype(np.float64)
            for x in (mass, first, first * finite)
        )
        mean = first / total
        chosen, weights = self.chosen[part], self.weights[part]
        variance = np.maximum(second / total - mean**2, 0.0)
        losses = np.log(total) - inverse * chosen
        return np.array([weights @ losses, weights @ (mean - chosen), weights @ variance])

    def refuse_impossible(self, labels: NDArray[np.int64], samples: NDArray[np.int64]) -> None:
        """Refuse samples whose own class has probability 0; ``samples`` are their indices."""
        impossible = np.isneginf(self.chosen)
        if not impossible.any():
            return
        where = int(np.argmax(impossible))
        raise ScoresError(
            f"`scores` must leave every sample's own class possible, or the log-loss is infinite "
            f"at any temperature. Got probability 0 for class {labels[where]} of sample "
            f"{samples[where]} (counting along the flattened labels). Drop the sample, pass "
            f"logits, or mix the probabilities p of such a model with a little of the uniform "
            f"ones before: 0.999 * p + 0.001 / K."
        )


def _minimise(loss: Callable[[float], Loss], low: float, high: float) -> TemperatureFit:
    """Find the root of the slope in [low, high] by Newton steps that never leave the bracket."""
    left, right = low, high
    at = min(max(1.0, low), high)
    last = math.inf
    seen: set[float] = set()
    for n in range(1, MAX_ITERATIONS + 1):
        here = loss(at)
        seen.add(at)
        if here.value == 0.0:  # nothing left to lower: as separable as the dtype can tell
            return TemperatureFit(1.0 / high, 0.0, True, n, True)
        if here.slope == 0.0 or at == (low if here.slope > 0.0 else high):
            return TemperatureFit(1.0 / at, here.value, True, n, here.slope != 0.0)
        left, right = (left, at) if here.slope > 0.0 else (at, right)
        downhill = -math.copysign(math.inf, here.slope)
        step = -here.slope / here.curvature if here.curvature > 0.0 else downhill
        if abs(step) <= STEP_TOLERANCE * at and low <= at + step <= high:
            value = here.value + step * (here.slope + 0.5 * step * here.curvature)
            return TemperatureFit(1.0 / (at + step), value, True, n, False)
        # Where Newton leaves the bracket or crawls: halve the bracket, or reach out for its end.
        bracketed = {left, right} <= seen
        slow, last = abs(step) > 0.5 * last, abs(step)
        wanted = downhill if slow else at + step
        at = min(max(wanted, at / GROWTH, left), at * GROWTH, right)
        if at in seen or (slow and bracketed):
            at = math.sqrt(left * right)
    return TemperatureFit(1.0 / at, loss(at).value, False, MAX_ITERATIONS + 1, False)
