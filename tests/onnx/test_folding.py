"""fold: where the correction goes, what follows, what stays, what is refused."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from tests.support.onnx_models import (
    FLOAT,
    INT64,
    LOGITS,
    assert_follows,
    calibrator,
    full_model,
    gemm_model,
    linear,
    operators,
    run,
    samples,
    text,
)

import reprior as rp
from reprior.onnx import FoldError, calibrator_of, fold, fold_report, verify

node = helper.make_node


def softmax(z):
    e = np.exp(z - z.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


@pytest.mark.parametrize("temperature", [None, 0.7])
def test_gemm_head_costs_nothing(temperature):
    cal, model = calibrator(temperature=temperature), full_model()
    folded = fold(model, cal)
    assert operators(folded) == operators(model)
    x = samples()
    before, after = run(model, x), run(folded, x)
    assert_follows(
        cal.predict_proba(before["z"]), cal.predict(before["z"]), after["p"], after["label"]
    )
    assert np.abs(softmax(after["z"]) - after["p"]).max() < 1e-6


def test_the_model_given_is_not_changed():
    model = full_model()
    copy = model.SerializeToString()
    fold(model, calibrator())
    assert model.SerializeToString() == copy


@pytest.mark.parametrize("kind", ["logits", "probs"])
def test_labels_upstream_of_the_probabilities_follow(kind):
    """The arg max reads the logits; the calibrator was fitted on either."""
    cal, model = calibrator(kind=kind), full_model()
    x = samples()
    before, after = run(model, x), run(fold(model, cal), x)
    scores = before["z" if kind == "logits" else "p"]
    assert_follows(cal.predict_proba(scores), cal.predict(scores), after["p"], after["label"])


def test_matmul_and_add():
    nodes = [node("MatMul", ["x", "w"], ["m"]), node("Add", ["b", "m"], ["z"])]
    for temperature in (None, 2.0):
        cal, model = calibrator(temperature=temperature), linear(nodes, LOGITS)
        folded = fold_report(model, cal)
        assert folded.added == []
        x = samples()
        assert_follows(
            cal.predict_proba(run(model, x)["z"]), None, softmax(run(folded.model, x)["z"])
        )


def test_a_head_without_bias_gets_one():
    model = linear([node("Gemm", ["x", "w"], ["z"])], LOGITS)
    folded = fold_report(model, calibrator())
    assert folded.added == []
    assert len(folded.model.graph.node[0].input) == 3


def test_gemm_attributes_are_minded():
    model = linear(
        [node("Gemm", ["x", "wt", "b"], ["z"], alpha=0.5, beta=0.25, transB=1)], LOGITS,
        more={"wt": np.random.default_rng(3).normal(size=(5, 4)).astype(np.float32)},
    )  # fmt: skip
    assert fold_report(model, calibrator(temperature=1.4)).added == []


def test_shared_weights_keep_their_value():
    nodes = [
        node("Gemm", ["x", "w", "b"], ["z"]),
        node("Softmax", ["z"], ["p"], axis=1),
        node("Gemm", ["x", "w", "b"], ["features"]),
        node("Relu", ["features"], ["other"]),
    ]
    outputs = {"p": (FLOAT, ["N", 5]), "other": (FLOAT, ["N", 5])}
    for temperature, added in ((None, []), (2.0, ["Mul", "Add"])):
        model = linear(nodes, outputs)
        folded = fold_report(model, calibrator(temperature=temperature), scores="z")
        assert folded.added == added
        x = samples(500)
        assert np.array_equal(run(model, x)["other"], run(folded.model, x)["other"])


@pytest.fixture
def two_tasks():
    """Two heads of five classes, each with labels, on one body."""
    more = {"w2": np.random.default_rng(7).normal(size=(4, 5)).astype(np.float32)}
    nodes = [
        node("Gemm", ["x", "w", "b"], ["z1"]),
        node("ArgMax", ["z1"], ["label1"], axis=1, keepdims=0),
        node("Gemm", ["x", "w2"], ["z2"]),
        node("ArgMax", ["z2"], ["label2"], axis=1, keepdims=0),
    ]
    outputs = {}
    for k in "12":
        outputs |= {f"z{k}": (FLOAT, ["N", 5]), f"label{k}": (INT64, ["N"])}
    return linear(nodes, outputs, more=more)


def test_two_candidates_are_asked_about_by_name(two_tasks):
    with pytest.raises(FoldError, match=r"Got 2 of 5 classes: 'z1', 'z2'\. Pass scores='z1'"):
        fold(two_tasks, calibrator())


@pytest.mark.parametrize("own, other", [("1", "2"), ("2", "1")])
def test_other_tasks_stay(two_tasks, own, other):
    cal = calibrator()
    folded = fold_report(two_tasks, cal, scores=f"z{own}")
    assert folded.parity.outputs[f"label{own}"] == "labels"
    assert folded.parity.outputs[f"label{other}"] == "unchanged"
    x = samples()
    before, after = run(two_tasks, x), run(folded.model, x)
    assert np.array_equal(before[f"label{other}"], after[f"label{other}"])
    assert_follows(
        cal.predict_proba(before[f"z{own}"]), cal.predict(before[f"z{own}"]),
        softmax(after[f"z{own}"]), after[f"label{own}"],
    )  # fmt: skip


def test_heads_cut_from_one_layer_stay_apart():
    """One Gemm makes both tasks' scores: only one half may change, and only its labels."""
    rng = np.random.default_rng(5)
    more = {"w2": rng.normal(size=(4, 10)).astype(np.float32), "half": np.array([5, 5])}
    nodes = [
        node("Gemm", ["x", "w2"], ["both"]),
        node("Split", ["both", "half"], ["z1", "z2"], axis=1),
        node("ArgMax", ["z1"], ["label1"], axis=1, keepdims=0),
        node("ArgMax", ["z2"], ["label2"], axis=1, keepdims=0),
    ]
    outputs = {f"label{k}": (INT64, ["N"]) for k in "12"}
    model = linear(nodes, outputs, more=more)
    with pytest.raises(FoldError, match=r"'label1', 'label2'"):
        fold(model, calibrator())
    folded = fold_report(model, calibrator(), scores="z2")
    assert folded.parity.outputs == {"label1": "unchanged", "label2": "labels"}
    assert folded.added == ["Add"]


