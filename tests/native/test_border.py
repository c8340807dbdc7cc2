"""Arguments that the binding refuses, and results that do not depend on the calling thread."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest
import torch

from reprior.core import kernels
from reprior.metrics import COUNT_METRICS, ClassCounts, FixedPointMetric

native = kernels.native
N, K = 6, 3


def misaligned(values):
    """Return equal values one byte off their alignment."""
    values = np.asarray(values)
    raw = np.zeros(values.nbytes + 1, np.uint8)[1:].view(values.dtype).reshape(values.shape)
    raw[...] = values
    return raw


def calls():
    """Arguments of every kernel that are good, by name; the first of the list are read only."""
    z, ones, labels = np.zeros((1, N, K)) + 1 / K, np.ones(K), np.zeros(N, np.int64)
    weights, rows, classes = np.ones(N), np.zeros((N, K)), np.zeros(N, np.int32)
    places = {"first": classes.copy(), "second": classes.copy() + 1}
    places |= {"top": np.zeros(N), "following": np.zeros(N)}
    switches = {"position": np.zeros(N)} | dict.fromkeys(("label", "loser", "winner"), classes)
    start = {"tallies": np.zeros((2, K)), "plain": np.zeros(K, np.int64), "support": ones}
    labelled = ClassCounts(np.zeros(K), np.zeros(K), ones)
    metric = FixedPointMetric(COUNT_METRICS["balanced_accuracy"], labelled).native(native)
    labelled = {"rows": rows, "labels": classes, "weights": weights}
    search = {**labelled, "biases": np.zeros(K), **places, **start, "metric": metric}
    search |= {"home": np.zeros(K), "order": np.arange(K), "value": 0.0}
    return {
        "profile": {
            "scores": z,
            "labels": labels,
            "weights": weights,
            "slopes": np.arange(3.0),
            "direction": None,
            "to_scores": False,
            "low": 0.0,
            "high": 1.0,
            "first": 0,
            "counts": np.zeros((5, K), np.int64),
            "sums": np.zeros((5, K)),
            "position": np.zeros(99),
            "parties": np.zeros((4, 99), np.int32),
            "switch_weight": np.zeros(99),
            "used": 0,
            "ends": np.zeros((2, N), np.int32),
        },
        "posterior": {
            "scores": z,
            "kind": 0,
            "tolerance": 0.1,
            "scale": ones,
            "bias": ones,
            "log": True,
            "start": 0,
            "stop": N,
            "out": z.copy(),
        },
        "decisions": {
            "scores": z,
            "kind": 0,
            "tolerance": 0.1,
            "scale": ones,
            "bias": ones,
            "start": 0,
            "stop": N,
            "classes": labels.copy(),
        },
        "tilted_sums": {
            "scores": z,
            "labels": labels,
            "weights": weights,
            "scale": ones,
            "shift": ones,
            "slopes": ones,
            "sums": np.zeros(6),
        },
        "posterior_sums": {
            "scores": z,
            "labels": labels,
            "weights": weights,
            "scale": ones,
            "bias": ones,
            "sums": np.zeros(7),
        },
        "row_totals": {"scores": z, "tolerance": 0.1, "totals": np.zeros(N)},
        "largest_classes": {"scores": z, "tolerance": 0.1, "classes": labels.copy()},
        "add_rows": {"scores": z, "weights": weights, "labels": labels, "sums": np.zeros((K, K))},
        "add_normalised": {
            "scores": z,
            "tolerance": 0.1,
            "factors": np.zeros(N),
            "sums": np.zeros(K),
        },
        "entropies": {
            "scores": z[None],
            "kind": "logits",
            "tolerance": 0.1,
            "out": np.zeros((1, N)),
        },
        "fuse": {
            "scores": [z[None]],
            "kind": "logits",
            "tolerances": ones[:1],
            "factors": np.ones((1, 1, 1)),
            "slopes": ones,
            "strengths": ones[:1],
            "rule": "mean",
            "flatten_first": True,
            "form": "log",
            "out": z.copy(),
        },
        "fused_classes": {
            "scores": [z[None]],
            "kind": "logits",
            "tolerances": ones[:1],
            "factors": np.ones((1, 1, 1)),
            "slopes": ones,
            "strengths": np.ones((1, 1)),
            "rule": "mean",
            "flatten_first": True,
            "classes": np.zeros((1, N), np.int64),
        },
        "add_reliability": {
            "posterior": z[0],
            "labels": labels,
            "weights": weights,
            "edges": np.linspace(0, 1, 5),
            "top": np.zeros((3, 4)),
            "every": np.zeros((3, K, 4)),
        },
        "sweep": dict(
            **switches,
            count=np.ones(N, np.int64),
            weight=weights,
            **start,
            metric=metric,
            low=0.0,
            start=np.zeros(N + 1),
            value=np.zeros(N + 1),
        ),
        "best_interval": {"start": np.arange(3.0), "value": ones, "high": 4.0, "spared": np.nan},
        "enter_bins": dict(
            **switches,
            amount=np.ones(N),
            resolution=0.5,
            first=0,
            moved=np.zeros(2),
            net=np.zeros((2, 2 * K)),
        ),
        "place_rows": dict(rows=rows, biases=np.zeros(K), **places),
        "move_class": dict(
            rows=rows, column=rows[:, 0].copy(), biases=np.zeros(K), k=0, bias=1.0, **places
        ),
        "count_first": {
            "labels": classes,
            "weights": weights,
            "first": classes,
            "sums": np.zeros((2, K)),
            "counts": np.zeros((2, K), np.int64),
        },
        "promising_part": dict(
            **labelled,
            column=rows[:, 0].copy(),
            k=0,
            bias=0.0,
            **places,
            support=ones,
            metric=metric,
            value=0.0,
            tallies=np.zeros((2, K)),
            plain=np.zeros(K, np.int64),
            place=np.zeros(N),
            chosen=np.zeros(N, np.int64),
        ),
        "climb_lines": search,
        "climb_box": {**search, "radius": 1.0, "max_cycles": 2},
    }


OUTPUTS = {
    "counts",
    "sums",
    "position",
    "parties",
    "switch_weight",
    "out",
    "classes",
    "totals",
    "factors",
    "top",
    "every",
    "moved",
    "net",
    "biases",
    "first",
    "second",
    "following",
    "place",
    "chosen",
    "tallies",
    "plain",
}
READ_IN = {("sweep", "position"), ("sweep", "tallies"), ("sweep", "plain")}
READ_IN |= {("enter_bins", "position"), ("place_rows", "biases"), ("count_first", "first")}
READ_IN |= {(fuse, "factors") for fuse in ("fuse", "fused_classes")}
READ_IN |= {
    (climb, name) for climb in ("climb_lines", "climb_box") for name in ("tallies", "plain")
}


def arrays(*names):
    """Name every kernel with every array that it takes, or with those of some names."""
    return [
        (kernel, name)
        for kernel, arguments in calls().items()
        for name, value in arguments.items()
        if isinstance(value, np.ndarray) and (not names or name in names)
    ]


@pytest.mark.parametrize("kernel", list(calls()))
def test_every_kernel_takes_good_arguments(kernel):
    assert set(calls()) == {
        name for name, bound in vars(native).items() if hasattr(bound, "__nb_signature__")
    } - {"level", "levels", "set_level"}
    getattr(native, kernel)(**calls()[kernel])


@pytest.mark.parametrize("kernel, name", [x for x in arrays() if x[1] != "always"])
def test_misaligned_arrays_are_refused(kernel, name):
    arguments = calls()[kernel]
    arguments[name] = misaligned(arguments[name])
    with pytest.raises(ValueError, match="aligned"):
        getattr(native, kernel)(**arguments)


@pytest.mark.parametrize("kernel", ["fuse", "fused_classes"])
def test_misaligned_modalities_are_refused(kernel):
    arguments = calls()[kernel]
    arguments["scores"] = [misaligned(each) for each in arguments["scores"]]
    with pytest.raises(ValueError, match="aligned"):
        getattr(native, kernel)(**arguments)


@pytest.mark.parametrize("kernel, name", sorted(set(arrays(*OUTPUTS)) - READ_IN))
def test_no_output_is_converted(kernel, name):
    """Results written into a converted copy would be lost."""
    good = calls()[kernel][name]
    others = [good.astype("f4" if good.dtype != np.float32 else "i8")]
    if sum(n > 1 for n in good.shape) > 1 and name != "out":  # posteriors have strides
        others.append(np.zeros(good.shape[::-1], good.dtype).T)
    for other in others:
        with pytest.raises((TypeError, ValueError)):
            getattr(native, kernel)(**{**calls()[kernel], name: other})


@pytest.mark.parametrize("kernel, name", arrays("labels", "label", "loser", "winner", "order"))
def test_no_label_is_converted(kernel, name):
    arguments = calls()[kernel]
    arguments[name] = arguments[name] + 0.7
    with pytest.raises(TypeError):
        getattr(native, kernel)(**arguments)


def test_sizes_that_overflow_are_refused():
    one = np.zeros((1, 1, K), np.float16)
    shape = (1 << 20, 1 << 38, K)
    huge = torch.as_strided(torch.from_numpy(one), shape, (0, 0, 1))
    with pytest.raises(ValueError, match="too many scores"):
        native.largest_classes(huge, -1.0, np.zeros(0, np.int64))


@pytest.mark.parametrize("level", native.levels())
def test_halves_do_not_depend_on_a_flag_of_the_thread(level):
    """Denormals of float16 are normal numbers of float32, however PyTorch flushes denormals."""
    before = native.level()
    native.set_level(level)
    every = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    rows = every[np.isfinite(every)].reshape(1, -1, 4).copy()
    few = np.array([[[3e-5, 3e-5, 3e-5, 1]]], np.float16)
    exact = rows.astype(np.float64)[0]

    def all_of(scores):
        n = scores.shape[1]
        sums, totals = np.zeros((1, 4)), np.zeros(n)
        native.add_rows(scores, np.ones(n), None, sums)
        by_row = np.zeros((4, 4))
        native.row_totals(scores, np.inf, totals)
        native.add_rows(scores, np.ones(n), np.arange(n) % 4, by_row)
        return sums, totals, by_row

    try:
        plain, of_few = all_of(rows), all_of(few)
        torch.set_flush_denormal(True)
        flushed, few_flushed = all_of(rows), all_of(few)
    finally:
        torch.set_flush_denormal(False)
        native.set_level(before)
    np.testing.assert_array_equal(plain[0][0], exact.sum(axis=0))
    for found, wanted in zip((*flushed, *few_flushed), (*plain, *of_few), strict=True):
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("n_classes", [40, 700])
def test_kernels_end_while_another_thread_writes_to_the_scores(rng, n_classes):
    scores = rng.normal(size=(1, 300, n_classes)).astype(np.float32)
    labels, slopes = np.zeros(300, np.int64), rng.normal(size=n_classes)
    lines = [(slopes, None, False), (None, scores[:, ::-1], False), (None, scores[:, ::-1], True)]
    end = threading.Event()

    def write():
        while not end.is_set():
            scores[...] = np.roll(scores, 1, axis=2)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        stop = time.process_time() + 0.3
        while time.process_time() < stop:
            classes = np.zeros(300, np.int64)
            native.largest_classes(scores, -1.0, classes)
            native.decisions(
                scores, 0, 0.0, np.ones(n_classes), np.zeros(n_classes), 0, 300, classes
            )
            room = 2 * 300 * n_classes
            for along in lines:
                native.profile(
                    scores,
                    labels,
                    None,
                    *along,
                    0.0,
                    1.0,
                    0,
                    np.zeros((5, n_classes), np.int64),
                    np.zeros((5, n_classes)),
                    np.zeros(room),
                    np.zeros((4, room), np.int32),
                    np.zeros(0),
                    0,
                    np.zeros((2, 300), np.int32),
                )
    finally:
        end.set()
        thread.join()
