"""Dask arrays as a source: one task per chunk of the samples, and a tree of tasks that merges.

Dask runs the tasks: in threads of this process, or on a cluster if one is connected. Nothing larger
than a profile leaves the worker that holds a chunk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

import array_api_compat
import numpy as np

from reprior.core.arrays import namespace
from reprior.core.checks import check_class_axis, check_kind
from reprior.core.threads import one_thread
from reprior.exceptions import (
    Argument,
    Element,
    LabelsError,
    RepriorError,
    ScoresError,
    parts,
    require,
)
from reprior.profile.samples import Line, Priors, Samples
from reprior.profile.source import Bins, Pass, ProfilePass

if TYPE_CHECKING:
    from reprior.profile.profile import StrengthProfile

__all__ = [
    "DaskArrays",
    "LazyPart",
    "delayed",
    "is_lazy_frame",
    "lazy_column",
    "lazy_columns",
    "lazy_names",
    "lazy_parts",
    "profile_of",
    "same_partitions",
    "tree",
]

Vector: TypeAlias = np.ndarray[Any, Any]


class LazyPart(NamedTuple):
    """The arrays of one chunk of samples, as Dask tasks or as NumPy arrays."""

    place: str
    """Appended to errors; empty for the first chunk, whose indices are those of all samples."""
    scores: Any
    labels: Any
    weight: Any
    direction: Any = None


def lazy_parts(
    scores: Any, labels: Any, sample_weight: Any, *, class_axis: int, direction: Any = None
) -> list[LazyPart]:
    """Cut labels, weights and directions at the chunk borders of the Dask array ``scores``."""
    direction = _sliceable(direction)
    namespace(scores, labels, sample_weight, direction)
    others = {"labels": _sliceable(labels), "sample_weight": _sliceable(sample_weight)}
    if scores.ndim == 1 and np.shape(others["labels"]) != scores.shape:  # one sample
        return [
            LazyPart("", *map(_whole, (scores, *others.values())))._replace(
                direction=_whole(direction)
            )
        ]
    axis = None if scores.ndim == 1 else check_class_axis(scores.shape, class_axis)
    if axis is not None:
        scores = scores.rechunk({axis: -1})
    directions = None if direction is None else _like_scores(direction, scores)
    chunks = tuple(lengths for i, lengths in enumerate(scores.chunks) if i != axis)
    for name, array in others.items():
        if array is not None:
            others[name] = _aligned(name, array, scores, chunks)
    blocks = scores.to_delayed()
    if axis is not None:
        blocks = blocks.take(0, axis=axis)
        directions = None if directions is None else directions.take(0, axis=axis)
    edges = [np.cumsum([0, *lengths]) for lengths in chunks]
    return [
        LazyPart(
            _place(where, edges),
            blocks[where],
            *(None if array is None else _cut(array, where, edges) for array in others.values()),
        )._replace(direction=None if directions is None else directions[where])
        for where in np.ndindex(blocks.shape)
    ]


def _sliceable(values: Any) -> Any:
    """Convert lists to arrays; return arrays, and None, unchanged."""
    return np.asarray(values) if isinstance(values, list | tuple) else values


def _whole(array: Any) -> Any:
    """Return a Dask array as one task; NumPy arrays, and None, unchanged."""
    return array.rechunk(-1).to_delayed().item() if _is_lazy(array) else array


def _is_lazy(array: Any) -> bool:
    return bool(array_api_compat.is_dask_array(array))


def _like_scores(direction: Any, scores: Any) -> Any:
    """Return a direction of the scores' shape as tasks, in the chunks of the scores."""
    known = not np.isnan(scores.shape).any()
    alike = direction.ndim == scores.ndim and direction.numblocks == scores.numblocks
    if known and direction.shape == scores.shape:
        direction = direction.rechunk(scores.chunks)
    elif known or not alike:
        raise ScoresError(
            argument="direction",
            rule=["must have the shape and the chunks of ", Argument("scores")],
            got=f"shape {direction.shape} for scores of shape {scores.shape}",
            remedy="Pass a number per sample and class; call compute_chunk_sizes() on both first.",
        )
    return direction.to_delayed()


