"""Dask arrays cut in parts: scores, labels and weights of the same samples, with all classes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import array_api_compat
import numpy as np

from reprior.core.arrays import namespace
from reprior.core.checks import check_class_axis
from reprior.exceptions import LabelsError, ScoresError

__all__ = ["LazyPart", "lazy_parts"]

Vector: TypeAlias = np.ndarray[Any, Any]


class LazyPart(NamedTuple):
    """A chunk of samples: tasks that will give its arrays, or NumPy arrays."""

    place: str
    """Said of errors in it; empty for the first chunk, in which indices are those of the whole."""
    scores: Any
    labels: Any
    weight: Any


def lazy_parts(scores: Any, labels: Any, sample_weight: Any, *, class_axis: int) -> list[LazyPart]:
    """Cut labels and weights as the samples of the Dask array ``scores`` are cut in chunks."""
    namespace(scores, labels, sample_weight)
    others = {"labels": _sliceable(labels), "sample_weight": _sliceable(sample_weight)}
    if scores.ndim == 1 and np.shape(others["labels"]) != scores.shape:  # one sample
        return [LazyPart("", *(_whole(array) for array in (scores, *others.values())))]
    axis = None if scores.ndim == 1 else check_class_axis(scores.shape, class_axis)
    if axis is not None:
        scores = scores.rechunk({axis: -1})
    chunks = tuple(lengths for i, lengths in enumerate(scores.chunks) if i != axis)
    for name, array in others.items():
        if array is not None:
            others[name] = _aligned(name, array, scores, chunks)
    blocks = scores.to_delayed()
    if axis is not None:
        blocks = blocks.take(0, axis=axis)
    edges = [np.cumsum([0, *lengths]) for lengths in chunks]
    return [
        LazyPart(
            _place(where, edges),
            blocks[where],
            *(None if array is None else _cut(array, where, edges) for array in others.values()),
        )
        for where in np.ndindex(blocks.shape)
    ]


def _sliceable(values: Any) -> Any:
    """Lists as arrays; arrays, and None, as they are."""
    return np.asarray(values) if isinstance(values, list | tuple) else values


def _whole(array: Any) -> Any:
    """A Dask array as one task; NumPy's, and None, as they are."""
    return array.rechunk(-1).to_delayed().item() if _is_lazy(array) else array


def _is_lazy(array: Any) -> bool:
    return bool(array_api_compat.is_dask_array(array))


def _aligned(name: str, array: Any, scores: Any, chunks: tuple[Any, ...]) -> Any:
    """Labels or weights cut as the scores are: an array of tasks, or a NumPy array."""
    lazy = _is_lazy(array)
    unknown = np.isnan(scores.shape).any()
    if unknown or np.isnan(np.shape(array)).any():
        alike = lazy and unknown and np.isnan(array.shape).any()
        if not alike or array.numblocks != tuple(map(len, chunks)):
            raise ScoresError(
                f"`scores` must have chunks of known sizes, or `{name}` as many chunks of the "
                f"same unknown ones. Got shapes {scores.shape} and {np.shape(array)}. Call "
                f"compute_chunk_sizes() on both first."
            )
        return array.to_delayed()
    if np.shape(array) != tuple(map(sum, chunks)):
        raise LabelsError(
            f"`{name}` must have one entry per sample. Got shape {np.shape(array)} for "
            f"scores of shape {scores.shape}. Check `class_axis`, and pass class indices."
        )
    return array.rechunk(chunks).to_delayed() if lazy else array


def _cut(array: Any, where: tuple[int, ...], edges: Sequence[Vector]) -> Any:
    """The part of labels or weights that goes with one chunk of scores."""
    if array.dtype == object:  # tasks, one per chunk
        return array[where]
    along = zip(edges, where, strict=True)
    return array[tuple(slice(int(edge[i]), int(edge[i + 1])) for edge, i in along)]


def _place(where: tuple[int, ...], edges: Sequence[Vector]) -> str:
    if not any(where):
        return ""
    start = tuple(edge[i].item() for edge, i in zip(edges, where, strict=True))
    if np.isnan(start).any():
        return f"Indices count from the beginning of chunk {where[0]}."
    here = start if any(start[1:]) else start[0]
    return f"Indices count from sample {here}, where its chunk begins."
