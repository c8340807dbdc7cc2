"""Losses by name, and the prior each leaves in the network."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from lab.tests.support.small_runs import tiny
from torch import nn

from reprior.exceptions import OptionError
from reprior_lab.training import effective_prior, register_loss
from reprior_lab.training.recipes import LOSSES, loss_weights, make_loss

COUNTS = np.array([400, 100, 25])


@pytest.fixture
def batch():
    generator = torch.Generator().manual_seed(0)
    return torch.rand(6, 3, generator=generator) * 2 - 1, torch.tensor([0, 1, 2, 2, 1, 0])


def weights_of(counts, beta=0.9999):
    raw = (1 - beta) / (1 - beta**counts)
    return raw / raw.sum() * len(counts)


def per_sample(scores, labels):
    return nn.functional.cross_entropy(scores, labels, reduction="none")


@pytest.mark.parametrize("name", ["ce", "focal", "cb_ce", "cb_focal", "median_ce", "max_ce"])
def test_losses_are_their_definitions(batch, name):
    scores, labels = batch
    each = per_sample(scores, labels)
    if "focal" in name:
        each = (1 - torch.exp(-each)) * each
    weights = {"cb": weights_of(COUNTS), "median": 100 / COUNTS, "max": 400 / COUNTS}.get(
        name.partition("_")[0], np.ones(3)
    )
    own = torch.tensor(weights, dtype=torch.float32)[labels]
    expected = (each * own).sum() / own.sum()
    torch.testing.assert_close(make_loss(tiny(loss=name), COUNTS)(scores, labels), expected)


def test_ldam_is_its_definition(batch):
    cosines, labels = batch
    margins = 0.5 * COUNTS**-0.25 / (COUNTS**-0.25).max()
    lowered = cosines - torch.tensor(margins, dtype=torch.float32) * nn.functional.one_hot(labels)
    expected = per_sample(30 * lowered, labels).mean()
    torch.testing.assert_close(make_loss(tiny(loss="ldam"), COUNTS)(cosines, labels), expected)


def test_drw_weighs_in_its_second_stage_alone(batch):
    scores, labels = batch
    config = tiny(loss="ce", schedule="drw")
    first, later = (make_loss(config, COUNTS, deferred=late) for late in (False, True))
    balanced = make_loss(tiny(loss="cb_ce"), COUNTS)
    assert torch.equal(first(scores, labels), nn.functional.cross_entropy(scores, labels))
    assert torch.equal(later(scores, labels), balanced(scores, labels))


@pytest.mark.parametrize(
    "differing, expected",
    [
        ({}, COUNTS),
        ({"loss": "ldam"}, COUNTS),
        ({"loss": "cb_ce"}, COUNTS * weights_of(COUNTS)),
        ({"loss": "focal", "schedule": "drw"}, COUNTS * weights_of(COUNTS)),
        ({"loss": "max_ce"}, [1, 1, 1]),
        ({"loss": "logit_adjusted"}, [1, 1, 1]),
        ({"sampler": "over"}, [1, 1, 1]),
        ({"sampler": "reversed"}, 1 / COUNTS),
        ({"schedule": "bbn"}, [1, 1, 1]),
    ],
)
def test_effective_priors(differing, expected):
    found = effective_prior(tiny(**differing), COUNTS)
    np.testing.assert_allclose(found, np.array(expected) / np.sum(expected), rtol=1e-5)


@pytest.mark.parametrize("loss", ["ce", "ldam", "cb_ce", "median_ce", "logit_adjusted"])
def test_loss_weights_times_counts_are_the_effective_prior(loss):
    config = tiny(loss=loss)
    weighted = loss_weights(config, COUNTS) * COUNTS
    np.testing.assert_allclose(weighted / weighted.sum(), effective_prior(config, COUNTS))


def test_a_loss_of_one_s_own(batch):
    register_loss("own", lambda given: nn.CrossEntropyLoss(label_smoothing=0.1))
    try:
        made = make_loss(tiny(loss="own"), COUNTS)
        assert torch.equal(made(*batch), nn.CrossEntropyLoss(label_smoothing=0.1)(*batch))
        with pytest.raises(OptionError, match="`name` must be new"):
            register_loss("own", lambda given: nn.CrossEntropyLoss())
    finally:
        LOSSES.pop("own")
