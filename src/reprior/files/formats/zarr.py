"""Zarr stores of version 2 or 3: a group with named arrays, or one array."""

from __future__ import annotations

import math
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from reprior.exceptions import FileFormatError, RepriorError, require
from reprior.files.formats.array_files import (
    ArrayReader,
    Stored,
    block_rows,
    common_dtype,
    kept_arrays,
    kept_rows,
    note_dropped_data,
    open_arrays,
    refuse_large_text,
    refuse_objects,
)
from reprior.files.formats.chunk_sizes import unpacked_bytes
from reprior.files.formats.interface import (
    CLASS_NAMES_KEY,
    KIND_KEY,
    Layout,
    ReadOptions,
    Vector,
    damaged,
)
from reprior.files.limits import MAX_DOCUMENT_BYTES, parse_json, read_limited
from reprior.files.zip_members import inflated_limit, refuse_hollow

if TYPE_CHECKING:
    from reprior.files.chunks import Chunk

__all__ = [
    "StoredZarr",
    "ZarrWriter",
    "open_zarr",
    "read_store",
]

#: Attributes that describe the arrays, also under the keys that tables use.
_SMALL = {
    "class_names": "class_names",
    "kind": "kind",
    "scores_kind": "scores_kind",
    CLASS_NAMES_KEY: "class_names",
    KIND_KEY: "kind",
}


@contextmanager
def _refusing_damage(path: Path) -> Iterator[None]:
    """Turn whatever a damaged store raises into one sentence.

    The library, its codecs and its JSON raise errors of many types.
    """
    try:
        yield
    except (RepriorError, ImportError, PermissionError):
        raise
    except Exception as error:
        raise damaged(path, "zarr", error) from error


