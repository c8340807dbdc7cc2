"""Several at once: one that fails, or is killed, ends all of them, and says so."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import pytest
from tests.support.child_processes import LIMIT, started

from reprior.exceptions import RepriorError
from reprior_lab import RunConfig
from reprior_lab.cifar import CellRun, run_cell
from reprior_lab.reproduction import train_at_once

LONG = RunConfig.resolve(
    data="digits", imbalance="exp", ratio=20, epochs=5000, batch_size=32, model="resnet8"
)
NOWHERE = RunConfig.resolve(data="cifar10", root="nowhere", imbalance="exp")


def alive(pids):
    return [pid for pid in pids if os.path.exists(f"/proc/{pid}")]


@pytest.fixture
def processes(monkeypatch):
    """The processes that train, which end with the test, or when they take too long."""
    from reprior_lab import reproduction as cell_jobs

    found, start = [], cell_jobs._start

    def kill():
        for process in found:
            process.kill()

    def start_one(*given):
        job = start(*given)
        found.append(job.process)
        return job

    monkeypatch.setattr(cell_jobs, "_start", start_one)
    watchdog = threading.Timer(LIMIT, kill)
    watchdog.daemon = True
    watchdog.start()
    yield found
    watchdog.cancel()
    kill()


@pytest.mark.heavy
def test_an_error_in_one_names_the_cell_and_ends_the_others(tmp_path, processes):
    chains = [[CellRun("cifar10-exp100", "ce", LONG)], [CellRun("cifar10-exp100", "ldam", NOWHERE)]]
    with pytest.raises(RepriorError, match=r"^cifar10-exp100/ldam/s0: `root` must be the folder"):
        train_at_once(tmp_path, chains, 2, None, run=run_cell)
    assert len(processes) == 2
    assert not any(process.is_alive() for process in processes)


@pytest.mark.usefixtures("processes")
def test_a_worker_that_is_killed_is_said(tmp_path, monkeypatch):
    from reprior_lab import reproduction as cell_jobs

    start = cell_jobs._start

    def start_and_kill(*given):
        job = start(*given)
        job.process.kill()
        return job

    monkeypatch.setattr(cell_jobs, "_start", start_and_kill)
    with pytest.raises(RepriorError, match="was ended from outside"):
        train_at_once(tmp_path, [[CellRun("cifar10-exp100", "ce", LONG)]], 2, None, run=run_cell)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks processes up in /proc")
def test_an_interrupt_leaves_no_process_behind(tmp_path):
    code = textwrap.dedent(
        """
        import pathlib, sys
        from reprior_lab import RunConfig
        from reprior_lab import reproduction as cell_jobs
        from reprior_lab.cifar import CellRun, run_cell

        def main():
            start = cell_jobs._start
            def told(*given):
                job = start(*given)
                print(job.process.pid, flush=True)
                return job
            cell_jobs._start = told
            config = RunConfig.resolve(
                data="digits", imbalance="exp", ratio=20, epochs=5000, batch_size=32,
                model="resnet8",
            )
            chains = [[CellRun("a", "ce", config.differing(seed=s))] for s in range(3)]
            cell_jobs.train_at_once(pathlib.Path(sys.argv[1]), chains, 2, None, run=run_cell)

        if __name__ == "__main__":
            main()
        """
    )
    script = tmp_path / "script.py"
    script.write_text(code)
    with started(
        [sys.executable, str(script), str(tmp_path / "out")],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as main:
        pids = [int(main.stdout.readline()) for _ in range(2)]
        os.killpg(main.pid, signal.SIGINT)
        assert main.wait(timeout=120) != 0
        deadline = time.monotonic() + 60
        while alive(pids) and time.monotonic() < deadline:
            time.sleep(0.1)
        assert not alive(pids)
