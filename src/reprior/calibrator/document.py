"""A fitted calibrator as the fields of a file, and back."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from reprior.calibrator.encoding import is_range
from reprior.calibrator.options import is_log_loss
from reprior.calibrator.summary import metric_name
from reprior.core.score_map import ScoreMap
from reprior.files.documents import is_known_metric
from reprior.metrics.count_metrics import group_indices
from reprior.metrics.pair_metrics import ConfusionMetric, Cost
from reprior.profile.objective import Constraint

if TYPE_CHECKING:
    from reprior.calibrator.posterior import PosteriorCalibrator

__all__ = ["document_of", "map_of", "metric_of", "metric_parts", "options_of"]


def document_of(calibrator: PosteriorCalibrator) -> dict[str, Any]:
    """Return the fields of a fitted calibrator, without optional ones that it does not have."""
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
    n_classes, names = calibrator.source_prior_.size, fields["classes"]
    groups = group_indices(calibrator.class_groups, n_classes, names)
    fields["custom_metric"] = not is_known_metric(fields["metric"], names, n_classes, groups)
    fields.update(metric_parts(calibrator.metric, lost_function=calibrator._lost_function))
    if groups:
        fields["class_groups"] = groups
    low, high = calibrator.strength_interval_
    fields["strength_outside_interval"] = not low <= calibrator.strength_ <= high
    fields.update(_vectors(calibrator._decision))
    option = calibrator.temperature
    if isinstance(option, str):
        fields["temperature_option"] = option
    elif is_log_loss(calibrator.metric) or calibrator.separate:
        fields["temperature_option"] = "fit" if option is None else float(option)
    # Otherwise the option is the temperature itself.
    if calibrator.probability_map_ is not None:
        fields["probability_map"] = _fields_of(calibrator.probability_map_)
    if calibrator.certified_:
        rules = Constraint.parse_all(calibrator.subject_to)
        fields["promise"] = {
            "certify": float(calibrator.certify or 0.0),
            "subject_to": [rule.text for rule in rules],
        }
    if calibrator._confusions is not None:
        names = ("before", "after")
        fields["confusion"] = {
            name: table.tolist() for name, table in zip(names, calibrator._confusions, strict=True)
        }
    return fields


def map_of(fields: dict[str, Any]) -> ScoreMap:
    """Return the map that the fields of a calibrator, or of its second map, describe."""
    return ScoreMap(
        float(fields["strength"]),
        float(fields["temperature"]),
        _vector(fields.get("biases")),
        _vector(fields.get("scales")),
    )


def metric_parts(metric: Any, *, lost_function: bool) -> dict[str, Any]:
    """Return what a file holds of a metric beside its name, if there is any."""
    parts: dict[str, Any] = {}
    if isinstance(metric, Cost):
        parts["cost_matrix"] = metric.matrix.tolist()
    if isinstance(metric, ConfusionMetric) or lost_function:
        parts["metric_function"] = True
    return parts


def metric_of(fields: dict[str, Any]) -> Any:
    """Return the metric that a file names; costs with their matrix."""
    matrix = fields.get("cost_matrix")
    return fields["metric"] if matrix is None else Cost(matrix, name=fields["metric"])


def options_of(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the options of a fit that gives such a calibrator, as far as its file states them."""
    probability_fields = fields.get("probability_map")
    is_log_loss_fit = fields["metric"] == "log_loss"
    fitted_map = map_of(fields if probability_fields is None else probability_fields)
    temperature: Any = fields.get("temperature_option")
    if temperature is None and probability_fields is None and not is_log_loss_fit:
        temperature = fitted_map.temperature
    if temperature is None:  # older files lack temperature_option
        temperature = "bcts" if fitted_map.scales is None else "vector"
        if fitted_map.plain:
            temperature = "fit"
    promise = fields.get("promise") or {}
    has_biases = fields.get("biases") is not None and not is_log_loss_fit
    return {
        "tune": "per_class" if has_biases else "strength",
        "temperature": temperature,
        "separate": probability_fields is not None,
        "subject_to": promise.get("subject_to"),
        "certify": promise.get("certify"),
    }


def _fields_of(score_map: ScoreMap) -> dict[str, Any]:
    vectors = _vectors(score_map)
    return {"strength": score_map.strength, "temperature": score_map.temperature, **vectors}


def _vectors(score_map: ScoreMap) -> dict[str, Any]:
    """Return biases and scales if there are any, with null for −inf, which JSON lacks."""
    vectors = {"biases": score_map.biases, "scales": score_map.scales}
    return {
        name: [None if np.isneginf(value) else value for value in vector.tolist()]
        for name, vector in vectors.items()
        if vector is not None
    }


def _vector(values: Any) -> Any:
    if values is None:
        return None
    return np.array([-np.inf if value is None else value for value in values], np.float64)