def test_a_model_on_top_of_the_scores_stays():
    """Another task reads the probabilities: it keeps those it was trained with."""
    more = {"v": np.random.default_rng(2).normal(size=(5, 3)).astype(np.float32)}
    nodes = [
        node("Gemm", ["x", "w", "b"], ["z"]),
        node("Softmax", ["z"], ["p"], axis=1),
        node("Gemm", ["p", "v"], ["task"]),
        node("Gemm", ["z", "v"], ["task2"]),
        node("ArgMax", ["p"], ["label"], axis=1, keepdims=0),
    ]
    outputs = {
        "p": (FLOAT, ["N", 5]), "task": (FLOAT, ["N", 3]), "task2": (FLOAT, ["N", 3]),
        "label": (INT64, ["N"]),
    }  # fmt: skip
    model, cal = linear(nodes, outputs, more=more), calibrator(temperature=1.5)
    folded = fold_report(model, cal)
    assert folded.added == ["Mul", "Add"]
    x = samples()
    before, after = run(model, x), run(folded.model, x)
    assert np.allclose(before["task"], after["task"], atol=1e-6)
    assert np.allclose(before["task2"], after["task2"], atol=1e-6)
    assert_follows(
        cal.predict_proba(np.log(before["p"])), cal.predict(np.log(before["p"])), after["p"],
        after["label"],
    )  # fmt: skip


def test_what_is_derived_from_the_scores_follows():
    nodes = [
        node("Gemm", ["x", "w", "b"], ["z"]),
        node("Softmax", ["z"], ["p"], axis=1),
        node("ReduceMax", ["p"], ["sure"], axes=[1], keepdims=0),
        node("TopK", ["z", "two"], ["best", "which"], axis=1),
        node("Cast", ["z"], ["wide"], to=TensorProto.DOUBLE),
        node("ArgMax", ["wide"], ["index"], axis=1, keepdims=1),
        node("Cast", ["index"], ["label"], to=TensorProto.INT32),
    ]
    outputs = {
        "sure": (FLOAT, ["N"]), "which": (INT64, ["N", 2]),
        "label": (TensorProto.INT32, ["N", 1]),
    }  # fmt: skip
    model = linear(nodes, outputs, more={"two": np.array([2])})
    folded = fold_report(model, calibrator())
    assert folded.parity.outputs == {"sure": "follows", "which": "follows", "label": "labels"}
    x = samples(2000)
    z = run(linear(nodes[:1], LOGITS), x)["z"]
    posterior = calibrator().predict_proba(z)
    after = run(folded.model, x)
    assert np.abs(after["sure"] - posterior.max(1)).max() < 1e-5
    assert (after["which"][:, 0] == posterior.argmax(1)).mean() > 0.999


