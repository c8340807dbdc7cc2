"""Where tasks run: what is asked for, and nothing is left running."""

from __future__ import annotations

import gc
import logging
import re
import signal
import socket
import sys
import threading
from contextlib import closing, suppress

import dask
import pytest

from reprior.engines.dask_engine import _without_last_words, running_on
from reprior.exceptions import MissingDependencyError, OptionError


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


def test_workers_of_its_own_where_the_port_of_the_dashboard_is_taken():
    # Dask would warn of it, and warnings are errors here.
    pytest.importorskip("distributed")
    with closing(socket.socket()) as other:
        with suppress(OSError):  # somebody else has it: so much the better
            other.bind(("127.0.0.1", 8787))
            other.listen()
        with running_on(n_workers=1):
            assert dask.delayed(sum)([1, 2]).compute() == 3


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:9", "thread", "nowhere://1"])
@pytest.mark.parametrize("before", [None, "synchronous"])
def test_an_address_that_does_not_answer_leaves_dask_as_it_was(address, before):
    distributed = pytest.importorskip("distributed")
    words = r"that answers, or one of \('threads', 'processes', 'synchronous'\)\. Got '%s'"
    with dask.config.set({"distributed.comm.timeouts.connect": "1s", "scheduler": before}):
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


def test_workers_of_its_own_leave_an_interrupt_to_whoever_started_them():
    pytest.importorskip("distributed")
    with running_on(n_workers=1):
        found = dask.delayed(signal.getsignal)(signal.SIGINT).compute()
    assert found is signal.SIG_IGN
    assert signal.getsignal(signal.SIGINT) is not signal.SIG_IGN


class AllExit(Exception):  # noqa: N818 - by the name of that of Dask's client
    """What leaves a wait that nobody waits for."""


@pytest.mark.parametrize("error, said", [(AllExit(), False), (ValueError(), True), (None, True)])
def test_what_an_interrupt_has_ended_is_not_told_by_asyncio(caplog, error, said):
    with _without_last_words():
        logging.getLogger("asyncio").error("never retrieved", exc_info=error)
    assert bool(caplog.records) == said
    logging.getLogger("asyncio").error("never retrieved", exc_info=AllExit())
    assert caplog.records
