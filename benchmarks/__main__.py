"""Run the benchmarks and print their ratios; without a name, or with "all", every one.

python -m benchmarks [NAME …] [--json FILE] [--markdown FILE]
python -m benchmarks held_out --cache DIR [OPTION …]
python -m benchmarks revisions OTHER_PYTHON [CASE …]

A file keeps what it has of the benchmarks that are not run. Studies take long, have options of
their own and are not among "all".
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path

from benchmarks.record import Part, write_missed, write_run, write_tables
from benchmarks.timing import Row

#: Each is a module of this package with a function ``rows``, imported only if it runs; the
#: values are the packages, besides NumPy, that its figures depend on.
BENCHMARKS: dict[str, tuple[str, ...]] = {
    "profile": (),
    "metrics": (),
    "direction": (),
    "bootstrap": (),
    "per_class": (),
    "rebalance": ("scipy",),
    "temperature": ("scipy", "sklearn", "netcal", "probmetrics", "torch", "abstention"),
    "shift": ("scipy", "abstention", "quapy", "cvxpy"),
    "importing": (),
    "loader": ("torch",),
    "fold_torch": ("torch",),
    "fold_boosting": ("lightgbm", "xgboost", "catboost"),
    "fusion": (),
    "fold": ("onnx", "onnxruntime", "torch", "skl2onnx"),
    "report": ("matplotlib", "jinja2"),
    "training": ("torch", "lightning"),
    "scale": (),
    "scale_large": (),
    "dask_scale": ("dask", "distributed"),
}

#: Not included in "all": it needs a lot of disk space.
ASKED_FOR = {"scale_large"}

#: Each is a module with a function ``main`` that takes its arguments.
STUDIES = ("held_out", "revisions", "certify", "forecast")


def chosen(names: Iterable[str], parser: argparse.ArgumentParser) -> list[str]:
    """Return the benchmarks to run, without repetition, in the order above."""
    there = [name for name in BENCHMARKS if find_spec(f"benchmarks.{name}")]
    asked = set(names) or {"all"}
    for name in sorted(asked - {"all", *there}):
        parser.error(f"unknown benchmark {name!r}; choose from {', '.join(there)}")
    if "all" in asked:
        asked |= set(there) - ASKED_FOR
    return [name for name in there if name in asked]


def shown(rows: Iterable[Row]) -> Iterator[Row]:
    """Run a benchmark and print each row as soon as it is measured."""
    for row in rows:
        print(
            f"{row.what:62} {row.ratio:6.2f}  [{row.low:5.2f}, {row.high:5.2f}]  {row.bar:5.3g}"
            f"  of {row.peer}{'' if row.kept else '   MISSED'}",
            flush=True,
        )
        yield row


def main() -> int:
    if sys.argv[1:2] and sys.argv[1] in STUDIES:
        study = importlib.import_module(f"benchmarks.{sys.argv[1]}")
        return int(study.main(sys.argv[2:]))
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join([*BENCHMARKS, "all"]))
    parser.add_argument("--json", type=Path, help="a run file, made where there is none")
    parser.add_argument("--markdown", type=Path, help="a page with marks for the tables")
    arguments = parser.parse_args()
    names = chosen(arguments.names, parser)
    print(f"{'':62} {'ratio':>6}  {'90 % interval':^15} {'bar':>5}")
    kept = True
    for name in names:
        module = importlib.import_module(f"benchmarks.{name}")
        part = Part.here(name, list(shown(module.rows())), BENCHMARKS[name])
        if not part.rows:  # its peer is not installed; what was measured before stays
            continue
        if arguments.json:
            write_run(arguments.json, part, list(BENCHMARKS))
        if arguments.markdown:
            write_tables(arguments.markdown, part, list(BENCHMARKS))
        kept = kept and all(row.kept for row in part.rows)
    if arguments.json and arguments.markdown:
        write_missed(arguments.markdown, arguments.json)
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
