"""Tables with the paper's figure beside ours: as Markdown, as LaTeX, and as JSON."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from reprior.core import check_choice, check_finite_number
from reprior.exceptions import Argument, FileFormatError, OptionError
from reprior.files import atomic_paths

__all__ = ["Cell", "Table", "write_table"]

#: Printed in place of a missing number.
NOTHING = "–"

_NUMBERS = ("value", "paper", "spread")
_BEST: dict[str, Callable[[list[float]], float]] = {"min": min, "max": max}

#: The pattern of a table's name, which is also that of its files.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")

#: Placeholders of the begin and end of bold text, replaced by each format's marks.
_BOLD, _PLAIN = "\ue000", "\ue001"

#: Escapes, applied in one pass so that none is applied to another's result.
_MARKDOWN = str.maketrans(
    {
        "\\": r"\\",
        "|": r"\|",
        "*": r"\*",
        "<": "&lt;",
        "\n": " ",
        _BOLD: "**",
        _PLAIN: "**",
    }
)
_LATEX = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "&": r"\&",
        "%": r"\%",
        "$": r"\$",
        "#": r"\#",
        "_": r"\_",
        "{": r"\{",
        "}": r"\}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "<": "$<$",
        ">": "$>$",
        "|": "$|$",
        "\n": " ",
        "–": "--",
        "…": r"\dots{}",
        "−": "$-$",
        "±": r"$\pm$",
        "×": r"$\times$",
        "·": r"$\cdot$",
        "≤": r"$\le$",
        "≥": r"$\ge$",
        "→": r"$\to$",
        "≈": r"$\approx$",
        "λ": r"$\lambda$",
        "²": "$^2$",
        _BOLD: r"\textbf{",
        _PLAIN: "}",
    }
)


@dataclass(frozen=True)
class Cell:
    """One entry of a table.

    Parameters
    ----------
    value : float, optional
        Our figure, in the table's unit: per cent for errors.
    paper : float, optional
        The paper's figure, shown beside ours.
    spread : float, optional
        Standard deviation over seeds or folds.
    n : int, default 1
        Seeds or folds that ``value`` is the mean of.
    note : str, default ""
        A short suffix, such as "λ 1.3".
    text : str, optional
        Text in place of ``value``.

    Examples
    --------
    >>> Cell(20.138, paper=20.14, spread=0.118, n=3, note="λ 1.3").shown()
    '20.14 ± 0.12 (paper 20.14), λ 1.3'
    >>> Cell(paper=20.14).shown(), Cell().shown(), Cell(text="Step").shown()
    ('– (paper 20.14)', '–', 'Step')
    """

    value: float | None = None
    paper: float | None = None
    spread: float | None = None
    n: int = 1
    note: str = ""
    text: str | None = None

    def __post_init__(self) -> None:
        for name in _NUMBERS:
            number = getattr(self, name)
            if number is not None:
                number = check_finite_number(name, number, hint="Leave it out if there is none.")
                object.__setattr__(self, name, number)

    def number(self, digits: int = 2) -> str | None:
        """Return our number as printed; None if the cell has none."""
        if self.value is None or self.text is not None:
            return None
        return _number(self.value, digits)

    def shown(self, digits: int = 2, *, short: bool = False) -> str:
        """Return the cell as printed, without the marks of any format.

        ``short`` omits the word before the paper's figure, for a narrow terminal.
        """
        number = self.number(digits)
        if number is None:
            number = NOTHING if self.text is None else self.text
        elif self.spread is not None:
            number += f" ± {_number(self.spread, digits)}"
        beside = "" if self.paper is None else f" (paper {_number(self.paper, digits)})"
        text = f"{number}{beside}{', ' if self.note else ''}{self.note}"
        return text.replace("(paper ", "(") if short else text

    def to_dict(self) -> dict[str, Any]:
        """Return the fields of the cell that differ from their defaults."""
        empty = Cell()
        fields = {name: getattr(self, name) for name in (*_NUMBERS, "n", "note", "text")}
        return {name: value for name, value in fields.items() if value != getattr(empty, name)}


@dataclass(frozen=True)
class Table:
    """Rows of cells under column heads.

    Parameters
    ----------
    name : str
        The name, which is also that of its files.
    title : str
        The caption.
    columns : tuple of str
        Heads of the columns, without that of the row labels.
    rows : tuple of (str, tuple of Cell)
        Label and cells of each row.
    notes : tuple of str
        Notes below the table.
    corner : str
        The head of the row labels.
    digits : int, default 2
        Decimals of every number.
    best : {"min", "max"}, optional
        Print the best of our figures in each column in bold, with all that print the same.

    Examples
    --------
    >>> rows = (("CE", (Cell(28.5, paper=28.48),)), ("CE-IC", (Cell(20.14),)))
    >>> table = Table("errors", "Top-1 error (%)", ("exp-100",), rows, best="min")
    >>> print(table.markdown())
    **Top-1 error (%)**
    <BLANKLINE>
    |  | exp-100 |
    |---|---:|
    | CE | 28.50 (paper 28.48) |
    | CE-IC | **20.14** |
    <BLANKLINE>
    >>> Table.from_dict(table.to_dict()) == table
    True
    """

    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Cell, ...]], ...]
    notes: tuple[str, ...] = ()
    corner: str = ""
    digits: int = 2
    best: Literal["min", "max"] | None = None

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise OptionError(
                argument="name",
                rule="must be letters, digits, dots, dashes and underscores: files "
                "are called by it",
                got=repr(self.name),
                remedy=["Put the words into ", Argument("title"), "."],
            )
        if self.best is not None:
            check_choice("best", self.best, _BEST)
        check_finite_number("digits", self.digits, minimum=0)
        for label, cells in self.rows:
            if len(cells) != len(self.columns):
                raise OptionError(
                    argument="rows",
                    rule=f"must have a cell for each of the {len(self.columns)} columns",
                    got=f"{len(cells)} in row {label!r}",
                    remedy="Put an empty Cell() where there is nothing.",
                )

    def markdown(self) -> str:
        """Return the table as Markdown: the title, the table, the notes as a list."""
        head, *rows = (
            f"| {' | '.join(text.translate(_MARKDOWN) for text in line)} |"
            for line in self._lines()
        )
        lines = [f"**{self.title.translate(_MARKDOWN)}**", "", head]
        lines += [f"|---|{'---:|' * len(self.columns)}", *rows]
        if self.notes:
            lines += ["", *(f"- {note.translate(_MARKDOWN)}" for note in self.notes)]
        return "\n".join(lines) + "\n"

    def latex(self) -> str:
        r"""Return the table as LaTeX, which needs ``\usepackage{booktabs}``."""
        head, *rows = (
            " & ".join(text.translate(_LATEX) for text in line) + r" \\" for line in self._lines()
        )
        notes = [rf"\par\smallskip {{\footnotesize {n.translate(_LATEX)}}}" for n in self.notes]
        lines = [
            r"% needs \usepackage{booktabs}",
            r"\begin{table}",
            r"\centering",
            rf"\caption{{{self.title.translate(_LATEX)}}}",
            rf"\label{{tab:{self.name}}}",
            rf"\begin{{tabular}}{{l{'r' * len(self.columns)}}}",
            r"\toprule",
            head,
            r"\midrule",
            *rows,
            r"\bottomrule",
            r"\end{tabular}",
            *notes,
            r"\end{table}",
        ]
        return "\n".join(lines) + "\n"

    def to_dict(self) -> dict[str, Any]:
        """Return the table as a document for JSON, with unrounded numbers."""
        rows = [
            {"label": label, "cells": [cell.to_dict() for cell in cells]}
            for label, cells in self.rows
        ]
        return {
            "name": self.name,
            "title": self.title,
            "corner": self.corner,
            "columns": list(self.columns),
            "rows": rows,
            "notes": list(self.notes),
            "digits": self.digits,
            "best": self.best,
        }

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Table:
        """Return the table from the result of :meth:`to_dict`."""
        try:
            fields = dict(document)
            rows = tuple(
                (row["label"], tuple(Cell(**cell) for cell in row["cells"]))
                for row in fields.pop("rows")
            )
            columns, notes = tuple(fields.pop("columns")), tuple(fields.pop("notes"))
            return cls(rows=rows, columns=columns, notes=notes, **fields)
        except (KeyError, TypeError, ValueError) as error:
            raise FileFormatError(
                f"A table must be what its JSON file holds. Got {type(error).__name__}: {error}. "
                f"Make the table again."
            ) from error

    def _lines(self) -> Iterator[list[str]]:
        """Yield the head, then every row, with placeholders for bold."""
        yield [self.corner, *self.columns]
        bold = [self._best_of(column) for column in range(len(self.columns))]
        for label, cells in self.rows:
            line = [label]
            for cell, best in zip(cells, bold, strict=True):
                own = cell.shown(self.digits)
                if best is not None and cell.number(self.digits) == best:
                    own = f"{_BOLD}{best}{_PLAIN}{own.removeprefix(best)}"
                line.append(own)
            yield line

    def _best_of(self, column: int) -> str | None:
        """Return the printed best number of a column; None for fewer than two numbers."""
        cells = [row[column] for _, row in self.rows]
        values = [cell.value for cell in cells if cell.value is not None and cell.text is None]
        if self.best is None or len(values) < 2:
            return None
        return _number(_BEST[self.best](values), self.digits)


def write_table(table: Table, folder: str | os.PathLike[str]) -> tuple[Path, ...]:
    """Write a table as NAME.md, NAME.tex and NAME.json, atomically.

    Examples
    --------
    >>> folder = getfixture("tmp_path")
    >>> table = Table("errors", "Top-1 error (%)", ("exp-100",), (("CE", (Cell(28.5),)),))
    >>> [path.name for path in write_table(table, folder)]
    ['errors.md', 'errors.tex', 'errors.json']
    """
    home = Path(folder)
    home.mkdir(parents=True, exist_ok=True)
    document = json.dumps(table.to_dict(), indent=1, ensure_ascii=False, allow_nan=False)
    texts = {"md": table.markdown(), "tex": table.latex(), "json": f"{document}\n"}
    paths = tuple(home / f"{table.name}.{suffix}" for suffix in texts)
    with atomic_paths(*paths) as fresh:
        for path, text in zip(fresh, texts.values(), strict=True):
            path.write_text(text, encoding="utf-8")
    return paths


def _number(value: float, digits: int) -> str:
    """Return a number with the given decimals; minus zero is zero."""
    shown = f"{value:,.{digits}f}"
    return shown.removeprefix("-") if not any(c in "123456789" for c in shown) else shown
