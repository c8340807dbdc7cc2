"""Detect the format of a score file by its first bytes and its extension."""

from __future__ import annotations

import os
from pathlib import Path

from reprior.exceptions import FileFormatError
from reprior.files.limits import regular_file

__all__ = ["FORMATS", "TABLES", "detect_format", "format_of_name", "is_store"]

FORMATS = ("npy", "npz", "csv", "parquet", "zarr")
"""The formats of score files."""

TABLES = ("csv", "parquet")
"""Those of tables: columns have names, in any order."""

_EXTENSIONS = {
    ".npy": "npy",
    ".npz": "npz",
    ".csv": "csv",
    ".tsv": "csv",
    ".tab": "csv",
    ".txt": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".parq": "parquet",
    ".zarr": "zarr",
}

_MAGIC = (
    (b"\x93NUMPY", "npy"),
    (b"PK\x03\x04", "npz"),
    (b"PK\x05\x06", "npz"),  # an archive without members
    (b"PAR1", "parquet"),
)

#: First bytes of files that people take for score files, and what to do with them.
_FOREIGN = (
    (b"\x1f\x8b", "gzip data", "Unpack it first."),
    (b"\x89HDF", "an HDF5 file", "Save its arrays with numpy.savez."),
    (b"\xff\xfe", "UTF-16 text", "Save it as UTF-8."),
    (b"\xfe\xff", "UTF-16 text", "Save it as UTF-8."),
    (b"ARROW1", "an Arrow IPC file", "Save it as parquet."),
    (b"\x80\x02", "a pickle", "Save arrays with numpy.save or numpy.savez."),
    (b"\x80\x03", "a pickle", "Save arrays with numpy.save or numpy.savez."),
    (b"\x80\x04", "a pickle", "Save arrays with numpy.save or numpy.savez."),
    (b"\x80\x05", "a pickle", "Save arrays with numpy.save or numpy.savez."),
)

_ZARR_MARKS = ("zarr.json", ".zgroup", ".zarray", ".zattrs")
_PEEK = 4096


def format_of_name(path: str | os.PathLike[str]) -> str | None:
    """Return the format that an extension stands for, or None.

    Examples
    --------
    >>> format_of_name("scores.PARQUET"), format_of_name("scores.tsv"), format_of_name("scores")
    ('parquet', 'csv', None)
    """
    return _EXTENSIONS.get(Path(path).suffix.lower())


def detect_format(path: str | os.PathLike[str]) -> str:
    """Return the format of a file, from its contents and its extension.

    An unknown extension is allowed; one that contradicts the contents is refused.

    Examples
    --------
    >>> import numpy as np
    >>> path = getfixture("tmp_path") / "scores.npy"
    >>> np.save(path, np.zeros((3, 2)))
    >>> detect_format(path)
    'npy'
    """
    path = Path(path)
    named = format_of_name(path)
    if path.is_dir():
        return _folder(path)
    with open(regular_file(path), "rb") as file:
        head = file.read(_PEEK)
    detected = next((name for magic, name in _MAGIC if head.startswith(magic)), None)
    if detected is None:
        _refuse_foreign(path, head)
        detected = "csv" if named in (None, "csv") and _is_text(head) else None
    if detected is None or named not in (None, detected):
        raise _disagreement(path, named, detected, head)
    return detected


def is_store(path: Path) -> bool:
    """Whether a folder is a zarr store."""
    return any((path / mark).exists() for mark in _ZARR_MARKS)


def _folder(path: Path) -> str:
    if is_store(path):
        return "zarr"
    raise FileFormatError(
        _no_score_file(path),
        got="a folder that is no zarr store",
        remedy=f"Name the files in it, or a pattern such as {os.fspath(path / '*.npz')!r}.",
    )


def _no_score_file(path: Path) -> str:
    return f"{os.fspath(path)!r} must be a score file ({', '.join(FORMATS)})."


def _refuse_foreign(path: Path, head: bytes) -> None:
    if not head:
        raise FileFormatError(
            _no_score_file(path),
            got="an empty file",
            remedy="Check that it was written to its end.",
        )
    for magic, contents, remedy in _FOREIGN:
        if head.startswith(magic):
            raise FileFormatError(_no_score_file(path), got=contents, remedy=remedy)


def _is_text(head: bytes) -> bool:
    """Whether bytes are UTF-8 text, as far as they go."""
    if b"\0" in head:
        return False
    try:
        head.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        return len(head) == _PEEK and error.start >= _PEEK - 3
    return True


def _disagreement(
    path: Path, named: str | None, detected: str | None, head: bytes
) -> FileFormatError:
    if named == "csv" and detected is None and b"\0" not in head:
        return FileFormatError(
            f"{os.fspath(path)!r} must be UTF-8 text.",
            got="text in another encoding",
            remedy="Save it as UTF-8.",
        )
    contents = (
        f"{detected} data" if detected else "text" if _is_text(head) else "unknown binary data"
    )
    beginning = "" if detected else f" that begins with {head[:8]!r}"
    if named is not None:
        extension = f"the extension {path.suffix!r}"
    else:
        extension = f"an unknown extension {path.suffix!r}" if path.suffix else "no extension"
    remedy = (
        f"Rename it to '{path.stem}.{detected}'."
        if detected
        else "Check that it was written to its end, and its name."
    )
    return FileFormatError(
        f"{os.fspath(path)!r} must have contents and an extension of one format "
        f"({', '.join(FORMATS)}).",
        got=f"{extension} and {contents}{beginning}",
        remedy=remedy,
    )
