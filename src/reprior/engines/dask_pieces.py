"""Shards of files as pieces of a fit: a task reads one, counts it, and gives a small result."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from reprior.calibrator.encoding import Terms
from reprior.core.threads import one_thread
from reprior.engines.chunk_source import Stream
from reprior.engines.dask_shards import (
    FileState,
    Head,
    Shard,
    ShardOptions,
    UnlikeShardError,
    open_shard,
)
from reprior.engines.file_states import refuse_other_samples
from reprior.exceptions import FileFormatError, RepriorWarning, require
from reprior.profile.dask_arrays import Join, Tally, delayed, tree

__all__ = ["FilePieces", "ShardJob"]

#: Shards that a sentence names.
NAMED = 5


@dataclass(frozen=True, eq=False)
class ShardJob:
    """What every task has to know."""

    options: Any
    """The calibrator, not fitted: how scores and labels are meant."""
    terms: Terms
    reading: ShardOptions
    head: Head
    skip: bool


class _Seen(NamedTuple):
    """What a shard was in one pass."""

    n_samples: int
    states: dict[str, FileState]


class _Result(NamedTuple):
    """What came of some shards, and which could not be read, by their places among all."""

    value: Any
    failures: tuple[tuple[int, str], ...]
    seen: tuple[tuple[int, _Seen], ...] = ()


class FilePieces:
    """Shards, each gone through by one task.

    Under ``job.skip``, shards that cannot be read are left out, all of each, with a warning that
    names them; the first pass decides which these are, and ``left_out`` keeps their URLs. The
    others must be the same in every pass: as many samples, and files of the same size that were
    not changed since, so far as their file system tells.
    """

    def __init__(self, shards: Sequence[Shard], job: ShardJob) -> None:
        self.shards, self.job = list(shards), job
        self.left_out: list[str] = []
        self._settled = False
        self._seen: list[_Seen] = []

    @property
    def n_samples(self) -> int:
        """How many samples the last pass has read."""
        return sum(each.n_samples for each in self._seen)

    def run(self, begin: Callable[[], Tally], join: Join) -> Any:
        """What ``join`` makes of the results of all shards, each gone through by a new tally."""
        return self.run_groups(begin, join, 1)[0]

    def run_groups(self, begin: Callable[[], Tally], join: Join, n_groups: int) -> list[Any]:
        """The same for every group by itself; shards are dealt out to the groups in turn."""
        dask = require("dask", extra="dask", purpose="To read shards on Dask")
        shared = delayed((begin, self.job, not self._settled), traverse=False)
        work, joined = delayed(_on_shard), _Joined(join)
        tasks = [work(shared, i, shard) for i, shard in enumerate(self.shards)]
        groups = [tree(tasks[i::n_groups], joined) for i in range(n_groups)]
        # A group of one shard has not been joined yet.
        results: list[_Result] = [joined([each]) for each in dask.compute(*groups)]
        self._settle(sorted(failure for result in results for failure in result.failures))
        seen = dict(each for result in results for each in result.seen)
        self._compare([seen[i] for i in sorted(seen)])
        return [result.value for result in results]

    def _compare(self, now: list[_Seen]) -> None:
        """Refuse shards that are not what they were in an earlier pass."""
        for shard, a, b in zip(self.shards, self._seen or now, now, strict=True):
            if a.n_samples != b.n_samples:
                got = f"{a.n_samples} samples in {shard.url!r}, and then {b.n_samples}"
                refuse_other_samples("scores", got)
            for url, state in a.states.items():
                if how := state.became(b.states[url]):
                    refuse_other_samples("scores", f"{url!r}, which {how}")
        self._seen = now

    def _settle(self, failures: Sequence[tuple[int, str]]) -> None:
        """Leave out what could not be read, in every later pass too, and say so."""
        self._settled = True
        if not failures:
            return
        gone = {i for i, _ in failures}
        self.left_out.extend(self.shards[i].url for i in sorted(gone))
        self.shards = [shard for i, shard in enumerate(self.shards) if i not in gone]
        few = " ".join(sentence for _, sentence in failures[:NAMED])
        more = f" And {len(failures) - NAMED} more." if len(failures) > NAMED else ""
        if not self.shards:
            raise FileFormatError(f"Some shard must be readable. Got none that is. {few}{more}")
        warnings.warn(
            f"{len(failures)} of {len(failures) + len(self.shards)} shards could not be read and "
            f"were left out: {few}{more}",
            RepriorWarning,
            stacklevel=2,
        )


@dataclass(frozen=True, eq=False)
class _Joined:
    """Joins what came of shards that could be read."""

    join: Join

    def __call__(self, results: list[_Result]) -> _Result:
        failures = tuple(failure for result in results for failure in result.failures)
        known = [result.value for result in results if result.value is not None]
        seen = tuple(each for result in results for each in result.seen)
        return _Result(self.join(known) if known else None, failures, seen)


def _on_shard(shared: tuple[Callable[[], Tally], ShardJob, bool], i: int, shard: Shard) -> _Result:
    """Go through the i-th shard: all of it, or nothing."""
    begin, job, first = shared
    tally, n_samples = begin(), 0
    states = shard.states(job.reading.storage)  # before: what comes later is seen next time
    try:
        with open_shard(shard, job.reading, job.head) as file, one_thread():
            if file is not None:
                stream = Stream(job.options, file, job.terms, may_be_empty=True)
                for part in stream.parts():
                    with part.located():
                        tally.add(part.data)
                n_samples = stream.n_samples or 0
    except (FileFormatError, OSError) as error:
        # What can be read and does not belong to the others is never passed over.
        if not job.skip or not first or isinstance(error, UnlikeShardError):
            raise
        return _Result(None, ((i, _sentence(error)),))
    return _Result(tally.result(), (), ((i, _Seen(n_samples, states)),))


def _sentence(error: Exception) -> str:
    text = str(error)
    return text if text.endswith(".") else f"{text}."
