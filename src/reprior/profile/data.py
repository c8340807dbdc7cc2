"""Labelled scores with their priors, as a calibrator's options encode them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from reprior.core.arrays import constant, namespace, to_numpy
from reprior.core.importance import class_support, importance_ratio
from reprior.core.weighted_rows import WeightedRows
from reprior.profile.profile import StrengthProfile
from reprior.profile.samples import Block, Priors, Samples

__all__ = ["TuningData", "importance_ratio"]

Vector: TypeAlias = np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False)
class TuningData:
    """Scores as an array, labels as class indices, weights or None, and both priors."""

    scores: Any
    labels: Any
    weight: Any
    ignore_index: int | None
    kind: str
    class_axis: int
    source_prior: Vector
    target_prior: Vector

    def profile(self, bounds: tuple[float, float]) -> StrengthProfile:
        """Profile the data within ``bounds``."""
        return StrengthProfile.from_scores(
            self.scores,
            self.labels,
            source_prior=self.source_prior,
            target_prior=self.target_prior,
            kind=self.kind,
            bounds=bounds,
            class_axis=self.class_axis,
            ignore_index=self.ignore_index,
            sample_weight=self.weight,
        )

    def read(self, bounds: tuple[float, float]) -> tuple[Samples, Priors]:
        """Check the data as one part of a whole, of which no warning of its own is given."""
        priors = Priors.of(self.source_prior, self.target_prior, bounds)
        samples = Samples.of(
            self.scores,
            self.labels,
            self.weight,
            n_classes=priors.n_classes,
            kind=self.kind,
            class_axis=self.class_axis,
            ignore_index=self.ignore_index,
            excluded=priors.excluded,
            part=True,
        )
        return samples, priors

    def labelled(self, label_prior: Vector | None) -> WeightedRows:
        """The log-scores for fits by log-loss, the labels weighted to the target prior."""
        return WeightedRows.read(
            self.scores,
            self.labels,
            sample_weight=self.weight,
            kind=self.kind,
            class_axis=self.class_axis,
            ignore_index=self.ignore_index,
            target_prior=self.target_prior,
            label_prior=label_prior,
        )

    def weighted(self, label_prior: Vector | None) -> Block:
        """The log-scores of the samples that count, K columns also for single scores.

        For a part of a whole. The weights make the labels' mix the target prior's.
        """
        data = replace(self, weight=self.importance(label_prior))
        bounds = (0.0, 1.0)  # of no profile: any will do
        samples, _ = data.read(bounds)
        block = samples.read((slice(None),))
        return block._replace(scores=to_numpy(block.scores))

    def importance(self, label_prior: Vector | None) -> Any:
        """Weights that make the labels' mix the target prior's: v_i · P_t(y_i) / P_l(y_i)."""
        labels = to_numpy(self.labels)
        weight = np.ones(labels.shape) if self.weight is None else to_numpy(self.weight)
        weight = np.where(labels == self.ignore_index, 0.0, weight)
        if label_prior is None:
            label_prior = class_support(labels, weight, self.target_prior.size)
        ratio = importance_ratio(self.target_prior, label_prior)
        weight = weight * ratio[np.where(weight > 0, labels, 0)]
        return constant(weight, namespace(self.scores), like=self.scores)
