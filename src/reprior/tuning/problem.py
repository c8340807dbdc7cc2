"""The tuning problem, and the search for the best strength within bounds that may be widened.

If the best strength lies at the upper bound, or no strength satisfies the constraints, the search
continues with wider bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np

from reprior._warnings import warn
from reprior.core.prior import slopes
from reprior.exceptions import Argument, InfeasibleError, RepriorWarning, WidenedBoundsWarning
from reprior.metrics.count_metrics import CountMetric
from reprior.profile.constants import WIDEST_BOUND, shown_bound
from reprior.profile.objective import Best, Constraint, SubjectTo
from reprior.profile.profile import StrengthProfile
from reprior.profile.samples import Priors

__all__ = [
    "DEFAULT_SELECTION",
    "TUNED",
    "Problem",
    "ProfileOf",
    "best_widened",
    "best_within",
]

Vector: TypeAlias = np.ndarray[Any, Any]

#: A best in the last fifth of the range is near the bound. A curve that still rises at the bound is
#: noisy, and has its maximum a little before it: for over-confident models (scores three times too
#: large), 18 of 20 fits lost more than a point if only a best at the very bound widened it.
NEAR = 0.2


def best_widened(
    profile_of: Callable[[tuple[float, float]], StrengthProfile],
    bounds: tuple[float, float],
    metric: CountMetric,
    constraints: SubjectTo,
    *,
    prefer_model: bool = True,
) -> tuple[Best, StrengthProfile]:
    """Profile within ``bounds``, and again with the upper bound doubled while the best is near it.

    The upper bound is also doubled while no strength satisfies the constraints. The lower bound
    stays. A warning names each doubling, except one that finds nothing better than a best near the
    bound: that best is kept. Where no strength up to the cap changes the metric, the result is that
    of the bounds as given.

    With ``prefer_model`` the best is strength 0 where nothing is better within the bounds, and
    these are not widened then.
    """
    low, high = bounds
    profile = profile_of((low, high))
    notes: list[RepriorWarning] = []
    while (best := _allowed(profile, metric, constraints, prefer_model)) is None:
        wider = _doubled(high)
        notes.append(
            WidenedBoundsWarning(
                [
                    f"No strength up to {high:g} satisfies ",
                    Argument("subject_to"),
                    f": searching up to {wider:g}.",
                ]
            )
        )
        high = wider
        profile = profile_of((low, high))
    narrow = best, profile
    while _near_the_top(best, (low, high), metric, prefer_model):
        at_bound = best.interval[1] >= high
        if high >= WIDEST_BOUND:
            if not at_bound:
                break
            rises = "rises" if metric.greater_is_better else "falls"
            notes.append(
                RepriorWarning(
                    [
                        f"The best strength lies at the upper bound {high:g}; more is not tried. "
                        f"Either {metric.name} {rises} with every correction (then limit it by ",
                        Argument("subject_to"),
                        "), or ",
                        Argument("source_prior"),
                        " is not what the model was trained on.",
                    ]
                )
            )
            break
        wider = _doubled(high)
        further = profile_of((low, wider))
        wider_best = _best(further, metric, constraints, prefer_model)
        if not at_bound and metric.utility(wider_best.value) <= metric.utility(best.value):
            break
        notes.append(
            WidenedBoundsWarning(
                f"The best strength lay {'at' if at_bound else 'near'} the upper bound {high:g}: "
                f"searching up to {wider:g}."
            )
        )
        best, profile, high = wider_best, further, wider
    if notes and best.interval == (low, high):
        unchanged = f"No strength from {shown_bound(low):g} to {high:g} changes {metric.name}."
        notes = [WidenedBoundsWarning(unchanged)]
        best, profile = narrow
    if _at_the_bottom(best, profile.bounds, metric, prefer_model):
        notes.append(_lower_bound_reached(low))
    for note in notes:
        warn(note)
    return best, profile


def _best(
    profile: StrengthProfile, metric: CountMetric, constraints: SubjectTo, prefer_model: bool
) -> Best:
    choose = profile.best if prefer_model else profile._widest_best
    return choose(metric, subject_to=constraints)


def _allowed(
    profile: StrengthProfile, metric: CountMetric, constraints: SubjectTo, prefer_model: bool
) -> Best | None:
    """The best strength; None where none is allowed within bounds that can be widened."""
    try:
        return _best(profile, metric, constraints, prefer_model)
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
    prefer_model: bool = True,
) -> Best:
    """The best within the profile's bounds; a warning where it lies at the upper one.

    For scores that can be read only once and cannot be profiled again.
    """
    best, (low, high) = _best(profile, metric, constraints, prefer_model), profile.bounds
    if _near_the_top(best, (low, high), metric, prefer_model):
        where = "at" if best.interval[1] >= high else "near"
        what = f"The best strength lies {where} the upper bound {high:g}"
        if best.interval == (low, high):
            what = f"No strength from {shown_bound(low):g} to {high:g} changes {metric.name}"
        warn(
            [
                f"{what}, and the scores cannot be read again to look further up. Pass wider ",
                Argument("bounds"),
                ", or ",
                Argument("again"),
                " to read them a second time.",
            ]
        )
    if _at_the_bottom(best, (low, high), metric, prefer_model):
        warn(_lower_bound_reached(low))
    return best


def _at_the_bottom(
    best: Best, bounds: tuple[float, float], metric: CountMetric, prefer_model: bool
) -> bool:
    """Whether strengths below the lower bound might be better, which is never widened.

    At 0 the bound is the model as it is, and not near anything.
    """
    low = shown_bound(bounds[0])
    if low == 0.0 or (prefer_model and best.strength == 0.0):
        return False
    return best.interval[0] <= low and best.interval != bounds and best.value < metric.largest


def _lower_bound_reached(low: float) -> RepriorWarning:
    return RepriorWarning(
        [
            f"The best strength lies at the lower bound {low:g}; less is not tried. Pass a lower ",
            Argument("bounds", (0,)),
            ", or check that ",
            Argument("source_prior"),
            " is what the model was trained on.",
        ]
    )


def _near_the_top(
    best: Best, bounds: tuple[float, float], metric: CountMetric, prefer_model: bool
) -> bool:
    """Whether strengths above the upper bound might be better.

    They might where the best is the bound alone, whatever its value: a prediction at a switch can
    go either way, and the same value may continue behind the bound.
    """
    if prefer_model and best.strength == 0.0:
        return False
    low, high = bounds
    alone = best.interval[0] >= high
    near = best.interval[1] >= high - NEAR * (high - low)
    best_possible = metric.utility(metric.best_possible)
    return near and (alone or bool(metric.utility(best.value) < best_possible))


NO_STRENGTH_MATTERS = (
    "The target prior is the source prior, as far as the classes in play go: no strength changes a "
    "decision."
)

ProfileOf: TypeAlias = Callable[[tuple[float, float]], StrengthProfile]

#: A calibrator's default rule to choose its strength: a name of
#: :data:`reprior.tuning.selection.RULES`. Only this constant says which.
DEFAULT_SELECTION = "max"

#: The values of ``tune``.
TUNED = ("strength", "per_class")


@dataclass(frozen=True, eq=False)
class Problem:
    """The options of a calibrator once they are checked and resolved."""

    classes: Vector
    source_prior: Vector
    target_prior: Vector
    metric: CountMetric
    constraints: list[Constraint]
    bounds: tuple[float, float]
    temperature: float | Literal["fit", "bcts", "vector"]
    label_prior: Vector | None
    log_loss: bool = False
    """Whether probabilities are fitted and no metric is tuned. ``metric`` is then unused."""
    tune: str = "strength"
    selection: str = DEFAULT_SELECTION
    cv: Any = None
    n_bootstrap: int = 0
    seed: int = 0
    separate: bool = False
    certify: float | None = None
    """The probability with which the constraints are promised; None for no promise."""

    @property
    def flat(self) -> bool:
        """Whether P_t is P_s, as far as the classes in play go, so that no strength matters."""
        w = slopes(self.source_prior, self.target_prior)
        finite = w[np.isfinite(w)]
        return bool((finite[1:] == finite[:-1]).all())

    def priors(self, bounds: tuple[float, float]) -> Priors:
        """Return the priors with these bounds."""
        return Priors.between(self.source_prior, self.target_prior, bounds, label=self.label_prior)

    @property
    def prefers_model(self) -> bool:
        """Whether strength 0 is chosen where nothing is better: for the raw maximum alone."""
        return self.tune == "strength" and self.selection == "max"

    def search(self, profile_of: ProfileOf, *, widen: bool = True) -> tuple[Best, StrengthProfile]:
        """Profile within the bounds, and wider where the best lies at the upper one.

        Without ``widen``, only warn of a best at the upper bound.
        """
        if self.certify is not None:
            return self._certified(profile_of(self.bounds))
        if not self.flat:
            prefer_model = self.prefers_model
            if widen:
                return best_widened(
                    profile_of,
                    self.bounds,
                    self.metric,
                    self.constraints,
                    prefer_model=prefer_model,
                )
            profile = profile_of(self.bounds)
            best = best_within(profile, self.metric, self.constraints, prefer_model=prefer_model)
            return best, profile
        profile = profile_of(self.bounds)
        best = profile.best(self.metric, subject_to=self.constraints)
        if self.tune == "strength":
            warn(NO_STRENGTH_MATTERS)
        return replace(best, strength=1.0, interval=self.bounds), profile

    def _certified(self, profile: StrengthProfile) -> tuple[Best, StrengthProfile]:
        """Return the best strength at which the constraints are promised; bounds are not widened.

        The tests are of strengths that do not depend on the labels.
        """
        best = profile.best(self.metric, subject_to=self.constraints, certify=self.certify)
        if self.flat:
            warn(NO_STRENGTH_MATTERS)
        elif best.strength == 0.0 == best.interval[1]:
            best_of_all = profile.best(self.metric, subject_to=self.constraints)
            if best_of_all.value > best.value:
                warn(
                    [
                        f"{best_of_all.strength:.3g} is the best strength that keeps ",
                        Argument("subject_to"),
                        " on these labels, but only strength 0, the model as it is, can be "
                        "promised. Use more labels, or loosen the constraint.",
                    ]
                )
        return best, profile

    def warn_of_absent(self, profile: StrengthProfile) -> None:
        """Warn of classes without labels."""
        absent = self.classes[~profile.baseline.labelled & (self.target_prior > 0)].tolist()
        if absent:
            few = ", ".join(map(repr, absent[:5])) + (", …" if len(absent) > 5 else "")
            warn(
                f"{len(absent)} of {self.classes.size} classes have no tuning labels: {few}. "
                f"The metric says nothing about them."
            )

    def warn_of_ruled_out(self, profile: StrengthProfile) -> None:
        """Warn of samples that are left out because their class is ruled out."""
        number = profile.n_ruled_out
        if number.any():
            each = [
                f"{n} of class {name!r}"
                for n, name in zip(number, self.classes.tolist(), strict=True)
                if n
            ]
            few = ", ".join(each[:5]) + (", …" if len(each) > 5 else "")
            warn(
                [
                    f"{number.sum()} of {number.sum() + profile.n_samples} tuning samples are left "
                    f"out: {few}. ",
                    Argument("target_prior"),
                    " 0 rules the class out, and no prediction could be right for them.",
                ]
            )
