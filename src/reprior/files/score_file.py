"""One or several score files as a re-iterable source of chunks."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from reprior.core.ahead import read_ahead
from reprior.exceptions import (
    FileFormatError,
    LabelsError,
    OptionError,
    RepriorError,
    ScoresError,
)
from reprior.files.chunk import Chunk
from reprior.files.chunks import Group, LeftOut, Place, Walk, label_mismatch
from reprior.files.formats.interface import Reader, ReadOptions, few, no_rows
from reprior.files.formats.tables import TableReader
from reprior.files.labels import LabelCoder, LabelFile, odd_integers
from reprior.files.opening import none_left
from reprior.files.own_labels import odd_pair

__all__ = ["MAX_BYTES", "MAX_ROWS", "ScoreFile"]

MAX_BYTES = 1 << 23
"""Bytes of scores in a chunk, unless told otherwise: three of them stay in a large cache, and the
work on one outweighs what a chunk costs by itself."""

MAX_ROWS = 1 << 18
"""Samples in a chunk: of few classes, labels, weights and winners weigh more than the scores."""

FIRST_ROWS = 1 << 10
"""Samples whose labels tell whether labels are names."""


class ScoreFile:
    """Scores, and labels and weights where there are any, read in chunks as often as wanted.

    Made by :func:`reprior.files.scores.open_scores`.

    Attributes
    ----------
    paths, label_paths : tuple of Path
        The files.
    format : {"npy", "npz", "csv", "parquet", "zarr"}
    kind : str or None
        What the scores are, as given or as written in the file.
    class_names : tuple of str or None
    n_classes : int
    n_samples : int or None
        None for csv, until the file was read to its end once.
    shape : tuple
        Shape of all scores, with ``n_samples`` first.
    class_axis : int
        −1 where the classes are last, 1 for (samples, classes, height, width).
    has_labels, has_weight : bool
    label_dtype : str or None
        Type of the labels as they are written.
    ignore_index : int or None
        Label of samples to leave out, as it appears in chunks.
    notes : tuple of str
        Sentences that a command should show.
    skip_unreadable : bool
        Whether a file that cannot be read is passed over; ``left_out`` then names it.
    """

    def __init__(
        self,
        readers: Sequence[Reader],
        label_files: Sequence[LabelFile] = (),
        *,
        kind: str | None = None,
        class_names: tuple[str, ...] | None = None,
        ignore_index: int | str | None = None,
        labels_as: str | None = None,
        class_axis: int | None = None,
        skip_unreadable: bool = False,
        unopened: Sequence[LeftOut] = (),
        notes: Sequence[str] = (),
        reordered: Path | None = None,
        reading: ReadOptions | None = None,
    ) -> None:
        first = readers[0]
        self.skip_unreadable, self._unopened = skip_unreadable, tuple(unopened)
        self._broken: tuple[LeftOut, ...] = ()
        self.readers, self._label_files = tuple(readers), tuple(label_files)
        self.paths = tuple(reader.path for reader in readers)
        self.label_paths = tuple(file.path for file in label_files)
        self.format, self.kind, self.class_names = first.format, kind, class_names
        self.dtype = np.result_type(*(reader.dtype for reader in readers))
        self.has_labels = bool(label_files) or first.has_labels
        self.has_weight = first.has_weight
        self.label_dtype = label_files[0].dtype if label_files else first.label_dtype
        self.columns = first.columns
        self._counted: int | None = None
        self.class_axis = self._find_class_axis(class_axis)
        self.n_classes = self._count_classes()
        self._labels_as, self._ignore, self._turned = labels_as, ignore_index, reordered
        self.ignore_index = self._coder().ignored
        self._reading = reading or ReadOptions()
        self.notes = (*notes, *self._make_notes())
        self._check_rows()

    @property
    def n_samples(self) -> int | None:
        """Number of samples, where it is known."""
        if self._counted is None:
            self._counted = _total(self.readers)
        return self._counted

    @property
    def shape(self) -> tuple[int | None, ...]:
        """Shape of all scores."""
        return (self.n_samples, *self.readers[0].row_shape)

    @property
    def rows(self) -> tuple[int | None, ...]:
        """Number of samples in each file, where it is known."""
        return tuple(reader.n_rows for reader in self.readers)

    def __repr__(self) -> str:
        names = ", ".join(path.name for path in self.paths)
        return f"ScoreFile({names}: {self.format}, shape {self.shape}, kind {self.kind})"

    def __iter__(self) -> Iterator[Chunk]:
        return self.chunks()

    def require_labels(self) -> None:
        """Raise an error that says where labels are looked for, if there are none."""
        if self.has_labels:
            return
        where = "an array 'labels'" if self.format in ("npz", "zarr") else "a column 'label'"
        inside = "" if self.format == "npy" else f", or {where}"
        there = f" It has {few(self.columns)}." if self.columns else ""
        raise LabelsError(
            f"`labels` must be given. {os.fspath(self.paths[0])!r} has none.{there} "
            f"Pass labels in a file of their own{inside}."
        )

    def chunks(
        self, max_bytes: int = MAX_BYTES, *, after: Place | None = None, look: bool = True
    ) -> Iterator[Chunk]:
        """Give all samples from the beginning, in chunks of at most ``max_bytes`` of scores.

        A chunk has at least one sample, and never samples of two files. The next one is read
        while the present one is worked on.

        ``after`` is where to begin instead: ``chunk.after`` of the last one that is not wanted,
        of chunks of the same size. Without ``look``, scores that have no weights are not looked
        through for NaN: the caller does that, and calls ``chunk.refuse``.
        """
        if max_bytes < 1:
            raise OptionError(
                f"`max_bytes` must be positive. Got {max_bytes}. Leave it out, or raise it."
            )
        row_bytes = self.dtype.itemsize * _size(self.readers[0].row_shape)
        rows = max(1, min(max_bytes // max(1, row_bytes), MAX_ROWS))
        walk = Walk(
            self._groups(), self._coder(), rows=rows, dtype=self.dtype, after=after,
            check_labels=self._check_label_shape, class_axis=self.class_axis,
            skip=self.skip_unreadable, look=look,
        )  # fmt: skip
        chunks = walk.chunks()
        alone = self.n_samples is not None and self.n_samples <= rows
        yield from chunks if alone else read_ahead(chunks)
        if walk.start == 0:
            gone = (*self._unopened, *walk.left_out)
            raise none_left(self.paths, gone) if gone else no_rows(self.paths[0])
        self._counted, self._broken = walk.start, tuple(walk.left_out)

    @property
    def reading(self) -> dict[str, Any]:
        """What decides which samples are read of the files, and what they mean."""
        names, ignored = (
            ("label_column", "weight_column", "scores_name", "labels_name"),
            self._ignore,
        )
        return {
            **{name: getattr(self._reading, name) for name in names},
            "labels_as": self._labels_as,
            "class_names": None if self.class_names is None else list(self.class_names),
            "ignored label": None if ignored is None else str(ignored),
            "skip_unreadable": self.skip_unreadable,
        }

    @property
    def left_out(self) -> tuple[LeftOut, ...]:
        """What could not be read: known in full once all chunks were read."""
        return (*self._unopened, *self._broken)

    def _groups(self) -> list[Group]:
        """Which label files go with which score files: pairs, or else all with all."""
        if len(self._label_files) != len(self.readers):
            return [Group(self.readers, self._label_files)]
        return [Group((a,), (b,)) for a, b in zip(self.readers, self._label_files, strict=True)]

    def _coder(self) -> LabelCoder:
        return LabelCoder(
            self.class_names, self.n_classes, self._ignore, self._labels_as, self._turned
        )

    def _find_class_axis(self, given: int | None) -> int:
        ndim = 1 + len(self.readers[0].row_shape)
        shape = self.readers[0].row_shape
        inside = given is None or -ndim <= given < ndim
        if ndim > 1 and given is not None and not (inside and given % ndim in (1, ndim - 1)):
            raise OptionError(
                f"`class_axis` must be 1 or -1 for scores of shape {_shape_of_all(shape)}. "
                f"Got {given!r}. Samples come first; classes are second or last."
            )
        if len(shape) < 2:
            return -1
        if given is not None:
            return 1 if given % ndim == 1 else -1
        labels, names = self._label_shape(), self.class_names
        if labels is not None:
            return -1 if labels == shape[:-1] != shape[1:] else 1
        return -1 if names is not None and shape[-1] == len(names) != shape[0] else 1

    def _label_shape(self) -> tuple[int, ...] | None:
        """Shape of the labels of one sample, where it is known without reading them."""
        if self._label_files:
            return self._label_files[0].row_shape
        labels = getattr(self.readers[0], "labels", None)
        return None if labels is None else tuple(labels.shape[1:])

    def _count_classes(self) -> int:
        shape = self.readers[0].row_shape
        path = os.fspath(self.paths[0])
        n = shape[self.class_axis if self.class_axis == -1 else 0] if shape else 1
        if n == 0 or 0 in shape:
            raise ScoresError(
                f"`scores` must have a number per class. Got shape {self.shape} in {path!r}. "
                f"Save an array of shape (samples, classes)."
            )
        n = 2 if n == 1 else n
        if self.class_names is not None and len(self.class_names) != n:
            raise FileFormatError(
                f"`classes` must name every class once. Got {len(self.class_names)} names "
                f"({few(self.class_names)}) and scores of {n} classes in {path!r}. "
                f"Name them in the order of the scores."
            )
        expected = shape[1:] if self.class_axis == 1 else shape[:-1]
        labels = self._label_shape()
        if labels is not None and labels != expected:
            self._check_label_shape(labels)
        return n

    def _check_label_shape(self, found: tuple[int, ...]) -> None:
        shape = self.readers[0].row_shape
        expected = shape[1:] if self.class_axis == 1 else shape[:-1]
        if tuple(found) != tuple(expected):
            raise LabelsError(
                f"`labels` must have the shape of the scores without the class axis, "
                f"{_shape_of_all(expected)}. Got {_shape_of_all(found)} and scores of shape "
                f"{_shape_of_all(shape)} in {os.fspath(self.paths[0])!r}. "
                f"Save one class index per sample, or per pixel."
            )

    def _check_rows(self) -> None:
        scores = self.n_samples
        if scores == 0:
            raise no_rows(self.paths[0])
        for group in self._groups():
            scores, labels = _total(group.readers), _total(group.files)
            if group.files and scores is not None and labels is not None and scores != labels:
                raise LabelsError(label_mismatch(labels, scores, group))

    def _reordered(self) -> Reader | None:
        """The first file by the order of whose columns integer labels would mean other classes."""
        if self.format not in ("csv", "parquet"):
            return None
        names = self.class_names or ()
        known = set(names)
        for reader in self.readers:
            there = tuple(name for name in reader.columns if name in known)
            if len(there) == len(names) and there != names:
                return None if self._named() else reader
        return None

    def _named(self) -> bool:
        """Whether labels are written as names: the first of them tell it, as all are alike."""
        first = self.readers[0]
        try:
            if self._label_files:
                labels = next(self._label_files[0].blocks(FIRST_ROWS), None)
            else:
                labels = first.first_labels(FIRST_ROWS) if isinstance(first, TableReader) else None
        except RepriorError:  # said when they are read, or left out
            return False
        return labels is not None and self._coder().are_names(labels)

    def _make_notes(self) -> Iterator[str]:
        seen: set[str] = set()
        for reader in self.readers:
            for note in reader.notes:
                if note not in seen:
                    yield note
                seen.add(note)
        shape = self.readers[0].row_shape
        if not shape or (len(shape) == 1 and shape[0] == 1):
            yield (
                f"{os.fspath(self.paths[0])!r} has one score per sample: it was taken as the score "
                f"of class 1 of two."
            )
        if self._label_files and self.readers[0].has_labels:
            yield "Labels were read from their own file; those beside the scores were left aside."
        odd = [(a, b) for a, b in zip(self.paths, self.label_paths, strict=False) if odd_pair(a, b)]
        if odd and len(self.paths) == len(self.label_paths) > 1:
            yield (
                f"Labels go with scores in the order given: {os.fspath(odd[0][1])!r} with "
                f"{os.fspath(odd[0][0])!r}. Check that they belong together."
            )
        reordered = self._reordered() if self.has_labels and self._turned is None else None
        if reordered is not None:
            yield (
                f"The class columns of {os.fspath(reordered.path)!r} stand in another order; "
                f"integer labels were taken as indices of the classes in the order "
                f"{few(self.class_names or ())}."
            )
        if self.has_labels and self._labels_as is None and odd_integers(self.class_names):
            yield (
                f"The classes are named {few(self.class_names or ())}; integer labels were taken "
                f"as indices 0 … {self.n_classes - 1} in that order, not as these names."
            )


def _total(files: Sequence[Any]) -> int | None:
    counts = [file.n_rows for file in files]
    return None if None in counts else sum(counts)


def _size(shape: Sequence[int]) -> int:
    return int(np.prod(shape, dtype=np.int64)) if shape else 1


def _shape_of_all(row_shape: Sequence[int]) -> str:
    inner = ", ".join(map(str, row_shape))
    return f"(samples, {inner})" if row_shape else "(samples,)"
