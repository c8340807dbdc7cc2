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

__all__ = ["noticed", "refuse_to_go_on"]

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


def refuse_to_go_on() -> None:
    """Raise KeyboardInterrupt where one was noticed, though something swallowed it."""
    if _received.is_set():
        raise KeyboardInterrupt
