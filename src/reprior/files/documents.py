"""Calibrators, fusions and trackers as versioned JSON: every field is checked when it is read."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from reprior.core.checks import KINDS
from reprior.core.shift.tracking import block_size
from reprior.exceptions import FileFormatError, MissingFileError, RepriorError, Words
from reprior.files.archive import SAVE, check_header
from reprior.files.atomic import atomic_write
from reprior.files.limits import MAX_DOCUMENT_BYTES, parse_json, read_limited
from reprior.files.schema import (
    Field,
    Relation,
    are_names,
    check_document,
    is_boolean,
    is_integer,
    is_list,
    is_number,
    is_prior,
    is_provenance,
    is_string,
    null_or,
    one_of,
    shown_value,
)
from reprior.metrics.count_metrics import find_metric
from reprior.metrics.pair_metrics import LARGEST_COST, SMALLEST_COST

__all__ = [
    "blend_document",
    "calibrator_fields",
    "fusion_document",
    "is_blend",
    "is_fusion",
    "is_known_metric",
    "parsed",
    "read_calibrator",
    "read_tracker",
    "write_blend",
    "write_calibrator",
    "write_document",
    "write_fusion",
    "write_tracker",
]


def write_document(
    path: str | os.PathLike[str], fields: Mapping[str, Any], *, format_name: str, version: int
) -> None:
    """Write ``fields``, with format name and version, to ``path``."""
    _check_writable(path, fields)
    document = {"format": format_name, "format_version": version, **fields}
    data = _encoded(document, indent=2) + b"\n"
    if len(data) > MAX_DOCUMENT_BYTES:
        raise FileFormatError(
            f"{os.fspath(path)!r} must take at most {MAX_DOCUMENT_BYTES:,} bytes, to be read.",
            got=f"{len(data):,} bytes",
            remedy="Use fewer classes; nothing was written.",
        )
    with atomic_write(path, text=True) as file:
        file.write(data)


def parsed(path: str | os.PathLike[str], format_name: str) -> Any:
    """Read a JSON file; refuse what is truncated, or something else."""
    try:
        data = read_limited(path, MAX_DOCUMENT_BYTES, f"a {format_name} in JSON")
    except FileNotFoundError as error:
        raise MissingFileError(
            f"{os.fspath(path)!r} does not exist.", remedy="Check the path."
        ) from error
    try:
        return parse_json(data)
    except UnicodeDecodeError as error:
        raise FileFormatError(
            f"{os.fspath(path)!r} must be a {format_name} in JSON. It is truncated, damaged or not "
            f"a text file.",
            remedy=[
                "Check the path",
                Words(python="; profiles are read by StrengthProfile.load", command_line=""),
                ".",
            ],
        ) from error
    except ValueError as error:
        raise FileFormatError(
            f"{os.fspath(path)!r} must be a {format_name} in JSON. It is truncated, damaged or "
            f"something else ({error}).",
            remedy=["Write it again with ", SAVE, "."],
        ) from error


def _check_writable(path: str | os.PathLike[str], fields: Mapping[str, Any]) -> None:
    """Refuse the first field that JSON cannot hold."""
    for name, value in fields.items():
        try:
            _encoded(value)
        except (TypeError, ValueError, RecursionError) as error:
            raise FileFormatError(
                f"{os.fspath(path)!r} must have as {name!r} what JSON can hold: strings, finite "
                f"numbers or null.",
                got=f"{shown_value(value)} ({error})",
                remedy="Convert it first, for example dates to strings; nothing was written.",
            ) from error


def _encoded(value: Any, indent: int | None = None) -> bytes:
    return json.dumps(value, indent=indent, ensure_ascii=False, allow_nan=False).encode()


CALIBRATOR_FORMAT = "reprior calibrator"
CALIBRATOR_VERSION = 3
"""Version 2 has biases, scales or a second map, version 3 a promise, confusion matrices or what a
metric needs beside its name. A file without them is of version 1, which every reprior reads; one
that does not know them must not read a file with them as if it had none."""

NEW_IN_2 = ("biases", "scales", "probability_map")
NEW_IN_3 = ("promise", "confusion", "cost_matrix", "class_groups", "metric_function")

#: The metric's name, which may hold that of a class.
_METRIC = Field(
    "a string of at most 10,000 characters",
    lambda value: is_string(value) and len(value) <= 10_000,
)

PROVENANCE = Field(
    "null or an object with the string 'digest' and the integer 'n_samples'",
    null_or(is_provenance),
    keys=("digest", "n_samples", "left_out"),
)

FITTED = ("fit", "bcts", "vector")
"""What a temperature may be that was fitted, for another fit with the same options."""

PROMISED = (
    "format_version",
    "strength",
    "temperature",
    "source_prior",
    "target_prior",
    "kind",
    "metric",
    "classes",
)
"""The fields every calibrator file has; the rest have defaults."""


def write_calibrator(path: str | os.PathLike[str], fields: Mapping[str, Any]) -> None:
    """Write the fields of a calibrator, with format name and version, to ``path``."""
    version = calibrator_version(fields)
    write_document(path, fields, format_name=CALIBRATOR_FORMAT, version=version)


def calibrator_version(fields: Mapping[str, Any]) -> int:
    """Return the oldest format version that has all the fields."""
    version = 1
    for number, names in ((2, NEW_IN_2), (3, NEW_IN_3)):
        if any(fields.get(name) is not None for name in names):
            version = number
    return version


def read_calibrator(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read the fields back; refuse what is truncated, too new, or not a calibrator.

    Fields that a file may leave out are returned with their defaults.
    """
    return calibrator_fields(path, parsed(path, CALIBRATOR_FORMAT))


