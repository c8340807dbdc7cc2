"""Models that once came out wrong, or were refused without need."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
import skl2onnx
from onnx import TensorProto, helper
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier
from sklearn.linear_model import RidgeClassifier
from sklearn.svm import SVC
from tests.sklearn.shared import three_classes, two_classes
from tests.support.onnx_models import (
    FLOAT,
    INT64,
    LOGITS,
    assert_follows,
    calibrator,
    full_model,
    linear,
    run,
    samples,
)

import reprior as rp
from reprior.onnx import FoldError, fold, fold_report, verify
from reprior.sklearn import RebalancedClassifierCV

node = helper.make_node
VOTES = "ignore::FutureWarning"  # scikit-learn 1.9 deprecates SVC(probability=True)


def branches(name, then, otherwise, condition="c"):
    """An If of two nodes."""
    graphs = [
        helper.make_graph([part], "b", [], [helper.make_tensor_value_info(part.output[0], 1, None)])
        for part in (then, otherwise)
    ]
    return node("If", [condition], [name], then_branch=graphs[0], else_branch=graphs[1])


HEAD = [
    node("Gemm", ["x", "w", "b"], ["z"]),
    node("Softmax", ["z"], ["p"], axis=1),
    node("ArgMax", ["z"], ["label"], axis=1, keepdims=0),
]
SIGN = [node("ReduceSum", ["x"], ["s"], keepdims=0), node("Greater", ["s", "zero"], ["c"])]
OUTPUTS = {**LOGITS, "p": (FLOAT, ["N", 5]), "label": (INT64, ["N"])}
ZERO = {"zero": np.array(0, np.float32)}


def test_a_layer_inside_a_branch_keeps_its_scores():
    """Another task's layer is in an If: one branch reads the logits, the other the softmax."""
    task = branches("task", node("MatMul", ["z", "v"], ["t"]), node("MatMul", ["p", "v"], ["e"]))
    more = {**ZERO, "v": np.random.default_rng(1).normal(size=(5, 3)).astype(np.float32)}
    model = linear([*SIGN, *HEAD, task], {**OUTPUTS, "task": (FLOAT, ["N", 3])}, more=more)
    cal = calibrator(temperature=0.7)
    folded = fold_report(model, cal)
    assert folded.parity.outputs["task"] == "unchanged"
    for x in (samples(100), np.abs(samples(100)), -np.abs(samples(100))):
        before, after = run(model, x), run(folded.model, x)
        assert np.array_equal(before["task"], after["task"])
        z = before["z"]
        assert_follows(cal.predict_proba(z), cal.predict(z), after["p"], after["label"])


def test_branches_that_read_scores_given_as_input():
    p = branches(
        "p", node("Softmax", ["x"], ["t"], axis=1), node("Softmax", ["x"], ["e"], axis=1), "yes"
    )
    model = linear([p], {"p": (FLOAT, ["N", 5])}, n_features=5, more={"yes": np.array(True)})
    cal, x = calibrator(), samples(200, 5)
    after = run(fold(model, cal, scores="x"), x)
    assert_follows(cal.predict_proba(x), None, after["p"])


def test_initialisers_that_are_inputs():
    model = full_model(opset=8)
    model.ir_version = 3
    for tensor in model.graph.initializer:
        model.graph.input.append(
            helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
        )
    onnx.checker.check_model(model)
    folded = fold(model, calibrator(temperature=0.7))
    onnx.checker.check_model(folded)


@pytest.mark.parametrize("head", ["Gemm", "MatMul"])
def test_bfloat16(head):
    """ONNX Runtime has no such layers on the CPU: the types at least must be right."""
    brain = onnx.helper.tensor_dtype_to_np_dtype(TensorProto.BFLOAT16)
    weights = np.random.default_rng(0).normal(size=(4, 5)).astype(brain)
    names = ["xb", "wb", "bb"] if head == "Gemm" else ["xb", "wb"]
    nodes = [
        node("Cast", ["x"], ["xb"], to=TensorProto.BFLOAT16),
        node(head, names, ["z"]),
        *HEAD[1:],
    ]
    half = (TensorProto.BFLOAT16, ["N", 5])
    more = {"wb": weights, "bb": np.zeros(5, brain)}
    model = linear(nodes, {"z": half, "p": half, "label": (INT64, ["N"])}, more=more)
    with pytest.raises(FoldError, match=r"must run in ONNX Runtime.*pass verify=False"):
        fold(model, calibrator())
    folded = fold_report(model, calibrator(temperature=0.7), verify=False)
    onnx.checker.check_model(folded.model, full_check=True)
    assert folded.added == ([] if head == "Gemm" else ["Mul", "Add"])


