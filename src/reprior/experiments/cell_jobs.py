"""Cells trained several at once, each chain of them in a process of its own."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import connection, get_context
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from reprior.exceptions import RepriorError
from reprior.experiments.reproduction import Progress

__all__ = ["train_at_once"]

#: Trains one into a folder; None where another process is at it. A function of a module, for a
#: process of its own to find it.
Run: TypeAlias = Callable[[Path, Any], Any]


class Named(Protocol):
    """What is trained: a cell of a table, or a network."""

    @property
    def name(self) -> str:
        """What it is called where it fails."""


#: Started anew, not forked: PyTorch's threads do not survive a fork.
_SPAWN = get_context("spawn")


@dataclass(frozen=True, eq=False)
class _Job:
    """A chain at work: its process, and where it tells of each cell that is done."""

    chain: tuple[Named, ...]
    process: Any
    heard: connection.Connection


def train_at_once(
    folder: Path,
    waiting: Sequence[Sequence[Named]],
    jobs: int,
    progress: Progress | None,
    *,
    run: Run | None = None,
    counted: str = "cells",
) -> None:
    """Train chains of cells, ``jobs`` of them at a time, on equal shares of the CPU's threads.

    An error in one of them, or an interrupt, ends all: what they have done is in their
    checkpoints.

    Parameters
    ----------
    folder : path
        Where they are trained.
    waiting : sequence of chains
        Those of a chain are trained one after the other.
    jobs : int
        Chains at a time.
    progress : callable or None
        Told how many are done.
    run : callable, optional
        What trains one of them. By default it is that of the CIFAR cells.
    counted : str, default "cells"
        What they are called in progress.
    """
    left = [tuple(chain) for chain in waiting]
    total, done = sum(map(len, left)), 0
    threads = max(1, (os.cpu_count() or 1) // jobs)
    running: list[_Job] = []
    if progress is not None:
        progress(counted, 0, total)
    try:
        while left or running:
            while left and len(running) < jobs:
                running.append(_start(folder, left.pop(0), threads, run))
            for job in _ready(running):
                told = _hear(job)
                if told is None:
                    running.remove(job)
                    continue
                done += 1
                if progress is not None:
                    progress(counted, done, total)
    finally:
        for job in running:
            job.process.terminate()
            job.process.join()


def _start(folder: Path, chain: tuple[Named, ...], threads: int, run: Run | None) -> _Job:
    heard, said = _SPAWN.Pipe(duplex=False)
    process = _SPAWN.Process(target=_work, args=(folder, chain, threads, run, said), daemon=True)
    process.start()
    said.close()  # the worker has its own: when that is closed, there is no more to hear
    return _Job(chain, process, heard)


def _ready(running: Sequence[_Job]) -> list[_Job]:
    """Return the jobs that have something to say, or have ended; wait for one."""
    ready = connection.wait([job.heard for job in running])
    return [job for job in running if job.heard in ready]


def _hear(job: _Job) -> str | None:
    """Return the name of a cell that is done, or None at the end; raise what went wrong."""
    try:
        name, trouble = job.heard.recv()
    except EOFError:
        job.process.join()
        if job.process.exitcode == 0:
            return None
        raise RepriorError(
            f"The process that trained {job.chain[0].name} was ended from outside (exit code "
            f"{job.process.exitcode}): memory may have run out. Run the command again, with fewer "
            f"jobs: it goes on from the last epoch."
        ) from None
    if trouble is not None:
        raise RepriorError(f"{name}: {trouble}")
    return str(name)


def _work(
    folder: Path,
    chain: tuple[Named, ...],
    threads: int,
    run: Run | None,
    said: connection.Connection,
) -> None:
    """Train a chain, telling of each cell; what goes wrong is told, not printed."""
    import torch

    from reprior.experiments.cifar import run_cell

    train: Run = run_cell if run is None else run
    # Ctrl-C reaches all processes of a terminal: the first one ends the others.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(threads)
    for cell in chain:
        try:
            if train(folder, cell) is None:
                return  # another process is at it, and at what starts from it
        except (RepriorError, OSError, MemoryError) as error:
            with suppress(BrokenPipeError):
                said.send((cell.name, str(error) or type(error).__name__))
            return
        said.send((cell.name, None))