def calibrator_fields(path: str | os.PathLike[str], document: Any) -> dict[str, Any]:
    """Check a document that was read from ``path``, and return it with its defaults."""
    if isinstance(document, dict) and document.keys() >= set(PROMISED):
        document = {"format": CALIBRATOR_FORMAT, **document}
    check_header(path, document, format_name=CALIBRATOR_FORMAT, version=CALIBRATOR_VERSION)
    source = document.get("source_prior")
    n_classes = len(source) if isinstance(source, list) else 0
    strength = document.get("strength")
    fields = _calibrator_fields(n_classes, default_interval=[strength, strength])
    return check_document(path, document, fields, CALIBRATOR_RELATIONS)


def _calibrator_fields(n: int, default_interval: list[Any]) -> dict[str, Field]:
    """Return the fields of a calibrator of ``n`` classes."""
    return {
        **_prior_fields(n),
        "strength": Field("a finite number", is_number),
        "temperature": Field("a positive number", _is_positive),
        "kind": one_of(KINDS),
        "metric": _METRIC,
        "custom_metric": Field("true or false", is_boolean, required=False),
        **_metric_fields(n),
        "classes": _classes_field(n),
        "class_axis": Field("an integer from -64 to 63", _is_axis, required=False, default=-1),
        "strength_interval": Field(
            "two finite numbers in ascending order",
            lambda value: is_list(value, 2) and all(map(is_number, value)) and value[0] <= value[1],
            required=False,
            default=default_interval,
        ),
        "strength_outside_interval": Field("true or false", is_boolean, required=False),
        "best_score": Field("null or a finite number", null_or(is_number), required=False),
        "provenance": replace(PROVENANCE, required=False),
        "temperature_option": Field(
            f"null, a positive number or one of {', '.join(FITTED)}",
            null_or(lambda value: _is_positive(value) or (is_string(value) and value in FITTED)),
            required=False,
        ),
        **_vector_fields(n),
        "probability_map": Field(
            f"null or an object with 'strength', a positive 'temperature', and perhaps {n} "
            f"'biases' and 'scales'",
            null_or(lambda value: _is_map(value, n)),
            required=False,
            since=2,
            keys=("strength", "temperature", "biases", "scales"),
        ),
        "promise": Field(
            "null or an object with 'certify', a number above 0 and below 1, and 'subject_to', a "
            "list of constraints",
            null_or(_is_promise),
            required=False,
            since=3,
            keys=("certify", "subject_to"),
        ),
        "confusion": Field(
            f"null or an object with 'before' and 'after', each {n} lists of {n} integers of at "
            f"least 0, of equal sums for each class",
            null_or(lambda value: _are_confusions(value, n)),
            required=False,
            since=3,
            keys=("before", "after"),
        ),
    }


def _metric_fields(n: int) -> dict[str, Field]:
    """Return what a metric may need beside its name."""
    return {
        "cost_matrix": Field(
            f"null or {n} lists of {n} finite numbers, the largest from {SMALLEST_COST:g} to "
            f"{LARGEST_COST:g}",
            null_or(lambda value: _is_cost_matrix(value, n)),
            required=False,
            since=3,
        ),
        "class_groups": Field(
            f"null or an object with a list of indices from 0 to {n - 1} for every name",
            null_or(lambda value: _are_groups(value, n)),
            required=False,
            since=3,
        ),
        "metric_function": Field(
            "null or true, where the metric is a function, which no file holds",
            null_or(lambda value: value is True),
            required=False,
            since=3,
        ),
    }


