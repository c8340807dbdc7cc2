"""Dask: a task per piece of the samples makes a small result, and a tree of tasks joins these.

Dask runs the tasks: in threads of this process, or on a cluster where one is connected. Nothing
larger than a profile leaves the place where a piece is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias, TypeVar

import array_api_compat
import numpy as np

from reprior.core.arrays import namespace
from reprior.core.binary import is_single_score
from reprior.core.checks import check_class_axis, check_kind
from reprior.core.logspace import (
    FEW_SCORES,
    are_distributions,
    warn_if_probs,
    warn_if_single_probs,
)
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
from reprior.profile.merging import PackedProfile, ProfileSum
from reprior.profile.samples import Priors, Samples, anything_counts
from reprior.profile.source import EXACT, Bins, Pass, ProfilePass, join_profiles

if TYPE_CHECKING:
    from reprior.profile.data import TuningData
    from reprior.profile.profile import StrengthProfile

__all__ = [
    "EXACT",
    "FAN_IN",
    "ArrayPieces",
    "Bins",
    "Counted",
    "DaskArrays",
    "Found",
    "LazyPart",
    "Pieces",
    "ProfileTally",
    "Tally",
    "delayed",
    "is_lazy_frame",
    "join_counted",
    "join_profiles",
    "lazy_column",
    "lazy_columns",
    "lazy_names",
    "lazy_parts",
    "profile_of",
    "profiled",
    "same_partitions",
    "tree",
    "warner_of_probs",
]

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


Delayed: TypeAlias = Any
Result = TypeVar("Result")
Join: TypeAlias = Callable[[list[Any]], Any]

#: How many results one task joins. More would hold as many in one worker's memory; fewer make the
#: tree deeper.
FAN_IN = 8

#: Arguments whose elements are of samples.
_OF_SAMPLES = ("scores", "labels", "sample_weight")


class Tally(Protocol):
    """Goes through the samples of one piece, part by part, and makes a small result of them."""

    def add(self, data: TuningData) -> None:
        """Take the next samples in."""

    def result(self) -> Any:
        """What came of them."""


class Pieces(Protocol):
    """Labelled samples in pieces, each of which a task can go through."""

    def run(self, begin: Callable[[], Tally], join: Join) -> Any:
        """What ``join`` makes of the results of all pieces, each gone through by a new tally."""


class Found(NamedTuple):
    """What is known of some samples."""

    profile: StrengthProfile | None
    n_samples: int
    like_probs: bool
    """Whether what was declared as logits has the shape of probabilities, in all of them."""
    single: bool = False
    """Whether there is one score per sample."""


class Counted(NamedTuple):
    """The same, as tasks hand it on: with a profile that is small, and quick to be added."""

    packed: PackedProfile | None
    n_samples: int
    like_probs: bool
    single: bool = False

    def found(self) -> Found:
        """What is known, to be read."""
        return Found(None if self.packed is None else self.packed.unpacked(), *self[1:])


@dataclass(frozen=True, eq=False)
class DaskArrays:
    """Labelled scores as Dask arrays, a block per chunk of the samples: a source.

    Labels and weights are Dask's too, or NumPy's. Blocks are checked where they are.
    """

    scores: Any
    labels: Any
    weights: Any
    n_classes: int
    kind: str = "logits"
    class_axis: int = -1
    ignore_index: int | None = None

    def run(self, pass_: Pass[Result]) -> Result:
        """Run a pass over all chunks, by Dask's threads or cluster, and merge what comes back."""
        check_kind(self.kind)  # before any task
        chunks = lazy_parts(self.scores, self.labels, self.weights, class_axis=self.class_axis)
        like = replace(self, scores=None, labels=None, weights=None)
        shared = delayed((pass_, like), traverse=False)
        work = delayed(_pass_on_chunk)
        result: Result = tree([work(shared, *part) for part in chunks], pass_.merge).compute()
        return result

    def samples(self, scores: Any, labels: Any, weights: Any) -> Samples:
        """The samples of one chunk, whose arrays are computed."""
        return Samples.of(
            np.asarray(scores),
            np.asarray(labels),
            None if weights is None else np.asarray(weights),
            n_classes=self.n_classes,
            kind=self.kind,
            class_axis=self.class_axis,
            ignore_index=self.ignore_index,
            part=True,
        )


