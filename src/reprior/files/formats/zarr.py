"""Arrays in zarr stores, version 2 or 3: a group with named arrays, or one array."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from reprior.exceptions import RepriorError, require
from reprior.files.formats.arrays import ArrayReader, Stored, open_arrays, refuse_objects
from reprior.files.formats.interface import CLASS_NAMES_KEY, KIND_KEY, ReadOptions, Vector, damaged

__all__ = ["StoredZarr", "open_zarr", "read_store"]

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
        held: Vector | None = None
        for run in self._runs(rows, first):
            held = run if held is None or not len(held) else np.concatenate([held, run])
            whole = len(held) // rows * rows
            for start in range(0, whole, rows):
                yield held[start : start + rows].copy()
            held = held[whole:]
        if held is not None and len(held):
            yield held.copy()

    def check(self) -> None:
        """Checksums of a store, where it has any, are of its chunks, compared as they come."""

    def _runs(self, rows: int, first: int) -> Iterator[Vector]:
        n, stored = self.shape[0], int(self.array.chunks[0])
        run = max(stored, rows // max(stored, 1) * stored, 1)
        for start in range(first // run * run, n, run):
            with _refusing_damage(self.path):
                values = np.asarray(self.array[max(start, first) : min(start + run, n)])
            plain = values.dtype if values.dtype.kind == "T" else values.dtype.newbyteorder("=")
            yield values.astype(plain, order="C", copy=False)


def read_store(path: Path) -> tuple[dict[str, Stored], dict[str, Any]]:
    """Open every array of a store; read the attributes that describe them."""
    zarr = require("zarr", extra="zarr", purpose="To read zarr stores")
    with _refusing_damage(path):
        node = zarr.open(os.fspath(path), mode="r")
        small = {_SMALL[k]: v for k, v in dict(node.attrs).items() if k in _SMALL}
        if isinstance(node, zarr.Array):
            return {"scores": StoredZarr(path, node)}, small
        arrays: dict[str, Stored] = {}
        for name, array in sorted(node.arrays()):
            if name in ("class_names", "kind"):
                refuse_objects(path, f"The array {name!r}", np.dtype(array.dtype))
                small[name] = np.asarray(array[...])
            else:
                arrays[name] = StoredZarr(path, array)
        return arrays, small


def open_zarr(path: Path, options: ReadOptions) -> ArrayReader:
    """Open the arrays ``scores``, ``labels`` and ``weight`` of a zarr store."""
    arrays, small = read_store(path)
    return open_arrays(path, "zarr", arrays, small, options)
