"""The stand-in: the true counts, a tree within the true super-categories, noise as stated."""

from __future__ import annotations

import numpy as np
import pytest

from reprior.exceptions import OptionError
from reprior_lab.data.inaturalist import (
    inaturalist_counts,
    inaturalist_supercategories,
)
from reprior_lab.inaturalist_stand_in import StandIn

#: Enough classes for every statement about averages, drawn in a tenth of a second.
SOME = StandIn(n_classes=800, n_features=16)


@pytest.fixture(scope="module")
def samples():
    return SOME.draw()


def test_all_classes_have_their_true_counts():
    assert np.array_equal(StandIn().classes, np.arange(8142))
    whole = StandIn(n_features=1).draw()
    assert np.array_equal(whole.class_counts, inaturalist_counts())
    assert whole.train_features.shape == (437_513, 1)
    assert whole.validation_features.shape == (24_426, 1)
    assert np.array_equal(np.bincount(whole.validation_labels), np.full(8142, 3))


def test_fewer_classes_have_theirs(samples):
    assert np.unique(SOME.classes).size == 800
    assert np.array_equal(samples.class_counts, inaturalist_counts()[SOME.classes])
    assert samples.train_features.dtype == samples.validation_features.dtype == np.float32


def test_the_tree_is_one():
    above, family, genus, species = StandIn().tree()
    assert np.array_equal(above, inaturalist_supercategories()[1])
    assert np.array_equal(species, np.arange(8142))
    for lower, upper in ((family, above), (genus, family)):
        # Every node has one parent.
        assert len(set(zip(lower, upper, strict=True))) == len(set(lower))
    assert len(set(above)) < len(set(family)) < len(set(genus)) < 8142


def test_features_have_unit_variance(samples):
    assert samples.train_features.var(axis=0).mean() == pytest.approx(1.0, rel=0.15)


def test_noise_around_the_species_is_as_stated():
    settings = StandIn(n_classes=200, n_features=32, levels=(0, 0, 0, 0), noise=2.0, unevenness=0.5)
    size = np.log(np.linalg.norm(settings.draw().train_features, axis=1))
    # With no means, what is left is e^(τu)·|ε| over its root mean square: |ε| varies little in 32
    # dimensions, by 1/√64 in the logarithm.
    assert size.std() == pytest.approx(np.hypot(0.5, 1 / 8), rel=0.05)
    assert size.mean() == pytest.approx(np.log(np.sqrt(32)) - 0.5**2, abs=0.05)


def test_relatives_are_nearer():
    settings = StandIn(n_classes=800, n_features=64, noise=1e-6)
    above, _, genus, _ = settings.tree()
    x, y = settings.draw().validation_features[::3], np.arange(800)
    near = np.linalg.norm(x[:, None] - x[None], axis=2)
    other = y[:, None] != y
    siblings = near[(genus[:, None] == genus) & other].mean()
    cousins = near[(above[:, None] == above) & (genus[:, None] != genus)].mean()
    strangers = near[above[:, None] != above].mean()
    assert siblings < 0.8 * cousins < 0.8 * strangers


def test_the_seed_decides():
    same, other = (StandIn(n_classes=20, n_features=4, seed=seed).draw() for seed in (0, 1))
    again = StandIn(n_classes=20, n_features=4).draw()
    assert np.array_equal(same.train_features, again.train_features)
    assert np.array_equal(same.validation_features, again.validation_features)
    assert not np.array_equal(same.train_features, other.train_features)
    # Training and validation samples are drawn apart.
    assert not np.isin(same.validation_features, same.train_features).any()


@pytest.mark.parametrize(
    "settings, sentence",
    [
        ({"n_classes": 1}, r"`n_classes` must be a whole number from 2 on\. Got 1"),
        ({"n_classes": 8143}, r"`n_classes` must be at most 8142\. Got 8143"),
        ({"n_classes": 10.0}, r"`n_classes` must be a whole number from 2 on\. Got 10\.0"),
        ({"n_features": 0}, r"`n_features` must be a whole number from 1 on"),
        ({"seed": -1}, r"`seed` must be a whole number from 0 on"),
        ({"noise": 0.0}, r"`noise` must be"),
        ({"unevenness": -0.1}, r"`unevenness` must be"),
        ({"genera": float("nan")}, r"`genera` must be"),
        ({"levels": (1.0, 2.0)}, r"`levels` must be four numbers"),
    ],
)
def test_bad_settings_are_refused(settings, sentence):
    with pytest.raises(OptionError, match=sentence):
        StandIn(**settings)
