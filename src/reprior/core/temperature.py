"""One scalar temperature by log-loss: a convex problem in 1/T, solved by safeguarded Newton."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from reprior._warnings import warn
from reprior.core.checks import as_parts, check_bounds, check_kind
from reprior.core.weighted_rows import LossRows, WeightedRows
from reprior.exceptions import Argument, RepriorWarning, Text

__all__ = [
    "LogLoss",
    "Loss",
    "TemperatureFit",
    "best_temperature",
    "fit_temperature",
    "minimise_temperature",
    "temperature_at_bound",
]

STEP_TOLERANCE = 1e-6
"""Newton stops at a step this small relative to 1/T: the error is of its square."""

SHORT_STEP = 0.05
"""After steps this small, two passes determine the loss well enough that the second may be the
last."""

MAX_ITERATIONS = 60
"""Far more than bisection of the bounds to the tolerance needs; usual are 4 to 8."""

GROWTH = 4.0
"""The most by which 1/T may grow or shrink in a step before the optimum is bracketed."""

BOUNDS = (0.01, 100.0)
"""The range of T where none is given."""


@dataclass(frozen=True)
class TemperatureFit:
    """The result of :func:`fit_temperature`.

    Attributes
    ----------
    temperature : float
        T, to divide log-scores by.
    log_loss : float
        The (weighted) mean log-loss in nats at T, on the labels it was fitted on.
    converged : bool
        Whether T is the minimum within the bounds.
    n_iterations : int
        Passes over all the scores.
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
        may hold anything.
    bounds : (float, float), default (0.01, 100)
        The range of T. Where every sample is classified right, the best T is 0; where scores carry
        no information, it is infinite. The fit then ends at the bound, with a warning.

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
    data = WeightedRows.read(
        scores,
        labels,
        sample_weight=sample_weight,
        kind=kind,
        class_axis=class_axis,
        ignore_index=ignore_index,
    )
    fit = best_temperature(data, (low, high))
    if fit.at_bound:
        warn(temperature_at_bound(fit.temperature, (low, high), of=Argument("bounds")))
    return fit


def best_temperature(data: LossRows, bounds: tuple[float, float]) -> TemperatureFit:
    """Return the best temperature of rows. The fit of many starts at the optimum of a sample."""
    start, sample = 1.0, data.sample()
    if sample is not None:
        near = minimise_temperature(LogLoss(sample), bounds, 1.0)
        start = 1.0 if near.at_bound else 1.0 / near.temperature
    return minimise_temperature(LogLoss(data), bounds, start)


def temperature_at_bound(
    end: float,
    bounds: tuple[float, float],
    *,
    of: Text,
    remedy: Text = "wider bounds",
) -> RepriorWarning:
    """Return the warning of a temperature at one of its bounds, where the log-loss still falls.

    ``of`` names the bounds, ``remedy`` what can be passed instead.
    """
    why = (
        "every sample is classified right with room to spare"
        if end == bounds[0]
        else "the scores say less about these labels than no scores would"
    )
    return RepriorWarning(
        [
            f"the log-loss still falls at the bound T={end:g} of ",
            *as_parts(of),
            f", as it does where {why}.",
        ],
        remedy=["Pass more or other validation data, or ", *as_parts(remedy), "."],
    )


class Loss(NamedTuple):
    """The log-loss at one 1/T, and its first and second derivative."""

    value: float
    slope: float
    curvature: float


class LogLoss:
    """The weighted log-loss of rows of log-scores as a function of 1/T.

    Losses of parts add, if their weights sum to 1 together.
    """

    def __init__(self, data: LossRows) -> None:
        self.data, self._none = data, np.zeros(data.n_classes)

    def __call__(self, inverse: float) -> Loss:
        """Return the loss, its slope and its curvature at 1/T."""
        value, slope, _, curvature, *_ = self.data.moments(inverse, self._none, self._none).tolist()
        return Loss(value, slope, curvature)


