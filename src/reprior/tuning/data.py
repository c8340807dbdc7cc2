"""Labelled scores with their priors: what a calibrator is tuned on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from reprior.core.arrays import constant, namespace, to_numpy
from reprior.core.prior import slopes
from reprior.core.temperature import fit_temperature
from reprior.tuning.profile import StrengthProfile
from reprior.tuning.reading import read

__all__ = ["TuningData"]

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

    @property
    def _options(self) -> dict[str, Any]:
        return {
            "source_prior": self.source_prior,
            "target_prior": self.target_prior,
            "kind": self.kind,
            "class_axis": self.class_axis,
            "ignore_index": self.ignore_index,
        }

    def profile(self, bounds: tuple[float, float]) -> StrengthProfile:
        """Profile the data within ``bounds``."""
        return StrengthProfile.from_scores(
            self.scores, self.labels, sample_weight=self.weight, bounds=bounds, **self._options
        )

    def temperature(self, strength: float, label_prior: Vector | None) -> float:
        """Temperature at ``strength`` by log-loss, the labels weighted to the target prior.

        Of the log-scores z + λ·w themselves, K columns also for one score per sample: posteriors
        that were computed before may have lost a probability to rounding.
        """
        weight = self.importance(label_prior)
        bounds = (0.0, 1.0)  # of no profile: any will do
        reading = read(
            self.scores, self.labels, weight, bounds=bounds, resolution=None, **self._options
        )
        block = reading.rows.read((slice(None),))
        shift = np.zeros_like(self.source_prior)
        if strength != 0.0:
            shift = strength * slopes(self.source_prior, self.target_prior)
        shifted = to_numpy(block.scores).astype(np.float64) + shift
        return fit_temperature(shifted, block.labels, sample_weight=block.weights).temperature

    def importance(self, label_prior: Vector | None) -> Any:
        """Weights that make the labels' mix the target prior's: v_i · P_t(y_i) / P_l(y_i)."""
        labels = to_numpy(self.labels)
        kept = labels != self.ignore_index
        weight = np.ones(labels.shape) if self.weight is None else to_numpy(self.weight)
        index = np.where(kept, labels, 0)
        if label_prior is None:
            label_prior = np.bincount(index[kept], weight[kept], minlength=self.target_prior.size)
        ratio = np.divide(
            self.target_prior,
            label_prior,
            out=np.zeros_like(self.target_prior),
            where=label_prior > 0,
        )
        return constant(weight * ratio[index], namespace(self.scores), like=self.scores)
