"""Rules that choose a strength from a profile so that it does well on other samples too.

The raw maximum of few labels follows their noise: its error shrinks with the cube root of their
number, that of an average with the square root. The other rules give up a little of the value on
the tuning labels for a strength that depends less on which samples these are.

The curve itself shows how much of it is noise. Along the strength a metric changes by jumps, each
caused by one sample that switches (or by some that switch together).
Samples are independent, so the variance of the difference between two strengths is about the sum
of the squares of the jumps between them, the curve's quadratic variation. That needs neither scores
nor a bootstrap. A bin sums many switches into one jump. Where the curve rises steadily, this
overestimates the error.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from reprior.core.arrays import to_numpy
from reprior.core.checks import check_choice
from reprior.core.importance import class_importance, class_support
from reprior.exceptions import Argument, OptionError
from reprior.metrics.count_metrics import CountMetric
from reprior.profile.binning import grid_index
from reprior.profile.objective import Best, SubjectTo
from reprior.profile.passes import HOST_BLOCK
from reprior.profile.profile import StrengthProfile
from reprior.profile.samples import Line, Priors, Samples
from reprior.profile.sweep import Steps
from reprior.tuning.bootstrap import StrengthBootstrap

__all__ = [
    "CURVE_RULES",
    "ROUNDING",
    "RULES",
    "Curve",
    "differences",
    "log_loss_strength",
    "plausible",
    "redrawn_best",
    "select",
    "smoothed",
]

Vector: TypeAlias = np.ndarray[Any, Any]

#: Sums of squares, and double integrals, have errors of some 1e-13: less than this counts as 0.
ROUNDING = 1e-10

#: Number of random draws of a curve's noise. The error of their mean is a sixteenth of their
#: spread, and less because they come in pairs of opposite sign.
REDRAWS = 256

#: If there are more steps, neighbours are merged: 2,000 are finer than the noise.
MOST_STEPS = 2000


def differences(steps: Steps, at: int) -> Vector:
    """Return the standard error of the value of every step minus that of step ``at``.

    Examples
    --------
    >>> steps = Steps(np.array([0.0, 0.5, 1.0]), np.array([0.2, 0.5, 0.1]))
    >>> differences(steps, at=1)
    array([0.3, 0. , 0.4])
    """
    jumps = np.diff(steps.value, prepend=steps.value[:1])
    variation = np.cumsum(jumps**2)
    return np.asarray(np.sqrt(np.abs(variation - variation[at])))


def plausible(steps: Steps, at: int, n_errors: float = 1.0) -> Vector:
    """Return which steps are at most so many standard errors below step ``at``, (J,) bool.

    A neighbouring step differs by one jump, which is exactly one standard error, so it is always
    included.
    """
    short = steps.value[at] - steps.value
    return np.asarray(short <= n_errors * differences(steps, at) + ROUNDING)


def redrawn_best(steps: Steps, high: float) -> Vector:
    r"""Return where the curve is largest after random noise of its own size is added, (256,).

    One strength per draw:

    .. math:: λ^* = \arg\max_λ \; M(λ) + \sum_{j:\,x_j \leq λ} ε_j\,d_j

    with the jumps d_j at the strengths x_j and standard normal ε, the same numbers in every call.
    This does to the curve what a bootstrap does to the samples. Each strength is the middle of a
    step.

    Examples
    --------
    Two peaks that are nearly the same height are each taken about as often:

    >>> steps = Steps(np.array([0.0, 0.4, 0.6, 1.4, 1.6]), np.array([0.0, 0.5, 0.0, 0.51, 0.0]))
    >>> strengths = redrawn_best(steps, 2.0)
    >>> float(np.mean(strengths < 1.0).round(1)), float(strengths.mean().round(1))
    (0.5, 1.0)
    """
    at = np.arange(steps.start.size)
    if at.size > MOST_STEPS:  # merge neighbours: their noise adds up
        grid = np.linspace(steps.start[0], high, MOST_STEPS)
        at = np.unique(np.searchsorted(steps.start, grid, side="right") - 1)
    variation = np.cumsum(np.diff(steps.value, prepend=steps.value[:1]) ** 2)[at]
    noise = np.cumsum(_normals()[:, : at.size] * np.sqrt(np.diff(variation, prepend=0.0)), axis=1)
    best = np.concatenate([(steps.value[at] + side).argmax(axis=1) for side in (noise, -noise)])
    start = steps.start[at]
    return np.asarray((start[best] + np.append(start[1:], high)[best]) / 2)


@cache
def _normals() -> Vector:
    """Return normal random numbers, the same in every process; each is used with both signs."""
    drawn = np.random.default_rng(0).standard_normal((REDRAWS // 2, MOST_STEPS))
    drawn.flags.writeable = False  # cached: all callers share them
    return drawn


def smoothed(steps: Steps, high: float, strengths: Vector, half_width: float) -> Vector:
    r"""Average the curve around each strength, with weights that fall linearly to 0.

    .. math:: \bar M(λ) = \frac{\int M(u)\,k(u)\,du}{\int k(u)\,du}, \qquad
        k(u) = \max\bigl(0, 1 - |u - λ| / h\bigr)

    over the bounds of the curve, with the half width h. Exact: a step function's first and second
    antiderivative are known.

    Examples
    --------
    >>> steps = Steps(np.array([0.0, 1.0]), np.array([0.0, 1.0]))
    >>> smoothed(steps, 2.0, np.array([0.0, 1.0, 1.5]), half_width=1.0)
    array([0.   , 0.5  , 0.857])
    """
    low, h = steps.start[0], half_width
    a, b = np.maximum(strengths - h, low), np.minimum(strengths + h, high)
    first, second = _antiderivatives(steps)
    (left, left_2), (right, right_2), (_, here_2) = (
        _integrals(steps, first, second, point) for point in (a, b, strengths)
    )
    below, above = strengths - a, b - strengths
    area = right * (1 - above / h) - left * (1 - below / h) + (left_2 + right_2 - 2 * here_2) / h
    weight = below * (1 - below / (2 * h)) + above * (1 - above / (2 * h))
    return np.asarray(area / weight)


def _antiderivatives(steps: Steps) -> tuple[Vector, Vector]:
    """Return ∫M and ∫∫M from the lower bound to the start of every step."""
    width = np.diff(steps.start)
    first = np.concatenate([[0.0], np.cumsum(steps.value[:-1] * width)])
    grown = first[:-1] * width + steps.value[:-1] * width**2 / 2
    return first, np.concatenate([[0.0], np.cumsum(grown)])


def _integrals(steps: Steps, first: Vector, second: Vector, at: Vector) -> tuple[Vector, Vector]:
    """Return ∫M and ∫∫M from the lower bound to given strengths."""
    step = np.searchsorted(steps.start, at, side="right") - 1
    past, value = at - steps.start[step], steps.value[step]
    return (
        first[step] + value * past,
        second[step] + first[step] * past + value * past**2 / 2,
    )


#: Newton stops at a step this small: the remaining error is about its square.
STEP_TOLERANCE = 1e-7

#: Enough for bisection alone to converge, from any bounds.
MAX_ITERATIONS = 60


class _Slope(NamedTuple):
    """The first and second derivative of the log-loss by the strength."""

    slope: float
    curvature: float


def log_loss_strength(samples: Samples, priors: Priors) -> float:
    r"""Return the strength within the bounds at which the posterior has the least log-loss.

    .. math:: \min_λ \; \sum_i v_i \frac{P_t(y_i)}{P_l(y_i)}
        \Bigl( \log \sum_k e^{z_{ik} + λ w_k} - z_{i y_i} - λ w_{y_i} \Bigr)

    with the log-scores z, the slopes w = log P_t − log P_s, the weights v, and the prior P_l that
    the labels follow: their own frequencies, unless ``priors`` have it. It is convex in λ, with
    the slope E[w] − w_y and the curvature Var[w] under the posterior. Samples whose own class is
    impossible at every λ are left out.

    Parameters
    ----------
    samples : Samples
        Scores, labels and weights.
    priors : Priors
        Slopes, bounds and the prior of the labels.
    """
    ratio = _importance(samples, priors)
    low, high = priors.bounds
    if _derivatives(samples, priors, ratio, low).slope >= 0.0:
        return low
    if _derivatives(samples, priors, ratio, high).slope <= 0.0:
        return high
    at = min(max(1.0, low), high)
    for _ in range(MAX_ITERATIONS):
        here = _derivatives(samples, priors, ratio, at)
        low, high = (at, high) if here.slope < 0.0 else (low, at)
        after = at - here.slope / here.curvature if here.curvature > 0.0 else np.inf
        if not low <= after <= high:  # Newton has left the bracket
            after = (low + high) / 2
        step, at = abs(after - at), after
        if step <= STEP_TOLERANCE:
            break
    return float(at)


def _importance(samples: Samples, priors: Priors) -> Vector:
    """Return P_t / P_l of every class; 0 for one without labels."""
    weight = np.ones(samples.labels.shape) if samples.weights is None else samples.weights
    left_out = samples.left_out()
    if left_out is not None:
        weight = np.where(left_out, 0.0, weight)
    return class_importance(
        class_support(samples.labels, weight, samples.n_classes),
        target_prior=priors.target,
        label_prior=priors.label,
    )


def _derivatives(samples: Samples, priors: Priors, ratio: Vector, strength: float) -> _Slope:
    active = np.isfinite(priors.slopes)
    w = priors.slopes[active]
    column = np.cumsum(active) - 1
    total = np.zeros(2)
    for index in samples.blocks(HOST_BLOCK):
        block = samples.read(index)
        if not block.labels.size:
            continue
        z = to_numpy(block.scores).astype(np.float64)[:, active]
        own = column[block.labels]
        possible = active[block.labels] & np.isfinite(z[np.arange(own.size), own])
        weight = ratio[block.labels] * possible
        if block.weights is not None:
            weight = weight * block.weights
        lines = z + strength * w
        p = np.exp(lines - lines.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        mean = p @ w
        total += (weight @ (mean - w[own]), weight @ (p @ w**2 - mean**2))
    return _Slope(*total.tolist())


#: Number of strengths at which a smoothed curve is evaluated.
SMOOTH_GRID = 1001

#: How far from 1 the best strength usually is. Theory says 1 for a model that is calibrated to its
#: source prior; over-confident models need more, and other metrics than the recall's mean less.
USUAL_SPREAD = 0.5


@dataclass(frozen=True, eq=False)
class Curve:
    """A metric along the strength, from ``steps.start[0]`` to ``high``, and where it is largest."""

    steps: Steps
    high: float
    best_strength: float

    @property
    def _top(self) -> int:
        return int(np.searchsorted(self.steps.start, self.best_strength, side="right")) - 1

    def plausible(self) -> tuple[Vector, Vector]:
        """Starts and ends of the steps that are within one standard error of the largest."""
        good = plausible(self.steps, self._top)
        return self.steps.start[good], np.append(self.steps.start[1:], self.high)[good]

    def spread(self) -> float:
        """The length of all plausible strengths together."""
        start, end = self.plausible()
        return float((end - start).sum())


def _smooth(curve: Curve) -> float:
    """Return the maximum of the curve, averaged over the length of all plausible strengths."""
    low, high = float(curve.steps.start[0]), curve.high
    grid = np.linspace(low, high, SMOOTH_GRID)
    width = max(curve.spread(), (high - low) / (SMOOTH_GRID - 1))
    averaged = smoothed(curve.steps, high, grid, width)
    good = np.flatnonzero(averaged >= averaged.max() - ROUNDING)
    runs = np.split(good, np.flatnonzero(np.diff(good) > 1) + 1)
    longest = max(runs, key=len)  # the first one
    return float((grid[longest[0]] + grid[longest[-1]]) / 2)


def _bagged(curve: Curve) -> float:
    """Return the mean of the maxima under random noise."""
    return float(redrawn_best(curve.steps, curve.high).mean())


def _one_se(curve: Curve) -> float:
    """Return the plausible strength nearest 0."""
    start, end = curve.plausible()
    nearest = np.clip(0.0, start, np.maximum(start, np.nextafter(end, start)))
    return float(nearest[np.argmin(np.abs(nearest))])


def _shrunk(curve: Curve) -> float:
    """Return the bagged strength, pulled towards 1 more strongly the less certain it is."""
    drawn, known = redrawn_best(curve.steps, curve.high), USUAL_SPREAD**2
    return 1.0 + float(drawn.mean() - 1.0) * known / (known + float(drawn.var()))


#: Rules that need nothing but the curve.
CURVE_RULES: dict[str, Callable[[Curve], float]] = {
    "max": lambda curve: curve.best_strength,
    "smooth": _smooth,
    "bagged": _bagged,
    "one_se": _one_se,
    "shrunk": _shrunk,
}

#: All rules.
RULES = (*CURVE_RULES, "balanced_log_loss")


def select(
    source: StrengthProfile | StrengthBootstrap,
    metric: str | CountMetric,
    rule: str = "max",
    *,
    subject_to: SubjectTo = None,
    samples: Samples | None = None,
    priors: Priors | Line | None = None,
) -> Best:
    """Choose a strength.

    Parameters
    ----------
    source : StrengthProfile or StrengthBootstrap
        Of the tuning samples. Of a bootstrap its profile is used.
    metric : str or CountMetric
        What the strength is for.
    rule : {"max", "smooth", "bagged", "one_se", "shrunk", "balanced_log_loss"}, default "max"

        - "max": the largest value, at strength 0 where nothing is better, else in the middle of its
          interval: what ``profile.best`` gives.
        - "smooth": the largest value of the curve averaged over neighbouring strengths, over the
          length of all strengths within one standard error of the maximum.
        - "bagged": the mean of the maxima when the curve's noise is drawn at random.
        - "one_se": of the strengths within one standard error of the maximum, the one of least
          change, nearest 0. The error is that of the difference of the two values.
        - "shrunk": the bagged strength, pulled towards 1 more strongly the less certain it is.
        - "balanced_log_loss": minimises the log-loss of the labels weighted to the target prior. It
          does not use the metric, and suits metrics that the target prior is made for.

        All but "max" and "balanced_log_loss" estimate the noise from the jumps of the curve. In a
        binned profile a jump sums many switches, and the noise is overestimated where the curve is
        steep: they are then more cautious than necessary.
    subject_to : str or sequence of str, optional
        Constraints as :meth:`reprior.StrengthProfile.best` takes them. If a rule's choice
        breaks one, the nearest strength that keeps all of them is taken.
    samples : Samples, optional
        The scores, for ``"balanced_log_loss"`` of a profile. A bootstrap has them.
    priors : Priors, optional
        Their priors; the bounds are the profile's.

    Returns
    -------
    Best
        The strength, the metric there on the tuning labels, and the strengths that do equally well
        next to it.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> labels = (rng.random(300) < 0.2).astype(int)
    >>> margin = 3.0 * labels - 1.5 + 1.5 * rng.normal(size=300) + np.log(0.2 / 0.8)
    >>> logits = np.stack([np.zeros(300), margin], axis=1)
    >>> profile = StrengthProfile.from_scores(logits, labels, source_prior=[0.8, 0.2])
    >>> [round(select(profile, "balanced_accuracy", rule).strength, 2) for rule in CURVE_RULES]
    [0.81, 0.84, 0.79, 0.59, 0.81]
    """
    check_choice("rule", rule, RULES)
    profile = source.profile if isinstance(source, StrengthBootstrap) else source
    if rule == "max":
        return profile.best(metric, subject_to=subject_to)
    if rule == "balanced_log_loss":
        if isinstance(source, StrengthBootstrap):
            samples, priors = source.samples, source.priors
        strength = _by_log_loss(samples, priors, profile.bounds)
    else:
        largest = profile._widest_best(metric).strength
        steps = profile._steps_of(metric).utility(profile._metric(metric))
        curve = Curve(steps, profile.bounds[1], largest)
        strength = CURVE_RULES[rule](curve)
    return _placed(profile, metric, strength, subject_to)


def _by_log_loss(
    samples: Samples | None, priors: Priors | Line | None, bounds: tuple[float, float]
) -> float:
    if samples is None or priors is None:
        raise OptionError(
            [Argument("rule"), " 'balanced_log_loss' must have scores. Got a profile alone."],
            remedy=[
                "Pass ",
                Argument("samples"),
                " and ",
                Argument("priors"),
                ", or StrengthBootstrap.from_scores(…).",
            ],
        )
    if not isinstance(priors, Priors):
        raise OptionError(
            argument="rule",
            rule="must be one that needs no priors along other lines than theirs",
            got="'balanced_log_loss'",
            remedy="Pass 'max' or another rule that looks at the curve.",
        )
    return log_loss_strength(samples, replace(priors, bounds=bounds))


def _placed(
    profile: StrengthProfile, metric: str | CountMetric, strength: float, subject_to: SubjectTo
) -> Best:
    """Move a strength into the bounds, onto the grid of a binned profile, and to feasible ones."""
    low, high = profile.bounds
    strength = min(max(strength, low), high)
    if profile.resolution is not None:
        on_grid = round(strength / profile.resolution) * profile.resolution
        strength = on_grid if low <= on_grid <= high else strength
    found = profile._metric(metric)
    steps, feasible = profile._feasible(profile._steps_of(found), subject_to, found)
    end = np.append(steps.start[1:], high)
    step = int(np.searchsorted(steps.start, strength, side="right")) - 1
    if feasible is not None and not feasible[step]:
        # The last strength of [start, end) is the one before the end, or the grid point before it.
        before = np.nextafter(end, -np.inf)
        if profile.resolution is not None:
            before = (grid_index(end, profile.resolution) - 1) * profile.resolution
        nearest = np.clip(strength, steps.start, np.maximum(steps.start, before))
        step = int(np.argmin(np.where(feasible, np.abs(nearest - strength), np.inf)))
        strength = float(nearest[step])
    a, b = float(steps.start[step]), float(end[step])
    return Best(
        strength,
        float(steps.value[step]),
        (a, b),
        a <= low or b >= high,
        profile._doubt(strength),
    )
