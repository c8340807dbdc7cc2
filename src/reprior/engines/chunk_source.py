"""Re-iterable labelled chunks, encoded for a calibrator and checked.

An error in a chunk names the sample by its index among all samples. Files must keep their size and
time of change between the passes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, TypeAlias, TypeVar

import array_api_compat
import numpy as np

from reprior.calibrator.encoding import (
    Terms,
    are_indices,
    as_mapping,
    assumed_order,
    encode_part,
    read_terms,
)
from reprior.core.arrays import to_numpy
from reprior.exceptions import (
    Argument,
    Element,
    LabelsError,
    OptionError,
    Reference,
    RepriorError,
    ScoresError,
    Setting,
)
from reprior.files.chunks import Chunk
from reprior.files.scores import ScoreFile
from reprior.profile.samples import Samples
from reprior.profile.source import Pass

__all__ = [
    "Part",
    "Progress",
    "Stream",
    "as_chunk",
    "located",
    "refuse_changed",
    "refuse_other_samples",
    "refuse_paths",
    "settle_terms",
    "sources_of",
    "state_of",
]

Progress: TypeAlias = Callable[[int], object] | None

PER_SAMPLE = ("scores", "labels", "sample_weight")
"""Arguments whose elements are named by the index of a sample."""


Result = TypeVar("Result")


class Part(NamedTuple):
    """The samples of a chunk; ``start`` is the index of its first among all samples.

    ``refuse``, if given, raises an error that names a NaN or +inf score by its place in its file.
    """

    samples: Samples
    start: int
    sample_axis: int
    refuse: Callable[[], None] | None = None

    @contextmanager
    def located(self) -> Iterator[None]:
        """Let errors in the block name samples by their index among all samples."""
        try:
            with located(self.start, self.sample_axis):
                yield
        except ScoresError:
            if self.refuse is not None:
                self.refuse()
            raise


class Stream:
    """A source of :class:`Samples` from re-iterable chunks.

    Chunks in which no sample counts are skipped; if all are skipped, that is an error unless
    ``may_be_empty``. Errors name a sample by its index among all samples, of which the stream's
    first has the index ``first``.
    """

    def __init__(
        self,
        options: Any,
        chunks: Iterable[Any],
        terms: Terms,
        progress: Progress = None,
        *,
        first: int = 0,
        may_be_empty: bool = False,
    ) -> None:
        _check_source(options, chunks)
        self.options, self.chunks, self.terms, self.progress = options, chunks, terms, progress
        self.first, self.may_be_empty = first, may_be_empty
        self.n_samples: int | None = None
        self._sources = sources_of(chunks)

    def run(self, pass_: Pass[Result]) -> Result:
        """Run a pass over all chunks, one after the other."""
        accumulator = pass_.begin()
        # Chunks of files are new arrays; others may be refilled for the next chunk.
        copies = pass_.keeps_blocks and not isinstance(self.chunks, ScoreFile)
        for part in self.parts():
            with part.located():
                accumulator.add(part.samples.copied() if copies else part.samples)
        return accumulator.result()

    def parts(
        self,
        look: Callable[[Chunk], object] | None = None,
        settle: Callable[[], object] | None = None,
        *,
        checked: bool = True,
    ) -> Iterator[Part]:
        """Give the parts of one pass.

        ``look`` is called with every chunk, including those that are skipped. ``settle`` is called
        before the next chunk is read, which may overwrite this one. Without ``checked``, the caller
        must find NaN and +inf among the scores.
        """
        done, weighted, counted = 0, None, False
        chunks = self.chunks
        if isinstance(chunks, ScoreFile) and not checked:
            chunks = chunks.chunks(check_values=False)
        for given in chunks:
            chunk = as_chunk(given, done)
            if look is not None:
                look(chunk)
            start = chunk.start or self.first + done
            sample_axis = chunk.sample_axis(self.options.class_axis)
            with located(start, sample_axis):
                samples = self._read(chunk, start)
                if samples is not None:
                    weighted = _same_weighing(weighted, samples.weights is not None)
            if samples is not None:
                counted = True
                yield Part(samples, start, sample_axis, getattr(chunk, "refuse", None))
            done += chunk.n_labels
            if self.progress is not None:
                self.progress(done)
            if settle is not None:
                settle()
        if not counted and not self.may_be_empty:
            which = ", all of them ignored or of weight 0" if done else " in all chunks"
            raise LabelsError(
                argument="labels",
                rule="must leave at least one sample to count",
                got=f"{done} samples{which}",
                remedy=["Check ", Argument("ignore_index"), " and the weights."],
            )
        self.check_same(done)

    def _read(self, chunk: Chunk, start: int) -> Samples | None:
        """Return the samples of a chunk; None where none of them counts."""
        if chunk.labels is None:
            raise LabelsError(
                argument="labels",
                rule="must be given for every sample",
                got="a chunk without labels",
                remedy="Name the labels of the scores, or leave the chunk out.",
            )
        if chunk.n_labels == 0:
            return None
        samples = encode_part(
            self.options, self.terms, chunk.scores, chunk.labels, chunk.weight, start
        )
        return samples if samples.any_counts else None

    def check_same(self, done: int) -> None:
        """Refuse files that were changed, and another number of samples than in an earlier pass.

        Called at the end of a pass over ``done`` samples.
        """
        refuse_changed(self._sources, self.chunks)
        if self.n_samples not in (None, done):
            refuse_other_samples("chunks", f"{self.n_samples} samples, and then {done}")
        self.n_samples = done


def settle_terms(options: Any, chunks: Iterable[Any]) -> Terms:
    """Settle the classes before the first pass.

    They are, in this order: ``classes``; the names of a file's columns, if those are the keys of
    the source prior; these keys, or the names among the labels, in an order that is assumed and
    warned of.
    """
    _refuse_elsewhere(chunks)
    classes, prior = options.classes, as_mapping(options.source_prior)
    names = getattr(chunks, "class_names", None)
    if classes is None and isinstance(prior, Mapping) and names and set(prior) == set(names):
        classes = list(names)
    if classes is not None:
        return read_terms(options, classes)
    labelled: set[Any] = set()
    scores = None
    for given in chunks:
        chunk = as_chunk(given, 0)
        scores = chunk.scores
        if isinstance(prior, Mapping) or chunk.labels is None or are_indices(chunk.labels):
            break
        labelled.update(np.unique(to_numpy(chunk.labels)).tolist())
    known = set(prior) if isinstance(prior, Mapping) else labelled
    return read_terms(options, assumed_order(known, scores) if known else None)


def refuse_paths(chunks: Any) -> None:
    """Refuse a path in the place of chunks."""
    if isinstance(chunks, str | os.PathLike):
        raise OptionError(
            argument="chunks",
            rule="must give chunks of scores",
            got=f"the path {os.fspath(chunks)!r}",
            remedy="Open the file: reprior.files.scores.open_scores(…) gives its chunks.",
        )


def _refuse_elsewhere(chunks: Any) -> None:
    """Refuse paths and Dask arrays, which other functions take."""
    refuse_paths(chunks)
    first = chunks[0] if isinstance(chunks, tuple | list) and chunks else chunks
    if array_api_compat.is_dask_array(first) or hasattr(first, "to_dask_array"):
        raise OptionError(
            argument="chunks",
            rule="must give chunks in memory",
            got="Dask's arrays or dataframes",
            remedy="Pass these to the calibrator as they are, calibrator.fit(scores, labels), or "
            "to engines.dask_fit.",
        )


def as_chunk(given: Any, start: int) -> Chunk:
    """Return a chunk; make one of (scores, labels) or (scores, labels, weight)."""
    if isinstance(given, Chunk):
        return given
    if isinstance(given, tuple | list) and 2 <= len(given) <= 3:
        scores, labels, weight = (*given, None)[:3]
        return Chunk(scores, labels, weight, start=start)
    _refuse_elsewhere(given)
    raise OptionError(
        argument="chunks",
        rule="must give Chunk, (scores, labels) or (scores, labels, weight)",
        got=type(given).__name__,
        remedy="Wrap the arrays: Chunk(scores, labels).",
    )


@contextmanager
def located(start: int, sample_axis: int = 0) -> Iterator[None]:
    """Let errors name samples by their index among all; the chunk's first has ``start``."""
    try:
        yield
    except RepriorError as error:
        if not start or isinstance(error, OptionError):  # which is about no sample
            raise
        raise _moved(error, start, sample_axis) from error


