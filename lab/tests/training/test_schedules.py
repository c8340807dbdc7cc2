"""Learning rates against the reference code's rules."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest

from reprior_lab import RunConfig
from reprior_lab.training.schedules import learning_rate

PAPER = RunConfig.resolve("paper", data="cifar10")


def reference(epoch, lr=0.1):
    """The rule of LDAM-DRW's code, which counts epochs from 1."""
    epoch = epoch + 1
    if epoch <= 5:
        return lr * epoch / 5
    if epoch > 180:
        return lr * 0.0001
    if epoch > 160:
        return lr * 0.01
    return lr


def test_steps_are_the_reference_s():
    for epoch in range(200):
        assert learning_rate(PAPER, epoch, 50, 97) == pytest.approx(reference(epoch), rel=1e-12)


def test_a_shorter_run_keeps_the_shape():
    short = PAPER.differing(epochs=20)
    assert [learning_rate(short, epoch, 0, 9) for epoch in (1, 15, 16, 18)] == pytest.approx(
        [0.1, 0.1, 0.001, 1e-5]
    )


def test_one_cycle_rises_and_falls_by_the_step():
    config = RunConfig.resolve(data="cifar10", epochs=10)
    rates = [learning_rate(config, t, i, 20) for t in range(10) for i in range(20)]
    top = rates.index(max(rates))
    assert max(rates) == pytest.approx(config.lr)
    assert top == 40  # two of ten epochs
    assert all(a < b for a, b in pairwise(rates[: top + 1]))
    assert all(a > b for a, b in pairwise(rates[top:]))
    assert 0 < rates[-1] < 1e-3 * config.lr


def test_cosine_is_its_definition():
    config = PAPER.differing(lr_schedule="cosine")
    assert learning_rate(config, 0, 0, 9) == pytest.approx(0.02)
    for epoch in (5, 100, 199):
        place = (epoch - 5) / 195
        expected = 0.05 * (1 + math.cos(math.pi * place))
        assert learning_rate(config, epoch, 3, 9) == pytest.approx(expected)
