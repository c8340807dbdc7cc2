"""Work shared among the cores, whose results come back in the order in which it was given."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from types import TracebackType
from typing import Generic, TypeVar

from reprior.core.threads import begin, n_cores, shares_out

__all__ = ["InOrder"]

Result = TypeVar("Result")


class InOrder(Generic[Result]):
    """Calls in threads, one per core at a time; the caller takes their results in order.

    A chunk per core leaves no core waiting for the others, as sharing out the rows of each chunk
    would. At most one call more than there are cores is under way or waits to be taken, so that
    memory is bounded. With a single core, and in a thread that is one of many itself, calls are
    made at once.

    Examples
    --------
    >>> with InOrder() as line:
    ...     found = [each for n in range(5) for each in line.call(lambda n=n: n * n)]
    ...     found.extend(line.rest())
    >>> found
    [0, 1, 4, 9, 16]
    """

    def __init__(self) -> None:
        self._room = n_cores() if shares_out() else 1
        self._line: deque[Future[Result]] = deque()

    def __enter__(self) -> InOrder[Result]:
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
