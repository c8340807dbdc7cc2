"""Calibrators, fusions and trackers as versioned JSON: every field is checked when it is read."""

from __future__ import annotations

import json
import math
import os
import reprlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from reprior.core.checks import KINDS
from reprior.core.shift.tracking import block_size
from reprior.exceptions import FileFormatError, Words
from reprior.files.archive import SAVE, check_header
from reprior.files.atomic import atomic_write

__all__ = [
    "Rule",
    "are_names",
    "calibrator_fields",
    "check_fields",
    "fusion_document",
    "is_fusion",
    "is_integer",
    "is_list",
    "is_number",
    "is_prior",
    "is_provenance",
    "parsed",
    "read_calibrator",
    "read_tracker",
    "write_calibrator",
    "write_document",
    "write_fusion",
    "write_tracker",
]


class Rule(NamedTuple):
    """What a field must be, as a text and as a test."""

    text: str
    holds: Callable[[Any], bool]


def write_document(
    path: str | os.PathLike[str], fields: Mapping[str, Any], *, format_name: str, version: int
) -> None:
    """Write ``fields``, with format name and version, to ``path``."""
    _check_writable(path, fields)
    document = {"format": format_name, "format_version": version, **fields}
    data = _encoded(document, indent=2) + b"\n"
    with atomic_write(path) as file:
        file.write(data)


def parsed(path: str | os.PathLike[str], format_name: str) -> Any:
    """Read a JSON file; refuse what is truncated, or something else."""
    data = Path(path).read_bytes()
    try:
        return json.loads(data.decode(), parse_constant=_refuse_constant)
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
    except (ValueError, RecursionError) as error:
        raise FileFormatError(
            f"{os.fspath(path)!r} must be a {format_name} in JSON. It is truncated, damaged or "
            f"something else ({error}).",
            remedy=["Write it again with ", SAVE, "."],
        ) from error


def check_fields(
    path: str | os.PathLike[str], document: Mapping[str, Any], rules: Mapping[str, Rule]
) -> None:
    """Refuse the first field that is missing or breaks its rule."""
    for name, rule in rules.items():
        if name not in document or not rule.holds(document[name]):
            raise FileFormatError(
                f"{os.fspath(path)!r} must have {rule.text} as {name!r}.",
                got=_shown(document[name]) if name in document else "nothing",
                remedy=["Write it again with ", SAVE, "."],
            )


def is_number(value: Any) -> bool:
    """Tell whether a value is a number that a float can hold."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def is_integer(value: Any) -> bool:
    """Tell whether a value is an integer, and no boolean."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_list(value: Any, length: int) -> bool:
    """Tell whether a value is a list of that length."""
    return isinstance(value, list) and len(value) == length


def is_provenance(value: Any) -> bool:
    """Tell whether a value says what something was tuned on."""
    if not isinstance(value, dict) or not isinstance(value.get("digest"), str):
        return False
    return is_integer(value.get("n_samples")) and value["n_samples"] >= 0


def are_names(value: Any, n_classes: int) -> bool:
    """Tell whether a value is a list of that many different names of classes."""
    if not is_list(value, n_classes):
        return False
    plain = all(isinstance(name, str | bool) or is_number(name) for name in value)
    return plain and len(set(value)) == n_classes


def is_prior(value: Any, n_classes: int) -> bool:
    """Tell whether a value is a list of that many probabilities that sum to 1."""
    if not is_list(value, n_classes) or n_classes < 2:
        return False
    # Below 2, not up to 1: the sum decides, and cannot overflow.
    numbers = all(is_number(p) and 0 <= p < 2 for p in value)
    return numbers and abs(math.fsum(value) - 1) <= 1e-6


