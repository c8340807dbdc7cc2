"""Whole runs of seconds: what is learnt, what is written, and what DRW shares."""

from __future__ import annotations

import json
import logging
import sys

import numpy as np
import pytest
import torch
from lab.tests.support.small_runs import compared, one_thread, tiny

import reprior as rp
from reprior.exceptions import MissingDependencyError, OptionError, RepriorError
from reprior.files.scores import open_scores
from reprior_lab import RunConfig, RunFile, open_data, train
from reprior_lab.training import loop, read_scores
from reprior_lab.training.loop import TrainingModule, train_on_several


@pytest.fixture(autouse=True)
def _one_thread():
    with one_thread():
        yield


def test_a_network_learns_and_writes_a_run_folder(tmp_path):
    config = tiny(ratio=5, epochs=12, batch_size=32, evaluate_every=6)
    run = train(config, tmp_path, accelerator="cpu")
    assert run.finished
    assert run.result["accuracy"] > 0.8
    assert [each["epoch"] for each in run.epochs] == list(range(1, 13))
    assert [each["epoch"] for each in run.epochs if "accuracy" in each] == [6, 12]
    assert run.epochs[-1]["accuracy"] == run.result["accuracy"]
    assert run.epochs[-1]["train_loss"] < run.epochs[0]["train_loss"]
    assert json.loads((tmp_path / "counts.json").read_text())["0"] == run.class_counts[0] == 114
    assert RunFile.read(tmp_path) == run
    assert set(run.versions) >= {"python", "torch", "numpy", "lightning", "reprior", "threads"}


def test_the_score_files_are_read_by_the_library(tmp_path):
    config = tiny(ratio=5, epochs=8, batch_size=32)
    run = train(config, tmp_path, accelerator="cpu")
    validation, test = (open_scores([tmp_path / f"{name}.npz"]) for name in ("validation", "test"))
    assert validation.kind == test.kind == "logits"
    assert (validation.n_samples, test.n_samples) == (300, 300)
    scores = read_scores(tmp_path)
    both, labels = scores.whole()
    assert float(np.mean(both.argmax(axis=1) == labels)) == run.result["accuracy"]
    assert np.bincount(scores.test_labels).tolist() == [30] * 10
    prior = rp.prior_from_counts(run.class_counts)
    calibrator = rp.PosteriorCalibrator(prior, bounds=(0.0, 8.0))
    calibrator.fit(scores.validation_scores, scores.validation_labels)
    before = np.mean(scores.validation_scores.argmax(axis=1) == scores.validation_labels)
    assert calibrator.best_score_ >= before


def test_the_same_seed_gives_the_same_bits_and_another_does_not(tmp_path):
    runs = [
        train(tiny(seed=seed), tmp_path / name, accelerator="cpu")
        for name, seed in (("a", 1), ("b", 1), ("c", 2))
    ]
    assert compared(runs[0]) == compared(runs[1])
    assert runs[0].epochs[0]["train_loss"] != runs[2].epochs[0]["train_loss"]


def test_the_caller_s_random_numbers_are_left_alone(tmp_path):
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    train(tiny(epochs=1), tmp_path, accelerator="cpu")
    assert torch.equal(torch.rand(3), expected)
    assert logging.getLogger("lightning.pytorch").level != logging.ERROR


@pytest.mark.parametrize("loss", ["ce", "focal", "ldam"])
def test_drw_takes_over_the_first_stage_of_its_base(tmp_path, monkeypatch, loss):
    base, alone, shared = tmp_path / "base", tmp_path / "alone", tmp_path / "shared"
    config = tiny(loss=loss, defer=0.5)
    deferred = config.differing(schedule="drw")
    plain = train(config, base, accelerator="cpu")
    whole = train(deferred, alone, accelerator="cpu")
    seen = []
    step = TrainingModule.training_step

    def counted(self, *given):
        seen.append(self.epoch)
        return step(self, *given)

    monkeypatch.setattr(TrainingModule, "training_step", counted)
    taken = train(deferred, shared, base=base, accelerator="cpu")
    assert compared(taken) == compared(whole)
    assert set(seen) == {2, 3}
    assert plain.epochs[:2] == taken.epochs[:2]
    assert plain.epochs[2] != taken.epochs[2]


def test_a_base_without_its_checkpoint_is_no_hindrance(tmp_path):
    config = tiny(epochs=2, schedule="drw")
    base = tmp_path / "base"
    train(config.differing(schedule="plain"), base, accelerator="cpu")
    (base / "checkpoints" / "first-stage.ckpt").unlink()
    run = train(config, tmp_path / "run", base=base, accelerator="cpu")
    assert run.finished


