"""Re-iterable labelled chunks, encoded for a calibrator and checked.

An error in a chunk names the sample by its index in the whole. Files must stay what they are
between the passes, by size and time of change.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, TypeAlias

import array_api_compat
import numpy as np

from reprior.calibrator.encoding import Terms, are_indices, as_mapping, encode_part, read_terms
from reprior.core.arrays import to_numpy
from reprior.core.checks import check_labels, check_sample_weight
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
from reprior.profile.data import TuningData
from reprior.profile.samples import anything_counts

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


class Part(NamedTuple):
    """What counts of a chunk, read; its samples begin at ``start`` in the whole.

    ``refuse``, if there is one, names a score that is NaN or +inf by its place in its file.
    """

    data: TuningData
    start: int
    sample_axis: int
    refuse: Callable[[], None] | None = None

    @contextmanager
    def located(self) -> Iterator[None]:
        """Work on it inside of this, so that errors name samples by their place in the whole."""
        try:
            with located(self.start, self.sample_axis):
                yield
        except ScoresError:
            if self.refuse is not None:
                self.refuse()
            raise


class Stream:
    """Chunks as :class:`TuningData`, in as many passes as are asked for.

    Chunks without a sample that counts are left out; that all are is an error, unless the stream
    ``may_be_empty``. An error in a chunk names the sample by its index in the whole, in which the
    stream begins at ``first``.
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

    def parts(
        self,
        look: Callable[[Chunk], object] | None = None,
        settle: Callable[[], object] | None = None,
        *,
        checked: bool = True,
    ) -> Iterator[Part]:
        """One pass. ``look`` is shown every chunk, those too that have nothing to count.

        ``settle`` is called before the next chunk is asked for, which may take this one's room.
        Without ``checked``, whoever works on the parts finds NaN and +inf among the scores.
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
                data = self._read(chunk)
                if data is not None:
                    weighted = _same_weighing(weighted, data.weight is not None)
            if data is not None:
                counted = True
                yield Part(data, start, sample_axis, getattr(chunk, "refuse", None))
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

    def _read(self, chunk: Chunk) -> TuningData | None:
        if chunk.labels is None:
            raise LabelsError(
                argument="labels",
                rule="must be given for every sample",
                got="a chunk without labels",
                remedy="Name the labels of the scores, or leave the chunk out.",
            )
        if chunk.n_labels == 0:
            return None
        data = encode_part(self.options, self.terms, chunk.scores, chunk.labels, chunk.weight)
        labels = to_numpy(data.labels)
        weight = None if data.weight is None else to_numpy(data.weight)
        if anything_counts(labels, weight, data.ignore_index):
            return data
        n_classes = self.terms.classes.size
        check_labels(
            labels, n_classes=n_classes, shape=labels.shape, ignore_index=data.ignore_index
        )
        if weight is not None and weight.any():
            check_sample_weight(weight, labels.shape)
        return None

    def check_same(self, done: int) -> None:
        """Refuse files that were changed, and another number of samples than an earlier pass had.

        Called when a pass has ended, which has gone through ``done`` samples.
        """
        refuse_changed(self._sources, self.chunks)
        if self.n_samples not in (None, done):
            refuse_other_samples("chunks", f"{self.n_samples} samples, and then {done}")
        self.n_samples = done


def settle_terms(options: Any, chunks: Iterable[Any]) -> Terms:
    """Settle the classes before the first pass.

    By ``classes``; by the names of a file's columns where the source prior goes by these; by the
    names in the source prior; or, where labels are names, by all labels, sorted.
    """
    _refuse_elsewhere(chunks)
    classes, prior = options.classes, as_mapping(options.source_prior)
    names = getattr(chunks, "class_names", None)
    if classes is None and isinstance(prior, Mapping) and names and set(prior) == set(names):
        classes = list(names)
    if classes is not None or isinstance(prior, Mapping):
        return read_terms(options, classes)
    found: set[Any] = set()
    for given in chunks:
        labels = as_chunk(given, 0).labels
        if labels is None or are_indices(labels):
            break
        found.update(np.unique(to_numpy(labels)).tolist())
    return read_terms(options, sorted(found) if found else None)


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
    """Refuse what has another place to go to: paths, and arrays of Dask."""
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
    """A chunk as it is; (scores, labels) or (scores, labels, weight) as one."""
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
    """Let errors name samples by their index in the whole, of which a chunk begins at ``start``."""
    try:
        yield
    except RepriorError as error:
        if not start:
            raise
        raise _moved(error, start, sample_axis) from error


def _moved(error: RepriorError, start: int, sample_axis: int) -> RepriorError:
    """The error with the samples that it names moved by ``start``; it says so if it names none."""
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
    """Path, size and time of change of every file; None where chunks do not come from files."""
    if not isinstance(chunks, ScoreFile):
        return None
    return [state_of(path) for path in (*chunks.paths, *chunks.label_paths)]


def state_of(path: Path) -> list[Any]:
    """Path, size and time of change, in nanoseconds, of a file or of all files in a folder."""
    every = [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.is_file())
    states = [each.stat() for each in every]
    size = sum(state.st_size for state in states)
    return [os.fspath(path.absolute()), size, max((s.st_mtime_ns for s in states), default=0)]


def refuse_changed(before: list[list[Any]] | None, chunks: Any) -> None:
    """Refuse chunks of files that are not what they were when the first pass began."""
    for a, b in zip(before or (), sources_of(chunks) or (), strict=True):
        if a != b:
            path, size, _ = a
            how = f"was {size} bytes and is {b[1]} now" if size != b[1] else "was changed since"
            refuse_other_samples("chunks", f"{path!r}, which {how}")


def refuse_other_samples(name: str, got: str) -> NoReturn:
    """Refuse samples that are others than in an earlier pass."""
    raise OptionError(
        argument=name,
        rule="must give the same samples in every pass",
        got=got,
        remedy="Leave the files alone while they are read.",
    )
