"""The best strength, looked for further up where it is at the upper bound, or none is allowed."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence

from reprior.exceptions import InfeasibleError, RepriorWarning
from reprior.metrics.count_metrics import CountMetric
from reprior.profile.constants import WIDEST_BOUND, shown_bound
from reprior.profile.objective import Best, Constraint, SubjectTo
from reprior.profile.profile import StrengthProfile

__all__ = ["best_widened", "best_within"]

#: Near is the last fifth of the range. A curve that still rises at the bound is noisy, and has its
#: maximum a little before it: of over-confident models (scores three times too large), 18 of 20
#: fits ended more than a point short where only a best at the very bound was followed further up.
NEAR = 0.2


def best_widened(
    profile_of: Callable[[tuple[float, float]], StrengthProfile],
    bounds: tuple[float, float],
    metric: CountMetric,
    constraints: SubjectTo,
    *,
    stacklevel: int,
) -> tuple[Best, StrengthProfile]:
    """Profile within ``bounds``, and again with the upper bound doubled while the best is near it.

    So it is while no strength satisfies the constraints. The lower bound stays. Each doubling is
    said in a warning, but for one that finds nothing better than a best near the bound: that is
    kept. Where no strength up to the cap changes the metric, the result is that of the bounds as
    given. ``stacklevel`` is how many frames up from here the user's call is.
    """
    low, high = bounds
    profile = profile_of((low, high))
    sentences = []
    while (best := _allowed(profile, metric, constraints)) is None:
        wider = _doubled(high)
        sentences.append(
            f"No strength up to {high:g} satisfies `subject_to`: searching up to {wider:g}."
        )
        high = wider
        profile = profile_of((low, high))
    narrow = best, profile
    while _near_the_top(best, (low, high), metric):
        at_bound = best.interval[1] >= high
        if high >= WIDEST_BOUND:
            if not at_bound:
                break
            sentences.append(
                f"The best strength lies at the upper bound {high:g}; more is not tried. Either "
                f"{metric.name} rises with every correction (then limit it by `subject_to`), or "
                f"`source_prior` is not what the model was trained on."
            )
            break
        wider = _doubled(high)
        further = profile_of((low, wider))
        found = further.best(metric, subject_to=constraints)
        if not at_bound and found.value <= best.value:
            break
        sentences.append(
            f"The best strength lay {'at' if at_bound else 'near'} the upper bound {high:g}: "
            f"searching up to {wider:g}."
        )
        best, profile, high = found, further, wider
    if sentences and best.interval == (low, high):
        sentences = [f"No strength from {shown_bound(low):g} to {high:g} changes {metric.name}."]
        best, profile = narrow
    for sentence in sentences:
        warnings.warn(sentence, RepriorWarning, stacklevel=stacklevel + 1)
    return best, profile


def _allowed(profile: StrengthProfile, metric: CountMetric, constraints: SubjectTo) -> Best | None:
    """The best strength; None where none is allowed, but others are left to look at."""
    try:
        return profile.best(metric, subject_to=constraints)
    except InfeasibleError:
        if profile.bounds[1] >= WIDEST_BOUND:
            raise
        return None


def _doubled(high: float) -> float:
    return min(2 * high, WIDEST_BOUND) if high > 0 else WIDEST_BOUND


def best_within(
    profile: StrengthProfile,
    metric: CountMetric,
    constraints: Sequence[Constraint],
    *,
    stacklevel: int,
) -> Best:
    """The best within the profile's bounds; a warning where it lies at the upper one.

    For scores that come by once and cannot be profiled again.
    """
    best, (low, high) = profile.best(metric, subject_to=constraints), profile.bounds
    if _near_the_top(best, (low, high), metric):
        where = "at" if best.interval[1] >= high else "near"
        what = f"The best strength lies {where} the upper bound {high:g}"
        if best.interval == (low, high):
            what = f"No strength from {shown_bound(low):g} to {high:g} changes {metric.name}"
        warnings.warn(
            f"{what}, and the scores cannot be read again to look further up. Pass wider "
            f"`bounds`, or `again` to read them anew.",
            RepriorWarning,
            stacklevel=stacklevel + 1,
        )
    return best


def _near_the_top(best: Best, bounds: tuple[float, float], metric: CountMetric) -> bool:
    """Whether more than the upper bound might be better.

    So it might where the best is the bound alone, be it as large as can be: no prediction is sure
    to be made at a switch, and right behind the bound the same may last.
    """
    low, high = bounds
    alone = best.interval[0] >= high
    near = best.interval[1] >= high - NEAR * (high - low)
    return near and (alone or best.value < metric.largest)
