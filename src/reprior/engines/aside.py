"""Work that one thread does beside the caller's, in the order in which it is given."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from types import TracebackType
from typing import Any

from reprior.core.threads import begin

__all__ = ["Aside"]


class Aside:
    """One call at a time in a thread of its own; the next call waits for the last.

    Its error is raised in the next call, or where the block ends. Where no thread can be started,
    calls are made at once.

    Examples
    --------
    >>> seen = []
    >>> with Aside() as aside:
    ...     for n in range(3):
    ...         aside.call(seen.append, n)
    >>> seen
    [0, 1, 2]
    """

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="reprior-aside")
        self._last: Future[Any] | None = None

    def __enter__(self) -> Aside:
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
