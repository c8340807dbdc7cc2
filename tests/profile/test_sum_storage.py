"""A sum of profiles that is put aside goes on as if it had not been."""

from __future__ import annotations

import json

import numpy as np
import pytest
from tests.tuning.shared import assert_same_counts

from reprior.profile import merging
from reprior.profile.merging import ProfileSum
from reprior.profile.profile import StrengthProfile
from reprior.profile.sum_storage import pack_sum, unpack_sum

PRIOR = np.array([0.6, 0.3, 0.1])


def parts(n: int, weighted: bool) -> list[StrengthProfile]:
    rng = np.random.default_rng(n)
    found = []
    for _ in range(n):
        scores, labels = rng.normal(size=(8, 3)), rng.integers(3, size=8)
        weight = rng.random(8) if weighted else None
        found.append(
            StrengthProfile.from_scores(
                scores, labels, source_prior=PRIOR, sample_weight=weight
            )
        )  # fmt: skip
    return found


def put_aside(total: ProfileSum) -> ProfileSum:
    header, arrays = pack_sum(total)
    return unpack_sum(json.loads(json.dumps(header)), arrays)


def same(a: StrengthProfile, b: StrengthProfile) -> None:
    assert (a.bounds, a.resolution, a.n_switches) == (b.bounds, b.resolution, b.n_switches)
    np.testing.assert_array_equal(a._counts, b._counts)
    np.testing.assert_array_equal(a._table, b._table)
    mine, theirs = a._switches.arrays(), b._switches.arrays()
    assert mine.keys() == theirs.keys()
    for name, column in mine.items():
        np.testing.assert_array_equal(column, theirs[name])
    assert_same_counts(a.counts(1.0), b.counts(1.0))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("cells", [1 << 22, 10])
@pytest.mark.parametrize(
    "how",
    [
        {},
        {"exact_up_to": 30, "resolution": 0.01},
        {"exact_up_to": 0, "resolution": 0.01},
        {"exact_up_to": 10**6, "resolution": 0.01},
    ],
)
def test_at_any_time(how, cells, weighted, monkeypatch):
    monkeypatch.setattr(merging, "MOST_CELLS", cells)  # in a table of bins, or in pairs
    plain, interrupted = ProfileSum(**how), ProfileSum(**how)
    for part in parts(11, weighted):
        plain.add(part)
        interrupted = put_aside(interrupted) if interrupted else interrupted
        interrupted.add(part)
        assert interrupted.coarse == plain.coarse
        same(interrupted.total(), plain.total())


def test_an_empty_sum():
    assert not put_aside(ProfileSum(exact_up_to=5, resolution=0.1))
