"""PosteriorCalibrator beyond one number: maps, costs, files, inputs of every library."""

from __future__ import annotations

import ast
import copy
import json
import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.special import softmax
from tests.calibrator.shared import NAMES, PRIOR, VALID, K, case, fit

import reprior as rp

#: Two float64 routes to the same posterior.
ROUNDING = 1e-12

SEPARATE = [name for name in VALID if name.startswith("separate")]


@pytest.fixture(scope="module")
def fitted():
    return {name: fit(options) for name, options in VALID.items()}


@pytest.fixture(scope="module")
def fresh():
    return case(seed=99)[0]


@pytest.mark.parametrize("name", VALID)
def test_predict_is_the_arg_max_of_the_posterior_unless_separate(fitted, fresh, name):
    calibrator = fitted[name]
    which = {"map": "decision"} if name in SEPARATE else {}
    posterior = calibrator.predict_proba(fresh, **which)
    np.testing.assert_array_equal(calibrator.predict(fresh), posterior.argmax(1))
    np.testing.assert_allclose(posterior.sum(1), 1.0)
    log = calibrator.predict_log_proba(fresh, **which)
    np.testing.assert_allclose(np.exp(log), posterior, atol=ROUNDING)


@pytest.mark.parametrize("name", VALID)
def test_the_affine_map_is_the_posterior(fitted, fresh, name):
    calibrator = fitted[name]
    for which in ("decision", "probability"):
        scale, bias = calibrator.as_affine(map=which)
        np.testing.assert_allclose(
            softmax(scale * fresh + bias, axis=1),
            calibrator.predict_proba(fresh, map=which),
            atol=ROUNDING,
        )
        one = calibrator.one_map(which)
        assert one.probability_map_ is None
        np.testing.assert_array_equal(
            one.predict_proba(fresh), calibrator.predict_proba(fresh, map=which)
        )


@pytest.mark.parametrize("name", VALID)
def test_counts_are_those_of_predict_on_the_tuning_labels(fitted, name):
    scores, labels = case()
    calibrator = fitted[name]
    predicted = calibrator.predict(scores)
    np.testing.assert_array_equal(calibrator.counts_.predicted, np.bincount(predicted, minlength=K))
    if "log_loss" not in name[:8]:
        metric = VALID[name].get("metric", "balanced_accuracy")
        expected = rp.metrics.evaluate(metric, labels, predicted)
        assert calibrator.best_score_ == pytest.approx(expected, abs=ROUNDING)


@pytest.mark.parametrize("name", VALID)
def test_files_keep_everything_that_is_applied(fitted, fresh, tmp_path, name):
    calibrator, path = fitted[name], tmp_path / "cal.json"
    calibrator.save(path)
    again = rp.load(path)
    np.testing.assert_array_equal(again.predict(fresh), calibrator.predict(fresh))
    np.testing.assert_array_equal(again.predict_proba(fresh), calibrator.predict_proba(fresh))
    for option in ("tune", "separate"):
        assert getattr(again, option) == getattr(calibrator, option)
    assert (again.best_score_, again.strength_) == (calibrator.best_score_, calibrator.strength_)
    again.save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == path.read_bytes()
    assert "tuning data at hand" in again.summary()
    # What it would be fitted as again is a valid combination, too.
    rp.PosteriorCalibrator(
        PRIOR, metric=again.metric, tune=again.tune, temperature=again.temperature,
        separate=again.separate,
    ).fit(*case(n=100))  # fmt: skip


@pytest.mark.parametrize("name", VALID)
def test_only_files_that_need_it_are_of_a_newer_version(fitted, tmp_path, name):
    fitted[name].save(tmp_path / "cal.json")
    assert json.loads((tmp_path / "cal.json").read_text())["format_version"] == 3
    without_matrices = copy.copy(fitted[name])
    without_matrices._confusions = None
    without_matrices.save(tmp_path / "cal.json")
    document = json.loads((tmp_path / "cal.json").read_text())
    new = {"biases", "scales", "probability_map"} & set(document)
    assert document["format_version"] == (2 if new else 1)
    plain = fitted[name].biases_ is None and name not in SEPARATE
    assert plain == (not new)


