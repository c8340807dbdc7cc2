"""Labelled scores in memory: every pass of a fit."""

from __future__ import annotations

import dask.array as da
import numpy as np
import pytest
from tests.calibrator.shared import PRIOR, VALID, K, case, fit

import reprior as rp
from reprior.calibrator.encoding import encode
from reprior.calibrator.options import full_problem
from reprior.calibrator.sources import InMemory
from reprior.core.score_map import ScoreMap


def source(**options):
    calibrator = rp.PosteriorCalibrator(PRIOR, **options)
    data, terms = encode(calibrator, *case(), None)
    return InMemory(data), full_problem(calibrator, terms)


def test_counts_are_those_of_the_decisions():
    found, _ = source()
    scores, labels = case()
    at = ScoreMap(1.0, biases=np.array([0.0, 1.0, 2.0, 3.0]))
    predicted = (scores + at.biases).argmax(1)
    counts = found.counts(at)
    np.testing.assert_array_equal(counts.predicted, np.bincount(predicted, minlength=K))
    np.testing.assert_array_equal(counts.support, np.bincount(labels, minlength=K))


@pytest.mark.parametrize("temperature", ["fit", 1.0])
def test_a_fitted_strength_keeps_to_the_bounds(temperature):
    found, problem = source(metric="log_loss", temperature=temperature, bounds=(0.0, 0.3))
    fit = found.joint(problem)
    assert (fit.strength, fit.at_bound) == (0.3, True)


def test_so_does_that_which_a_scaling_begins_with():
    found, problem = source(metric="log_loss", temperature="bcts", bounds=(0.0, 0.3))
    joint = found.scaling(problem).joint
    assert (joint.strength, joint.at_bound) == (0.3, True)


def test_a_lone_class_is_refused():
    found, problem = source(metric="log_loss", target_prior=[1.0, 0.0, 0.0, 0.0])
    with pytest.raises(rp.PriorError, match="positive for at least two classes"):
        found.joint(problem)


@pytest.mark.parametrize("name", ["fit", "log_loss", "log_loss-vector", "per_class", "separate"])
def test_dask_arrays_are_fitted_too(name):
    scores, labels = case()
    lazy = fit(VALID[name], da.from_array(scores, chunks=(300, K)), da.from_array(labels, 300))
    known = fit(VALID[name])
    np.testing.assert_allclose(lazy.predict_proba(scores), known.predict_proba(scores), atol=1e-6)
