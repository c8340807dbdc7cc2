"""What is looked for: the strength of the best metric, under constraints, within bounds."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np

from reprior.core.prior import slopes
from reprior.exceptions import RepriorWarning
from reprior.metrics.count_metrics import CountMetric
from reprior.profile.objective import Best, Constraint
from reprior.profile.profile import StrengthProfile
from reprior.tuning.widen import best_widened, best_within

__all__ = ["DEFAULT_SELECTION", "TUNED", "Problem", "ProfileOf"]

Vector: TypeAlias = np.ndarray[Any, Any]
ProfileOf: TypeAlias = Callable[[tuple[float, float]], StrengthProfile]

#: How a calibrator chooses its strength where nothing else is asked for: a name of
#: :data:`reprior.tuning.selection.RULES`. This is the one place that says so.
DEFAULT_SELECTION = "max"

#: What can be tuned.
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
    """Whether probabilities are fitted and no metric is tuned. ``metric`` then says nothing."""
    tune: str = "strength"
    selection: str = DEFAULT_SELECTION
    cv: Any = None
    n_bootstrap: int = 0
    seed: int = 0
    separate: bool = False

    @property
    def flat(self) -> bool:
        """Whether P_t is P_s, as far as the classes in play go, so that no strength matters."""
        w = slopes(self.source_prior, self.target_prior)
        finite = w[np.isfinite(w)]
        return bool((finite[1:] == finite[:-1]).all())

    def search(
        self, profile_of: ProfileOf, *, widen: bool = True, stacklevel: int = 2
    ) -> tuple[Best, StrengthProfile]:
        """Profile within the bounds, and wider where the best lies at the upper one.

        Without ``widen`` that is only said. ``stacklevel`` is how many frames up the user's call
        is, which the warnings name: 2 from the function that the user calls.
        """
        if not self.flat:
            level = stacklevel + 1
            if widen:
                return best_widened(
                    profile_of, self.bounds, self.metric, self.constraints, stacklevel=level
                )
            profile = profile_of(self.bounds)
            return best_within(profile, self.metric, self.constraints, stacklevel=level), profile
        profile = profile_of(self.bounds)
        best = profile.best(self.metric, subject_to=self.constraints)
        if self.tune == "strength":
            _say("The target prior is the source prior, as far as the classes in play go: no "
                 "strength changes a decision.", stacklevel)  # fmt: skip
        return replace(best, strength=1.0, interval=self.bounds), profile

    def warn_of_absent(self, profile: StrengthProfile, *, stacklevel: int = 2) -> None:
        """Say which classes have no labels. ``stacklevel`` is as for :meth:`search`."""
        absent = self.classes[~profile.baseline.labelled & (self.target_prior > 0)].tolist()
        if absent:
            few = ", ".join(map(repr, absent[:5])) + (", …" if len(absent) > 5 else "")
            _say(f"{len(absent)} of {self.classes.size} classes have no tuning labels: {few}. "
                 f"The metric says nothing about them.", stacklevel)  # fmt: skip

    def warn_of_ruled_out(self, profile: StrengthProfile, *, stacklevel: int = 2) -> None:
        """Say whose samples were left out. ``stacklevel`` is as for :meth:`search`."""
        number = profile.n_ruled_out
        if number.any():
            each = [f"{n} of class {name!r}" for n, name in zip(number, self.classes.tolist(),
                    strict=True) if n]  # fmt: skip
            few = ", ".join(each[:5]) + (", …" if len(each) > 5 else "")
            _say(f"{number.sum()} of {number.sum() + profile.n_samples} tuning samples are left "
                 f"out: {few}. `target_prior` 0 rules the class out, and no prediction could be "
                 f"right for them.", stacklevel)  # fmt: skip


def _say(sentence: str, stacklevel: int) -> None:
    # Two frames are in between: this one, and the method of Problem.
    warnings.warn(sentence, RepriorWarning, stacklevel=stacklevel + 2)
