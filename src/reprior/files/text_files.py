"""Small text files written by hand: class names, and what counts and costs share."""

from __future__ import annotations

import csv
import io
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from reprior.exceptions import FileFormatError, OptionError, RepriorError, Text
from reprior.files.formats.interface import few
from reprior.files.limits import MAX_TEXT_BYTES, parse_json, read_limited, refuse_cells

__all__ = [
    "as_class_names",
    "csv_rows",
    "is_json",
    "json_of",
    "order_of",
    "read_class_names",
    "refuse_twice",
    "text_of",
]


def text_of(path: Path, must: str, remedy: Text = "Check the path.") -> str:
    """Read a text file; ``must`` says what it must do, and ``remedy`` what to do with another."""
    data = read_limited(path, MAX_TEXT_BYTES, "text")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise FileFormatError(
            f"{os.fspath(path)!r} must {must}.", got="binary data", remedy=remedy
        ) from error
    refuse_cells(path, text, "text")
    return text


def is_json(text: str) -> bool:
    """Whether a text is a JSON list or object, by its first letter."""
    return text.lstrip()[:1] in ("[", "{")


def json_of(path: Path, text: str, what: str) -> Any:
    """Return what JSON says: lists as lists, and objects as tuples of pairs.

    A dictionary would hide a name that is there twice.
    """
    try:
        return parse_json(text, pairs=True)
    except ValueError as error:
        raise FileFormatError(
            f"{os.fspath(path)!r} must hold {what} in JSON. It is truncated or damaged ({error}).",
            remedy="Write it again.",
        ) from error


def csv_rows(path: Path, text: str, must: str) -> tuple[list[tuple[int, list[str]]], str]:
    """Return the number and the cells of every line that has some, and the delimiter."""
    first = next((line for line in text.splitlines() if line.strip()), "")
    delimiter = max(",\t;", key=first.count)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    try:
        rows = [(reader.line_num, [cell.strip() for cell in row]) for row in reader]
    except csv.Error as error:
        raise FileFormatError(
            f"{os.fspath(path)!r} must {must}. It is damaged ({error})."
        ) from error
    return [(line, row) for line, row in rows if any(row)], delimiter


def order_of(
    path: Path, names: Sequence[str], wanted: Sequence[str], error: type[RepriorError]
) -> list[int]:
    """Return where each name that is wanted stands among the names of a file, all of them.

    A name that is missing or unknown raises ``error``.
    """
    refuse_twice(path, names)
    there, known = set(names), set(wanted)
    missing = [name for name in wanted if name not in there]
    unknown = [name for name in names if name not in known]
    if missing or unknown:
        parts = [f"missing: {few(missing)}"] if missing else []
        parts += [f"unknown: {few(unknown)}"] if unknown else []
        raise error(
            f"{os.fspath(path)!r} must name the classes {few(wanted)}.",
            got="; ".join(parts),
            remedy="Use the same names in both.",
        )
    index = {name: i for i, name in enumerate(names)}
    return [index[name] for name in wanted]


def refuse_twice(path: Path, names: Sequence[str], what: str = "class") -> None:
    """Refuse a repeated name in a file."""
    repeated = [name for name, n in Counter(names).items() if n > 1]
    if repeated:
        raise FileFormatError(
            f"{os.fspath(path)!r} must name every {what} once.",
            got=f"{repeated[0]!r} twice",
            remedy="Drop one of them.",
        )


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
    text = text_of(path, "be a text file of class names, one per line, or a JSON list")
    if is_json(text):
        values = _names_from_json(path, text)
    else:
        values = [line.strip() for line in text.splitlines() if line.strip()]
    return _checked_names(values, path)


def _names_from_json(path: Path, text: str) -> list[Any]:
    rule = f"{os.fspath(path)!r} must be a JSON list of class names."
    try:
        values = parse_json(text)
    except ValueError as error:
        raise FileFormatError(
            f"{rule} It is truncated or damaged ({error}).", remedy="Write it again."
        ) from error
    if not isinstance(values, list) or not all(isinstance(v, str | int) for v in values):
        raise FileFormatError(
            rule,
            got="something else",
            remedy='Write ["first", "second", …] in the order of the scores.',
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
    return _checked_names(values)


def _checked_names(values: Sequence[Any], path: Path | None = None) -> tuple[str, ...]:
    """Return names as strings; refuse too few, and one that is there twice."""
    names = tuple(str(value) for value in values)
    if len(names) < 2:
        raise _wrong_names(
            path,
            "must name at least two classes",
            f"{len(names)}",
            "Name every class, in the order of the scores.",
        )
    repeated = [name for name, n in Counter(names).items() if n > 1]
    if repeated:
        raise _wrong_names(
            path, "must name every class once", f"{repeated[0]!r} twice", "Rename one of them."
        )
    return names


def _wrong_names(path: Path | None, rule: str, got: str, remedy: str) -> RepriorError:
    if path is None:
        return OptionError(argument="classes", rule=rule, got=got, remedy=remedy)
    return FileFormatError(f"{os.fspath(path)!r} {rule}.", got=got, remedy=remedy)
