"""Files larger than memory: fit and apply, against reading and copying the file.

``fit`` is compared with reading the file once in chunks and taking each row's arg max, ``apply``
with a copy through a softmax, both in NumPy and one thread; ours use every core. A fit keeps each
switch up to ten million, as it does where nothing else is asked for, or sums them in bins from the
start, as it does once there are more. Then the time of a fit over four numbers of rows and of
classes, each against the one before: a ratio of 2 is linear growth. Peak memory is that of a
process of its own, against 600 MB. ``scale_large`` is the same of 8 GB, for which the bars are.

``python -m benchmarks.scale FOLDER ROWS CLASSES [MARGIN]`` measures one size, and keeps its files.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.timing import Row, compare

ROWS, CLASSES = 4_000_000, 14
"""224 MB of float32: more than any cache, and small enough to write in every run."""

GROWING_ROWS = (500_000, 1_000_000, 2_000_000, 4_000_000)
GROWING_CLASSES = (8, 16, 32, 64)
ROWS_OF_CLASSES = 500_000

MOST_MEMORY = 600e6
"""Bytes that a fit may use at its peak, whatever the size of the file."""

CHUNK = 1 << 23
"""Bytes that the peers read at a time, as many as reprior does."""

BLOCK = 1 << 18

PEER = "reading and arg max, NumPy in one thread"
COPY = "copy with softmax, NumPy in one thread"

BINNED = {"resolution": 1e-4}

#: Runs the command in its own process and prints its peak memory in bytes. The system's figure for
#: a child is not used, because it starts at the size of the parent.
MEASURED = """
import sys
from benchmarks.scale import command
from pathlib import Path
command(Path(sys.argv[1]))
with open("/proc/self/status") as status:
    print(1024 * int(next(line for line in status if line.startswith("VmHWM:")).split()[1]))
"""


def write(folder: Path, rows: int, classes: int, *, margin: float = 8.0) -> Path:
    """Write scores, labels and counts of a model that is right in nearly all cases.

    About a third of the rows switch once between the strengths 0 and 2.
    """
    rng = np.random.default_rng(0)
    counts = np.rint(1e6 * 0.6 ** (np.arange(classes) * 13 / (classes - 1))).astype(int) + 1
    prior = counts / counts.sum()
    bias = np.log(prior).astype(np.float32)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "counts.json").write_text(json.dumps(counts.tolist()))
    with open(folder / "scores.npy", "wb") as scores, open(folder / "labels.npy", "wb") as labels:
        for file, dtype, shape in ((scores, "<f4", (rows, classes)), (labels, "|u1", (rows,))):
            header = {"descr": dtype, "fortran_order": False, "shape": shape}
            np.lib.format.write_array_header_1_0(file, header)
        for start in range(0, rows, BLOCK):
            n = min(BLOCK, rows - start)
            y = rng.choice(classes, size=n, p=prior)
            z = rng.standard_normal((n, classes), dtype=np.float32) * 1.5 + bias
            z[np.arange(n), y] += margin
            scores.write(z.tobytes())
            labels.write(y.astype(np.uint8).tobytes())
    return folder


def chunks(folder: Path) -> Iterator[np.ndarray[Any, Any]]:
    """The scores as NumPy reads them, chunk by chunk."""
    with open(folder / "scores.npy", "rb") as file:
        np.lib.format.read_magic(file)
        (n, classes), _, dtype = np.lib.format.read_array_header_1_0(file)
        rows = CHUNK // (classes * dtype.itemsize)
        for start in range(0, n, rows):
            m = min(rows, n - start)
            yield np.fromfile(file, dtype, m * classes).reshape(m, classes)


def read_and_decide(folder: Path) -> int:
    """Read the file and compute every row's arg max."""
    return sum(int(chunk.argmax(axis=1)[0]) for chunk in chunks(folder))


def copy_with_softmax(folder: Path) -> None:
    """Write the softmax of every row to a new file."""
    (folder / "copy.npy").unlink(missing_ok=True)
    with open(folder / "copy.npy", "wb") as file:
        for chunk in chunks(folder):
            chunk -= chunk.max(axis=1, keepdims=True)
            np.exp(chunk, out=chunk)
            chunk /= chunk.sum(axis=1, keepdims=True)
            file.write(chunk.data)