@pytest.mark.parametrize("name", SEPARATE)
def test_two_maps_must_be_told_apart(fitted, fresh, name):
    calibrator = fitted[name]
    for refused in (calibrator.as_affine, calibrator.one_map):
        with pytest.raises(rp.OptionError, match="`map` must say which is meant"):
            refused()
    with pytest.raises(rp.OptionError, match="`map` must be one of 'decision', 'probability'"):
        calibrator.predict_proba(fresh, map="both")
    np.testing.assert_array_equal(
        calibrator.predict_proba(fresh), calibrator.predict_proba(fresh, map="probability")
    )
    text = calibrator.summary()
    assert "map for decisions, used by predict" in text
    assert "map for probabilities, used by predict_proba" in text


def test_separate_maps_are_those_of_two_calibrators(fitted, fresh):
    both, decision, probability = (fitted[name] for name in ("separate", "plain", "log_loss"))
    np.testing.assert_array_equal(both.predict(fresh), decision.predict(fresh))
    np.testing.assert_array_equal(both.predict_proba(fresh), probability.predict_proba(fresh))
    assert both.strength_ == decision.strength_
    assert both.probability_map_.strength == probability.strength_
    assert both.one_map("probability").metric == "log_loss"
    assert decision.one_map() is decision


@pytest.mark.parametrize("selection", ["smooth", "balanced_log_loss"])
@pytest.mark.parametrize("tune", ["strength", "per_class"])
def test_one_map_says_nothing_of_the_other(fresh, tune, selection):
    options = {"separate": True, "label_prior": PRIOR, "subject_to": "accuracy >= baseline - 0.05"}
    options |= {"tune": tune, "selection": selection}
    if tune == "strength":
        options["n_bootstrap"] = 20
    both = fit(options)
    assert "log_loss" in both.summary()
    decision, probability = both.one_map("decision"), both.one_map("probability")
    assert decision.log_loss_ is None
    assert "log_loss (" not in decision.summary()
    assert decision.summary().splitlines()[-1] == both.summary().splitlines()[-2]
    assert probability.summary().splitlines()[-2:] == [
        "tuned for    log_loss",
        "(loaded or retargeted: no tuning data at hand)",
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rp.RepriorWarning)
        again = {one: copy.copy(one).fit(*case()) for one in (decision, probability)}
    for one, other in again.items():
        np.testing.assert_allclose(other.predict_proba(fresh), one.predict_proba(fresh))


@pytest.mark.parametrize("name", VALID)
def test_retargeting_to_the_same_prior_changes_nothing(fitted, fresh, name):
    calibrator = fitted[name]
    same = calibrator.retarget("uniform")
    np.testing.assert_allclose(
        same.predict_proba(fresh), calibrator.predict_proba(fresh), atol=ROUNDING
    )
    assert same.profile_ is same.counts_ is same.cross_validation_ is same.uncertainty_ is None
    assert same.log_loss_ is None


def test_biases_are_retargeted_by_the_strength(fitted):
    calibrator = fitted["per_class"]
    moved = calibrator.retarget(PRIOR)
    expected = calibrator.biases_ + calibrator.strength_ * (np.log(PRIOR) - np.log(1 / K))
    np.testing.assert_allclose(moved.biases_, expected)
    assert moved.strength_ == calibrator.strength_


OTHER = np.array([0.1, 0.2, 0.3, 0.4])


@pytest.mark.parametrize("name", [name for name in VALID if "log_loss-" in name or "separ" in name])
def test_probabilities_are_retargeted_by_the_rule_of_bayes(fitted, fresh, name):
    calibrator = fitted[name]
    p = calibrator.predict_proba(fresh) * OTHER
    moved = calibrator.retarget(OTHER)
    wanted = p / p.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(moved.predict_proba(fresh), wanted, atol=ROUNDING)
    back = moved.retarget("uniform")
    np.testing.assert_allclose(
        back.predict_proba(fresh), calibrator.predict_proba(fresh), atol=ROUNDING
    )
    if calibrator.separate and calibrator.biases_ is None:
        decisions = fresh + calibrator.strength_ * (np.log(OTHER) - np.log(PRIOR))
        np.testing.assert_array_equal(moved.predict(fresh), decisions.argmax(1))


