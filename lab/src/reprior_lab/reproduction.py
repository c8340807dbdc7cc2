"""Shared by all ``reprior reproduce`` commands: results, locks on folders, and jobs."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import connection, get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from reprior.exceptions import Argument, OptionError, RepriorError, Text, parts, quoted

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

#: A progress callback: receives a description, how much is done, and the total.
Progress: TypeAlias = Callable[[str, int, int], None]

#: The folder of the cells in the output folder.
CELLS = "cells"

#: The file that a process locks while it trains the folder's cell.
CLAIM = ".claim"

#: Settings that have their own argument and option.
OPTIONS = ("model", "protocol", "root", "seed")

#: Processes are spawned, not forked: PyTorch's threads do not survive a fork.
_SPAWN = get_context("spawn")


@dataclass(frozen=True)
class Reproduction:
    """The tables of one experiment, and the files that were written.

    Parameters
    ----------
    tables : tuple of Table
        The tables to show.
    files : tuple of Path
        All written files, including figures.
    notes : tuple of str
        Remarks for readers of the tables.
    """

    tables: tuple[Table, ...] = ()
    files: tuple[Path, ...] = ()
    notes: tuple[str, ...] = ()


def refuse_settings(settings: Mapping[str, Any], taken: Sequence[str]) -> None:
    """Refuse settings that a table fixes, or that have their own option.

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
    """Lock a cell's folder while it is trained, so that two processes do not train it at once.

    Yields whether the lock was acquired. It ends with the process, however that ends. On systems
    without such locks (Windows) it is always acquired. If the work fails before it has written a
    file, the folder is removed.
    """
    try:
        import fcntl
    except ImportError:  # pragma: no cover - Windows
        yield True
        return
    fresh = _missing(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with _claim_file(folder) as file:
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


@contextmanager
def _claim_file(folder: Path) -> Iterator[int]:
    """Open the file that is locked; a symlink in its place would create a file elsewhere."""
    try:
        descriptor = os.open(folder / CLAIM, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.EISDIR):
            raise
        raise OptionError(
            f"A cell's folder must have a plain file {CLAIM!r}, or none. Got another one in "
            f"{str(folder)!r}. Remove it, or take another folder."
        ) from error
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _missing(folder: Path) -> list[Path]:
    """Return the folders that must be created for a folder to exist, the innermost first."""
    return [each for each in (folder, *folder.parents) if not each.exists()]


def _leave_nothing(folder: Path, fresh: Sequence[Path]) -> None:
    """Remove the folders of a run that failed before it wrote a result."""
    if [path.name for path in folder.iterdir()] == [CLAIM]:
        (folder / CLAIM).unlink()
        with suppress(OSError):  # another process uses it
            for each in fresh:
                each.rmdir()


@contextmanager
def held(home: Path) -> Iterator[None]:
    """Lock a cell's folder, or raise an error if another process trains it."""
    with claimed(home) as ours:
        if not ours:
            raise OptionError(
                f"A cell must be trained by one process at a time. Got {str(home)!r}, which "
                f"another one is at. Wait for it, or ask for other rows."
            )
        yield


def check_jobs(jobs: int | None, devices: Sequence[str]) -> int:
    """Return how many cells to train at once: by default the number of devices.

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
    """Return the progress callback of one task with a known total.

    Examples
    --------
    >>> progress_of(print, "training", 100)(50)
    training 50 100
    """
    if progress is None:
        return None
    return lambda done: progress(what, done, total)


def titled_progress(progress: Progress | None, what: str) -> Callable[[int, int], None] | None:
    """Return the progress callback of one task that reports its own total.

    Examples
    --------
    >>> titled_progress(print, "fusing")(50, 100)
    fusing 50 100
    """
    if progress is None:
        return None
    return lambda done, total: progress(what, done, total)


class Run(Protocol):
    """Trains one cell into a folder, on a device; None if another process trains it.

    It must be a module-level function, so that another process can import it.
    """

    def __call__(self, folder: Path, cell: Any, /, *, device: str | None) -> Any:
        """Train it."""


class Named(Protocol):
    """A cell of a table, or a network, to train."""

    @property
    def name(self) -> str:
        """The name in error messages."""


@dataclass(frozen=True, eq=False)
class _Job:
    """A running chain: its slot, its process, and the pipe of the names of finished cells."""

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

    Every cell is trained on one device: that of slot i on device i modulo the number of devices.
    An error in one of them, or an interrupt, ends all; their progress is in their checkpoints.

    Parameters
    ----------
    folder : path
        The output folder.
    waiting : sequence of chains
        The cells of a chain are trained one after the other.
    jobs : int
        The number of chains at a time.
    progress : callable or None
        Receives the number of finished cells.
    run : callable
        Trains one cell, called as ``run(folder, cell, device=…)``: a module-level function, so
        that another process can import it.
    devices : sequence of str, optional
        Names of devices, see :func:`~reprior_lab.training.devices.list_devices`. Without any,
        ``device`` is None, and each process chooses its own.
    counted : str, default "cells"
        Their name in progress messages.
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
    sender.close()  # only the worker's copy stays open, so its end is noticed
    return _Job(chain, slot, process, receiver)


def _ready(running: Sequence[_Job]) -> list[_Job]:
    """Wait until a job has sent something or has ended, and return all such jobs."""
    ready = connection.wait([job.receiver for job in running])
    return [job for job in running if job.receiver in ready]


def _receive(job: _Job) -> str | None:
    """Return the name of a finished cell, or None at the end; raise the job's error."""
    try:
        name, trouble = job.receiver.recv()
    except EOFError:
        job.process.join()
        if job.process.exitcode == 0:
            return None
        raise RepriorError(
            f"The process that trained {job.chain[0].name} was ended from outside (exit code "
            f"{job.process.exitcode}): memory may have run out. Run the command again, with fewer "
            f"jobs: it resumes from the last epoch."
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
    """Train a chain, and send the name of each finished cell; errors are sent, not printed."""
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
            trouble = error if known else RepriorError(quoted(error))
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
    """Describe runs that differ from the wanted ones only in other settings; "" if there are none.

    Parameters
    ----------
    there : iterable of mapping
        The settings of the finished runs in a folder.
    wanted : sequence of mapping
        The settings of the wanted runs.
    alike : sequence of str
        Settings that identify a run's place in a table.
    what : str
        The word for runs.

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
