"""Threads: share work among the cores, for passes that release the interpreter's lock.

Also prefetches an iterator's items in a background thread.
"""

from __future__ import annotations

import math
import os
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache, partial
from itertools import pairwise
from queue import Empty, Queue
from typing import TypeVar, cast

import numpy as np
from numpy.typing import NDArray

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
    "stop_if_ended",
    "sum_in_threads",
]

CGROUP = "/sys/fs/cgroup"
"""Where Linux shows the limits of this process's container."""

SCORES_PER_THREAD = 1 << 18
"""Fewer scores than this are processed before a second thread wakes up."""

Item = TypeVar("Item")
Result = TypeVar("Result")


_thread = threading.local()
"""Whether a thread is one of the pool's, and the event that ends the work it takes part in."""


_END = object()

_JOIN_SECONDS = 0.01
"""How long to wait for the thread to end before its queue is drained again."""


def in_threads(
    work: Callable[[Item], Result], items: Sequence[Item], n_threads: int | None = None
) -> list[Result]:
    """Return ``work`` of every item, shared among this thread and those of the common pool.

    At most ``n_threads`` threads work, the calling one among them; by default one per item. Each
    takes the next item when it is free: a thread that starts late (another library may keep its
    threads spinning) or that the system refuses to start delays no other.

    A call from within such a thread does all work in that thread: threads that wait for each
    other would deadlock. An error, or Ctrl-C, cancels the items that have not begun; work that
    takes long calls `stop_if_ended` now and then.

    Examples
    --------
    >>> in_threads(abs, [-1, 2, -3])
    [1, 2, 3]
    """
    todo = deque(enumerate(items))
    results: dict[int, Result] = {}
    first = _next(todo)
    ended = threading.Event()
    errors: list[BaseException] = []

    def take(turn: tuple[int, Item] | None) -> None:
        outer = getattr(_thread, "ended", None)
        _thread.ended = outer or ended
        try:
            while turn is not None:
                results[turn[0]] = work(turn[1])
                turn = _next(todo)
        except BaseException as error:
            errors.append(error)
            ended.set()
            todo.clear()
            raise
        finally:
            _thread.ended = outer

    most = len(items) if n_threads is None else min(n_threads, len(items))
    waiting: list[Future[None]] = []
    for _ in range(most - 1 if shares_out() else 0):
        waiting.append(Future())
        if not _submitted(_pool(), waiting[-1], lambda: take(_next(todo))):
            break
    try:
        take(first)
        for other in [other for other in waiting if not other.cancel()]:
            other.result()
    except CancelledError:  # of `stop_if_ended`: the error is that of another part
        raise errors[0] from None
    finally:
        ended.set()
        todo.clear()
        errors.clear()  # their frames hold this list
        for other in waiting:
            other.cancel()
    return [results[i] for i in range(len(items))]


def stop_if_ended() -> None:
    """End this thread's part of `in_threads`, by an error, if another part has met one.

    Without it, the interpreter waits for long work when it exits after Ctrl-C.
    """
    ended = getattr(_thread, "ended", None)
    if ended is not None and ended.is_set():
        raise CancelledError


def sum_in_threads(
    work: Callable[[Item], NDArray[np.float64]], items: Sequence[Item], n_threads: int
) -> NDArray[np.float64]:
    """Return the sum of ``work`` over items, which shares them among threads as `in_threads` does.

    The results are added in the order of the items: the sum has the same bits for any number of
    threads. Few results wait for those before them, so that memory does not grow with the items.
    ``work`` must return an array of its own: the first one becomes the sum.

    Examples
    --------
    >>> sum_in_threads(lambda item: np.array([item, 1.0]), [1, 2, 3], 2)
    array([6., 3.])
    """
    lock = threading.Lock()
    waiting: dict[int, NDArray[np.float64]] = {}
    total: NDArray[np.float64] | None = None
    n_added = 0

    def add(turn: tuple[int, Item]) -> None:
        nonlocal total, n_added
        index, item = turn
        result = work(item)
        with lock:
            waiting[index] = result
            while n_added in waiting:
                following = waiting.pop(n_added)
                total = following if total is None else np.add(total, following, out=total)
                n_added += 1

    in_threads(add, list(enumerate(items)), n_threads)
    return cast("NDArray[np.float64]", total)


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
    """Start a call in a thread of the common pool, or of another pool.

    Where no thread can be started, the call runs in this thread before the function returns.

    Examples
    --------
    >>> begin(lambda: 6 * 7).result()
    42
    """
    future = Future[Result]()
    if _submitted(pool or _pool(), future, work) or not future.cancel():
        return future
    done = Future[Result]()  # no thread will take the other future
    try:
        done.set_result(work())
    except Exception as error:  # raised where the result is asked for
        done.set_exception(error)
    return done


def _submitted(
    pool: ThreadPoolExecutor, future: Future[Result], work: Callable[[], Result]
) -> bool:
    """Submit work for a future to a pool; return False if no thread can be started.

    No thread starts while the interpreter exits, or at a limit of the system. The work may be in
    the pool's queue all the same, and a busy thread may take it later: it then runs unless the
    future was cancelled before.
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
    """Whether this thread may share work: False in a thread that works for another."""
    return not getattr(_thread, "is_worker", False)


@contextmanager
def one_thread() -> Iterator[None]:
    """Do all work of this thread in this thread: the caller runs several beside each other.

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
    """Return the number of cores to use: REPRIOR_NUM_THREADS, or those this process may use.

    These are the cores of the affinity mask, at most as many as the container's quota.
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

    Read once per process. Within a container its group is the root of the file system:
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


# Threads do not survive a fork: a child would wait forever for those of the inherited pool.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)


class _Failure:
    """An error of the thread, queued in place of its item."""

    def __init__(self, error: BaseException) -> None:
        self.error = error


def prefetch(items: Iterator[Item]) -> Generator[Item, None, None]:
    """Yield the items of an iterator in order, each prepared while the last is in use.

    A background thread prepares them, and at most one item waits: memory holds three at most, the
    one in use, the one that waits, and the one in preparation. An error is raised where its item
    would come. Closing the generator, as leaving a loop or Ctrl-C does, ends the thread after its
    present item.

    The first item is prepared in the caller's thread: a single one starts no thread. Where no
    thread can be started, all are.

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
        while maker.is_alive():  # it may wait for the queue to have space, even for its end mark
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
