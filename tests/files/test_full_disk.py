"""A disk that is full while an output is written: an error, and what was there is there still.

The system's limit on the size of a file stands for the disk: writing beyond it fails in the same
place and with an error of the same kind, whoever writes, Python or Arrow.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from reprior.files import open_output, open_scores, output_paths

resource = pytest.importorskip("resource")
ROWS, CLASSES = 4000, 5
LIMIT = 1 << 15


@contextmanager
def full_disk() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


def contents(folder: Path) -> dict[str, bytes]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def write(target: Path) -> None:
    file = open_scores(target.parent.parent / "scores.npy", kind="probs")
    with open_output(target, like=file) as writer:
        for chunk in file.chunks(1 << 14):
            writer.write(chunk, chunk.scores, chunk.scores.argmax(axis=1))


@pytest.mark.parametrize("form", ["npy", "npz", "csv", "parquet", "zarr"])
@pytest.mark.parametrize("old", [False, True])
def test_the_old_output_survives(tmp_path, form, old):
    rng = np.random.default_rng(0)
    scores = rng.dirichlet(np.ones(CLASSES), ROWS)  # does not compress
    np.save(tmp_path / "scores.npy", scores)
    folder = tmp_path / "folder"
    folder.mkdir()
    target = folder / f"out.{form}"
    if old:
        write(target)
    before = contents(folder)
    assert bool(before) == old
    with full_disk(), pytest.raises(OSError, match=r"(?i)too large|write") as raised:
        write(target)
    assert raised.value.filename == str(target)
    assert contents(folder) == before
    assert {path.name for path in folder.iterdir()} <= {
        path.name for path in output_paths(target, form)
    }
    write(target)  # with space again
    assert sum(map(len, open_scores(target))) == ROWS
