"""Work shared among the cores, for passes that release the interpreter's lock."""

from __future__ import annotations

import importlib.util
import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import cache
from typing import TypeVar

__all__ = [
    "begin",
    "compiles",
    "has_numba",
    "in_threads",
    "in_turns",
    "n_cores",
    "one_thread",
    "shares_out",
]

Item = TypeVar("Item")
Result = TypeVar("Result")


_here = threading.local()
"""Whether a thread is one of the pool's."""


def in_threads(work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """Return ``work`` of every item, the first one done here and the others in threads.

    What is asked for from within such a thread is done there: if every thread waited for another
    one, none would be left to do the work. So is what is asked for while the interpreter ends,
    when no thread can be started any more. An error, or Ctrl-C, takes back what has not begun.

    Examples
    --------
    >>> in_threads(abs, [-1, 2, -3])
    [1, 2, 3]
    """
    if len(items) < 2 or not shares_out():
        return [work(item) for item in items]
    try:
        waiting = [_pool().submit(work, item) for item in items[1:]]
    except RuntimeError:  # the interpreter is ending
        return [work(item) for item in items]
    try:
        return [work(items[0]), *(other.result() for other in waiting)]
    finally:
        for other in waiting:
            other.cancel()


def in_turns(work: Callable[[Item], Result], items: Sequence[Item], n_threads: int) -> list[Result]:
    """Return ``work`` of every item; each thread takes the next one when it is free.

    For many short items: a thread that is woken late, as beside a library that keeps its own
    threads spinning, holds nobody up.

    Examples
    --------
    >>> in_turns(abs, [-1, 2, -3], 2)
    [1, 2, 3]
    """
    todo, found = deque(enumerate(items)), dict[int, Result]()

    def take() -> None:
        try:
            while turn := _next(todo):
                found[turn[0]] = work(turn[1])
        except BaseException:
            todo.clear()
            raise

    waiting: list[Future[None]] = []
    if shares_out():
        with suppress(RuntimeError):  # the interpreter is ending
            waiting += [_pool().submit(take) for _ in range(min(n_threads, len(items)) - 1)]
    try:
        take()
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


def begin(work: Callable[[], Result]) -> Future[Result]:
    """Begin a call in a thread of the pool; what it asks for is done in that thread.

    Examples
    --------
    >>> begin(lambda: 6 * 7).result()
    42
    """
    return _pool().submit(work)


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


@cache
def has_numba() -> bool:
    """Whether numba is installed (it is imported only when a pass needs it)."""
    return importlib.util.find_spec("numba") is not None


def compiles(size: int, *, worth: int, worth_loading: int) -> bool:
    """Whether a loop over ``size`` items is compiled.

    ``worth`` is from where on it is sooner done so where numba is in memory, ``worth_loading``
    from where on it pays for being loaded, which takes a second.
    """
    return has_numba() and size >= (worth if "numba" in sys.modules else worth_loading)


def n_cores() -> int:
    """Cores this process may use, or what the environment variable REPRIOR_NUM_THREADS says."""
    told = os.environ.get("REPRIOR_NUM_THREADS", "")
    if told.isdecimal() and int(told) > 0:
        return int(told)
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(n_cores(), thread_name_prefix="reprior", initializer=_mark)


def _mark() -> None:
    _here.is_worker = True


# Threads do not survive a fork: a child that inherited the pool would wait for ever.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)
