"""Run the benchmarks and print their ratios.

python -m benchmarks [profile] [rebalance] [importing] [--json FILE] [--markdown FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path

from benchmarks import importing, profile, rebalance
from benchmarks.timing import Row

BEGIN, END = "<!-- table: begin -->", "<!-- table: end -->"
MODULES = {"profile": profile, "rebalance": rebalance, "importing": importing}


def write_table(path: Path, rows: list[Row]) -> None:
    """Put the rows between the marks of a Markdown page."""
    before, _, rest = path.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    lines = ["| what | ratio | 90 % interval | bar | of |", "|---|--:|:-:|--:|---|"]
    lines += [
        f"| {row.what} | {row.ratio:.2f} | {row.low:.2f} to {row.high:.2f} | {row.bar:.1f} "
        f"| `{row.peer}` |"
        for row in rows
    ]
    table = "\n".join(lines)
    note = f"Python {platform.python_version()}, {os.cpu_count()} cores."
    path.write_text(f"{before}{BEGIN}\n\n{table}\n\n{note}\n\n{END}{after}")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(MODULES))
    parser.add_argument("--json", type=Path, help="write a run file")
    parser.add_argument("--markdown", type=Path, help="replace the table between its two marks")
    arguments = parser.parse_args()
    unknown = set(arguments.names) - set(MODULES)
    if unknown:
        parser.error(f"unknown benchmark {unknown.pop()!r}; choose from {', '.join(MODULES)}")
    print(f"{'':62} {'ratio':>6}  {'90 % interval':^15} {'bar':>5}")
    kept = []
    for name in arguments.names or MODULES:
        for row in MODULES[name].rows():
            kept.append(row)
            print(
                f"{row.what:62} {row.ratio:6.2f}  [{row.low:5.2f}, {row.high:5.2f}]  {row.bar:5.1f}"
                f"  of {row.peer}{'' if row.kept else '   MISSED'}",
                flush=True,
            )
    if arguments.json:
        packages = ("reprior", "numpy", "scipy", "numba")
        run = {
            "python": platform.python_version(),
            "cores": os.cpu_count(),
            "versions": {package: version(package) for package in packages},
            "rows": [asdict(row) for row in kept],
        }
        arguments.json.write_text(json.dumps(run, indent=2).replace("NaN", "null") + "\n")
    if arguments.markdown:
        write_table(arguments.markdown, kept)
    return 0 if all(row.kept for row in kept) else 1


if __name__ == "__main__":
    sys.exit(main())