def _aligned(name: str, array: Any, scores: Any, chunks: tuple[Any, ...]) -> Any:
    """Return labels or weights in the chunks of the scores: an array of tasks, or of NumPy."""
    lazy = _is_lazy(array)
    unknown = np.isnan(scores.shape).any()
    if unknown or np.isnan(np.shape(array)).any():
        alike = lazy and unknown and np.isnan(array.shape).any()
        if not alike or array.numblocks != tuple(map(len, chunks)):
            raise ScoresError(
                argument="scores",
                rule=(
                    f"must have chunks of known sizes, or `{name}` as many chunks of the "
                    "same unknown ones"
                ),
                got=f"shapes {scores.shape} and {np.shape(array)}",
                remedy="Call compute_chunk_sizes() on both first.",
            )
        return array.to_delayed()
    if np.shape(array) != tuple(map(sum, chunks)):
        raise LabelsError(
            argument=name,
            rule="must have one entry per sample",
            got=f"shape {np.shape(array)} for scores of shape {scores.shape}",
            remedy=["Check ", Argument("class_axis"), ", and pass class indices."],
        )
    return array.rechunk(chunks).to_delayed() if lazy else array


def _cut(array: Any, where: tuple[int, ...], edges: Sequence[Vector]) -> Any:
    """Return the part of labels or weights that belongs to one chunk of scores."""
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


Delayed: TypeAlias = Any
Result = TypeVar("Result")
Join: TypeAlias = Callable[[list[Any]], Any]

#: How many results one task joins. More would hold as many in one worker's memory; fewer make the
#: tree deeper.
FAN_IN = 8

#: Arguments whose elements are of samples.
_OF_SAMPLES = ("scores", "labels", "sample_weight", "direction")


@dataclass(frozen=True, eq=False)
class DaskArrays:
    """Labelled scores as Dask arrays: a source with one block per chunk of the samples.

    Labels and weights are Dask or NumPy arrays. Workers check their own blocks.
    """

    scores: Any
    labels: Any
    weights: Any
    n_classes: int
    kind: str = "logits"
    class_axis: int = -1
    ignore_index: int | None = None
    direction: Any = None
    """The direction of each sample, or None."""
    towards: str | None = None
    """The kind of the direction, if it is scores too: see :class:`Samples`."""

    def run(self, pass_: Pass[Result]) -> Result:
        """Run a pass over all chunks, by Dask's threads or cluster, and merge the results."""
        check_kind(self.kind)  # before any task
        chunks = lazy_parts(
            self.scores,
            self.labels,
            self.weights,
            class_axis=self.class_axis,
            direction=self.direction,
        )
        like = replace(self, scores=None, labels=None, weights=None, direction=None)
        shared = delayed((pass_, like), traverse=False)
        work = delayed(_pass_on_chunk)
        result: Result = tree([work(shared, *part) for part in chunks], pass_.merge).compute()
        return result

    def samples(self, scores: Any, labels: Any, weights: Any, direction: Any = None) -> Samples:
        """Check the computed arrays of one chunk."""
        return Samples.of(
            np.asarray(scores),
            np.asarray(labels),
            None if weights is None else np.asarray(weights),
            n_classes=self.n_classes,
            kind=self.kind,
            class_axis=self.class_axis,
            ignore_index=self.ignore_index,
            part=True,
            direction=None if direction is None else np.asarray(direction),
            towards=self.towards,
        )


def profile_of(arrays: DaskArrays, priors: Priors | Line) -> StrengthProfile:
    """Profile Dask arrays on the workers that hold their chunks.

    The result equals the profile of the same arrays in memory, whatever their chunks.
    """
    profiled = arrays.run(ProfilePass(priors, Bins.of(priors.resolution)))
    profile = profiled.required()
    profiled.detector.warn()
    return profile


def _pass_on_chunk(
    shared: tuple[Pass[Result], DaskArrays],
    place: str,
    scores: Any,
    labels: Any,
    weights: Any,
    direction: Any,
) -> Result:
    """Run a pass over one chunk."""
    pass_, arrays = shared
    accumulator = pass_.begin()
    with _placed(place), one_thread():  # the other threads have their own chunks
        accumulator.add(arrays.samples(scores, labels, weights, direction))
    return accumulator.result()