def test_drw_of_two_epochs_is_another_run_than_its_base(tmp_path):
    """The second epoch is deferred: scores differ, and so do the priors that are recorded."""
    config = tiny(epochs=2)
    plain = train(config, tmp_path / "plain", accelerator="cpu")
    deferred = config.differing(schedule="drw")
    alone = train(deferred, tmp_path / "alone", accelerator="cpu")
    shared = train(deferred, tmp_path / "drw", base=tmp_path / "plain", accelerator="cpu")
    assert compared(alone) == compared(shared)
    assert alone.epochs[0] == plain.epochs[0]
    assert alone.epochs[1]["train_loss"] != plain.epochs[1]["train_loss"]
    scores = [np.load(tmp_path / name / "test.npz")["scores"] for name in ("plain", "drw")]
    assert not np.array_equal(*scores)
    assert plain.learnt_the_counts
    assert not alone.learnt_the_counts
    written = json.loads((tmp_path / "drw" / "effective-prior.json").read_text())
    assert list(written.values()) == list(alone.effective_prior)


@pytest.mark.parametrize(
    "given, words",
    [
        ({"model": "foo"}, "Got 'foo'"),  # and that timm is missing, where it is
        ({"model": "resnet8-wise"}, "resnet8-wide, resnet14"),
        ({"model": "toy"}, "`model` must suit the data"),
    ],
)
def test_a_network_that_is_not_there_leaves_no_folder(tmp_path, given, words):
    with pytest.raises((OptionError, MissingDependencyError)) as caught:
        train(tiny(**given), tmp_path / "runs" / "one", accelerator="cpu")
    assert words in str(caught.value)
    assert len(str(caught.value)) < 400
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("devices", ["abc", 0, -2, 10**6, True, ""])
def test_devices_are_refused_before_anything_is_started(tmp_path, devices):
    with pytest.raises(OptionError, match="`devices` must be"):
        train(tiny(), tmp_path / "run", accelerator="cpu", devices=devices)
    assert not (tmp_path / "run").exists()


def test_a_base_that_is_no_run_is_refused(tmp_path):
    with pytest.raises(OptionError, match="`base` must be the folder of a run"):
        train(tiny(schedule="drw"), tmp_path / "run", base=tmp_path / "none", accelerator="cpu")


def test_a_base_is_for_drw(tmp_path):
    train(tiny(defer=0.5), tmp_path / "base", accelerator="cpu")
    with pytest.raises(OptionError, match="Got the schedule 'plain'"):
        train(tiny(defer=0.5), tmp_path / "run", base=tmp_path / "base", accelerator="cpu")


def test_a_device_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(OptionError, match="`accelerator` and `devices` must exist on this"):
        train(tiny(), tmp_path / "run", accelerator="no_such_thing")


def test_a_plain_function_is_a_loss_too(tmp_path):
    from reprior_lab.training.recipes import LOSSES, register_loss

    register_loss("plain_function", lambda _: torch.nn.functional.cross_entropy)
    register_loss("no_loss", lambda _: 3)
    try:
        run = train(tiny(loss="plain_function"), tmp_path / "run", accelerator="cpu")
        assert run.finished
        with pytest.raises(OptionError, match="The loss 'no_loss' must be made by a function"):
            train(tiny(loss="no_loss"), tmp_path / "other", accelerator="cpu")
    finally:
        for name in ("plain_function", "no_loss"):
            LOSSES.pop(name)


def test_a_base_that_is_another_run_is_refused(tmp_path):
    train(tiny(defer=0.5), tmp_path / "base", accelerator="cpu")
    other = tiny(defer=0.5, loss="focal", schedule="drw")
    with pytest.raises(OptionError, match="`base` must be a run that differs in nothing but"):
        train(other, tmp_path / "run", base=tmp_path / "base", accelerator="cpu")


def test_ldam_scores_are_scaled_cosines(tmp_path):
    train(tiny(loss="ldam", epochs=2), tmp_path, accelerator="cpu")
    scores = read_scores(tmp_path).test_scores
    assert 1 < np.abs(scores).max() <= 30.001


