"""StrengthCurveDisplay draws the profile's own curves."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib import pyplot as plt

import reprior as rp
from reprior.core.rebalance import strength_text
from reprior.report.plots import StrengthCurveDisplay


def test_the_curve_is_the_profiles(profile):
    display = StrengthCurveDisplay.from_profile(profile, ["mean_iou", "accuracy"])
    for line, metric in zip(display.lines_, ["mean_iou", "accuracy"], strict=True):
        strengths, values = profile.curve(metric)
        assert np.array_equal(line.get_xdata(), [*strengths, 2.0])
        assert np.array_equal(line.get_ydata(), [*values, values[-1]])
        assert line.get_drawstyle() == "steps-post"
    assert display.ax_.get_ylabel() == "value"


def test_the_optimum_of_the_first_metric_is_marked(profile):
    display = StrengthCurveDisplay.from_profile(profile, ["mean_iou", "accuracy"])
    best = profile.best("mean_iou")
    assert display.best_line_.get_xdata()[0] == best.strength
    assert display.best_point_.get_xydata().tolist() == [[best.strength, best.value]]
    assert display.interval_.get_x() == best.interval[0]
    assert display.interval_.get_width() == pytest.approx(best.interval[1] - best.interval[0])
    assert display.best_line_.get_label() == f"λ = {strength_text(best.strength)}"


@pytest.mark.parametrize(
    "interval, texts",
    [
        ((0.5, 1.25), ["λ = 0.875", "ties: 0.5000 to 1.2500"]),
        ((0.71, 0.74), ["λ = 0.725", "ties: 0.7100 to 0.7400"]),
        ((1.02552, 1.02568), ["λ = 1.0256", "ties: 1.0255 to 1.0257"]),
    ],
)
def test_the_ends_of_the_interval_can_be_told_apart(profile, interval, texts):
    curves = {"accuracy": profile.curve("accuracy")}
    display = StrengthCurveDisplay(
        curves=curves, bounds=(0, 2), strength=sum(interval) / 2, interval=interval
    ).plot()
    assert [display.best_line_.get_label(), display.interval_.get_label()] == texts


def test_constraints_move_the_optimum(profile):
    rule = "recall[0] >= baseline - 0.02"
    display = StrengthCurveDisplay.from_profile(profile, subject_to=rule)
    assert display.strength == profile.best("balanced_accuracy", subject_to=rule).strength
    assert display.strength < profile.best("balanced_accuracy").strength


def test_a_calibrator_shows_its_choice(calibrator):
    display = StrengthCurveDisplay.from_calibrator(calibrator)
    assert display.strength == calibrator.strength_
    assert display.interval == calibrator.strength_interval_
    assert display.value == calibrator.best_score_
    assert display.ax_.get_ylabel() == "balanced accuracy"
    assert display.figure_ is display.ax_.figure


def test_metrics_of_a_class_by_its_name(calibrator):
    display = StrengthCurveDisplay.from_calibrator(calibrator, ["recall[dog]"])
    assert np.array_equal(
        display.lines_[0].get_ydata()[:-1], calibrator.profile_.curve("recall[3]")[1]
    )
    assert display.lines_[0].get_label() == "recall of dog"


def test_names_may_be_given_to_a_profile(profile):
    display = StrengthCurveDisplay.from_profile(profile, "recall[b]", classes="abcd")
    assert display.curves["recall[b]"][1].tolist() == profile.curve("recall[1]")[1].tolist()


def test_options_reach_the_artists(profile):
    display = StrengthCurveDisplay.from_profile(
        profile,
        line_kw={"c": "red", "lw": 4},
        best_kw={"color": "green", "label": "ours"},
        interval_kw={"alpha": 0.9},
    )
    assert display.lines_[0].get_color() == "red"
    assert display.lines_[0].get_linewidth() == 4
    assert display.best_line_.get_color() == "green"
    assert display.best_line_.get_label() == "ours"
    assert display.interval_.get_alpha() == 0.9


def test_it_draws_again_elsewhere(profile):
    display = StrengthCurveDisplay.from_profile(profile)
    _, ax = plt.subplots()
    assert display.plot(ax=ax) is display
    assert display.ax_ is ax
    assert len(ax.lines) == 3


def test_nothing_is_marked_without_a_strength(profile):
    curves = {"accuracy": profile.curve("accuracy")}
    display = StrengthCurveDisplay(curves=curves, bounds=profile.bounds).plot()
    assert display.best_line_ is display.best_point_ is display.interval_ is None
    assert display.ax_.get_legend() is None


def test_curves_of_many_steps_are_exact_on_a_grid(long_profile):
    assert long_profile.curve("accuracy")[0].size > 20_000
    line = StrengthCurveDisplay.from_profile(long_profile, "accuracy").lines_[0]
    x, y = line.get_xdata()[:-1], line.get_ydata()[:-1]
    assert x.size == 20_000
    assert np.array_equal(y, long_profile.evaluate("accuracy", x))


def test_at_least_one_metric_is_needed(profile):
    with pytest.raises(rp.OptionError, match=r"`metrics` must name at least one metric. Got none"):
        StrengthCurveDisplay.from_profile(profile, [])


def test_an_unknown_metric_is_the_librarys_error(profile):
    with pytest.raises(rp.OptionError, match=r"`metric` must be one of .* Got 'acuracy'"):
        StrengthCurveDisplay.from_profile(profile, "acuracy")


def test_a_loaded_calibrator_has_no_curve(calibrator, tmp_path):
    calibrator.save(tmp_path / "cal.json")
    with pytest.raises(rp.OptionError, match=r"must have the profile .* draw a profile with"):
        StrengthCurveDisplay.from_calibrator(rp.load(tmp_path / "cal.json"))
