"""Npz files: named arrays that are streamed out of an archive, compressed or not, and into one."""

from __future__ import annotations

import math
import os
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from shutil import copyfileobj
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from reprior.files.formats.array_files import (
    ArrayReader,
    Stored,
    block_rows,
    common_dtype,
    fixed_width,
    kept_arrays,
    kept_rows,
    note_dropped_data,
    open_arrays,
    refuse_invalid_text,
    refuse_large_text,
    refuse_objects,
)
from reprior.files.formats.interface import Layout, ReadOptions, Vector
from reprior.files.formats.npy import array_bytes, npy_header, read_header
from reprior.files.zip_members import (
    fill,
    open_members,
    refuse_inflated,
    refuse_other_size,
)

if TYPE_CHECKING:
    from reprior.files.chunks import Chunk

__all__ = [
    "NpzWriter",
    "Spool",
    "StoredMember",
    "open_npz",
    "read_members",
]

#: Members that describe the others. They are read whole.
_SMALL = ("class_names", "kind", "scores_kind")

#: Numbers of one sample that any file may have, in memory 8 bytes each.
_SAMPLE_NUMBERS = 1 << 24


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
        """Refuse the array if its checksum shows that it is damaged.

        This reads all of it, once as long as the size and the time of change of the file stay.
        """
        there = os.stat(self.path)
        state = (there.st_size, there.st_mtime_ns)
        if state in self._whole:
            return
        with (
            open_members(self.path) as (archive, members),
            archive.open(members[self.member]) as file,
        ):
            while file.read(1 << 20):
                pass
        self._whole.add(state)

    def blocks(self, rows: int, first: int = 0) -> Iterator[Vector]:
        """Give consecutive slices of at most ``rows`` rows, from row ``first`` on."""
        with (
            open_members(self.path) as (archive, members),
            archive.open(members[self.member]) as file,
        ):
            read_header(file, self.path)
            give = self._transposed if self.fortran else self._streamed
            yield from give(file, rows, first)

    def _streamed(self, file: IO[bytes], rows: int, first: int) -> Iterator[Vector]:
        n = self.shape[0]
        if first:  # a packed member has no middle to seek to: the rows before are unpacked too
            row = self.dtype.itemsize * int(np.prod(self.shape[1:], dtype=np.int64))
            file.seek(first * row, os.SEEK_CUR)
        for start in range(first, n, rows):
            values = np.empty((min(rows, n - start), *self.shape[1:]), self.dtype)
            fill(file, values)
            yield values.astype(self.dtype.newbyteorder("="), copy=False)
        file.read(1)  # the end of the member, where its checksum is compared

    def _transposed(self, file: IO[bytes], rows: int, first: int) -> Iterator[Vector]:
        """Unpack an array whose rows are scattered to a temporary file, and map that."""
        with tempfile.TemporaryFile() as spool:
            copyfileobj(file, spool)
            if spool.tell() < self.dtype.itemsize * int(np.prod(self.shape, dtype=object)):
                raise EOFError(f"{self.member!r} breaks off")
            spool.flush()
            whole = np.memmap(spool, self.dtype, "r", 0, self.shape, order="F")
            for start in range(first, self.shape[0], rows):
                yield np.array(whole[start : start + rows], self.dtype.newbyteorder("="), order="C")


def read_members(path: Path) -> tuple[dict[str, Stored], dict[str, Any]]:
    """Open every array of an npz file; read the small ones that describe the others."""
    arrays: dict[str, Stored] = {}
    small: dict[str, Any] = {}
    with open_members(path) as (archive, members):
        for name, info in members.items():
            if name not in _SMALL:
                arrays[name] = _stored(path, archive, name, info)
        for name in _SMALL:
            if name in members:
                small[name] = _read_small(path, archive, name, members[name], arrays)
    return arrays, small


def _stored(path: Path, archive: zipfile.ZipFile, name: str, info: zipfile.ZipInfo) -> StoredMember:
    """Read the header of an array; refuse one whose rows or copy would take too much memory."""
    with archive.open(info) as file:
        shape, fortran, dtype = read_header(file, path)
        refuse_other_size(name, shape, dtype, info.file_size - file.tell())
    packed = info.compress_size
    n_numbers = math.prod(shape[1:])
    if n_numbers > _SAMPLE_NUMBERS:
        refuse_inflated(path, 8 * n_numbers, packed, f"samples in {name!r}")
    turned = fortran and len(shape) > 1 and 0 not in shape
    if turned:
        refuse_inflated(path, info.file_size, packed, f"the array {name!r} in Fortran order")
    return StoredMember(path, name, shape, turned, dtype)


def _read_small(
    path: Path,
    archive: zipfile.ZipFile,
    name: str,
    info: zipfile.ZipInfo,
    arrays: dict[str, Stored],
) -> Vector:
    """Read an array that describes the others, of limited size."""
    with archive.open(info) as file:
        shape, _, dtype = read_header(file, path)
        refuse_objects(path, f"The array {name!r}", dtype)
        refuse_large_text(path, name, math.prod(shape) * dtype.itemsize, arrays)
        refuse_other_size(name, shape, dtype, info.file_size - file.tell())
        values = np.empty(shape, dtype)
        fill(file, values.reshape(-1) if values.ndim else values.reshape(1))
        file.read(1)  # the end of the member, where its checksum is compared
    refuse_invalid_text(path, values)
    return values


