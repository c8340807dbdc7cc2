from __future__ import annotations

import numpy as np

from reprior.profile.grouping import grouped


def test_sums_over_equal_keys(rng):
    a, b = rng.integers(3, size=50), rng.integers(2, size=50)
    amount = rng.integers(9, size=50)
    (keys_a, keys_b), (sums, nothing) = grouped([a, b], [amount, None])
    pairs = sorted(set(zip(a.tolist(), b.tolist(), strict=True)))
    assert list(zip(keys_a.tolist(), keys_b.tolist(), strict=True)) == pairs
    assert sums.tolist() == [amount[(a == i) & (b == j)].sum() for i, j in pairs]
    assert nothing is None


def test_nothing_to_sum():
    (keys,), (sums,) = grouped([np.empty(0)], [np.empty(0, np.int64)])
    assert keys.size == sums.size == 0
    assert sums.dtype == np.int64
