"""A file of 8 GB, 143 million rows of 14 float32 scores: time and memory of ``reprior fit``.

Measured as a call, and as a command with what it takes to start Python and to load what was
compiled before; and what it takes of processors, against the formula of ``scale_costs``, which is
made from files of up to 8 million rows. Needs 25 GB of disk and some minutes, and so is run only
when it is asked for.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.scale import COPY, PEER, apply, copy_with_softmax, fit, peak, read_and_decide, write
from benchmarks.timing import Row, compare

ROWS, CLASSES = 143_000_000, 14
_NO_BYTECODE = "PYTHONDONTWRITEBYTECODE"
WHAT = f"{ROWS:,} × {CLASSES}"

COSTS = Path(__file__).parents[1] / "docs" / "results" / "scale-costs.json"

#: The peer as a command, as one would write it.
READ = """
import sys
import numpy as np
with open(sys.argv[1], "rb") as file:
    np.lib.format.read_magic(file)
    (n, classes), _, dtype = np.lib.format.read_array_header_1_0(file)
    rows = (1 << 23) // (classes * dtype.itemsize)
    for start in range(0, n, rows):
        m = min(rows, n - start)
        np.fromfile(file, dtype, m * classes).reshape(m, classes).argmax(axis=1)
"""


def command(folder: Path) -> None:
    """Return the command line of ``reprior fit``."""
    _process(
        "-m", "reprior", "fit", "scores.npy", "--labels", "labels.npy", "--counts", "counts.json",
        "--kind", "logits", "-o", "cal.json", "--quiet", folder=folder,
    )  # fmt: skip


def read(folder: Path) -> None:
    """Return the command line of the peer."""
    _process("-c", READ, "scores.npy", folder=folder)


def _process(*arguments: str, folder: Path) -> None:
    # Modules are precompiled, as in installed packages.
    given = {name: value for name, value in os.environ.items() if name != _NO_BYTECODE}
    done = [sys.executable, *arguments]
    subprocess.run(done, cwd=folder, check=True, capture_output=True, env=given)


def foretold(switches: float) -> float:
    """Processor seconds of a binned fit by the formula of the published costs."""
    run = json.loads(COSTS.read_text())
    per_row = np.dot(run["constants"]["binned"], [1.0, CLASSES, switches])
    return float(per_row) * ROWS / 1e9


def processors(folder: Path) -> Row:
    """Return the processor time of one fit, relative to the predicted time."""
    busy = time.process_time()
    fitted = fit(folder)
    spent = time.process_time() - busy
    ratio = spent / foretold(fitted.profile_.n_switches / ROWS)
    what = f"processor time of the fit, {WHAT}"
    return Row(what, "the formula of docs/scale.md", ratio, ratio, ratio, np.nan)


def rows() -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as room, warnings.catch_warnings(action="ignore"):
        folder = write(Path(room), ROWS, CLASSES)
        yield compare(
            f"fit {WHAT} from npy", partial(fit, folder), PEER, partial(read_and_decide, folder),
            bar=1 / 0.7, pairs=5,
        )  # fmt: skip
        yield compare(
            f"`reprior fit` as a command, {WHAT}", partial(command, folder),
            f"{PEER}, as a command", partial(read, folder),
            bar=1 / 0.7, pairs=5,
        )  # fmt: skip
        yield processors(folder)
        yield peak(folder, f"peak memory of `reprior fit`, {WHAT}")
        yield compare(
            f"apply {WHAT} to npy", partial(apply, folder), COPY,
            partial(copy_with_softmax, folder), bar=1 / 0.5, pairs=2, warm=True,
        )  # fmt: skip
