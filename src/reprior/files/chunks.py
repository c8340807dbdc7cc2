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
from reprior.files.labels import LabelCoder, LabelFile, OwnLabels

__all__ = [
    "UNREADABLE",
    "Chunk",
    "FileChunk",
    "Group",
    "LeftOut",
    "Place",
    "Walk",
    "label_mismatch",
    "said_of",
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


#: What a file that cannot be read raises. Wrong values in a file that can be are no such fault.
UNREADABLE = (OSError, FileFormatError)


@dataclass(frozen=True)
class LeftOut:
    """A file, or the end of one, that could not be read and was passed over.

    ``rows`` is how many of its samples are missing, None where that cannot be known.
    """

    path: Path
    rows: int | None
    reason: str


class Place(NamedTuple):
    """A place between two chunks of files, from which a walk can go on.

    ``start`` samples came before it. It is before row ``row`` of file ``source``, and
    ``left_out`` is what was passed over in the files before that one: not every row of them was
    a sample.
    """

    start: int = 0
    source: int = 0
    row: int = 0
    left_out: tuple[LeftOut, ...] = ()


@dataclass(frozen=True, eq=False)
class FileChunk(Chunk):
    """A chunk of a file: ``row`` is its first there, ``left_out`` what was passed over before.

    ``refuse`` raises an error that names the file, the row and the column of a score that is NaN
    or +inf, if there is one.
    """

    row: int = 0
    left_out: tuple[LeftOut, ...] = ()
    refuse: Callable[[], None] | None = None

    @property
    def after(self) -> Place:
        """Where the walk goes on behind it."""
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


class Walk:
    """One pass over groups of files, from a place on, which is between two chunks.

    With ``skip`` a file that breaks is passed over from there on: ``left_out`` then tells so. One
    whose rows have a checksum is compared with it before any of them is given.
    Without ``look`` the caller finds NaN and +inf itself, and calls the chunk's ``refuse``.
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
        look: bool = True,
    ) -> None:
        self._look, self._class_axis = look, class_axis
        self._groups, self._coder, self._rows, self._dtype = groups, coder, rows, dtype
        self._check_labels, self._skip = check_labels, skip
        self._after = after or Place()
        self.start, self.source, self._row = self._after.start, 0, 0
        self.left_out = list(self._after.left_out)

    def chunks(self) -> Iterator[Chunk]:
        """Give all chunks."""
        for group in self._groups:
            if self.source + len(group.readers) <= self._after.source:
                self.source += len(group.readers)
                continue
            if self._skip and len(group.readers) > 1:
                _check(group.files)
            own = self._labels_of(group)
            whole = len(group.readers) == 1 or not self.left_out
            for reader in group.readers:
                if self.source >= self._after.source:
                    self._row = self._after.row if self.source == self._after.source else 0
                    try:
                        if self._skip:
                            _check([reader, *(group.files if len(group.readers) == 1 else ())])
                        yield from self._of_file(reader, group, own)
                    except UNREADABLE as error:
                        if not self._skip:
                            raise
                        whole = False
                        self._pass_over(reader, own, error, group)
                self.source += 1
            if own is not None and whole:
                _refuse_rest(own, group)

    def _labels_of(self, group: Group) -> OwnLabels | None:
        """The labels of a group, without those of the samples before the place."""
        if not group.files:
            return None
        own = OwnLabels(group.files, self._coder, self._rows)
        if self.source <= self._after.source:
            # One sequence for several files has the labels of rows, too, that could not be read.
            gone = sum(each.rows or 0 for each in self._after.left_out)
            own.drop(self._after.row if len(group.readers) == 1 else self._after.start + gone)
        return own

    def _of_file(self, reader: Reader, group: Group, own: OwnLabels | None) -> Iterator[Chunk]:
        if self._row and reader.n_rows is not None and self._row >= reader.n_rows:
            return
        for block in reader.blocks(self._rows, self._row):
            labels = None if own is None else own.take(len(block.scores))
            if own is not None and labels is None:
                raise LabelsError(label_mismatch(own.taken, _count_rows(group.readers), group))
            chunk = self._chunk(reader, block, labels)
            self._row += len(chunk)
            self.start += len(chunk)
            yield chunk

    def _pass_over(
        self, reader: Reader, own: OwnLabels | None, error: BaseException, group: Group
    ) -> None:
        """Note what is missing of a file, and bring labels of several files back into step."""
        rows = None if reader.n_rows is None else reader.n_rows - self._row
        if own is not None and len(group.readers) > 1:
            if rows is None:
                raise error
            own.drop(rows)
        self.left_out.append(LeftOut(reader.path, rows, str(error)))

    def _chunk(self, reader: Reader, block: Block, labels: Vector | None) -> FileChunk:
        row = self._row

        def where(i: int) -> str:
            return f"{reader.place(row + i)} of {os.fspath(reader.path)!r}"

        scores = block.scores.astype(self._dtype, copy=False)
        with _blaming_damage(reader):
            if labels is None and block.labels is not None:
                labels = self._coder.encode(block.labels, where)
            if labels is not None:
                self._check_labels(labels.shape[1:])
            if block.weight is not None:
                _check_weight(block.weight, where)
        refuse = partial(self._check_scores, reader, scores, labels, block.weight, where)
        if self._look or block.weight is not None:
            refuse()
        return FileChunk(
            scores, labels, block.weight, self.start, block.extra, self.source,
            row=row, left_out=tuple(self.left_out), refuse=refuse,
        )  # fmt: skip

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
            if np.isfinite(scores.sum()):  # which any of them would spoil; half the time of looking
                return
        bad = ~np.isfinite(scores) & (scores != -np.inf)
        if not bad.any():
            return
        out = self._left_out(labels, weight)
        if out is not None:
            bad &= ~(out if out.ndim == bad.ndim else np.expand_dims(out, self._class_axis))
            if not bad.any():
                return
        reader.check()  # bytes that were changed may be a NaN
        at = tuple(int(i) for i in np.unravel_index(int(np.argmax(bad)), bad.shape))
        value = "NaN" if np.isnan(scores[at]) else "+inf"
        raise ScoresError(
            f"`scores` must be finite numbers. Got {value} in {where(at[0])}, "
            f"{reader.place_in_row(at[1:])}. Correct it, or drop the row."
        )

    def _left_out(self, labels: Vector | None, weight: Vector | None) -> Vector | None:
        """Which samples are ignored or of weight 0; None where none can be."""
        if labels is None:
            return None
        out = None if self._coder.ignored is None else labels == self._coder.ignored
        if weight is not None and weight.shape == labels.shape:
            out = weight == 0 if out is None else out | (weight == 0)
        return out


def _check(files: Sequence[Reader | LabelFile]) -> None:
    for file in files:
        file.check()


@contextmanager
def _blaming_damage(reader: Reader) -> Iterator[None]:
    """Tell a wrong value by which a damaged file shows from one that was written so."""
    try:
        yield
    except (ScoresError, LabelsError):
        reader.check()
        raise


def _refuse_rest(own: OwnLabels, group: Group) -> None:
    """Refuse labels that no sample has asked for."""
    taken = own.taken
    left = own.rest()
    if left:
        raise LabelsError(label_mismatch(taken + left, taken, group))


def label_mismatch(n: int, rows: int, group: Group) -> str:
    """Say that there are more or fewer labels than scores."""
    return (
        f"`labels` must have one entry per sample. Got {n} labels in "
        f"{few([os.fspath(file.path) for file in group.files], 3)} and {rows} rows of scores "
        f"in {few([os.fspath(reader.path) for reader in group.readers], 3)}. "
        f"Save both from the same samples, in the same order."
    )


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
            f"`weight` must be finite and not negative. Got {weight[row]} in {where(row)}. "
            f"Correct it, or drop the row."
        )


def said_of(left_out: Sequence[LeftOut]) -> str:
    """Say which files were left out, and how many samples are missing with them.

    Examples
    --------
    >>> said_of([LeftOut(Path("b.npy"), 3, "it is truncated.")])
    "1 file could not be read, and 3 samples were left out with it: 'b.npy'. it is truncated."
    """
    known = [each.rows for each in left_out if each.rows is not None]
    n, unknown, total = len(left_out), len(left_out) - len(known), sum(known)
    files = f"{n} file{'' if n == 1 else 's'} could not be read"
    it, has = ("it", "has") if n == 1 else ("they", "have")
    names = few([os.fspath(each.path) for each in left_out], 3)
    if known:
        samples = f"{total:,} sample{' was' if total == 1 else 's were'}"
        said = f"{files}, and {samples} left out with {'it' if n == 1 else 'them'}"
        more = f"; how many more {unknown} of them {'has' if unknown == 1 else 'have'} is not known"
        said += more if unknown else ""
    else:
        verb = "was" if n == 1 else "were"
        said = f"{files} and {verb} left out; how many samples {it} {has} is not known"
    return f"{said}: {names}. {left_out[0].reason}"
