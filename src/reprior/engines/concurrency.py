"""Threads for passes over chunks: several whose results stay in order, or one in the background."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from types import TracebackType
from typing import Any, Generic, TypeVar

from reprior.core.threads import begin, n_cores, shares_out

__all__ = [
    "BackgroundThread",
    "OrderedThreads",
]

Result = TypeVar("Result")


class OrderedThreads(Generic[Result]):
    """Run calls in threads, one per core; the caller takes the results in order.

    With a chunk per core, no core waits for the others, as it would if the rows of each chunk were
    shared out. At most one call more than there are cores is running or has a result to be taken,
    so memory is bounded. With a single core, and inside of one of several threads, calls run in the
    caller's thread.

    Examples
    --------
    >>> with OrderedThreads() as threads:
    ...     squares = [each for n in range(5) for each in threads.call(lambda n=n: n * n)]
    ...     squares.extend(threads.rest())
    >>> squares
    [0, 1, 4, 9, 16]
    """

    def __init__(self) -> None:
        self._n_threads = n_cores() if shares_out() else 1
        self._running: deque[Future[Result]] = deque()

    def __enter__(self) -> OrderedThreads[Result]:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        running, self._running = self._running, deque()
        for each in running:
            each.cancel()
        for each in running:  # no call may use a chunk after the block
            if not each.cancelled():
                each.exception()

    def call(self, work: Callable[[], Result]) -> Iterator[Result]:
        """Start one more call; give the results that must be taken before the next."""
        if self._n_threads == 1:
            yield work()
            return
        self._running.append(begin(work))
        while len(self._running) > self._n_threads:
            yield self._running.popleft().result()

    def rest(self) -> Iterator[Result]:
        """Wait for all calls, and give their results."""
        while self._running:
            yield self._running.popleft().result()


class BackgroundThread:
    """Run one call at a time in another thread; the next call waits for the last one.

    An error is raised by the next call, or where the block ends. Where no thread can be started,
    calls run in the caller's thread.

    Examples
    --------
    >>> seen = []
    >>> with BackgroundThread() as background:
    ...     for n in range(3):
    ...         background.call(seen.append, n)
    >>> seen
    [0, 1, 2]
    """

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="reprior-background")
        self._last: Future[Any] | None = None

    def __enter__(self) -> BackgroundThread:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if kind is None:
                self.wait()
        finally:
            self._pool.shutdown(wait=True, cancel_futures=True)

    def call(self, function: Callable[..., object], *arguments: Any) -> None:
        """Start a call once the last one is done."""
        self.wait()
        self._last = begin(partial(function, *arguments), self._pool)

    def wait(self) -> None:
        """Wait for the running call."""
        last, self._last = self._last, None
        if last is not None:
            last.result()