@pytest.mark.parametrize("opset", [9, 11, 12, 13, 18])
def test_operator_sets(opset):
    model, cal = full_model(opset=opset), calibrator()
    x = samples(1000)
    z, after = run(model, x)["z"], run(fold(model, cal), x)
    assert_follows(cal.predict_proba(z), cal.predict(z), after["p"], after["label"])


def test_an_opset_too_old():
    body = """m (float[N, 5] x) => (float[N, 5] p) { e = Relu(x)
        p = Softmax <axis = 1> (e) }"""
    with pytest.raises(FoldError, match=r"operator set 7 or newer.*Got 6.*convert_version"):
        fold(text(body, opset=6), calibrator(kind="probs"))


def test_maps_of_probabilities_need_opset_13():
    body = """m (float[N, 5, H, W] x) => (float[N, 5, H, W] p) {
        e = Exp(x)
        s = ReduceSum <axes = [1]> (e)
        p = Div(e, s) }"""
    with pytest.raises(FoldError, match=r"operator set 13 or newer.*Got 11"):
        fold(text(body, opset=11), calibrator(kind="probs", class_axis=1))


def test_maps_of_probabilities():
    body = """m (float[N, 5, H, W] x) => (float[N, 5, H, W] p, int64[N, H, W] label)
        <int64[1] one = {1}> {
        e = Exp(x)
        s = ReduceSum(e, one)
        p = Div(e, s)
        label = ArgMax <axis = 1, keepdims = 0> (e) }"""
    cal = calibrator(kind="probs", class_axis=1)
    folded = fold_report(text(body, opset=17), cal)
    assert folded.added[:3] == ["Log", "Add", "Softmax"]
    x = np.random.default_rng(0).normal(size=(2, 5, 7, 9)).astype(np.float32)
    p, after = run(text(body), x)["p"], run(folded.model, x)
    assert np.abs(after["p"] - cal.predict_proba(p)).max() < 1e-5
    assert (after["label"] == cal.predict(p)).all()


def test_impossible_classes_stay_impossible():
    body = """m (float[N, 5] x) => (float[N, 5] p, int64[N] label) <int64[1] one = {1}> {
        e = Relu(x)
        s = ReduceSum(e, one)
        p = Div(e, s)
        label = ArgMax <axis = 1, keepdims = 0> (p) }"""
    x = np.abs(samples(300, 5)) * (samples(300, 5, seed=2) > -0.5)
    x[:, 0] += 0.1
    cal = calibrator(kind="probs")
    after = run(fold(text(body), cal, inputs=x), x)
    assert ((after["p"] == 0) == (x == 0)).all()
    assert not np.isnan(after["p"]).any()


def test_a_class_of_target_prior_0():
    cal = calibrator().retarget([0.0, 0.25, 0.25, 0.25, 0.25])
    x = samples(500)
    after = run(fold(full_model(), cal), x)
    assert (after["p"][:, 0] == 0).all()
    assert (after["label"] != 0).all()


@pytest.mark.parametrize("kind", ["logits", "probs"])
def test_one_score_for_two_classes(kind):
    nodes = [
        node("Gemm", ["x", "w1", "b1"], ["z"]),
        node("Sigmoid", ["z"], ["p"]),
        node("Greater", ["p", "half"], ["is"]),
        node("Cast", ["is"], ["label"], to=TensorProto.INT64),
    ]
    more = {
        "w1": np.ones((4, 1), np.float32), "b1": np.zeros(1, np.float32),
        "half": np.array(0.5, np.float32),
    }  # fmt: skip
    model = linear(nodes, {"p": (FLOAT, ["N", 1]), "label": (INT64, ["N", 1])}, more=more)
    cal = rp.PosteriorCalibrator([0.9, 0.1], kind=kind, temperature=1.5)
    tune = samples(400).sum(1) - 2
    labels = (tune + samples(400, seed=4)[:, 0] > -1).astype(int)
    cal.fit(tune if kind == "logits" else 1 / (1 + np.exp(-tune)), labels)
    folded = fold_report(model, cal)
    assert folded.added == []
    x = samples(1000)
    scores = x.sum(1, keepdims=True) if kind == "logits" else run(model, x)["p"]
    after = run(folded.model, x)
    assert np.abs(after["p"] - cal.predict_proba(scores)).max() < 1e-5
    assert (after["label"].ravel() == cal.predict(scores)).all()


