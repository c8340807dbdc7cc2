"""Score files of any format, opened as one re-iterable source of chunks."""

from __future__ import annotations

import glob
import importlib
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias, cast

import numpy as np

from reprior.core.ahead import read_ahead
from reprior.core.checks import check_choice, check_kind
from reprior.exceptions import (
    FileFormatError,
    LabelsError,
    OptionError,
    RepriorError,
    ScoresError,
)
from reprior.files.chunks import UNREADABLE, Chunk, Group, LeftOut, Place, Walk, label_mismatch
from reprior.files.detect import detect_format
from reprior.files.formats.interface import (
    ColumnsError,
    NoRowsError,
    Reader,
    ReadOptions,
    apart,
    few,
    no_rows,
)
from reprior.files.formats.tables import TableReader
from reprior.files.labels import LabelCoder, LabelFile, odd_integers, open_labels
from reprior.files.text_files import as_class_names

__all__ = [
    "MAX_BYTES",
    "MAX_ROWS",
    "Opened",
    "ScoreFile",
    "expand_paths",
    "none_left",
    "odd_pair",
    "open_all",
    "open_reader",
    "open_scores",
    "refuse_twice",
]


PathLike: TypeAlias = "str | os.PathLike[str]"


#: How a URL begins. Of one letter it would be a drive.
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")


def open_scores(
    paths: PathLike | Sequence[PathLike],
    *,
    labels: PathLike | Sequence[PathLike] | None = None,
    kind: str | None = None,
    classes: Sequence[Any] | PathLike | None = None,
    with_labels: bool = True,
    keep: bool = False,
    label_column: str = "label",
    weight_column: str | None = None,
    ignore_index: int | str | None = None,
    scores_name: str | None = None,
    labels_name: str = "labels",
    labels_as: str | None = None,
    class_axis: int | None = None,
    skip_unreadable: bool = False,
) -> ScoreFile:
    """Open score files: npy, npz, csv, parquet or zarr.

    Only headers are read here; :meth:`ScoreFile.chunks` streams the rest.

    Parameters
    ----------
    paths : path, pattern such as ``"val-*.parquet"``, or list of these
        Several files are one set of samples, in the order of their names for a pattern and as
        listed for a list. They have one format and the same classes. The class columns of tables
        are found by name, in the order of the first table's.
    labels : path, pattern or list of these, optional
        Labels in files of their own, in any of the formats. They win over labels inside. As many
        files as there are score files go with these one by one; else all are one sequence.
    kind : {"logits", "probs", "log_probs"}, optional
        What the scores are. Never guessed: without it, what the file states, or None.
    classes : list of names or path to a file of names, optional
        Names in the order of the class axis. In tables they also choose the columns.
    with_labels : bool, default True
        Whether to read labels and weights, where there are any.
    keep : bool, default False
        Whether chunks of tables carry all original columns.
    label_column, weight_column : str
        Columns of tables (in npz and zarr ``weight_column`` names an array; ``weight`` is found
        by itself).
    ignore_index : int or str, optional
        Label of samples to leave out. It is allowed outside the classes.
    scores_name, labels_name : str
        Arrays of npz and zarr. By default scores are ``scores``; in a file written by ``apply``,
        ``posterior``. In tables ``scores_name`` is the one column that holds the scores: lists,
        or of two classes the number of the second.
    labels_as : {"indices", "names"}, optional
        How to read integer labels where the class names are integers too. By default they index
        the classes.
    class_axis : {1, -1}, optional
        Where the classes are in arrays of more than two dimensions. By default where the shape
        of the labels or the number of class names says, else 1, as in (samples, classes, height,
        width).
    skip_unreadable : bool, default False
        Whether to pass over a file that is missing, truncated or damaged, from where it breaks;
        of npz, whose checksums are compared before, all of it. ``ScoreFile.left_out`` tells
        which, and how many samples are missing. Wrong values in a file that can be read are
        errors all the same.

    Returns
    -------
    ScoreFile

    Examples
    --------
    >>> import numpy as np
    >>> path = getfixture("tmp_path") / "val.npz"
    >>> np.savez(path, scores=np.eye(3), labels=np.array([0, 1, 2]), kind="probs")
    >>> file = open_scores(path)
    >>> file.format, file.kind, file.n_classes, file.n_samples
    ('npz', 'probs', 3, 3)
    >>> [chunk.labels.tolist() for chunk in file.chunks(max_bytes=48)]
    [[0, 1], [2]]
    """
    if kind is not None:
        check_kind(kind)
    if labels_as is not None:
        check_choice("labels_as", labels_as, ("indices", "names"))
    names = None if classes is None else as_class_names(classes)
    options = ReadOptions(
        classes=names,
        with_labels=with_labels,
        keep=keep,
        label_column=label_column,
        weight_column=weight_column,
        scores_name=scores_name,
        labels_name=labels_name,
    )
    label_paths = [] if labels is None or not with_labels else expand_paths(labels, "labels")
    opened = open_all(
        expand_paths(paths, "paths"), label_paths, options, _label_opener(options, ignore_index),
        skip=skip_unreadable,
    )  # fmt: skip
    return ScoreFile(
        opened.readers,
        opened.labels,
        kind=_common_kind(opened.readers, kind),
        class_names=_common_names(opened.readers, names),
        ignore_index=ignore_index,
        labels_as=labels_as,
        class_axis=class_axis,
        skip_unreadable=skip_unreadable,
        unopened=opened.left_out,
        notes=opened.notes,
        reordered=opened.reordered,
        reading=options,
    )