def open_npz(path: Path, options: ReadOptions) -> ArrayReader:
    """Open the arrays ``scores``, ``labels`` and ``weight`` of an npz file."""
    arrays, small = read_members(Path(os.fspath(path)))
    return open_arrays(path, "npz", arrays, small, options)


class Spool:
    """Rows in a nameless temporary file in the folder of the output, for a member of an archive."""

    def __init__(self, folder: Path) -> None:
        self._file: IO[bytes] = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - see close()
        self.shape: tuple[int, ...] = (0,)
        self.dtype: np.dtype[Any] = np.dtype(np.float64)

    def append(self, values: Vector) -> None:
        """Add rows; the first ones decide dtype and shape."""
        if self._file.tell() == 0:
            self.shape = (0, *values.shape[1:])
            self.dtype = values.dtype
        self._file.write(array_bytes(values.astype(self.dtype, copy=False)))
        self.shape = (self.shape[0] + len(values), *self.shape[1:])

    def pour(self, target: IO[bytes]) -> None:
        """Write header and rows to ``target``."""
        target.write(npy_header(self.shape, self.dtype))
        self._file.seek(0)
        copyfileobj(self._file, target, 1 << 20)

    def close(self) -> None:
        """Close the file, which frees its space."""
        self._file.close()


def _width(parts: list[Any]) -> np.dtype[Any]:
    """Return the dtype of one width that holds every string, which an npz file needs."""
    blocks = (block for part in parts for block in part.blocks(block_rows(part)))
    return np.result_type(*{fixed_width(block).dtype for block in blocks})


class NpzWriter:
    """Arrays ``posterior``, ``prediction``, ``class_names`` and ``kind`` in an npz file.

    And ``decision_names``, where predictions are indices of others than the classes.
    Where the number of samples is known, the posterior goes straight into the archive; other
    arrays wait in temporary files, since an archive takes one member at a time.
    """

    def __init__(self, paths: tuple[Path, ...], layout: Layout) -> None:
        self._layout = layout
        self._folder = paths[0].parent
        self._archive = zipfile.ZipFile(paths[0], "w", zipfile.ZIP_STORED, allowZip64=True)
        self._direct: IO[bytes] | None = None
        self._spools: dict[str, Spool] = {}
        self.notes = note_dropped_data(layout)

    def write(self, chunk: Chunk, posterior: Any, prediction: Any) -> None:
        """Append the posterior and the predicted class indices of a chunk."""
        self._append_posterior(np.asarray(posterior))
        self._append("prediction", np.asarray(prediction, dtype=np.int64))
        for name, values in kept_rows(self._layout, chunk):
            self._append(name, values)

    def _append_posterior(self, posterior: Vector) -> None:
        n = self._layout.n_samples
        if n is None:
            self._append("posterior", posterior)
            return
        if self._direct is None:
            self._direct = self._archive.open("posterior.npy", "w", force_zip64=True)
            self._dtype = posterior.dtype
            self._direct.write(npy_header((n, *posterior.shape[1:]), posterior.dtype))
        values = np.ascontiguousarray(posterior, dtype=self._dtype)
        self._direct.write(values.reshape(-1).view(np.uint8).data)

    def _append(self, name: str, values: Vector) -> None:
        if name not in self._spools:
            self._spools[name] = Spool(self._folder)
        self._spools[name].append(values)

    def close(self) -> None:
        """Move what waits into the archive and close it."""
        if self._direct is not None:
            self._direct.close()
            self._direct = None
        for name, spool in self._spools.items():
            with self._archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                spool.pour(member)
            spool.close()
        if self._layout.keep:
            for name, parts in kept_arrays(self._layout):
                self._copy(name, parts)
            if self._layout.kind is not None:
                self._small("scores_kind", np.array(self._layout.kind))
        self._small("kind", np.array("probs"))
        if self._layout.classes is not None:
            self._small("class_names", np.array(self._layout.classes, dtype=str))
        if self._layout.decisions is not None:
            self._small("decision_names", np.array(self._layout.decisions, dtype=str))
        self._archive.close()

    def _copy(self, name: str, parts: list[Any]) -> None:
        """Copy an array of the inputs, block by block."""
        dtype = common_dtype(parts)
        if dtype.kind == "T":
            dtype = _width(parts)
        shape = (sum(part.shape[0] for part in parts), *parts[0].shape[1:])
        with self._archive.open(f"{name}.npy", "w", force_zip64=True) as member:
            member.write(npy_header(shape, dtype))
            for part in parts:
                for values in part.blocks(block_rows(part)):
                    plain = fixed_width(values) if values.dtype.kind == "T" else values
                    block = np.ascontiguousarray(plain, dtype=dtype)
                    member.write(block.reshape(-1).view(np.uint8).data)

    def _small(self, name: str, values: Vector) -> None:
        # Members that are opened have a fixed time stamp; writestr would note the present one.
        with self._archive.open(f"{name}.npy", "w") as member:
            np.lib.format.write_array(member, values, allow_pickle=False)

    def abandon(self) -> None:
        """Close everything that is open; the file is discarded."""
        opened = [self._direct, *self._spools.values(), self._archive]
        for each in opened:
            if each is not None:
                with suppress(OSError):  # of a full disk, which was reported already
                    each.close()