def test_retargeted_probabilities_are_the_truth():
    """A source prior that names the frequent twice as frequent, in logarithms: λ is a half."""
    rng = np.random.default_rng(0)
    labels = rng.integers(K, size=40_000)
    evidence = 1.5 * (rng.normal(size=(labels.size, K)) + 1.5 * np.eye(K)[labels])
    scores = 2.0 * (evidence + np.log(PRIOR))
    said = PRIOR**2 / (PRIOR**2).sum()
    result = rp.PosteriorCalibrator(said, metric="log_loss").fit(scores, labels)
    assert result.strength_ / result.temperature_ == pytest.approx(0.5, abs=0.02)
    truth = softmax(evidence + np.log(OTHER), axis=1)
    error = np.abs(result.retarget(OTHER).predict_proba(scores) - truth).max()
    assert error < 0.02  # what 40,000 labels leave; by the strength it would be 0.2


def test_the_uncorrected_model_stays_so_for_any_target(fitted, fresh):
    with pytest.warns(rp.RepriorWarning, match="`retarget` changes nothing at strength 0"):
        plain = fitted["log_loss"].uncorrected().retarget(OTHER)
    np.testing.assert_allclose(plain.predict_proba(fresh), softmax(fresh, 1), atol=ROUNDING)


@pytest.mark.parametrize("name", VALID)
def test_uncorrected_is_the_model_as_it_is(fitted, fresh, name):
    plain = fitted[name].uncorrected()
    np.testing.assert_allclose(plain.predict_proba(fresh), softmax(fresh, 1), atol=ROUNDING)
    assert plain.probability_map_ is plain.biases_ is plain.scales_ is None


def test_costs_decide_on_the_probabilities(fitted, fresh):
    costs = 1.0 - np.eye(K)
    costs[3] *= 20.0
    for name in ("log_loss", "separate"):
        calibrator = fitted[name]
        expected = (calibrator.predict_proba(fresh) @ costs).argmin(1)
        np.testing.assert_array_equal(calibrator.predict(fresh, costs=costs), expected)
        assert (expected == 3).sum() > (calibrator.predict(fresh) == 3).sum()
    plain = fitted["log_loss"]
    np.testing.assert_array_equal(plain.predict(fresh, costs=1.0 - np.eye(K)), plain.predict(fresh))
    with_abstention = np.column_stack([1.0 - np.eye(K), np.full(K, 0.3)])
    decided = plain.predict(fresh, costs=with_abstention)
    assert set(np.unique(decided)) == set(range(K + 1))
    with pytest.raises(rp.OptionError, match="`costs` must have shape"):
        plain.predict(fresh, costs=[1.0, 2.0])


def test_costs_with_names_and_single_scores():
    scores, labels = case()
    named = fit({"metric": "log_loss", "classes": NAMES}, scores, np.array(NAMES)[labels])
    assert set(named.predict(scores, costs=1 - np.eye(K))) <= set(NAMES)
    two = labels < 2
    margin = scores[two, 1] - scores[two, 0]
    single = rp.PosteriorCalibrator([0.75, 0.25], metric="log_loss").fit(margin, labels[two])
    p = single.predict_proba(margin)
    decided = single.predict(margin, costs=[[0, 1], [5, 0]])
    np.testing.assert_array_equal(decided, (5 * p > 1 - p).astype(int))


INPUTS = ["log_loss-vector", "per_class-fit", "separate-bcts", "cv-bootstrap"]


@pytest.mark.parametrize("name", INPUTS)
def test_torch_in_torch_out(fitted, name):
    scores, labels = case()
    z, y = torch.tensor(scores), torch.tensor(labels)
    calibrator = fit(VALID[name], z, y)
    assert calibrator.strength_ == pytest.approx(fitted[name].strength_, rel=ROUNDING)
    posterior = calibrator.predict_proba(z)
    assert isinstance(posterior, torch.Tensor)
    np.testing.assert_allclose(posterior.numpy(), fitted[name].predict_proba(scores), atol=1e-9)
    np.testing.assert_array_equal(calibrator.predict(z).numpy(), fitted[name].predict(scores))


