"""Work beside the caller's: in order, and its errors are not lost."""

from __future__ import annotations

import threading

import pytest

from reprior.engines import BackgroundThread


def fail() -> None:
    raise ValueError("no")


def test_calls_run_elsewhere_in_their_order():
    seen, where = [], set()

    def note(n: int) -> None:
        where.add(threading.get_ident())
        seen.append(n)

    with BackgroundThread() as background:
        for n in range(20):
            background.call(note, n)
    assert seen == list(range(20))
    assert where.isdisjoint({threading.get_ident()})


def test_an_error_is_raised_by_the_next_call_or_the_end():
    with pytest.raises(ValueError, match="no"), BackgroundThread() as background:
        background.call(fail)
    with BackgroundThread() as background:
        background.call(fail)
        with pytest.raises(ValueError, match="no"):
            background.call(print)


def test_the_block_s_own_error_wins():
    def both() -> None:
        with BackgroundThread() as background:
            background.call(fail)
            raise KeyError

    with pytest.raises(KeyError):
        both()


def test_calls_are_made_here_where_no_thread_can_be_started(monkeypatch):
    def refused(_):
        raise RuntimeError("can't start new thread")

    seen = []
    with BackgroundThread() as background:
        monkeypatch.setattr(threading.Thread, "start", refused)
        background.call(seen.append, 1)
        monkeypatch.undo()
        background.call(seen.append, 2)  # what the new thread finds in its queue is done already
    assert seen == [1, 2]
