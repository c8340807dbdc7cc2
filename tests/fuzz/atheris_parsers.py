"""Fuzz the parsers of this package with atheris, which is guided by coverage. Run by hand.

atheris is no dependency of the project. In an environment that has it::

    pip install atheris
    python -m tests.fuzz.atheris_parsers counts -max_total_time=600

The first argument names a parser; the rest are libFuzzer's. An exception that is none of reprior
ends the run, and its input is written to the present folder.
"""

from __future__ import annotations

import importlib
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any


def _parsers() -> dict[str, tuple[Callable[[Path], Any], str]]:
    """Return the name of each parser, its function and the extension of its files."""
    from reprior.files import (
        counts_from_labels,
        open_scores,
        parse_json,
        read_arrays,
        read_costs,
        read_counts,
    )
    from reprior.files.count_files import read_class_names

    def scores(path: Path) -> Any:
        return list(open_scores(path, kind="logits").chunks())

    return {
        "json": (lambda path: parse_json(path.read_bytes()), ""),
        "counts": (read_counts, ""),
        "costs": (lambda path: read_costs(path, ["a", "b"]), ""),
        "names": (read_class_names, ""),
        "labels": (counts_from_labels, ".csv"),
        "npy": (scores, ".npy"),
        "npz": (scores, ".npz"),
        "archive": (read_arrays, ".npz"),
        "csv": (scores, ".csv"),
    }


def main() -> None:
    """Fuzz the parser that is named first."""
    atheris = importlib.import_module("atheris")
    with atheris.instrument_imports(include=["reprior.files"]):
        parsers = _parsers()
    if len(sys.argv) < 2 or sys.argv[1] not in parsers:
        sys.exit(f"The first argument must be one of {', '.join(parsers)}.")
    name = sys.argv.pop(1)
    read, extension = parsers[name]
    path = Path(tempfile.mkdtemp()) / f"a{extension}"
    # All errors of reprior are ValueErrors; parse_json itself raises plain ones.
    refusals = (ValueError,) if name == "json" else _refusals()

    def one_input(data: bytes) -> None:
        path.write_bytes(data)
        try:
            read(path)
        except refusals:
            return

    atheris.Setup(sys.argv, one_input)
    atheris.Fuzz()


def _refusals() -> tuple[type[Exception], ...]:
    from reprior.exceptions import RepriorError

    return (RepriorError,)


if __name__ == "__main__":
    main()
