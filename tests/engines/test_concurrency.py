"""Work in threads with results in order."""

from __future__ import annotations

import threading
import time

import pytest

from reprior.core import one_thread
from reprior.engines import OrderedThreads


@pytest.fixture(autouse=True)
def _two_cores(monkeypatch):
    monkeypatch.setenv("REPRIOR_NUM_THREADS", "2")


def test_results_come_in_order_whatever_takes_longest():
    def slow(n):
        time.sleep(0.02 if n % 2 == 0 else 0.0)
        return n

    with OrderedThreads() as line:
        found = [each for n in range(7) for each in line.call(lambda n=n: slow(n))]
        found.extend(line.rest())
    assert found == list(range(7))


def test_no_more_than_one_beyond_the_cores_is_under_way():
    begun, most, lock = [], [0], threading.Lock()

    def work(n):
        with lock:
            begun.append(n)
        return n

    taken = []
    with OrderedThreads() as line:
        for n in range(20):
            taken.extend(line.call(lambda n=n: work(n)))
            most[0] = max(most[0], n + 1 - len(taken))
        taken.extend(line.rest())
    assert most[0] == 2
    assert sorted(begun) == taken == list(range(20))


def test_an_error_comes_where_its_result_would_and_ends_the_rest():
    done = []

    def work(n):
        if n == 1:
            raise ValueError("the second")
        time.sleep(0.01)
        done.append(n)

    def all_of_them():
        with OrderedThreads() as line:
            for n in range(5):
                list(line.call(lambda n=n: work(n)))

    with pytest.raises(ValueError, match="the second"):
        all_of_them()
    count = len(done)
    time.sleep(0.05)
    assert len(done) == count  # nobody is at work any more


@pytest.mark.parametrize("how", ["one core", "a worker"])
def test_alone_calls_are_made_at_once(how, monkeypatch):
    here = threading.get_ident()
    if how == "one core":
        monkeypatch.setenv("REPRIOR_NUM_THREADS", "1")
        with OrderedThreads() as line:
            assert list(line.call(threading.get_ident)) == [here]
    else:
        with one_thread(), OrderedThreads() as line:
            assert list(line.call(threading.get_ident)) == [here]