def _check_writable(path: str | os.PathLike[str], fields: Mapping[str, Any]) -> None:
    """Refuse the first field that JSON cannot hold."""
    for name, value in fields.items():
        try:
            _encoded(value)
        except (TypeError, ValueError, RecursionError) as error:
            raise FileFormatError(
                f"{os.fspath(path)!r} must have as {name!r} what JSON can hold: strings, finite "
                f"numbers or null.",
                got=f"{_shown(value)} ({error})",
                remedy="Convert it first, for example dates to strings; nothing was written.",
            ) from error


def _encoded(value: Any, indent: int | None = None) -> bytes:
    return json.dumps(value, indent=indent, ensure_ascii=False, allow_nan=False).encode()


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number a calibrator can hold")


def _shown(value: Any) -> str:
    """Return a value as errors show it, however long or deep it is."""
    return reprlib.repr(value)


CALIBRATOR_FORMAT = "reprior calibrator"
CALIBRATOR_VERSION = 2
"""Version 2 has biases, scales or a second map. A file without them is of version 1, which every
reprior reads; one that does not know them must not read a file with them as if it had none."""

NEW_IN_2 = ("biases", "scales", "probability_map")

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
    newer = any(fields.get(name) is not None for name in NEW_IN_2)
    write_document(path, fields, format_name=CALIBRATOR_FORMAT, version=2 if newer else 1)


