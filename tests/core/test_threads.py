from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import time
from functools import cache

import pytest

from reprior.core import prefetch, threads


@pytest.fixture
def own_pool(monkeypatch, request):
    """A pool with the number of threads of the parameter, shut down with the test."""
    monkeypatch.setenv("REPRIOR_NUM_THREADS", str(request.param))
    monkeypatch.setattr(threads, "_pool", cache(threads._pool.__wrapped__))
    yield
    threads._pool().shutdown(wait=True)


def pool_of(n):
    return pytest.mark.parametrize("own_pool", [n], indirect=True)


@pool_of(2)
def test_results_come_in_order_from_several_threads(own_pool):
    here, both = threading.get_ident(), threading.Barrier(2, timeout=10)

    def work(item):
        if item < 2:
            both.wait()  # passed only if two threads are at work at once
        return item * item, threading.get_ident()

    found = threads.in_threads(work, range(100))
    assert [square for square, _ in found] == [i * i for i in range(100)]
    assert found[0][1] == here
    assert found[1][1] != here


@pool_of(4)
def test_at_most_as_many_threads_as_asked_for(own_pool):
    found = threads.in_threads(lambda _: threading.get_ident(), range(1000), 2)
    assert len(set(found)) <= 2


@pool_of(1)
def test_a_thread_that_never_wakes_is_not_waited_for(own_pool):
    held = threading.Event()
    busy = threads.begin(lambda: held.wait(10))
    found = threads.in_threads(lambda _: threading.get_ident(), range(5))
    assert found == [threading.get_ident()] * 5
    held.set()
    assert busy.result()


@pytest.mark.parametrize("n_threads", [1, 2])
def test_an_error_ends_the_work_and_is_raised(n_threads):
    done = []

    def work(item):
        if item == 2:
            raise IndexError("of the work itself")
        done.append(item)

    with pytest.raises(IndexError, match="of the work itself"):
        threads.in_threads(work, range(1000), n_threads)
    assert len(done) < 999


@pool_of(2)
def test_an_error_of_another_thread_is_raised(own_pool):
    here, failed = threading.get_ident(), threading.Event()

    def work(_):
        if threading.get_ident() != here:
            failed.set()
            raise ZeroDivisionError
        assert failed.wait(10)

    with pytest.raises(ZeroDivisionError):
        threads.in_threads(work, range(100))


@pool_of(2)
@pytest.mark.parametrize("fails_here", [True, False])
def test_an_error_ends_long_work_of_the_others(own_pool, fails_here):
    here, both = threading.get_ident(), threading.Barrier(2, timeout=10)
    ended = threading.Event()

    def work(_):
        both.wait()
        if (threading.get_ident() == here) is fails_here:
            raise ZeroDivisionError
        try:
            for _ in range(1000):
                threads.in_threads(lambda _: threads.stop_if_ended(), [0])
                time.sleep(0.01)
        except BaseException:
            ended.set()
            raise

    with pytest.raises(ZeroDivisionError):
        threads.in_threads(work, range(2))
    assert ended.wait(5)


def test_work_of_no_other_thread_is_not_ended():
    threads.stop_if_ended()


def test_nothing_to_do():
    assert threads.in_threads(abs, []) == []


@pytest.mark.parametrize(
    "files, expected",
    [
        ({}, 5),
        ({"cpu.max": "max 100000"}, 5),
        ({"cpu.max": "200000 100000"}, 2),
        ({"cpu.max": "150000 100000"}, 2),
        ({"cpu.max": "10000 100000"}, 1),
        ({"cpu.max": "900000 100000"}, 5),
        ({"cpu.max": ""}, 5),
        ({"cpu.max": "a few"}, 5),
        ({"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, 5),
        ({"cpu/cpu.cfs_quota_us": "300000", "cpu/cpu.cfs_period_us": "100000"}, 3),
        ({"cpu/cpu.cfs_quota_us": "300000", "cpu/cpu.cfs_period_us": "0"}, 5),
        ({"cpu/cpu.cfs_quota_us": "300000"}, 5),
    ],
)
def test_a_container_has_the_cores_of_its_quota(tmp_path, monkeypatch, files, expected):
    (tmp_path / "cpu").mkdir()
    for name, text in files.items():
        (tmp_path / name).write_text(f"{text}\n")
    monkeypatch.delenv("REPRIOR_NUM_THREADS", raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2, 5, 7}, raising=False)
    monkeypatch.setattr(threads, "CGROUP", str(tmp_path))
    assert threads.n_cores() == expected


def test_cores_of_the_setting_or_the_affinity_mask(monkeypatch, tmp_path):
    monkeypatch.setattr(threads, "CGROUP", str(tmp_path))
    monkeypatch.setenv("REPRIOR_NUM_THREADS", "3")
    assert threads.n_cores() == 3
    for nonsense in ("", "0", "-2", "many"):
        monkeypatch.setenv("REPRIOR_NUM_THREADS", nonsense)
        monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2, 5, 7}, raising=False)
        assert threads.n_cores() == 5
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: 6)
    assert threads.n_cores() == 6
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert threads.n_cores() == 1