def fit(folder: Path, **options: Any) -> Any:
    """Tune a calibrator on the file."""
    import reprior as rp
    from reprior.files.scores import open_scores

    counts = json.loads((folder / "counts.json").read_text())
    scores = open_scores(folder / "scores.npy", labels=folder / "labels.npy", kind="logits")
    calibrator = rp.PosteriorCalibrator(rp.prior_from_counts(counts))
    return rp.engines.fit(calibrator, scores, **options)


def command(folder: Path) -> None:
    """Run ``reprior fit`` on the file, in this process."""
    _run(
        "fit", "scores.npy", "--labels", "labels.npy", "--counts", "counts.json", "--kind",
        "logits", "-o", "cal.json", folder=folder,
    )  # fmt: skip


def apply(folder: Path) -> None:
    """Run ``reprior apply`` on the file, in this process.

    Its output is new, as the peer's is: beside an old one it would need twice as much memory of
    the system's, which may be slow to come by.
    """
    (folder / "out.npy").unlink(missing_ok=True)
    if not (folder / "cal.json").exists():
        command(folder)
    _run("apply", "cal.json", "scores.npy", "-o", "out.npy", folder=folder)


def _run(*arguments: str, folder: Path) -> None:
    from reprior.__main__ import main

    there = [str(folder / each) if "." in each else each for each in arguments]
    with warnings.catch_warnings(), redirect_stdout(StringIO()), redirect_stderr(StringIO()):
        warnings.simplefilter("ignore")  # that many switches are binned
        done = main([*there, "--quiet"])
    if done:
        raise RuntimeError(f"reprior {' '.join(there)} ended with code {done}")


def rows() -> Iterator[Row]:
    """Measure the cost of files against reading and copying them, and how it grows."""
    with tempfile.TemporaryDirectory() as room:
        folder = write(Path(room) / "whole", ROWS, CLASSES)
        what = f"{ROWS:,} × {CLASSES}"
        for how, options in (("each switch kept", {}), ("switches binned", BINNED)):
            yield compare(
                f"fit {what} from npy, {how}",
                partial(fit, folder, **options), PEER, partial(read_and_decide, folder),
                bar=float("nan"), pairs=9,
            )  # fmt: skip
        yield compare(
            f"apply {what} to npy", lambda: apply(folder), COPY,
            lambda: copy_with_softmax(folder), bar=1 / 0.5, pairs=5,
        )  # fmt: skip
        yield peak(folder, f"peak memory of `reprior fit`, {what}")
        yield from growth(Path(room))


def peak(folder: Path, what: str) -> Row:
    """Return the peak memory of the command in its own process, as a share of the limit."""
    found = subprocess.run(
        [sys.executable, "-c", MEASURED, str(folder)], capture_output=True, text=True, check=True
    )
    share = int(found.stdout.split()[-1]) / MOST_MEMORY
    return Row(what, "600 MB", share, share, share, 1.0)


def growth(room: Path) -> Iterator[Row]:
    """Time a fit at each size, against the previous size, half as large."""
    sizes = [(n, CLASSES) for n in GROWING_ROWS]
    yield from _doublings(room, sizes)
    yield from _doublings(room, [(ROWS_OF_CLASSES, k) for k in GROWING_CLASSES])


def _doublings(room: Path, sizes: list[tuple[int, int]]) -> Iterator[Row]:
    before: tuple[Path, str] | None = None
    for n, k in sizes:
        folder, name = write(room / f"{n}-{k}", n, k), f"{n:,} × {k}"
        if before is not None:
            less, half = before
            yield compare(
                f"fit {name}", partial(fit, folder), f"fit {half}", partial(fit, less),
                bar=float("nan"), pairs=5,
            )  # fmt: skip
        before = folder, name


def main() -> None:
    """Write scores of a chosen size, and print seconds and samples per second."""
    folder, n, k = Path(sys.argv[1]), int(float(sys.argv[2])), int(sys.argv[3])
    if not (folder / "scores.npy").exists():
        write(folder, n, k, margin=float(sys.argv[4]) if len(sys.argv) > 4 else 8.0)
    binned = partial(fit, **BINNED)
    for name, work in (("read and arg max", read_and_decide), ("fit", fit), ("binned", binned)):
        began, cpu = time.perf_counter(), time.process_time()
        with warnings.catch_warnings(action="ignore"):
            work(folder)
        seconds, busy = time.perf_counter() - began, time.process_time() - cpu
        print(f"{name:20} {seconds:8.2f} s, {busy:8.2f} s of processors, {n / seconds:,.0f} rows/s")


if __name__ == "__main__":
    main()