def profile_of(arrays: DaskArrays, priors: Priors) -> StrengthProfile:
    """The profile of Dask arrays, made where their chunks are.

    Equal to the profile of the same arrays in memory, however they are cut.
    """
    profiled = arrays.run(ProfilePass(priors, Bins.of(priors.resolution)))
    profile = profiled.required()
    profiled.detector.warn()
    return profile


def _pass_on_chunk(
    shared: tuple[Pass[Result], DaskArrays], place: str, scores: Any, labels: Any, weights: Any
) -> Result:
    """Run a pass over one chunk."""
    pass_, arrays = shared
    accumulator = pass_.begin()
    with _placed(place), one_thread():  # the others have chunks of their own
        accumulator.add(arrays.samples(scores, labels, weights))
    return accumulator.result()


def profiled(pieces: Pieces, bounds: tuple[float, float], bins: Bins) -> Found:
    """What is known of all pieces, profiled within ``bounds``."""
    begin, join = partial(ProfileTally, bounds, bins), partial(join_counted, bins=bins)
    counted: Counted = pieces.run(begin, join)
    return counted.found()


def warner_of_probs(found: Found) -> Callable[[], None]:
    """A function that warns, of scores that look like it, as is done of scores in memory."""
    xp = namespace(np.empty(0))
    if not found.like_probs or found.profile is None:
        return lambda: None
    if found.single:
        return partial(warn_if_single_probs, np.full(min(found.n_samples, FEW_SCORES), 0.5), xp=xp)
    n_classes = found.profile.n_classes
    return partial(warn_if_probs, np.full((1, n_classes), 1.0 / n_classes), axis=-1, xp=xp)


@dataclass(frozen=True, eq=False)
class ArrayPieces:
    """Dask arrays, a piece per chunk of the samples."""

    data: TuningData

    def run(self, begin: Callable[[], Tally], join: Join) -> Any:
        """What ``join`` makes of the results of all chunks, each gone through by a new tally."""
        data = self.data
        chunks = lazy_parts(data.scores, data.labels, data.weight, class_axis=data.class_axis)
        like = replace(data, scores=None, labels=None, weight=None)
        shared = delayed((begin, like), traverse=False)
        work = delayed(_on_chunk)
        return tree([work(shared, *part) for part in chunks], join).compute()


class ProfileTally:
    """Profiles samples, within ``bounds``."""

    def __init__(self, bounds: tuple[float, float], bins: Bins = EXACT) -> None:
        self.bounds, self.n_samples, self.like_probs, self.single = bounds, 0, True, False
        self.total = ProfileSum(exact_up_to=bins.exact_up_to, resolution=bins.resolution)

    def add(self, data: TuningData) -> None:
        """Take the next samples in. After an error a tally is of no use: some may be in it."""
        from reprior.profile.profile import StrengthProfile

        self.n_samples += np.size(data.labels)
        if not anything_counts(data.labels, data.weight, data.ignore_index):
            return
        samples, priors = data.read(self.bounds)
        if self.total.coarse:
            for part in StrengthProfile.parts(samples, priors):
                self.total.bin(part)
        else:
            self.total.add(StrengthProfile.of(samples, priors))
        self.single = is_single_score(
            np.shape(data.scores), data.source_prior.size, data.class_axis
        )
        self.like_probs = self.like_probs and _like_probs(data, self.single)

    def result(self) -> Counted:
        """The profile, if any sample counts."""
        packed = self.total.packed() if self.total else None
        return Counted(packed, self.n_samples, self.like_probs, self.single)