def test_one_probability_of_an_unknown_kind():
    body = """m (float[N, 1] x) => (float[N, 1] p) <float a = {1.0}> {
        e = Exp(x)
        d = Add(e, a)
        p = Div(e, d) }"""
    cal = rp.PosteriorCalibrator([0.9, 0.1], kind="probs")
    cal.fit(np.array([0.1, 0.2, 0.3, 0.7]), [0, 0, 1, 1])
    folded = fold_report(text(body), cal)
    assert folded.added == ["Log", "Sub", "Log", "Sub", "Add", "Sigmoid"]
    x = samples(200, 1)
    p = run(text(body), x)["p"]
    assert np.abs(run(folded.model, x)["p"] - cal.predict_proba(p)).max() < 1e-5


def test_half_precision():
    model = linear(
        [node("Gemm", ["x", "w", "b"], ["z"]), node("Softmax", ["z"], ["p"], axis=1)],
        {"p": (TensorProto.FLOAT16, ["N", 5])}, dtype=np.float16,
    )  # fmt: skip
    cal = calibrator()
    folded = fold_report(model, cal)
    assert folded.added == []
    x = samples(2000).astype(np.float16)
    wanted = cal.predict_proba(np.log(run(model, x)["p"].astype(np.float64) + 1e-12))
    assert np.abs(run(folded.model, x)["p"] - wanted).max() < 5e-3


def test_half_precision_that_cannot_hold_the_weights():
    """Scaled weights beyond 65504 are not written: nodes are added instead."""
    weights = {"w": np.full((4, 5), 3e4, np.float16) * np.eye(4, 5, dtype=np.float16)}
    model = linear(
        [node("Gemm", ["small", "w"], ["z"]), node("Mul", ["x", "tiny"], ["small"])][::-1],
        {"z": (TensorProto.FLOAT16, ["N", 5])}, dtype=np.float16,
        more={**weights, "tiny": np.array(1e-4, np.float16)},
    )  # fmt: skip
    folded = fold_report(model, calibrator(temperature=0.4))
    assert folded.added == ["Mul", "Add"]


def test_a_correction_that_changes_nothing():
    uniform = rp.PosteriorCalibrator([0.5, 0.5])
    with pytest.warns(rp.RepriorWarning, match="target prior is the source prior"):
        uniform.fit(3 * np.eye(2), [0, 1])
    body = "m (float[N, 2] x) => (float[N, 2] p) { p = Softmax(x) }"
    folded = fold_report(text(body), uniform)
    assert (folded.added, folded.changed) == ([], [])
    assert calibrator_of(folded.model).strength_ == uniform.strength_


def test_the_calibrator_is_in_the_metadata():
    cal = calibrator(classes=["a", "b", "c", "d", "e"])
    read = calibrator_of(fold(gemm_model(), cal))
    assert read.strength_ == cal.strength_
    assert read.classes_.tolist() == ["a", "b", "c", "d", "e"]
    assert calibrator_of(gemm_model()) is None


def test_folding_twice_is_refused():
    folded = fold(gemm_model(), calibrator())
    with pytest.raises(FoldError, match="must not hold a calibrator yet"):
        fold(folded, calibrator())


@pytest.mark.parametrize(
    "given, words",
    [
        ({"n_classes": 7}, r"5 as the calibrator\. Got 'z' with 7"),
        ({"scores": "zz"}, r"Got 'zz'\. Did you mean 'z'\?"),
        ({"kind": "probs"}, r"Got kind='probs', but 'z' holds logits.*kind='logits'"),
    ],
)
def test_words(given, words):
    model = linear(
        [node("Gemm", ["x", "w", "b"], ["z"])],
        {"z": (FLOAT, ["N", given.get("n_classes", 5)])}, n_classes=given.get("n_classes", 5),
    )  # fmt: skip
    with pytest.raises(FoldError, match=words):
        fold(model, calibrator(kind=given.get("kind", "logits")), scores=given.get("scores"))


def test_logits_calibrator_on_probabilities():
    body = """m (float[N, 5] x) => (float[N, 5] p) <int64[1] one = {1}> {
        e = Exp(x)
        s = ReduceSum(e, one)
        p = Div(e, s) }"""
    with pytest.raises(FoldError, match=r"Got kind='logits', but 'p' holds probabilities"):
        fold(text(body), calibrator())
    with pytest.raises(FoldError, match=r"but 'p' holds probabilities.*pass scores='z'"):
        fold(full_model(), calibrator(), scores="p")
    with pytest.raises(FoldError, match=r"but 'z' holds logits"):
        fold(full_model(), calibrator(kind="probs"), scores="z")


