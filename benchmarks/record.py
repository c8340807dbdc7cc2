"""Store results by benchmark: the run file, and the tables of the page.

Benchmarks may be measured in separate runs: each replaces its own part of a file and leaves the
others as they were.
"""

from __future__ import annotations

import json
import math
import platform
import re
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.timing import Row
from reprior.core import kernels
from reprior.core.threads import n_cores

BEGIN, END = "<!-- table: begin -->", "<!-- table: end -->"
MISSED_BEGIN, MISSED_END = "<!-- missed: begin -->", "<!-- missed: end -->"
DISTRIBUTIONS = {"sklearn": "scikit-learn"}
"""Packages that are installed under another name than they are imported by."""

_PART = re.compile(r"<!-- benchmark: (\w+) -->\n+")


@dataclass(frozen=True)
class Part:
    """The rows of one benchmark, and where they were measured."""

    name: str
    rows: list[Row]
    versions: dict[str, str]
    kernels: str
    python: str
    cores: int

    @classmethod
    def here(cls, name: str, rows: Sequence[Row], packages: Sequence[str]) -> Part:
        """Record a measurement of this process; only loaded ``packages`` are listed."""
        loaded = [package for package in packages if package in sys.modules]
        versions = {
            package: version(DISTRIBUTIONS.get(package, package))
            for package in ("reprior", "numpy", *loaded)
        }
        return cls(
            name,
            list(rows),
            versions,
            kernels.description(),
            platform.python_version(),
            n_cores(),
        )

    def as_json(self) -> dict[str, Any]:
        """For the run file, in which no bar is null."""
        rows = [asdict(row) for row in self.rows]
        for row in rows:
            row["bar"] = None if math.isnan(row["bar"]) else row["bar"]
        where = {
            "python": self.python,
            "cores": self.cores,
            "kernels": self.kernels,
            "versions": self.versions,
        }
        return {**where, "rows": rows}

    def as_table(self) -> str:
        """For the page."""
        lines = ["| what | ratio | 90 % interval | bar | of |", "|---|--:|:-:|--:|---|"]
        lines += [
            f"| {row.what} | {row.ratio:.2f} | {row.low:.2f} to {row.high:.2f} | {_bar(row.bar)} "
            f"| `{row.peer}` |"
            for row in self.rows
        ]
        names = ", ".join(f"{package} {number}" for package, number in self.versions.items())
        note = f"Python {self.python}, {names}; kernels: {self.kernels}; {self.cores} cores."
        return "\n".join([*lines, "", note])


def _bar(bar: float) -> str:
    return "–" if math.isnan(bar) else f"{bar:g}"


def write_run(path: Path, part: Part, order: Sequence[str]) -> None:
    """Write a part into a run file; create the file if it does not exist."""
    run = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps(_sorted({**run, part.name: part.as_json()}, order), indent=2) + "\n")


def write_tables(path: Path, part: Part, order: Sequence[str]) -> None:
    """Write the table of a part between the markers of a Markdown page."""
    before, _, rest = path.read_text().partition(BEGIN)
    between, _, after = rest.partition(END)
    _, *found = _PART.split(between)
    tables = {name: table.strip() for name, table in zip(found[::2], found[1::2], strict=True)}
    tables[part.name] = part.as_table()
    parts = [f"<!-- benchmark: {k} -->\n\n{v}\n" for k, v in _sorted(tables, order).items()]
    path.write_text("\n".join([f"{before}{BEGIN}\n", *parts, f"{END}{after}"]))


def write_missed(path: Path, run: Path) -> None:
    """List on a page, between its markers, which bars of a run file are missed."""
    rows = [row for part in json.loads(run.read_text()).values() for row in part["rows"]]
    missed = [row for row in rows if row["bar"] is not None and row["ratio"] > row["bar"]]
    lines = [f"* {row['what']}: {row['ratio']:.2f}, where {row['bar']:.2f} is." for row in missed]
    said = "\n".join(["**Bars that are missed:**", "", *lines] if lines else ["Every bar is met."])
    before, _, rest = path.read_text().partition(MISSED_BEGIN)
    _, _, after = rest.partition(MISSED_END)
    path.write_text(f"{before}{MISSED_BEGIN}\n\n{said}\n\n{MISSED_END}{after}")


def _sorted(parts: dict[str, Any], order: Sequence[str]) -> dict[str, Any]:
    """Sort in the order of the list; unlisted parts come last."""
    rank = {name: i for i, name in enumerate(order)}
    return {name: parts[name] for name in sorted(parts, key=lambda n: (rank.get(n, len(rank)), n))}
