"""The exact best strength of more switches than can be kept: bins first, then the best of them.

A binned profile says how good the metric is at every grid point, and how good it can be inside a
bin at most (:class:`~reprior.profile.binning.GrossTable`). Bins that cannot hold the best are left
as they are; the switches inside the others are taken one by one in a second pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields
from typing import Any, TypeAlias

import numpy as np

from reprior.engines.file_states import refuse_other_samples
from reprior.metrics.count_metrics import CountMetric
from reprior.profile.binning import BinnedSwitches, GrossTable
from reprior.profile.constants import EQUAL_VALUES
from reprior.profile.objective import Best, Constraint, SubjectTo, best_interval, middle
from reprior.profile.profile import StrengthProfile
from reprior.profile.sweep import value_of
from reprior.profile.switches import ClassEvents, Switches

__all__ = ["RefinedProfile", "candidates", "refined"]

Vector: TypeAlias = np.ndarray[Any, Any]
ExactParts: TypeAlias = Callable[[], Iterable[StrengthProfile]]

#: What rounding of ratios and of their sum may hide: a bin within this of the best is looked into.
SLACK = 4 * EQUAL_VALUES


class RefinedProfile(StrengthProfile):
    """A binned profile that is exact where one metric, under its constraints, is best.

    :meth:`best` for that metric is the best of the exact profile. Everything else is that of a
    binned profile.
    """

    _metric_of_best: CountMetric
    _rules: Sequence[Constraint]

    def best(self, metric: str | CountMetric, *, subject_to: SubjectTo = None) -> Best:
        """The strength at which the metric is largest: exact for the one it was refined for."""
        rules = Constraint.parse_all(subject_to)
        if metric != self._metric_of_best or list(rules) != list(self._rules):
            return super().best(metric, subject_to=subject_to)
        steps, feasible = self._feasible(self._steps_of(metric), rules)
        a, b, value = best_interval(steps, self.bounds[1], feasible)
        at_bound = a <= self.bounds[0] or b >= self.bounds[1]
        return Best(float(middle(a, b)), value, (a, b), at_bound)


def candidates(
    profile: StrengthProfile,
    gross: GrossTable,
    metric: CountMetric,
    constraints: Sequence[Constraint],
    least: float,
) -> Vector:
    """Which bins may hold a strength that keeps the constraints and is worth ``least``."""
    may = gross.reach(profile, metric).largest >= least - SLACK
    for rule in constraints:
        limited = rule.metric
        assert isinstance(limited, CountMetric)  # noqa: S101 - resolved with the problem
        baseline = value_of(profile.baseline, limited)
        reach = gross.reach(profile, limited)
        farthest = reach.largest + SLACK if rule.relation == ">=" else reach.least - SLACK
        may &= rule.holds(farthest, baseline)
    return may


def refined(
    profile: StrengthProfile,
    gross: GrossTable,
    metric: CountMetric,
    constraints: Sequence[Constraint],
    parts: ExactParts,
    *,
    most: int,
) -> StrengthProfile:
    """The profile with the switches of its candidate bins one by one.

    ``parts`` gives the exact profiles of all parts once more, of which only the switches in those
    bins are kept, ``most`` of them. Where there are more, the profile is returned as it is.
    """
    least = profile.best(metric, subject_to=constraints).value
    switches = profile._switches
    assert isinstance(switches, BinnedSwitches)  # noqa: S101 - an exact one needs no refining
    while True:
        chosen = candidates(profile, gross, metric, constraints, least)
        inside = chosen[gross.bins_of(switches.point)]
        n = int(switches.count[inside].sum())
        if n > most:
            return profile
        kept = _kept(parts(), gross, chosen, profile.weighted)
        if kept.total != n:
            refuse_other_samples("chunks", f"{n} switches near the best, and then {kept.total}")
        found = _joined(profile, switches, inside, kept)
        found._metric_of_best, found._rules = metric, list(constraints)
        value = found.best(metric, subject_to=constraints).value
        if value >= least - SLACK:
            return found
        # The best grid points lie on intervals too narrow to aim at, which do not count.
        least = value


def _kept(
    parts: Iterable[StrengthProfile], gross: GrossTable, chosen: Vector, weighted: bool
) -> Switches:
    found = [Switches.none(weighted)]
    for part in parts:
        switches = part._switches
        assert isinstance(switches, Switches)  # noqa: S101 - parts are exact
        mine = np.flatnonzero(chosen[gross.bins_of(switches.position)])
        if mine.size:
            found.append(switches.taken(mine))
    return Switches.concatenate(found)


def _joined(
    profile: StrengthProfile, switches: BinnedSwitches, inside: Vector, kept: Switches
) -> RefinedProfile:
    """Bins outside of the candidates, single switches inside."""
    outside = ~np.isin(switches.events.position, switches.point[inside])
    both = [
        np.concatenate([getattr(switches.events, f.name)[outside], getattr(kept.events, f.name)])
        for f in fields(ClassEvents)
    ]
    order = np.argsort(both[0], kind="stable")
    events = ClassEvents(*(column[order] for column in both))
    mixed = BinnedSwitches(
        events, switches.point[~inside], switches.count[~inside], switches.mass[~inside]
    )
    return RefinedProfile(
        source_prior=profile.source_prior,
        target_prior=profile.target_prior,
        bounds=profile.bounds,
        resolution=profile.resolution,
        counts=profile._counts,
        sums=profile._sums,
        switches=mixed,
    )
