"""Ctrl-C is not lost where a library swallows its exception."""

from __future__ import annotations

import signal
import threading

import pytest

from reprior.files import atomic_paths, atomic_write, raise_if_interrupted, record_interrupts


def swallowed():
    """Press Ctrl-C inside of something that catches everything."""
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def test_a_swallowed_interrupt_is_raised_again():
    with record_interrupts():
        raise_if_interrupted()
        swallowed()
        with pytest.raises(KeyboardInterrupt):
            raise_if_interrupted()


def test_it_is_over_with_the_block():
    before = signal.getsignal(signal.SIGINT)
    with record_interrupts():
        swallowed()
    raise_if_interrupted()
    assert signal.getsignal(signal.SIGINT) is before


def test_an_ignored_signal_stays_ignored():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with record_interrupts():
            signal.raise_signal(signal.SIGINT)
            raise_if_interrupted()
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_other_threads_leave_it_alone():
    before, seen = signal.getsignal(signal.SIGINT), []

    def work():
        with record_interrupts():
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [before]


def write_one(folder):
    with atomic_write(folder / "old.txt") as file:
        file.write(b"new")
        swallowed()


def write_several(folder):
    with atomic_paths(folder / "new.txt", folder / "old.txt") as paths:
        for path in paths:
            path.write_text("new")
        swallowed()


def test_nothing_takes_its_name_after_it(tmp_path):
    old = tmp_path / "old.txt"
    old.write_text("old")
    for write in (write_one, write_several):
        with record_interrupts(), pytest.raises(KeyboardInterrupt):
            write(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["old.txt"]
    assert old.read_text() == "old"
