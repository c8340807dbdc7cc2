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
from reprior.tuning.objective import Best, Constraint
from reprior.tuning.profile import StrengthProfile
from reprior.tuning.widen import best_widened, best_within

__all__ = ["Problem", "ProfileOf"]

Vector: TypeAlias = np.ndarray[Any, Any]
ProfileOf: TypeAlias = Callable[[tuple[float, float]], StrengthProfile]


@dataclass(frozen=True, eq=False)
class Problem:
    """The options of a calibrator once they are checked and resolved."""

    classes: Vector
    source_prior: Vector
    target_prior: Vector
    metric: CountMetric
    constraints: list[Constraint]
    bounds: tuple[float, float]
    temperature: float | Literal["fit"]
    label_prior: Vector | None

    def search(self, profile_of: ProfileOf, *, widen: bool = True) -> tuple[Best, StrengthProfile]:
        """Profile within the bounds, and wider where the best lies at the upper one.

        Without ``widen`` that is only said. Call it from the function that the user calls: the
        warnings name the line of that call.
        """
        w = slopes(self.source_prior, self.target_prior)
        if np.unique(w[np.isfinite(w)]).size > 1:
            if widen:
                return best_widened(
                    profile_of, self.bounds, self.metric, self.constraints, stacklevel=3
                )
            profile = profile_of(self.bounds)
            return best_within(profile, self.metric, self.constraints, stacklevel=3), profile
        profile = profile_of(self.bounds)
        best = profile.best(self.metric, subject_to=self.constraints)
        _say("The target prior is the source prior, as far as the classes in play go: no strength "
             "changes a decision.")  # fmt: skip
        return replace(best, strength=1.0, interval=self.bounds), profile

    def warn_of_absent(self, profile: StrengthProfile) -> None:
        """Say which classes have no labels. Call it as :meth:`search` is called."""
        absent = self.classes[~profile.baseline.labelled].tolist()
        if absent:
            few = ", ".join(map(repr, absent[:5])) + (", …" if len(absent) > 5 else "")
            _say(f"{len(absent)} of {self.classes.size} classes have no tuning labels: {few}. "
                 f"The metric says nothing about them.")  # fmt: skip


def _say(sentence: str) -> None:
    # The user's line is four frames up: _say, a method of Problem, fit, the user.
    warnings.warn(sentence, RepriorWarning, stacklevel=4)
