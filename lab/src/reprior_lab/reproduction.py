"""What every ``reprior reproduce`` shares: its result, folders held by one process, and jobs."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import connection, get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from reprior.exceptions import Argument, OptionError, RepriorError, Text, parts

if TYPE_CHECKING:
    from reprior_lab.tables import Table

__all__ = [
    "CELLS",
    "Progress",
    "Reproduction",
    "check_jobs",
    "claimed",
    "held",
    "of_other_settings",
    "progress_of",
    "refuse_settings",
    "titled_progress",
    "train_at_once",
]

#: Told what is being done, how much of it is done, and of how much.
Progress: TypeAlias = Callable[[str, int, int], None]

#: The folder of the cells in that of a reproduction.
CELLS = "cells"

#: The file that a process holds while it trains what the folder is for.
CLAIM = ".claim"

#: Settings that are arguments and options of their own, where a table does not leave them open.
OPTIONS = ("model", "protocol", "root", "seed")

#: Started anew, not forked: PyTorch's threads do not survive a fork.
_SPAWN = get_context("spawn")


@dataclass(frozen=True)
class Reproduction:
    """The tables and figures of one experiment, and where they were written.

    Parameters
    ----------
    tables : tuple of Table
        What a person is shown.
    files : tuple of Path
        Everything that was written, figures included.
    notes : tuple of str
        Sentences that whoever reads the tables must know.
    """

    tables: tuple[Table, ...] = ()
    files: tuple[Path, ...] = ()
    notes: tuple[str, ...] = ()


def refuse_settings(settings: Mapping[str, Any], taken: Sequence[str]) -> None:
    """Refuse settings that a table fixes, or that have an option of their own.

    Examples
    --------
    >>> refuse_settings({"loss": "focal"}, ("loss", "schedule"))
    Traceback (most recent call last):
    ...
    reprior.exceptions.OptionError: `settings` must be what the table leaves open. Got 'loss',
    which the table fixes by its data, rows and columns. Leave it out.
    >>> refuse_settings({"seed": 1}, ("loss", "seed"))
    Traceback (most recent call last):
    ...
    reprior.exceptions.OptionError: `settings` must be what the table leaves open. Got 'seed',
    which is an option of its own. Pass `seed` instead.
    """
    for key in settings:
        if key in taken:
            if key in OPTIONS:
                reason = "is an option of its own"
                remedy: Text = ["Pass ", Argument(key), " instead."]
            else:
                reason = "the table fixes by its data, rows and columns"
                remedy = "Leave it out."
            raise OptionError(
                argument="settings",
                rule="must be what the table leaves open",
                got=f"{key!r}, which {reason}",
                remedy=remedy,
            )


@contextmanager
def claimed(folder: Path) -> Iterator[bool]:
    """Hold a cell's folder while it is trained, so that two processes do not train it at once.

    Gives whether it could be had. The claim ends with the process, however that ends. Where the
    system has no such locks (Windows), every claim is granted. Where the work fails before it has
    left a file, the folder goes too.
    """
    try:
        import fcntl
    except ImportError:  # pragma: no cover - Windows
        yield True
        return
    fresh = _missing(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / CLAIM).open("wb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        except OSError:  # a file system without locks
            yield True
            return
        try:
            yield True
        except BaseException:
            _leave_nothing(folder, fresh)
            raise


def _missing(folder: Path) -> list[Path]:
    """Return the folders that have to be made for one to be there, the innermost first."""
    return [each for each in (folder, *folder.parents) if not each.exists()]


def _leave_nothing(folder: Path, fresh: Sequence[Path]) -> None:
    """Remove the folders that a run made which failed before it had anything to keep."""
    if [path.name for path in folder.iterdir()] == [CLAIM]:
        (folder / CLAIM).unlink()
        with suppress(OSError):  # somebody else is at work there
            for each in fresh:
                each.rmdir()


@contextmanager
def held(home: Path) -> Iterator[None]:
    """Hold a cell's folder, so that no other process trains it at the same time."""
    with claimed(home) as ours:
        if not ours:
            raise OptionError(
                f"A cell must be trained by one process at a time. Got {str(home)!r}, which "
                f"another one is at. Wait for it, or ask for other rows."
            )
        yield


def check_jobs(jobs: int | None, devices: Sequence[str]) -> int:
    """Return how many are trained at once: if not given, as many as there are devices.

    Examples
    --------
    >>> check_jobs(None, ["cuda:0", "cuda:1"]), check_jobs(1, ["cuda:0", "cuda:1"])
    (2, 1)
    """
    if jobs is None:
        return max(1, len(devices))
    if jobs < 1:
        raise OptionError(
            argument="jobs",
            rule="must be at least 1",
            got=str(jobs),
            remedy="Pass 1 for one after another.",
        )
    return jobs


def progress_of(progress: Progress | None, what: str, total: int) -> Callable[[int], None] | None:
    """Return progress of one thing, of which so much is to be done.

    Examples
    --------
    >>> progress_of(print, "training", 100)(50)
    training 50 100
    """
    if progress is None:
        return None
    return lambda done: progress(what, done, total)


def titled_progress(progress: Progress | None, what: str) -> Callable[[int, int], None] | None:
    """Return progress of one thing, which says itself how much is to be done.

    Examples
    --------
    >>> titled_progress(print, "fusing")(50, 100)
    fusing 50 100
    """
    if progress is None:
        return None
    return lambda done, total: progress(what, done, total)


