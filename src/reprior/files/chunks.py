"""Chunks of score files, one after another, with the labels that belong to them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from reprior.exceptions import FileFormatError, LabelsError, ScoresError
from reprior.files.formats.interface import Block, Reader, Vector, few
from reprior.files.labels import LabelCoder, LabelFile, LabelSequence

__all__ = [
    "UNREADABLE",
    "Chunk",
    "FileChunk",
    "Group",
    "LeftOut",
    "Place",
    "Walk",
    "describe_left_out",
]


@dataclass(frozen=True, eq=False)
class Chunk:
    """Some consecutive samples.

    Attributes
    ----------
    scores : array
        (n, K), (n, K, H, W) … with the class axis where the source says; (n,) or (n, 1) where a
        model of two classes gives one score.
    labels : array of int64 or None
        Class indices, of the scores' shape without the class axis.
    weight : array or None
        Weights of the samples.
    start : int
        Index of the first sample in the whole set, for error sentences.
    extra : pyarrow.Table or None
        All original columns of these rows, where a table was opened with ``keep=True``.
    source : int
        Index of the file these samples come from, among several.

    Examples
    --------
    >>> import numpy as np
    >>> chunk = Chunk(np.zeros((3, 2)), np.array([0, 1, 1]), start=6)
    >>> len(chunk), chunk.stop
    (3, 9)
    """

    scores: Any
    labels: Any | None = None
    weight: Any | None = None
    start: int = 0
    extra: Any | None = None
    source: int = 0

    def __len__(self) -> int:
        return int(self.scores.shape[0])

    @property
    def n_labels(self) -> int:
        """Number of samples by their labels."""
        shape = np.shape(self.labels) if self.labels is not None else ()
        return int(shape[0]) if shape else 1

    def sample_axis(self, class_axis: int) -> int:
        """The axis of the samples in the scores: the first that is not the classes'."""
        n_axes = len(np.shape(self.scores))
        return 1 if n_axes > 1 and class_axis in (0, -n_axes) else 0

    @property
    def stop(self) -> int:
        """Index of the sample after the last one."""
        return self.start + len(self)


#: What a file that cannot be read raises. Wrong values in a readable file are another matter.
UNREADABLE = (OSError, FileFormatError)


@dataclass(frozen=True)
class LeftOut:
    """A file, or the end of one, that could not be read and was skipped.

    ``rows`` is how many of its samples are missing, None where that cannot be known.
    """

    path: Path
    rows: int | None
    reason: str

    @classmethod
    def because_of(cls, error: BaseException, path: Path, rows: int | None = None) -> LeftOut:
        """Return what is noted of a file, or of the rest of one, that raised an error."""
        return cls(path, rows, str(error))


class Place(NamedTuple):
    """A place between two chunks of files, from which reading can go on.

    ``start`` samples came before it. It is before row ``row`` of file ``source``, and
    ``left_out`` is what was skipped in the files before that one: not every row of them was
    a sample.
    """

    start: int = 0
    source: int = 0
    row: int = 0
    left_out: tuple[LeftOut, ...] = ()


@dataclass(frozen=True, eq=False)
class FileChunk(Chunk):
    """A chunk of a file: ``row`` is its first there, ``left_out`` what was skipped before.

    ``refuse`` raises an error that names the file, the row and the column of a score that is NaN
    or +inf, if there is one.
    """

    row: int = 0
    left_out: tuple[LeftOut, ...] = ()
    refuse: Callable[[], None] | None = None

    @property
    def after(self) -> Place:
        """The place behind it."""
        return Place(self.stop, self.source, self.row + len(self), self.left_out)


@dataclass(frozen=True, eq=False)
class Group:
    """Score files, and the label files whose labels are theirs one after another."""

    readers: Sequence[Reader]
    files: Sequence[LabelFile]

    @property
    def paths(self) -> tuple[Path, ...]:
        """Every file of it."""
        return (*(r.path for r in self.readers), *(f.path for f in self.files))

    def mismatch(self, n_labels: int, n_rows: int) -> LabelsError:
        """Return the error for more or fewer labels than scores."""
        return LabelsError(
            argument="labels",
            rule="must have one entry per sample",
            got=(
                f"{n_labels} labels in {few([os.fspath(file.path) for file in self.files], 3)} and "
                f"{n_rows} rows of scores in "
                f"{few([os.fspath(reader.path) for reader in self.readers], 3)}"
            ),
            remedy="Save both from the same samples, in the same order.",
        )


