"""reprior fold: what was done, and how well it agrees."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

pytest.importorskip("onnx", reason="onnx is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

from tests.support.command_line import is_one_sentence
from tests.support.onnx_models import calibrator, full_model, gemm_model, samples

from reprior.onnx import calibrator_of


@pytest.fixture
def files(tmp_path):
    calibrator().save(tmp_path / "cal.json")
    onnx.save(full_model(), tmp_path / "model.onnx")
    return tmp_path


@pytest.fixture
def fold(files, run):
    """Fold cal.json into model.onnx, with more options."""

    def fold(*more):
        arguments = ["fold", files / "cal.json", files / "model.onnx", "-o", files / "out.onnx"]
        return run(*arguments, *more)

    return fold


def test_says_what_was_done(files, fold):
    result = fold()
    assert result.code == 0, result.err
    assert "Scores: z (logits)" in result.out
    assert "Corrected in the weights of Gemm" in result.out
    assert "Weights changed: b" in result.out
    assert "Nodes added: none" in result.out
    assert "labels agree on 516 of 516" in result.out
    assert calibrator_of(files / "out.onnx").strength_ == calibrator().strength_


def test_a_model_without_labels(files, fold):
    onnx.save(gemm_model(), files / "model.onnx")
    result = fold()
    assert "labels decided from the scores agree on 516 of 516, 0 ties" in result.out
    assert "of 0" not in result.out


def test_inner_logits_are_named(files, fold):
    model = full_model()
    for _ in range(2):
        del model.graph.output[0 if len(model.graph.output) == 3 else 1]
    onnx.save(model, files / "model.onnx")
    result = fold()
    assert "Scores: inner tensor z (logits)" in result.out
    assert "the inner tensor 'z' was used as the scores; output 'p'" in result.err
    assert "fit it again with kind 'probs'" in result.err
    calibrator(kind="probs").save(files / "cal.json")
    assert "note:" not in fold().err


@pytest.mark.parametrize(
    "options, words",
    [
        (["--scores", "label"], "Got 'label', which is the label output. Pass --scores z"),
        (["--scores", "p"], "Fit it again on this output with reprior fit --kind probs"),
        (["-o", ""], "--output must be a new name or a regular file. Got no name."),
        (["-o", "."], "--output must be a file. Got the folder"),
        (["-o", "none/out.onnx"], "--output must be in a folder that exists."),
    ],
)
def test_refusals_speak_of_options(files, run, monkeypatch, options, words):
    monkeypatch.chdir(files)
    result = run("fold", "cal.json", "model.onnx", "-o", "out.onnx", *options)
    assert is_one_sentence(result)
    assert words in result.err
    assert not set("=`…") & set(result.err)


def test_a_second_fold(files, run, monkeypatch):
    monkeypatch.chdir(files)
    assert run("fold", "cal.json", "model.onnx", "-o", "out.onnx", "-q").code == 0
    result = run("fold", "cal.json", "out.onnx", "-o", "again.onnx")
    assert is_one_sentence(result)
    assert "MODEL must not hold a calibrator yet" in result.err
    assert "calibrator_of" not in result.err


def test_json(fold):
    result = fold("--json", "--scores", "z")
    document = result.json
    assert document["outputs"] == {"z": "log-scores", "p": "posterior", "label": "labels"}
    assert document["wrong_labels"] == 0
    assert document["posterior_error"] < 1e-5
    assert document["changed"] == ["b"]


@pytest.mark.parametrize("name", ["x.npz", "x.npy"])
def test_given_inputs(files, fold, name):
    path = files / name
    np.savez(path, x=samples(77)) if name.endswith("npz") else np.save(path, samples(77))
    result = fold("--inputs", str(path))
    assert result.code == 0, result.err
    assert "Compared on 77 given samples" in result.out


def test_a_refusal_writes_nothing(files, fold):
    (files / "bad.npz").write_bytes(b"no")
    for options in (["--scores", "zz"], ["--inputs", str(files / "bad.npz")]):
        result = fold(*options)
        assert is_one_sentence(result)
    assert not (files / "out.onnx").exists()


def test_one_of_two_maps(files, fold):
    calibrator(separate=True).save(files / "cal.json")
    result = fold()
    assert is_one_sentence(result)
    assert "must say which is meant" in result.err
    result = fold("--map", "probability")
    assert result.code == 0, result.err
    inside = calibrator_of(files / "out.onnx")
    assert inside.metric == "log_loss"
