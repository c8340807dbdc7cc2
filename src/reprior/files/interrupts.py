"""Ctrl-C that is not lost: some libraries swallow the exception it raises.

An import inside ``try: … except: pass`` takes a KeyboardInterrupt for a library that is not there,
and the program runs on. So the signal is noted as well, and asked for where work goes on in steps
and before an output takes its name.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["held_back", "noticed", "refuse_to_go_on"]

_received = threading.Event()


@contextmanager
def noticed() -> Iterator[None]:
    """Note SIGINT while the block runs, and raise KeyboardInterrupt as Python does.

    Where SIGINT is ignored, or this is not the main thread, nothing is changed.

    Examples
    --------
    >>> with noticed():
    ...     try:
    ...         signal.raise_signal(signal.SIGINT)
    ...     except KeyboardInterrupt:
    ...         pass  # as a library might
    ...     try:
    ...         refuse_to_go_on()
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
def held_back() -> Iterator[None]:
    """Hold SIGINT back while the block runs; it comes when the block has ended.

    Where SIGINT is not Python's, or this is not the main thread, nothing is changed.

    Examples
    --------
    >>> try:
    ...     with held_back():
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
    came: list[int] = []
    signal.signal(signal.SIGINT, lambda number, _frame: came.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if came:
        signal.raise_signal(signal.SIGINT)


def refuse_to_go_on() -> None:
    """Raise KeyboardInterrupt where one was noticed, though something swallowed it."""
    if _received.is_set():
        raise KeyboardInterrupt
