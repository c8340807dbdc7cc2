"""Threads for the passes over chunks: several in order, or one in the background."""

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
    """Calls in threads, one per core at a time; the caller takes their results in order.

    A chunk per core leaves no core waiting for the others, as sharing out the rows of each chunk
    would. At most one call more than there are cores is under way or waits to be taken, so that
    memory is bounded. With a single core, and in a thread that is one of many itself, calls are
    made at once.

    Examples
    --------
    >>> with OrderedThreads() as line:
    ...     found = [each for n in range(5) for each in line.call(lambda n=n: n * n)]
    ...     found.extend(line.rest())
    >>> found
    [0, 1, 4, 9, 16]
    """

    def __init__(self) -> None:
        self._room = n_cores() if shares_out() else 1
        self._line: deque[Future[Result]] = deque()

    def __enter__(self) -> OrderedThreads[Result]:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        waiting, self._line = self._line, deque()
        for each in waiting:
            each.cancel()
        for each in waiting:  # nobody goes on with chunks that are let go of
            if not each.cancelled():
                each.exception()

    def call(self, work: Callable[[], Result]) -> Iterator[Result]:
        """Begin one more call; give those results that have to be taken before the next."""
        if self._room == 1:
            yield work()
            return
        self._line.append(begin(work))
        while len(self._line) > self._room:
            yield self._line.popleft().result()

    def rest(self) -> Iterator[Result]:
        """Wait for all that is under way, and give the results."""
        while self._line:
            yield self._line.popleft().result()


class BackgroundThread:
    """One call at a time in a thread of its own; the next call waits for the last.

    Its error is raised in the next call, or where the block ends. Where no thread can be started,
    calls are made at once.

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
        """Begin a call once the last one is done."""
        self.wait()
        self._last = begin(partial(function, *arguments), self._pool)

    def wait(self) -> None:
        """Wait for the call that is under way."""
        last, self._last = self._last, None
        if last is not None:
            last.result()