def _is_cost_matrix(value: Any, n: int) -> bool:
    if not is_list(value, n) or not all(_are_numbers(row, n) for row in value):
        return False
    largest = max(abs(cost) for row in value for cost in row)
    return bool(largest == 0 or SMALLEST_COST <= largest <= LARGEST_COST)


def _are_groups(value: Any, n: int) -> bool:
    if not isinstance(value, dict):
        return False
    return all(
        isinstance(members, list) and members and all(is_integer(k) and 0 <= k < n for k in members)
        for members in value.values()
    )


def _prior_fields(n: int) -> dict[str, Field]:
    """Return the two priors of ``n`` classes."""
    return {
        "source_prior": Field(
            "a list of at least two positive numbers that sum to 1",
            lambda value: is_prior(value, n) and min(value) > 0,
        ),
        "target_prior": Field(
            f"a list of {n} numbers that sum to 1", lambda value: is_prior(value, n)
        ),
    }


def _classes_field(n: int) -> Field:
    return Field(
        f"null or a list of {n} different names (strings or numbers)",
        null_or(lambda value: are_names(value, n)),
    )


def _vector_fields(n: int) -> dict[str, Field]:
    """Return what a map may have beside strength and temperature."""
    return {
        "biases": Field(
            f"null or a list of {n} finite numbers (null for a class that is never predicted)",
            null_or(lambda value: _are_biases(value, n)),
            required=False,
            since=2,
        ),
        "scales": Field(
            f"null or a list of {n} finite numbers",
            null_or(lambda value: is_list(value, n) and all(map(is_number, value))),
            required=False,
            since=2,
        ),
    }


def _are_biases(value: Any, n: int) -> bool:
    if not is_list(value, n) or all(bias is None for bias in value):
        return False
    return all(bias is None or is_number(bias) for bias in value)


def _is_map(value: Any, n: int) -> bool:
    if not isinstance(value, dict) or not is_number(value.get("strength")):
        return False
    if not _is_positive(value.get("temperature")):
        return False
    return all(field.holds(value.get(name)) for name, field in _vector_fields(n).items())


def _are_confusions(value: Any, n: int) -> bool:
    if not isinstance(value, dict):
        return False
    tables: list[Any] = [value.get("before"), value.get("after")]
    for table in tables:
        if not is_list(table, n) or not all(is_list(row, n) for row in table):
            return False
        if not all(is_integer(x) and 0 <= x <= MOST_SAMPLES for row in table for x in row):
            return False
    return all(sum(one) == sum(other) for one, other in zip(*tables, strict=True))


MOST_SAMPLES = 2**53
"""Larger counts are no integers in JSON as most programs read it."""


def _is_promise(value: Any) -> bool:
    if not isinstance(value, dict) or not is_number(value.get("certify")):
        return False
    rules: Any = value.get("subject_to")
    are_texts = isinstance(rules, list) and bool(rules) and all(map(is_string, rules))
    return are_texts and 0 < value["certify"] < 1


def _is_positive(value: Any) -> bool:
    return is_number(value) and value > 0


def _lies_in_interval(document: Mapping[str, Any]) -> bool:
    """Tell whether the strength lies in its interval, or need not.

    With equal priors no strength changes anything: it is 1, whatever the bounds were. Files of
    reprior 0.1 do not say whether the strength may lie outside.
    """
    low, high = document["strength_interval"]
    is_flat = document["source_prior"] == document["target_prior"]
    is_inside = low <= document["strength"] <= high
    return bool(is_inside or is_flat or document["strength_outside_interval"] is not False)


def is_known_metric(
    name: str,
    classes: list[Any] | None,
    n_classes: int,
    class_groups: dict[str, Any] | None = None,
) -> bool:
    """Tell whether a calibrator can be tuned for a metric by this name alone, and its groups."""
    if name == "log_loss":
        return True
    try:
        find_metric(name, n_classes=n_classes, classes=classes, class_groups=class_groups)
    except RepriorError:
        return False
    return True


def _has_known_metric(document: Mapping[str, Any]) -> bool:
    """Tell whether the metric is known, or need not be. Files of reprior 0.1 do not say."""
    n_classes = len(document["source_prior"])
    groups = document["class_groups"]
    is_known = is_known_metric(document["metric"], document["classes"], n_classes, groups)
    return is_known or document["custom_metric"] is not False


