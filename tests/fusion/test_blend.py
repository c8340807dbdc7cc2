"""Blends of two models: exact weights, predictions, files, streams and refusals."""

from __future__ import annotations

import json

import dask.array
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.support import oracles
from tests.support.properties import FEWER_EXAMPLES

import reprior as rp
from reprior.exceptions import (
    FileFormatError,
    LabelsError,
    NotFittedError,
    OptionError,
    RepriorError,
    RepriorWarning,
    ScoresError,
)

ROUNDING = 1e-12


def log_softmax(z):
    z = np.asarray(z, np.float64)
    z = z - z.max(axis=-1, keepdims=True)
    return z - np.log(np.exp(z).sum(axis=-1, keepdims=True))


def scores_of(rng, n=300, n_classes=5, skill=(1.0, 1.5)):
    """Return logits of two models of different strength, and labels."""
    labels = rng.integers(n_classes, size=n)
    first, second = (
        rng.normal(size=(2, n, n_classes))
        + np.array(skill)[:, None, None] * np.eye(n_classes)[labels]
    )
    return {"small": first, "large": second}, labels


@pytest.fixture
def problem(rng):
    return scores_of(rng)


# ------------------------------------------------------------------------------------ the weight


@FEWER_EXAMPLES
@given(st.integers(0, 2**32), st.sampled_from(["accuracy", "macro_f1", "mean_iou", "gmean"]))
def test_the_weight_is_the_best_of_all_by_brute_force(seed, metric):
    rng = np.random.default_rng(seed)
    n_classes = int(rng.integers(2, 6))
    scores, labels = scores_of(rng, n=int(rng.integers(5, 40)), n_classes=n_classes)
    labels[:n_classes] = np.arange(n_classes)
    blend = rp.Blend(metric).fit(scores, labels)
    logs = [log_softmax(z) for z in scores.values()]
    grid = np.linspace(0, 1, 301)
    best = oracles.metrics_at(logs[0], labels, logs[1] - logs[0], grid)[metric].max()
    assert blend.best_score_ >= best - ROUNDING
    decided = blend.predict(scores)
    matrix = oracles.confusion(labels, decided, n_classes)
    low, high = blend.strength_interval_
    if high - low > 1e-6 or blend.strength_ == 0:
        assert oracles.metric(metric, matrix) == pytest.approx(blend.best_score_, abs=ROUNDING)
    assert sum(blend.weights_.values()) == pytest.approx(1.0)


def test_the_profile_is_that_along_the_difference_of_the_logarithms(problem):
    scores, labels = problem
    blend = rp.Blend().fit(scores, labels)
    logs = [log_softmax(z) for z in scores.values()]
    want = rp.StrengthProfile.along(logs[0], logs[1] - logs[0], labels)
    np.testing.assert_allclose(
        blend.profile_.switches.position, want.switches.position, rtol=1e-9, atol=1e-12
    )
    assert blend.profile_.best("balanced_accuracy").value == blend.best_score_


def test_the_posterior_is_the_weighted_product(problem):
    scores, labels = problem
    blend = rp.Blend().fit(scores, labels)
    a, b = blend.weights_.values()
    assert blend.models_ == ("small", "large")
    assert b == blend.strength_
    want = log_softmax(a * log_softmax(scores["small"]) + b * log_softmax(scores["large"]))
    np.testing.assert_allclose(blend.predict_log_proba(scores), want, atol=1e-12)
    np.testing.assert_allclose(blend.predict_proba(scores), np.exp(want), atol=1e-12)
    np.testing.assert_array_equal(blend.predict(scores), want.argmax(axis=1))


def test_the_first_model_stays_where_the_second_does_not_help(rng):
    scores, labels = scores_of(rng, skill=(50.0, 0.0))
    blend = rp.Blend().fit(scores, labels)
    assert blend.weights_ == {"small": 1.0, "large": 0.0}
    np.testing.assert_array_equal(blend.predict(scores), scores["small"].argmax(axis=1))


