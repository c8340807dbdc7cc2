"""ParetoDisplay draws the profile's own front."""

from __future__ import annotations

import numpy as np
import pytest

import reprior as rp
from reprior.report.plots import ParetoDisplay


def test_the_front_is_the_profiles(profile):
    display = ParetoDisplay.from_profile(profile, "recall[0]", "recall[3]")
    front = profile.pareto("recall[0]", "recall[3]")
    assert front.strengths.size > 1
    assert np.array_equal(display.line_.get_xdata(), front.values_a)
    assert np.array_equal(display.line_.get_ydata(), front.values_b)


def test_the_path_holds_every_strength(profile):
    display = ParetoDisplay.from_profile(profile, "recall[0]", "recall[3]")
    at = np.linspace(0, 2, 321)
    drawn = set(map(tuple, display.path_.get_xydata().tolist()))
    here = (profile.evaluate("recall[0]", at), profile.evaluate("recall[3]", at))
    assert set(map(tuple, np.stack(here, axis=1).tolist())) <= drawn


def test_the_uncorrected_model_is_a_point(profile):
    display = ParetoDisplay.from_profile(profile)
    metrics = rp.metrics.COUNT_METRICS
    wanted = [metrics[name](profile.baseline) for name in ("accuracy", "balanced_accuracy")]
    assert display.baseline_.get_xydata().tolist() == [wanted]
    assert display.chosen_ is None


def test_a_calibrator_marks_its_choice(calibrator):
    display = ParetoDisplay.from_calibrator(calibrator, "recall[ant]")
    assert display.names == ("recall[ant]", "balanced_accuracy")
    assert display.chosen_.get_ydata().tolist() == [calibrator.best_score_]
    assert display.ax_.get_xlabel() == "recall of ant"


def test_long_paths_are_thinned(long_profile):
    display = ParetoDisplay.from_profile(long_profile)
    assert display.path_.get_xdata().size == 20_000


def test_options_reach_the_artists(profile):
    display = ParetoDisplay.from_profile(
        profile, line_kw={"color": "red"}, path_kw={"linewidth": 3}
    )
    assert display.line_.get_color() == "red"
    assert display.path_.get_linewidth() == 3


def test_a_strength_outside_the_bounds_is_refused(profile):
    with pytest.raises(rp.OptionError, match="must lie within the bounds of the profile"):
        ParetoDisplay.from_profile(profile, strength=3.0)


def test_a_retargeted_calibrator_has_no_front(calibrator):
    with pytest.raises(rp.OptionError, match=r"must have the profile of its tuning data"):
        ParetoDisplay.from_calibrator(calibrator.retarget("uniform"))