class Walk:
    """One pass over groups of files, from a place between two chunks on.

    With ``skip`` a file that breaks is skipped from there on, and ``left_out`` names it. One
    whose rows have a checksum is compared with it before any of them is given.
    Without ``check_values`` the caller finds NaN and +inf itself, and calls the chunk's ``refuse``.
    """

    def __init__(
        self,
        groups: Sequence[Group],
        coder: LabelCoder,
        *,
        rows: int,
        dtype: np.dtype[Any],
        check_labels: Callable[[tuple[int, ...]], None],
        after: Place | None = None,
        class_axis: int = -1,
        skip: bool = False,
        check_values: bool = True,
    ) -> None:
        self._groups = groups
        self._coder = coder
        self._rows = rows
        self._dtype = dtype
        self._check_labels = check_labels
        self._class_axis = class_axis
        self._skip = skip
        self._check_values = check_values
        self._after = after or Place()
        self.start = self._after.start
        self.source = 0
        self._row = 0
        self.left_out = list(self._after.left_out)

    def chunks(self) -> Iterator[Chunk]:
        """Give all chunks."""
        for group in self._groups:
            if self.source + len(group.readers) <= self._after.source:
                self.source += len(group.readers)
                continue
            if self._skip and len(group.readers) > 1:
                _check(group.files)
            sequence = self._labels_of(group)
            is_whole = len(group.readers) == 1 or not self.left_out
            for reader in group.readers:
                if self.source >= self._after.source:
                    self._row = self._after.row if self.source == self._after.source else 0
                    try:
                        if self._skip:
                            _check([reader, *(group.files if len(group.readers) == 1 else ())])
                        yield from self._of_file(reader, group, sequence)
                    except UNREADABLE as error:
                        if not self._skip:
                            raise
                        is_whole = False
                        self._skip_rest(reader, sequence, error, group)
                self.source += 1
            if sequence is not None and is_whole:
                _refuse_rest(sequence, group)

    def _labels_of(self, group: Group) -> LabelSequence | None:
        """The labels of a group, without those of the samples before the place."""
        if not group.files:
            return None
        sequence = LabelSequence(group.files, self._coder, self._rows)
        if self.source <= self._after.source:
            # One sequence for several files has the labels of rows, too, that could not be read.
            n_left_out = sum(each.rows or 0 for each in self._after.left_out)
            is_paired = len(group.readers) == 1
            sequence.skip(self._after.row if is_paired else self._after.start + n_left_out)
        return sequence

    def _of_file(
        self, reader: Reader, group: Group, sequence: LabelSequence | None
    ) -> Iterator[Chunk]:
        if self._row and reader.n_rows is not None and self._row >= reader.n_rows:
            return
        for block in reader.blocks(self._rows, self._row):
            labels = None if sequence is None else sequence.take(len(block.scores))
            if sequence is not None and labels is None:
                raise group.mismatch(sequence.n_taken, _count_rows(group.readers))
            chunk = self._chunk(reader, block, labels)
            self._row += len(chunk)
            self.start += len(chunk)
            yield chunk

    def _skip_rest(
        self, reader: Reader, sequence: LabelSequence | None, error: BaseException, group: Group
    ) -> None:
        """Note what is missing of a file, and skip its labels where several files share them."""
        n_missing = None if reader.n_rows is None else reader.n_rows - self._row
        if sequence is not None and len(group.readers) > 1:
            if n_missing is None:
                raise error
            sequence.skip(n_missing)
        self.left_out.append(LeftOut.because_of(error, reader.path, n_missing))

    def _chunk(self, reader: Reader, block: Block, labels: Vector | None) -> FileChunk:
        row = self._row

        def where(i: int) -> str:
            return f"{reader.place(row + i)} of {os.fspath(reader.path)!r}"

        scores = block.scores.astype(self._dtype, copy=False)
        with _checking_for_damage(reader):
            if labels is None and block.labels is not None:
                labels = self._coder.encode(block.labels, where)
            if labels is not None:
                self._check_labels(labels.shape[1:])
            if block.weight is not None:
                _check_weight(block.weight, where)
        refuse = partial(self._check_scores, reader, scores, labels, block.weight, where)
        if self._check_values or block.weight is not None:
            refuse()
        return FileChunk(
            scores,
            labels,
            block.weight,
            self.start,
            block.extra,
            self.source,
            row=row,
            left_out=tuple(self.left_out),
            refuse=refuse,
        )

    def _check_scores(
        self,
        reader: Reader,
        scores: Vector,
        labels: Vector | None,
        weight: Vector | None,
        where: Callable[[int], str],
    ) -> None:
        """Refuse NaN and +inf, with row and column, but for samples that do not count."""
        with np.errstate(all="ignore"):
            if np.isfinite(scores.sum()):  # any of them makes the sum so, in half the time
                return
        bad = ~np.isfinite(scores) & (scores != -np.inf)
        if not bad.any():
            return
        ignored = self._ignored_samples(labels, weight)
        if ignored is not None:
            same_rank = ignored.ndim == bad.ndim
            bad &= ~(ignored if same_rank else np.expand_dims(ignored, self._class_axis))
            if not bad.any():
                return
        reader.check()  # bytes that were changed may be a NaN
        position = tuple(int(i) for i in np.unravel_index(int(np.argmax(bad)), bad.shape))
        value = "NaN" if np.isnan(scores[position]) else "+inf"
        raise ScoresError(
            argument="scores",
            rule="must be finite numbers",
            got=f"{value} in {where(position[0])}, {reader.place_in_row(position[1:])}",
            remedy="Correct it, or drop the row.",
        )

    def _ignored_samples(self, labels: Vector | None, weight: Vector | None) -> Vector | None:
        """Which samples are ignored or of weight 0; None where none can be."""
        if labels is None:
            return None
        ignored = None if self._coder.ignored is None else labels == self._coder.ignored
        if weight is not None and weight.shape == labels.shape:
            ignored = weight == 0 if ignored is None else ignored | (weight == 0)
        return ignored