def _leaves_bias_out_for_target_prior_0(document: Mapping[str, Any]) -> bool:
    maps = (document, document["probability_map"] or {})
    return all(
        bias is not None or share == 0
        for score_map in maps
        for bias, share in zip(
            score_map.get("biases") or (), document["target_prior"], strict=False
        )
    )


CALIBRATOR_RELATIONS = (
    Relation(
        "strength",
        "a number inside of 'strength_interval' (or 'strength_outside_interval': true)",
        _lies_in_interval,
    ),
    Relation(
        "metric",
        "the name of a metric that reprior knows for its classes (or 'custom_metric': true)",
        _has_known_metric,
    ),
    Relation(
        "probability_map",
        "null, because 'metric' is 'log_loss',",
        lambda document: document["metric"] != "log_loss" or document["probability_map"] is None,
    ),
    Relation(
        "biases",
        "a number for every class of positive 'target_prior'",
        _leaves_bias_out_for_target_prior_0,
    ),
)


FUSION_FORMAT = "reprior fusion"
FUSION_VERSION = 1

FUSION_CHOICES = {
    "rule": ("noisy_or", "mean", "product"),
    "order": ("rebalance_first", "flatten_first"),
    "strengths": ("shared", "per_modality"),
    "flatten_by": ("image", "pixel"),
    "uncertainty": ("entropy", "mutual_information", "smaller"),
    "missing": ("error", "leave_out"),
    "search": ("exact", "grid", "fixed"),
    "kind": KINDS,
}
"""Fields of a fusion that take one of some values."""


def write_fusion(path: str | os.PathLike[str], fields: Mapping[str, Any]) -> None:
    """Write the fields of a fusion, with format name and version, to ``path``."""
    write_document(path, fields, format_name=FUSION_FORMAT, version=FUSION_VERSION)


def is_fusion(document: Any) -> bool:
    """Tell whether a document that was read says that it is a fusion."""
    return isinstance(document, dict) and document.get("format") == FUSION_FORMAT


def fusion_document(path: str | os.PathLike[str], document: Any) -> dict[str, Any]:
    """Check a document that was read from ``path``, and return it with its defaults."""
    check_header(path, document, format_name=FUSION_FORMAT, version=FUSION_VERSION)
    return check_document(path, document, _fusion_fields(document), FUSION_RELATIONS)


def _fusion_fields(document: Mapping[str, Any]) -> dict[str, Field]:
    """Return the fields of a fusion; some depend on others, which come first."""
    source = document.get("source_prior")
    n = len(source) if isinstance(source, list) else 0
    return {
        **_prior_fields(n),
        **{name: one_of(values) for name, values in FUSION_CHOICES.items()},
        "flatten": Field("true or false", is_boolean),
        "metric": _METRIC,
        "classes": _classes_field(n),
        "class_axis": Field("an integer from -64 to 63", _is_axis),
        "best_score": Field("null or a finite number", null_or(is_number), required=False),
        "provenance": replace(PROVENANCE, required=False),
        "modalities": Field(
            "a list of modalities, each with a 'name' of its own, a 'strength', and the references "
            "that 'flatten' and 'uncertainty' ask for, of which the 'mean' is positive and at most "
            f"the logarithm of {n}, the number of classes, and the 'std' is not negative",
            lambda value: _are_modalities(value, _measures(document), n),
            keys=("name", "strength", "entropy", "mutual_information"),
        ),
    }


def _are_exact(document: Mapping[str, Any]) -> bool:
    """Tell whether an exact search is possible, where one is stated."""
    if document["search"] != "exact" or len(document["modalities"]) == 1:
        return True
    return bool(document["rule"] == "product" and document["strengths"] == "shared")


FUSION_RELATIONS = (
    Relation(
        "modalities",
        "one strength in all modalities, where 'strengths' is shared,",
        lambda document: (
            document["strengths"] != "shared"
            or len({each["strength"] for each in document["modalities"]}) == 1
        ),
    ),
    Relation(
        "search",
        "grid or fixed, unless there is one modality, or a product with a shared strength,",
        _are_exact,
    ),
)
"""What fields of a fusion have to do with each other."""


def _measures(document: Mapping[str, Any]) -> set[str]:
    """The references that every modality must have."""
    if not document.get("flatten"):
        return set()
    used = document.get("uncertainty")
    return {"entropy", "mutual_information"} if used == "smaller" else {str(used)}