def test_constraints_selection_folds_and_bootstrap(problem):
    scores, labels = problem
    plain = rp.Blend("accuracy").fit(scores, labels)
    limited = rp.Blend("accuracy", subject_to="recall[0] >= baseline + 0.05").fit(scores, labels)
    assert "subject to   recall[0] >= baseline + 0.05" in limited.summary()
    recall = rp.metrics.find_metric("recall[0]", n_classes=5)
    gained = recall(limited.counts_) - recall(limited.profile_.baseline)
    assert gained >= 0.05 - ROUNDING
    assert limited.best_score_ <= plain.best_score_
    careful = rp.Blend("accuracy", selection="one_se").fit(scores, labels)
    assert 0 < careful.strength_ < plain.strength_
    judged = rp.Blend("accuracy", cv=5, n_bootstrap=100, random_state=1).fit(scores, labels)
    assert judged.strength_ == plain.strength_
    assert judged.cross_validation_.score <= plain.best_score_
    low, high = judged.uncertainty_.strength_interval
    assert 0 <= low < judged.strength_ < high <= 1
    text = judged.summary()
    for word in ("small", "large", "blend", "held out", "90% sure", "balanced_accuracy"):
        assert word in text


@pytest.mark.parametrize("bounds", [(0.2, 0.9), (-1.0, 2.0)])
def test_bounds_are_kept(problem, bounds):
    scores, labels = problem
    blend = rp.Blend("accuracy", bounds=bounds).fit(scores, labels)
    assert blend.profile_.bounds == bounds
    assert bounds[0] <= blend.strength_ <= bounds[1]
    assert blend.summary()


# -------------------------------------------------------------------------------------- the scores


def test_models_may_have_different_kinds_of_scores(problem):
    scores, labels = problem
    want = rp.Blend().fit(scores, labels)
    mixed = {
        "small": np.exp(log_softmax(scores["small"])),
        "large": log_softmax(scores["large"]).astype(np.float32),
    }
    kinds = {"small": "probs", "large": "log_probs"}
    blend = rp.Blend(kind=kinds).fit(mixed, labels)
    assert blend.strength_ == pytest.approx(want.strength_, abs=1e-5)
    np.testing.assert_allclose(blend.predict_proba(mixed), want.predict_proba(scores), atol=1e-5)


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_decisions_are_those_that_were_counted_in_every_precision(problem, dtype):
    scores, labels = problem
    scores = {name: z.astype(dtype) for name, z in scores.items()}
    blend = rp.Blend("accuracy").fit(scores, labels)
    assert blend.predict_proba(scores).dtype == dtype
    assert (blend.predict(scores) == labels).mean() == pytest.approx(blend.best_score_)


def test_tensors_maps_frames_and_dask_arrays_give_the_same_blend(problem):
    pd = pytest.importorskip("pandas")
    scores, labels = problem
    want = rp.Blend().fit(scores, labels)
    tensors = {name: torch.as_tensor(z) for name, z in scores.items()}
    blend = rp.Blend().fit(tensors, torch.as_tensor(labels))
    assert blend.strength_ == want.strength_
    assert isinstance(blend.predict_proba(tensors), torch.Tensor)
    maps = {name: np.moveaxis(z.reshape(10, 30, 5), -1, 1) for name, z in scores.items()}
    blend = rp.Blend(class_axis=1).fit(maps, labels.reshape(10, 30))
    assert blend.strength_ == want.strength_
    np.testing.assert_array_equal(blend.predict(maps).reshape(-1), want.predict(scores))
    names = np.array(list("abcde"))
    frames = {name: pd.DataFrame(z, columns=names) for name, z in scores.items()}
    frames["large"] = frames["large"][list("ecabd")]
    blend = rp.Blend().fit(frames, pd.Series(names[labels]))
    assert blend.strength_ == want.strength_
    np.testing.assert_array_equal(blend.predict(frames), names[want.predict(scores)])
    lazy = {name: dask.array.from_array(z, chunks=(64, 5)) for name, z in scores.items()}
    blend = rp.Blend().fit(lazy, dask.array.from_array(labels, chunks=100))
    assert blend.strength_ == want.strength_
    np.testing.assert_array_equal(np.asarray(blend.predict(lazy)), want.predict(scores))
    named = rp.Blend(classes=names).fit(lazy, dask.array.from_array(labels, chunks=100))
    np.testing.assert_array_equal(np.asarray(named.predict(lazy)), names[want.predict(scores)])