def test_flattening_cannot_be_folded():
    with pytest.raises(FoldError, match="flattening depends on the input"):
        fold(gemm_model(), rp.EntropyReference(0.5, 0.1))


def test_not_a_calibrator_or_not_fitted():
    with pytest.raises(FoldError, match=r"must be a PosteriorCalibrator. Got dict"):
        fold(gemm_model(), {})
    with pytest.raises(rp.NotFittedError):
        fold(gemm_model(), rp.PosteriorCalibrator([0.5, 0.5]))


def test_classes_in_another_order():
    body = """m (float[N, 3] x) => (seq(map(string, float)) p) {
        q = Softmax(x)
        p = ai.onnx.ml.ZipMap <classlabels_strings = ["b", "a", "c"]> (q) }"""
    cal = calibrator(3, kind="probs", classes=["a", "b", "c"])
    with pytest.raises(FoldError, match=r"in the order of the model's, \['b', 'a', 'c'\]"):
        fold(text(body, ml=True), cal)


def test_a_named_place_is_tried_itself_where_the_traced_one_fails():
    """The softmax is taken twice: upstream of the first there is no place that agrees."""
    nodes = [
        node("Gemm", ["x", "w", "b"], ["z"]),
        node("Softmax", ["z"], ["q"], axis=1),
        node("Clip", ["q", "low", "high"], ["clipped"]),
        node("ReduceSum", ["clipped", "one"], ["sum"]),
        node("Div", ["clipped", "sum"], ["p"]),
        node("ArgMax", ["p"], ["label"], axis=1, keepdims=0),
    ]
    more = {
        "low": np.array(0.01, np.float32), "high": np.array(1.0, np.float32), "one": np.array([1])
    }  # fmt: skip
    model = linear(nodes, {"p": (FLOAT, ["N", 5]), "label": (INT64, ["N"])}, more=more)
    folded = fold_report(model, calibrator(kind="probs"), scores="p")
    assert folded.scores == "p"
    assert folded.parity.wrong_labels == 0


def test_given_inputs_are_used():
    folded = fold_report(full_model(), calibrator(), inputs=samples(123))
    assert folded.parity.samples == 123
    with pytest.raises(FoldError, match=r"must have the model's inputs, 'x'\. Got 'y'"):
        fold(full_model(), calibrator(), inputs={"y": samples(3)})


def test_inputs_that_tell_nothing_bring_a_warning():
    x = np.zeros((4, 4), np.float32)
    model = linear(
        [node("Gemm", ["x", "w", "b"], ["z"]), node("Softmax", ["z"], ["p"], axis=1)],
        {"p": (FLOAT, ["N", 5])}, more={"b": np.array([900, 0, 0, 0, 0], np.float32)},
    )  # fmt: skip
    with pytest.warns(rp.RepriorWarning, match="do not distinguish the folded model"):
        fold(model, calibrator(), inputs=x)


def test_verify_can_fail():
    model, cal = full_model(), calibrator()
    folded = fold(model, cal)
    assert verify(model, folded, cal).wrong_labels == 0
    with pytest.raises(FoldError, match="must decide as the calibrator does"):
        verify(model, model, cal)
    with pytest.raises(FoldError, match="differs from the calibrator's posterior"):
        verify(model, folded, calibrator(seed=5, temperature=1.01))


def test_verify_sees_labels_that_stayed_behind():
    """Sabotage: the labels read the scores of the original."""
    model, cal = full_model(), calibrator()
    folded = fold(model, cal)
    weights = {t.name: t for t in model.graph.initializer}
    folded.graph.initializer.extend([weights["b"], weights["w"]][:1])
    folded.graph.node.insert(0, node("Gemm", ["x", "w", "b"], ["old"]))
    folded.graph.node[-1].input[0] = "old"
    onnx.checker.check_model(folded)
    with pytest.raises(FoldError, match=r"Output 'label' has \d+ of \d+ labels other"):
        verify(model, folded, cal)


def test_verify_sees_another_task_that_changed(two_tasks):
    cal = calibrator()
    wrong = fold(fold_without_stamp(two_tasks, cal, "z1"), cal, scores="z2")
    with pytest.raises(FoldError, match=r"does not depend on the scores, but changed"):
        verify(two_tasks, wrong, cal, scores="z2")


def fold_without_stamp(model, cal, scores):
    folded = fold(model, cal, scores=scores)
    del folded.metadata_props[:]
    return folded