def read_calibrator(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read the fields back; refuse what is truncated, too new, or not a calibrator.

    Fields that a file may leave out are returned with their defaults.
    """
    return calibrator_fields(path, parsed(path, CALIBRATOR_FORMAT))


def calibrator_fields(path: str | os.PathLike[str], document: Any) -> dict[str, Any]:
    """Check what was read from ``path`` already."""
    if isinstance(document, dict) and document.keys() >= set(PROMISED):
        document = {"format": CALIBRATOR_FORMAT, **document}
    check_header(path, document, format_name=CALIBRATOR_FORMAT, version=CALIBRATOR_VERSION)
    strength, source = document.get("strength"), document.get("source_prior")
    defaults = {
        "class_axis": -1,
        "strength_interval": [strength, strength],
        "best_score": None,
        "provenance": None,
        "temperature_option": None,
        **dict.fromkeys(NEW_IN_2),
    }
    complete: dict[str, Any] = {**defaults, **document}
    check_fields(path, complete, _calibrator_rules(len(source) if isinstance(source, list) else 0))
    return complete


def _calibrator_rules(n: int) -> dict[str, Rule]:
    """Return the rule of every field of a calibrator of ``n`` classes."""
    return {
        "source_prior": Rule(
            "a list of at least two positive numbers that sum to 1",
            lambda value: is_prior(value, n) and min(value) > 0,
        ),
        "target_prior": Rule(
            f"a list of {n} numbers that sum to 1", lambda value: is_prior(value, n)
        ),
        "strength": Rule("a finite number", is_number),
        "temperature": Rule("a positive number", lambda value: is_number(value) and value > 0),
        "kind": Rule(f"one of {', '.join(KINDS)}", lambda value: value in KINDS),
        "metric": Rule("a string", lambda value: isinstance(value, str)),
        "classes": Rule(
            f"null or a list of {n} different names (strings or numbers)",
            lambda value: value is None or are_names(value, n),
        ),
        "class_axis": Rule("an integer", is_integer),
        "strength_interval": Rule(
            "two finite numbers", lambda value: is_list(value, 2) and all(map(is_number, value))
        ),
        "best_score": Rule(
            "null or a finite number", lambda value: value is None or is_number(value)
        ),
        "provenance": Rule(
            "null or an object with the string 'digest' and the integer 'n_samples'",
            lambda value: value is None or is_provenance(value),
        ),
        "temperature_option": Rule(
            f"null, a positive number or one of {', '.join(FITTED)}",
            lambda value: value is None or value in FITTED or (is_number(value) and value > 0),
        ),
        **_map_rules(n),
        "probability_map": Rule(
            f"null or an object with 'strength', a positive 'temperature', and perhaps {n} "
            f"'biases' and 'scales'",
            lambda value: value is None or _is_map(value, n),
        ),
    }


def _map_rules(n: int) -> dict[str, Rule]:
    """Return the rules of what a map may have beside strength and temperature."""
    return {
        "biases": Rule(
            f"null or a list of {n} finite numbers (null for a class that is not to be)",
            lambda value: value is None or _are_biases(value, n),
        ),
        "scales": Rule(
            f"null or a list of {n} finite numbers",
            lambda value: value is None or (is_list(value, n) and all(map(is_number, value))),
        ),
    }


def _are_biases(value: Any, n: int) -> bool:
    if not is_list(value, n) or all(bias is None for bias in value):
        return False
    return all(bias is None or is_number(bias) for bias in value)


def _is_map(value: Any, n: int) -> bool:
    if not isinstance(value, dict) or not is_number(value.get("strength")):
        return False
    temperature: Any = value.get("temperature")
    if not is_number(temperature) or temperature <= 0:
        return False
    return all(rule.holds(value.get(name)) for name, rule in _map_rules(n).items())


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
    """Check what was read from ``path``; refuse what is too new, damaged, or not a fusion."""
    check_header(path, document, format_name=FUSION_FORMAT, version=FUSION_VERSION)
    defaults = {"best_score": None, "provenance": None}
    complete: dict[str, Any] = {**defaults, **document}
    check_fields(path, complete, _fusion_rules(complete))
    return complete


def _fusion_rules(document: Mapping[str, Any]) -> dict[str, Rule]:
    """Return the rule of every field; some depend on others, which come first."""
    source = document.get("source_prior")
    n = len(source) if isinstance(source, list) else 0
    choices = {name: _one_of(values) for name, values in FUSION_CHOICES.items()}
    return {
        "source_prior": Rule(
            "a list of at least two positive numbers that sum to 1",
            lambda value: is_prior(value, n) and min(value) > 0,
        ),
        "target_prior": Rule(
            f"a list of {n} numbers that sum to 1", lambda value: is_prior(value, n)
        ),
        **choices,
        "flatten": Rule("true or false", lambda value: isinstance(value, bool)),
        "metric": Rule("a string", lambda value: isinstance(value, str)),
        "classes": Rule(
            f"null or a list of {n} different names (strings or numbers)",
            lambda value: value is None or are_names(value, n),
        ),
        "class_axis": Rule("an integer", is_integer),
        "best_score": Rule(
            "null or a finite number", lambda value: value is None or is_number(value)
        ),
        "provenance": Rule(
            "null or an object with the string 'digest' and the integer 'n_samples'",
            lambda value: value is None or is_provenance(value),
        ),
        "modalities": Rule(
            "a list of modalities, each with a 'name' of its own, a 'strength', and the references "
            "that 'flatten' and 'uncertainty' ask for",
            lambda value: _are_modalities(value, _measures(document)),
        ),
    }


def _one_of(values: tuple[str, ...]) -> Rule:
    return Rule(f"one of {', '.join(values)}", lambda value: value in values)


def _measures(document: Mapping[str, Any]) -> set[str]:
    """The references that every modality must have."""
    if not document.get("flatten"):
        return set()
    used = document.get("uncertainty")
    return {"entropy", "mutual_information"} if used == "smaller" else {str(used)}


def _are_modalities(value: Any, measures: set[str]) -> bool:
    if not isinstance(value, list) or not value:
        return False
    names = [each.get("name") if isinstance(each, dict) else None for each in value]
    if not all(isinstance(name, str) and name for name in names) or len(set(names)) < len(names):
        return False
    return all(
        is_number(each.get("strength"))
        and {k for k in ("entropy", "mutual_information") if each.get(k) is not None} == measures
        and all(_is_reference(each[k]) for k in measures)
        for each in value
    )


def _is_reference(value: Any) -> bool:
    if not isinstance(value, dict) or not all(is_number(value.get(k)) for k in ("mean", "std")):
        return False
    return bool(value["mean"] > 0 and value["std"] >= 0)


TRACKER_FORMAT = "reprior prior tracker"
TRACKER_VERSION = 1


def write_tracker(path: str | os.PathLike[str], fields: Mapping[str, Any]) -> None:
    """Write the fields of a tracker, with format name and version, to ``path``."""
    write_document(path, fields, format_name=TRACKER_FORMAT, version=TRACKER_VERSION)


def read_tracker(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read the fields back; refuse what is truncated, too new, or not a tracker."""
    document = parsed(path, TRACKER_FORMAT)
    check_header(path, document, format_name=TRACKER_FORMAT, version=TRACKER_VERSION)
    check_fields(path, document, _tracker_rules(document))
    fields: dict[str, Any] = document
    return fields


def _tracker_rules(document: Mapping[str, Any]) -> dict[str, Rule]:
    """Return the rule of every field."""
    source = document.get("source_prior")
    n = len(source) if isinstance(source, list) else 0
    positive = Rule("a positive number", lambda value: is_number(value) and value > 0)
    half_life: Any = document.get("half_life")
    seen: Any = document.get("n_samples")
    block = block_size(half_life) if is_number(half_life) and half_life > 0 else 0
    return {
        "source_prior": Rule(
            "a list of at least two positive numbers that sum to 1",
            lambda value: is_prior(value, n) and min(value) > 0,
        ),
        "reference_prior": Rule(
            f"a list of {n} positive numbers that sum to 1",
            lambda value: is_prior(value, n) and min(value) > 0,
        ),
        "half_life": positive,
        "false_alarm_rate": Rule(
            "a number above 0 and below 1", lambda value: is_number(value) and 0 < value < 1
        ),
        "kind": Rule(f"one of {', '.join(KINDS)}", lambda value: value in KINDS),
        "class_axis": Rule("an integer", is_integer),
        "calibration": Rule(
            f"null, or a scale and a bias, each a number or {n} of them, the scale positive",
            lambda value: value is None or _is_affine(value, n),
        ),
        "ratios": Rule(
            f"null, or an object with {n} numbers of at least 0 as 'mean', not all 0, and {n} "
            f"lists of {n} numbers as 'covariance'",
            lambda value: value is None or _are_ratios(value, n),
        ),
        "prior": Rule(f"a list of {n} numbers that sum to 1", lambda value: is_prior(value, n)),
        "mass": Rule(f"{n} numbers of at least 0", lambda value: _are_amounts(value, n)),
        "n_samples": Rule(
            "an integer of at least 0", lambda value: is_integer(value) and value >= 0
        ),
        "waiting": Rule(
            f"an integer below {block}, a sixteenth of 'half_life', and not above 'n_samples'",
            lambda value: is_integer(value) and 0 <= value < block and value <= seen,
        ),
        "log_evidence": Rule(
            "a number of at least 0", lambda value: is_number(value) and value >= 0
        ),
        "alarm_at": Rule(
            "null or a positive integer, not above 'n_samples'",
            lambda value: value is None or (is_integer(value) and 0 < value <= seen),
        ),
    }


def _are_numbers(value: Any, n: int) -> bool:
    return is_list(value, n) and n > 0 and all(map(is_number, value))


def _are_amounts(value: Any, n: int) -> bool:
    return _are_numbers(value, n) and min(value) >= 0


def _are_ratios(value: Any, n: int) -> bool:
    if not isinstance(value, dict) or not _are_amounts(value.get("mean"), n):
        return False
    rows: Any = value.get("covariance")
    return max(value["mean"]) > 0 and is_list(rows, n) and all(_are_numbers(x, n) for x in rows)


def _is_affine(value: Any, n: int) -> bool:
    if not is_list(value, 2) or not all(is_number(x) or _are_numbers(x, n) for x in value):
        return False
    scale = value[0]
    return bool((min(scale) if isinstance(scale, list) else scale) > 0)
