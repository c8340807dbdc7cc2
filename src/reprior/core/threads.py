"""Threads: work shared among the cores, for passes that release the interpreter's lock.

Also the prefetching of an iterator's items in a background thread.
"""

from __future__ import annotations

import math
import os
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache, partial
from itertools import pairwise
from queue import Empty, Queue
from typing import TypeVar

__all__ = [
    "begin",
    "cut",
    "in_threads",
    "n_cores",
    "n_shares",
    "one_thread",
    "prefetch",
    "shares",
    "shares_out",
]

CGROUP = "/sys/fs/cgroup"
"""Where Linux shows the limits of this process's container."""

SCORES_PER_THREAD = 1 << 18
"""Fewer scores than this are done before a second thread is awake."""

Item = TypeVar("Item")
Result = TypeVar("Result")


_thread = threading.local()
"""Whether a thread is one of the pool's."""


_END = object()

_JOIN_SECONDS = 0.01
"""How long to wait for the thread to end before its queue is drained again."""


def in_threads(
    work: Callable[[Item], Result], items: Sequence[Item], n_threads: int | None = None
) -> list[Result]:
    """Return ``work`` of every item, shared among this thread and those of the common pool.

    At most ``n_threads`` work, this one among them, or as many as there are items. Each takes the
    next item when it is free: a thread that wakes late, as beside a library that keeps its own
    threads spinning, or that the system refuses to start, delays no other.

    A call from within such a thread does all work in it: if every thread waited for another one,
    none would be left to work. An error, or Ctrl-C, cancels what has not begun.

    Examples
    --------
    >>> in_threads(abs, [-1, 2, -3])
    [1, 2, 3]
    """
    todo = deque(enumerate(items))
    results: dict[int, Result] = {}
    first = _next(todo)

    def take(turn: tuple[int, Item] | None) -> None:
        try:
            while turn is not None:
                results[turn[0]] = work(turn[1])
                turn = _next(todo)
        except BaseException:
            todo.clear()
            raise

    most = len(items) if n_threads is None else min(n_threads, len(items))
    waiting: list[Future[None]] = []
    for _ in range(most - 1 if shares_out() else 0):
        waiting.append(Future())
        if not _submitted(_pool(), waiting[-1], lambda: take(_next(todo))):
            break
    try:
        take(first)
    finally:
        begun = [other for other in waiting if not other.cancel()]
    for other in begun:
        other.result()
    return [results[i] for i in range(len(items))]


def shares(n_rows: int, n_classes: int) -> list[slice]:
    """Cut rows of scores in equal parts, one per core where there are many.

    Examples
    --------
    >>> shares(1000, 10)
    [slice(0, 1000, None)]
    """
    return cut(n_rows, n_shares(n_rows, n_rows * n_classes))


