"""What to know of an estimated target prior, in sentences."""

from __future__ import annotations

import numpy as np
import pytest
from tests.core.shift.shifted import world

import reprior as rp
from reprior.core.shift.doubts import SHARE, Held, held_back, of_conditioning, of_penalty, of_rest
from reprior.core.shift.moments import Conditioning, Moments


def test_how_far_a_penalty_holds_back():
    moments = Moments(np.array([0.2, 0.8]), np.eye(2), 100)
    found = held_back(np.array([0.5, 0.5]), moments, np.array([0.5, 0.5]))
    assert found.share == pytest.approx(0.3)
    assert (found.where, found.prior, found.free) == (1, 0.5, pytest.approx(0.8))


def test_words():
    assert of_penalty(None) == ""
    assert of_penalty(Held(SHARE, 1, 0.1, 0.2)) == ""
    words = of_penalty(Held(0.153, 9, 0.0117, 0.0798))
    assert "without it 15% of the mix would be elsewhere" in words
    assert "class 9 would have 0.08 and not 0.012" in words
    assert of_conditioning(None) == ""
    assert of_conditioning(Conditioning(2.0, 0.5, 0.01, near_singular=False)) == ""
    assert "singular for all" in of_conditioning(Conditioning(9.0, 0.1, 0.2, near_singular=True))
    assert "8 passes of EM over" in of_rest(1000, 8, 0.1)
    assert "8 passes of EM and Newton's method over" in of_rest(10, 8, 0.1)


def test_a_rare_class_that_has_become_common_is_held_back_and_that_is_said():
    rng = np.random.default_rng(0)
    here = world(rng)._replace(
        means=np.array([[0.0, 0.0], [2.0, 0.0], [0.0, 2.0]]), source=np.array([0.69, 0.3, 0.01])
    )
    scores, _ = here.draw(rng, 2000, np.full(3, 1 / 3))
    options = {"source_prior": here.source, "validation": here.validation(rng, 1000)}
    with pytest.warns(rp.RepriorWarning, match="the penalty of RLLS decides"):
        report = rp.estimate_target_prior_report(scores, method="rlls_soft", **options)
    assert report.held_back > SHARE
    free = rp.estimate_target_prior_report(scores, method="bbse_soft", **options)
    assert free.held_back is None
    np.testing.assert_allclose(
        report.held_back, 0.5 * np.abs(report.prior - free.prior).sum(), atol=1e-12
    )
