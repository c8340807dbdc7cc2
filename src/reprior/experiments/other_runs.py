"""What a folder has that was not asked for: runs of the same kind, trained by other settings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

__all__ = ["of_other_settings"]


def of_other_settings(
    there: Iterable[Mapping[str, Any]],
    wanted: Sequence[Mapping[str, Any]],
    alike: Sequence[str],
    what: str,
) -> str:
    """Return a sentence on runs that only other settings keep from being found; "" without any.

    Parameters
    ----------
    there : iterable of mapping
        The settings of the finished runs of a folder.
    wanted : sequence of mapping
        Those that are asked for.
    alike : sequence of str
        Settings by which one run stands for another in a table.
    what : str
        What runs are called.

    Examples
    --------
    >>> wanted = [{"loss": "ce", "epochs": 20}, {"loss": "focal", "epochs": 20}]
    >>> of_other_settings([{"loss": "ce", "epochs": 2}], wanted, ["loss"], "cell")
    'It has 1 cell of other settings: epochs is 2, not 20. Ask for it by the --set and --protocol
    that it was trained with.'
    """
    differing: list[list[str]] = []
    for own in there:
        pairs = [each for each in wanted if all(each.get(k) == own.get(k) for k in alike)]
        if pairs and own not in pairs:
            keys = sorted({*own, *pairs[0]})
            unlike = [key for key in keys if own.get(key) != pairs[0].get(key)]
            differing.append([f"{k} is {own.get(k)!r}, not {pairs[0].get(k)!r}" for k in unlike])
    if not differing:
        return ""
    one = len(differing) == 1
    return (
        f"It has {len(differing)} {what}{'' if one else 's'} of other settings: "
        f"{'; '.join(differing[0])}. Ask for {'it' if one else 'them'} by the --set and --protocol "
        f"that {'it was' if one else 'they were'} trained with."
    )
