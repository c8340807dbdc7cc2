"""Class counts and priors in small files: JSON, CSV, or the labels themselves."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from reprior.core.checks import check_choice
from reprior.exceptions import FileFormatError, LabelsError, PriorError, Setting, Text, Words
from reprior.files.formats.interface import NamedLabels, ReadOptions, few
from reprior.files.labels import (
    LabelCoder,
    LabelFile,
    is_index,
    open_labels,
    plain_label,
    whole_numbers,
)
from reprior.files.scores import expand_paths
from reprior.files.text_files import (
    as_class_names,
    csv_rows,
    is_json,
    json_of,
    order_of,
    read_class_names,
    refuse_twice,
    text_of,
)

__all__ = ["counts_from_labels", "read_class_names", "read_counts", "read_prior"]

Vector: TypeAlias = np.ndarray[Any, Any]
PathLike: TypeAlias = "str | os.PathLike[str]"

#: By how much a prior may miss 1, as everywhere in reprior.
SUM_TOLERANCE = 1e-6

_FORMS = (
    'a JSON list of numbers, a JSON object {"class": number}, or CSV with a number per line '
    "or `class,number`"
)


def read_counts(
    path: PathLike, classes: Sequence[Any] | PathLike | None = None
) -> tuple[Vector, tuple[str, ...] | None]:
    """Read one number per class.

    Parameters
    ----------
    path : path
        A JSON list or ``{class: count}``; or CSV with one count per line, or ``class,count``,
        with or without a header.
    classes : list of names or path, optional
        Names in the order wanted. Named counts are put into this order; a name that is missing
        or unknown is an error.

    Returns
    -------
    counts : ndarray of shape (K,)
    names : tuple of str or None
        Names of the classes, where the file has names.

    Examples
    --------
    >>> path = getfixture("tmp_path") / "counts.json"
    >>> _ = path.write_text('{"cat": 900, "dog": 100}')
    >>> read_counts(path)
    (array([900., 100.]), ('cat', 'dog'))
    >>> read_counts(path, classes=["dog", "cat"])[0]
    array([100., 900.])
    """
    return _read(path, classes, what="counts")


def read_prior(
    path: PathLike, classes: Sequence[Any] | PathLike | None = None
) -> tuple[Vector, tuple[str, ...] | None]:
    r"""Read one probability per class, in the formats of :func:`read_counts`.

    They must sum to 1 within 1e-6.

    Examples
    --------
    >>> path = getfixture("tmp_path") / "prior.csv"
    >>> _ = path.write_text("0.75\n0.25\n")
    >>> read_prior(path)
    (array([0.75, 0.25]), None)
    """
    values, names = _read(path, classes, what="probabilities")
    total = math.fsum(values)
    if abs(total - 1) > SUM_TOLERANCE:
        are_whole = bool((values == np.floor(values)).all())
        remedy: Text = "Divide them by their sum."
        if are_whole or total > 2:
            counts = Words(", or pass them as counts", ", or pass --counts")
            remedy = ["These look like counts: divide them by their sum", counts, "."]
        raise PriorError(
            f"{os.fspath(path)!r} must hold probabilities that sum to 1.",
            got=f"a sum of {total:g}",
            remedy=remedy,
        )
    return values, names


def counts_from_labels(
    path: PathLike | Sequence[PathLike],
    *,
    classes: Sequence[Any] | PathLike | None = None,
    n_classes: int | None = None,
    label_column: str = "label",
    labels_name: str = "labels",
    ignore_index: int | str | None = None,
    labels_as: str | None = None,
) -> tuple[Vector, tuple[str, ...] | None]:
    """Count the labels of each class in files of labels, of any format.

    Without ``classes`` and ``n_classes``, integer labels make max + 1 classes, and names are
    classes in sorted order. Where the names of ``classes`` are integers, integer labels index
    them, unless ``labels_as="names"`` says that they are these names.

    Returns
    -------
    counts : ndarray of shape (K,)
    names : tuple of str or None

    Examples
    --------
    >>> import numpy as np
    >>> path = getfixture("tmp_path") / "train-labels.npy"
    >>> np.save(path, np.array([0, 0, 1, 0]))
    >>> counts_from_labels(path, n_classes=3)
    (array([3., 1., 0.]), None)
    """
    if labels_as is not None:
        check_choice("labels_as", labels_as, ("indices", "names"))
    names = None if classes is None else as_class_names(classes)
    options = ReadOptions(label_column=label_column, labels_name=labels_name)
    files = [open_labels(file, options, names) for file in expand_paths(path, "path")]
    known = len(names) if names is not None else n_classes
    if known is None:
        return _tally(files, ignore_index)
    coder = LabelCoder(names, known, ignore_index, labels_as)
    counts = np.zeros(known)
    for file in files:
        row = 0
        for labels in file.blocks(_LABELS_AT_ONCE):
            codes = coder.encode(labels, _where(file, row)).reshape(-1)
            inside = codes[(codes >= 0) & (codes < known) & (codes != coder.ignored)]
            counts += np.bincount(inside, minlength=known)
            row += len(labels)
    return counts, names


_LABELS_AT_ONCE = 1 << 18

#: Classes that labels alone may make: their counts take 80 MB.
_MOST_CLASSES = 10_000_000


def _where(file: LabelFile, start: int) -> Any:
    return lambda row: f"{file.place(start + row)} of {os.fspath(file.path)!r}"


def _tally(
    files: Sequence[LabelFile], ignore_index: int | str | None
) -> tuple[Vector, tuple[str, ...] | None]:
    """Count labels of classes without given names."""
    tallies: dict[str, int] = {}
    for file in files:
        row = 0
        for labels in file.blocks(_LABELS_AT_ONCE):
            if isinstance(labels, NamedLabels):
                values = map(plain_label, labels.values)
                tally = np.bincount(labels.codes.reshape(-1), minlength=len(labels.values))
            else:
                numbers, tally = np.unique(
                    whole_numbers(labels, _where(file, row)), return_counts=True
                )
                values = map(str, numbers.tolist())
            for name, n in zip(values, tally.tolist(), strict=True):
                tallies[name] = tallies.get(name, 0) + n
            row += len(labels)
    tallies.pop(plain_label(str(ignore_index)), None)
    tallies = {name: n for name, n in tallies.items() if n}
    if not tallies:
        raise LabelsError(
            f"{os.fspath(files[0].path)!r} must have labels.", got="none", remedy="Check the file."
        )
    index = {int(name): n for name, n in tallies.items() if is_index(name)}
    if len(index) < len(tallies):  # int() takes 1_0 for 10
        names = tuple(sorted(tallies))
        return np.array([float(tallies[name]) for name in names]), names
    if min(index) < 0:
        raise LabelsError(
            argument="labels",
            rule="must be class indices from 0",
            got=f"{min(index)} in {os.fspath(files[0].path)!r}",
            remedy=[
                "Correct it, or pass ",
                Setting("ignore_index", min(index)),
                " to leave such samples out.",
            ],
        )
    if max(index) >= _MOST_CLASSES:
        raise LabelsError(
            argument="labels",
            rule=f"must be class indices below {_MOST_CLASSES:,}",
            got=f"{max(index)} in {os.fspath(files[0].path)!r}",
            remedy="Correct it, or pass the class names if labels are names.",
        )
    counts = np.zeros(max(index) + 1)
    counts[list(index)] = list(index.values())
    return counts, None


def _read(
    path: PathLike, classes: Sequence[Any] | PathLike | None, *, what: str
) -> tuple[Vector, tuple[str, ...] | None]:
    path = Path(path)
    wanted = None if classes is None else as_class_names(classes)
    remedy = "Labels are counted by --counts-from-labels."
    text = text_of(path, f"hold {what}: {_FORMS}", remedy)
    if is_json(text):
        names, values = _from_json(path, text, what)
    else:
        names, values = _from_csv(path, text, what)
    if len(values) < 2:
        raise FileFormatError(
            f"{os.fspath(path)!r} must hold {what} of at least two classes.",
            got=f"{len(values)}",
            remedy=f"Write {_FORMS}.",
        )
    return _ordered(path, names, np.array(values, dtype=np.float64), wanted, what)


def _from_json(path: Path, text: str, what: str) -> tuple[list[str] | None, list[float]]:
    document = json_of(path, text, what)
    if isinstance(document, tuple):
        values = [_number(path, repr(name), value, what) for name, value in document]
        return [name for name, _ in document], values
    return None, [_number(path, f"entry {i}", v, what) for i, v in enumerate(document)]


def _from_csv(path: Path, text: str, what: str) -> tuple[list[str] | None, list[float]]:
    rows, delimiter = csv_rows(path, text, f"hold {what}: {_FORMS}")
    if rows and not _is_number(rows[0][1][-1]) and not rows[0][1][-1][:1].isdigit():
        rows = rows[1:]
    widths = {len(row) for _, row in rows}
    if not widths <= {1} and not widths <= {2}:
        line = next(line for line, row in rows if len(row) != len(rows[0][1]) or len(row) > 2)
        raise FileFormatError(
            f"{os.fspath(path)!r} must hold {what}: {_FORMS}.",
            got=f"another number of columns in line {line}",
            remedy="Correct that line; write numbers without separators of thousands.",
        )
    if delimiter == "," and widths == {2}:
        _refuse_thousands(path, rows)
    values = [_number(path, f"line {line}", row[-1], what) for line, row in rows]
    return ([row[0] for _, row in rows] if widths == {2} else None), values


def _refuse_thousands(path: Path, rows: Sequence[tuple[int, list[str]]]) -> None:
    """Refuse 1,000, which is a thousand to a person and class 1 with 0 samples to csv."""
    for line, (name, number) in rows:
        if name.isdecimal() and len(number) == 3 and number[0] == "0" and number.isdecimal():
            raise FileFormatError(
                f"{os.fspath(path)!r} must have numbers without separators of thousands.",
                got=(
                    f"{name},{number} in line {line}, which is class {name} and "
                    f"{float(number):g} in csv"
                ),
                remedy=f"Write {name}{number}, or the class and the number.",
            )


def _is_number(text: Any) -> bool:
    try:
        float(text)
    except (TypeError, ValueError):
        return False
    return True


def _number(path: Path, place: str, value: Any, what: str) -> float:
    plain = not isinstance(value, bool) and isinstance(value, int | float | str)
    try:
        number = float(value) if plain else math.nan
    except (ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number) or number < 0:
        raise PriorError(
            f"{os.fspath(path)!r} must hold {what}, finite and not negative.",
            got=f"{value!r} at {place}",
            remedy="Correct it.",
        )
    return number


def _ordered(
    path: Path,
    names: list[str] | None,
    values: Vector,
    wanted: tuple[str, ...] | None,
    what: str,
) -> tuple[Vector, tuple[str, ...] | None]:
    """Put named numbers into the order of the classes."""
    if wanted is not None and names is not None:
        return values[order_of(path, names, wanted, PriorError)], wanted
    if names is not None:
        refuse_twice(path, names)
        return _by_index(names, values)
    if wanted is not None and len(values) != len(wanted):
        raise PriorError(
            f"{os.fspath(path)!r} must hold {what} of the {len(wanted)} classes.",
            got=f"{len(values)} numbers",
            remedy=f"Give one per class, in the order {few(wanted)}.",
        )
    return values, None


def _by_index(names: list[str], values: Vector) -> tuple[Vector, tuple[str, ...] | None]:
    """Take the names 0 … K−1 as indices, in any order, where no class names are given."""
    if sorted(names) != sorted(str(i) for i in range(len(names))):
        return values, tuple(names)
    return values[np.argsort([int(name) for name in names])], None
