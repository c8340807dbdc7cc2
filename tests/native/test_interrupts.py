"""Ctrl-C ends long kernel calls soon."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from tests.support.child_processes import started

from reprior.core import kernels
from reprior.metrics import COUNT_METRICS, ClassCounts, FixedPointMetric

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
    labelled = ClassCounts(counts[0], counts[1], support)
    metric = FixedPointMetric(COUNT_METRICS["balanced_accuracy"], labelled).native(native)
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


def repeated(rng, n, n_classes, dtype=np.float16):
    """Return the same row many times, (1, n, n_classes): a long call that needs little memory."""
    row = rng.normal(size=n_classes).astype(dtype)
    return np.lib.stride_tricks.as_strided(row, (1, n, n_classes), (0, 0, row.itemsize))


def test_sums_of_rows(rng, interrupt):
    n, n_classes = 4_000_000, 3000
    weights, sums = np.ones(n), np.zeros((1, n_classes))
    many = repeated(rng, n, n_classes)
    assert interrupt(lambda: native.add_rows(many, weights, None, sums), 0.1) < SOON


def test_entropies(rng, interrupt):
    many, entropy = repeated(rng, 1_000_000, 3000), np.empty((1, 1_000_000))
    assert interrupt(lambda: native.entropies(many[None], "logits", 0.0, entropy), 0.1) < SOON


def test_fused_posteriors(rng, interrupt):
    n, n_classes = 1_000_000, 3000
    many = [repeated(rng, n, n_classes)[None]] * 2
    common = (many, "logits", np.zeros(2), None, np.zeros(n_classes))
    out = repeated(rng, n, n_classes)
    settings, classes = np.ones((1, 2)), np.empty((1, n), np.int64)
    how = ("noisy_or", False)
    work = [
        lambda: native.fuse(*common, settings[0], *how, "posterior", out),
        lambda: native.fused_classes(*common, settings, *how, classes),
    ]
    for each in work:
        assert interrupt(each, 0.1) < SOON


def test_reliability_bins(rng, interrupt):
    n = 1_000_000
    p, labels, weights = np.full((n, 100), 0.01, np.float32), np.zeros(n, np.int64), np.ones(n)
    edges, top, every = np.linspace(0, 1, 16), np.zeros((3, 15)), np.zeros((3, 100, 15))

    def work():
        while True:  # one call takes half a second
            native.add_reliability(p, labels, weights, edges, top, every)

    assert interrupt(work, 0.1) < SOON


#: One pass of the log-loss over 8·10⁹ scores, which takes some 20 seconds of two cores.
LOG_LOSS = """
import numpy as np
from reprior.core.log_loss_sums import {name}
from reprior.core.weighted_rows import WeightedRows
n, n_classes = 8_000_000, 1000
rows = np.broadcast_to(np.linspace(0, 1, n_classes, dtype=np.float32), (n, n_classes))
data = WeightedRows.of_rows(rows, np.zeros(n, np.int64), np.full(n, 1 / n))
ones = np.ones(n_classes)
print("ready", flush=True)
{name}(data, {arguments})
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has other signals")
@pytest.mark.parametrize(
    "name, arguments",
    [("log_loss_moments", "0.5, ones, ones"), ("posterior_sums", "ones, ones")],
)
def test_log_losses_end_with_their_process(name, arguments):
    code = LOG_LOSS.format(name=name, arguments=arguments)
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with started([sys.executable, "-c", code], limit=60, **pipes) as process:
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.3)
        start = time.monotonic()
        process.send_signal(signal.SIGINT)
        _, err = process.communicate()
        seconds = time.monotonic() - start
    assert err.rstrip().endswith("KeyboardInterrupt")
    assert seconds < 5  # on a busy machine; 0.1 alone
