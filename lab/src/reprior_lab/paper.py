"""The figures that the paper prints, for comparison."""

from __future__ import annotations

import json
from functools import cache
from importlib import resources
from typing import Any

from reprior.core import check_choice

__all__ = [
    "paper_columns",
    "paper_note",
    "paper_rows",
    "paper_tables",
    "paper_value",
    "paper_words",
]


def paper_tables() -> tuple[str, ...]:
    """Return the names of the tables.

    ``datasets`` is Table 1, ``cifar`` Table 2 (top-1 errors in per cent), ``cifar_strength`` the
    strengths that the appendix gives for it, ``inaturalist`` Table 3 (top-1 errors in per cent)
    and ``inaturalist_spread`` the ± of Table 3. ``synthia_rgb`` is Table 4,
    ``synthia_rgbd_miou``, ``synthia_rgbd_macc`` and ``synthia_rgbd_strength`` are Table 5: mean
    IoU and mean accuracy in per cent, and λ.

    Examples
    --------
    >>> paper_tables()
    ('datasets', 'cifar', 'cifar_strength', 'inaturalist', 'inaturalist_spread', 'synthia_rgb',
    'synthia_rgbd_miou', 'synthia_rgbd_macc', 'synthia_rgbd_strength')
    """
    return tuple(_document()["tables"])


def paper_rows(table: str) -> tuple[str, ...]:
    """Return the rows of a table, in the paper's order: methods, or data sets.

    Examples
    --------
    >>> paper_rows("cifar_strength")
    ('ce-ic', 'focal-ic', 'ce-drw-ic', 'focal-drw-ic')
    """
    return tuple(_table(table)["rows"])


def paper_columns(table: str) -> tuple[str, ...]:
    """Return the columns of a table, in the paper's order.

    Examples
    --------
    >>> paper_columns("inaturalist")
    ('inception_v3', 'resnet50')
    """
    return tuple(_table(table)["columns"])


def paper_value(table: str, row: str, column: str, *, as_printed: bool = False) -> float | None:
    """Return a figure of the paper; None if the paper has none, or no such row or column.

    Clear misprints (wrong averages, the size of a class) are corrected, unless ``as_printed``.
    :func:`paper_note` then says so.

    Parameters
    ----------
    table : str
        One of :func:`paper_tables`.
    row : str
        A method such as "ce", "focal", "ldam", "cb_ce", "cb_focal", "ce-drw", "focal-drw",
        "ldam-drw" or "bbn", with "-ic" if it is corrected; for ``datasets``, a data set; for
        Table 5 "softave", "uno", "ic" or "uno-ic".
    column : str
        A data set such as "cifar10-exp100" or "cifar100-step10", or "average"; for
        ``inaturalist`` the network; for ``datasets`` "n_classes", "largest" or "ratio"; for
        ``synthia_rgb`` "mean_iou", "balanced_accuracy" or "strength"; for the other tables of
        SYNTHIA the weather, "average" or "strength".
    as_printed : bool, default False
        Whether misprints are kept.

    Examples
    --------
    >>> paper_value("cifar", "ce-ic", "cifar10-exp100")
    20.14
    >>> (
    ...     paper_value("cifar", "ce", "average"),
    ...     paper_value("cifar", "ce", "average", as_printed=True),
    ... )
    (37.81, 37.7)
    >>> paper_value("cifar", "bbn", "cifar10-step100") is None
    True
    """
    right = _entry("corrected", table, row, column)
    if right is not None and not as_printed:
        return float(right[0])
    found = _table(table)
    if row not in found["rows"] or column not in found["columns"]:
        return None
    value = found["rows"][row][found["columns"].index(column)]
    return None if value is None else float(value)


def paper_note(table: str, row: str, column: str) -> str:
    """Return a remark on a figure of the paper; mostly empty.

    Examples
    --------
    >>> paper_note("cifar", "ce", "average")
    'printed 37.7: not the mean of its row'
    >>> paper_note("inaturalist", "bbn", "resnet50")
    'as the authors of BBN report it'
    """
    right = _entry("corrected", table, row, column)
    if right is not None:
        printed = paper_value(table, row, column, as_printed=True)
        return f"printed {printed:,g}: {right[1]}"
    return str(_entry("remarks", table, row, column) or "")


def paper_words(table: str, row: str, column: str) -> str | None:
    """Return an entry of the paper in words: for ``datasets``, dimension, imbalance and network.

    Examples
    --------
    >>> paper_words("datasets", "inaturalist2018", "imbalance")
    'long-tail'
    """
    entry = _entry("words", table, row, column)
    return None if entry is None else str(entry)


@cache
def _document() -> dict[str, Any]:
    path = resources.files("reprior_lab") / "paper_values.json"
    document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return document


def _table(name: str) -> dict[str, Any]:
    check_choice("table", name, paper_tables())
    content: dict[str, Any] = _document()["tables"][name]
    return content


def _entry(part: str, table: str, row: str, column: str) -> Any:
    """Return a figure's entry in a part of the document, or None."""
    check_choice("table", table, paper_tables())
    return _document()[part].get(table, {}).get(row, {}).get(column)
