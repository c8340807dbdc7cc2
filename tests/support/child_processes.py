"""Child processes of tests: with a time limit, and killed when the test ends."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import pytest

__all__ = ["LIMIT", "PRINT_PEAK_MEMORY", "ended", "started"]

LIMIT = 300.0
"""Seconds until a process is killed. It only ends hangs, and is below the limit of a test."""

PRINT_PEAK_MEMORY = """
with open("/proc/self/status") as status:
    peak = next(line for line in status if line.startswith("VmHWM:"))
print(1024 * int(peak.split()[1]))
"""
"""Code for the end of a script: print the most memory that the process has had, in bytes.

Linux only. ``getrusage`` would not do: a child starts with the peak of its parent.
"""


@contextmanager
def started(
    command: Sequence[Any], *, limit: float = LIMIT, **options: Any
) -> Iterator[subprocess.Popen[str]]:
    """Start a process as the leader of a group, which is killed when the block ends.

    After ``limit`` seconds the group is killed too, which ends every wait inside of the block, and
    the test fails. The options are those of ``subprocess.Popen``.
    """
    process = subprocess.Popen(command, text=True, start_new_session=True, **options)
    late = threading.Event()

    def end() -> None:
        late.set()
        _kill_group(process)

    watchdog = threading.Timer(limit, end)
    watchdog.daemon = True
    watchdog.start()
    try:
        yield process
    finally:
        watchdog.cancel()
        _kill_group(process)
        with process:  # closes the pipes, and waits for what was killed
            pass
        if late.is_set():
            pytest.fail(f"{command} did not end within {limit:g} seconds")


def ended(
    command: Sequence[Any], *, limit: float = LIMIT, **options: Any
) -> subprocess.CompletedProcess[str]:
    """Run a process to its end, as ``subprocess.run`` does, and capture what it writes."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with started(command, limit=limit, **{**pipes, **options}) as process:
        out, err = process.communicate()
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def _kill_group(process: subprocess.Popen[str]) -> None:
    """Kill a process and those that it started, whether or not it has ended."""
    if hasattr(os, "killpg"):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()
