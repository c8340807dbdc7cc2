"""Score files of any format, opened as one re-iterable source of chunks."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from reprior.core.checks import check_choice, check_kind
from reprior.exceptions import FileFormatError, OptionError
from reprior.files.class_names import as_class_names
from reprior.files.formats.interface import Reader, ReadOptions, apart, few
from reprior.files.formats.tables import TableReader
from reprior.files.labels import LabelFile, open_labels
from reprior.files.opening import open_all
from reprior.files.score_file import MAX_BYTES, ScoreFile

__all__ = ["MAX_BYTES", "ScoreFile", "expand_paths", "open_scores"]

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