def minimise_temperature(
    loss: Callable[[float], Loss], bounds: tuple[float, float], start: float
) -> TemperatureFit:
    """Return the temperature at which a log-loss, given of 1/T, is smallest within ``bounds``.

    ``start`` is the 1/T to begin with. A minimum at a bound is exactly the bound.
    """
    fit = _bracketed_newton(loss, 1.0 / bounds[1], 1.0 / bounds[0], start)
    if not fit.at_bound:
        return fit
    sharp = fit.temperature < math.sqrt(bounds[0] * bounds[1])
    return replace(fit, temperature=bounds[0] if sharp else bounds[1])


def _bracketed_newton(
    loss: Callable[[float], Loss], low: float, high: float, start: float = 1.0
) -> TemperatureFit:
    """Find the root of the slope in [low, high] by Newton steps that never leave the bracket."""
    left, right = low, high
    inverse = min(max(start, low), high)
    last_step = math.inf
    previous: tuple[float, Loss] | None = None
    tried: set[float] = set()
    for n in range(1, MAX_ITERATIONS + 1):
        current = loss(inverse)
        tried.add(inverse)
        if current.value == 0.0:  # separable, to the precision of the dtype
            return TemperatureFit(1.0 / high, 0.0, True, n, True)
        if current.slope == 0.0 or inverse == (low if current.slope > 0.0 else high):
            return TemperatureFit(1.0 / inverse, current.value, True, n, current.slope != 0.0)
        left, right = (left, inverse) if current.slope > 0.0 else (inverse, right)
        downhill = -math.copysign(math.inf, current.slope)
        step = -current.slope / current.curvature if current.curvature > 0.0 else downhill
        end = _end(previous, (inverse, current), step)
        if end is not None and low <= inverse + end.step <= high:
            return TemperatureFit(1.0 / (inverse + end.step), end.value, True, n, False)
        # Where Newton leaves the bracket or crawls: halve the bracket, or reach out for its end.
        bracketed = {left, right} <= tried
        slow = abs(step) > 0.5 * last_step
        last_step = abs(step)
        wanted = downhill if slow else inverse + step
        previous = inverse, current
        inverse = min(max(wanted, inverse / GROWTH, left), inverse * GROWTH, right)
        if inverse in tried or (slow and bracketed):
            inverse = math.sqrt(left * right)
    return TemperatureFit(1.0 / inverse, loss(inverse).value, False, MAX_ITERATIONS + 1, False)


class _End(NamedTuple):
    """The last step, which needs no further pass, and the loss where it leads."""

    step: float
    value: float


def _end(
    previous: tuple[float, Loss] | None, now: tuple[float, Loss], newton: float
) -> _End | None:
    """Return the step to the root, or None where another pass is needed to know it.

    It is Newton's step where that is tiny. Where it is only small, the slopes and curvatures at
    the last two points are enough: 1/T as a function of the slope is interpolated by a cubic,
    with an error of the square of the two steps' product.
    """
    inverse, current = now
    if abs(newton) <= STEP_TOLERANCE * inverse:
        return _End(
            newton, current.value + newton * (current.slope + 0.5 * newton * current.curvature)
        )
    if previous is None or abs(newton) > SHORT_STEP * inverse:
        return None
    x, last = previous
    gap = current.slope - last.slope
    if abs(inverse - x) > SHORT_STEP * inverse or last.curvature <= 0.0 or gap == 0.0:
        return None
    t = current.slope / gap  # the share of the way back to the last point, in slopes
    step = (x - inverse) * t * t * (3.0 - 2.0 * t)
    step += gap * t * (1.0 - t) * (t / last.curvature - (1.0 - t) / current.curvature)
    if abs(step - newton) > STEP_TOLERANCE * inverse:
        return None
    third = (current.curvature - last.curvature) / (inverse - x)
    return _End(step, current.value + 0.5 * step * current.slope - step**3 * third / 12.0)
