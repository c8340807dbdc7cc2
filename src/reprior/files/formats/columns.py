"""Which columns of a table are classes, labels and weights, and which are neither."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from reprior.files.formats.interface import ColumnsError, ReadOptions, few

__all__ = ["PREDICTION", "SCORE_SUFFIX", "ColumnPlan", "plan_columns", "refuse_repeats"]

PREDICTION = "prediction"
"""The column that ``apply`` adds. It is never a class."""

SCORE_SUFFIX = ".score"
"""``apply --keep`` keeps the scores of class ``x`` as ``x.score``. They are no class either."""

_INDEX = re.compile(r"__index_level_\d+__|Unnamed: \d+|")


@dataclass(frozen=True)
class ColumnPlan:
    """The columns of a table by their use."""

    scores: tuple[str, ...]
    names: tuple[str, ...] | None
    listed: bool
    label: str | None
    weight: str | None
    notes: tuple[str, ...] = ()

    @property
    def used(self) -> list[str]:
        """Every column that is read."""
        rest = (self.label, self.weight)
        return [*self.scores, *(name for name in rest if name is not None)]


def plan_columns(
    path: Path,
    columns: Sequence[str],
    *,
    numeric: Collection[str],
    lists: Collection[str],
    index: Collection[str],
    written: tuple[str, ...] | None,
    options: ReadOptions,
) -> ColumnPlan:
    """Choose the class columns, the label column and the weight column.

    ``written`` are class names that the file itself states.
    """
    refuse_repeats(path, columns)
    there = set(columns)
    needed = options.with_labels
    label = _named(path, columns, options.label_column, "label_column", needed)
    weight = _named(path, columns, options.weight_column, "weight_column", needed)
    taken = {label, weight, PREDICTION}
    candidates = [name for name in columns if name not in taken and name not in index]
    candidates = [name for name in candidates if not _INDEX.fullmatch(name)]
    candidates = [name for name in candidates if not _is_kept_score(name, there)]
    numbers = [name for name in candidates if name in numeric]
    stated = written is not None and set(written) <= set(numbers)
    single = None if stated else _single_column(path, candidates, lists, numbers, options)
    notes: list[str] = []
    scores: tuple[str, ...]
    if single is not None:
        scores, names = (single,), options.classes or written
    else:
        scores, names = _class_columns(path, columns, numbers, written, options, notes)
    known = {*scores, *taken}
    known |= {name for name in columns if name in index or _INDEX.fullmatch(name)}
    left = [name for name in columns if name not in known and not _is_kept_score(name, there)]
    if left:
        notes.append(f"Columns of {os.fspath(path)!r} that were not read as classes: {few(left)}.")
    if not needed:
        label = weight = None
    return ColumnPlan(scores, names, single in lists, label, weight, tuple(notes))


def _is_kept_score(name: str, columns: Collection[str]) -> bool:
    """Tell whether a column is what ``apply --keep`` kept of the column of a class."""
    return name.endswith(SCORE_SUFFIX) and name.removesuffix(SCORE_SUFFIX) in columns


def refuse_repeats(path: Path, columns: Sequence[str]) -> None:
    """Refuse a table that has a column name twice."""
    seen: set[str] = set()
    for name in columns:
        if name in seen:
            raise ColumnsError(
                f"{os.fspath(path)!r} must have different column names. Got {name!r} twice. "
                f"Rename one of them."
            )
        seen.add(name)


def _named(
    path: Path, columns: Sequence[str], name: str | None, option: str, needed: bool
) -> str | None:
    if name is None or name in columns:
        return name
    if not needed or (option, name) == ("label_column", "label"):
        return None
    raise ColumnsError(
        f"`{option}` must be a column of {os.fspath(path)!r}. Got {name!r}. "
        f"Its columns: {few(columns)}."
    )


def _single_column(
    path: Path,
    candidates: Sequence[str],
    lists: Collection[str],
    numbers: Sequence[str],
    options: ReadOptions,
) -> str | None:
    """Return the column that holds all scores of a sample, if there is one.

    That is a list column, or the one that ``scores_name`` names.
    """
    listed = [name for name in candidates if name in lists]
    if options.scores_name is not None:
        if options.scores_name in (*listed, *numbers):
            return options.scores_name
        raise ColumnsError(
            f"`scores_name` must be a numeric column or a list column of {os.fspath(path)!r}. "
            f"Got {options.scores_name!r}. Its columns: {few([*listed, *numbers])}."
        )
    for name in ("scores", "posterior"):
        if name in listed:
            return name
    if len(listed) == 1 and len(numbers) == 1:
        raise ColumnsError(
            f"{os.fspath(path)!r} must have scores that can be told from other columns. Got the "
            f"list column {listed[0]!r} and the number {numbers[0]!r}. Say which one holds the "
            f"scores: scores_name={listed[0]!r}."
        )
    return listed[0] if len(listed) == 1 and not numbers else None


def _class_columns(
    path: Path,
    columns: Sequence[str],
    numbers: Sequence[str],
    written: tuple[str, ...] | None,
    options: ReadOptions,
    notes: list[str],
) -> tuple[tuple[str, ...], tuple[str, ...] | None]:
    wanted = options.classes or written
    if wanted is None:
        return _found(path, columns, numbers), tuple(numbers) if len(numbers) > 1 else None
    there = set(columns)
    missing = [name for name in wanted if name not in there]
    if not missing:
        return wanted, wanted
    numbers = _found(path, columns, numbers)
    if len(missing) == len(wanted) and len(numbers) in (len(wanted), 1 if len(wanted) == 2 else -1):
        notes.append(
            f"No column of {os.fspath(path)!r} is named after a class; its numeric columns "
            f"({few(numbers)}) were taken in their order for the classes ({few(wanted)})."
        )
        return tuple(numbers), wanted
    raise ColumnsError(
        f"{os.fspath(path)!r} must have a column for each of the {len(wanted)} classes. "
        f"Missing: {few(missing)}. Its numeric columns: {few(numbers)}. "
        f"Rename the columns, or pass the class names of this file."
    )


def _found(path: Path, columns: Sequence[str], numbers: Sequence[str]) -> tuple[str, ...]:
    if not numbers:
        raise ColumnsError(
            f"{os.fspath(path)!r} must have a numeric column per class, or one list column "
            f"'scores'. Got the columns {few(columns)}. Add the scores."
        )
    return tuple(numbers)
