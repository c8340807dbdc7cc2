"""Do not lose Ctrl-C where a library swallows the KeyboardInterrupt.

An import inside ``try: … except: pass`` treats it as a missing library, and the program continues.
So the signal is recorded as well. :func:`raise_if_interrupted` is called between steps of work and
before an output takes its name.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["delay_interrupts", "raise_if_interrupted", "record_interrupts"]

_received = threading.Event()


@contextmanager
def record_interrupts() -> Iterator[None]:
    """Record SIGINT while the block runs, and raise KeyboardInterrupt as Python does.

    Where SIGINT is ignored, or this is not the main thread, nothing is changed.

    Examples
    --------
    >>> with record_interrupts():
    ...     try:
    ...         signal.raise_signal(signal.SIGINT)
    ...     except KeyboardInterrupt:
    ...         pass  # as a library might
    ...     try:
    ...         raise_if_interrupted()
    ...     except KeyboardInterrupt:
    ...         print("not lost")
    not lost
    """

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        _received.set()
        raise KeyboardInterrupt

    _received.clear()
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.SIG_IGN and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        if signal.getsignal(signal.SIGINT) is interrupt:
            signal.signal(signal.SIGINT, before)
        _received.clear()


@contextmanager
def delay_interrupts() -> Iterator[None]:
    """Delay SIGINT until the block has ended.

    Where SIGINT is not Python's, or this is not the main thread, nothing is changed.

    Examples
    --------
    >>> try:
    ...     with delay_interrupts():
    ...         signal.raise_signal(signal.SIGINT)
    ...         print("to its end")
    ... except KeyboardInterrupt:
    ...     print("and then")
    to its end
    and then
    """
    before = signal.getsignal(signal.SIGINT)
    if not callable(before) or threading.current_thread() is not threading.main_thread():
        yield
        return
    received: list[int] = []
    signal.signal(signal.SIGINT, lambda number, _frame: received.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if received:
        signal.raise_signal(signal.SIGINT)


def raise_if_interrupted() -> None:
    """Raise KeyboardInterrupt if SIGINT was recorded, though something swallowed the exception."""
    if _received.is_set():
        raise KeyboardInterrupt
