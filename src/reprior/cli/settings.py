"""Settings of a training run given as KEY=VALUE."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from reprior.exceptions import OptionError
from reprior.experiments.setting_values import keys_of

__all__ = ["read_settings", "settings_help"]


def settings_help(what: str, kind: type[Any], without: Sequence[str]) -> str:
    """Return the help of ``--set``: what it is for, how values are written, and all keys.

    Examples
    --------
    >>> from reprior.experiments.synthia.settings import NetworkSettings
    >>> settings_help("A setting.", NetworkSettings, ["loss", "modality"])
    'A setting. Repeatable. Lists are 1,2 or [1,2]. Keys: model, depth_code, crop, ...'
    """
    keys = ", ".join(keys_of(kind, without))
    return f"{what} Repeatable. Lists are 1,2 or [1,2]. Keys: {keys}."


def read_settings(settings: Sequence[str], given: Sequence[str] = ()) -> dict[str, Any]:
    """Return what ``--set`` says, each key once and none that another option has given.

    A value is JSON, numbers with commas between them, or else a word.

    Examples
    --------
    >>> read_settings(["momentum=0.95", "weight-decay=0", "model=resnet8", "crop=64,96"])
    {'momentum': 0.95, 'weight_decay': 0, 'model': 'resnet8', 'crop': [64, 96]}
    """
    found: dict[str, Any] = {}
    for setting in settings:
        key, equals, text = setting.partition("=")
        key = key.strip().replace("-", "_")
        if not equals or not key:
            raise OptionError(
                f"--set must be KEY=VALUE. Got {setting!r}. Pass for example --set momentum=0.95."
            )
        if key in found or key in given or key == "protocol":
            raise OptionError(
                f"A setting must be given once. Got {key!r} twice. Leave one of them out."
            )
        found[key] = _value(text)
    return found


def _value(text: str) -> Any:
    for written in (text, f"[{text}]") if "," in text else (text,):
        try:
            return json.loads(written)
        except ValueError:
            continue
    return text
