"""How to choose a strength from a profile so that it does well on other samples too.

The raw maximum of few labels follows their noise: it settles with the cube root of their number,
where an average settles with the square root. The other rules give up a little of the value on
the tuning labels for a strength that depends less on which samples these were.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from reprior.core.checks import check_choice
from reprior.exceptions import OptionError
from reprior.metrics.count_metrics import CountMetric
from reprior.profile.bin_grid import grid_index
from reprior.profile.binning import BinnedSwitches
from reprior.profile.objective import Best, SubjectTo
from reprior.profile.profile import StrengthProfile
from reprior.profile.reading import Reading
from reprior.profile.sweep import Steps
from reprior.tuning.balanced_loss import log_loss_strength
from reprior.tuning.bootstrap import StrengthBootstrap
from reprior.tuning.noise import ROUNDING, plausible, redrawn_best, smoothed

__all__ = ["CURVE_RULES", "RULES", "Curve", "select"]

Vector: TypeAlias = np.ndarray[Any, Any]

#: Strengths at which a smoothed curve is looked at.
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
    """The largest of the curve once it is averaged over the length of what is plausible."""
    low, high = float(curve.steps.start[0]), curve.high
    grid = np.linspace(low, high, SMOOTH_GRID)
    width = max(curve.spread(), (high - low) / (SMOOTH_GRID - 1))
    averaged = smoothed(curve.steps, high, grid, width)
    good = np.flatnonzero(averaged >= averaged.max() - ROUNDING)
    runs = np.split(good, np.flatnonzero(np.diff(good) > 1) + 1)
    longest = max(runs, key=len)  # the first of them
    return float((grid[longest[0]] + grid[longest[-1]]) / 2)


def _bagged(curve: Curve) -> float:
    """The mean of where the largest would be, were the noise drawn anew."""
    return float(redrawn_best(curve.steps, curve.high).mean())


def _one_se(curve: Curve) -> float:
    """The plausible strength nearest 0."""
    start, end = curve.plausible()
    nearest = np.clip(0.0, start, np.maximum(start, np.nextafter(end, start)))
    return float(nearest[np.argmin(np.abs(nearest))])


def _shrunk(curve: Curve) -> float:
    """Between the bagged one and 1: nearer 1 the less the labels can tell."""
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
    reading: Reading | None = None,
) -> Best:
    """Choose a strength.

    Parameters
    ----------
    source : StrengthProfile or StrengthBootstrap
        Of the tuning samples. A bootstrap stands for its profile.
    metric : str or CountMetric
        What the strength is for.
    rule : {"max", "smooth", "bagged", "one_se", "shrunk", "balanced_log_loss"}, default "max"

        - "max": the largest value, the middle of its interval: what ``profile.best`` gives.
        - "smooth": the largest value of the curve averaged over neighbouring strengths, as far
          as those reach that are within one standard error of the maximum.
        - "bagged": the mean of where the maximum would be, were the curve's noise drawn anew.
        - "one_se": of the strengths within one standard error of the maximum, the one of least
          change, nearest 0. The error is that of the difference of the two values.
        - "shrunk": the bagged one, drawn towards 1 by as much as it is uncertain.
        - "balanced_log_loss": what minimises the log-loss of the labels weighted to the target
          prior. It knows nothing of the metric, and is for those that the target prior is for.

        All but "max" and "balanced_log_loss" tell the noise from the jumps of the curve. In a
        binned profile a jump is that of many switches, and the noise comes out too large where
        the curve is steep: they are then more cautious than they need be.
    subject_to : str or sequence of str, optional
        Constraints as :meth:`reprior.StrengthProfile.best` takes them. Where a rule's choice
        breaks one, the nearest strength is taken that keeps all of them.
    reading : Reading, optional
        The scores, for ``"balanced_log_loss"`` of a profile. A bootstrap knows them.

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
    best = profile.best(metric, subject_to=subject_to)
    if rule == "max":
        return best
    if rule == "balanced_log_loss":
        if isinstance(source, StrengthBootstrap):
            reading = source.reading
        strength = _by_log_loss(reading, profile.bounds)
    else:
        raw = profile.best(metric).strength if subject_to else best.strength
        curve = Curve(profile._steps_of(metric), profile.bounds[1], raw)
        strength = CURVE_RULES[rule](curve)
    return _placed(profile, metric, strength, subject_to)


def _by_log_loss(reading: Reading | None, bounds: tuple[float, float]) -> float:
    if reading is None:
        raise OptionError(
            "`rule` 'balanced_log_loss' must have scores. Got a profile alone. Pass `reading`, or "
            "StrengthBootstrap.from_scores(…)."
        )
    return log_loss_strength(replace(reading, bounds=bounds))


def _placed(
    profile: StrengthProfile, metric: str | CountMetric, strength: float, subject_to: SubjectTo
) -> Best:
    """The strength within the bounds, on the grid of a binned profile, and where it may be."""
    low, high = profile.bounds
    strength = min(max(strength, low), high)
    if profile.resolution is not None:
        on_grid = round(strength / profile.resolution) * profile.resolution
        strength = on_grid if low <= on_grid <= high else strength
    steps, feasible = profile._feasible(profile._steps_of(metric), subject_to)
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
        _doubt(profile, strength),
    )


def _doubt(profile: StrengthProfile, strength: float) -> float:
    """The share of the weight that switches inside the bin of a strength; 0 without bins."""
    if not isinstance(profile._switches, BinnedSwitches) or profile.resolution is None:
        return 0.0
    moved = profile._switches.mass_after(strength, profile.resolution)
    return moved / float(profile._support(profile._table).sum())
