"""ONNX files: whole or not at all, external data too, and what is not one."""

from __future__ import annotations

import os
import warnings

import numpy as np
import onnx
import onnxruntime
import pytest
import skl2onnx
from onnx import helper
from sklearn.ensemble import StackingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tests.sklearn.shared import three_classes
from tests.support.onnx_models import (
    FLOAT,
    calibrator,
    exported,
    full_model,
    gemm_model,
    linear,
    run,
    samples,
    text,
)

import reprior as rp
from reprior.onnx import FoldError, calibrator_of, fold, verify
from reprior.sklearn import RebalancedClassifierCV


@pytest.fixture
def external(tmp_path):
    """A model with weights in a file of their own."""
    more = {"big": np.random.default_rng(0).normal(size=(4, 400)).astype(np.float32)}
    more["w"] = np.random.default_rng(1).normal(size=(400, 5)).astype(np.float32)
    nodes = [
        helper.make_node("Gemm", ["x", "big"], ["h"]),
        helper.make_node("Tanh", ["h"], ["a"]),
        helper.make_node("Gemm", ["a", "w", "b"], ["z"]),
        helper.make_node("Softmax", ["z"], ["p"], axis=1),
    ]
    path = tmp_path / "in" / "model.onnx"
    path.parent.mkdir()
    model = linear(nodes, {"p": (FLOAT, ["N", 5])}, more=more)
    onnx.save(model, path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    return path


def test_written_as_it_was_read(tmp_path):
    path, out = tmp_path / "model.onnx", tmp_path / "out.onnx"
    onnx.save(full_model(), path)
    folded = fold(path, calibrator(), output=out)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["model.onnx", "out.onnx"]
    assert onnx.load(out) == folded
    assert calibrator_of(out).strength_ == calibrator().strength_
    verify(str(path), str(out), calibrator())


def test_external_data_stay_external(external, tmp_path):
    out = tmp_path / "out.onnx"
    cal = calibrator(temperature=1.2)
    fold(external, cal, output=out)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["in", "out.onnx", "out.onnx.data"]
    assert out.stat().st_size < 5000
    x = samples(50)
    loaded = onnxruntime.InferenceSession(str(out)).run(None, {"x": x})[0]
    before = onnxruntime.InferenceSession(str(external)).run(None, {"x": x})[0]
    assert np.abs(loaded - cal.predict_proba(np.log(before))).max() < 1e-5
    verify(external, out, cal)


def test_external_data_are_replaced_with_their_model(external, tmp_path):
    out = tmp_path / "out.onnx"
    fold(external, calibrator(), output=out)
    fold(external, calibrator(temperature=2.0), output=out)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["in", "out.onnx", "out.onnx.data"]
    assert calibrator_of(out).temperature_ == 2.0
    verify(external, out, calibrator(temperature=2.0))


def test_both_files_have_the_same_permissions(external, tmp_path):
    out, data = tmp_path / "out.onnx", tmp_path / "out.onnx.data"
    plain = tmp_path / "plain"
    plain.write_bytes(b"")
    fold(external, calibrator(), output=out)
    assert out.stat().st_mode == data.stat().st_mode == plain.stat().st_mode
    data.chmod(0o600)
    out.chmod(0o640)
    fold(external, calibrator(temperature=2.0), output=out)
    assert out.stat().st_mode & 0o777 == data.stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("before", ["nothing", "the model itself"])
def test_data_of_another_model_stay(external, tmp_path, before):
    out, foreign = tmp_path / "out.onnx", tmp_path / "out.onnx.data"
    source = tmp_path / "renamed.onnx"
    onnx.save(
        onnx.load(external), source, save_as_external_data=True, location=foreign.name,
        size_threshold=0,
    )  # fmt: skip
    if before == "the model itself":
        out.write_bytes(source.read_bytes())  # a copy, which shares the data of the source
    kept = foreign.read_bytes()
    fold(source, calibrator(temperature=2.0), output=out)
    assert foreign.read_bytes() == kept
    assert (tmp_path / "out.onnx.2.data").exists()
    verify(source, out, calibrator(temperature=2.0))


@pytest.mark.parametrize("weights", ["inside", "external"])
@pytest.mark.parametrize(
    "location",
    [
        "out.onnx.d/../../victim.data",  # begins and ends like a data file of the model
        "out.onnx.d/victim.data",
        "../victim.data",
        "{folder}/out.onnx.victim.data",
        "out.onnx.victim.data",
        "out.onnx.data",  # a symlink
    ],
)
def test_files_that_only_an_old_model_names_stay(external, tmp_path, location, weights):
    folder = tmp_path / "work"
    (folder / "out.onnx.d").mkdir(parents=True)
    (folder / "out.onnx.data").symlink_to(tmp_path / "victim.data")
    victims = [tmp_path / "victim.data", folder / "out.onnx.d" / "victim.data"]
    victims.append(folder / "out.onnx.victim.data")
    for victim in victims:
        victim.write_bytes(b"precious")
    hostile = gemm_model()
    onnx.external_data_helper.set_external_data(
        hostile.graph.initializer[0], location=location.format(folder=folder)
    )
    (folder / "out.onnx").write_bytes(hostile.SerializeToString())
    source = gemm_model() if weights == "inside" else external
    fold(source, calibrator(), output=folder / "out.onnx")
    assert [victim.read_bytes() for victim in victims] == [b"precious"] * len(victims)
    assert (folder / "out.onnx.data").is_symlink()
    verify(source, folder / "out.onnx", calibrator())


def test_data_of_an_old_model_go_with_it(external, tmp_path):
    out = tmp_path / "out.onnx"
    fold(external, calibrator(), output=out)
    fold(gemm_model(), calibrator(), output=out)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["in", "out.onnx"]


def test_small_weights_go_into_the_model(tmp_path):
    path, out = tmp_path / "model.onnx", tmp_path / "out.onnx"
    onnx.save(
        gemm_model(), path, save_as_external_data=True, location="w.bin", size_threshold=0
    )  # fmt: skip
    fold(path, calibrator(), output=out)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["model.onnx", "out.onnx", "w.bin"]
    verify(path, out, calibrator())


@pytest.mark.parametrize(
    "name, words",
    [
        ("", r"`output` must be the path of a file. Got ''"),
        (".", r"`output` must be a file. Got the folder"),
        ("none/out.onnx", r"must be in a folder that exists.*Make that folder first"),
        (3, r"`output` must be the path of a file. Got int"),
    ],
)
def test_where_nothing_can_be_written(tmp_path, monkeypatch, name, words):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FoldError, match=words):
        fold(gemm_model(), calibrator(), output=name)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="SKIPPED: no FIFOs here")
