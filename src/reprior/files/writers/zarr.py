"""Outputs that are zarr stores: a folder that is built aside and then takes its name."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from reprior.exceptions import require
from reprior.files.chunk import Chunk
from reprior.files.writers.arrays import (
    block_rows,
    common_dtype,
    kept_arrays,
    kept_rows,
    not_kept,
)
from reprior.files.writers.writer import Layout, Vector

__all__ = ["ZarrWriter"]

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
        self.notes = not_kept(layout)

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
            self._waiting[name], self._written[name] = [], 0
        self._waiting[name].append(values)
        rows = self._arrays[name].chunks[0]
        ready = sum(map(len, self._waiting[name])) // rows * rows
        if ready:
            whole = np.concatenate(self._waiting[name])
            self._store(name, whole[:ready])
            self._waiting[name] = [whole[ready:]]

    def _store(self, name: str, values: Vector) -> None:
        array, start = self._arrays[name], self._written[name]
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