@pytest.mark.parametrize(
    "differing",
    [
        {"schedule": "bbn"},
        {"loss": "cb_focal"},
        {"loss": "logit_adjusted"},
        {"sampler": "reversed"},
        {"sampler": "under", "batch_size": 8},
    ],
)
def test_every_method_trains(tmp_path, differing):
    run = train(tiny(epochs=2, **differing), tmp_path, accelerator="cpu")
    assert run.finished
    assert np.isfinite([each["train_loss"] for each in run.epochs]).all()


def test_bbn_s_loss_is_its_definition():
    config = tiny(schedule="bbn", epochs=10)
    data = open_data("digits", imbalance="exp", ratio=20)
    model = loop._network(config, data, None)
    module = TrainingModule(config, model, data.class_counts, 5, epochs_done=6)
    generator = torch.Generator().manual_seed(0)
    one, other = torch.rand(2, 4, 1, 8, 8, generator=generator)
    y_c, y_r = torch.tensor([0, 1, 2, 3]), torch.tensor([9, 8, 9, 7])
    loss, scores = module._step((one, y_c, other, y_r))
    alpha = 1 - (6 / 10) ** 2
    cross_entropy = torch.nn.functional.cross_entropy
    expected = alpha * cross_entropy(scores, y_c) + (1 - alpha) * cross_entropy(scores, y_r)
    torch.testing.assert_close(loss, expected)


@pytest.mark.parametrize("sampler", ["plain", "smote"])
def test_toy_sets_train_on_flat_features(tmp_path, sampler):
    config = RunConfig.resolve(data="moons", epochs=8, sampler=sampler)
    run = train(config, tmp_path, accelerator="cpu")
    assert tuple(run.class_counts) == (2500, 277)
    assert run.result["accuracy"] > 0.8
    assert not read_scores(tmp_path).halved


def test_a_loss_that_diverges_is_answered(tmp_path):
    with pytest.raises(OptionError, match=r"`lr` must be low enough .* Pass a lower lr"):
        train(tiny(lr=1e12), tmp_path, accelerator="cpu")


def test_progress_counts_to_the_end(tmp_path):
    told = []
    run = train(tiny(epochs=2), tmp_path, progress=told.append, accelerator="cpu")
    assert told == sorted(told)
    assert told[-1] == 2 * sum(run.class_counts)


def test_the_csv_logger_writes_every_epoch(tmp_path):
    train(tiny(epochs=2), tmp_path, logger="csv", accelerator="cpu")
    lines = (tmp_path / "log" / "metrics.csv").read_text().splitlines()
    assert len(lines) == 3
    assert "train_loss" in lines[0]


def test_a_logger_that_is_not_installed_is_answered(tmp_path):
    try:
        import mlflow  # noqa: F401 - only whether it is there
    except ImportError:
        with pytest.raises(MissingDependencyError, match="For the logger 'mlflow', mlflow must"):
            train(tiny(epochs=1), tmp_path, logger="mlflow", accelerator="cpu")
    else:
        pytest.skip("mlflow is installed")


def test_ctrl_c_ends_as_ctrl_c(tmp_path, monkeypatch, capfd):
    def pressed(self, *given):
        raise KeyboardInterrupt

    monkeypatch.setattr(TrainingModule, "training_step", pressed)
    with pytest.raises(KeyboardInterrupt):
        train(tiny(epochs=1), tmp_path, accelerator="cpu")


@pytest.mark.heavy
def test_an_error_of_the_command_on_several_devices_is_passed_on(tmp_path):
    config, devices = tiny(schedule="drw"), ("cpu", "cpu")
    with pytest.raises(RepriorError) as caught:
        train_on_several(config, tmp_path / "run", devices, n_samples=383, base=tmp_path / "none")
    begins = "Training on 2 devices failed: --base must be the folder of a run. Got "
    assert str(caught.value).startswith(begins)


@pytest.mark.parametrize(
    "code, sentence",
    [
        ("1 / 0", "ended with a traceback, of which the last line is 'ZeroDivisionError: "),
        ("import sys; sys.exit(3)", "a process ended with code 3."),
        ("import sys; sys.exit('Killed')", "a process ended with code 1 after 'Killed'."),
    ],
)
def test_a_command_on_several_devices_that_dies_is_answered(tmp_path, monkeypatch, code, sentence):
    monkeypatch.setattr(loop, "_command", lambda *_: [sys.executable, "-c", code])
    with pytest.raises(RepriorError, match="Training on 2 devices failed: ") as caught:
        train_on_several(tiny(), tmp_path, ("cpu", "cpu"), n_samples=383)
    assert sentence in str(caught.value)