def n_shares(n_items: int, n_scores: int) -> int:
    """Return in how many parts to share items that hold so many scores: one per core, if many.

    Examples
    --------
    >>> n_shares(1000, 10_000)
    1
    """
    worth = min(n_items, n_scores // SCORES_PER_THREAD)
    return 1 if worth <= 1 else max(1, min(n_cores(), worth))


def cut(n_items: int, n_parts: int) -> list[slice]:
    """Cut items in equal parts.

    Examples
    --------
    >>> cut(5, 2)
    [slice(0, 2, None), slice(2, 5, None)]
    """
    edges = [n_items * i // n_parts for i in range(n_parts + 1)]
    return [slice(a, b) for a, b in pairwise(edges)]


def _next(todo: deque[Item]) -> Item | None:
    try:
        return todo.popleft()
    except IndexError:
        return None


def begin(work: Callable[[], Result], pool: ThreadPoolExecutor | None = None) -> Future[Result]:
    """Begin a call in a thread of the common pool, or of another one.

    Where no thread can be started, the call is made in this thread, before this returns.

    Examples
    --------
    >>> begin(lambda: 6 * 7).result()
    42
    """
    future = Future[Result]()
    if _submitted(pool or _pool(), future, work) or not future.cancel():
        return future
    done = Future[Result]()  # no thread has taken the other, nor will one
    try:
        done.set_result(work())
    except Exception as error:  # raised where the result is asked for
        done.set_exception(error)
    return done


def _submitted(
    pool: ThreadPoolExecutor, future: Future[Result], work: Callable[[], Result]
) -> bool:
    """Submit work for a future to a pool; return False if no thread can be started.

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
    return not getattr(_thread, "is_worker", False)


@contextmanager
def one_thread() -> Iterator[None]:
    """Do all work of this thread in it: the caller has set others to work beside it.

    Examples
    --------
    >>> with one_thread():
    ...     shares_out()
    False
    """
    was_worker = not shares_out()
    _thread.is_worker = True
    try:
        yield
    finally:
        _thread.is_worker = was_worker


def n_cores() -> int:
    """Cores this process may use, or what the environment variable REPRIOR_NUM_THREADS says.

    These are the cores of the affinity mask, and no more than the container's quota amounts to.
    """
    setting = os.environ.get("REPRIOR_NUM_THREADS", "")
    if setting.isdecimal() and int(setting) > 0:
        return int(setting)
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
        return _share(*_fields(root, "cpu.max"))
    except (OSError, TypeError, ValueError):
        pass
    try:
        (quota,), (period,) = (
            _fields(root, "cpu/cpu.cfs_quota_us"),
            _fields(root, "cpu/cpu.cfs_period_us"),
        )
        return _share(quota, period)
    except (OSError, ValueError):
        return None


def _fields(root: str, name: str) -> list[str]:
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
    _thread.is_worker = True


# Threads do not survive a fork: a child that inherited the pool would wait for ever.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)


class _Failure:
    """An error that the thread met, in the place of its item."""

    def __init__(self, error: BaseException) -> None:
        self.error = error


def prefetch(items: Iterator[Item]) -> Generator[Item, None, None]:
    """Yield the items of an iterator in order, each prepared while the last is in use.

    A background thread prepares them, and at most one item waits: memory holds three at most, the
    one in use, the one that waits, and the one in preparation. An error is raised where its item
    would come. Closing the generator, as leaving a loop or Ctrl-C does, ends the thread after its
    present item.

    The first item is made in the caller's thread: a single one starts no thread. Where no thread
    can be started, all are made there.

    Examples
    --------
    >>> list(prefetch(iter("abc")))
    ['a', 'b', 'c']
    """
    first = next(items, _END)
    if first is _END:
        return
    ready: Queue[object] = Queue(maxsize=1)
    left = threading.Event()
    maker = threading.Thread(
        target=_make, args=(items, ready, left), name="reprior-prefetch", daemon=True
    )
    try:
        maker.start()
    except RuntimeError:  # the system refuses to start one more
        yield first  # type: ignore[misc]  # by now no mark
        del first
        yield from items
        return
    try:
        yield first  # type: ignore[misc]  # by now no mark
        del first
        while (item := ready.get()) is not _END:
            if isinstance(item, _Failure):
                raise item.error
            yield item  # type: ignore[misc]  # neither mark nor failure
            del item
    finally:
        left.set()
        while maker.is_alive():  # it may wait for room in the queue, even for its end mark
            _drain(ready)
            maker.join(_JOIN_SECONDS)


def _make(items: Iterator[object], ready: Queue[object], left: threading.Event) -> None:
    try:
        for item in items:
            if left.is_set():
                return
            ready.put(item)
            del item
        ready.put(_END)
    except BaseException as error:
        ready.put(_Failure(error))
    finally:
        close = getattr(items, "close", None)
        if close is not None:
            close()


def _drain(ready: Queue[object]) -> None:
    try:
        while True:
            ready.get_nowait()
    except Empty:
        return