def _label_opener(
    options: ReadOptions, ignore_index: int | str | None
) -> Callable[[Path, Reader], LabelFile]:
    """Return what opens a file of labels, knowing the classes of the scores they are of."""

    def open_label(path: Path, reader: Reader) -> LabelFile:
        known = options.classes or reader.class_names
        return open_labels(path, options, None if known is None else (*known, str(ignore_index)))

    return open_label


def expand_paths(paths: PathLike | Sequence[PathLike], name: str) -> list[Path]:
    """Return the files that a path, a pattern or a list of these means.

    A path that exists is itself, even with a star in its name. A pattern gives its files sorted.
    """
    given: Any = paths
    one = isinstance(given, str | os.PathLike) or not isinstance(given, Iterable)
    listed: list[Any] = [given] if one else list(given)
    if not all(isinstance(item, str | os.PathLike) for item in listed):
        raise OptionError(
            f"`{name}` must be a path, a pattern or a list of these. Got "
            f"{type(paths).__name__}. Arrays go to the functions of the library as they are."
        )
    if not listed:
        raise OptionError(f"`{name}` must name at least one file. Got none. Name one.")
    found: list[Path] = []
    for item in listed:
        text = os.fspath(item)
        _refuse_url(name, text)
        if os.path.lexists(text) or not glob.has_magic(text):
            found.append(Path(text))
            continue
        matches = sorted(glob.glob(text, recursive=True))
        if not matches:
            raise FileNotFoundError(2, "no file matches the pattern", text)
        found.extend(map(Path, matches))
    return found


def _refuse_url(name: str, text: str) -> None:
    if _URL.match(text) and not os.path.lexists(text):
        what = "Score files" if name == "paths" else f"`{name}`"
        raise OptionError(
            f"{what} must be files of this machine. Got the URL {text!r}. Copy the files here; "
            f"of URLs, reprior fit --engine dask and engines.dask_fit read scores and labels."
        )


def _common_names(
    readers: Sequence[Reader], given: tuple[str, ...] | None
) -> tuple[str, ...] | None:
    """Return the class names of all files; refuse files of other classes or formats."""
    first = readers[0]
    for other in readers[1:]:
        for words, a, b in (
            ("format", first.format, other.format),
            ("classes, in one order", first.class_names, other.class_names),
            ("shape per sample", first.row_shape, other.row_shape),
        ):
            if a != b:
                raise FileFormatError(
                    f"Several score files must have the same {words}. Got "
                    f"{_difference(first, a, other, b)} Read them one by one, or make them alike."
                )
        if first.has_labels != other.has_labels:
            without = other if first.has_labels else first
            raise FileFormatError(
                f"Several score files must all have labels, or none. {os.fspath(without.path)!r} "
                f"has none. Add them, or pass labels in files of their own."
            )
    written = first.class_names
    if given is not None and written is not None and set(given) == set(written):
        _refuse_order(first, given, written)
    return given or written


def _difference(first: Reader, a: Any, other: Reader, b: Any) -> str:
    """Say in what two files differ: of class names, which of them only one file has."""
    named = first.class_names == a and other.class_names == b and a is not None and b is not None
    alone = apart({first.path: a, other.path: b}) if named else ""
    if not alone:
        sides = ((a, first), (b, other))
        return " and ".join(f"{_brief(v)} in {os.fspath(r.path)!r}" for v, r in sides) + "."
    tables = " Every numeric column of a table is a class, unless `classes` names these."
    return f"{alone}.{tables if isinstance(other, TableReader) else ''}"


def _refuse_order(reader: Reader, given: tuple[str, ...], written: tuple[str, ...]) -> None:
    """Refuse class names in another order than that of the arrays. Tables are re-ordered."""
    if given != written and reader.format not in ("csv", "parquet"):
        raise OptionError(
            f"`classes` must be in the order of the scores. Got {few(given)}, and "
            f"{os.fspath(reader.path)!r} states {few(written)}. Leave `classes` out, or reorder it."
        )


def _brief(value: Any) -> str:
    if isinstance(value, tuple) and value and isinstance(value[0], str):
        return few(value)
    return repr(value)


def _common_kind(readers: Sequence[Reader], given: str | None) -> str | None:
    """Return what is given or written; refuse a contradiction."""
    kind = given
    for reader in readers:
        if reader.kind is None:
            continue
        if kind is not None and kind != reader.kind:
            raise OptionError(
                f"`kind` must be what the file states. Got {kind!r}, and "
                f"{os.fspath(reader.path)!r} states {reader.kind!r}. "
                f"Leave `kind` out, or write the file again."
            )
        kind = reader.kind
    return kind