def _moved(error: RepriorError, start: int, sample_axis: int) -> RepriorError:
    """Return the error with the samples it names moved by ``start``, or with a sentence on it."""
    n_moved = 0

    def move(part: str | Reference) -> str | Reference:
        nonlocal n_moved
        if not isinstance(part, Element) or part.name not in PER_SAMPLE:
            return part
        n_moved += 1
        axis = sample_axis if part.name == "scores" else 0
        index = list(part.index)
        if axis < len(index) and isinstance(index[axis], int | np.integer):
            index[axis] += start
        return replace(part, index=tuple(index))

    moved = error.mapped(move)
    if n_moved:
        return moved
    return error.with_sentence(f"It is among the samples from {start} on.")


def _check_source(options: Any, chunks: Any) -> None:
    """Refuse files that state another kind, axes or ignored labels than the calibrator reads."""
    _refuse_elsewhere(chunks)
    kind, shape = getattr(chunks, "kind", None), getattr(chunks, "shape", ())
    if kind is not None and kind != options.kind:
        raise OptionError(
            argument="kind",
            rule="of the calibrator must be that of the scores",
            got=f"{options.kind!r}, and the scores are {kind!r}",
            remedy=["Pass ", Setting("kind", kind), " to the calibrator."],
        )
    ignored = getattr(chunks, "ignore_index", None)
    if ignored is not None and options.ignore_index is None:
        raise OptionError(
            argument="ignore_index",
            rule="of the calibrator must be that of the scores",
            got=f"none, and the scores were opened with one, which is {ignored} among the labels",
            remedy=["Pass ", Setting("ignore_index", ignored), " to the calibrator too."],
        )
    axis = getattr(chunks, "class_axis", None)
    if axis is not None and len(shape) > 2 and (axis - options.class_axis) % len(shape):
        raise OptionError(
            argument="class_axis",
            rule="of the calibrator must be that of the scores",
            got=f"{options.class_axis}, and scores of shape {tuple(shape)} with the classes on "
            f"axis {axis}",
            remedy=["Pass ", Setting("class_axis", axis), " to the calibrator."],
        )


