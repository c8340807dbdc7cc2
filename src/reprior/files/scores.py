"""Open score files of any format as one re-iterable source of chunks.

:func:`open_scores` reads headers and checks that the files go together; :class:`ScoreFile` reads
the samples, as often as wanted.
"""

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

from reprior.core.checks import check_choice, check_kind
from reprior.core.threads import prefetch
from reprior.exceptions import (
    Argument,
    FileFormatError,
    LabelsError,
    OptionError,
    Reference,
    RepriorError,
    ScoresError,
)
from reprior.files.chunks import UNREADABLE, Chunk, Group, LeftOut, Place, Walk
from reprior.files.detect import TABLES, detect_format
from reprior.files.formats.interface import (
    ColumnsError,
    NoRowsError,
    Reader,
    ReadOptions,
    apart,
    few,
    no_rows,
)
from reprior.files.formats.table_files import TableReader
from reprior.files.labels import LabelCoder, LabelFile, odd_integers, open_labels
from reprior.files.text_files import as_class_names

__all__ = [
    "MAX_BYTES",
    "MAX_ROWS",
    "ScoreFile",
    "expand_paths",
    "none_left",
    "open_reader",
    "open_scores",
    "refuse_repeated_files",
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
        Whether to skip a file that is missing, truncated or damaged, from the damage on; npz files,
        whose checksums are compared first, are skipped as a whole. ``ScoreFile.left_out`` lists
        them, and how many samples are missing. Wrong values in a file that can be read are
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
    opened = _open_all(
        expand_paths(paths, "paths"),
        label_paths,
        options,
        _label_opener(options, ignore_index),
        skip=skip_unreadable,
    )
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
        options=options,
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
    is_one = isinstance(given, str | os.PathLike) or not isinstance(given, Iterable)
    items: list[Any] = [given] if is_one else list(given)
    if not all(isinstance(item, str | os.PathLike) for item in items):
        raise OptionError(
            argument=name,
            rule="must be a path, a pattern or a list of these",
            got=type(paths).__name__,
            remedy="Arrays go to the functions of the library as they are.",
        )
    if not items:
        raise OptionError(
            argument=name, rule="must name at least one file", got="none", remedy="Name one."
        )
    expanded: list[Path] = []
    for item in items:
        text = os.fspath(item)
        _refuse_url(name, text)
        if os.path.lexists(text) or not glob.has_magic(text):
            expanded.append(Path(text))
            continue
        matches = sorted(glob.glob(text, recursive=True))
        if not matches:
            raise FileNotFoundError(2, "no file matches the pattern", text)
        expanded.extend(map(Path, matches))
    return expanded


def _refuse_url(name: str, text: str) -> None:
    if _URL.match(text) and not os.path.lexists(text):
        files: str | Argument = "Score files" if name == "paths" else Argument(name)
        raise OptionError(
            [files, " must be files of this machine."],
            got=f"the URL {text!r}",
            remedy=(
                "Copy the files here; of URLs, reprior fit --engine dask and engines.dask_fit "
                "read scores and labels."
            ),
        )


def _common_names(
    readers: Sequence[Reader], given: tuple[str, ...] | None
) -> tuple[str, ...] | None:
    """Return the class names of all files; refuse files of other classes or formats."""
    first = readers[0]
    for other in readers[1:]:
        for property_name, a, b in (
            ("format", first.format, other.format),
            ("classes, in one order", first.class_names, other.class_names),
            ("shape per sample", first.row_shape, other.row_shape),
        ):
            if a != b:
                raise FileFormatError(
                    f"Several score files must have the same {property_name}.",
                    got=_difference(first, a, other, b),
                    remedy=[
                        *_hint_on_tables(first, other, property_name),
                        "Read them one by one, or make them alike.",
                    ],
                )
        if first.has_labels != other.has_labels:
            without = other if first.has_labels else first
            raise FileFormatError(
                f"Several score files must all have labels, or none. "
                f"{os.fspath(without.path)!r} has none.",
                remedy="Add them, or pass labels in files of their own.",
            )
    written = first.class_names
    if given is not None and written is not None and set(given) == set(written):
        _refuse_order(first, given, written)
    return given or written


def _difference(first: Reader, a: Any, other: Reader, b: Any) -> str:
    """Return in what two files differ: of class names, which of them only one file has."""
    alone = _names_alone(first, other) if a == first.class_names else ""
    sides = ((a, first), (b, other))
    return alone or " and ".join(f"{_brief(v)} in {os.fspath(r.path)!r}" for v, r in sides)


def _names_alone(first: Reader, other: Reader) -> str:
    if first.class_names is None or other.class_names is None:
        return ""
    return apart({first.path: first.class_names, other.path: other.class_names})


def _hint_on_tables(first: Reader, other: Reader, property_name: str) -> list[str | Reference]:
    is_on_names = property_name.startswith("classes") and bool(_names_alone(first, other))
    if not is_on_names or not isinstance(other, TableReader):
        return []
    return [
        "Every numeric column of a table is a class, unless ",
        Argument("classes"),
        " names these. ",
    ]


def _refuse_order(reader: Reader, given: tuple[str, ...], written: tuple[str, ...]) -> None:
    """Refuse class names in another order than that of the arrays. Tables are re-ordered."""
    if given != written and reader.format not in TABLES:
        raise OptionError(
            argument="classes",
            rule="must be in the order of the scores",
            got=f"{few(given)}, and {os.fspath(reader.path)!r} states {few(written)}",
            remedy=["Leave ", Argument("classes"), " out, or reorder it."],
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
                argument="kind",
                rule="must be what the file states",
                got=f"{kind!r}, and {os.fspath(reader.path)!r} states {reader.kind!r}",
                remedy=["Leave ", Argument("kind"), " out, or write the file again."],
            )
        kind = reader.kind
    return kind


@dataclass(eq=False)
class _Opened:
    """The files that have something to read, and notes about the others."""

    readers: list[Reader] = field(default_factory=list)
    labels: list[LabelFile] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    reordered: Path | None = None  # the first whose columns are taken in another order than its own


def open_reader(path: Path, options: ReadOptions) -> Reader:
    """Open one file by the module of its format."""
    file_format = detect_format(path)
    module = importlib.import_module(f"reprior.files.formats.{file_format}")
    return cast(Reader, getattr(module, f"open_{file_format}")(path, options))


def _open_all(
    paths: Sequence[Path],
    label_paths: Sequence[Path],
    options: ReadOptions,
    open_label: Callable[[Path, Reader], LabelFile],
    *,
    skip: bool,
) -> _Opened:
    """Open score files and the files of their labels.

    An empty one among several is skipped with a note, and with ``skip`` one that cannot be
    opened too. Where there is a label file for each, that one goes with it. Columns of tables are
    taken in the order of the first.
    """
    refuse_repeated_files(paths, label_paths)
    opened = _Opened()
    is_paired = len(paths) == len(label_paths)
    first_without_rows: NoRowsError | None = None
    for i, path in enumerate(paths):
        try:
            original = open_reader(path, options)
            reader = _in_order_of(opened.readers, original, options)
            label = open_label(label_paths[i], reader) if is_paired else None
        except NoRowsError as error:
            first_without_rows = first_without_rows or error
            opened.notes.append(_skipped(path))
            continue
        except UNREADABLE as error:
            if not skip or isinstance(error, ColumnsError):
                raise
            if label_paths and not is_paired:
                raise _gap(path, error) from error
            opened.left_out.append(LeftOut.because_of(error, path))
            continue
        if reader.n_rows == 0 and len(paths) > 1:
            opened.notes.append(_skipped(path))
            continue
        opened.readers.append(reader)
        if reader is not original and opened.reordered is None:
            opened.reordered = path
        if label is not None:
            opened.labels.append(label)
    if not opened.readers:
        raise first_without_rows or none_left(paths, opened.left_out)
    if not is_paired:
        opened.labels = [open_label(path, opened.readers[0]) for path in label_paths]
    return opened


def refuse_repeated_files(
    paths: Sequence[str | os.PathLike[str]],
    labels: Sequence[str | os.PathLike[str] | None] = (),
) -> None:
    """Refuse a score file that is named twice, by whatever path: its samples would count twice.

    Where each has a file of labels of its own, that one must be the same too. URLs are compared as
    they are written.
    """
    paired = labels if len(labels) == len(paths) else [None] * len(paths)
    seen: dict[tuple[str, str], str] = {}
    for path, label in zip((os.fspath(path) for path in paths), paired, strict=True):
        key = (_real(path), "" if label is None else _real(os.fspath(label)))
        if key in seen:
            twice = f"{path!r} twice"
            if seen[key] != path:
                twice = f"{seen[key]!r} and {path!r}, which are the same file"
            raise OptionError(
                "Score files must be named once each.",
                got=f"{twice}: its samples would count twice",
                remedy="Name it once; where patterns overlap, narrow one of them.",
            )
        seen[key] = path


def _real(path: str) -> str:
    return path if "://" in path else os.path.realpath(path)


def _in_order_of(before: Sequence[Reader], reader: Reader, options: ReadOptions) -> Reader:
    """Return a table with its class columns, found by name, in the order of the first table's."""
    if not before or not isinstance(reader, TableReader):
        return reader
    names = before[0].class_names
    own_names = reader.class_names
    if names is None or own_names is None or names == own_names or set(names) != set(own_names):
        return reader
    if reader.plan.scores != own_names:  # a list, or columns that have other names than the classes
        return reader
    return open_reader(reader.path, replace(options, classes=names))


def _skipped(path: Path) -> str:
    return f"{os.fspath(path)!r} has no rows, and is skipped."


def _gap(path: Path, error: BaseException) -> FileFormatError:
    """Return the error for skipping a file whose labels are in one sequence with others."""
    return FileFormatError(
        f"{os.fspath(path)!r} cannot be left out: the labels of all files are one sequence, "
        f"and how many of them are its own is not known.",
        remedy=[
            "Give a file of labels for each file of scores. It cannot be read because: ",
            error if isinstance(error, RepriorError) else str(error),
        ],
    )


def none_left(paths: Sequence[Path], left_out: Sequence[LeftOut]) -> FileFormatError:
    """Return the error for files of which none can be read, or none has rows."""
    if left_out:
        return FileFormatError(
            "At least one score file must be readable.",
            got=f"{len(paths)}, and none is",
            remedy=f"The first one: {left_out[0].reason}",
        )
    return NoRowsError(
        "Score files must have rows.",
        got=f"none in any of {len(paths)} files",
        remedy="Check that they were written to their end.",
    )


MAX_BYTES = 1 << 23
"""Bytes of scores in a chunk by default: three chunks fit into a large cache, and the work on one
outweighs the overhead of a chunk."""

MAX_ROWS = 1 << 18
"""Samples in a chunk: of few classes, labels, weights and winners weigh more than the scores."""

FIRST_ROWS = 1 << 10
"""Samples whose labels show whether labels are names."""


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
        options: ReadOptions | None = None,
    ) -> None:
        first = readers[0]
        self.readers = tuple(readers)
        self.paths = tuple(reader.path for reader in readers)
        self.label_paths = tuple(file.path for file in label_files)
        self.format = first.format
        self.kind = kind
        self.class_names = class_names
        self.columns = first.columns
        self.dtype = np.result_type(*(reader.dtype for reader in readers))
        self.has_labels = bool(label_files) or first.has_labels
        self.has_weight = first.has_weight
        self.label_dtype = label_files[0].dtype if label_files else first.label_dtype
        self.skip_unreadable = skip_unreadable
        self._label_files = tuple(label_files)
        self._labels_as = labels_as
        self._ignore_index = ignore_index
        self._reordered = reordered
        self._options = options or ReadOptions()
        self._unopened = tuple(unopened)
        self._broken: tuple[LeftOut, ...] = ()
        self._n_counted: int | None = None
        self.class_axis = self._find_class_axis(class_axis)
        self.n_classes = self._count_classes()
        self.ignore_index = self._coder().ignored
        self.notes = (*notes, *self._make_notes())
        self._check_rows()

    @property
    def n_samples(self) -> int | None:
        """Number of samples, where it is known."""
        if self._n_counted is None:
            self._n_counted = _total(self.readers)
        return self._n_counted

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
        columns = f" It has {few(self.columns)}." if self.columns else ""
        raise LabelsError(
            argument="labels",
            rule="must be given",
            remedy=(
                f"{os.fspath(self.paths[0])!r} has none.{columns} "
                f"Pass labels in a file of their own{inside}."
            ),
        )

    def chunks(
        self, max_bytes: int = MAX_BYTES, *, after: Place | None = None, check_values: bool = True
    ) -> Iterator[Chunk]:
        """Give all samples from the beginning, in chunks of at most ``max_bytes`` of scores.

        A chunk has at least one sample, and never samples of two files. The next one is read
        while the present one is worked on.

        ``after`` is where to begin instead: ``chunk.after`` of the last one that is not wanted,
        of chunks of the same size. Without ``check_values``, scores that have no weights are not
        searched for NaN: the caller does that, and calls ``chunk.refuse``.
        """
        if max_bytes < 1:
            raise OptionError(
                argument="max_bytes",
                rule="must be positive",
                got=f"{max_bytes}",
                remedy="Leave it out, or raise it.",
            )
        row_bytes = self.dtype.itemsize * _size(self.readers[0].row_shape)
        rows = max(1, min(max_bytes // max(1, row_bytes), MAX_ROWS))
        walk = Walk(
            self._groups(),
            self._coder(),
            rows=rows,
            dtype=self.dtype,
            after=after,
            check_labels=self._check_label_shape,
            class_axis=self.class_axis,
            skip=self.skip_unreadable,
            check_values=check_values,
        )
        chunks = walk.chunks()
        is_one_chunk = self.n_samples is not None and self.n_samples <= rows
        yield from chunks if is_one_chunk else prefetch(chunks)
        if walk.start == 0:
            left_out = (*self._unopened, *walk.left_out)
            raise none_left(self.paths, left_out) if left_out else no_rows(self.paths[0])
        self._n_counted = walk.start
        self._broken = tuple(walk.left_out)

    @property
    def reading(self) -> dict[str, Any]:
        """What decides which samples are read of the files, and what they mean."""
        names = ("label_column", "weight_column", "scores_name", "labels_name")
        ignored = None if self._ignore_index is None else str(self._ignore_index)
        return {
            **{name: getattr(self._options, name) for name in names},
            "labels_as": self._labels_as,
            "class_names": None if self.class_names is None else list(self.class_names),
            "ignored label": ignored,
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
            self.class_names, self.n_classes, self._ignore_index, self._labels_as, self._reordered
        )

    def _find_class_axis(self, given: int | None) -> int:
        shape = self.readers[0].row_shape
        ndim = 1 + len(shape)
        inside = given is None or -ndim <= given < ndim
        if ndim > 1 and given is not None and not (inside and given % ndim in (1, ndim - 1)):
            raise OptionError(
                argument="class_axis",
                rule=f"must be 1 or -1 for scores of shape {_shape_of_all(shape)}",
                got=f"{given!r}",
                remedy="Samples come first; classes are second or last.",
            )
        if len(shape) < 2:
            return -1
        if given is not None:
            return 1 if given % ndim == 1 else -1
        names = self.class_names
        label_shape = self._label_shape()
        if label_shape is not None:
            return -1 if label_shape == shape[:-1] != shape[1:] else 1
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
                argument="scores",
                rule="must have a number per class",
                got=f"shape {self.shape} in {path!r}",
                remedy="Save an array of shape (samples, classes).",
            )
        n = 2 if n == 1 else n
        if self.class_names is not None and len(self.class_names) != n:
            raise FileFormatError(
                argument="classes",
                rule="must name every class once",
                got=(
                    f"{len(self.class_names)} names ({few(self.class_names)}) and scores of {n} "
                    f"classes in {path!r}"
                ),
                remedy="Name them in the order of the scores.",
            )
        expected = shape[1:] if self.class_axis == 1 else shape[:-1]
        labels = self._label_shape()
        if labels is not None and labels != expected:
            self._check_label_shape(labels)
        return n

    def _check_label_shape(self, label_shape: tuple[int, ...]) -> None:
        shape = self.readers[0].row_shape
        expected = shape[1:] if self.class_axis == 1 else shape[:-1]
        if tuple(label_shape) != tuple(expected):
            raise LabelsError(
                argument="labels",
                rule=(
                    f"must have the shape of the scores without the class axis, "
                    f"{_shape_of_all(expected)}"
                ),
                got=(
                    f"{_shape_of_all(label_shape)} and scores of shape {_shape_of_all(shape)} in "
                    f"{os.fspath(self.paths[0])!r}"
                ),
                remedy="Save one class index per sample, or per pixel.",
            )

    def _check_rows(self) -> None:
        if self.n_samples == 0:
            raise no_rows(self.paths[0])
        for group in self._groups():
            n_rows = _total(group.readers)
            n_labels = _total(group.files)
            if group.files and n_rows is not None and n_labels is not None and n_rows != n_labels:
                raise group.mismatch(n_labels, n_rows)

    def _first_reordered(self) -> Reader | None:
        """The first file by the order of whose columns integer labels would mean other classes."""
        if self.format not in TABLES:
            return None
        names = self.class_names or ()
        known = set(names)
        for reader in self.readers:
            columns = tuple(name for name in reader.columns if name in known)
            if len(columns) == len(names) and columns != names:
                return None if self._labels_are_names() else reader
        return None

    def _labels_are_names(self) -> bool:
        """Whether labels are written as names; the first ones decide, since all are alike."""
        first = self.readers[0]
        try:
            if self._label_files:
                labels = next(self._label_files[0].blocks(FIRST_ROWS), None)
            else:
                labels = first.first_labels(FIRST_ROWS) if isinstance(first, TableReader) else None
        except RepriorError:  # raised when they are read, or left out
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
            yield "Labels were read from their own file; those beside the scores were ignored."
        pairs = zip(self.paths, self.label_paths, strict=False)
        odd = [(a, b) for a, b in pairs if _numbers_differ(a, b)]
        if odd and len(self.paths) == len(self.label_paths) > 1:
            yield (
                f"Labels go with scores in the order given: {os.fspath(odd[0][1])!r} with "
                f"{os.fspath(odd[0][0])!r}. Check that they belong together."
            )
        reordered = self._first_reordered() if self.has_labels and self._reordered is None else None
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


def _numbers_differ(scores: Path, labels: Path) -> bool:
    """Whether the numbers in two names do not go together.

    Examples
    --------
    >>> _numbers_differ(Path("resnet50-2.npy"), Path("labels-002.csv"))
    False
    >>> _numbers_differ(Path("scores-2.npy"), Path("labels-3.npy"))
    True
    """
    of_scores, of_labels = (
        [int(n) for n in re.findall(r"\d+", path.stem)] for path in (scores, labels)
    )
    common = min(len(of_scores), len(of_labels))
    return common > 0 and of_scores[-common:] != of_labels[-common:]
