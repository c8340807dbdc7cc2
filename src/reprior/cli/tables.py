"""Tables of results: for the terminal, as CSV, and as Markdown."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

from reprior.cli.session import plain

__all__ = ["CHANGE", "Grid", "before_after", "class_changes", "whole"]

#: The column that is coloured: green where it got better.
CHANGE = "change"

#: Columns whose numbers may be so small that their digits matter, not their decimals.
SMALL = frozenset({"prior", "weight"})

#: Characters of a name that are kept on one line even on a narrow terminal.
LEAST = 8

#: Metrics of which less is better.
ERRORS = frozenset({"brier", "classwise_ece", "ece", "log_loss", "mean_cost"})


@dataclass(frozen=True)
class Grid:
    """Rows of names and numbers under column heads.

    Examples
    --------
    >>> grid = Grid(("metric", "before"), [("accuracy", 0.5)])
    >>> print(grid.markdown())
    | metric | before |
    |---|---:|
    | accuracy | 0.5000 |
    >>> print(grid.csv())
    metric,before
    accuracy,0.5
    """

    columns: tuple[str, ...]
    rows: Sequence[tuple[Any, ...]]
    title: str = ""

    def rich(self) -> Group:
        """Return the table for a terminal, its title above it."""
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
        for i, column in enumerate(self.columns):
            numeric = i > 0 and self._is_numeric(i)
            width = max((len(_shown(row[i], column)) for row in self.rows), default=0)
            table.add_column(
                _head(column),
                justify="right" if numeric else "left",
                no_wrap=numeric,
                overflow="fold",  # a long word continues in the next line
                min_width=width if numeric else min(width, LEAST),  # numbers are never cut
            )
        for row in self.rows:
            cells = zip(self.columns, row, strict=True)
            table.add_row(*(_cell(value, column, row[0]) for column, value in cells))
        title = [Text(self.title, style="italic")] if self.title else []
        return Group(*title, table)

    def csv(self) -> str:
        """Return the table as CSV, numbers in full."""
        stream = io.StringIO()
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(self.columns)
        writer.writerows(
            ["" if value is None or value != value else value for value in row] for row in self.rows
        )
        return stream.getvalue().rstrip("\n")

    def markdown(self) -> str:
        """Return the table as Markdown."""
        heads = (self.columns, ["---:" if self._is_numeric(i) else "---" for i in self._indices])
        lines = [f"*{_escaped(self.title)}*", ""] if self.title else []
        lines.append(f"| {' | '.join(map(_escaped, heads[0]))} |")
        lines.append(f"|{'|'.join(heads[1])}|")
        for row in self.rows:
            cells = zip(self.columns, row, strict=True)
            shown = (_escaped(_shown(value, column)) for column, value in cells)
            lines.append(f"| {' | '.join(shown)} |")
        return "\n".join(lines)

    @property
    def _indices(self) -> range:
        return range(len(self.columns))

    def _is_numeric(self, i: int) -> bool:
        return any(isinstance(row[i], int | float) for row in self.rows)


def before_after(
    metrics: Mapping[str, tuple[float, float]], *, title: str = "", first: str = "metric"
) -> Grid:
    """Return a row per metric: before, after, change."""
    rows = [(name, before, after, after - before) for name, (before, after) in metrics.items()]
    return Grid((first, "before", "after", CHANGE), rows, title)


def class_changes(
    names: Sequence[Any], labels: Any, before: Any, after: Any, *, title: str = "", n: int = 3
) -> Grid:
    """Return the classes whose value changes most, the gains and then the losses."""
    change = [float(b) - float(a) for a, b in zip(before, after, strict=True)]
    moved = sorted((i for i, d in enumerate(change) if d == d and d != 0), key=lambda i: -change[i])
    up = [i for i in moved if change[i] > 0][:n]
    down = [i for i in moved if change[i] < 0][-n:]
    rows = [
        (plain(names[i]), whole(labels[i]), float(before[i]), float(after[i]), change[i])
        for i in (*up, *down)
    ]
    return Grid(("class", "labels", "before", "after", CHANGE), rows, title)


def whole(number: Any) -> int | float:
    """Return a count as an integer where it is one; sums of weights may not be.

    Examples
    --------
    >>> whole(3.0), whole(2.5)
    (3, 2.5)
    """
    return int(number) if float(number).is_integer() else float(number)


def _shown(value: Any, column: str) -> str:
    if value is None or value != value:
        return "–"
    if isinstance(value, float):
        if column != CHANGE:
            return f"{value:.4g}" if column in SMALL else f"{value:.4f}"
        return f"{value:+.4f}" if round(value, 4) else f"{0:.4f}"
    return f"{value:,}" if isinstance(value, int) else plain(value)


def _head(column: str) -> str:
    """Return a column's head, as narrow as its numbers."""
    short = column.replace("precision", "prec.").replace("training", "train")
    return short.replace(" ", "\n")


def _cell(value: Any, column: str, name: Any) -> Text:
    text = _shown(value, column)
    if column != CHANGE or not isinstance(value, float) or not round(value, 4):
        return Text(text)
    return Text(text, style="green" if (value > 0) != (name in ERRORS) else "red")


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;")
