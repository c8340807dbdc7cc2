"""A million rows of fifty classes, and twelve million of three, in bounded memory.

Peak memory is what the child says of itself (VmHWM): what a parent measures may include the
parent's own size.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROWS, CLASSES, GROUP = 1_000_000, 50, 50_000
LIMIT = 1 << 30  # stated in the documentation

FIT_LIMIT = 600 * 10**6
"""What a fit from npy files may take, whatever their size; pages of parquet take room besides."""

MANY = 12_000_000
"""Rows of three classes, nearly all of which switch: more than are kept one by one."""

#: Runs the program and writes its peak memory, in bytes, to a file.
MEASURED = """
import sys
from reprior.__main__ import main
code = main(sys.argv[2:])
with open("/proc/self/status") as status:
    peak = next(line for line in status if line.startswith("VmHWM:"))
with open(sys.argv[1], "w") as file:
    file.write(str(1024 * int(peak.split()[1])))
sys.exit(code)
"""

pytestmark = pytest.mark.heavy


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A parquet file of 200 MB, written row group by row group, and the counts."""
    import pyarrow as pa
    from pyarrow import parquet

    folder = tmp_path_factory.mktemp("million")
    rng = np.random.default_rng(0)
    counts = np.rint(10_000 * 0.87 ** np.arange(CLASSES)).astype(int)
    (folder / "counts.json").write_text(json.dumps(counts.tolist()))
    bias = np.log(counts / counts.sum()).astype(np.float32)
    writer = None
    for _ in range(ROWS // GROUP):
        labels = rng.integers(CLASSES, size=GROUP)
        scores = rng.normal(size=(GROUP, CLASSES)).astype(np.float32) + bias
        scores[np.arange(GROUP), labels] += 4
        columns = {f"class {k}": scores[:, k] for k in range(CLASSES)}
        table = pa.table({**columns, "label": labels, "note": ["a kept column"] * GROUP})
        writer = writer or parquet.ParquetWriter(folder / "big.parquet", table.schema)
        writer.write_table(table)
    writer.close()
    return folder


def peak(folder: Path, *arguments: str) -> int:
    if not os.path.exists("/proc/self/status"):
        pytest.skip("SKIPPED: this system has no /proc, so peak memory cannot be measured")
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, "peak.txt", *arguments],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return int((folder / "peak.txt").read_text())


def write_npy(folder: Path, n: int, counts: list[int], gap: float) -> None:
    """Scores and labels of n rows as npy, written piece by piece."""
    rng, k = np.random.default_rng(1), len(counts)
    bias = np.log(np.array(counts) / sum(counts)).astype(np.float32)
    scores = np.lib.format.open_memmap(folder / "scores.npy", "w+", np.float32, (n, k))
    labels = np.lib.format.open_memmap(folder / "labels.npy", "w+", np.uint8, (n,))
    for start in range(0, n, 250_000):
        stop = min(start + 250_000, n)
        y = rng.integers(k, size=stop - start)
        z = rng.normal(size=(stop - start, k)).astype(np.float32) + bias
        z[np.arange(stop - start), y] += gap
        scores[start:stop], labels[start:stop] = z, y
    (folder / "counts.json").write_text(json.dumps(counts))


@pytest.mark.parametrize(
    "n, counts, gap",
    [
        (ROWS, np.rint(10_000 * 0.87 ** np.arange(CLASSES)).astype(int).tolist(), 4.0),
        (MANY, [9_900, 90, 10], 0.0),
    ],
    ids=["many classes", "many switches"],
)
def test_fit_from_npy(tmp_path, n, counts, gap):
    write_npy(tmp_path, n, counts, gap)
    found = peak(
        tmp_path, "fit", "scores.npy", "--labels", "labels.npy", "--counts", "counts.json",
        "--kind", "logits", "-o", "cal.json",
    )  # fmt: skip
    assert found < FIT_LIMIT, f"{found / 1e6:.0f} MB"


def test_fit_apply_and_evaluate(folder):
    found = {
        "fit": peak(folder, "fit", "big.parquet", "--counts", "counts.json", "--kind", "logits",
                    "-o", "cal.json"),
        "apply": peak(folder, "apply", "cal.json", "big.parquet", "-o", "out.parquet"),
        "keep": peak(folder, "apply", "cal.json", "big.parquet", "-o", "kept.parquet", "--keep"),
        "evaluate": peak(folder, "evaluate", "cal.json", "big.parquet", "--json"),
    }  # fmt: skip
    assert all(bytes_used < LIMIT for bytes_used in found.values()), found
    from pyarrow import parquet

    assert parquet.read_metadata(folder / "out.parquet").num_rows == ROWS
    kept = parquet.ParquetFile(folder / "kept.parquet")
    assert kept.metadata.num_rows == ROWS
    assert "note" in kept.schema_arrow.names
