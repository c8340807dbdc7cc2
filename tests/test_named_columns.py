"""Frames and series: a class is known by its name, wherever its column is."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import reprior as rp
from reprior.exceptions import PriorError, ScoresError

NAMES = ["bee", "cow", "ant"]
SOURCE = pd.Series({"ant": 0.5, "bee": 0.3, "cow": 0.2})
TARGET = pd.Series({"ant": 0.2, "bee": 0.5, "cow": 0.3})


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture
def frame(rng):
    return pd.DataFrame(rng.dirichlet(np.ones(3), 200), columns=NAMES)


def by_position(prior):
    return prior[NAMES].to_numpy()


def test_rebalance_takes_priors_by_name(frame):
    named = {"source_prior": SOURCE, "target_prior": TARGET}
    plain = {name: by_position(prior) for name, prior in named.items()}
    expected = rp.rebalance(frame.to_numpy(), strength=0.7, kind="probs", **plain)
    mappings = {name: prior.to_dict() for name, prior in named.items()}
    for given in (named, mappings, plain):
        found = rp.rebalance(frame, strength=0.7, kind="probs", **given)
        np.testing.assert_array_equal(found, expected)


def test_profiles_take_priors_by_name(frame, rng):
    labels = rng.integers(3, size=200)
    expected = rp.StrengthProfile.from_scores(
        frame.to_numpy(), labels, source_prior=by_position(SOURCE), kind="probs"
    )
    found = rp.StrengthProfile.from_scores(frame, labels, source_prior=SOURCE, kind="probs")
    np.testing.assert_array_equal(found.source_prior, expected.source_prior)
    assert found.best("accuracy") == expected.best("accuracy")


@pytest.mark.parametrize("fit", [rp.fit_log_loss, rp.fit_scaling])
def test_fits_by_log_loss_take_priors_by_name(frame, rng, fit):
    labels = (rng.random((200, 1)) > frame.to_numpy().cumsum(axis=1)).sum(axis=1)
    expected = fit(
        frame.to_numpy(), labels, source_prior=by_position(SOURCE),
        target_prior=by_position(TARGET), kind="probs",
    )  # fmt: skip
    found = fit(frame, labels, source_prior=SOURCE, target_prior=TARGET, kind="probs")
    assert found.log_loss == expected.log_loss


def test_without_names_a_series_must_be_in_order(frame):
    by_frequency = SOURCE.sort_values()
    with pytest.raises(PriorError, match=r"sort_index"):
        rp.rebalance(frame.to_numpy(), source_prior=by_frequency, kind="probs", strength=1)
    with pytest.raises(PriorError, match=r"sort_index"):
        rp.PriorTracker(by_frequency, kind="probs")


def test_a_tracker_refuses_columns_in_another_order_than_its_prior(frame):
    tracker = rp.PriorTracker(SOURCE, kind="probs")
    with pytest.raises(ScoresError, match=r"must have its columns in the order of"):
        tracker.update(frame)
    tracker.update(frame[["ant", "bee", "cow"]])
    assert tracker.n_samples == 200


def test_a_tracker_takes_its_reference_by_the_names_of_its_validation(frame, rng):
    labels = np.r_[np.arange(3), rng.integers(3, size=197)]
    how = {"kind": "probs", "validation": (frame, labels), "calibration": (1, 0)}
    named = rp.PriorTracker(SOURCE, reference_prior=TARGET, **how)
    plain = rp.PriorTracker(by_position(SOURCE), reference_prior=by_position(TARGET), **how)
    np.testing.assert_array_equal(named.prior, plain.prior)


@pytest.mark.parametrize("call", [rp.decide, rp.expected_costs])
def test_costs_are_of_the_posterior_s_columns(frame, call):
    costs = pd.DataFrame(1.0 - np.eye(3), index=NAMES, columns=NAMES)
    np.testing.assert_array_equal(call(frame, costs), call(frame.to_numpy(), costs.to_numpy()))
    with pytest.raises(ScoresError, match=r"`posterior` must have its columns in the order"):
        call(frame, costs.sort_index())
