"""A uniform sample of rows."""

from __future__ import annotations

import numpy as np
from tests.tuning.shared import rows_of

from reprior.engines import RowSample

FAIR = 5.0
"""Standard deviations by which a count of draws may miss its mean: one in a million does."""


def numbered(start, n, **options):
    scores = np.stack([np.arange(start, start + n) + 0.5, np.zeros(n)], axis=1)
    return rows_of(scores, np.zeros(n, int), **options)


def test_all_rows_in_order_while_there_is_room():
    sample = RowSample(10, 0)
    sample.add(numbered(0, 4))
    sample.add(numbered(4, 5, weights=np.arange(1.0, 6)))
    samples = sample.samples(n_classes=2)
    np.testing.assert_array_equal(samples.scores[:, 0], np.arange(9) + 0.5)
    np.testing.assert_array_equal(samples.labels, np.zeros(9))
    np.testing.assert_array_equal(samples.weights, [1, 1, 1, 1, 1, 2, 3, 4, 5])


def test_ignored_and_weightless_rows_have_no_part():
    sample = RowSample(10, 0)
    rows = rows_of(np.ones((4, 2)), [0, 9, 1, 0], np.array([1.0, 1, 0, 2]), ignore_index=9)
    sample.add(rows)
    assert sample.samples(n_classes=2).weights.tolist() == [1, 2]
    sample.add(rows_of(np.ones((2, 2)), [9, 9], ignore_index=9))
    assert sample.samples(n_classes=2).weights.tolist() == [1, 2]


def test_every_row_is_as_likely_as_any_other():
    n, size, draws = 60, 20, 600
    seen = np.zeros(n)
    for seed in range(draws):
        sample, other = RowSample(size, [seed, 0]), RowSample(size, [seed, 1])
        for start in range(0, 30, 10):
            sample.add(numbered(start, 10))
        other.add(numbered(30, 30))
        sample.merge(other)
        chosen = sample.samples(n_classes=2).scores[:, 0].astype(int)
        assert chosen.size == size
        seen[chosen] += 1
    share = size / n
    assert np.abs(seen - draws * share).max() < FAIR * np.sqrt(draws * share * (1 - share))