@pytest.mark.parametrize("shown", [["z", "p", "label"], ["z"]])
@pytest.mark.parametrize("scores", [None, "z"])
def test_classes_on_the_first_axis_of_the_head(shown, scores):
    """The head multiplies from the left and is transposed then."""
    nodes = [
        node("Gemm", ["w", "x", "column"], ["turned"], transA=1, transB=1),
        node("Transpose", ["turned"], ["z"], perm=[1, 0]),
        *HEAD[1:],
    ]
    model = linear(
        nodes[: 2 if shown == ["z"] else None], {name: OUTPUTS[name] for name in shown},
        more={"column": np.ones((5, 1), np.float32)},
    )  # fmt: skip
    cal, x = calibrator(temperature=0.7), samples(500)
    z, after = run(model, x)["z"], run(fold(model, cal, scores=scores), x)["z"]
    e = np.exp(after - after.max(1, keepdims=True))
    assert_follows(cal.predict_proba(z), None, e / e.sum(1, keepdims=True))


def test_quantised_heads():
    """Integer kernels round a whole step elsewhere; the model is compared as it is written."""
    rng = np.random.default_rng(0)
    more = {
        "sw": np.array(0.02, np.float32), "wq": rng.integers(-100, 100, (4, 5)).astype(np.int8),
        "sx": np.array(0.03, np.float32), "sz": np.array(0.05, np.float32),
        "none": np.array(0, np.int8),
    }  # fmt: skip
    nodes = [
        node("QuantizeLinear", ["x", "sx", "none"], ["xq"]),
        node("DequantizeLinear", ["xq", "sx", "none"], ["xd"]),
        node("DequantizeLinear", ["wq", "sw", "none"], ["wd"]),
        node("MatMul", ["xd", "wd"], ["m"]),
        node("Add", ["m", "b"], ["a"]),
        node("QuantizeLinear", ["a", "sz", "none"], ["zq"]),
        node("DequantizeLinear", ["zq", "sz", "none"], ["z"]),
        *HEAD[1:],
    ]
    folded = fold_report(linear(nodes, OUTPUTS, more=more), calibrator(temperature=0.7))
    assert folded.added == ["Mul", "Add"]
    assert folded.parity.outputs == {"z": "log-scores", "p": "posterior", "label": "labels"}


def test_upsampling_to_the_size_of_the_input():
    """The number of channels behind such a Resize cannot be inferred."""
    more = {
        "k": np.random.default_rng(0).normal(size=(5, 4, 1, 1)).astype(np.float32),
        "two": np.array([2]), "four": np.array([4]), "zero": np.array([0]),
    }  # fmt: skip
    nodes = [
        node("Conv", ["x", "k", "b"], ["c"], strides=[2, 2]),
        node("Shape", ["x"], ["all"]), node("Slice", ["all", "two", "four"], ["size"]),
        node("Shape", ["c"], ["own"]), node("Slice", ["own", "zero", "two"], ["first"]),
        node("Concat", ["first", "size"], ["to"], axis=0),
        node("Resize", ["c", "", "", "to"], ["z"], mode="linear"),
    ]  # fmt: skip
    model = linear(nodes, {"z": (FLOAT, ["N", "K", "H", "W"])}, more=more)
    model.graph.input[0].CopyFrom(helper.make_tensor_value_info("x", FLOAT, ["N", 4, "H", "W"]))
    folded = fold_report(model, calibrator(class_axis=1), scores="z")
    assert folded.where.startswith("in the weights of Conv")


def test_names_of_an_encoder_of_labels():
    """They are class names: their order must be the calibrator's."""
    names = list("abcde")
    nodes = [
        *HEAD[:2],
        node("ArgMax", ["p"], ["index"], axis=1, keepdims=0),
        node("LabelEncoder", ["index"], ["label"], domain="ai.onnx.ml",
             keys_int64s=list(range(5)), values_strings=names),
    ]  # fmt: skip
    model = linear(nodes, {"p": (FLOAT, ["N", 5]), "label": (TensorProto.STRING, ["N"])})
    model.opset_import.append(helper.make_opsetid("ai.onnx.ml", 3))
    folded = fold_report(model, calibrator(classes=names))
    assert folded.parity.outputs["label"] == "labels"
    with pytest.raises(FoldError, match="in the order of the model's"):
        fold(model, calibrator(classes=names[::-1]))


# ------------------------------------------------------------------------------ scikit-learn


def fitted(model, X, y, scores):
    prior = rp.prior_from_counts(np.bincount(y))
    kind = "probs" if np.min(scores) >= 0 else "logits"
    return rp.PosteriorCalibrator(prior, kind=kind).fit(scores, y)


@pytest.mark.filterwarnings(VOTES)
def test_labels_by_vote_follow():
    """A support vector machine's label is not always its most probable class."""
    X, y = three_classes()
    X = X.astype(np.float32)
    model = SVC(probability=True, random_state=0).fit(X, y)
    export = skl2onnx.to_onnx(model, X[:1], options={"zipmap": False})
    cal = fitted(model, X, y, run(export, X)["probabilities"].astype(np.float64))
    x = 2 * samples(2000, X.shape[1])
    before = run(export, x)
    assert (before["label"] != before["probabilities"].argmax(1)).any()
    folded = fold_report(export, cal)
    assert folded.parity.outputs["label"] == "labels"
    after, p = run(folded.model, x), before["probabilities"]
    assert_follows(cal.predict_proba(p), cal.predict(p), after["probabilities"], after["label"])