class Run(Protocol):
    """Trains one into a folder, on a device; None where another process is at it.

    A function of a module, for a process of its own to find it.
    """

    def __call__(self, folder: Path, cell: Any, /, *, device: str | None) -> Any:
        """Train it."""


class Named(Protocol):
    """What is trained: a cell of a table, or a network."""

    @property
    def name(self) -> str:
        """What it is called where it fails."""


@dataclass(frozen=True, eq=False)
class _Job:
    """A chain at work: its slot, its process, and where the names of finished cells arrive."""

    chain: tuple[Named, ...]
    slot: int
    process: Any
    receiver: connection.Connection


def train_at_once(
    folder: Path,
    waiting: Sequence[Sequence[Named]],
    jobs: int,
    progress: Progress | None,
    *,
    run: Run,
    devices: Sequence[str] = (),
    counted: str = "cells",
) -> None:
    """Train chains of cells, ``jobs`` of them at a time, on equal shares of the CPU's threads.

    Every cell is trained on one device: the i-th of those that run at a time on device i modulo
    the number of devices. An error in one of them, or an interrupt, ends all: what they have done
    is in their checkpoints.

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
    run : callable
        What trains one of them: a function of a module, for a process of its own to find it. It
        is called as ``run(folder, cell, device=…)``.
    devices : sequence of str, optional
        Names of devices, see :func:`~reprior_lab.training.devices.list_devices`. Without any,
        ``device`` is None, and each process takes what it finds.
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
                slot = min(set(range(jobs)) - {job.slot for job in running})
                device = devices[slot % len(devices)] if devices else None
                running.append(_start(folder, left.pop(0), slot, device, threads, run))
            for job in _ready(running):
                if _receive(job) is None:
                    running.remove(job)
                    continue
                done += 1
                if progress is not None:
                    progress(counted, done, total)
    finally:
        for job in running:
            job.process.terminate()
            job.process.join()


def _start(
    folder: Path, chain: tuple[Named, ...], slot: int, device: str | None, threads: int, run: Run
) -> _Job:
    receiver, sender = _SPAWN.Pipe(duplex=False)
    process = _SPAWN.Process(
        target=_work, args=(folder, chain, device, threads, run, sender), daemon=True
    )
    process.start()
    sender.close()  # the worker has its own: when that is closed, there is no more to receive
    return _Job(chain, slot, process, receiver)


def _ready(running: Sequence[_Job]) -> list[_Job]:
    """Return the jobs that have sent something, or have ended; wait for one."""
    ready = connection.wait([job.receiver for job in running])
    return [job for job in running if job.receiver in ready]


def _receive(job: _Job) -> str | None:
    """Return the name of a cell that is done, or None at the end; raise what went wrong."""
    try:
        name, trouble = job.receiver.recv()
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
        raise _with_name(name, trouble)
    return str(name)


def _with_name(name: str, error: RepriorError) -> RepriorError:
    """Return an error of a cell with the cell's name in front."""
    text = parts(error.text)
    if error.argument is not None:
        named = error.argument
        argument = named if isinstance(named, Argument) else Argument(named)
        text = [argument, " ", *parts(error.rule), "."]
    return RepriorError([f"{name}: ", *text], got=error.got, remedy=error.remedy)


def _work(
    folder: Path,
    chain: tuple[Named, ...],
    device: str | None,
    threads: int,
    run: Run,
    sender: connection.Connection,
) -> None:
    """Train a chain, and send the name of each cell; errors are sent, not printed."""
    import torch

    # Ctrl-C reaches all processes of a terminal: the first one ends the others.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(threads)
    for cell in chain:
        try:
            if run(folder, cell, device=device) is None:
                return  # another process is at it, and at what starts from it
        except (RepriorError, OSError, MemoryError) as error:
            known = isinstance(error, RepriorError)
            trouble = error if known else RepriorError(str(error) or type(error).__name__)
            with suppress(BrokenPipeError):
                sender.send((cell.name, trouble))
            return
        sender.send((cell.name, None))


def of_other_settings(
    there: Iterable[Mapping[str, Any]],
    wanted: Sequence[Mapping[str, Any]],
    alike: Sequence[str],
    what: str,
) -> str:
    """Return a sentence on runs that only other settings keep from being found; "" without any.

    Parameters
    ----------
    there : iterable of mapping
        The settings of the finished runs of a folder.
    wanted : sequence of mapping
        Those that are asked for.
    alike : sequence of str
        Settings by which one run stands for another in a table.
    what : str
        What runs are called.

    Examples
    --------
    >>> wanted = [{"loss": "ce", "epochs": 20}, {"loss": "focal", "epochs": 20}]
    >>> of_other_settings([{"loss": "ce", "epochs": 2}], wanted, ["loss"], "cell")
    'It has 1 cell of other settings: epochs is 2, not 20. Ask for it by the --set and --protocol
    that it was trained with.'
    """
    differing: list[list[str]] = []
    for own in there:
        pairs = [each for each in wanted if all(each.get(k) == own.get(k) for k in alike)]
        if pairs and own not in pairs:
            keys = sorted({*own, *pairs[0]})
            unlike = [key for key in keys if own.get(key) != pairs[0].get(key)]
            differing.append([f"{k} is {own.get(k)!r}, not {pairs[0].get(k)!r}" for k in unlike])
    if not differing:
        return ""
    one = len(differing) == 1
    return (
        f"It has {len(differing)} {what}{'' if one else 's'} of other settings: "
        f"{'; '.join(differing[0])}. Ask for {'it' if one else 'them'} by the --set and --protocol "
        f"that {'it was' if one else 'they were'} trained with."
    )
