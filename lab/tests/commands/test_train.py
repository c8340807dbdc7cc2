"""``reprior train``: runs from the command line, and its sentences."""

from __future__ import annotations

import json

import pytest
from tests.support.command_line import in_process, is_one_sentence

DIGITS = ["train", "--data", "digits", "--imbalance", "exp", "--ratio", "20", "--epochs", "2"]
CPU = ["--accelerator", "cpu"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("train") / "run"


@pytest.fixture(scope="module")
def finished(folder):
    from reprior_lab import RunConfig, train

    config = RunConfig.resolve(data="digits", imbalance="exp", ratio=20, epochs=2)
    return train(config, folder, accelerator="cpu")


def test_a_run_from_the_command_line_is_the_library_s(capsys, tmp_path, finished):
    result = in_process(capsys, *DIGITS, *CPU, "-o", tmp_path / "run", "--json")
    assert result.code == 0, result.err
    assert result.json["id"] == finished.config.id
    assert result.json["class_counts"] == list(finished.class_counts)
    written = json.loads((tmp_path / "run" / "run.json").read_text())
    assert written["status"] == "finished"
    assert {"validation.npz", "test.npz", "counts.json", "checkpoints"} <= {
        path.name for path in (tmp_path / "run").iterdir()
    }


def test_without_a_folder_it_goes_to_runs(capsys, tmp_path, monkeypatch, finished):
    monkeypatch.chdir(tmp_path)
    result = in_process(capsys, *DIGITS, *CPU)
    assert result.code == 0, result.err
    assert (tmp_path / "runs" / finished.config.id / "run.json").exists()
    assert "reprior fit runs/" in result.out


def test_a_finished_run_is_shown_again(capsys, folder, finished):
    result = in_process(capsys, *DIGITS, "-o", folder, "--resume")
    assert result.code == 0, result.err
    assert f"balanced accuracy {finished.result['balanced_accuracy']:.4f}" in result.out


def test_the_scores_can_be_fitted_and_judged(capsys, folder, finished, tmp_path):
    counts, cal = folder / "counts.json", tmp_path / "cal.json"
    fit = in_process(capsys, "fit", folder / "validation.npz", "--counts", counts, "-o", cal)
    assert fit.code == 0, fit.err
    judged = in_process(capsys, "evaluate", cal, folder / "test.npz", "--json")
    assert judged.code == 0, judged.err


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["--data", "cifar10"], "--root must be the folder of cifar10. Got none"),
        (["--data", "cifar10", "--root", "nowhere"], "unpack it in that folder."),
        (["--data", "cifar"], "Did you mean 'cifar10'?"),
        (["--data", "digits", "--loss", "focl"], "Did you mean 'focal'?"),
        (["--data", "digits", "--set", "epoch=3"], "Did you mean 'epochs'?"),
        (["--data", "digits", "--set", "nonsense"], "--set must be KEY=VALUE"),
        (["--data", "digits", "--lr", "1", "--set", "lr=2"], "Got 'lr' twice"),
        (["--data", "digits", "--ratio", "5"], "--ratio must be 1 without an imbalance"),
        (["--data", "digits", "--loss", "cb_ce", "--schedule", "drw"], "--loss must be one"),
        (["--data", "digits", "--devices", "abc"], "--devices must be a number of devices"),
        (["--data", "digits", "--model", "foo"], "Got 'foo'"),
        (["--data", "digits", "--set", "milestones=3"], "`milestones` must be a list of numbers"),
        (["--data", "digits", "--set", "image_size=x"], "`image_size` must be a whole number"),
        (["--data", "digits", "--set", "nesterov=maybe"], "`nesterov` must be true or false"),
        (["--data", "digits", "--schedule", "drw", "--epochs", "1"], "--epochs must be at least 2"),
        (["--data", "folder", "--root", "nowhere"], "--root must be a folder of images, by part"),
        ([], "Missing option '--data'"),
    ],
)
def test_mistakes_are_answered_in_one_sentence(capsys, tmp_path, arguments, words):
    result = in_process(capsys, "train", *arguments, "-o", tmp_path / "run")
    assert is_one_sentence(result), result
    assert words in result.err
    assert not (tmp_path / "run").exists()


def test_a_folder_with_a_run_needs_resume(capsys, folder, finished):
    result = in_process(capsys, *DIGITS, "-o", folder)
    assert is_one_sentence(result)
    assert "Pass --resume to resume it" in result.err


def test_another_run_is_not_gone_on_with(capsys, folder, finished):
    result = in_process(capsys, *DIGITS, "--seed", "4", "-o", folder, "--resume")
    assert is_one_sentence(result)
    assert "where seed is 0 and not 4" in result.err


def test_settings_reach_the_run(capsys, tmp_path):
    result = in_process(
        capsys,
        *DIGITS,
        *CPU,
        "--set",
        "weight-decay=0.001",
        "--set",
        "nesterov=false",
        "--batch-size",
        "64",
        "-o",
        tmp_path / "run",
    )
    assert result.code == 0, result.err
    config = json.loads((tmp_path / "run" / "run.json").read_text())["config"]
    assert (config["weight_decay"], config["nesterov"], config["batch_size"]) == (0.001, False, 64)


def test_help_shows_an_example(capsys):
    result = in_process(capsys, "train", "--help")
    assert result.code == 0
    assert "$ reprior train --data digits" in result.out


@pytest.mark.parametrize(
    "prior, words",
    [
        ((0.75, 0.25), "Correct it: reprior fit {0}/validation.npz --counts {0}/counts.json -o"),
        ((0.6, 0.4), "validation.npz --source-prior {0}/effective-prior.json -o"),
        ((0.5, 0.5), "next to nothing is left to correct towards equal classes."),
    ],
)
def test_the_hint_is_for_the_prior_that_was_learnt(tmp_path, prior, words):
    from reprior_lab import RunConfig, RunFile
    from reprior_lab.commands.train import _next_step

    (tmp_path / "effective-prior.json").write_text("{}")
    run = RunFile(RunConfig.resolve(data="digits"), class_counts=(30, 10), effective_prior=prior)
    assert words.format(tmp_path) in _next_step(run, tmp_path)


def test_the_effective_prior_can_be_fitted_with(capsys, folder, finished, tmp_path):
    prior = folder / "effective-prior.json"
    fit = in_process(
        capsys, "fit", folder / "validation.npz", "--source-prior", prior, "-o", tmp_path / "c.json"
    )
    assert fit.code == 0, fit.err


def test_quiet_does_not_say_what_was_written(capsys, folder, finished):
    result = in_process(capsys, *DIGITS, "-o", folder, "--resume", "-q")
    assert result.code == 0, result.err
    assert "balanced accuracy" in result.out
    assert "Written" not in result.out


def test_help_lists_the_keys_of_set(capsys):
    result = in_process(capsys, "train", "--help")
    assert "Keys: momentum, nesterov, weight_decay" in " ".join(result.out.split())