def test_fold_refuses_what_disagrees(monkeypatch, tmp_path):
    """With a broken tail and a broken head nothing is returned or written."""
    from reprior.onnx import folding

    def broken(graph, place, affine):
        from reprior.onnx.correction import Affine, append_correction

        return append_correction(graph, place, Affine(affine.scale, affine.bias * 1.01))

    monkeypatch.setattr(folding, "change_head", lambda *_: None)
    monkeypatch.setattr(folding, "append_correction", broken)
    with pytest.raises(FoldError, match="must decide as the calibrator does"):
        fold(full_model(), calibrator(), output=tmp_path / "out.onnx")
    assert list(tmp_path.iterdir()) == []


def test_without_proof():
    folded = fold_report(full_model(), calibrator(), verify=False)
    assert folded.parity is None
    verify(full_model(), folded.model, calibrator())


def decomposed(*outputs):
    """A softmax in pieces, as some exporters write it."""
    nodes = [
        node("Gemm", ["x", "w", "b"], ["z"]),
        node("Exp", ["z"], ["e"]),
        node("ReduceSum", ["e", "one"], ["s"]),
        node("Div", ["e", "s"], ["p"]),
        node("ArgMax", ["z"], ["label"], axis=1, keepdims=0),
    ]
    kinds = {"z": (FLOAT, ["N", 5]), "p": (FLOAT, ["N", 5]), "label": (INT64, ["N"])}
    shown = {name: kinds[name] for name in outputs}
    return linear(nodes, shown, more={"one": np.array([1])})


@pytest.mark.parametrize("kind", ["logits", "probs"])
def test_a_softmax_in_pieces(kind):
    """Of logits and probabilities, those the calibrator was fitted on are the scores."""
    folded = fold_report(decomposed("z", "p", "label"), calibrator(kind=kind))
    assert folded.added == []
    assert folded.parity.outputs == {"z": "log-scores", "p": "posterior", "label": "labels"}


def test_a_softmax_in_pieces_without_its_logits():
    folded = fold_report(decomposed("p", "label"), calibrator(kind="probs"))
    assert folded.added == ["Log", "Add", "Softmax", "ArgMax"]
    assert folded.parity.outputs == {"p": "posterior", "label": "labels"}


def test_labels_of_a_head_that_was_exported_twice():
    nodes = [
        node("Gemm", ["x", "w", "b"], ["z"]),
        node("Softmax", ["z"], ["p"], axis=1),
        node("Gemm", ["x", "w", "b"], ["again"]),
        node("ArgMax", ["again"], ["label"], axis=1, keepdims=0),
    ]
    model = linear(nodes, {"p": (FLOAT, ["N", 5]), "label": (INT64, ["N"])})
    folded = fold_report(model, calibrator(kind="probs"), scores="p")
    assert folded.added == ["ArgMax"]
    assert "again" not in {name for part in folded.model.graph.node for name in part.output}


def test_independent_labels_are_no_posterior():
    body = "m (float[N, 5] x) => (float[N, 5] p) { p = Sigmoid(x) }"
    with pytest.raises(FoldError, match=r"must fit the scores in 'p'.*must sum to 1"):
        fold(text(body), calibrator(kind="probs"))


@pytest.mark.parametrize(
    "options",
    [{"tune": "per_class"}, {"metric": "log_loss", "temperature": "bcts"}, {"separate": True}],
    ids=str,
)
def test_biases_and_two_maps_go_in(options):
    cal, model, x = calibrator(**options), full_model(), samples()
    for which in ("decision", "probability"):
        folded = fold(model, cal, map=which)
        assert operators(folded) == operators(model)
        before, after = run(model, x), run(folded, x)
        wanted = cal.predict_proba(before["z"], map=which)
        assert_follows(wanted, wanted.argmax(1), after["p"], after["label"])
        assert verify(model, folded, cal, map=which).wrong_labels == 0
        inside = calibrator_of(folded)
        np.testing.assert_allclose(inside.as_affine()[1], cal.as_affine(which)[1])


def test_two_maps_must_be_told_apart():
    with pytest.raises(FoldError, match="`map` must say which is meant"):
        fold(full_model(), calibrator(separate=True))
    with pytest.raises(FoldError, match="must be one of 'decision', 'probability'"):
        fold(full_model(), calibrator(separate=True), map="labels")


def test_a_scale_per_class_is_refused():
    with pytest.raises(FoldError, match=r"one scale for all classes.*temperature='bcts'"):
        fold(full_model(), calibrator(metric="log_loss", temperature="vector"))
