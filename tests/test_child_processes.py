"""Processes that tests start end with the test; the suite runs where a shell ignores signals."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.support.child_processes import ended, started

#: Starts another process, names it, and sleeps, as that one does.
PARENT = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print(child.pid, flush=True)
time.sleep(600)
"""


def is_gone(pid: int) -> bool:
    """Whether a process has ended, be it that nobody has asked for its exit code yet."""
    status = Path(f"/proc/{pid}/stat")
    return not status.exists() or status.read_text().rpartition(")")[2].split()[0] == "Z"


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks processes up in /proc")
def test_a_test_that_fails_leaves_no_process_behind():
    pids = []

    def fail():
        with started([sys.executable, "-c", PARENT], stdout=subprocess.PIPE) as process:
            pids.append(int(process.stdout.readline()))
            raise LookupError

    with pytest.raises(LookupError):
        fail()
    deadline = time.monotonic() + 60
    while not is_gone(pids[0]) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert is_gone(pids[0])


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no groups of processes")
def test_a_process_that_hangs_is_a_failure():
    with pytest.raises(pytest.fail.Exception, match="did not end within 1 seconds"):
        ended([sys.executable, "-c", PARENT], limit=1)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such shell")
def test_the_suite_sets_the_signals_that_it_needs():
    # As `make test &` in a script: the shell ignores both signals for what it starts.
    line = "trap '' INT QUIT; exec \"$@\" < /dev/null"
    tests = ["src/reprior/files/interrupts.py", "-q"]
    plugins = ["-p", "no:cacheprovider", "-p", "pytest_timeout"]
    done = ended(
        ["sh", "-c", line, "sh", sys.executable, "-m", "pytest", *tests, *plugins],
        cwd=Path(__file__).parents[1],
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},  # starts three times as fast
    )
    assert done.returncode == 0, done.stdout