def test_a_pipe_is_refused_and_stays(tmp_path):
    os.mkfifo(tmp_path / "out.onnx")
    with pytest.raises(rp.OptionError, match=r"`output` must be .* which is a named pipe"):
        fold(gemm_model(), calibrator(), output=tmp_path / "out.onnx")
    assert (tmp_path / "out.onnx").is_fifo()


def test_a_failed_write_leaves_the_old_file(external, tmp_path, monkeypatch):
    out = tmp_path / "out.onnx"
    fold(external, calibrator(), output=out)
    before = {p: p.read_bytes() for p in tmp_path.iterdir() if p.is_file()}

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("reprior.files.atomic.os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        fold(external, calibrator(temperature=2.0), output=out)
    assert calibrator_of(out).temperature_ == 1.0
    assert all(path.read_bytes() == data for path, data in before.items())
    verify(external, out, calibrator())


def test_weights_not_loaded(external):
    model = onnx.load(external, load_external_data=False)
    with pytest.raises(FoldError, match=r"external data were not loaded. Pass the path"):
        fold(model, calibrator())


def test_external_data_missing(external):
    (external.parent / "weights.bin").unlink()
    with pytest.raises(rp.FileFormatError, match="must have its external data beside it"):
        fold(external, calibrator())


@pytest.mark.parametrize("content", [b"", b"no model at all", b"PK\x03\x04", bytes(100)])
def test_not_an_onnx_file(tmp_path, content):
    path = tmp_path / "model.onnx"
    path.write_bytes(content)
    with pytest.raises(rp.FileFormatError, match=r"model.onnx' must be an ONNX model"):
        fold(path, calibrator())


def test_not_a_model_or_not_there(tmp_path):
    with pytest.raises(FoldError, match=r"must be an onnx.ModelProto or the path.*Got int"):
        fold(3, calibrator())
    with pytest.raises(FileNotFoundError):
        fold(tmp_path / "none.onnx", calibrator())


def test_the_original_is_not_overwritten(tmp_path):
    path = tmp_path / "model.onnx"
    onnx.save(gemm_model(), path)
    with pytest.raises(FoldError, match="must be another file than the model"):
        fold(path, calibrator(), output=path)


def test_damaged_metadata():
    folded = fold(gemm_model(), calibrator())
    assert [entry.key for entry in folded.metadata_props] == ["reprior.calibrator"]
    folded.metadata_props[0].value = folded.metadata_props[0].value.replace("strength", "x")
    with pytest.raises(rp.FileFormatError, match=r"metadata_props.*fold the original again"):
        calibrator_of(folded)
    assert run(folded, samples(3))["z"].shape == (3, 5)


def test_weights_go_beside_the_file_behind_a_link(tmp_path, external):
    (tmp_path / "there").mkdir()
    real, link = tmp_path / "there" / "real.onnx", tmp_path / "out.onnx"
    link.symlink_to(real)
    for _ in range(2):  # a new file, and one that is replaced
        fold(external, calibrator(), output=link)
        assert link.is_symlink()
        assert sorted(p.name for p in real.parent.iterdir()) == ["real.onnx", "real.onnx.data"]
        assert not (tmp_path / "out.onnx.data").exists()
        assert onnxruntime.InferenceSession(real).get_outputs()


def converted(zipmap=False, names=None, inside=False):
    X, y = three_classes()
    X = X.astype(np.float32)
    meta = RebalancedClassifierCV(LogisticRegression(), cv=2)
    model = make_pipeline(StandardScaler(), meta) if inside else meta
    model.fit(X, y if names is None else names[y])
    options = {id(meta): {"zipmap": zipmap}}
    return meta, skl2onnx.to_onnx(model, X[:1], options=options)


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("zipmap", [True, False, "columns"])
def test_an_exported_meta_estimator(zipmap, inside):
    meta, model = converted(zipmap, np.array(["ant", "bee", "cöw"]), inside)
    read = calibrator_of(model)
    assert read.strength_ == meta.calibrator_.strength_
    assert read.classes_.tolist() == ["ant", "bee", "cöw"]
    with pytest.raises(FoldError, match=r"Got an export of a RebalancedClassifierCV"):
        fold(model, read)


def test_uncorrected_scores_inside_a_corrected_model():
    meta, model = converted()
    raw = next(node for node in model.graph.node if node.op_type == "Log").input[0]
    with pytest.raises(FoldError, match="must not hold a calibrator yet"):
        fold(model, meta.calibrator_, scores=raw)


def test_a_corrected_member_below_another_model():
    X, y = three_classes()
    X = X.astype(np.float32)
    members = [("a", RebalancedClassifierCV(LogisticRegression(), cv=2))]
    stack = StackingClassifier(members, LogisticRegression(), cv=2).fit(X, y)
    model = skl2onnx.to_onnx(stack, X[:1], options={"zipmap": False})
    assert any(node.name.startswith("reprior_") for node in model.graph.node)
    assert calibrator_of(model) is None
    cal = calibrator(3, kind="probs")
    assert calibrator_of(fold(model, cal)).strength_ == cal.strength_


def test_added_nodes_tell_where_metadata_are_lost():
    model = text("m (float[N, 5] x) => (float[N, 5] p) { p = Softmax(x) }")
    folded = fold(model, calibrator(kind="probs"))
    del folded.metadata_props[:]
    assert calibrator_of(folded) is None
    with pytest.raises(FoldError, match="a calibrator was folded into"):
        fold(folded, calibrator(kind="probs"))


@pytest.mark.heavy
def test_a_torch_layer():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    pytest.importorskip("onnxscript", reason="onnxscript is not installed")
    from reprior.torch import Rebalance

    net = torch.nn.Sequential(torch.nn.Linear(4, 5), Rebalance.from_calibrator(calibrator()))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.onnx.export(net.eval(), (torch.zeros(2, 4),), dynamo=True, verbose=False)
    with pytest.raises(FoldError, match=r"reprior.torch.Rebalance layer. Use it as it is"):
        fold(program.model_proto, calibrator())


def test_the_older_torch_exporter_keeps_no_record():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    from reprior.torch import Rebalance

    net = torch.nn.Sequential(torch.nn.Linear(4, 5), Rebalance.from_calibrator(calibrator()))
    model = exported(net, torch.zeros(2, 4), ["log_p"], {0: "n"})
    assert isinstance(fold(model, calibrator()), onnx.ModelProto)  # docs/ship.md says so


def test_a_plain_model_is_not_refused():
    assert calibrator_of(full_model()) is None
    assert fold(full_model(), calibrator(), scores="z").graph.output[0].name == "z"
