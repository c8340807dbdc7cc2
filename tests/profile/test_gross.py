"""Nowhere in a bin is a metric outside of its reach there."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reprior.metrics.count_metrics import COUNT_METRICS, CountMetric, find_metric
from reprior.profile.gross import GrossTable
from reprior.profile.profile import StrengthProfile

METRICS = [
    *COUNT_METRICS.values(),
    *(find_metric(name, n_classes=4) for name in ("iou[0]", "precision[1]", "recall[0]")),
    CountMetric("odd", gain=2, support=1, predicted=0.5, true_positive=1, average="seen"),
    CountMetric("pooled_iou", support=1, predicted=1, true_positive=-1, average="pooled"),
]

ROUNDING = 1e-12
"""Sums of ratios in another order differ by far less."""


def table_of(profile: StrengthProfile, width: float) -> GrossTable:
    table = GrossTable(profile.bounds, width, profile.n_classes, profile.weighted)
    half = len(profile._switches) // 2
    for part in (slice(half), slice(half, None)):
        table.add(profile._switches.taken(part))
    return table


@settings(deadline=None, max_examples=30)
@given(
    st.integers(0, 1000),
    st.sampled_from([0.03, 0.25, 0.7]),
    st.sampled_from([(0.0, 2.0), (-0.5, 1.3), (0.1, 1.0)]),
    st.booleans(),
)
def test_every_value_is_within_reach(seed, width, bounds, weighted):
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=(40, 4)).round(1)
    labels = rng.integers(3, size=40)  # the last class has none
    profile = StrengthProfile.from_scores(
        scores, labels, source_prior=[0.5, 0.3, 0.15, 0.05], bounds=bounds,
        sample_weight=rng.integers(1, 5, 40).astype(float) if weighted else None,
    )  # fmt: skip
    binned, table = profile.binned(width), table_of(profile, width)
    at = np.unique(np.concatenate([profile._switches.position, np.linspace(*bounds, 60)]))
    for metric in METRICS:
        reach = table.reach(binned, metric)
        assert reach.least.shape == reach.largest.shape == (table.n_bins,)
        values, bins = profile.evaluate(metric, at), table.bins_of(at)
        assert (values <= reach.largest[bins] + ROUNDING).all(), metric
        assert (values >= reach.least[bins] - ROUNDING).all(), metric


def test_it_is_tight_where_nothing_happens():
    scores, labels = np.array([[3.0, 0.0], [0.0, 3.0]]), np.array([0, 1])
    profile = StrengthProfile.from_scores(
        scores, labels, source_prior=[0.6, 0.4], bounds=(0.0, 1.0)
    )
    reach = table_of(profile, 0.5).reach(profile.binned(0.5), COUNT_METRICS["mean_iou"])
    assert reach.least.tolist() == reach.largest.tolist() == pytest.approx([1.0] * 3)
