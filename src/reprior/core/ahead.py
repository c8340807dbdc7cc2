"""The next item of an iterator is made while the present one is worked on."""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterator
from queue import Empty, Queue
from typing import TypeVar

__all__ = ["read_ahead"]

Item = TypeVar("Item")

_END = object()

_MOMENT = 0.01
"""Seconds between two looks at a thread that is to end."""


class _Failure:
    """An error on its way from the thread that met it."""

    def __init__(self, error: BaseException) -> None:
        self.error = error


def read_ahead(items: Iterator[Item]) -> Generator[Item, None, None]:
    """Give the items of an iterator in their order, each made while the last is in use.

    One thread makes them, and one item waits at most: where the reader is quicker than whoever
    uses the items, memory holds three of them, the one in use, the one that waits, and the one
    that is being made. An error comes out where its item would. Closing the generator, as leaving
    a loop or Ctrl-C does, ends the thread after the item it is at.

    The first item is made by the caller: a single one starts no thread. Where none can be started,
    the caller makes them all.

    Examples
    --------
    >>> list(read_ahead(iter("abc")))
    ['a', 'b', 'c']
    """
    first = next(items, _END)
    if first is _END:
        return
    ready: Queue[object] = Queue(maxsize=1)
    left = threading.Event()
    maker = threading.Thread(
        target=_make, args=(items, ready, left), name="reprior-read-ahead", daemon=True
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
        while maker.is_alive():  # it may wait for room, even to say that it has come to the end
            _drain(ready)
            maker.join(_MOMENT)


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
