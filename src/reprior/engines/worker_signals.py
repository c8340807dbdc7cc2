"""What worker processes that were started for a fit load first: Ctrl-C is not theirs.

A terminal sends it to all processes. The one that started them ends them in good order.
"""

from __future__ import annotations

import signal
import threading

__all__ = ["dask_setup"]


def dask_setup(worker: object) -> None:  # noqa: ARG001 - Dask passes it
    """Ignore Ctrl-C; Dask calls this in every worker as it starts."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