def _is_axis(value: Any) -> bool:
    return is_integer(value) and -64 <= value < 64


def _are_modalities(value: Any, measures: set[str], n_classes: int) -> bool:
    if not isinstance(value, list) or not value:
        return False
    names = [each.get("name") if isinstance(each, dict) else None for each in value]
    if not all(isinstance(name, str) and name for name in names) or len(set(names)) < len(names):
        return False
    return all(
        is_number(each.get("strength"))
        and {k for k in ("entropy", "mutual_information") if each.get(k) is not None} == measures
        and all(_is_reference(each[k], n_classes) for k in measures)
        for each in value
    )


def _is_reference(value: Any, n_classes: int) -> bool:
    """Tell whether a value has mean and deviation of an entropy, which is at most log K."""
    if not isinstance(value, dict) or value.keys() != {"mean", "std"}:
        return False
    mean, std = value["mean"], value["std"]
    if not is_number(mean) or not is_number(std):
        return False
    largest = math.log(max(n_classes, 1)) + ENTROPY_ROUNDING
    return bool(0 < mean <= largest and 0 <= std <= largest)


ENTROPY_ROUNDING = 1e-3
"""By how much the entropy of scores in 16 bits may exceed log K."""


BLEND_FORMAT = "reprior blend"
BLEND_VERSION = 1

WEIGHT_ROUNDING = 1e-9
"""What the weights of a blend may differ from 1 − λ and λ."""


def write_blend(path: str | os.PathLike[str], fields: Mapping[str, Any]) -> None:
    """Write the fields of a blend, with format name and version, to ``path``."""
    write_document(path, fields, format_name=BLEND_FORMAT, version=BLEND_VERSION)


def is_blend(document: Any) -> bool:
    """Tell whether a document that was read says that it is a blend."""
    return isinstance(document, dict) and document.get("format") == BLEND_FORMAT


def blend_document(path: str | os.PathLike[str], document: Any) -> dict[str, Any]:
    """Check a document that was read from ``path``, and return it with its defaults."""
    check_header(path, document, format_name=BLEND_FORMAT, version=BLEND_VERSION)
    n = document.get("n_classes")
    n = n if is_integer(n) and n >= 2 else 0
    strength = document.get("strength")
    extra = _metric_fields(n)
    fields = {
        "models": Field(
            "two models, each with a 'name' of its own, a 'kind' and a 'weight'; the weights sum "
            "to 1",
            _are_models,
            keys=("name", "kind", "weight"),
        ),
        "strength": Field("a finite number", is_number),
        "strength_interval": Field(
            "two finite numbers in ascending order",
            lambda value: is_list(value, 2) and all(map(is_number, value)) and value[0] <= value[1],
            required=False,
            default=[strength, strength],
        ),
        "n_classes": Field("an integer of at least 2", lambda value: value == n > 0),
        "classes": _classes_field(n),
        "class_axis": Field("an integer from -64 to 63", _is_axis),
        "metric": _METRIC,
        **{name: replace(extra[name], since=1) for name in ("cost_matrix", "metric_function")},
        "best_score": Field("null or a finite number", null_or(is_number), required=False),
        "provenance": replace(PROVENANCE, required=False),
    }
    return check_document(path, document, fields, BLEND_RELATIONS)


BLEND_RELATIONS = (
    Relation(
        "strength",
        "the weight of the second model",
        lambda document: (
            abs(document["models"][1]["weight"] - document["strength"]) <= WEIGHT_ROUNDING
        ),
    ),
)
"""What fields of a blend have to do with each other."""


def _are_models(value: Any) -> bool:
    if not is_list(value, 2) or not all(isinstance(each, dict) for each in value):
        return False
    names = [each.get("name") for each in value]
    good = all(
        is_string(each.get("name"))
        and each["name"]
        and each.get("kind") in KINDS
        and is_number(each.get("weight"))
        for each in value
    )
    total = sum(each["weight"] for each in value) if good else 0.0
    return good and names[0] != names[1] and abs(total - 1.0) <= WEIGHT_ROUNDING


TRACKER_FORMAT = "reprior prior tracker"
TRACKER_VERSION = 1


def write_tracker(path: str | os.PathLike[str], fields: Mapping[str, Any]) -> None:
    """Write the fields of a tracker, with format name and version, to ``path``."""
    write_document(path, fields, format_name=TRACKER_FORMAT, version=TRACKER_VERSION)