def join_counted(counted: Sequence[Counted], bins: Bins = EXACT) -> Counted:
    """What is known of all of them."""
    return Counted(
        join_profiles([each.packed for each in counted], bins),
        sum(each.n_samples for each in counted),
        all(each.like_probs for each in counted),
        any(each.single for each in counted),
    )


def delayed(what: Any, *, traverse: bool = True) -> Any:
    """Dask's ``delayed``."""
    dask = require("dask", extra="dask", purpose="To work on Dask's arrays or cluster")
    return dask.delayed(what, pure=False, traverse=traverse)


def tree(items: Sequence[Delayed], join: Join, fan_in: int = FAN_IN) -> Delayed:
    """A task that gives what ``join`` makes of all items, through tasks of ``fan_in`` each."""
    joined, level = delayed(join), list(items)
    while len(level) > 1:
        level = [joined(level[i : i + fan_in]) for i in range(0, len(level), fan_in)]
    return level[0]


def _on_chunk(
    shared: tuple[Callable[[], Tally], TuningData],
    place: str,
    scores: Any,
    labels: Any,
    weight: Any,
) -> Any:
    """Go through one chunk."""
    begin, like = shared
    arrays = [None if each is None else np.asarray(each) for each in (scores, labels, weight)]
    tally = begin()
    with _placed(place), one_thread():  # the others have chunks of their own
        tally.add(replace(like, scores=arrays[0], labels=arrays[1], weight=arrays[2]))
    return tally.result()


@contextmanager
def _placed(place: str) -> Iterator[None]:
    """Let an error that names a sample say from where on it counts."""
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


def _like_probs(data: TuningData, single: bool) -> bool:
    """Whether logits have the shape of probabilities: a question to all pieces together."""
    if data.kind != "logits":
        return False
    z = np.asarray(data.scores)
    if single:
        return bool(0.0 <= z.flat[0] <= 1.0 and z.min() >= 0.0 and z.max() <= 1.0)
    axis, xp = data.class_axis % z.ndim, namespace(z)
    # Most logits are told by one sample; all of them would be another read of the memory.
    first = z[tuple(slice(None) if i == axis else 0 for i in range(z.ndim))]
    return are_distributions(first, 0, xp) and are_distributions(z, axis, xp)


def is_lazy_frame(values: Any) -> bool:
    """Whether values are a dataframe of Dask."""
    return hasattr(values, "to_dask_array") and values.ndim == 2


def same_partitions(frame: Any, *columns: Any) -> tuple[Any, ...]:
    """A dataframe of Dask, and series that belong to it, in partitions of the same samples.

    Dask reads files of few columns several to a partition: of one set of files a frame of scores
    may have more partitions than a series of labels, and neither tells how long they are. So all
    columns are read as one frame here. Anything that is no series of Dask stays as it is.
    """
    own = {f"__reprior_{i}": each for i, each in enumerate(columns) if _is_series(each)}
    if not is_lazy_frame(frame) or not own:
        return frame, *columns
    joined = frame.assign(**own)
    fixed = joined.map_partitions(_as_it_is, meta=joined._meta)  # of which Dask leaves nothing out
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
    """A series of Dask as a Dask array; anything else as it is."""
    if not hasattr(values, "to_dask_array"):
        return values
    if getattr(values.dtype, "kind", "O") not in "biuf":
        values = values.astype(object)  # names, in whatever pandas keeps them
    return values.to_dask_array()


def lazy_columns(frame: Any, classes: Vector | None) -> Any:
    """Scores of a dataframe; columns that are named after the classes in the order of these."""
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
    """The different values in a Dask array, each once."""
    work = delayed(_different)
    found: set[Any] = tree([work(block) for block in labels.to_delayed().ravel()], _union).compute()
    return list(found)


def _different(block: Any) -> set[Any]:
    return set(np.asarray(block, dtype=object).reshape(-1).tolist())


def _union(parts: list[set[Any]]) -> set[Any]:
    return set().union(*parts)