def test_one_score_per_sample_is_that_of_the_second_class(rng):
    labels = rng.integers(2, size=200)
    margins = {name: rng.normal(size=200) + 2 * labels - 1 for name in ("a", "b")}
    columns = {name: np.stack([np.zeros(200), z], axis=1) for name, z in margins.items()}
    want = rp.Blend().fit(columns, labels)
    for given_as in (margins, {name: z[:, None] for name, z in margins.items()}):
        blend = rp.Blend().fit(given_as, labels)
        assert blend.strength_ == want.strength_
        found = blend.predict_proba(given_as)
        assert found.shape == given_as["a"].shape
        np.testing.assert_allclose(found.reshape(-1), want.predict_proba(columns)[:, 1])
        np.testing.assert_array_equal(blend.predict(given_as), want.predict(columns))


def test_ignored_samples_and_weights_are_left_out(problem):
    scores, labels = problem
    weights = np.where(np.arange(300) < 200, 1.0, 0.0)
    some = {name: z[:200] for name, z in scores.items()}
    want = rp.Blend().fit(some, labels[:200])
    assert rp.Blend().fit(scores, labels, weights).strength_ == want.strength_
    pd = pytest.importorskip("pandas")
    assert rp.Blend().fit(scores, labels, pd.Series(weights)).strength_ == want.strength_
    maps = {name: z.reshape(10, 30, 5) for name, z in scores.items()}
    blend = rp.Blend("mean_iou_per_image").fit(maps, labels.reshape(10, 30))
    assert 0 < blend.best_score_ < 1
    marked = np.where(weights > 0, labels, 99)
    assert rp.Blend(ignore_index=99).fit(scores, marked).strength_ == want.strength_


def test_chunks_give_the_same_blend_in_one_pass(problem):
    scores, labels = problem
    want = rp.Blend(cv=3).fit(scores, labels)
    passes = []

    def chunks():
        passes.append(1)
        for rows in np.array_split(np.arange(300), 7):
            yield {name: z[rows] for name, z in scores.items()}, labels[rows]

    blend = rp.Blend().fit_stream(chunks)
    assert blend.strength_ == want.strength_
    assert len(passes) == 2  # one of them reads the first chunk alone
    blend = rp.Blend(cv=3).fit_stream(chunks)
    assert blend.cross_validation_.score == want.cross_validation_.score
    names = np.array(list("abcde"))
    named = rp.Blend(classes=names).fit_stream(list(chunks()))
    assert named.predict(scores)[0] in names


def test_classes_of_probability_0_are_vetoed(rng):
    scores, labels = scores_of(rng)
    probs = {name: np.exp(log_softmax(z)) for name, z in scores.items()}
    probs["large"][:, 4] = 0.0
    probs["large"] /= probs["large"].sum(axis=1, keepdims=True)
    blend = rp.Blend("accuracy", kind="probs", bounds=(0.1, 1.0)).fit(probs, labels)
    assert not (blend.predict(probs) == 4).any()
    assert (blend.predict(probs) == labels).mean() == pytest.approx(blend.best_score_)
    sure = np.array([[0.9, 0.1], [0.2, 0.8]])
    first = np.array([[1.0, 0.0], [0.5, 0.5]])
    second = np.array([[0.0, 1.0], [0.5, 0.5]])
    with pytest.raises(ScoresError, match=r"`scores\['b'\]` must leave some class.*\[0, :\]"):
        rp.Blend(kind="probs").fit({"a": first, "b": second}, [0, 1])
    fitted = rp.Blend(kind="probs", bounds=(0.1, 1)).fit({"a": sure, "b": sure[::-1]}, [0, 1])
    with pytest.raises(ScoresError, match="every class has probability 0 in one of them"):
        fitted.predict({"a": first, "b": second})


# ----------------------------------------------------------------------------------------- files


