"""A model that is corrected already is refused, wherever the file tells."""

from __future__ import annotations

import warnings

import numpy as np
import onnx
import pytest
import skl2onnx
from sklearn.ensemble import StackingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tests.onnx.shared import calibrator, exported, full_model, text
from tests.sklearn.shared import three_classes

from reprior.onnx import FoldError, calibrator_of, fold
from reprior.sklearn import RebalancedClassifierCV


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
