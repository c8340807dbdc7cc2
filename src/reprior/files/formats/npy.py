"""Arrays in npy files: the header is read, and then the data slice by slice."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import IO, Any, cast

import numpy as np

from reprior.exceptions import FileFormatError
from reprior.files.formats.arrays import ArrayReader, refuse_objects
from reprior.files.formats.interface import ReadOptions, Vector, damaged

__all__ = ["StoredNpy", "open_npy", "read_header"]

#: What reading a damaged header was seen to raise.
_DAMAGE = (ValueError, TypeError, SyntaxError, EOFError, KeyError, RecursionError, MemoryError)


def read_header(file: IO[bytes], path: Path) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Read shape, order and dtype; the data follow where ``file`` then stands."""
    try:
        version = np.lib.format.read_magic(file)
        if version == (1, 0):
            return np.lib.format.read_array_header_1_0(file)
        if version == (2, 0):
            return np.lib.format.read_array_header_2_0(file)
    except _DAMAGE as error:
        raise damaged(path, "npy", error) from error
    raise FileFormatError(
        f"{os.fspath(path)!r} must be an npy file of version 1.0 or 2.0. Got version "
        f"{version[0]}.{version[1]}. Save a plain array of numbers or strings with numpy.save."
    )


@dataclass(frozen=True, eq=False)
class StoredNpy:
    """An array in an npy file.

    Each slice is read into memory of its own. A memory map would count as the program's memory for
    as long as it lives, and costs twice as much to copy. Only an array in Fortran order, whose rows
    are scattered, is mapped, once for each slice.
    """

    path: Path
    offset: int
    shape: tuple[int, ...]
    fortran: bool
    dtype: np.dtype[Any]

    @classmethod
    def open(cls, path: Path) -> StoredNpy:
        """Read the header and check that the data are all there."""
        with open(path, "rb") as file:
            shape, fortran, dtype = read_header(file, path)
            refuse_objects(path, "The array", dtype)
            offset = file.tell()
            there = os.fstat(file.fileno()).st_size - offset
        expected = dtype.itemsize * int(np.prod(shape, dtype=object))
        if there < expected:
            raise damaged(
                path, "npy", f"shape {shape} of {dtype} needs {expected} bytes, {there} are there"
            )
        return cls(path, offset, shape, fortran and len(shape) > 1, dtype)

    def blocks(self, rows: int, first: int = 0) -> Iterator[Vector]:
        """Give consecutive slices of at most ``rows`` rows, from row ``first`` on."""
        n = self.shape[0]
        with open(self.path, "rb", buffering=0) as file:
            for start in range(first, n, rows):
                yield self._slice(file, start, min(start + rows, n))

    def check(self) -> None:
        """An npy file has no checksum."""

    def _slice(self, file: FileIO, start: int, stop: int) -> Vector:
        rest = self.shape[1:]
        if 0 in self.shape or self.dtype.itemsize == 0:
            return np.zeros((stop - start, *rest), self.dtype)
        native = self.dtype.newbyteorder("=")
        if self.fortran:
            whole = np.memmap(self.path, self.dtype, "r", self.offset, self.shape, order="F")
            return np.array(whole[start:stop], dtype=native, order="C")
        values = np.empty((stop - start, *rest), self.dtype)
        file.seek(self.offset + start * (values.nbytes // (stop - start)))
        _fill(file, values, self.path)
        return values.astype(native, copy=False)


def _fill(file: FileIO, values: Vector, path: Path) -> None:
    """Read exactly as many bytes as the array has."""
    view = memoryview(cast(Any, values.reshape(-1).view(np.uint8)))
    done = 0
    while done < len(view):
        got = file.readinto(view[done:])
        if not got:
            raise damaged(path, "npy", "it has become shorter while it was read")
        done += got


def open_npy(path: Path, options: ReadOptions) -> ArrayReader:
    """Open the scores in an npy file; labels are in a file of their own."""
    stored = StoredNpy.open(path)
    if not stored.shape:
        raise FileFormatError(
            f"{os.fspath(path)!r} must hold a row of scores per sample. Got a single value. "
            f"Save an array of shape (samples, classes)."
        )
    if options.weight_column:
        raise FileFormatError(
            f"`weight_column` must name an array of the file. {os.fspath(path)!r} is an npy file, "
            f"which holds scores only. Save scores, labels and weight in one npz file."
        )
    return ArrayReader(path=path, format="npy", scores=stored, arrays={"scores": stored})