def test_a_negative_weight_refuses_a_probability_of_0():
    first = np.array([[0.9, 0.1], [0.45, 0.55], [0.3, 0.7]])
    second = np.array([[0.5, 0.5], [0.1, 0.9], [0.8, 0.2]])
    blend = rp.Blend("accuracy", kind="probs", bounds=(-2, 0))
    blend.fit({"a": first, "b": second}, [0, 0, 1])
    assert blend.strength_ < 0
    with pytest.raises(ScoresError, match=r"scores\['b'\].* Got scores\['b'\]\[1, :\], in which"):
        blend.predict_proba({"a": first[:2], "b": np.array([[0.5, 0.5], [0.0, 1.0]])})
    vetoed = {"a": np.array([[0.0, 1.0]]), "b": np.array([[0.0, 1.0]])}
    np.testing.assert_array_equal(blend.predict_proba(vetoed), [[0.0, 1.0]])


def test_a_file_holds_what_predicts(problem, tmp_path):
    scores, labels = problem
    blend = rp.Blend("macro_f1", kind={"small": "logits", "large": "logits"}).fit(scores, labels)
    blend.save(tmp_path / "blend.json")
    again = rp.load(tmp_path / "blend.json")
    assert isinstance(again, rp.Blend)
    assert again.weights_ == blend.weights_
    assert again.best_score_ == blend.best_score_
    np.testing.assert_array_equal(again.predict_proba(scores), blend.predict_proba(scores))
    assert "no tuning data at hand" in again.summary()
    assert repr(again) == repr(blend).replace(repr(blend.kind), "'logits'")
    again.save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_text() == (tmp_path / "blend.json").read_text()


def test_a_file_holds_the_costs_and_says_that_a_function_was_one(problem, tmp_path):
    scores, labels = problem
    cost = rp.Cost(1.0 - np.diag(np.arange(5.0)), name="fee")
    blend = rp.Blend(cost, subject_to="fee <= baseline").fit(scores, labels)
    blend.save(tmp_path / "costs.json")
    again = rp.load(tmp_path / "costs.json")
    assert again.metric == cost
    np.testing.assert_array_equal(again.metric.matrix, cost.matrix)
    assert again.fit(scores, labels).strength_ == blend.strength_

    def diagonal(matrices):
        return matrices.diagonal(axis1=1, axis2=2).sum(axis=1)

    rp.Blend(rp.metrics.from_confusion(diagonal)).fit(scores, labels).save(tmp_path / "f.json")
    again = rp.load(tmp_path / "f.json")
    assert "diagonal (a function of Python, which no file holds)" in again.summary()
    again.save(tmp_path / "g.json")
    assert (tmp_path / "g.json").read_text() == (tmp_path / "f.json").read_text()


CHANGES = {
    "weights": (lambda d: d["models"][0].update(weight=0.9), "models"),
    "strength": (lambda d: d.update(strength=0.123), "strength"),
    "one model": (lambda d: d.update(models=d["models"][:1]), "models"),
    "same name": (lambda d: d["models"][0].update(name="large"), "models"),
    "kind": (lambda d: d["models"][0].update(kind="scores"), "models"),
    "classes": (lambda d: d.update(classes=["a", "b"]), "classes"),
    "n_classes": (lambda d: d.update(n_classes=1), "n_classes"),
    "interval": (lambda d: d.update(strength_interval=[1, 0]), "strength_interval"),
    "version": (lambda d: d.update(format_version=9), "format_version 9"),
}


@pytest.mark.parametrize("change, said", CHANGES.values(), ids=CHANGES)
def test_a_damaged_file_is_refused(problem, tmp_path, change, said):
    path = tmp_path / "blend.json"
    rp.Blend().fit(*problem).save(path)
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))
    with pytest.raises(FileFormatError, match=said):
        rp.load(path)


# -------------------------------------------------------------------------------------- refusals


