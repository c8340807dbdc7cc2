"""Samplers against their definitions."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from reprior.exceptions import OptionError, PriorError
from reprior_lab.training.batches import (
    class_shares,
    draw_epoch,
    generator_of,
    synthesised,
)

COUNTS = np.array([2000, 400, 100])
LABELS = np.random.default_rng(0).permutation(np.repeat(np.arange(3), COUNTS))

#: A share of N draws lies within this many standard deviations; the draws are the same every time.
SIGMAS = 4


def generator(epoch=0):
    return generator_of(0, epoch, 0)


def test_plain_is_every_sample_once():
    assert np.array_equal(np.sort(draw_epoch("plain", LABELS, generator())), np.arange(2500))


@pytest.mark.parametrize("sampler", ["over", "reversed"])
def test_draws_have_the_shares_of_the_definition(sampler):
    if sampler == "reversed":
        weights = COUNTS.max() / COUNTS
        expected = weights / weights.sum()
    else:
        expected = np.full(3, 1 / 3)
    np.testing.assert_allclose(class_shares(sampler, COUNTS), expected)
    index = draw_epoch(sampler, LABELS, generator())
    assert index.size == LABELS.size
    found = np.bincount(LABELS[index]) / index.size
    error = np.sqrt(expected * (1 - expected) / index.size)
    assert (np.abs(found - expected) < SIGMAS * error).all()


def test_within_a_class_every_sample_is_drawn_alike():
    index = np.concatenate([draw_epoch("over", LABELS, generator(t)) for t in range(20)])
    times = np.bincount(index, minlength=LABELS.size)[LABELS == 2]
    mean = times.mean()
    assert times.min() > 0
    assert abs(times.var() / mean - 1) < 0.6  # as Poisson has it


def test_under_takes_as_many_of_each_class_and_others_each_epoch():
    one, other = (draw_epoch("under", LABELS, generator(t)) for t in range(2))
    assert np.bincount(LABELS[one]).tolist() == [100, 100, 100]
    assert len(set(one)) == 300
    assert set(one) != set(other)


def test_seed_epoch_and_purpose_decide():
    draws = {
        key: tuple(torch.randint(0, 10**6, (3,), generator=generator_of(*key)).tolist())
        for key in [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1)]
    }
    assert len(set(draws.values())) == 4
    again = torch.randint(0, 10**6, (3,), generator=generator_of(0, 1, 0))
    assert tuple(again.tolist()) == draws[0, 1, 0]


def test_a_class_without_samples_cannot_be_drawn():
    with pytest.raises(PriorError, match="Got none of class 1"):
        class_shares("reversed", [3, 0, 2])


@pytest.mark.parametrize("sampler", ["smote", "adasyn"])
def test_new_samples_even_out_flat_features(sampler):
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1], [200, 40])
    features = (rng.normal(size=(240, 2)) + labels[:, None]).astype(np.float32)
    made, names = synthesised(sampler, features, labels, seed=0)
    counts = np.bincount(names)
    assert counts[0] == 200
    assert abs(counts[1] - 200) <= (0 if sampler == "smote" else 20)
    assert made.dtype == np.float32
    assert np.array_equal(made[:240], features)


def test_images_have_nothing_between_them():
    with pytest.raises(OptionError, match="Take sampler='over'"):
        synthesised("smote", np.zeros((4, 2, 2, 1)), np.array([0, 0, 1, 1]), 0)
