"""Tasks run where they are asked to, and no process or client is left behind."""

from __future__ import annotations

import gc
import logging
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import closing, suppress
from pathlib import Path

import dask
import pytest
from tests.support.child_processes import started
from tests.support.chunked_scores import flat
from tests.support.shards import npz_shards

from reprior.engines import running_on
from reprior.engines.dask_engine import _without_unretrieved_errors
from reprior.exceptions import MissingDependencyError, OptionError, RepriorError


def test_without_a_wish_nothing_changes():
    with running_on():
        assert dask.config.get("scheduler", None) is None


def test_schedulers_of_dask():
    with running_on("synchronous"):
        assert dask.delayed(threading.get_ident)().compute() == threading.get_ident()
    assert dask.config.get("scheduler", None) is None


@pytest.mark.parametrize(
    "options, sentence",
    [
        ({"scheduler": ""}, "`scheduler` must be an address such as"),
        ({"scheduler": 8786}, "`scheduler` must be an address such as"),
        ({"n_workers": 0}, "`n_workers` must be a whole number of at least 1. Got 0"),
        ({"n_workers": True}, "`n_workers` must be a whole number"),
        ({"n_workers": 2, "scheduler": "threads"}, "`n_workers` must be left out where"),
    ],
)
def test_words(options, sentence):
    with pytest.raises(OptionError, match=sentence), running_on(**options):
        pass


def test_a_cluster_needs_distributed(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    words = pytest.raises(MissingDependencyError, match=r"distributed must be installed")
    with words, running_on(n_workers=1):
        pass


def test_an_address_is_connected_to():
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0"
    ) as cluster:
        with running_on(cluster.scheduler_address):
            here = dask.delayed(distributed.get_worker)().address.compute()
            assert here == cluster.workers[0].address
        with pytest.raises(ValueError, match=r"No global client"):
            distributed.get_client()


def test_local_workers_ignore_ctrl_c_and_need_no_free_dashboard_port():
    # Dask would warn of the port, and warnings are errors here.
    pytest.importorskip("distributed")
    with closing(socket.socket()) as other:
        with suppress(OSError):  # another process has the port: as good
            other.bind(("127.0.0.1", 8787))
            other.listen()
        with running_on(n_workers=1):
            handler = dask.delayed(signal.getsignal)(signal.SIGINT).compute()
    assert handler is signal.SIG_IGN
    assert signal.getsignal(signal.SIGINT) is not signal.SIG_IGN


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:9", "thread", "nowhere://1"])
@pytest.mark.parametrize("before", [None, "synchronous"])
def test_an_address_that_does_not_answer_leaves_dask_as_it_was(address, before):
    distributed = pytest.importorskip("distributed")
    words = r"that answers, or one of \('threads', 'processes', 'synchronous'\)\. Got '%s'"
    with dask.config.set({"distributed.comm.timeouts.connect": "200ms", "scheduler": before}):
        refused = pytest.raises(OptionError, match=words % re.escape(address))
        with refused, running_on(address):
            pass
        assert dask.config.get("scheduler", None) == before
        assert dask.delayed(sum)([1, 2]).compute() == 3
    # One that waits for the garbage collector could be closed while another starts, and hang.
    clients = [each for each in gc.get_objects() if type(each) is distributed.Client]
    assert {each.status for each in clients} <= {"closed"}
    with pytest.raises(ValueError, match=r"No global client"):
        distributed.get_client()


def test_an_address_wins_over_what_was_set_and_gives_it_back():
    distributed = pytest.importorskip("distributed")
    cluster = distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0"
    )
    with cluster, dask.config.set(scheduler="synchronous"):
        with running_on(cluster.scheduler_address):
            here = dask.delayed(distributed.get_worker)().address.compute()
            assert here == cluster.workers[0].address
        assert dask.config.get("scheduler", None) == "synchronous"


class AllExit(Exception):  # noqa: N818 - by the name of that of Dask's client
    """What Dask's client raises to leave a wait."""


@pytest.mark.parametrize("error, said", [(AllExit(), False), (ValueError(), True), (None, True)])
def test_asyncio_does_not_log_what_an_interrupt_has_ended(caplog, error, said):
    with _without_unretrieved_errors():
        logging.getLogger("asyncio").error("never retrieved", exc_info=error)
    assert bool(caplog.records) == said
    logging.getLogger("asyncio").error("never retrieved", exc_info=AllExit())
    assert caplog.records


INTERRUPTED_WHILE_STARTING = """
import os, signal, sys, threading
import distributed
from reprior.__main__ import main

start = distributed.LocalCluster.__init__

def interrupted(self, *arguments, **options):
    # As a terminal does: to all processes of the group.
    threading.Timer(float(sys.argv[1]), os.killpg, (0, signal.SIGINT)).start()
    start(self, *arguments, **options)

distributed.LocalCluster.__init__ = interrupted
sys.exit(main(sys.argv[2:]))
"""


@pytest.mark.skipif(not os.path.isdir("/proc"), reason="SKIPPED: processes are looked up in /proc")
@pytest.mark.parametrize(
    "seconds", [0.0, *(pytest.param(s, marks=pytest.mark.heavy) for s in (0.05, 0.1, 0.2))]
)
def test_an_interrupt_while_workers_start_is_one_sentence_and_leaves_no_process(tmp_path, seconds):
    pytest.importorskip("distributed")
    npz_shards(tmp_path, flat(), 2)
    (tmp_path / "counts.json").write_text("[60, 25, 10, 5]")
    arguments = (
        "fit 000.npz 001.npz --counts counts.json --kind logits --engine dask --workers 1 -o a.json"
    )
    command = [sys.executable, "-c", INTERRUPTED_WHILE_STARTING, seconds, *arguments.split()]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with started([str(each) for each in command], cwd=tmp_path, **pipes) as process:
        out, err = process.communicate()
        end = time.monotonic() + 30.0
        while (left := processes_of_session(process.pid)) and time.monotonic() < end:
            time.sleep(0.05)  # helpers of multiprocessing end a little later
    assert (process.returncode, out) == (130, "")
    assert err.strip() == "Interrupted: nothing half-written is left."
    assert left == []
    assert not (tmp_path / "a.json").exists()


def processes_of_session(session):
    """The processes that are left of a session, zombies aside."""
    left = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            state, _, _, number, *_ = (folder / "stat").read_text().rpartition(")")[2].split()
            if int(number) == session and state != "Z":
                left.append(int(folder.name))
    return left


def test_workers_that_do_not_start_are_a_sentence(monkeypatch):
    distributed = pytest.importorskip("distributed")

    def fails(self, *_arguments, **_options):
        raise RuntimeError("Cluster failed to start: no more processes")

    monkeypatch.setattr(distributed.LocalCluster, "__init__", fails)
    monkeypatch.setattr(distributed.LocalCluster, "__del__", lambda self: None)
    words = r"`n_workers` must be as many .* Got 2 \(RuntimeError: Cluster failed to start"
    with pytest.raises(OptionError, match=words), running_on(n_workers=2):
        pass


@pytest.mark.heavy
def test_a_worker_that_is_killed_is_a_sentence():
    pytest.importorskip("distributed")
    words = r"Dask's workers must stay alive until the work is done\. Got KilledWorker: .* memory"
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 0}),
        pytest.raises(RepriorError, match=words),
        running_on(n_workers=1),
    ):
        dask.delayed(os._exit)(1).compute()
