"""Labelled scores before and after a calibrator, as class indices."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from reprior.calibrator.encoding import encode_labels, is_range, score_array
from reprior.core.arrays import to_numpy
from reprior.exceptions import OptionError
from reprior.metrics.counts import ClassCounts

if TYPE_CHECKING:
    from reprior.calibrator import PosteriorCalibrator
    from reprior.profile.profile import StrengthProfile

__all__ = ["BeforeAfter", "before_and_after", "names_of", "profile_of"]

Vector: TypeAlias = np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False)
class BeforeAfter:
    """Labels and both predictions as class indices of one shape, and both posteriors."""

    labels: Vector
    before: Vector
    after: Vector
    weight: Vector | None
    ignore_index: int | None
    posterior_before: Any
    posterior_after: Any
    class_axis: int
    n_classes: int

    def counts(self) -> tuple[ClassCounts, ClassCounts]:
        """Class counts before and after."""
        before, after = (
            ClassCounts.from_predictions(
                self.labels,
                predictions,
                n_classes=self.n_classes,
                sample_weight=self.weight,
                ignore_index=self.ignore_index,
            )
            for predictions in (self.before, self.after)
        )
        return before, after


def before_and_after(
    calibrator: PosteriorCalibrator, scores: Any, labels: Any, sample_weight: Any = None
) -> BeforeAfter:
    """Predict with and without the correction; labels may be names."""
    uncorrected = calibrator.uncorrected()
    names = None if is_range(calibrator.classes_) else calibrator.classes_
    values = score_array(scores, names)
    indices, ignored = encode_labels(labels, names, calibrator.ignore_index)
    weight = sample_weight.to_numpy() if hasattr(sample_weight, "to_numpy") else sample_weight
    return BeforeAfter(
        labels=to_numpy(indices),
        before=_indices(uncorrected, values),
        after=_indices(calibrator, values),
        weight=None if weight is None else to_numpy(weight),
        ignore_index=ignored,
        posterior_before=uncorrected.predict_proba(values),
        posterior_after=calibrator.predict_proba(values),
        class_axis=calibrator.class_axis,
        n_classes=int(calibrator.classes_.size),
    )


def names_of(calibrator: PosteriorCalibrator) -> list[Any] | None:
    """The names of the classes, None where they are 0 … K−1."""
    return None if is_range(calibrator.classes_) else list(calibrator.classes_.tolist())


def profile_of(calibrator: PosteriorCalibrator, instead: str) -> StrengthProfile:
    """The profile of the tuning data, or a sentence that says what else to do."""
    profile: StrengthProfile | None = getattr(calibrator, "profile_", None)
    if profile is None:
        raise OptionError(
            argument="calibrator",
            rule="must have the profile of its tuning data",
            got=f"{calibrator!r} without one: it was loaded, retargeted or never fitted",
            remedy=f"{instead}",
        )
    return profile


def _indices(calibrator: PosteriorCalibrator, values: Any) -> Vector:
    """Return predictions as class indices, also where classes have names."""
    nameless = copy.copy(calibrator)
    nameless.classes_ = np.arange(calibrator.classes_.size)
    return to_numpy(nameless.predict(values))
