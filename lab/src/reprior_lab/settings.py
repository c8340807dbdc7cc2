"""Settings by name: known keys, values of the declared type, and KEY=VALUE on the command line."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from reprior.exceptions import OptionError

__all__ = [
    "check_known",
    "check_whole_number",
    "common_settings",
    "declared",
    "keys_of",
    "read_settings",
    "settings_help",
]

#: The rule for a value, by the annotation of its field.
_RULES = {
    "str": "a word",
    "str | None": "a word",
    "bool": "true or false",
    "int": "a whole number",
    "int | None": "a whole number",
    "float": "a number",
    "tuple[float, ...]": "a list of numbers, such as 0.8,0.9 or [0.8]",
    "tuple[int, int]": "two whole numbers, height and width, such as 128,224",
    "tuple[int, int] | None": "two whole numbers, height and width, such as 128,224",
}


def keys_of(kind: type[Any], without: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the names of a dataclass's settings, without some of them.

    Examples
    --------
    >>> from reprior_lab.synthia.settings import NetworkSettings
    >>> keys_of(NetworkSettings, ("modality", "loss"))[:3]
    ('model', 'depth_code', 'crop')
    """
    return tuple(field.name for field in fields(kind) if field.name not in without)


def check_known(kind: type[Any], given: Mapping[str, Any], what: str) -> None:
    """Refuse keys that are no fields of a dataclass; suggest the closest one.

    Examples
    --------
    >>> from reprior_lab.synthia.settings import NetworkSettings
    >>> check_known(NetworkSettings, {"step": 3}, "network")
    Traceback (most recent call last):
    ...
    reprior.exceptions.OptionError: A network must have known settings. Got 'step'. Did you mean
    'steps'?
    """
    known = keys_of(kind)
    for key in given:
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1)
            hint = f"Did you mean {near[0]!r}?" if near else f"There are {', '.join(known)}."
            raise OptionError(f"A {what} must have known settings. Got {key!r}. {hint}")


def check_whole_number(name: str, value: Any, least: int) -> None:
    """Refuse values that are no whole number, or below the least.

    Examples
    --------
    >>> check_whole_number("epochs", 0, 1)
    Traceback (most recent call last):
    ...
    reprior.exceptions.OptionError: `epochs` must be a whole number of at least 1. Got 0.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise OptionError(
            argument=name, rule=f"must be a whole number of at least {least}", got=repr(value)
        )


def declared(kind: type[Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Convert values to the types of their fields; refuse those of another type.

    Equal settings get equal bytes: 100 and 100.0 are the same run, as are a list and a tuple.

    Examples
    --------
    >>> from reprior_lab.synthia.settings import NetworkSettings
    >>> declared(NetworkSettings, {"crop": [64, 96], "lr": 1})
    {'crop': (64, 96), 'lr': 1.0}
    >>> declared(NetworkSettings, {"crop": 64})
    Traceback (most recent call last):
    ...
    reprior.exceptions.OptionError: `crop` must be two whole numbers, height and width, such as
    128,224. Got 64.
    """
    types = {field.name: str(field.type) for field in fields(kind)}
    return {key: _declared(key, value, types[key]) for key, value in given.items()}


def _declared(key: str, value: Any, annotation: str) -> Any:
    if value is None and annotation.endswith("| None"):
        return None
    converted = _read(value, annotation.removesuffix(" | None"))
    if converted is None:
        raise OptionError(argument=key, rule=f"must be {_RULES[annotation]}", got=repr(value))
    return converted


def _read(value: Any, annotation: str) -> Any:
    """Return the value converted to its type, or None if it has another."""
    if annotation == "str":
        return value if isinstance(value, str) else None
    if annotation == "bool":
        return value if isinstance(value, bool) else None
    if annotation == "int":
        return value if _is_number(value) and isinstance(value, int) else None
    if annotation == "float":
        return float(value) if _is_number(value) else None
    if not isinstance(value, list | tuple) or not all(map(_is_number, value)):
        return None
    if annotation == "tuple[float, ...]":
        return tuple(map(float, value))
    is_pair = len(value) == 2 and all(isinstance(each, int) for each in value)
    return tuple(value) if is_pair else None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def common_settings(given: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the settings with the same value in all mappings.

    Examples
    --------
    >>> common_settings([{"loss": "ce", "lr": 0.1}, {"loss": "focal", "lr": 0.1}])
    {'lr': 0.1}
    """
    first = given[0]
    return {
        key: value
        for key, value in first.items()
        if all(key in each and each[key] == value for each in given)
    }


def settings_help(what: str, kind: type[Any], without: Sequence[str]) -> str:
    """Return the help of ``--set``: its purpose, the syntax of values, and all keys.

    Examples
    --------
    >>> from reprior_lab.synthia.settings import NetworkSettings
    >>> settings_help("A setting.", NetworkSettings, ["loss", "modality"])
    'A setting. Repeatable. Lists are 1,2 or [1,2]. Keys: model, depth_code, crop, ...'
    """
    keys = ", ".join(keys_of(kind, without))
    return f"{what} Repeatable. Lists are 1,2 or [1,2]. Keys: {keys}."


def read_settings(settings: Sequence[str], given: Sequence[str] = ()) -> dict[str, Any]:
    """Return the settings of ``--set``: each key once, and none that another option has given.

    A value is JSON, comma-separated numbers, or a word.

    Examples
    --------
    >>> read_settings(["momentum=0.95", "weight-decay=0", "model=resnet8", "crop=64,96"])
    {'momentum': 0.95, 'weight_decay': 0, 'model': 'resnet8', 'crop': [64, 96]}
    """
    values: dict[str, Any] = {}
    for setting in settings:
        key, equals, text = setting.partition("=")
        key = key.strip().replace("-", "_")
        if not equals or not key:
            raise OptionError(
                f"--set must be KEY=VALUE. Got {setting!r}. Pass for example --set momentum=0.95."
            )
        if key == "protocol":
            raise OptionError(
                "--set must be a setting without an option of its own. Got 'protocol'. Pass "
                "--protocol instead."
            )
        if key in values or key in given:
            raise OptionError(
                f"A setting must be given once. Got {key!r} twice. Leave one of them out."
            )
        values[key] = _value(text)
    return values


def _value(text: str) -> Any:
    for written in (text, f"[{text}]") if "," in text else (text,):
        try:
            return json.loads(written)
        except ValueError:
            continue
    return text
