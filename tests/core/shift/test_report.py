"""The report of an estimated target prior, in words."""

from __future__ import annotations

import numpy as np
import pytest
from tests.support.label_shift import world

import reprior as rp
from reprior import TargetPriorReport
from reprior.core.shift import (
    DECISIVE_SHARE,
    Conditioning,
    Moments,
    PenaltyEffect,
    conditioning_warning,
    convergence_warning,
    penalty_effect,
    penalty_warning,
)
from reprior.exceptions import render


def made(n_classes=3, **changed):
    prior = np.arange(1, n_classes + 1) / np.arange(1, n_classes + 1).sum()
    fields = {
        "prior": prior,
        "intervals": np.stack([prior / 2, np.minimum(2 * prior, 1)], axis=1),
        "confidence": 0.95,
        "replicates": np.tile(prior, (2, 1)),
        "source_prior": np.full(n_classes, 1 / n_classes),
        "method": "em",
        "n_samples": 1234,
        "n_labels": None,
        "iterations": 17,
        "last_change": 2e-11,
        "converged": True,
        "negative_mass": 0.0,
        "conditioning": None,
        **changed,
    }
    return TargetPriorReport(**fields)


def test_a_summary():
    assert made().summary(["cat", "dog", "elephant"]) == "\n".join(
        [
            "method       em  (1,234 samples)",
            "convergence  converged after 17 passes (last change 2.0e-11)",
            "",
            "class      source   target   95 % interval",
            "cat        0.3333   0.1667   0.0833 to 0.3333",
            "dog        0.3333   0.3333   0.1667 to 0.6667",
            "elephant   0.3333   0.5000   0.2500 to 1.0000",
        ]
    )


def test_what_deserves_doubt_is_in_capitals():
    weak = Conditioning(1234.5, 0.0012, 0.01, near_singular=True)
    text = made(converged=False, conditioning=weak, n_labels=60).summary()
    assert "NOT converged" in text
    assert "60 labels" in text
    assert "NEAR-SINGULAR: condition number 1.23e+03, smallest singular value 0.0012 ± 0.01" in text


def test_a_solved_one():
    sound = Conditioning(1.5, 0.6, 0.01, near_singular=False)
    text = made(method="bbse", conditioning=sound, negative_mass=0.0123).summary()
    assert "solved directly, no iterations" in text
    assert "confusion    condition number 1.5" in text
    assert "0.0123 of the solution was set to 0" in text


def test_many_classes_are_the_ones_that_change_most():
    found = made(50)
    lines = found.summary().splitlines()
    assert lines[-1] == "… and 30 classes whose shares change less"
    shown = [int(line.split()[0]) for line in lines[4:-1]]
    moved = np.abs(found.prior - found.source_prior)
    assert shown == sorted(shown)
    assert min(moved[shown]) >= max(np.delete(moved, shown))


def test_names_must_be_as_many_as_classes():
    with pytest.raises(rp.OptionError, match="Got 2 names for 3 classes"):
        made().summary(["cat", "dog"])


def test_em_with_labelled_scores_reports_the_conditioning():
    rng = np.random.default_rng(0)
    labels = np.arange(300) % 3
    scores = rng.normal(size=(300, 3)) + 3 * np.eye(3)[labels]
    report = rp.estimate_target_prior_report(
        scores[:100], source_prior=[1 / 3] * 3, validation=(scores[100:], labels[100:])
    )
    assert report.method == "em"
    assert report.conditioning is not None
    assert not report.conditioning.near_singular


@pytest.mark.parametrize(
    "held, words", [(0.01, "penalty      1.0% of"), (0.2, "DECIDES: 20.0% of")]
)
def test_how_much_the_penalty_holds_back(held, words):
    text = made(method="rlls", held_back=held).summary()
    assert f"{words} the mix moves without it; intervals are for the estimate with it" in text
    assert "penalty" not in made(method="bbse").summary()


def test_its_repr_is_a_line():
    scores = np.random.default_rng(0).normal(size=(40, 2))
    report = rp.estimate_target_prior_report(scores, source_prior=[0.5, 0.5])
    assert repr(report) == "TargetPriorReport(2 classes, method='em', n_samples=40, 200 replicates)"
    labelled = rp.estimate_target_prior_report(
        scores,
        source_prior=[0.5, 0.5],
        validation=(scores, (scores[:, 1] > 0.2).astype(int)),
        calibration=(1.0, 0.0),
        n_replicates=3,
    )
    assert "n_labels=40, 3 replicates)" in repr(labelled)


def test_how_far_a_penalty_moves_an_estimate():
    moments = Moments(np.array([0.2, 0.8]), np.eye(2), 100)
    found = penalty_effect(np.array([0.5, 0.5]), moments, np.array([0.5, 0.5]))
    assert found.share == pytest.approx(0.3)
    assert (found.class_index, found.prior, found.unpenalised) == (1, 0.5, pytest.approx(0.8))


def test_error_sentences():
    assert penalty_warning(None) == ""
    assert penalty_warning(PenaltyEffect(DECISIVE_SHARE, 1, 0.1, 0.2)) == ""
    words = render(penalty_warning(PenaltyEffect(0.153, 9, 0.0117, 0.0798)))
    assert "without it 15% of the mix would move" in words
    assert "class 9 would have 0.08 instead of 0.012" in words
    assert words.endswith("Compare method='bbse_soft' and method='em', or use more labels.")
    assert conditioning_warning(None) == ""
    assert conditioning_warning(Conditioning(2.0, 0.5, 0.01, near_singular=False)) == ""
    assert "may be singular" in conditioning_warning(
        Conditioning(9.0, 0.1, 0.2, near_singular=True)
    )
    assert "8 passes of EM over" in convergence_warning(1000, 8, 0.1)
    assert "8 passes of EM and Newton's method over" in convergence_warning(10, 8, 0.1)


def test_a_decisive_penalty_is_warned_of():
    rng = np.random.default_rng(0)
    here = world(rng)._replace(
        means=np.array([[0.0, 0.0], [2.0, 0.0], [0.0, 2.0]]), source=np.array([0.69, 0.3, 0.01])
    )
    scores, _ = here.draw(rng, 2000, np.full(3, 1 / 3))
    options = {"source_prior": here.source, "validation": here.validation(rng, 1000)}
    with pytest.warns(rp.RepriorWarning, match="the penalty of RLLS outweighs the data"):
        report = rp.estimate_target_prior_report(scores, method="rlls_soft", **options)
    assert report.held_back > DECISIVE_SHARE
    free = rp.estimate_target_prior_report(scores, method="bbse_soft", **options)
    assert free.held_back is None
    np.testing.assert_allclose(
        report.held_back, 0.5 * np.abs(report.prior - free.prior).sum(), atol=1e-12
    )