def read_tracker(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read the fields back; refuse what is truncated, too new, or not a tracker."""
    document = parsed(path, TRACKER_FORMAT)
    check_header(path, document, format_name=TRACKER_FORMAT, version=TRACKER_VERSION)
    return check_document(path, document, _tracker_fields(document), TRACKER_RELATIONS)


def _tracker_fields(document: Mapping[str, Any]) -> dict[str, Field]:
    """Return the fields of a tracker."""
    source = document.get("source_prior")
    n = len(source) if isinstance(source, list) else 0
    seen: Any = document.get("n_samples")
    return {
        "source_prior": _prior_fields(n)["source_prior"],
        "reference_prior": Field(
            f"a list of {n} positive numbers that sum to 1",
            lambda value: is_prior(value, n) and min(value) > 0,
        ),
        "half_life": Field("a positive number", _is_positive),
        "false_alarm_rate": Field(
            "a number above 0 and below 1", lambda value: is_number(value) and 0 < value < 1
        ),
        "kind": one_of(KINDS),
        "class_axis": Field("an integer from -64 to 63", _is_axis),
        "calibration": Field(
            f"null, or a scale and a bias, each a number or {n} of them, the scale positive",
            null_or(lambda value: _is_affine(value, n)),
        ),
        "fitted": Field("true or false", is_boolean, required=False, default=False),
        "ratios": Field(
            f"null, or an object with {n} numbers of at least 0 as 'mean', not all 0, and a "
            f"symmetric matrix of {n} lists of {n} numbers as 'covariance'",
            null_or(lambda value: _are_ratios(value, n)),
            keys=("mean", "covariance"),
        ),
        "prior": Field(f"a list of {n} numbers that sum to 1", lambda value: is_prior(value, n)),
        "mass": Field(
            f"{n} numbers of at least 0, of a finite sum", lambda value: _are_amounts(value, n)
        ),
        "n_samples": Field(
            "an integer of at least 0", lambda value: is_integer(value) and value >= 0
        ),
        "waiting": Field(
            "an integer of at least 0", lambda value: is_integer(value) and value >= 0
        ),
        "log_evidence": Field(
            "a number of at least 0", lambda value: is_number(value) and value >= 0
        ),
        "alarm_at": Field(
            "null or a positive integer, not above 'n_samples'",
            null_or(lambda value: is_integer(value) and 0 < value <= seen),
        ),
    }


def _is_below_alarm(document: Mapping[str, Any]) -> bool:
    """Tell whether the evidence, log(1 + R), is of an R below 1/rate, or the alarm was raised."""
    threshold = -math.log(document["false_alarm_rate"])
    at_most = threshold + math.log1p(math.exp(-threshold)) + 1e-9
    return document["alarm_at"] is not None or document["log_evidence"] <= at_most


TRACKER_RELATIONS = (
    Relation(
        "waiting",
        "the rest of 'n_samples' after whole blocks of a sixteenth of 'half_life'",
        lambda document: (
            document["waiting"] == document["n_samples"] % block_size(document["half_life"])
        ),
    ),
    Relation(
        "mass",
        "numbers whose sum is 'waiting'",
        lambda document: math.isclose(
            math.fsum(document["mass"]), document["waiting"], rel_tol=1e-6, abs_tol=1e-6
        ),
    ),
    Relation(
        "alarm_at",
        "the sample of the alarm, which 'log_evidence' has reached,",
        _is_below_alarm,
    ),
)


def _are_numbers(value: Any, n: int) -> bool:
    return is_list(value, n) and n > 0 and all(map(is_number, value))


def _are_amounts(value: Any, n: int) -> bool:
    return _are_numbers(value, n) and min(value) >= 0 and sum(value) < math.inf


def _are_ratios(value: Any, n: int) -> bool:
    if not isinstance(value, dict) or not _are_amounts(value.get("mean"), n):
        return False
    rows: Any = value.get("covariance")
    if not is_list(rows, n) or not all(_are_numbers(row, n) for row in rows):
        return False
    largest = max(abs(number) for row in rows for number in row)
    is_symmetric = all(
        abs(rows[i][j] - rows[j][i]) <= 1e-9 * largest for i in range(n) for j in range(i)
    )
    return max(value["mean"]) > 0 and is_symmetric and all(rows[k][k] >= 0 for k in range(n))


def _is_affine(value: Any, n: int) -> bool:
    if not is_list(value, 2) or not all(is_number(x) or _are_numbers(x, n) for x in value):
        return False
    scale = value[0]
    return bool((min(scale) if isinstance(scale, list) else scale) > 0)