@pytest.mark.parametrize("name", INPUTS)
def test_frames_and_names(fitted, name):
    scores, labels = case()
    frame = pd.DataFrame(scores[:, ::-1], columns=NAMES[::-1])
    series = pd.Series(np.array(NAMES)[labels])
    calibrator = fit({**VALID[name], "classes": NAMES}, frame, series)
    assert calibrator.strength_ == fitted[name].strength_
    np.testing.assert_array_equal(
        calibrator.predict(frame), np.array(NAMES)[fitted[name].predict(scores)]
    )


@pytest.mark.parametrize("kind", ["probs", "log_probs"])
@pytest.mark.parametrize("name", ["log_loss-bcts", "per_class-fit", "separate"])
def test_kinds_are_one_model(fitted, kind, name):
    scores, labels = case()
    p = softmax(scores, axis=1)
    values = p if kind == "probs" else np.log(p)
    calibrator = fit({**VALID[name], "kind": kind}, values, labels)
    np.testing.assert_allclose(
        calibrator.predict_proba(values), fitted[name].predict_proba(scores), atol=1e-6
    )


def test_maps_with_ignored_pixels():
    scores, labels = case(n=600)
    maps = np.moveaxis(scores.reshape(25, 4, 6, K), -1, 1)
    dense = labels.reshape(25, 4, 6).copy()
    dense[:, 0, 0] = 255
    options = {"class_axis": 1, "ignore_index": 255}
    kept = dense.reshape(-1) != 255
    for name in ("log_loss-vector", "separate"):
        a = fit({**VALID[name], **options}, maps, dense)
        b = fit(VALID[name], scores[kept], labels[kept])
        np.testing.assert_allclose(a.as_affine("decision")[1], b.as_affine("decision")[1])
        assert a.predict(maps).shape == dense.shape
    # Shrinkage is validated on whole images there, on any samples here.
    biased = fit({**VALID["per_class-fit"], **options}, maps, dense)
    at = {"source_prior": PRIOR, "class_axis": 1, "ignore_index": 255}
    np.testing.assert_array_equal(biased.biases_, rp.tune_per_class(maps, dense, **at).biases)
    assert biased.predict(maps).shape == dense.shape
    both = fit({**options, "cv": 5, "n_bootstrap": 20}, maps, dense)
    assert len(both.cross_validation_.scores) == 5


def test_sample_weights_are_repetitions():
    scores, labels = case(n=300)
    weight = np.random.default_rng(0).integers(1, 4, 300)
    for name in ("log_loss", "per_class-fit", "separate-vector-per_class"):
        a = fit({**VALID[name], "random_state": 1}, scores, labels, sample_weight=weight * 1.0)
        b = fit(VALID["log_loss"], np.repeat(scores, weight, 0), np.repeat(labels, weight))
        if name == "log_loss":
            assert a.strength_ == pytest.approx(b.strength_, rel=1e-6)
            assert a.best_score_ == pytest.approx(b.best_score_, rel=1e-9)
        assert np.isfinite(a.predict_proba(scores)).all()


def test_a_class_of_target_prior_0():
    scores, labels = case()
    target = np.array([0.5, 0.3, 0.2, 0.0])
    for name in ("log_loss", "log_loss-vector", "per_class-fit", "separate-bcts"):
        calibrator = fit({**VALID[name], "target_prior": target}, scores, labels)
        assert (calibrator.predict_proba(scores)[:, 3] == 0.0).all()
        assert 3 not in calibrator.predict(scores)
        assert 3 in calibrator.retarget("uniform").predict(scores)


def test_repr_and_not_fitted():
    calibrator = rp.PosteriorCalibrator(PRIOR, separate=True)
    for refused in (
        calibrator.summary, calibrator.as_affine, calibrator.one_map, calibrator.uncorrected,
        lambda: calibrator.predict(np.zeros((1, K))), lambda: calibrator.retarget("uniform"),
    ):  # fmt: skip
        with pytest.raises(rp.NotFittedError, match=r"is not fitted\. Call fit"):
            refused()