def _same_weighing(before: bool | None, now: bool) -> bool:
    if before is not None and before != now:
        raise LabelsError(
            argument="sample_weight",
            rule="must be given for all samples or for none",
            got="chunks with and chunks without weights",
            remedy="Give the others weights of 1.",
        )
    return now


def sources_of(chunks: Any) -> list[list[Any]] | None:
    """Return path, size and time of change of every file; None for chunks without files."""
    if not isinstance(chunks, ScoreFile):
        return None
    return [state_of(path) for path in (*chunks.paths, *chunks.label_paths)]


def state_of(path: Path) -> list[Any]:
    """Return path, size and time of change (ns) of a file, or of all files in a folder."""
    every = [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.is_file())
    states = [each.stat() for each in every]
    size = sum(state.st_size for state in states)
    return [os.fspath(path.absolute()), size, max((s.st_mtime_ns for s in states), default=0)]


def refuse_changed(before: list[list[Any]] | None, chunks: Any) -> None:
    """Refuse files that were changed since the first pass began."""
    for a, b in zip(before or (), sources_of(chunks) or (), strict=True):
        if a != b:
            path, size, _ = a
            how = f"was {size} bytes and is {b[1]} now" if size != b[1] else "was changed since"
            refuse_other_samples("chunks", f"{path!r}, which {how}")


def refuse_other_samples(name: str, got: str) -> NoReturn:
    """Refuse samples that differ from those of an earlier pass."""
    raise OptionError(
        argument=name,
        rule="must give the same samples in every pass",
        got=got,
        remedy="Leave the files alone while they are read.",
    )