def _check(files: Sequence[Reader | LabelFile]) -> None:
    for file in files:
        file.check()


@contextmanager
def _checking_for_damage(reader: Reader) -> Iterator[None]:
    """Report that a file is damaged rather than the wrong value that shows it."""
    try:
        yield
    except (ScoresError, LabelsError):
        reader.check()
        raise


def _refuse_rest(sequence: LabelSequence, group: Group) -> None:
    """Refuse labels that are left when all scores are read."""
    n_taken = sequence.n_taken
    n_left = sequence.count_rest()
    if n_left:
        raise group.mismatch(n_taken + n_left, n_taken)


def _count_rows(readers: Sequence[Reader]) -> int:
    counts = [reader.n_rows for reader in readers]
    if None not in counts:
        return sum(n for n in counts if n is not None)
    return sum(len(block.scores) for reader in readers for block in reader.blocks(1 << 16))


def _check_weight(weight: Vector, where: Callable[[int], str]) -> None:
    bad = ~np.isfinite(weight) | (weight < 0)
    if bad.any():
        row = int(np.argmax(bad.reshape(len(bad), -1).any(axis=1)))
        raise LabelsError(
            argument="weight",
            rule="must be finite and not negative",
            got=f"{weight[row]} in {where(row)}",
            remedy="Correct it, or drop the row.",
        )


def describe_left_out(left_out: Sequence[LeftOut]) -> str:
    """Return which files were left out, and how many samples are missing with them.

    Examples
    --------
    >>> describe_left_out([LeftOut(Path("b.npy"), 3, "it is truncated.")])
    "1 file could not be read, and 3 samples were left out with it: 'b.npy'. it is truncated."
    """
    known = [each.rows for each in left_out if each.rows is not None]
    n_files = len(left_out)
    n_unknown = n_files - len(known)
    n_samples = sum(known)
    files = f"{n_files} file{'' if n_files == 1 else 's'} could not be read"
    if known:
        samples = f"{n_samples:,} sample{' was' if n_samples == 1 else 's were'}"
        sentence = f"{files}, and {samples} left out with {'it' if n_files == 1 else 'them'}"
        if n_unknown:
            has = "has" if n_unknown == 1 else "have"
            sentence += f"; how many more {n_unknown} of them {has} is not known"
    else:
        were, they_have = ("was", "it has") if n_files == 1 else ("were", "they have")
        sentence = f"{files} and {were} left out; how many samples {they_have} is not known"
    names = few([os.fspath(each.path) for each in left_out], 3)
    return f"{sentence}: {names}. {left_out[0].reason}"
