"""A pass gives the same over one block and over many."""

from __future__ import annotations

import dask
import dask.array as da
import numpy as np
import pytest
from tests.tuning.shared import assert_same_counts, checked, random_case

from reprior import ScoreMap
from reprior.exceptions import LabelsError, OptionError
from reprior.profile import (
    CollectPass,
    CountPass,
    DaskArrays,
    InMemory,
    MomentsPass,
    ProfilePass,
    RowReader,
    Samples,
)
from reprior.profile.source import collected


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


def moments_pass(support, priors):
    reader = RowReader.of(support, priors.target, None)
    every = np.arange(priors.n_classes)
    return MomentsPass(reader, every, np.zeros(every.size), 1.0, 0.5 * priors.slopes, priors.slopes)


def test_moments_are_equal(both):
    one, many, priors = both
    step = moments_pass(np.bincount(one.samples.labels, minlength=3).astype(np.float64), priors)
    np.testing.assert_allclose(one.run(step), many.run(step), rtol=1e-12)
    rows = step.reader.read_all(one.samples)
    np.testing.assert_allclose(rows.moments(1.0, step.bias, step.slopes), one.run(step), rtol=1e-12)


def test_collecting_gives_all_samples(both):
    one, many, _ = both
    samples = many.run(CollectPass(most=180))
    np.testing.assert_array_equal(samples.scores, one.samples.scores)
    np.testing.assert_array_equal(samples.labels, one.samples.labels)
    assert one.run(CollectPass(most=180)) is one.samples


def test_too_many_scores_are_not_collected(both):
    for source in both[:2]:
        with pytest.raises(OptionError, match=r"at most 179\. Got more\."):
            source.run(CollectPass(most=179))


def test_a_block_where_nothing_counts_gives_nothing(both):
    _, _, priors = both
    ignored = Samples.of(np.zeros((2, 3)), np.array([9, 9]), n_classes=3, ignore_index=9, part=True)
    source = InMemory(ignored)
    assert source.run(CountPass(ScoreMap(1.0, 1.0), priors)) is None
    assert source.run(CollectPass(most=180)) is None
    profiled = source.run(ProfilePass(priors))
    assert profiled.profile is None
    with pytest.raises(LabelsError, match="Got 2 samples, all of them ignored"):
        profiled.required()
    assert not source.run(moments_pass(np.ones(3), priors)).any()
    step = moments_pass(np.ones(3), priors)
    with pytest.raises(LabelsError, match="Got 2 samples, all of them ignored"):
        step.reader.read_all(ignored)


def test_a_source_without_samples_is_refused():
    class Nothing:
        def run(self, pass_):
            return pass_.merge([None])

    with pytest.raises(LabelsError, match="Got 0 samples, all of them ignored"):
        collected(Nothing())
