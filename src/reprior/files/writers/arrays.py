"""Outputs that are arrays: npy with a second file for predictions, and npz."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import numpy as np

from reprior.files.chunk import Chunk
from reprior.files.formats.arrays import RENEWED, fixed_width
from reprior.files.formats.interface import few
from reprior.files.writers.spool import NpyFile, Spool, npy_header
from reprior.files.writers.writer import Layout, Vector

__all__ = [
    "NpyWriter",
    "NpzWriter",
    "block_rows",
    "common_dtype",
    "kept_arrays",
    "kept_rows",
    "not_kept",
]


def kept_rows(layout: Layout, chunk: Chunk) -> Iterator[tuple[str, Vector]]:
    """Give what is kept of a chunk: its scores and labels, unless the inputs' arrays hold them."""
    stored = getattr(layout.inputs[0], "arrays", {})
    if layout.keep and not stored:
        yield "scores", np.asarray(chunk.scores)
    if layout.keep and chunk.labels is not None and "labels" not in stored:
        yield "labels", np.asarray(chunk.labels)


def not_kept(layout: Layout) -> list[str]:
    """Return a sentence about what an output of arrays leaves out, where it leaves out any."""
    reader = layout.inputs[0]
    if not layout.keep:
        return []
    if reader.format in ("csv", "parquet"):
        known = {*(layout.classes or ()), *([layout.label_column] if layout.has_labels else [])}
        others = [name for name in reader.columns if name not in known]
        if not others:
            return []
        return [
            f"Columns that were not kept in arrays: {few(others)}. Write csv or parquet to keep "
            f"them."
        ]
    there = {name for name, _ in kept_arrays(layout)}
    names = [name for name in reader.arrays if name not in there and name not in RENEWED]
    if not names:
        return []
    return [f"Arrays that have no entry per sample in every file were not kept: {few(names)}."]


def kept_arrays(layout: Layout) -> Iterator[tuple[str, list[Any]]]:
    """Give the arrays that all inputs hold, one per sample, as parts to put one after another."""
    inputs = [getattr(reader, "arrays", {}) for reader in layout.inputs]
    for name, first in inputs[0].items():
        if name in RENEWED:
            continue
        parts = [arrays[name] for arrays in inputs if name in arrays]
        rows = [reader.n_rows for reader in layout.inputs]
        alike = len(parts) == len(inputs) and all(
            part.shape[:1] == (n,) and part.shape[1:] == first.shape[1:] and part.dtype.kind != "O"
            for part, n in zip(parts, rows, strict=True)
        )
        if alike:
            yield name, parts


def block_rows(part: Any) -> int:
    """Return how many rows of an array make a block of about 4 MB."""
    row: int = int(part.dtype.itemsize) * int(np.prod(part.shape[1:], dtype=np.int64))
    return max(1, (1 << 22) // max(1, row))


def common_dtype(parts: list[Any]) -> np.dtype[Any]:
    """Return the dtype that holds the entries of all parts."""
    dtype = np.result_type(*(part.dtype for part in parts))
    return dtype if dtype.kind == "T" else dtype.newbyteorder("=")


def _width(parts: list[Any]) -> np.dtype[Any]:
    """Return the dtype of one width that holds every string, which an npz file needs."""
    blocks = (block for part in parts for block in part.blocks(block_rows(part)))
    return np.result_type(*{fixed_width(block).dtype for block in blocks})


class NpyWriter:
    """``OUT.npy`` with the posterior, ``OUT.prediction.npy`` with the predicted indices."""

    def __init__(self, paths: tuple[Path, ...], layout: Layout) -> None:
        self._posterior, self._prediction = NpyFile(paths[0]), NpyFile(paths[1])
        self.notes: list[str] = []
        if layout.keep:
            self.notes.append(
                "An npy file holds one array: nothing else of the input was kept, neither scores "
                "nor labels. Write npz to keep them."
            )
        if layout.decisions is not None:
            self.notes.append(
                f"Predictions are indices of the decisions, not of the classes: "
                f"{few(layout.decisions, len(layout.decisions))}. An npy file has no room for "
                f"these names; write npz to have them beside."
            )

    def write(
        self,
        chunk: Chunk,  # noqa: ARG002 - as other writers have it
        posterior: Any,
        prediction: Any,
    ) -> None:
        """Append the posterior and the predicted class indices of a chunk."""
        self._posterior.append(np.asarray(posterior))
        self._prediction.append(np.asarray(prediction))

    def close(self) -> None:
        """Put the headers right."""
        self._posterior.close()
        self._prediction.close()

    def abandon(self) -> None:
        """Close both files as they are."""
        self._posterior.abandon()
        self._prediction.abandon()


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
        self.notes = not_kept(layout)

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
        data = io.BytesIO()
        np.lib.format.write_array(data, values, allow_pickle=False)
        self._archive.writestr(f"{name}.npy", data.getvalue())

    def abandon(self) -> None:
        """Let go of everything that is open."""
        opened = [self._direct, *self._spools.values(), self._archive]
        for each in opened:
            if each is not None:
                with suppress(OSError):  # of a full disk, which was told of already
                    each.close()
