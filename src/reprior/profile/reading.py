"""Arguments of a profile, checked: samples and priors together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from reprior.core.checks import column_names
from reprior.profile.samples import Priors, Samples, refuse_nothing

__all__ = ["Reading", "anything_counts", "read", "refuse_nothing"]

Vector: TypeAlias = np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False)
class Reading:
    """What a pass over labelled scores needs."""

    rows: Samples
    source_prior: Vector
    target_prior: Vector
    slopes: Vector
    bounds: tuple[float, float]
    resolution: float | None
    label_prior: Vector | None = None
    """What the labels follow, where that is known better than by their frequencies."""

    @property
    def priors(self) -> Priors:
        """All but the samples."""
        return Priors(
            self.source_prior,
            self.target_prior,
            self.slopes,
            self.bounds,
            self.resolution,
            self.label_prior,
        )


def read(
    scores: Any,
    labels: Any,
    sample_weight: Any,
    *,
    source_prior: Any,
    target_prior: Any,
    kind: str,
    bounds: Any,
    class_axis: int,
    ignore_index: int | None,
    resolution: float | None,
    warn: bool = True,
) -> Reading:
    """Check everything that can be checked without a pass over the scores.

    ``warn=False`` is for parts of a whole: whether logits look like probabilities is a question
    to all of them together.
    """
    priors = Priors.of(
        source_prior, target_prior, bounds, resolution=resolution, classes=column_names(scores)
    )
    samples = Samples.of(
        scores,
        labels,
        sample_weight,
        n_classes=priors.n_classes,
        kind=kind,
        class_axis=class_axis,
        ignore_index=ignore_index,
        excluded=priors.excluded,
        part=not warn,
    )
    if not samples.any_counts:
        refuse_nothing(samples.labels.size)
    return Reading(
        samples, priors.source, priors.target, priors.slopes, priors.bounds, priors.resolution
    )


def anything_counts(labels: Vector, weight: Vector | None, ignore_index: int | None) -> bool:
    """Whether a sample is neither ignored nor of weight 0."""
    weighs = None if weight is None or weight.shape != labels.shape else weight != 0
    if ignore_index is None:
        return bool(labels.size if weighs is None else weighs.any())
    counts = labels != ignore_index
    return bool(np.any(counts if weighs is None else counts & weighs))