@dataclass(frozen=True, eq=False)
class StoredZarr:
    """An array in a zarr store."""

    path: Path
    array: Any

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the array."""
        return tuple(self.array.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of its entries."""
        dtype: np.dtype[Any] = np.dtype(self.array.dtype)
        return dtype

    def blocks(self, rows: int, first: int = 0) -> Iterator[Vector]:
        """Give consecutive slices of ``rows`` rows from ``first`` on; the last may have fewer.

        Runs of whole stored chunks are read, so that each chunk is unpacked once.
        """
        waiting: Vector | None = None
        for run in self._runs(rows, first):
            waiting = run if waiting is None or not len(waiting) else np.concatenate([waiting, run])
            whole = len(waiting) // rows * rows
            for start in range(0, whole, rows):
                yield waiting[start : start + rows].copy()
            waiting = waiting[whole:]
        if waiting is not None and len(waiting):
            yield waiting.copy()

    def whole(self) -> Vector:
        """Return all of a small array."""
        self._check_chunks()
        return np.asarray(self.array[...])

    def check(self) -> None:
        """Checksums of a store, where it has any, are of its chunks, compared as they come."""

    def _refuse_huge_chunks(self) -> None:
        """Refuse stored chunks, which are unpacked whole, that a small store cannot hold.

        And more data than a store of its size can hold: chunks may be missing.
        """
        n_bytes = math.prod(map(int, self.array.chunks)) * self.dtype.itemsize
        whole = math.prod(map(int, self.shape)) * self.dtype.itemsize
        if max(n_bytes, whole) <= inflated_limit(0):
            return
        size = sum(p.stat().st_size for p in self.path.rglob("*") if p.is_file())
        limit = inflated_limit(size)
        if n_bytes > limit:
            raise FileFormatError(
                f"{os.fspath(self.path)!r} must have chunks of at most {limit:,} bytes.",
                got=f"chunks of {n_bytes:,} bytes",
                remedy="Write the array again, in chunks of some megabytes.",
            )
        refuse_hollow(self.path, whole, size)

    def _check_blosc_headers(self) -> None:
        """Refuse Blosc chunks whose headers are damaged: the library would leave its memory."""
        array = self.array
        is_blosc = any("blosc" in type(codec).__name__.lower() for codec in array.compressors)
        if not is_blosc or getattr(array, "shards", None) is not None:
            return
        expected = math.prod(map(int, array.chunks)) * self.dtype.itemsize
        for file in self._chunk_files():
            with file.open("rb") as opened:
                header = opened.read(_BLOSC_HEADER.size).ljust(_BLOSC_HEADER.size, b"\0")
            n_bytes, block, packed = _BLOSC_HEADER.unpack(header)
            is_plain = not array.filters and self.dtype.kind in "biufUS"
            if (
                packed != file.stat().st_size
                or not 0 < block <= n_bytes
                or (is_plain and n_bytes != expected)
            ):
                raise damaged(self.path, "zarr", f"the header of the chunk {file.name!r}")

    def _chunk_files(self) -> Iterator[Path]:
        for file in (self.path / self.array.path).rglob("*"):
            if file.is_file() and not file.name.startswith(".") and file.name != "zarr.json":
                yield file

    def _refuse_bombs(self) -> None:
        """Refuse packed chunks that are larger than any: codecs unpack what a chunk says."""
        limit = max(math.prod(map(int, self.array.chunks)) * self.dtype.itemsize, inflated_limit(0))
        for codec in self.array.compressors:
            count = unpacked_bytes(type(codec).__name__)
            if count is None:
                continue
            for file in self._chunk_files():
                with _refusing_damage(self.path), file.open("rb") as opened:
                    n_bytes = count(opened, limit)
                if n_bytes > limit:
                    reason = f"more than {limit:,} bytes in the chunk {file.name!r}"
                    raise damaged(self.path, "zarr", reason)

    def _check_chunks(self) -> None:
        self._refuse_huge_chunks()
        self._check_blosc_headers()
        self._refuse_bombs()

    def _runs(self, rows: int, first: int) -> Iterator[Vector]:
        n_rows = self.shape[0]
        stored_rows = int(self.array.chunks[0])
        self._check_chunks()
        run = max(stored_rows, rows // max(stored_rows, 1) * stored_rows, 1)
        for start in range(first // run * run, n_rows, run):
            with _refusing_damage(self.path):
                values = np.asarray(self.array[max(start, first) : min(start + run, n_rows)])
            plain = values.dtype if values.dtype.kind == "T" else values.dtype.newbyteorder("=")
            yield values.astype(plain, order="C", copy=False)


#: Files of a store with metadata: JSON, which the library reads without limits, and takes the last
#: of repeated keys.
_METADATA = ("zarr.json", ".zgroup", ".zarray", ".zattrs", ".zmetadata")


def _check_files(path: Path) -> None:
    """Refuse files of a store that may not end, and metadata that say something twice.

    The library opens whatever has the name of a chunk.
    """
    waiting, seen = [path], set()
    while waiting:
        folder = waiting.pop()
        status = folder.stat()
        if (status.st_dev, status.st_ino) in seen:  # a symlink to a folder above
            continue
        seen.add((status.st_dev, status.st_ino))
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_dir():
                    waiting.append(Path(entry))
                elif not entry.is_file():
                    raise damaged(path, "zarr", f"{entry.name!r} in it is no regular file")
                elif entry.name in _METADATA:
                    parse_json(read_limited(entry, MAX_DOCUMENT_BYTES, "metadata"), finite=False)


def read_store(path: Path) -> tuple[dict[str, Stored], dict[str, Any]]:
    """Open every array of a store; read the attributes that describe them."""
    zarr = require("zarr", extra="zarr", purpose="To read zarr stores")
    with _refusing_damage(path):
        _check_files(path)
        node = zarr.open(os.fspath(path), mode="r")
        small = {_SMALL[k]: v for k, v in dict(node.attrs).items() if k in _SMALL}
        if isinstance(node, zarr.Array):
            return {"scores": StoredZarr(path, node)}, small
        opened = {name: StoredZarr(path, array) for name, array in sorted(node.arrays())}
        texts = {name: opened.pop(name) for name in ("class_names", "kind") if name in opened}
        arrays: dict[str, Stored] = {**opened}
        for name, text in texts.items():
            refuse_objects(path, f"The array {name!r}", text.dtype)
            n_bytes = math.prod(text.shape) * text.dtype.itemsize
            refuse_large_text(path, name, n_bytes, arrays)
            small[name] = text.whole()
        return arrays, small


def open_zarr(path: Path, options: ReadOptions) -> ArrayReader:
    """Open the arrays ``scores``, ``labels`` and ``weight`` of a zarr store."""
    arrays, small = read_store(path)
    return open_arrays(path, "zarr", arrays, small, options)


#: Of a Blosc chunk: bytes unpacked, bytes of a block, bytes packed; four other bytes come before.
_BLOSC_HEADER = struct.Struct("<4xIII")

#: Bytes of a stored chunk before compression, about.
_CHUNK_BYTES = 1 << 22


class ZarrWriter:
    """A group with the arrays ``posterior`` and ``prediction``; names and kind are attributes."""

    def __init__(self, paths: tuple[Path, ...], layout: Layout) -> None:
        zarr = require("zarr", extra="zarr", purpose="To write zarr stores")
        self._layout = layout
        self._group = zarr.open_group(
            os.fspath(paths[0]), mode="w", zarr_format=_version(layout.inputs[0])
        )
        self._arrays: dict[str, Any] = {}
        self._waiting: dict[str, list[Vector]] = {}
        self._written: dict[str, int] = {}
        self.notes = note_dropped_data(layout)

    def write(self, chunk: Chunk, posterior: Any, prediction: Any) -> None:
        """Append the posterior and the predicted class indices of a chunk."""
        self._append("posterior", np.asarray(posterior))
        self._append("prediction", np.asarray(prediction, dtype=np.int64))
        for name, values in kept_rows(self._layout, chunk):
            self._append(name, values)

    def _append(self, name: str, values: Vector) -> None:
        """Store whole chunks; what is left of a chunk waits for the next rows."""
        if name not in self._arrays:
            row = max(1, values.dtype.itemsize * int(np.prod(values.shape[1:], dtype=np.int64)))
            rows = max(1, _CHUNK_BYTES // row)
            if self._layout.n_samples is not None:
                rows = max(1, min(rows, self._layout.n_samples))
            self._arrays[name] = self._group.create_array(
                name,
                shape=(0, *values.shape[1:]),
                chunks=(rows, *values.shape[1:]),
                # Text of one width has no place in the specification of version 3.
                dtype=str if values.dtype.kind in "UTO" else values.dtype,
            )
            self._waiting[name] = []
            self._written[name] = 0
        self._waiting[name].append(values)
        rows = self._arrays[name].chunks[0]
        ready = sum(map(len, self._waiting[name])) // rows * rows
        if ready:
            whole = np.concatenate(self._waiting[name])
            self._store(name, whole[:ready])
            self._waiting[name] = [whole[ready:]]

    def _store(self, name: str, values: Vector) -> None:
        array = self._arrays[name]
        start = self._written[name]
        stop = start + len(values)
        array.resize((stop, *array.shape[1:]))
        if len(values):
            array[start:stop] = values
        self._written[name] = stop

    def close(self) -> None:
        """Store what waits, the arrays to keep, and the attributes."""
        if self._layout.keep:
            for name, parts in kept_arrays(self._layout):
                dtype = common_dtype(parts)
                for part in parts:
                    for values in part.blocks(block_rows(part)):
                        self._append(name, values.astype(dtype, copy=False))
        for name, waiting in self._waiting.items():
            self._store(name, np.concatenate(waiting))
        self._group.attrs["kind"] = "probs"
        if self._layout.classes is not None:
            self._group.attrs["class_names"] = list(self._layout.classes)
        if self._layout.decisions is not None:
            self._group.attrs["decision_names"] = list(self._layout.decisions)
        if self._layout.keep and self._layout.kind is not None:
            self._group.attrs["scores_kind"] = self._layout.kind

    def abandon(self) -> None:
        """Nothing is open between two writes."""


def _version(reader: Any) -> int | None:
    """Return the zarr version of the input, or None for the library's own choice."""
    if reader.format != "zarr":
        return None
    metadata = next(iter(reader.arrays.values())).array.metadata
    return int(metadata.zarr_format)
