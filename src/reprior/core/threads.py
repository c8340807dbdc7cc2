"""Work shared among the cores, for passes that release the interpreter's lock."""

from __future__ import annotations

import math
import os
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache, partial
from typing import TypeVar

__all__ = [
    "begin",
    "in_threads",
    "n_cores",
    "one_thread",
    "shares_out",
]

CGROUP = "/sys/fs/cgroup"
"""Where Linux shows the limits of this process's container."""

Item = TypeVar("Item")
Result = TypeVar("Result")


_here = threading.local()
"""Whether a thread is one of the pool's."""


def in_threads(
    work: Callable[[Item], Result], items: Sequence[Item], n_threads: int | None = None
) -> list[Result]:
    """Return ``work`` of every item, the first one done here, the others by whoever is free.

    By at most ``n_threads``, this one among them, or as many as there are items. Each takes the
    next item when it is free: a thread that is woken late, as beside a library that keeps its own
    threads spinning, or that the system refuses to start, holds nobody up.

    What is asked for from within such a thread is done there: if every thread waited for another
    one, none would be left to do the work. An error, or Ctrl-C, takes back what has not begun.

    Examples
    --------
    >>> in_threads(abs, [-1, 2, -3])
    [1, 2, 3]
    """
    todo, found = deque(enumerate(items)), dict[int, Result]()
    first = _next(todo)

    def take(turn: tuple[int, Item] | None) -> None:
        try:
            while turn is not None:
                found[turn[0]] = work(turn[1])
                turn = _next(todo)
        except BaseException:
            todo.clear()
            raise

    most = len(items) if n_threads is None else min(n_threads, len(items))
    waiting: list[Future[None]] = []
    for _ in range(most - 1 if shares_out() else 0):
        waiting.append(Future())
        if not _handed_over(_pool(), waiting[-1], lambda: take(_next(todo))):
            break
    try:
        take(first)
    finally:
        begun = [other for other in waiting if not other.cancel()]
    for other in begun:
        other.result()
    return [found[i] for i in range(len(items))]


def _next(todo: deque[Item]) -> Item | None:
    try:
        return todo.popleft()
    except IndexError:
        return None


def begin(work: Callable[[], Result], pool: ThreadPoolExecutor | None = None) -> Future[Result]:
    """Begin a call in a thread of the common pool, or of another one.

    What is asked for from within a thread of the common pool is done there. Where no thread can
    be started, the call is made here, before this returns.

    Examples
    --------
    >>> begin(lambda: 6 * 7).result()
    42
    """
    found = Future[Result]()
    if _handed_over(pool or _pool(), found, work) or not found.cancel():
        return found
    here = Future[Result]()  # no thread has taken it up, nor will one
    try:
        here.set_result(work())
    except Exception as error:  # for whoever asks for the result
        here.set_exception(error)
    return here


def _handed_over(
    pool: ThreadPoolExecutor, future: Future[Result], work: Callable[[], Result]
) -> bool:
    """Let a thread of a pool do work for a future; return False if none can be started.

    None can while the interpreter ends, or at a limit of the system. The work may lie in the
    pool's queue all the same, where a thread that is busy elsewhere finds it later: then it is
    done unless the future was cancelled before.
    """
    try:
        pool.submit(partial(_do, future, work))
    except RuntimeError:
        return False
    return True


def _do(future: Future[Result], work: Callable[[], Result]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        future.set_result(work())
    except BaseException as error:  # as an executor hands it on
        future.set_exception(error)


def shares_out() -> bool:
    """Whether this thread may hand work to others: not if it is itself one of many."""
    return not getattr(_here, "is_worker", False)


@contextmanager
def one_thread() -> Iterator[None]:
    """Do all work of this thread in it: the caller has set others to work beside it.

    Examples
    --------
    >>> with one_thread():
    ...     shares_out()
    False
    """
    before, _here.is_worker = not shares_out(), True
    try:
        yield
    finally:
        _here.is_worker = before


def n_cores() -> int:
    """Cores this process may use, or what the environment variable REPRIOR_NUM_THREADS says.

    These are the cores of the affinity mask, and no more than the container's quota amounts to.
    """
    told = os.environ.get("REPRIOR_NUM_THREADS", "")
    if told.isdecimal() and int(told) > 0:
        return int(told)
    affinity = getattr(os, "sched_getaffinity", None)
    allowed = len(affinity(0)) if affinity else os.cpu_count() or 1
    quota = _quota(CGROUP)
    return allowed if quota is None else max(1, min(allowed, math.ceil(quota)))


@cache
def _quota(root: str) -> float | None:
    """Return how many cores' time the control group of this container may use, or None.

    It is read once per process. Within a container its own group is the root of what it sees:
    ``cpu.max`` holds quota and period (version 2), or two files do (version 1).
    """
    try:
        return _share(*_words(root, "cpu.max"))
    except (OSError, TypeError, ValueError):
        pass
    try:
        (quota,), (period,) = (
            _words(root, "cpu/cpu.cfs_quota_us"),
            _words(root, "cpu/cpu.cfs_period_us"),
        )
        return _share(quota, period)
    except (OSError, ValueError):
        return None


def _words(root: str, name: str) -> list[str]:
    with open(os.path.join(root, name), encoding="ascii") as file:
        return file.read().split()


def _share(quota: str, period: str) -> float | None:
    """Return quota / period; "max", -1 and nonsense are no limit."""
    if quota == "max" or int(quota) <= 0 or int(period) <= 0:
        return None
    return int(quota) / int(period)


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(n_cores(), thread_name_prefix="reprior", initializer=_mark)


def _mark() -> None:
    _here.is_worker = True


# Threads do not survive a fork: a child that inherited the pool would wait for ever.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)
