"""The fits behind a calibrator: against the functions they are made of, and brute force."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize, minimize_scalar
from scipy.special import log_softmax
from tests.calibrator.shared import PRIOR, K, case, fit

import reprior as rp
from reprior.calibrator import fitting
from reprior.core import best_scaling
from reprior.profile import Constraint
from reprior.tuning import CURVE_RULES, DEFAULT_SELECTION, select

W = np.log(1 / K) - np.log(PRIOR)

#: A generic optimiser's tolerance, and ours.
FITTED = 1e-5


def loss_at(scores, labels, temperature, shifts, label_prior=None):
    """The log-loss of softmax((z + b) / T), the labels weighted to the uniform prior."""
    frequencies = (
        np.bincount(labels, minlength=K) / labels.size if label_prior is None else label_prior
    )
    weight = (1 / K / frequencies)[labels]
    log_p = log_softmax((scores + shifts) / temperature, axis=1)
    return -(weight * log_p[np.arange(labels.size), labels]).sum() / weight.sum()


@pytest.mark.parametrize("label_prior", [None, PRIOR], ids=["frequencies", "declared"])
def test_log_loss_is_the_joint_optimum_of_a_generic_optimiser(label_prior):
    scores, labels = case()
    fitted = fit({"metric": "log_loss", "label_prior": label_prior})
    expected = minimize(
        lambda x: loss_at(scores, labels, 1 / x[0], x[1] / x[0] * W, label_prior), [1.0, 1.0],
        method="Nelder-Mead", options={"xatol": 1e-8, "fatol": 1e-12},
    )  # fmt: skip
    assert fitted.temperature_ == pytest.approx(1 / expected.x[0], rel=FITTED)
    assert fitted.strength_ == pytest.approx(expected.x[1] / expected.x[0], rel=FITTED)
    assert fitted.best_score_ == pytest.approx(expected.fun, rel=1e-9)
    before = loss_at(scores, labels, 1.0, 0.0, label_prior)
    assert fitted.log_loss_ == pytest.approx((before, expected.fun))
    assert fitted.strength_interval_ == (fitted.strength_, fitted.strength_)
    assert fitted.profile_.n_samples == labels.size


def test_log_loss_is_fit_log_loss():
    scores, labels = case()
    fitted, reference = (
        fit({"metric": "log_loss"}),
        rp.fit_log_loss(scores, labels, source_prior=PRIOR),
    )
    # The weights of the samples are summed in another order.
    assert fitted.temperature_ == pytest.approx(reference.temperature, rel=1e-12)
    assert fitted.strength_ == pytest.approx(reference.decision_strength, rel=1e-12)


def test_a_temperature_that_is_given_stays_and_the_strength_is_fitted_at_it():
    scores, labels = case()
    fitted = fit({"metric": "log_loss", "temperature": 2.5})
    expected = minimize_scalar(lambda s: loss_at(scores, labels, 2.5, s * W), bounds=(0, 5))
    assert fitted.temperature_ == 2.5
    assert fitted.strength_ == pytest.approx(expected.x, rel=FITTED)


@pytest.mark.parametrize("tune", ["strength", "per_class"])
def test_the_temperature_is_the_best_one_at_the_decisions(tune):
    scores, labels = case()
    fitted = fit({"tune": tune, "temperature": "fit"})
    shifts = fitted.as_affine()[1] * fitted.temperature_
    expected = minimize_scalar(lambda t: loss_at(scores, labels, t, shifts), bounds=(0.2, 5))
    assert fitted.temperature_ == pytest.approx(expected.x, rel=FITTED)
    plain = fit({"tune": tune})
    np.testing.assert_array_equal(fitted.predict(scores), plain.predict(scores))


@pytest.mark.parametrize("scaling", ["bcts", "vector"])
def test_scalings_are_fit_scaling(scaling):
    scores, labels = case()
    fitted = fit({"metric": "log_loss", "temperature": scaling})
    reference = rp.fit_scaling(scores, labels, scaling=scaling, source_prior=PRIOR)
    scale, bias = fitted.as_affine()
    np.testing.assert_allclose(scale * np.ones(K), reference.scale)
    np.testing.assert_allclose(bias, reference.bias)
    assert fitted.best_score_ == pytest.approx(reference.log_loss, rel=1e-12)
    assert (fitted.scales_ is None) == (scaling == "bcts")


def test_per_class_is_tune_per_class():
    scores, labels = case()
    fitted = fit({"tune": "per_class", "metric": "macro_f1", "random_state": 3})
    reference = rp.tune_per_class(
        scores, labels, source_prior=PRIOR, metric="macro_f1", seed=3,
        bounds=fitted.profile_.bounds,
    )  # fmt: skip
    np.testing.assert_array_equal(fitted.biases_, reference.biases)
    assert (fitted.best_score_, fitted.shrinkage_) == (reference.value, reference.shrinkage)
    assert fitted.best_score_ >= fit({"metric": "macro_f1"}).best_score_


def test_biases_keep_constraints_that_no_strength_keeps():
    scores, labels = case()
    rules = ["recall[0] >= 0.62", "recall[1] >= 0.62", "recall[2] >= 0.6", "recall[3] >= 0.6"]
    with pytest.raises(rp.InfeasibleError):
        fit({"subject_to": rules})
    fitted = fit({"subject_to": rules, "tune": "per_class"})
    recall = [(fitted.predict(scores)[labels == k] == k).mean() for k in range(K)]
    assert min(np.subtract(recall, [0.62, 0.62, 0.6, 0.6])) >= -1e-12


def test_biases_may_begin_beyond_the_bounds():
    scores, labels = case()
    sure = 1.8 * scores  # so that the nearest strength is beyond 2
    rules = [f"recall[{k}] >= 0.6" for k in range(K)]
    with pytest.raises(rp.InfeasibleError) as caught:
        fit({"subject_to": rules, "bounds": (0.0, 8.0)}, sure, labels)
    assert caught.value.strength > 2.0
    options = {"subject_to": rules, "tune": "per_class"}
    fitted, messages = warnings_of(options, sure, labels)
    assert messages == [
        f"No strength up to 8 satisfies `subject_to`: biases start from the nearest, "
        f"{fitted.strength_:.3g}, beyond the upper bound 2."
    ]
    assert fitted.strength_ == caught.value.strength
    assert fitted.profile_.bounds == (0.0, 4.0)
    recall = [(fitted.predict(sure)[labels == k] == k).mean() for k in range(K)]
    assert min(recall) >= 0.6
    assert fitted.best_score_ == pytest.approx(np.mean(recall))
    flat, messages = warnings_of(
        {**options, "target_prior": PRIOR, "bounds": (0.0, 0.5)}, sure, labels
    )
    assert (flat.strength_, messages) == (1.0, [])
    assert fit({**options, "cv": 2}, sure, labels).cross_validation_.score > 0.6


@pytest.mark.parametrize("rule", list(CURVE_RULES))
def test_the_selection_is_the_rules(rule):
    scores, labels = case()
    fitted = fit({"selection": rule})
    expected = select(fitted.profile_, "balanced_accuracy", rule)
    assert fitted.strength_ == pytest.approx(expected.strength, abs=1.01e-4)
    low, high = expected.interval
    assert low <= fitted.strength_ <= high
    assert fitted.best_score_ == expected.value
    assert (f"balanced_accuracy, by {rule}" in fitted.summary()) == (rule != DEFAULT_SELECTION)
    assert rp.metrics.evaluate(
        "balanced_accuracy", labels, fitted.predict(scores)
    ) == pytest.approx(expected.value)


def test_folds_give_an_honest_score():
    scores, labels = case()
    folds = np.arange(labels.size) % 4
    fitted = fit({"cv": folds, "selection": "smooth"})
    reference = rp.cross_validate(
        scores, labels, source_prior=PRIOR, cv=folds, rule="smooth", bounds=fitted.profile_.bounds
    )
    validated = fitted.cross_validation_
    assert (validated.score, validated.strengths) == (reference.score, reference.strengths)
    assert fitted.strength_ == pytest.approx(reference.best.strength, abs=1.01e-4)
    assert f"{validated.score:.4f}, {validated.baseline_score:.4f} before" in fitted.summary()


def test_folds_are_drawn_by_the_seed():
    a, b, c = (fit({"cv": 3, "random_state": seed}).cross_validation_ for seed in (0, None, 5))
    assert a.strengths == b.strengths
    assert a.strengths != c.strengths


def test_the_bootstrap_gives_intervals():
    scores, labels = case()
    fitted = fit({"n_bootstrap": 60, "random_state": 2})
    bootstrap = rp.StrengthBootstrap.from_scores(
        scores, labels, source_prior=PRIOR, bounds=fitted.profile_.bounds, n_replicates=60,
        random_state=2,
    )  # fmt: skip
    assert fitted.uncertainty_ == rp.uncertainty(bootstrap, "balanced_accuracy")
    text = fitted.summary()
    assert "90% sure     strength" in text
    assert "gain" in text


@pytest.mark.parametrize("selection", ["max", "one_se", "balanced_log_loss"])
def test_the_bootstrap_keeps_the_constraints_too(selection):
    data, rule = case(labels_prior=PRIOR), "accuracy >= baseline - 0.01"
    options = {"n_bootstrap": 60, "selection": selection}
    free, bound = fit(options, *data), fit({**options, "subject_to": rule}, *data)
    bootstrap = rp.StrengthBootstrap.from_scores(
        *data, source_prior=PRIOR, bounds=bound.profile_.bounds, n_replicates=60
    )
    follows = selection in CURVE_RULES  # or the replicates are of the strength as it is
    asked = {"rule": selection} if follows else {"strength": bound.strength_}
    assert bound.uncertainty_ == rp.uncertainty(
        bootstrap, "balanced_accuracy", subject_to=rule, **asked
    )
    assert bound.uncertainty_.strength == pytest.approx(bound.strength_, abs=1.01e-4)
    assert bound.uncertainty_.strength_interval[1] < free.uncertainty_.strength_interval[1]
    assert (bound.uncertainty_.optimism > 0.0) == follows
    if selection == "max":
        low, high = bound.uncertainty_.strength_interval
        assert low <= bound.strength_ <= high


def test_doubts_are_said_where_the_user_calls():
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(K), 5)
    noise = rng.normal(size=(labels.size, K))
    with pytest.warns(rp.RepriorWarning) as messages:
        rp.PosteriorCalibrator(PRIOR, n_bootstrap=50, bounds=(0, 8)).fit(noise, labels)
    text = " ".join(str(each.message) for each in messages)
    assert "fewer than 10 tuning labels" in text
    assert all(each.filename == __file__ for each in messages)


def test_warnings_of_every_fit_name_the_users_line():
    scores, labels = case()
    cases = [
        ({"target_prior": PRIOR, "metric": "log_loss"}, "the strength has no effect"),
        ({"bounds": (0.0, 0.1)}, "searching up to"),
        ({"target_prior": PRIOR}, "no strength changes a decision"),
    ]
    for options, words in cases:
        with pytest.warns(rp.RepriorWarning, match=words) as messages:
            rp.PosteriorCalibrator(PRIOR, **options).fit(scores, labels)
        assert all(each.filename == __file__ for each in messages)
    perfect = 30.0 * np.eye(K)[labels]
    for options in ({"temperature": "fit"}, {"metric": "log_loss"}, {"separate": True}):
        with pytest.warns(rp.RepriorWarning, match="log-loss still falls at the bound") as messages:
            rp.PosteriorCalibrator(PRIOR, **options).fit(perfect, labels)
        assert all(each.filename == __file__ for each in messages)


def warnings_of(options, scores, labels):
    """The calibrator, and what is warned of."""
    with warnings.catch_warnings(record=True) as messages:
        warnings.simplefilter("always", rp.RepriorWarning)
        fitted = rp.PosteriorCalibrator(PRIOR, **options).fit(scores, labels)
    assert all(each.filename == __file__ for each in messages)
    return fitted, [str(each.message) for each in messages]


def widened(high, wider):
    return (
        f"The best strength λ of softmax(z/T + λ·w) lay at the upper bound {high:g}: searching up "
        f"to {wider:g}. (`strength_` is T·λ.)"
    )


def test_a_rule_that_knows_nothing_of_the_metric_says_so():
    options = {"selection": "balanced_log_loss"}
    scores, labels = case()
    _, messages = warnings_of({**options, "metric": "macro_f1"}, scores, labels)
    assert any("does not consider macro_f1: it suits balanced accuracy" in s for s in messages)
    _, messages = warnings_of(options, scores, labels)
    assert not any("does not consider" in s for s in messages)


@pytest.mark.parametrize("temperature", [1.0, "bcts"])
def test_a_strength_at_the_end_of_its_range_is_said(temperature):
    rng = np.random.default_rng(0)
    labels = rng.integers(K, size=400)
    wrong = rng.normal(size=(400, K)) + 2 * np.eye(K)[labels] - 30 * W
    options = {"metric": "log_loss", "temperature": temperature}
    _, messages = warnings_of({**options, "bounds": (0.0, 10.0)}, wrong, labels)
    assert not any("searching" in each for each in messages)
    assert any("falls at the bound strength=10 of softmax" in each for each in messages)
    _, messages = warnings_of(options, wrong, labels)
    assert messages[:2] == [
        widened(2, 4),
        widened(4, 8),
    ]
    assert any(
        "bound strength=8 of softmax(z/T + strength·w). The model does not" in each
        for each in messages
    )


@pytest.mark.parametrize(
    "options",
    [
        {"metric": "log_loss"},
        {"metric": "log_loss", "temperature": 1.2},
        {"metric": "log_loss", "temperature": "bcts"},
        {"separate": True},
    ],
)
def test_bounds_of_a_fit_by_log_loss_are_tried_first_and_widened_aloud(options):
    scores, labels = case()
    wide, messages = warnings_of({**options, "bounds": (0.0, 2.0)}, scores, labels)
    assert not any("searching" in each for each in messages)
    of_probabilities = {**options, "bounds": (0.0, 0.3)}
    fitted, messages = warnings_of(of_probabilities, scores, labels)
    assert widened(0.3, 0.6) in messages
    np.testing.assert_allclose(
        fitted.predict_proba(scores), wide.predict_proba(scores), atol=FITTED
    )


@pytest.mark.parametrize("gone", range(K))
@pytest.mark.parametrize("scaling", ["bcts", "vector"])
def test_the_log_loss_is_that_of_the_posterior_whatever_class_is_gone(gone, scaling):
    scores, labels = case()
    target = np.where(np.arange(K) == gone, 0.0, 1 / (K - 1))
    fitted = fit({"metric": "log_loss", "temperature": scaling, "target_prior": target})
    kept = labels != gone
    weight = 1.0 / np.bincount(labels, minlength=K)[labels[kept]]
    log_p = fitted.predict_log_proba(scores[kept])[np.arange(kept.sum()), labels[kept]]
    assert -(weight @ log_p) / weight.sum() == pytest.approx(fitted.best_score_, rel=1e-9)


@pytest.mark.parametrize("options", [{}, {"temperature": 1.3}, {"separate": True}], ids=str)
def test_what_the_target_prior_lacks_is_impossible_at_strength_0_too(options, tmp_path):
    scores, labels = case()
    target = np.array([0.3, 0.4, 0.3, 0.0])
    gone = scores + 3.0 * W * (np.arange(K) < 3)  # rare classes are over-stated already
    metric = "accuracy" if "separate" in options else "log_loss"
    fitted = fit({"metric": metric, "target_prior": target, **options}, gone, labels)
    at = fitted.probability_map_ or fitted._decision
    assert at.strength == 0.0
    log_p = fitted.predict_log_proba(gone)
    assert np.isneginf(log_p[:, 3]).all()
    kept = labels < 3
    weight = (target / np.bincount(labels, minlength=K))[labels[kept]]
    after = -(weight @ log_p[kept, labels[kept]]) / weight.sum()
    assert after == pytest.approx(fitted.log_loss_[1], rel=1e-9)
    fitted.save(tmp_path / "cal.json")
    np.testing.assert_array_equal(rp.load(tmp_path / "cal.json").predict_log_proba(gone), log_p)
    other = np.array([0.5, 0.3, 0.2, 0.0])
    by_bayes = np.exp(log_p[:, :3]) * (other / np.where(target > 0, target, 1.0))[:3]
    np.testing.assert_allclose(
        fitted.retarget(other).predict_proba(gone)[:, :3],
        by_bayes / by_bayes.sum(axis=1, keepdims=True),
    )


@pytest.mark.parametrize("temperature", ["fit", "bcts"])
def test_labels_that_neither_target_nor_label_prior_has_count_nothing(temperature):
    scores, labels = case()
    frequencies = np.bincount(labels, minlength=K)
    options = {"metric": "log_loss", "temperature": temperature, "bounds": (0.0, 8.0)}
    options["target_prior"] = [0.5, 0.3, 0.2, 0.0]
    known = np.where(np.arange(K) < 3, frequencies / frequencies[:3].sum(), 0.0)
    fitted, messages = warnings_of({**options, "label_prior": known}, scores, labels)
    assert len(messages) == 1  # that they are left out
    assert "tuning samples are left out" in messages[0]
    reference = fit(options)
    assert fitted.best_score_ == pytest.approx(reference.best_score_, rel=1e-9)
    assert (fitted.strength_, fitted.temperature_) == pytest.approx(
        (reference.strength_, reference.temperature_), rel=FITTED
    )


def test_a_label_prior_is_that_of_the_selection_too():
    scores, labels = case()
    options = {"selection": "balanced_log_loss", "bounds": (0.0, 4.0)}
    fitted = fit({**options, "label_prior": PRIOR})
    expected = minimize_scalar(
        lambda s: loss_at(scores, labels, 1.0, s * W, PRIOR), bounds=(0.0, 4.0), method="bounded"
    )
    # A little away from a switch, so that rounding does not decide.
    assert fitted.strength_ == pytest.approx(expected.x, abs=2e-4)
    assert abs(fitted.strength_ - fit(options).strength_) > 0.01


@pytest.mark.parametrize("tune", ["strength", "per_class"])
def test_the_log_loss_is_known_where_the_temperature_was_fitted(tune):
    scores, labels = case()
    fitted = fit({"tune": tune, "temperature": "fit"})
    shifts = fitted.as_affine()[1] * fitted.temperature_
    after = loss_at(scores, labels, fitted.temperature_, shifts)
    assert fitted.log_loss_ == pytest.approx((loss_at(scores, labels, 1.0, 0.0), after))
    assert "log_loss (target mix)" in fitted.summary()
    assert fit({"tune": tune}).log_loss_ is None


@pytest.mark.parametrize("options", [{"metric": "log_loss"}, {"separate": True}])
def test_a_fit_that_did_not_come_to_rest_is_said(monkeypatch, options):
    monkeypatch.setattr("reprior.core.minimise.MAX_PASSES", 2)
    _, messages = warnings_of(options, *case())
    assert any("did not converge in 2 passes" in each for each in messages)


def test_a_temperature_that_did_not_come_to_rest_is_said(monkeypatch):
    monkeypatch.setattr("reprior.core.temperature.MAX_ITERATIONS", 1)
    _, messages = warnings_of({"temperature": "fit"}, *case())
    assert any("did not converge" in each for each in messages)


@pytest.mark.parametrize("category", [rp.RepriorWarning, RuntimeWarning])
def test_warnings_of_a_scaling_reach_the_caller(monkeypatch, category):
    def warns(*args, **options):
        warnings.warn("not converged", category, stacklevel=1)
        return best_scaling(*args, **options)

    monkeypatch.setattr(fitting, "best_scaling", warns)
    calibrator = rp.PosteriorCalibrator(PRIOR, metric="log_loss", temperature="bcts")
    with pytest.warns(category, match="not converged") as messages:
        calibrator.fit(*case())
    assert len(messages) == 1
    assert messages[0].filename == __file__


def test_a_scale_below_0_is_no_temperature(monkeypatch):
    def upside_down(*args, **options):
        fitted = best_scaling(*args, **options)
        joint = replace(fitted.joint, at_bound=True)
        return replace(fitted, scale=-fitted.scale, joint=joint)

    monkeypatch.setattr(fitting, "best_scaling", upside_down)
    fitted = fit({"metric": "log_loss", "temperature": "bcts"})
    assert (fitted.temperature_, fitted.strength_) == (1.0, 1.0)
    assert (fitted.scales_ < 0).all()


@pytest.mark.parametrize(
    "options",
    [
        {"tune": "per_class"},
        {"metric": "log_loss", "temperature": 1.5},
        {"cv": 2, "n_bootstrap": 20},
        {"separate": True},
    ],
)
def test_where_the_priors_are_equal_strength_is_1(options):
    fitted = fit({**options, "target_prior": PRIOR, "bounds": (0.0, 0.5)})
    assert fitted.strength_ == 1.0
    if options.get("tune"):
        assert fitted.best_score_ > fit({"target_prior": PRIOR}).best_score_


def test_an_infeasible_fold_says_that_it_is_one():
    scores, labels = case()
    right = fit({}).predict(scores) == labels
    rule = f"accuracy >= {right.mean()}"
    fit({"subject_to": rule})
    with pytest.raises(rp.InfeasibleError, match="without one of the folds of `cv`") as caught:
        fit({"subject_to": rule, "cv": right.astype(int)})
    assert caught.value.strength is not None


@pytest.mark.parametrize("n_rare", [1, 2, 3])
@pytest.mark.parametrize("tune", ["strength", "per_class"])
@pytest.mark.parametrize(
    "options", [{"metric": "recall[2]"}, {"subject_to": "recall[2] >= 0.5"}], ids=repr
)
def test_folds_may_lack_a_class_that_is_asked_for(options, tune, n_rare):
    rng = np.random.default_rng(1)
    labels = np.r_[np.repeat([0, 1, 3], [100, 60, 40]), np.full(n_rare, 2)]
    scores = rng.standard_normal((labels.size, K)) + 3 * np.eye(K)[labels] + np.log(PRIOR)
    fitted = fit({**options, "tune": tune, "cv": 3}, scores, labels)
    folds_result = fitted.cross_validation_
    lacking = 3 - n_rare  # folds are stratified
    if "metric" in options:
        assert (
            np.isnan(folds_result.scores).sum() == np.isnan(folds_result.baseline).sum() == lacking
        )
        fold_scores = np.array(folds_result.scores)[~np.isnan(folds_result.scores)]
        assert folds_result.mean == pytest.approx(fold_scores.mean())
        assert folds_result.score == pytest.approx(
            fold_scores.mean()
        )  # one label in each of the others
        assert np.isnan(folds_result.std) if n_rare == 1 else folds_result.std >= 0
    else:
        assert not np.isnan(folds_result.scores).any()
    if n_rare == 1:  # what is judged on its fold could not be tuned without it
        assert fitted.strength_ in folds_result.strengths


def test_a_fit_that_fails_changes_nothing():
    calibrator = rp.PosteriorCalibrator(PRIOR, metric="log_loss")
    calibrator.fit(*case())
    before = dict(vars(calibrator))
    calibrator.label_prior = [1.0, 0.0, 0.0, 0.0]
    with pytest.raises(rp.PriorError, match="`label_prior` must be positive"):
        calibrator.fit(*case())
    assert {name: vars(calibrator)[name] for name in before if name != "label_prior"} == {
        name: value for name, value in before.items() if name != "label_prior"
    }


@pytest.mark.parametrize("several", [False, True])
def test_the_summary_reads_constraints_as_they_are_written(several):
    text = "accuracy >= baseline - 0.05"
    rule = Constraint.parse(text)
    fitted = fit({"subject_to": [rule, rule] if several else rule})
    expected = f"subject to   {text}, {text}\n" if several else f"subject to   {text}\n"
    assert expected in fitted.summary()
