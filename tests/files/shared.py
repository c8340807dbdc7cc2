"""One data set, written in every format."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import zarr

NAMES = ("cat", "dog, brown", "owl", "élan")
N = 203
FORMATS = ("npy", "npz", "csv", "parquet", "zarr")


def data(n=N, seed=0):
    """Scores, label indices and posteriors that files must give back to the bit."""
    rng = np.random.default_rng(seed)
    scores = rng.normal(scale=5, size=(n, len(NAMES)))
    posterior = np.exp(scores)
    posterior /= posterior.sum(axis=1, keepdims=True)
    return scores, rng.integers(0, len(NAMES), n), posterior


def table(scores, labels, *, named=True):
    columns = {name: scores[:, k] for k, name in enumerate(NAMES)}
    ids = [f'row "{i}", of many' if i % 3 else f"row {i}" for i in range(len(scores))]
    written = [NAMES[k] for k in labels] if named else labels
    return pa.table({"id": ids, **columns, "label": written})


def zarr_store(path, scores, labels, *, version=3, rows=17, **attributes):
    group = zarr.open_group(str(path), mode="w", zarr_format=version)
    for name, values in (("scores", scores), ("labels", labels)):
        if values is not None:
            chunks = (
                (rows, *values.shape[1:]) if name == "scores" else (2 * rows, *values.shape[1:])
            )
            array = group.create_array(name, shape=values.shape, chunks=chunks, dtype=values.dtype)
            array[...] = values
    group.attrs.update(attributes)
    return path


def write(folder, form, *, n=N, seed=0, stem="scores"):
    """Write the data set in a format; return its path and how to open it."""
    scores, labels, _ = data(n, seed)
    path = folder / f"{stem}.{form}"
    if form == "npy":
        np.save(path, scores)
        np.save(folder / f"{stem}-labels.npy", labels)
        return path, {"labels": folder / f"{stem}-labels.npy", "classes": NAMES}
    if form == "npz":
        np.savez_compressed(path, scores=scores, labels=labels, class_names=NAMES, kind="logits")
    elif form == "zarr":
        zarr_store(path, scores, labels, kind="logits", class_names=list(NAMES))
    elif form == "parquet":
        pq.write_table(table(scores, labels), path, row_group_size=64)
    else:
        pyarrow.csv.write_csv(table(scores, labels), path)
    return path, {}


def whole(chunks, what="scores"):
    return np.concatenate([getattr(chunk, what) for chunk in chunks])
