"""What a fitted calibrator holds, and what is done with it alone."""

from __future__ import annotations

import math
from typing import Any, TypeAlias, TypeVar

import numpy as np

from reprior.calibrator.encoding import is_range, score_array
from reprior.calibrator.fitting import Tuned
from reprior.calibrator.options import check_map
from reprior.core.arrays import is_traced, to_numpy
from reprior.core.score_map import ScoreMap
from reprior.exceptions import NotFittedError
from reprior.metrics.counts import ClassCounts
from reprior.profile.profile import StrengthProfile
from reprior.tuning.crossval import CrossValidation
from reprior.tuning.problem import Problem
from reprior.tuning.uncertainty import Uncertainty

__all__ = ["Fitted"]

Vector: TypeAlias = np.ndarray[Any, Any]
Self = TypeVar("Self", bound="Fitted")


class Fitted:
    """The state of a calibrator after a fit: one map, or two, and what is known of them."""

    kind: str
    class_axis: int

    strength_: float
    strength_interval_: tuple[float, float]
    temperature_: float
    biases_: Vector | None = None
    scales_: Vector | None = None
    probability_map_: ScoreMap | None = None
    shrinkage_: float | None = None
    best_score_: float
    log_loss_: tuple[float, float] | None = None
    counts_: ClassCounts | None = None
    profile_: StrengthProfile | None
    cross_validation_: CrossValidation | None = None
    uncertainty_: Uncertainty | None = None
    provenance_: dict[str, Any] | None = None
    source_prior_: Vector
    target_prior_: Vector
    classes_: Vector
    _whole: tuple[Vector, ScoreMap, ScoreMap | None] | None = None
    """Target prior and maps before a class's prior became 0 and its bias was lost."""

    @property
    def _fitted(self: Self) -> Self:
        """The calibrator, if it is fitted."""
        if not hasattr(self, "strength_"):
            raise NotFittedError(
                "This PosteriorCalibrator is not fitted. Call fit(scores, labels), or "
                "reprior.load(path), first."
            )
        return self

    @property
    def _decision(self) -> ScoreMap:
        """The map for decisions, the only one without ``separate``."""
        return ScoreMap(self.strength_, self.temperature_, self.biases_, self.scales_)

    def _posterior(self, scores: Any, name: str | None, *, log: bool) -> Any:
        separate = self._fitted.probability_map_ is not None
        chosen = check_map(name, separate=separate, needed=False)
        at = self._decision
        if chosen == "probability" and self.probability_map_ is not None:
            at = self.probability_map_
        return at.posterior(
            score_array(scores, None if is_range(self.classes_) else self.classes_),
            self.source_prior_,
            self.target_prior_,
            kind=self.kind,
            class_axis=self.class_axis,
            log=log,
        )

    def _decided(self, scores: Any) -> Any:
        """Return the class index of the largest posterior, by the map for decisions."""
        return self._decision.decide(
            score_array(scores, None if is_range(self.classes_) else self.classes_),
            self.source_prior_,
            self.target_prior_,
            kind=self.kind,
            class_axis=self.class_axis,
        )

    def _named(self, index: Any) -> Any:
        if is_range(self.classes_):
            return index
        if is_traced(index):  # Dask's: looked up when it is computed
            return index.map_blocks(self.classes_.__getitem__, dtype=self.classes_.dtype)
        return self.classes_[to_numpy(index)]

    def _hold(self, at: ScoreMap) -> None:
        """Take over a map for decisions."""
        self.strength_, self.temperature_ = at.strength, float(at.temperature)
        self.biases_, self.scales_ = at.biases, at.scales
        self._whole = None

    def _forget(self) -> None:
        """Know no more of tuning data: what is held is not what was tuned on them."""
        self.profile_, self.best_score_, self.counts_ = None, math.nan, None
        self.log_loss_ = self.cross_validation_ = self.uncertainty_ = None

    def _adopt(
        self, problem: Problem, found: Tuned, provenance: dict[str, Any] | None = None
    ) -> None:
        """Become fitted: all at once, so that a fit that fails changes nothing."""
        self.classes_, self.profile_ = problem.classes, found.profile
        self.source_prior_, self.target_prior_ = problem.source_prior, problem.target_prior
        self._hold(found.decision)
        self.probability_map_, self.shrinkage_ = found.probability, found.shrinkage
        self.strength_interval_, self.best_score_ = found.interval, found.value
        self.log_loss_, self.counts_ = found.log_loss, found.counts
        self.cross_validation_, self.uncertainty_ = found.cross_validation, found.uncertainty
        self.provenance_ = provenance