@pool_of(1)
def test_an_error_here_takes_back_what_has_not_begun(own_pool):
    # One thread, which waits until the error is raised: the third item never begins.
    begun, held, done = threading.Event(), threading.Event(), []

    def work(item):
        if item == 0:
            assert begun.wait(10)
            raise KeyboardInterrupt
        begun.set()
        held.wait(10)
        done.append(item)

    with pytest.raises(KeyboardInterrupt):
        threads.in_threads(work, [0, 1, 2])
    held.set()
    threads._pool().shutdown(wait=True)
    assert done == [1]


@pool_of(1)
def test_threads_that_ask_for_threads_do_not_wait_for_each_other(own_pool):
    found = threads.in_threads(lambda i: sum(threads.in_threads(abs, [-i, -i, -i])), [1, 2, 3])
    assert found == [3, 6, 9]


def test_one_thread_does_all_of_its_work_itself():
    here = threading.get_ident()
    with threads.one_thread():
        assert not threads.shares_out()
        with threads.one_thread():
            pass
        assert not threads.shares_out()
        assert set(threads.in_threads(lambda _: threading.get_ident(), [1, 2, 3])) == {here}
    assert threads.shares_out()


def test_where_no_thread_can_be_started_the_work_is_done_here(monkeypatch):
    class Ended:
        def submit(self, *_):
            raise RuntimeError("cannot schedule new futures after interpreter shutdown")

    monkeypatch.setattr(threads, "_pool", Ended)
    assert threads.in_threads(abs, [-1, -2, -3]) == [1, 2, 3]


def run(program: str) -> str:
    """Return what a Python program prints that ends well, and without a word of complaint."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


# In child processes: other libraries, such as JAX, warn of any fork once they are loaded,
# and rightly so.


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on this system")
def test_a_forked_child_starts_threads_of_its_own():
    program = """
import os, warnings
from reprior.core import threads
warnings.filterwarnings("ignore", ".*multi-threaded.*fork", DeprecationWarning)
threads.in_threads(abs, [1, 2])
child = os.fork()
if child == 0:
    os._exit(0 if threads.in_threads(abs, [-1, -2]) == [1, 2] else 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), threads.in_threads(abs, [-3, -4]))
"""
    assert run(program) == "0 [3, 4]\n"


def test_work_that_is_asked_for_while_the_interpreter_ends_is_done():
    program = """
