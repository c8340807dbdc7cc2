"""What may be read: regular files of a limited size, and JSON that says everything once.

Every reader of this package opens its files through here, so that a FIFO, a device or a small file
that asks for gigabytes is one sentence, before anything is read or unpacked.
"""

from __future__ import annotations

import json
import math
import os
import stat
import sys
from pathlib import Path
from typing import Any, NoReturn

from reprior.exceptions import FileFormatError
from reprior.files.atomic import FILE_TYPES

__all__ = [
    "MAX_DOCUMENT_BYTES",
    "MAX_TEXT_BYTES",
    "parse_json",
    "read_limited",
    "refuse_cells",
    "regular_file",
]

MAX_DOCUMENT_BYTES = 1 << 27
"""Bytes of a JSON document: a tracker holds a matrix, at 2,000 classes 120 MB of it."""

MAX_TEXT_BYTES = 1 << 25
"""Bytes of a text file of names, counts or costs: 32 for each value there may be."""

#: Numbers, strings, lists and objects of a JSON document. One takes up to 72 bytes of memory.
_MAX_VALUES = 5_000_000

#: What a key of an object counts beside its value.
_KEY_VALUES = 2

#: Cells of a text file: counts of a million named classes, costs of 1,000 by 1,000. One takes up
#: to 220 bytes of memory.
_MAX_CELLS = 2_000_000


def regular_file(path: str | os.PathLike[str]) -> Path:
    """Return the path of an input; refuse a folder, and a FIFO, device or socket: they may not end.

    Examples
    --------
    >>> regular_file("/dev/null")
    Traceback (most recent call last):
        ...
    reprior.exceptions.FileFormatError: '/dev/null' must be a regular file. Got a device. Write its
    contents to a file, and name that.
    """
    try:
        mode = os.stat(path).st_mode
    except ValueError as error:  # of a null character
        raise FileFormatError(
            f"A path must be a name that files may have. Got {os.fspath(path)!r}. Check the path."
        ) from error
    if not stat.S_ISREG(mode):
        raise FileFormatError(
            f"{os.fspath(path)!r} must be a regular file.",
            got=FILE_TYPES.get(stat.S_IFMT(mode), "something else"),
            remedy=(
                "Name a file in it."
                if stat.S_ISDIR(mode)
                else "Write its contents to a file, and name that."
            ),
        )
    return Path(path)


def read_limited(path: str | os.PathLike[str], limit: int, what: str) -> bytes:
    """Return the bytes of a regular file of at most ``limit`` bytes, which holds ``what``."""
    with regular_file(path).open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size > limit:
            raise FileFormatError(
                f"{os.fspath(path)!r} must hold {what}, in at most {limit:,} bytes.",
                got=f"{size:,} bytes",
                remedy="Check the path.",
            )
        return file.read(limit)


def refuse_cells(path: str | os.PathLike[str], text: str, what: str) -> None:
    """Refuse a text file of more lines and cells than ``what`` may have."""
    n_cells = 1 + sum(map(text.count, "\n\r,;\t"))
    if n_cells > _MAX_CELLS:
        raise FileFormatError(
            f"{os.fspath(path)!r} must hold {what}, in at most {_MAX_CELLS:,} values.",
            got=f"{n_cells:,}",
            remedy="Check the path.",
        )


def parse_json(text: str | bytes, *, pairs: bool = False, finite: bool = True) -> Any:
    """Return what a JSON text says; raise ValueError with the reason where it is not plain JSON.

    A repeated key, NaN, Infinity, a number beyond float64, deep nesting and more than 5 million
    values are such reasons. Python's own reader takes the last of repeated keys, and infinity for
    the number 1e999.

    Parameters
    ----------
    text : str or bytes
        Bytes are UTF-8; others raise UnicodeDecodeError, which is a ValueError.
    pairs : bool, default False
        Whether objects are returned as tuples of pairs. Then repeated keys and numbers that are not
        finite are left to the caller, who can name the place.
    finite : bool, default True
        Whether NaN, Infinity and numbers beyond float64 are refused.

    Examples
    --------
    >>> parse_json('{"strength": 1, "strength": 2}')
    Traceback (most recent call last):
        ...
    ValueError: the key 'strength' is there twice
    >>> parse_json("[1e999]")
    Traceback (most recent call last):
        ...
    ValueError: 1e999 is beyond the range of a float
    """
    if isinstance(text, bytes):
        text = text.decode("utf-8")
    n_values = 1 + sum(map(text.count, ",[{")) + _KEY_VALUES * text.count(":")
    if n_values > _MAX_VALUES:
        raise ValueError(f"{n_values:,} values, and {_MAX_VALUES:,} are allowed")
    if sys.getsizeof(text) > MAX_DOCUMENT_BYTES + _MAX_VALUES:  # one wide letter widens all
        raise ValueError(f"in memory the text takes {sys.getsizeof(text):,} bytes")
    try:
        if pairs:
            return json.loads(text, object_pairs_hook=tuple)
        numbers: Any = {"parse_constant": _refuse_constant, "parse_float": _finite}
        value = json.loads(text, object_pairs_hook=_object, **(numbers if finite else {}))
        if "\\u" in text:  # half a pair of surrogates is no Unicode
            json.dumps(value, ensure_ascii=False).encode("utf-8")
        return value
    except RecursionError:
        raise ValueError("lists and objects are nested too deeply") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) < len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise ValueError(f"the key {key!r} is there twice")
            seen.add(key)
    return document


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number of JSON")


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"{text[:40]} is beyond the range of a float")
    return number
