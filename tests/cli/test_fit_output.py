"""What fit shows of a calibrator that has nothing to show."""

from __future__ import annotations

import numpy as np
import pytest
from tests.cli.shared import data

import reprior as rp
from reprior.cli.fit import show_fit
from reprior.cli.session import Session
from reprior.exceptions import NotFittedError


def fitted(**options):
    val = data(0)
    return rp.PosteriorCalibrator([0.9, 0.09, 0.01], **options).fit(val.scores, val.labels)


def test_a_calibrator_without_tuning_data_is_refused():
    calibrator = fitted().retarget([0.5, 0.3, 0.2])
    with pytest.raises(NotFittedError, match="must be fitted to be shown"):
        show_fit(Session(quiet=True, json=True), calibrator, "cal.json")


@pytest.mark.parametrize("options", [{}, {"metric": "log_loss", "temperature": "vector"}])
def test_the_document_has_what_is_applied(capsys, options):
    import json

    calibrator = fitted(**options)
    show_fit(Session(quiet=True, json=True), calibrator, "cal.json")
    document = json.loads(capsys.readouterr().out)
    assert document["strength"] == calibrator.strength_
    assert ("scales" in document) == bool(options)
    if options:
        np.testing.assert_allclose(document["scales"], calibrator.scales_)
        assert document["metrics"]["log_loss"]["after"] == calibrator.best_score_


def test_a_narrow_interval_is_told_in_as_many_digits_as_it_takes(capsys):
    logits = np.array([[2.0, 0.0], [1.0, 0.0], [0.999999, 0.0], [0.0, 1.0]])
    calibrator = rp.PosteriorCalibrator([0.8, 0.2]).fit(logits, [0, 0, 1, 1])
    show_fit(Session(), calibrator, "cal.json")
    line = capsys.readouterr().out.splitlines()[0]
    assert line == "strength     0.721347, and equally good from 0.721347 to 0.721348"
    assert "(equally good: 0.721347 to 0.721348)" in calibrator.summary()


def test_of_bins_the_best_point_is_told_and_nothing_of_what_is_between(capsys):
    rng = np.random.default_rng(0)
    labels = rng.integers(2, size=2000)
    logits = rng.normal(size=(2000, 2)) + np.log([0.8, 0.2])
    logits[np.arange(2000), labels] += 1.5
    calibrator = rp.PosteriorCalibrator([0.8, 0.2])
    rp.engines.fit(calibrator, [(logits, labels)], resolution=0.25)
    assert calibrator.strength_ == calibrator.strength_interval_[0]
    show_fit(Session(), calibrator, "cal.json")
    line = capsys.readouterr().out.splitlines()[0]
    assert line == f"strength     {calibrator.strength_:.4f}, the best of a grid of 0.25"
    assert "equally good" not in calibrator.summary()