def test_wrong_arguments_are_one_sentence(problem):
    scores, labels = problem
    small, large = scores.values()
    with pytest.raises(NotFittedError, match="This Blend is not fitted"):
        rp.Blend().predict(scores)
    for given_as, said in (
        (small, "must be a mapping from model to scores. Got ndarray"),
        ({"a": small}, "must be of two models, each with a name. Got 1: 'a'"),
        ({"a": small, "b": large, "c": small}, "Got 3"),
        ({"a": small, "b": large[:, :4]}, r"one shape.*\(300, 4\) for 'b'"),
        ({"a": small, 1: large}, "each with a name"),
        ({"a": np.zeros(()), "b": np.zeros(())}, "must have an axis of samples"),
    ):
        with pytest.raises(ScoresError, match=said):
            rp.Blend().fit(given_as, labels)
    bad = large.copy()
    bad[7, 2] = np.nan
    with pytest.raises(ScoresError, match=r"`scores\['large'\]` must not.*'\]\[7, 2\]"):
        rp.Blend().fit({"small": small, "large": bad}, labels)
    with pytest.raises(ScoresError, match=r"`scores\['small'\]` must not"):
        rp.Blend().fit({"small": bad, "large": large}, labels)
    blend = rp.Blend().fit(scores, labels)
    with pytest.raises(ScoresError, match=r"scores\['large'\]\[7, 2\]=nan"):
        blend.predict({"small": small, "large": bad})
    with pytest.raises(ScoresError, match="must be of the models of the blend, 'small', 'large'"):
        blend.predict({"small": small, "huge": large})
    with pytest.raises(ScoresError, match="one shape"):
        blend.predict({"small": small, "large": large[:5]})
    with pytest.raises(LabelsError, match="labels"):
        rp.Blend().fit(scores, labels + 1)
    with pytest.raises(LabelsError, match="at least one sample to count"):
        rp.Blend(ignore_index=0).fit(scores, np.zeros(300, int))


@pytest.mark.parametrize(
    "options, said",
    [
        ({"selection": "shrunk"}, "`selection` must be one of 'max', 'smooth', 'bagged', 'one_se'"),
        ({"bounds": (1, 0)}, "`bounds`"),
        ({"cv": 1}, "`cv` must be at least 2 folds"),
        ({"n_bootstrap": 1}, "`n_bootstrap`"),
        ({"kind": "scores"}, "`kind` must be one of"),
        ({"kind": {"small": "logits"}}, "`kind` must be one kind, or one for each of the models"),
        ({"classes": ["a", "b"]}, "`classes` must name every class of `scores`, 5"),
        ({"metric": "auc"}, "`metric`"),
        ({"subject_to": "recall"}, "`subject_to`"),
    ],
)
def test_wrong_options_are_refused(problem, options, said):
    with pytest.raises(OptionError, match=said):
        rp.Blend(**options).fit(*problem)


def test_streams_refuse_what_cannot_be_read_together(problem):
    scores, labels = problem
    with pytest.raises(LabelsError, match="at least one sample"):
        rp.Blend().fit_stream([])
    with pytest.raises(OptionError, match="for all chunks or for none"):
        rp.Blend().fit_stream([(scores, labels), (scores, labels, np.ones(300))])
    with pytest.raises(RepriorError, match=r"In chunk 1"):
        rp.Blend().fit_stream([(scores, labels), ({"small": scores["small"]}, labels)])


def test_the_summary_names_what_the_weight_costs_others(rng):
    labels = np.repeat([0, 1], [900, 100])
    often = np.tile([1.0, 0.0], (1000, 1)) + 0.8 * np.eye(2)[labels] + rng.normal(size=(1000, 2))
    rare = np.tile([-2.0, 0.0], (1000, 1)) + 0.8 * np.eye(2)[labels] + rng.normal(size=(1000, 2))
    blend = rp.Blend("recall[1]").fit({"often": often, "rare": rare}, labels)
    assert "tuning for recall[1] costs: accuracy" in blend.summary()


def test_likely_mistakes_are_warned_of(problem):
    scores, labels = problem
    turned = {**scores, "large": np.roll(3 * np.eye(5)[labels], 1, axis=1) + scores["small"]}
    with pytest.warns(RepriorWarning, match="Model 'large' alone is worse than chance"):
        rp.Blend().fit(turned, labels)
    probs = {**scores, "large": np.exp(log_softmax(scores["large"]))}
    with pytest.warns(rp.RepriorWarning, match="declared as kind='logits'"):
        rp.Blend().fit(probs, labels)
    with pytest.warns(RepriorWarning, match="decide alike: no weight from 0 to 1"):
        rp.Blend().fit({"a": scores["small"], "b": 2 * scores["small"]}, labels)
    kept = labels < 4
    some = {name: z[kept] for name, z in scores.items()}
    with pytest.warns(RepriorWarning, match="1 of 5 classes have no tuning labels: 4"):
        rp.Blend().fit(some, labels[kept])
