"""Shards of labelled scores, on disk or in fsspec's memory."""

from __future__ import annotations

import io
from itertools import pairwise
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from tests.support.chunked_scores import Data

NAMES = ["ant", "bee", "cow", "dog"]


def parquet_bytes(data: Data, rows: slice) -> bytes:
    """Some rows as a parquet file: a column per class, labels by name, weights if any."""
    columns: dict[str, Any] = {
        name: data.scores[rows, i] for i, name in enumerate(NAMES[: data.scores.shape[1]])
    }
    columns["label"] = [NAMES[i] for i in data.labels[rows]]
    if data.weight is not None:
        columns["weight"] = data.weight[rows]
    table = pa.table(columns)
    if not table.num_rows:
        table = table.cast(
            table.schema.set(table.schema.get_field_index("label"), pa.field("label", pa.string()))
        )
    buffer = io.BytesIO()
    table = table.replace_schema_metadata({"reprior.kind": "logits"})
    pq.write_table(table, buffer, write_page_checksum=True)
    return buffer.getvalue()


def write_shards(folder: Path, data: Data, cuts: Any = (10, 10, 25, 40)) -> list[Path]:
    """Parquet shards; equal cuts make one that is empty."""
    paths = []
    for i, (a, b) in enumerate(pairwise([0, *cuts, len(data.labels)])):
        paths.append(folder / f"part-{i:03d}.parquet")
        paths[-1].write_bytes(parquet_bytes(data, slice(a, b)))
    return paths


def in_memory(data: Data, name: str, cuts: Any = (10, 10, 25, 40)) -> str:
    """The same under a memory:// URL; returns the pattern."""
    system = fsspec.filesystem("memory")
    for i, (a, b) in enumerate(pairwise([0, *cuts, len(data.labels)])):
        system.pipe(f"/{name}/part-{i:03d}.parquet", parquet_bytes(data, slice(a, b)))
    return f"memory://{name}/*.parquet"


def named(data: Data, **options: Any) -> Any:
    """A calibrator that knows the classes by name."""
    return data.calibrator(classes=NAMES[: data.scores.shape[1]], **options)


def npz_shards(folder: Path, data: Data, n: int) -> str:
    """Equal npz shards; returns the pattern."""
    for i, rows in enumerate(np.array_split(np.arange(len(data.labels)), n)):
        np.savez(folder / f"{i:03d}.npz", scores=data.scores[rows], labels=data.labels[rows])
    return str(folder / "*.npz")
