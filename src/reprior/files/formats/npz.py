"""Named arrays in npz files: members are streamed out of the archive, compressed or not."""

from __future__ import annotations

import math
import os
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from shutil import copyfileobj
from typing import IO, Any, cast

import numpy as np

from reprior.exceptions import RepriorError
from reprior.files.formats.arrays import ArrayReader, Stored, open_arrays, refuse_objects
from reprior.files.formats.interface import ReadOptions, Vector, damaged
from reprior.files.formats.npy import read_header

__all__ = ["StoredMember", "open_npz", "read_members"]

#: What reading a damaged archive was seen to raise.
_DAMAGE = (
    zipfile.BadZipFile, zlib.error, EOFError, KeyError, NotImplementedError, RuntimeError,
    ValueError,
)  # fmt: skip

#: Members that describe the others. They are read whole.
_SMALL = ("class_names", "decision_names", "kind", "scores_kind")


@contextmanager
def _refusing_damage(path: Path) -> Iterator[None]:
    try:
        yield
    except RepriorError:
        raise
    except _DAMAGE as error:
        raise damaged(path, "npz", error) from error


@dataclass(frozen=True, eq=False)
class StoredMember:
    """An array in an npz file."""

    path: Path
    member: str
    shape: tuple[int, ...]
    fortran: bool
    dtype: np.dtype[Any]
    _whole: set[tuple[int, int]] = field(default_factory=set, repr=False)

    def check(self) -> None:
        """Refuse the array if its checksum tells that it is damaged.

        That takes reading all of it, once for as long as the file has its size and time of change.
        """
        there = os.stat(self.path)
        state = (there.st_size, there.st_mtime_ns)
        if state in self._whole:
            return
        with (
            _refusing_damage(self.path),
            zipfile.ZipFile(self.path) as archive,
            archive.open(self.member) as file,
        ):
            while file.read(1 << 20):
                pass
        self._whole.add(state)

    def blocks(self, rows: int, first: int = 0) -> Iterator[Vector]:
        """Give consecutive slices of at most ``rows`` rows, from row ``first`` on."""
        with (
            _refusing_damage(self.path),
            zipfile.ZipFile(self.path) as archive,
            archive.open(self.member) as file,
        ):
            read_header(file, self.path)
            give = self._turned if self.fortran else self._streamed
            yield from give(file, rows, first)

    def _streamed(self, file: IO[bytes], rows: int, first: int) -> Iterator[Vector]:
        n = self.shape[0]
        if first:  # an archive is not entered in the middle: what comes before is unpacked too
            row = self.dtype.itemsize * int(np.prod(self.shape[1:], dtype=np.int64))
            file.seek(first * row, os.SEEK_CUR)
        for start in range(first, n, rows):
            values = np.empty((min(rows, n - start), *self.shape[1:]), self.dtype)
            _fill(file, values)
            yield values.astype(self.dtype.newbyteorder("="), copy=False)
        file.read(1)  # the end of the member, where its checksum is compared

    def _turned(self, file: IO[bytes], rows: int, first: int) -> Iterator[Vector]:
        """Unpack an array whose rows are scattered to a temporary file, and map that."""
        with tempfile.TemporaryFile() as spool:
            copyfileobj(file, spool)
            if spool.tell() < self.dtype.itemsize * int(np.prod(self.shape, dtype=object)):
                raise EOFError(f"{self.member!r} breaks off")
            spool.flush()
            whole = np.memmap(spool, self.dtype, "r", 0, self.shape, order="F")
            for start in range(first, self.shape[0], rows):
                yield np.array(whole[start : start + rows], self.dtype.newbyteorder("="), order="C")


def _fill(file: IO[bytes], values: Vector) -> None:
    """Read exactly as many bytes as the array has."""
    if values.nbytes == 0:
        return
    view = memoryview(cast(Any, values.reshape(-1).view(np.uint8)))
    done = 0
    while done < len(view):
        data = file.read(min(len(view) - done, 1 << 20))
        if not data:
            raise EOFError("an array breaks off")
        view[done : done + len(data)] = data
        done += len(data)


def read_members(path: Path) -> tuple[dict[str, Stored], dict[str, Any]]:
    """Open every array of an npz file; read the small ones that describe the others."""
    arrays: dict[str, Stored] = {}
    small: dict[str, Any] = {}
    with _refusing_damage(path), zipfile.ZipFile(path) as archive:
        for member in archive.namelist():
            name = member.removesuffix(".npy")
            if name == member:
                continue
            with archive.open(member) as file:
                shape, fortran, dtype = read_header(file, path)
                if name in _SMALL:
                    refuse_objects(path, f"The array {name!r}", dtype)
                    if math.prod(shape) * dtype.itemsize > archive.getinfo(member).file_size:
                        raise EOFError(f"{name!r} breaks off")
                    small[name] = _whole(file, shape, dtype)
                else:
                    turned = fortran and len(shape) > 1 and 0 not in shape
                    arrays[name] = StoredMember(path, member, shape, turned, dtype)
    return arrays, small


def _whole(file: IO[bytes], shape: tuple[int, ...], dtype: np.dtype[Any]) -> Vector:
    values = np.empty(shape, dtype)
    _fill(file, values.reshape(-1) if values.ndim else values.reshape(1))
    return values


def open_npz(path: Path, options: ReadOptions) -> ArrayReader:
    """Open the arrays ``scores``, ``labels`` and ``weight`` of an npz file."""
    arrays, small = read_members(Path(os.fspath(path)))
    return open_arrays(path, "npz", arrays, small, options)