@dataclass(eq=False)
class Opened:
    """The files that have something to read, and what is to be said of the others."""

    readers: list[Reader] = field(default_factory=list)
    labels: list[LabelFile] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    reordered: Path | None = None  # the first whose columns are taken in another order than its own


def open_reader(path: Path, options: ReadOptions) -> Reader:
    """Open one file by the module of its format."""
    found = detect_format(path)
    module = importlib.import_module(f"reprior.files.formats.{found}")
    return cast(Reader, getattr(module, f"open_{found}")(path, options))


def open_all(
    paths: Sequence[Path],
    label_paths: Sequence[Path],
    options: ReadOptions,
    open_label: Callable[[Path, Reader], LabelFile],
    *,
    skip: bool,
) -> Opened:
    """Open score files and the files of their labels.

    An empty one among several is passed over with a note, and with ``skip`` one that cannot be
    opened too. Where there is a label file for each, that one goes with it. Columns of tables are
    taken in the order of the first.
    """
    refuse_twice(paths, label_paths)
    found, paired = Opened(), len(paths) == len(label_paths)
    nothing: NoRowsError | None = None
    for i, path in enumerate(paths):
        try:
            own = open_reader(path, options)
            reader = _in_order(own, found.readers, options)
            label = open_label(label_paths[i], reader) if paired else None
        except NoRowsError as error:
            nothing = nothing or error
            found.notes.append(_passed_by(path))
            continue
        except UNREADABLE as error:
            if not skip or isinstance(error, ColumnsError):
                raise
            _refuse_gap(path, label_paths, paired, error)
            found.left_out.append(LeftOut(path, None, str(error)))
            continue
        if reader.n_rows == 0 and len(paths) > 1:
            found.notes.append(_passed_by(path))
            continue
        found.readers.append(reader)
        if reader is not own and found.reordered is None:
            found.reordered = path
        if label is not None:
            found.labels.append(label)
    if not found.readers:
        raise nothing or none_left(paths, found.left_out)
    if not paired:
        found.labels = [open_label(path, found.readers[0]) for path in label_paths]
    return found


def refuse_twice(
    paths: Sequence[str | os.PathLike[str]],
    labels: Sequence[str | os.PathLike[str] | None] = (),
) -> None:
    """Refuse a score file that is named twice, by whatever path: its samples would count twice.

    Where each has a file of labels of its own, that one must be the same too. URLs are compared as
    they are written.
    """
    own = labels if len(labels) == len(paths) else [None] * len(paths)
    seen: dict[tuple[str, str], str] = {}
    for path, label in zip((os.fspath(path) for path in paths), own, strict=True):
        key = (_real(path), "" if label is None else _real(os.fspath(label)))
        if key in seen:
            twice = f"{path!r} twice"
            if seen[key] != path:
                twice = f"{seen[key]!r} and {path!r}, which are the same file"
            raise OptionError(
                f"Score files must be named once each. Got {twice}: its samples would count twice. "
                f"Name it once; where patterns overlap, narrow one of them."
            )
        seen[key] = path


def _real(path: str) -> str:
    return path if "://" in path else os.path.realpath(path)


def _in_order(reader: Reader, before: Sequence[Reader], options: ReadOptions) -> Reader:
    """Return a table with its class columns, found by name, in the order of the first table's."""
    if not before or not isinstance(reader, TableReader):
        return reader
    names, mine = before[0].class_names, reader.class_names
    if names is None or mine is None or names == mine or set(names) != set(mine):
        return reader
    if reader.plan.scores != mine:  # a list, or columns that have other names than the classes
        return reader
    return open_reader(reader.path, replace(options, classes=names))


def _passed_by(path: Path) -> str:
    return f"{os.fspath(path)!r} has no rows, and is passed by."


def _refuse_gap(
    path: Path, label_paths: Sequence[Path], paired: bool, error: BaseException
) -> None:
    """Refuse to leave a file out whose labels stand among those of others."""
    if label_paths and not paired:
        raise FileFormatError(
            f"{os.fspath(path)!r} cannot be left out: the labels of all files are one sequence, "
            f"and how many of them are its own is not known. Give a file of labels for each file "
            f"of scores. It cannot be read because: {error}"
        ) from error


def none_left(paths: Sequence[Path], left_out: Sequence[LeftOut]) -> FileFormatError:
    """Return the error for files of which none can be read, or none has rows."""
    if left_out:
        return FileFormatError(
            f"At least one score file must be readable. Got {len(paths)}, and none is. "
            f"The first one: {left_out[0].reason}"
        )
    return NoRowsError(
        f"Score files must have rows. Got none in any of {len(paths)} files. "
        f"Check that they were written to their end."
    )


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


def odd_pair(scores: Path, labels: Path) -> bool:
    """Whether the numbers in two names do not go together.

    Examples
    --------
    >>> odd_pair(Path("resnet50-2.npy"), Path("labels-002.csv"))
    False
    >>> odd_pair(Path("scores-2.npy"), Path("labels-3.npy"))
    True
    """
    mine, theirs = ([int(n) for n in re.findall(r"\d+", path.stem)] for path in (scores, labels))
    common = min(len(mine), len(theirs))
    return common > 0 and mine[-common:] != theirs[-common:]
