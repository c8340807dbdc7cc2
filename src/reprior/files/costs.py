"""Costs of decisions in small files: JSON or CSV, with or without names."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from reprior.exceptions import FileFormatError, OptionError
from reprior.files.formats.interface import few
from reprior.files.text_files import csv_rows, is_json, json_of, order_of, refuse_twice, text_of

__all__ = ["Costs", "read_costs"]

Vector: TypeAlias = np.ndarray[Any, Any]

_FORMS = (
    'a JSON list of rows, a JSON object {"true class": {"decision": number}}, or CSV: a row of '
    "numbers per true class, the same under a line with the decisions, or under a corner cell and "
    "the decisions with the class in front of every row"
)


class Costs(NamedTuple):
    """``matrix[true, decided]``, and the names of the decisions where the file has names.

    ``by_class`` says whether the rows have names too; without, they are in the order of the
    classes.
    """

    matrix: Vector
    decisions: tuple[str, ...] | None
    by_class: bool


class _Table(NamedTuple):
    """What is written in a file: a row of cells per true class, with names or without."""

    rows: list[list[Any]]
    classes: list[str] | None = None
    decisions: list[str] | None = None


def read_costs(path: str | os.PathLike[str], classes: Sequence[Any]) -> Costs:
    r"""Read what each decision costs where each class is true.

    Parameters
    ----------
    path : path
        A JSON list of rows, one per true class in the order of ``classes``, with a number per
        decision; or ``{true class: {decision: cost}}``. Or CSV in one of three forms: the same
        rows; these rows under a line with the names of the decisions; or each row behind the name
        of its class, under a corner cell and the names of the decisions. A header is a first line
        that is not all numbers. Under it there are classes in the first column if the corner cell
        is empty, or if the first cells are all the classes, each once. Where these are numbers,
        and a row without them could be meant as well, the file is refused.
    classes : list of names
        Rows with names are put into this order. Where all classes are among the decisions by
        name, these come first, in this order too, so that the index of a decision is its class's.

    Returns
    -------
    Costs
        Finite costs of shape (K, D), for K classes and at least two decisions.

    Examples
    --------
    >>> path = getfixture("tmp_path") / "costs.csv"
    >>> _ = path.write_text("true,ask,dog,cat\ndog,0.5,0,1\ncat,0.5,5,0\n")
    >>> read_costs(path, ["cat", "dog"])
    Costs(matrix=array([[0. , 5. , 0.5],
           [1. , 0. , 0.5]]), decisions=('cat', 'dog', 'ask'), by_class=True)
    """
    path = Path(path)
    wanted = [str(name) for name in classes]
    text = text_of(path, f"hold costs: {_FORMS}")
    table = _from_json(path, text) if is_json(text) else _from_csv(path, text, wanted)
    matrix = np.array(_checked(path, table, wanted), dtype=np.float64)
    if table.classes is not None:
        matrix = matrix[order_of(path, table.classes, wanted, FileFormatError)]
    by_class = table.classes is not None
    if table.decisions is None:
        return Costs(matrix, None, by_class)
    refuse_twice(path, table.decisions, "decision")
    column = {name: k for k, name in enumerate(table.decisions)}
    known = set(wanted)
    names = table.decisions
    if known <= set(names):
        names = [*wanted, *(name for name in names if name not in known)]
    return Costs(matrix[:, [column[name] for name in names]], tuple(names), by_class)


def _from_json(path: Path, text: str) -> _Table:
    document = json_of(path, text, "costs")
    if isinstance(document, list) and all(isinstance(row, list) for row in document):
        return _Table(document)
    if not isinstance(document, tuple) or not all(isinstance(row, tuple) for _, row in document):
        raise FileFormatError(
            f"{os.fspath(path)!r} must hold costs.",
            got="JSON that is no table",
            remedy=f"Write {_FORMS}.",
        )
    decisions = [name for name, _ in document[0][1]] if document else []
    rows = []
    for true, costs in document:
        names = [name for name, _ in costs]
        refuse_twice(path, names, f"decision of {true!r}")
        if set(names) != set(decisions):
            raise FileFormatError(
                f"{os.fspath(path)!r} must have the same decisions for every class.",
                got=f"{few(names)} for {true!r} and {few(decisions)} for {document[0][0]!r}",
                remedy="Give each of them a cost.",
            )
        by_name = dict(costs)
        rows.append([by_name[name] for name in decisions])
    return _Table(rows, [name for name, _ in document], decisions)


def _from_csv(path: Path, text: str, wanted: Sequence[str]) -> _Table:
    """Tell rows alone, rows under the decisions, and rows behind their classes from each other."""
    rows = [row for _, row in csv_rows(path, text, f"hold costs: {_FORMS}")[0]]
    if rows and all(_number(cell) is not None for cell in rows[0]):
        return _Table(rows)
    head, *rest = rows or [[]]
    firsts = [row[0] for row in rest]
    numbers = all(_number(cell) is not None for row in rest for cell in row)
    corner = len(head) > 2 and len(firsts) == len(wanted) and set(firsts) == set(wanted)
    if all(head) and numbers and corner:
        raise FileFormatError(
            f"{os.fspath(path)!r} must say whether its first column has the classes or costs.",
            got=f"the numbers {few(firsts)} there, under {head[0]!r}, which may be either",
            remedy=(
                "If they are classes, empty the cell above them; if they are costs, put a column "
                "with the classes before them, with an empty cell above."
            ),
        )
    if rest and all(head) and not corner and all(_number(cell) is not None for cell in firsts):
        return _Table(rest, None, head)
    return _Table([row[1:] for row in rest], firsts, head[1:])


def _checked(path: Path, table: _Table, wanted: Sequence[str]) -> list[list[float]]:
    """Return the costs as numbers; refuse other shapes than (K, D), and what is not finite."""
    n_rows = len(table.rows)
    widths = [len(row) for row in table.rows]
    if table.decisions is not None:
        widths.append(len(table.decisions))
    if n_rows == 0 or (table.classes is None and n_rows != len(wanted)):
        is_transposed = set(widths) == {len(wanted)}
        hint = "It has a column for each: turn it round if its rows are decisions. "
        raise OptionError(
            argument="costs",
            rule=f"must have a row for each of the {len(wanted)} classes {few(wanted)}",
            got=f"{n_rows} in {os.fspath(path)!r}",
            remedy=(
                f"{hint if is_transposed else ''}Rows are the true classes, columns the decisions."
            ),
        )
    if len(set(widths)) > 1 or widths[0] < 2:
        raise OptionError(
            argument="costs",
            rule="must have a number for each of at least two decisions in every row",
            got=f"{' and '.join(map(str, sorted(set(widths))))} in {os.fspath(path)!r}",
            remedy="Give every row as many, 0 where a decision costs nothing.",
        )
    names = table.classes or wanted
    return [
        [_cost(path, name, k, cell) for k, cell in enumerate(row)]
        for name, row in zip(names, table.rows, strict=True)
    ]


def _cost(path: Path, true: str, decision: int, cell: Any) -> float:
    number = _number(cell)
    if number is None or not math.isfinite(number):
        raise OptionError(
            argument="costs",
            rule="must be finite numbers",
            got=(
                f"{cell!r} in {os.fspath(path)!r}, where {true!r} is true and decision "
                f"{decision} is taken"
            ),
            remedy="Give a decision that must not be taken a cost far above the others.",
        )
    return number


def _number(cell: Any) -> float | None:
    if isinstance(cell, bool) or not isinstance(cell, int | float | str):
        return None
    try:
        return float(cell)
    except (ValueError, OverflowError):
        return None
