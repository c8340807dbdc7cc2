"""Settings of a training run given as KEY=VALUE."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from reprior.exceptions import OptionError

__all__ = ["read_settings"]


def read_settings(settings: Sequence[str], given: Sequence[str] = ()) -> dict[str, Any]:
    """Return what ``--set`` says, each key once and none that another option has given.

    Examples
    --------
    >>> read_settings(["momentum=0.95", "weight-decay=0", "model=resnet8"])
    {'momentum': 0.95, 'weight_decay': 0, 'model': 'resnet8'}
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
        try:
            found[key] = json.loads(text)
        except ValueError:
            found[key] = text
    return found
