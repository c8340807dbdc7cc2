"""A prior as a file that fit reads, and as a table of bounded length."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from reprior.cli.tables import Grid
from reprior.files.atomic import atomic_write

__all__ = ["Share", "shortened", "write_prior"]

#: Rows of a long table that are shown: as many from either end.
SHOWN = 40


class Share(float):
    """A class's share of a mix, shown to four decimals; what these cannot show is below 0.0001.

    Examples
    --------
    >>> [f"{Share(x):.4f}" for x in (0.117, 5e-13, 0.0)]
    ['0.1170', '< 0.0001', '0.0000']
    """

    def __format__(self, how: str) -> str:
        """Return the share as text."""
        return "< 0.0001" if 0.0 < self < 0.00005 else super().__format__(how)


def write_prior(path: str, names: Sequence[Any] | None, prior: Sequence[float]) -> None:
    """Write the prior, by name where there are names: CSV by the extension, or else JSON."""
    if Path(path).suffix.lower() == ".csv":
        first = names if names is not None else range(len(prior))
        text = Grid(("class", "prior"), list(zip(first, prior, strict=True))).csv()
    elif names is None:
        text = json.dumps(list(prior))
    else:
        text = json.dumps(dict(zip(map(str, names), prior, strict=True)), ensure_ascii=False)
    with atomic_write(path) as file:
        file.write(f"{text}\n".encode())


def shortened(rows: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Return both ends of a long table, with a row between them that counts the others.

    Examples
    --------
    >>> shortened([(k, 0.01) for k in range(100)])[20]
    ('… 60 more', None)
    """
    left_out = len(rows) - SHOWN
    if left_out <= 1:
        return list(rows)
    middle = (f"… {left_out:,} more",) + (None,) * (len(rows[0]) - 1)
    return [*rows[: SHOWN // 2], middle, *rows[-SHOWN // 2 :]]
