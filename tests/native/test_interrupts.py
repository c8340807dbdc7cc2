"""Ctrl-C ends a kernel that takes long, soon after it comes."""

from __future__ import annotations

import signal
import time

import numpy as np
import pytest

from reprior.core import kernels

native = kernels.native

SOON = 0.3
"""Seconds of processor time: kernels look for signals some 30 times in a second."""


class StoppedError(Exception):
    """What the handler of the signal raises."""


@pytest.fixture
def interrupt():
    """Return a function that calls another one, and interrupts it after some processor time."""

    def handle(*_):
        raise StoppedError

    before = signal.signal(signal.SIGPROF, handle)

    def run(work, after):
        start = time.process_time()
        signal.setitimer(signal.ITIMER_PROF, after)
        with pytest.raises(StoppedError):
            work()
        return time.process_time() - start - after

    yield run
    signal.setitimer(signal.ITIMER_PROF, 0)
    signal.signal(signal.SIGPROF, before)


def search(rng, n, n_classes):
    """Return the arguments of a search for biases among random scores."""
    rows = rng.normal(size=(n, n_classes)).astype(np.float32)
    labels, biases = rng.integers(n_classes, size=n).astype(np.int32), np.zeros(n_classes)
    rows[np.arange(n), labels] += 2
    places = [np.zeros(n, np.int32), np.zeros(n, np.int32), np.zeros(n), np.zeros(n)]
    native.place_rows(rows, biases, *places)
    sums, counts = np.zeros((2, n_classes)), np.zeros((2, n_classes), np.int64)
    native.count_first(labels, None, places[0], sums, counts)
    support = np.bincount(labels, minlength=n_classes).astype(float)
    always = np.ones(n_classes, bool)
    metric = native.Metric(always, False, False, 1.0, 1.0, 0.0, 0.0, 2.0**40)
    home, order = np.zeros(n_classes), np.tile(np.arange(n_classes), 20)
    value = (counts[0] / support).mean()
    start = (counts.astype(float), counts[1].copy(), support)
    return rows, labels, None, biases, *places, *start, metric, home, order, value


def test_steps_along_lines(rng, interrupt):
    arguments = search(rng, 20_000, 400)
    assert interrupt(lambda: native.climb_lines(*arguments), 0.1) < SOON


def test_rounds_within_a_box(rng, interrupt):
    arguments = search(rng, 30_000, 100)
    assert interrupt(lambda: native.climb_box(*arguments, 5.0, 1000), 0.1) < SOON


def test_sums_of_rows(rng, interrupt):
    n, n_classes = 4_000_000, 3000
    many = np.broadcast_to(rng.normal(size=n_classes).astype(np.float16), (1, n, n_classes))
    weights, sums = np.ones(n), np.zeros((1, n_classes))
    assert interrupt(lambda: native.add_rows(many, weights, None, sums), 0.1) < SOON