@pytest.mark.parametrize(
    "options",
    [
        {"metric": "log_loss", "temperature": "bcts"},
        {"metric": "log_loss", "temperature": "vector"},
        {"tune": "per_class", "separate": True, "temperature": "bcts"},
        {"tune": "per_class"},
    ],
)
def test_a_class_that_was_gone_gets_its_bias_back(options):
    rng, prior = np.random.default_rng(0), np.array([0.7, 0.2, 0.1])
    labels = rng.choice(3, 600, p=prior)
    scores = 2 * (rng.normal(size=(600, 3)) + 1.3 * np.eye(3)[labels]) + np.log(prior)
    result = rp.PosteriorCalibrator(prior, **options).fit(scores, labels)
    gone = result.retarget([0.5, 0.5, 0.0])
    assert (gone.predict_proba(scores)[:, 2] == 0).all()
    for back in (gone.retarget("uniform"), gone.retarget([0.0, 0.3, 0.7]).retarget("uniform")):
        for which in ("decision", "probability"):
            np.testing.assert_allclose(
                back.predict_proba(scores, map=which),
                result.predict_proba(scores, map=which),
                atol=1e-12,
            )
    np.testing.assert_array_equal(gone.uncorrected().predict(scores), scores.argmax(axis=1))


def test_costs_of_a_frame_are_put_in_the_order_of_the_classes():
    rng, names = np.random.default_rng(1), ["ant", "bee", "cow"]
    labels = rng.choice(3, 300)
    scores = rng.normal(size=(300, 3)) + 2 * np.eye(3)[labels]
    result = rp.PosteriorCalibrator([0.5, 0.3, 0.2], classes=names).fit(
        scores, np.array(names)[labels]
    )
    costs = pd.DataFrame([[0, 1, 9], [5, 0, 1], [2, 7, 0]], index=names, columns=names)
    known = result.predict(scores, costs=costs.to_numpy())
    other = ["cow", "ant", "bee"]
    for frame in (costs, costs.loc[other, other], costs[other], costs.loc[other]):
        np.testing.assert_array_equal(result.predict(scores, costs=frame), known)
    plain = costs.set_axis(["x", "y", "z"], axis=0).set_axis([10, 20, 30], axis=1)
    np.testing.assert_array_equal(result.predict(scores, costs=plain), known)
    asked = costs.assign(ask=0.1)
    np.testing.assert_array_equal(
        result.predict(scores, costs=asked.loc[other]),
        result.predict(scores, costs=asked.to_numpy()),
    )
    for axis, where in ((0, "index"), (1, "columns")):
        some = costs.set_axis(["ant", "bee", "cwo"], axis=axis)
        with pytest.raises(
            rp.OptionError, match=rf"the {where} of `costs` must .* Got 'cwo', which"
        ):
            result.predict(scores, costs=some)


def test_the_summary_says_what_the_tuned_metric_costs():
    rng = np.random.default_rng(0)
    mix = [0.9, 0.08, 0.02]
    labels = rng.choice(3, size=2000, p=mix)
    scores = rng.normal(size=(2000, 3)) + 1.2 * np.eye(3)[labels] + np.log(mix)
    calibrator = rp.PosteriorCalibrator(mix).fit(scores, labels)
    price = calibrator.summary().splitlines()[-1]
    assert price.startswith("tuning for balanced_accuracy costs: accuracy 0.915 → 0.700, ")
    rules = ast.literal_eval(price.partition("pass subject_to=")[2])
    assert rules[0] == "accuracy >= baseline - 0.02"
    limited = rp.PosteriorCalibrator(mix, subject_to=rules).fit(scores, labels)
    assert "costs" not in limited.summary()
    # A loss that was agreed is no news; another one is, beside the rule that stands.
    agreed = rp.PosteriorCalibrator(mix, subject_to=rules[0]).fit(scores, labels)
    price = agreed.summary().splitlines()[-1]
    assert "costs: macro_precision" in price
    assert ast.literal_eval(price.partition("pass subject_to=")[2])[0] == rules[0]
