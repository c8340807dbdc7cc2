"""A fitted calibrator as the fields of a file, and back."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from reprior.calibrator.encoding import is_range
from reprior.calibrator.options import is_log_loss
from reprior.calibrator.summary import metric_name
from reprior.core.score_map import ScoreMap

if TYPE_CHECKING:
    from reprior.calibrator.posterior import PosteriorCalibrator

__all__ = ["document_of", "map_of", "options_of"]


def document_of(calibrator: PosteriorCalibrator) -> dict[str, Any]:
    """The fields of a fitted calibrator. What it does not have is left out."""
    score = calibrator.best_score_
    fields: dict[str, Any] = {
        "strength": calibrator.strength_,
        "temperature": calibrator.temperature_,
        "source_prior": calibrator.source_prior_.tolist(),
        "target_prior": calibrator.target_prior_.tolist(),
        "kind": calibrator.kind,
        "metric": metric_name(calibrator.metric),
        "classes": None if is_range(calibrator.classes_) else calibrator.classes_.tolist(),
        "class_axis": calibrator.class_axis,
        "strength_interval": list(calibrator.strength_interval_),
        "best_score": None if math.isnan(score) else score,
        "provenance": calibrator.provenance_,
    }
    fields.update(_vectors(calibrator._decision))
    asked, fits = calibrator.temperature, is_log_loss(calibrator.metric) or calibrator.separate
    if isinstance(asked, str):
        fields["temperature_option"] = asked
    elif fits:  # else it is the temperature itself
        fields["temperature_option"] = "fit" if asked is None else float(asked)
    if calibrator.probability_map_ is not None:
        fields["probability_map"] = _fields_of(calibrator.probability_map_)
    return fields


def map_of(fields: dict[str, Any]) -> ScoreMap:
    """The map whose strength, temperature and, if any, biases and scales are among fields."""
    return ScoreMap(
        float(fields["strength"]),
        float(fields["temperature"]),
        _vector(fields.get("biases")),
        _vector(fields.get("scales")),
    )


def options_of(fields: dict[str, Any]) -> dict[str, Any]:
    """The options that would make such a calibrator, as far as its file tells."""
    own = fields.get("probability_map")
    fitted = fields["metric"] == "log_loss"
    at = map_of(fields if own is None else own)
    temperature: Any = fields.get("temperature_option")
    if temperature is None and own is None and not fitted:
        temperature = at.temperature
    if temperature is None:  # a file of before says no more
        temperature = "fit" if at.plain else "bcts" if at.scales is None else "vector"
    biased = fields.get("biases") is not None and not fitted
    return {
        "tune": "per_class" if biased else "strength",
        "temperature": temperature,
        "separate": own is not None,
    }


def _fields_of(at: ScoreMap) -> dict[str, Any]:
    return {"strength": at.strength, "temperature": at.temperature, **_vectors(at)}


def _vectors(at: ScoreMap) -> dict[str, Any]:
    """Biases and scales where there are any. JSON has no −inf: null stands for it."""
    found = {"biases": at.biases, "scales": at.scales}
    return {
        name: [None if np.isneginf(value) else value for value in vector.tolist()]
        for name, vector in found.items()
        if vector is not None
    }


def _vector(values: Any) -> Any:
    if values is None:
        return None
    return np.array([-np.inf if value is None else value for value in values], np.float64)