def delayed(what: Any, *, traverse: bool = True) -> Any:
    """Call Dask's ``delayed``, imported when it is needed."""
    dask = require("dask", extra="dask", purpose="To work on Dask's arrays or cluster")
    return dask.delayed(what, pure=False, traverse=traverse)


def tree(items: Sequence[Delayed], join: Join, fan_in: int = FAN_IN) -> Delayed:
    """Return a task that joins all items, through tasks that join ``fan_in`` each."""
    joined, level = delayed(join), list(items)
    while len(level) > 1:
        level = [joined(level[i : i + fan_in]) for i in range(0, len(level), fan_in)]
    return level[0]


@contextmanager
def _placed(place: str) -> Iterator[None]:
    """Add the place of the chunk to errors that name a sample."""
    try:
        yield
    except RepriorError as error:
        if not place or not _names_a_sample(error):
            raise
        placed = error.mapped(lambda part: part)
        placed.remedy = [*parts(error.remedy), " ", place]
        raise placed from error


def _names_a_sample(error: RepriorError) -> bool:
    return any(
        isinstance(part, Element) and part.index and part.name in _OF_SAMPLES
        for part in (*parts(error.text), *parts(error.got))
    )


def is_lazy_frame(values: Any) -> bool:
    """Tell whether values are a Dask dataframe."""
    return hasattr(values, "to_dask_array") and values.ndim == 2


def same_partitions(frame: Any, *columns: Any) -> tuple[Any, ...]:
    """Return a Dask dataframe, and series that belong to it, in partitions of the same samples.

    Dask reads several files of few columns into one partition: from the same files a frame of
    scores may have more partitions than a series of labels, and neither knows their lengths. So all
    columns are read as one frame here. What is no Dask series is returned unchanged.
    """
    own = {f"__reprior_{i}": each for i, each in enumerate(columns) if _is_series(each)}
    if not is_lazy_frame(frame) or not own:
        return frame, *columns
    joined = frame.assign(**own)
    fixed = joined.map_partitions(_as_it_is, meta=joined._meta)  # keeps Dask from dropping columns
    names = [f"__reprior_{i}" for i in range(len(columns))]
    others = (
        fixed[name] if name in own else each for name, each in zip(names, columns, strict=True)
    )
    return fixed[list(frame.columns)], *others


def _as_it_is(partition: Any) -> Any:
    return partition


def _is_series(values: Any) -> bool:
    return hasattr(values, "to_dask_array") and values.ndim == 1


def lazy_column(values: Any) -> Any:
    """Return a Dask series as a Dask array; anything else unchanged."""
    if not hasattr(values, "to_dask_array"):
        return values
    if getattr(values.dtype, "kind", "O") not in "biuf":
        values = values.astype(object)  # names, whatever dtype pandas keeps them in
    return values.to_dask_array()


def lazy_columns(frame: Any, classes: Vector | None) -> Any:
    """Return the scores of a dataframe; columns with the classes' names in the classes' order."""
    columns = list(frame.columns)
    if classes is not None and set(columns) == set(classes.tolist()):
        frame = frame[classes.tolist()]
    odd = [name for name, kind in frame.dtypes.items() if getattr(kind, "kind", "O") not in "fiu"]
    if odd:
        raise ScoresError(
            argument="scores",
            rule="must be numbers in every column",
            got=f"a dataframe with other types in {odd[0]!r}",
            remedy="Select the columns of scores, one per class.",
        )
    return frame.to_dask_array()


def lazy_names(labels: Any) -> list[Any]:
    """Return the unique values of a Dask array."""
    work = delayed(_different)
    found: set[Any] = tree([work(block) for block in labels.to_delayed().ravel()], _union).compute()
    return list(found)


def _different(block: Any) -> set[Any]:
    return set(np.asarray(block, dtype=object).reshape(-1).tolist())


def _union(parts: list[set[Any]]) -> set[Any]:
    return set().union(*parts)
