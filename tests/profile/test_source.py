"""A pass gives the same over one block and over many."""

from __future__ import annotations

import dask
import dask.array as da
import numpy as np
import pytest
from tests.tuning.shared import assert_same_counts, checked, random_case

from reprior.core.score_map import ScoreMap
from reprior.exceptions import LabelsError
from reprior.profile.dask_arrays import DaskArrays
from reprior.profile.samples import Samples
from reprior.profile.source import CountPass, InMemory, LogLossPass, LogLossRows, ProfilePass


@pytest.fixture
def both(rng):
    case = random_case(rng, 60, 3)
    samples, priors = checked(case.scores, case.labels, source_prior=case.source)
    chunks = da.from_array(case.scores, chunks=(7, 3)), da.from_array(case.labels, chunks=7)
    with dask.config.set(scheduler="synchronous"):
        yield InMemory(samples), DaskArrays(*chunks, None, n_classes=3), priors


def test_profiles_are_equal(both):
    one, many, priors = both
    a, b = (source.run(ProfilePass(priors)).required() for source in (one, many))
    assert a.best("accuracy") == b.best("accuracy")
    assert a.n_switches == b.n_switches


def test_counts_are_equal(both):
    one, many, priors = both
    a, b = (source.run(CountPass(ScoreMap(1.0, 1.0), priors)) for source in (one, many))
    assert_same_counts(a, b)
    assert_same_counts(a, one.run(ProfilePass(priors)).profile.counts(1.0))


def test_log_losses_are_equal(both):
    one, many, priors = both
    support = np.bincount(one.samples.labels, minlength=3).astype(np.float64)
    rows = LogLossRows.of(
        support,
        target_prior=priors.target,
        label_prior=None,
        kept=np.ones(3, bool),
        shifts=np.zeros(3),
    )
    a, b = (source.run(LogLossPass(rows, priors.slopes, 1.0, 0.5)) for source in (one, many))
    np.testing.assert_allclose(a, b, rtol=1e-12)


def test_a_block_where_nothing_counts_gives_nothing(both):
    _, _, priors = both
    ignored = Samples.of(np.zeros((2, 3)), np.array([9, 9]), n_classes=3, ignore_index=9, part=True)
    source = InMemory(ignored)
    assert source.run(CountPass(ScoreMap(1.0, 1.0), priors)) is None
    profiled = source.run(ProfilePass(priors))
    assert profiled.profile is None
    with pytest.raises(LabelsError, match="Got 2 samples, all of them ignored"):
        profiled.required()
    rows = LogLossRows(priors.target, priors.target, 1.0, np.ones(3, bool), np.zeros(3))
    assert not source.run(LogLossPass(rows, priors.slopes, 1.0, 0.5)).any()
