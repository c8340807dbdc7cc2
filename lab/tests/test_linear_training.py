"""The linear layer: it learns, it resumes to the same bits, DRW shares its base's first epochs."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from lab.tests.support.small_runs import one_thread

from reprior.exceptions import OptionError
from reprior_lab import inaturalist_stand_in as linear_training
from reprior_lab.inaturalist_stand_in import (
    FeatureSamples,
    StandIn,
    fit_linear,
    linear_scores,
    simulated_cells,
)

DATA = StandIn(n_classes=40, n_features=16)

#: Of float32, for numbers of about 0.01.
ROUNDING = 1e-7


@pytest.fixture(autouse=True, scope="module")
def _one_thread():
    with one_thread():
        yield


@pytest.fixture(scope="module")
def samples():
    return DATA.draw()


def cell(row, **settings):
    (found,) = simulated_cells([row], DATA, settings=settings)
    return found


def fitted(one, samples, folder, **options):
    return fit_linear(one.config, samples, folder, identity=one.identity, **options)


def weights(fit):
    return [each.detach().numpy() for each in fit.head.parameters()]


def stop_after(monkeypatch, epochs):
    """End the process, as it were, before another epoch than these."""
    real = linear_training._epoch

    def counted(config, samples, fit, optimizer, epoch, progress):
        if epoch == epochs:
            raise KeyboardInterrupt
        return real(config, samples, fit, optimizer, epoch, progress)

    monkeypatch.setattr(linear_training, "_epoch", counted)


@pytest.mark.parametrize("row", ["ce", "focal", "ldam", "ce-drw"])
def test_learns(row, samples, tmp_path):
    one = cell(row)
    fit = fitted(one, samples, tmp_path)
    scores = linear_scores(one.config, fit.head, samples.validation_features)
    assert scores.dtype == np.float32
    assert scores.shape == (120, 40)
    # Of 40 classes, one in 40 would be right by chance.
    assert np.mean(scores.argmax(axis=1) == samples.validation_labels) > 0.35
    losses = [each["train_loss"] for each in fit.history]
    assert [each["epoch"] for each in fit.history] == [1, 2, 3, 4]
    assert losses[2] < losses[0]


def test_first_step_against_the_gradient_by_hand(tmp_path):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(6, 3)).astype(np.float32), np.array([0, 0, 0, 1, 1, 2])
    tiny = FeatureSamples(x, y, x[:3], np.arange(3))
    one = cell("ce", epochs=1, batch_size=6, lr=0.5, momentum=0.0, nesterov=False)
    fit = fitted(one, tiny, tmp_path)
    # From zero weights every class has 1/3; the first rate of a one-cycle schedule is 4 % of lr.
    slope = np.eye(3)[y] - 1 / 3
    step = 0.04 * 0.5 / 6
    np.testing.assert_allclose(weights(fit)[0], step * slope.T @ x, atol=ROUNDING)
    np.testing.assert_allclose(weights(fit)[1], step * slope.sum(axis=0), atol=ROUNDING)
    assert fit.history[0]["train_loss"] == pytest.approx(np.log(3))


@pytest.mark.parametrize("epochs", [1, 3])
def test_an_interrupted_run_goes_on_to_the_same_bits(epochs, samples, tmp_path, monkeypatch):
    one = cell("ce")
    whole = fitted(one, samples, tmp_path / "whole")
    with monkeypatch.context() as patch:
        stop_after(patch, epochs)
        with pytest.raises(KeyboardInterrupt):
            fitted(one, samples, tmp_path / "cut")
    again = fitted(one, samples, tmp_path / "cut")
    assert again.history == whole.history
    assert all(np.array_equal(a, b) for a, b in zip(weights(whole), weights(again), strict=True))


def test_drw_from_its_base_is_drw_from_the_start(samples, tmp_path):
    fitted(cell("ce"), samples, tmp_path / "base")
    drw = cell("ce-drw")
    alone = fitted(drw, samples, tmp_path / "alone")
    told = []
    shared = fitted(drw, samples, tmp_path / "drw", base=tmp_path / "base", progress=told.append)
    assert all(np.array_equal(a, b) for a, b in zip(weights(alone), weights(shared), strict=True))
    n = len(samples.train_labels)
    assert told[0] == 3 * n + drw.config.batch_size  # three epochs of four were there
    assert told[-1] == 4 * n


def test_drw_weighs_classes_in_its_last_epochs(samples, tmp_path):
    """Oracle: what class weights do to the mean output of the smallest and the largest class."""
    share = []
    for row in ("ce", "ce-drw"):
        fit = fitted(cell(row), samples, tmp_path / row)
        found = linear_scores(cell(row).config, fit.head, samples.validation_features)
        predicted = np.bincount(found.argmax(axis=1), minlength=40)
        share.append(predicted[np.argsort(samples.class_counts)[:20]].sum())
    assert share[1] > share[0]


def test_cosines_of_ldam_are_scaled(samples, tmp_path):
    one = cell("ldam", epochs=1)
    fit = fitted(one, samples, tmp_path)
    scores = linear_scores(one.config, fit.head, samples.validation_features)
    with torch.inference_mode():
        cosines = fit.head(torch.from_numpy(samples.validation_features)).numpy()
    assert np.abs(cosines).max() <= 1 + 1e-6
    np.testing.assert_allclose(scores, 30 * cosines, rtol=1e-6)


def test_checkpoints_of_other_settings_are_refused(samples, tmp_path):
    fitted(cell("ce", epochs=1), samples, tmp_path)
    with pytest.raises(OptionError, match="must belong to a run with the same settings"):
        fitted(cell("ce", epochs=2), samples, tmp_path)


def test_a_base_of_other_settings_is_refused(samples, tmp_path):
    fitted(cell("ce", lr=1.0), samples, tmp_path / "base")
    with pytest.raises(OptionError, match="must belong to a run with the same settings"):
        fitted(cell("ce-drw"), samples, tmp_path / "drw", base=tmp_path / "base")


def test_a_loss_that_is_none_is_refused(samples, tmp_path):
    broken = FeatureSamples(
        samples.train_features * np.float32(np.nan),
        samples.train_labels,
        samples.validation_features,
        samples.validation_labels,
    )
    with pytest.raises(OptionError, match=r"`lr` must be low enough .* a loss of nan in epoch 1"):
        fitted(cell("ce"), broken, tmp_path)


def test_nothing_to_score_is_refused(samples, tmp_path):
    fit = fitted(cell("ce", epochs=1), samples, tmp_path)
    with pytest.raises(OptionError, match="must have a sample to score"):
        linear_scores(cell("ce").config, fit.head, samples.validation_features[:0])


def test_the_global_random_numbers_are_left_alone(samples, tmp_path):
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    fitted(cell("ldam", epochs=1), samples, tmp_path)
    assert torch.equal(torch.rand(3), expected)
