"""What the tests of the Displays share: a calibrator with names, and figures that are closed."""

from __future__ import annotations

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib import pyplot as plt
from tests.report.plots.shared import NAMES, PRIOR, long_tailed

import reprior as rp


@pytest.fixture(autouse=True)
def _closed_figures():
    """Draw without a screen, and leave neither figures nor settings behind."""
    plt.switch_backend("Agg")
    settings = dict(mpl.rcParams)
    yield
    assert dict(mpl.rcParams) == settings
    plt.close("all")


@pytest.fixture
def tune():
    return long_tailed(400, PRIOR, 0)


@pytest.fixture
def judge_on():
    """Other data, with the labels as names."""
    logits, labels = long_tailed(300, PRIOR, 1)
    return logits, np.array(NAMES)[labels]


@pytest.fixture
def calibrator(tune):
    logits, labels = tune
    made = rp.PosteriorCalibrator(PRIOR, classes=NAMES, temperature="fit")
    return made.fit(logits, np.array(NAMES)[labels])


@pytest.fixture
def profile(calibrator):
    return calibrator.profile_


@pytest.fixture
def many():
    """A calibrator of more classes than a figure has room for, and labelled scores."""
    prior = rp.prior_from_counts(1000 * 0.98 ** np.arange(300))
    logits, labels = long_tailed(3000, prior, 2, scale=5.0)
    return rp.PosteriorCalibrator(prior).fit(logits, labels), logits, labels


@pytest.fixture(scope="module")
def long_profile():
    """A profile of more steps than a figure draws."""
    rng = np.random.default_rng(0)
    scores, labels = rng.normal(size=(100_000, 2)), rng.integers(2, size=100_000)
    return rp.StrengthProfile.from_scores(scores, labels, source_prior=[0.9, 0.1])
