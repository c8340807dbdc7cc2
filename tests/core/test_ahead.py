"""The next item is made while the present one is in use; errors and ends come in their place."""

from __future__ import annotations

import gc
import threading

import pytest

from reprior.core.ahead import read_ahead

WAIT = 10.0
"""Seconds after which a test that hangs fails."""


def threads() -> list[threading.Thread]:
    return [t for t in threading.enumerate() if t.name == "reprior-read-ahead"]


def test_nothing_and_one():
    assert list(read_ahead(iter(()))) == []
    assert list(read_ahead(iter([1]))) == [1]


def test_the_next_item_is_made_while_the_present_one_is_in_use():
    made, wanted = [], threading.Event()

    def items():
        for n in range(4):
            made.append(n)
            if n == 1:
                wanted.set()
            yield n

    found = read_ahead(items())
    assert next(found) == 0
    assert wanted.wait(WAIT)
    assert list(found) == [1, 2, 3]
    assert not threads()


def test_no_more_than_two_items_are_made_in_advance():
    made, third = [], threading.Event()

    def items():
        for n in range(9):
            made.append(n)
            if n == 2:
                third.set()
            yield n

    found = read_ahead(items())
    next(found)
    assert third.wait(WAIT)
    assert not threading.Event().wait(0.05)  # time enough to make more, were it allowed
    assert made == [0, 1, 2]
    found.close()
    assert not threads()


def test_an_error_comes_where_its_item_would():
    def items():
        yield 1
        yield 2
        raise OSError(5, "the disk is gone")

    found = read_ahead(items())
    assert [next(found), next(found)] == [1, 2]
    with pytest.raises(OSError, match="the disk is gone"):
        next(found)
    assert not threads()


def test_leaving_ends_the_thread_and_closes_the_source():
    closed = threading.Event()

    def items():
        try:
            yield from range(1000)
        finally:
            closed.set()

    for item in (found := read_ahead(items())):
        if item == 3:
            break
    found.close()
    assert closed.is_set()
    assert not threads()


def test_an_interrupt_in_the_loop_leaves_nothing_behind():
    def interrupted() -> None:
        for _ in read_ahead(iter(range(1000))):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as caught:
        interrupted()
    del caught  # and with it the frame that holds the generator
    gc.collect()
    assert not threads()


@pytest.mark.parametrize("n", range(1, 6))
@pytest.mark.parametrize("taken", range(1, 6))
def test_it_can_be_left_at_any_time(n, taken):
    for _ in range(20):
        found = read_ahead(iter(range(n)))
        for _, _item in zip(range(taken), found, strict=False):
            pass
        found.close()
    assert not threads()


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

    assert list(read_ahead(items())) == list(range(5))
    ahead = read_ahead(items())
    assert [next(ahead), next(ahead)] == [0, 1]
    ahead.close()
    assert closed == [True, True]