import atexit
from reprior.core import threads
threads.in_threads(abs, [1, 2])
atexit.register(lambda: print(threads.in_threads(abs, [-1, -2])))
"""
    assert run(program) == "[1, 2]\n"


@pytest.mark.parametrize("n_started", [0, 1, 2])
@pool_of(4)
def test_where_threads_are_refused_everything_is_done_once(monkeypatch, own_pool, n_started):
    # As an executor does: what it cannot start a thread for stays in its queue all the same.
    pool, queued = threads._pool(), []

    class Limited:
        def submit(self, call):
            queued.append(call)
            if len(queued) > n_started:
                raise RuntimeError("can't start new thread")
            return pool.submit(call)

    monkeypatch.setattr(threads, "_pool", Limited)
    done = []
    found = threads.in_threads(lambda i: (done.append(i), i * i)[1], range(50))
    for call in queued[n_started:]:
        call()
    monkeypatch.setattr(threads, "_pool", lambda: pool)
    assert found == [i * i for i in range(50)]
    assert sorted(done) == list(range(50))


@pytest.fixture
def limited(monkeypatch):
    """Let ``limited[0]`` threads of the pool start; then the system refuses more."""
    start, left = threading.Thread.start, [0]

    def refusing(self):
        if self.name.startswith("reprior"):
            if left[0] <= 0:
                raise RuntimeError("can't start new thread")
            left[0] -= 1
        start(self)

    monkeypatch.setattr(threading.Thread, "start", refusing)
    return left


@pool_of(4)
def test_work_left_in_the_queue_is_waited_for_if_it_is_begun(own_pool, limited):
    # One thread, busy elsewhere: it finds the call that no thread was started for, and takes an
    # item that takes longer than all others.
    limited[0] = 1
    held, begun = threading.Event(), threading.Event()
    busy = threads.begin(lambda: held.wait(10))
    here = threading.get_ident()

    def work(item):
        if item == 0:
            held.set()
            assert begun.wait(10)  # the other thread has an item
        elif threading.get_ident() != here:
            begun.set()
            time.sleep(0.2)
        return item

    assert threads.in_threads(work, range(4)) == [0, 1, 2, 3]
    assert busy.result()


@pool_of(2)
def test_a_call_is_made_here_where_no_thread_can_be_started(own_pool, limited):
    here = threading.get_ident()
    assert threads.begin(threading.get_ident).result() == here
    failed = threads.begin(lambda: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        failed.result()

    def stopped():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        threads.begin(stopped)


@pool_of(2)
def test_a_call_left_in_the_queue_is_made_once(own_pool, limited):
    limited[0] = 1
    held, calls = threading.Event(), []
    busy = threads.begin(lambda: held.wait(10))
    assert threads.begin(lambda: calls.append(threading.get_ident())).done()
    held.set()
    assert busy.result()
    threads._pool().shutdown(wait=True)
    assert calls == [threading.get_ident()]


@pool_of(2)
def test_a_call_that_a_busy_thread_takes_runs_once(own_pool, monkeypatch):
    pool = threads._pool()

    class TakenUp:
        def submit(self, call):
            pool.submit(call).result()
            raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threads, "_pool", TakenUp)
    found = threads.begin(threading.get_ident)
    monkeypatch.setattr(threads, "_pool", lambda: pool)
    assert found.result() != threading.get_ident()


WAIT = 10.0
"""Seconds after which a test that hangs fails."""


def prefetchers() -> list[threading.Thread]:
    return [t for t in threading.enumerate() if t.name == "reprior-prefetch"]


def test_nothing_and_one():
    assert list(prefetch(iter(()))) == []
    assert list(prefetch(iter([1]))) == [1]


def test_the_next_item_is_made_while_the_present_one_is_in_use():
    made, wanted = [], threading.Event()

    def items():
        for n in range(4):
            made.append(n)
            if n == 1:
                wanted.set()
            yield n

    found = prefetch(items())
    assert next(found) == 0
    assert wanted.wait(WAIT)
    assert list(found) == [1, 2, 3]
    assert not prefetchers()


def test_no_more_than_two_items_are_made_in_advance():
    made, third = [], threading.Event()

    def items():
        for n in range(9):
            made.append(n)
            if n == 2:
                third.set()
            yield n

    found = prefetch(items())
    next(found)
    assert third.wait(WAIT)
    assert not threading.Event().wait(0.05)  # time enough to make more, were it allowed
    assert made == [0, 1, 2]
    found.close()
    assert not prefetchers()


def test_an_error_is_raised_in_place_of_its_item():
    def items():
        yield 1
        yield 2
        raise OSError(5, "the disk is gone")

    found = prefetch(items())
    assert [next(found), next(found)] == [1, 2]
    with pytest.raises(OSError, match="the disk is gone"):
        next(found)
    assert not prefetchers()


def test_leaving_ends_the_thread_and_closes_the_source():
    closed = threading.Event()

    def items():
        try:
            yield from range(1000)
        finally:
            closed.set()

    for item in (found := prefetch(items())):
        if item == 3:
            break
    found.close()
    assert closed.is_set()
    assert not prefetchers()


def test_an_interrupt_in_the_loop_leaves_nothing_behind():
    def interrupted() -> None:
        for _ in prefetch(iter(range(1000))):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as caught:
        interrupted()
    del caught  # and with it the frame that holds the generator
    gc.collect()
    assert not prefetchers()


@pytest.mark.parametrize("n", range(1, 6))
@pytest.mark.parametrize("taken", range(1, 6))
def test_it_can_be_left_at_any_time(n, taken):
    for _ in range(20):
        found = prefetch(iter(range(n)))
        for _, _item in zip(range(taken), found, strict=False):
            pass
        found.close()
    assert not prefetchers()


def test_where_no_thread_can_be_started_items_are_made_here(monkeypatch):
    def refused(_):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refused)
    closed = []

    def items():
        try:
            yield from range(5)
        finally:
            closed.append(True)

    assert list(prefetch(items())) == list(range(5))
    ahead = prefetch(items())
    assert [next(ahead), next(ahead)] == [0, 1]
    ahead.close()
    assert closed == [True, True]