@pytest.mark.filterwarnings(VOTES)
def test_scores_that_the_labels_contradict():
    """skl2onnx turns the raw scores of two classes round."""
    X, y = two_classes()
    X = X.astype(np.float32)
    model = SVC(probability=True, random_state=0).fit(X, y)
    export = skl2onnx.to_onnx(model, X[:1], options={"zipmap": False, "raw_scores": True})
    with pytest.raises(FoldError, match="must be the scores that decide the labels"):
        fold(export, calibrator(2))


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_column_for_every_class(n_classes):
    X, y = two_classes() if n_classes == 2 else three_classes()
    X = X.astype(np.float32)
    model = ExtraTreesClassifier(5, max_depth=4, random_state=0).fit(X, y)
    export = skl2onnx.to_onnx(model, X[:1], options={"zipmap": "columns"})
    _, *columns = run(export, X).values()
    scores = np.column_stack(columns)
    cal = fitted(model, X, y, scores.astype(np.float64))
    label, *columns = run(fold(export, cal), X).values()
    wanted = cal.predict_proba(scores)
    assert_follows(wanted, cal.predict(scores), np.column_stack(columns), label)


def test_one_column_of_two_log_scores_is_the_log_odds():
    X, y = two_classes()
    X = X.astype(np.float32)
    model = RidgeClassifier().fit(X, y)
    export = skl2onnx.to_onnx(model, X[:1], options={"zipmap": False})
    z = run(export, X)["probabilities"]
    cal = fitted(model, X, y, z.astype(np.float64).reshape(-1))
    after = run(fold(export, cal), X)
    odds = 1 / (1 + np.exp(-after["probabilities"].reshape(-1).astype(np.float64)))
    assert np.abs(odds - cal.predict_proba(z.reshape(-1))).max() < 1e-5
    assert (after["label"] == cal.predict(z.reshape(-1))).mean() > 0.99


@pytest.mark.parametrize("n_classes", [2, 3])
def test_histogram_boosting_in_the_wrapper(n_classes):
    """skl2onnx alone stops here with protobuf 7."""
    X, y = two_classes() if n_classes == 2 else three_classes()
    X = X.astype(np.float32)
    inner = HistGradientBoostingClassifier(max_iter=5, random_state=0)
    meta = RebalancedClassifierCV(inner, cv=2).fit(X, y)
    outputs = run(skl2onnx.to_onnx(meta, X[:1], options={"zipmap": False}), X)
    assert_follows(
        meta.predict_proba(X), meta.predict(X), outputs["probabilities"], outputs["label"]
    )


# ----------------------------------------------------------------------------- verify, words


@pytest.mark.parametrize("how", ["type", "shape"])
def test_verify_sees_labels_of_another_type_or_shape(how):
    """Clients read them: equal numbers are not enough."""
    model, cal = full_model(), calibrator()
    folded = fold(model, cal)
    folded.graph.node[-1].output[0] = "own"
    if how == "type":
        last, kind = node("Cast", ["own"], ["label"], to=TensorProto.INT32), (6, ["N"])
    else:
        folded.graph.initializer.append(onnx.numpy_helper.from_array(np.array([1]), "one"))
        last, kind = node("Unsqueeze", ["own", "one"], ["label"]), (INT64, ["N", 1])
    folded.graph.node.append(last)
    folded.graph.output[2].CopyFrom(helper.make_tensor_value_info("label", *kind))
    with pytest.raises(FoldError, match="'label' has another type or shape"):
        verify(model, folded, cal)


@pytest.mark.parametrize(
    "given, words",
    [
        ({"inputs": np.ones((3, 7))}, r"`inputs` must be what the model takes. It says:"),
        ({"inputs": {"x": "text"}}, r"numbers for 'x'. Got <U4"),
        ({"inputs": []}, r"at least one sample"),
        ({"scores": 3}, r"must be the name of a tensor of the model. Got 3"),
        ({"scores": "w"}, r"must be the name of a tensor of the model. Got 'w'"),
    ],
)
def test_words(given, words):
    with pytest.raises(FoldError, match=words):
        fold(full_model(), calibrator(), **given)


def test_small_weights_beside_a_file_of_the_name(tmp_path):
    """All weights are too small for a file of their own, and one of that name is there."""
    source = tmp_path / "in.onnx"
    onnx.save(
        full_model(), source, save_as_external_data=True, location="out.onnx.data",
        size_threshold=0,
    )  # fmt: skip
    data = (tmp_path / "out.onnx.data").read_bytes()
    fold(source, calibrator(), output=tmp_path / "out.onnx")
    assert (tmp_path / "out.onnx.data").read_bytes() == data
    assert verify(source, tmp_path / "out.onnx", calibrator()).ok
