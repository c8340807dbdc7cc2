"""Versioned archives: named arrays with a small JSON header in one npz file."""

from __future__ import annotations

import io
import json
import os
import zipfile
from collections.abc import Mapping
from typing import IO, Any

import numpy as np

from reprior.exceptions import FileFormatError, RepriorError, Words
from reprior.files.atomic import atomic_write
from reprior.files.formats.interface import DamagedError
from reprior.files.limits import parse_json
from reprior.files.zip_members import read_arrays

__all__ = [
    "SAVE",
    "check_header",
    "pack_archive",
    "read_archive",
    "unpack_archive",
    "write_archive",
]

_HEADER = "header"

#: An array that reprior 0.1 wrote with NumPy before 2.1, by an argument this NumPy did not know.
_NUMPY_ARTIFACT = "allow_pickle"

SAVE = Words(python="save()", command_line="reprior fit")
"""What writes a file of reprior's again."""


def write_archive(
    path: str | os.PathLike[str], header: Mapping[str, Any], arrays: Mapping[str, Any]
) -> None:
    """Write arrays and header to ``path``, atomically."""
    with atomic_write(path) as file:
        _write(file, header, arrays)


def pack_archive(header: Mapping[str, Any], arrays: Mapping[str, Any]) -> bytes:
    """Return what :func:`write_archive` would write, for where there is no file system."""
    file = io.BytesIO()
    _write(file, header, arrays)
    return file.getvalue()


def read_archive(
    path: str | os.PathLike[str], *, format_name: str, version: int
) -> tuple[dict[str, Any], dict[str, np.ndarray[Any, Any]]]:
    """Read header and arrays back; refuse what is truncated, too new, or something else."""
    return _read(None, path, format_name=format_name, version=version)


def unpack_archive(
    content: bytes, *, name: str, format_name: str, version: int
) -> tuple[dict[str, Any], dict[str, np.ndarray[Any, Any]]]:
    """Read back what :func:`pack_archive` gave; ``name`` stands for the file in errors."""
    return _read(io.BytesIO(content), name, format_name=format_name, version=version)


def _write(file: IO[bytes], header: Mapping[str, Any], arrays: Mapping[str, Any]) -> None:
    text = np.frombuffer(json.dumps(header, allow_nan=False).encode(), np.uint8)
    # Not by np.savez_compressed: before NumPy 2.1 it takes allow_pickle for an array.
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, values in {_HEADER: text, **arrays}.items():
            # Members that are opened have a fixed time stamp; writestr would note the present one.
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asanyarray(values), allow_pickle=False)


def _read(
    stream: IO[bytes] | None, path: str | os.PathLike[str], *, format_name: str, version: int
) -> tuple[dict[str, Any], dict[str, np.ndarray[Any, Any]]]:
    try:
        arrays = read_arrays(path, stream)
        header = parse_json(arrays.pop(_HEADER).tobytes())
        arrays.pop(_NUMPY_ARTIFACT, None)
    except (KeyError, ValueError) as error:
        if isinstance(error, RepriorError) and not isinstance(error, DamagedError):
            raise
        raise FileFormatError(
            f"{os.fspath(path)!r} must be a {format_name} file. It is truncated, damaged or "
            f"something else.",
            remedy=["Check the path, or write it again with ", SAVE, "."],
        ) from error
    check_header(path, header, format_name=format_name, version=version)
    return header, arrays


def check_header(
    path: str | os.PathLike[str], header: Any, *, format_name: str, version: int
) -> None:
    """Refuse another format, or a version this reprior does not know."""
    if not isinstance(header, dict) or header.get("format") != format_name:
        raise FileFormatError(
            f"{os.fspath(path)!r} must be a {format_name} file.",
            got="a file without that mark",
            remedy=["Check the path, or write it again with ", SAVE, "."],
        )
    written_version = header.get("format_version")
    is_boolean = isinstance(written_version, bool)
    if not isinstance(written_version, int) or is_boolean or written_version < 1:
        raise FileFormatError(
            f"{os.fspath(path)!r} must have an integer format_version.",
            got=f"{written_version!r}",
            remedy=["Write it again with ", SAVE, "."],
        )
    if written_version > version:
        raise FileFormatError(
            f"{os.fspath(path)!r} has format_version {written_version}; this reprior reads up to "
            f"{version}.",
            remedy="Install a newer reprior to read it.",
        )
