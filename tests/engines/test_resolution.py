"""Bins that are too wide to look for a strength are refused, wherever a resolution is given."""

from __future__ import annotations

import numpy as np
import pytest

import reprior as rp
from reprior.engines import refuse_wide_bins
from reprior.exceptions import OptionError

CHUNKS = [(np.array([[2.0, 0.0], [0.0, 1.0]]), np.array([0, 1]))]


@pytest.mark.parametrize("resolution", [5, 2.0, 1.01, np.float32(1.3)])
def test_wide_bins(resolution, tmp_path):
    calibrator = rp.PosteriorCalibrator([0.8, 0.2])
    words = r"`resolution` must be at most half the width of the bounds, 2\. Got .*"
    words += r"Pass at most 1, for example"
    np.savez(tmp_path / "a.npz", scores=CHUNKS[0][0], labels=CHUNKS[0][1])
    for begin in (
        lambda: rp.engines.fit(calibrator, CHUNKS, resolution=resolution),
        lambda: rp.engines.OnlineFit(calibrator, resolution=resolution),
        lambda: rp.engines.dask_fit(calibrator, tmp_path / "a.npz", resolution=resolution),
    ):
        with pytest.raises(OptionError, match=words):
            begin()


@pytest.mark.parametrize("resolution", ["auto", "refine", None, 0.2, 1e-4, 1])
def test_others(resolution):
    refuse_wide_bins(resolution, (0.0, 10.0))
    refuse_wide_bins(resolution, (1.0, 1.0))  # nothing is looked for
