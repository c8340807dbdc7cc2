"""Class names: from a list, or from a file with one per line or a JSON list."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from reprior.exceptions import FileFormatError, OptionError

__all__ = ["as_class_names", "read_class_names"]


def read_class_names(path: str | os.PathLike[str]) -> tuple[str, ...]:
    r"""Read class names from a text file: one per line, or a JSON list.

    Examples
    --------
    >>> path = getfixture("tmp_path") / "classes.txt"
    >>> _ = path.write_text("cat\ndog\n")
    >>> read_class_names(path)
    ('cat', 'dog')
    """
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise FileFormatError(
            f"{os.fspath(path)!r} must be a text file of class names, one per line, or a JSON "
            f"list. Got binary data. Check the path."
        ) from error
    if text.lstrip().startswith(("[", "{")):
        values = _from_json(path, text)
    else:
        values = [line.strip() for line in text.splitlines() if line.strip()]
    return _checked(values, f"{os.fspath(path)!r}", FileFormatError)


def _from_json(path: Path, text: str) -> list[Any]:
    try:
        values = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FileFormatError(
            f"{os.fspath(path)!r} must be a JSON list of class names. It is truncated or damaged "
            f"({error}). Write it again."
        ) from error
    if not isinstance(values, list) or not all(isinstance(v, str | int) for v in values):
        raise FileFormatError(
            f"{os.fspath(path)!r} must be a JSON list of class names. Got something else. "
            f'Write ["first", "second", …] in the order of the scores.'
        )
    return values


def as_class_names(classes: Sequence[Any] | str | os.PathLike[str]) -> tuple[str, ...]:
    """Return class names as strings, from a list or a file.

    Examples
    --------
    >>> as_class_names(["cat", 7])
    ('cat', '7')
    """
    if isinstance(classes, str | os.PathLike):
        return read_class_names(classes)
    values = classes.tolist() if hasattr(classes, "tolist") else list(classes)
    return _checked(values, "`classes`", OptionError)


def _checked(
    values: Sequence[Any], what: str, error: type[FileFormatError] | type[OptionError]
) -> tuple[str, ...]:
    names = tuple(str(value) for value in values)
    if len(names) < 2:
        raise error(
            f"{what} must name at least two classes. Got {len(names)}. "
            f"Name every class, in the order of the scores."
        )
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise error(
                f"{what} must name every class once. Got {name!r} twice. Rename one of them."
            )
        seen.add(name)
    return names
