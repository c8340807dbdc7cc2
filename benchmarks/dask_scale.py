"""Profiles on Dask: two single-thread workers against one, and one against memory.

The scores lie in the workers' memory, as many chunks in each, so that what is timed is the
counting, the tree of sums and what Dask itself costs. The ratio to one thread in memory, less 1, is
that overhead, as a share of the time that counting takes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import cycle, islice
from typing import Any

import dask
import dask.array as da
import numpy as np

import reprior as rp
from benchmarks.profile import scores_of
from benchmarks.timing import Row, compare
from reprior.core.threads import one_thread

CHUNK, LEAD = (6_000_000, 14), 3.5
"""More than half of the rows switch, as in the harder case of the `profile` benchmark."""

N_CHUNKS = 6
RESOLUTION = 1e-4
PAIRS = 5

#: Two workers must be at least 1.7 times as fast as one.
BAR = 1 / 1.7


@contextmanager
def workers(n: int) -> Iterator[Any]:
    """Start ``n`` single-thread worker processes on this machine and return their client."""
    import distributed

    with (
        distributed.LocalCluster(
            n_workers=n, threads_per_worker=1, dashboard_address=":0"
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        yield client


def rows() -> Iterator[Row]:
    logits, labels, prior = scores_of(CHUNK, LEAD)
    logits, labels = np.tile(logits, (N_CHUNKS, 1)), np.tile(labels, N_CHUNKS)
    size = f"{logits.shape[0] // 10**6}M × {CHUNK[1]} in {N_CHUNKS} chunks"

    def in_memory() -> None:
        with one_thread():
            rp.StrengthProfile.from_scores(
                logits, labels, source_prior=prior, resolution=RESOLUTION
            )

    with workers(1) as one, workers(2) as two:
        alone, together = (_spread(client, prior) for client in (one, two))
        yield compare(
            f"profile on two single-thread workers, {size}", together,
            "one single-thread worker", alone, bar=BAR, pairs=PAIRS,
        )  # fmt: skip
        yield compare(
            f"profile on one single-thread worker, {size}", alone,
            "one thread in memory", in_memory, bar=np.nan, pairs=PAIRS,
        )  # fmt: skip


def _spread(client: Any, prior: np.ndarray) -> Any:
    """Make the scores in the workers' memory; return a function that profiles them there."""
    import distributed

    with client.as_current():
        # By default, Dask sometimes puts twice as many chunks on one worker as on the other.
        there = sorted(client.scheduler_info()["workers"])
        parts = [
            dask.delayed(client.submit(scores_of, CHUNK, LEAD, pure=False, workers=[worker]))
            for worker in islice(cycle(there), N_CHUNKS)
        ]
        scores = da.concatenate([da.from_delayed(p[0], CHUNK, dtype=np.float32) for p in parts])
        labels = da.concatenate([da.from_delayed(p[1], CHUNK[:1], dtype=np.int64) for p in parts])
        scores, labels = client.persist([scores, labels])
        distributed.wait([scores, labels])

    def work() -> None:
        with client.as_current():
            rp.StrengthProfile.from_scores(
                scores, labels, source_prior=prior, resolution=RESOLUTION
            )

    return work
