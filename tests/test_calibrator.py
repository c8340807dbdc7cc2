"""PosteriorCalibrator: fit, predict, retarget, save and load."""

import json
import math
import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax

import reprior as rp

COUNTS = np.array([1000, 400, 100, 40, 10])
PRIOR = rp.prior_from_counts(COUNTS)
N, K = 1500, COUNTS.size

#: Two float64 routes to the same log-posterior.
ROUNDING = 1e-12


@pytest.fixture(scope="module")
def logits():
    rng = np.random.default_rng(7)
    return _logits(rng, _labels(rng)), _labels(np.random.default_rng(7))


def _labels(rng):
    return rng.integers(0, K, N)


def _logits(rng, labels):
    z = rng.standard_normal((N, K))
    z[np.arange(N), labels] += 1.5
    return z + np.log(PRIOR)


@pytest.fixture(scope="module")
def fitted(logits):
    return rp.PosteriorCalibrator(PRIOR).fit(*logits)


def test_fit_returns_self_and_keeps_the_options(logits):
    calibrator = rp.PosteriorCalibrator(PRIOR)
    before = dict(vars(calibrator))
    assert calibrator.fit(*logits) is calibrator
    assert {name: vars(calibrator)[name] for name in before} == before


def test_the_strength_is_the_profiles_best(logits, fitted):
    profile = rp.StrengthProfile.from_scores(*logits, source_prior=PRIOR)
    best = profile.best("balanced_accuracy")
    assert (fitted.strength_, fitted.strength_interval_) == (best.strength, best.interval)
    assert fitted.best_score_ == best.value
    assert fitted.temperature_ == 1.0
    np.testing.assert_array_equal(fitted.target_prior_, np.full(K, 1 / K))
    np.testing.assert_array_equal(fitted.classes_, np.arange(K))


def test_best_score_is_the_metric_of_predict_on_the_tuning_labels(logits, fitted):
    z, y = logits
    recall = [(fitted.predict(z)[y == k] == k).mean() for k in range(K)]
    assert fitted.best_score_ == pytest.approx(np.mean(recall), abs=ROUNDING)


def test_nothing_is_mutated(logits):
    z, y = logits[0].copy(), logits[1].copy()
    calibrator = rp.PosteriorCalibrator(PRIOR, temperature="fit").fit(z, y)
    calibrator.predict_proba(z)
    np.testing.assert_array_equal(z, logits[0])
    np.testing.assert_array_equal(y, logits[1])


@pytest.mark.parametrize("temperature", [None, 0.5, 3.0, "fit"])
def test_decisions_are_those_of_the_strength_at_any_temperature(logits, fitted, temperature):
    z, y = logits
    calibrator = rp.PosteriorCalibrator(PRIOR, temperature=temperature).fit(z, y)
    np.testing.assert_array_equal(calibrator.predict(z), fitted.predict(z))
    np.testing.assert_array_equal(calibrator.predict(z), calibrator.predict_proba(z).argmax(axis=1))


@pytest.mark.parametrize("temperature", [None, 2.5])
def test_as_affine_is_the_whole_map(logits, temperature):
    z, y = logits
    calibrator = rp.PosteriorCalibrator(PRIOR, temperature=temperature).fit(z, y)
    scale, bias = calibrator.as_affine()
    np.testing.assert_allclose(
        log_softmax(scale * z + bias, axis=1), calibrator.predict_log_proba(z), atol=ROUNDING
    )
    np.testing.assert_allclose(
        np.exp(calibrator.predict_log_proba(z)), calibrator.predict_proba(z), atol=ROUNDING
    )


def test_fitted_temperature_minimises_the_importance_weighted_log_loss(logits):
    z, y = logits
    skewed = np.flatnonzero((y < 2) | (np.arange(N) % 5 == 0))
    z, y = z[skewed], y[skewed]
    target = np.array([0.1, 0.1, 0.2, 0.2, 0.4])
    calibrator = rp.PosteriorCalibrator(PRIOR, target_prior=target, temperature="fit").fit(z, y)
    weight = (target / (np.bincount(y) / y.size))[y]
    shifted = z + calibrator.strength_ * (np.log(target) - np.log(PRIOR))

    def loss(log_t):
        log_p = log_softmax(shifted / math.exp(log_t), axis=1)
        return -np.average(log_p[np.arange(y.size), y], weights=weight)

    expected = math.exp(minimize_scalar(loss, bounds=(-3, 3), method="bounded").x)
    assert calibrator.temperature_ == pytest.approx(expected, rel=1e-4)


def test_retarget_keeps_the_strength_and_replaces_the_prior(logits, fitted):
    z, _ = logits
    other = fitted.retarget(PRIOR)
    assert other is not fitted
    assert other.strength_ == fitted.strength_
    np.testing.assert_allclose(other.predict_proba(z), rp.rebalance(z, PRIOR, strength=0))
    np.testing.assert_array_equal(fitted.target_prior_, np.full(K, 1 / K))
    assert other.profile_ is None
    assert math.isnan(other.best_score_)
    back = other.retarget("uniform")
    np.testing.assert_array_equal(back.predict_proba(z), fitted.predict_proba(z))


@pytest.mark.filterwarnings("ignore:.* tuning samples are left out")
def test_a_class_of_target_prior_zero_is_never_predicted(logits):
    z, y = logits
    target = [0.25, 0.25, 0.25, 0.25, 0.0]
    calibrator = rp.PosteriorCalibrator(PRIOR, target_prior=target, metric="accuracy").fit(z, y)
    assert (calibrator.predict_proba(z)[:, 4] == 0).all()
    assert calibrator.as_affine()[1][4] == -np.inf


def test_constraints_hold_and_name_classes(logits):
    z, y = logits
    names = np.array(["a", "b", "c", "d", "e"])
    rule = "recall[a] >= baseline - 0.1"
    calibrator = rp.PosteriorCalibrator(PRIOR, subject_to=rule, classes=names)
    calibrator.fit(z, names[y])
    hit = calibrator.predict(z)[y == 0] == "a"
    base = z.argmax(axis=1)[y == 0] == 0
    assert hit.mean() >= base.mean() - 0.1 - ROUNDING
    assert calibrator.strength_ < rp.PosteriorCalibrator(PRIOR).fit(z, y).strength_


def test_one_class_can_be_the_metric(logits):
    z, y = logits
    names = np.array(["a", "b", "c", "d", "e"])
    calibrator = rp.PosteriorCalibrator(PRIOR, metric="f1[e]", classes=names).fit(z, names[y])
    assert calibrator.best_score_ == calibrator.profile_.best("f1[4]").value


def test_the_upper_bound_is_widened_and_said_so(logits):
    z, y = logits
    steep = z + 2.0 * np.log(PRIOR)
    with pytest.warns(rp.RepriorWarning) as caught:
        calibrator = rp.PosteriorCalibrator(PRIOR, bounds=(0.0, 1.0)).fit(steep, y)
    assert "upper bound 1: searching up to 2" in str(caught[0].message)
    assert caught[0].filename == __file__
    assert calibrator.profile_.bounds == (0.0, 4.0)
    assert calibrator.strength_ > 2


def test_widening_ends(logits):
    z, y = logits
    hopeless = z + 12.0 * np.log(PRIOR)
    with pytest.warns(rp.RepriorWarning) as caught:
        calibrator = rp.PosteriorCalibrator(PRIOR, bounds=(0.5, 2.0)).fit(hopeless, y)
    sentences = [str(warning.message) for warning in caught]
    assert [sentence.split(";")[0] for sentence in sentences] == [
        "The best strength lay at the upper bound 2: searching up to 4.",
        "The best strength lay at the upper bound 4: searching up to 8.",
        "The best strength lies at the upper bound 8",
    ]
    assert calibrator.profile_.bounds == (0.5, 8.0)


def test_a_negative_upper_bound_can_be_widened(logits):
    z, y = logits
    with pytest.warns(rp.RepriorWarning, match="searching up to 8"):
        calibrator = rp.PosteriorCalibrator(PRIOR, bounds=(-2.0, -1.0)).fit(z, y)
    assert calibrator.strength_ > 0


def test_a_perfect_model_is_not_widened():
    z = np.array([[50.0, 0.0], [0.0, 50.0]])
    calibrator = rp.PosteriorCalibrator([0.6, 0.4]).fit(z, [0, 1])
    assert calibrator.strength_interval_ == (0.0, 2.0)


def test_a_metric_that_no_strength_changes_stays_within_the_bounds_given():
    z = np.array([[50.0, 0.0], [50.0, 0.0]])
    with pytest.warns(rp.RepriorWarning) as caught:
        calibrator = rp.PosteriorCalibrator([0.6, 0.4], bounds=(0.5, 2.0)).fit(z, [0, 1])
    assert [str(w.message) for w in caught] == [
        "No strength from 0.5 to 8 changes balanced_accuracy."
    ]
    assert (calibrator.strength_, calibrator.strength_interval_) == (1.25, (0.5, 2.0))
    model = rp.PosteriorCalibrator([0.6, 0.4]).fit(z, [0, 1])
    assert (model.strength_, model.strength_interval_) == (0.0, (0.0, 2.0))


def test_a_model_that_never_says_a_rare_class_is_widened_until_it_does():
    z = np.array([[6.0, 0.0], [5.0, 0.0], [4.0, 0.0], [4.5, 0.0]])
    with pytest.warns(rp.RepriorWarning, match="searching up to 4"):
        calibrator = rp.PosteriorCalibrator([0.8, 0.2], bounds=(0.5, 2.0)).fit(z, [0, 0, 1, 1])
    assert calibrator.best_score_ == 1.0
    np.testing.assert_array_equal(calibrator.predict(z), [0, 0, 1, 1])
    # With 0 within the bounds, where nothing is better than the model, it is left as it is.
    assert rp.PosteriorCalibrator([0.8, 0.2]).fit(z, [0, 0, 1, 1]).strength_ == 0.0


def test_equal_priors_leave_the_strength_at_one(logits):
    z, y = logits
    with pytest.warns(rp.RepriorWarning, match="is the source prior") as caught:
        calibrator = rp.PosteriorCalibrator(PRIOR, target_prior=PRIOR, bounds=(0, 3)).fit(z, y)
    assert len(caught) == 1
    assert (calibrator.strength_, calibrator.strength_interval_) == (1.0, (0.0, 3.0))
    np.testing.assert_array_equal(calibrator.predict(z), z.argmax(axis=1))


def test_absent_classes_bring_a_warning(logits):
    z, y = logits
    some = y < 3
    with pytest.warns(rp.RepriorWarning, match=r"2 of 5 classes have no tuning labels: 3, 4\."):
        rp.PosteriorCalibrator(PRIOR).fit(z[some], y[some])


@pytest.mark.parametrize("shape", [(N,), (N, 1)])
@pytest.mark.parametrize("kind", ["logits", "probs", "log_probs"])
def test_binary_scores_go_in_and_come_out_as_they_were(kind, shape):
    rng = np.random.default_rng(3)
    y = (rng.random(N) < 0.3).astype(int)
    z = rng.standard_normal(N) + 2.0 * y - 2.0
    log_p = -np.logaddexp(0, -z)
    scores = {"logits": z, "probs": np.exp(log_p), "log_probs": log_p}[kind].reshape(shape)
    calibrator = rp.PosteriorCalibrator([0.9, 0.1], kind=kind).fit(scores, y)
    posterior = calibrator.predict_proba(scores)
    assert posterior.shape == shape
    np.testing.assert_array_equal(calibrator.predict(scores), posterior.reshape(-1) > 0.5)
    two = rp.PosteriorCalibrator([0.9, 0.1]).fit(np.stack([0 * z, z], axis=1), y)
    assert calibrator.strength_ == pytest.approx(two.strength_, abs=1e-9)


def test_segmentation_shapes_and_ignored_pixels():
    rng = np.random.default_rng(5)
    y = rng.integers(0, K, (4, 6, 7))
    z = rng.standard_normal((4, K, 6, 7)).astype(np.float32)
    np.put_along_axis(z, y[:, None], 2.0, axis=1)
    z += np.log(PRIOR, dtype=np.float32)[:, None, None]
    y[rng.random(y.shape) < 0.2] = 255
    calibrator = rp.PosteriorCalibrator(PRIOR, class_axis=1, ignore_index=255).fit(z, y)
    posterior = calibrator.predict_proba(z)
    assert (posterior.shape, posterior.dtype) == (z.shape, np.float32)
    assert calibrator.predict(z).shape == y.shape
    flat = np.moveaxis(z, 1, -1).reshape(-1, K)[y.reshape(-1) != 255]
    same = rp.PosteriorCalibrator(PRIOR).fit(flat, y[y != 255])
    assert same.strength_ == calibrator.strength_


def test_sample_weights_count_as_repetitions(logits):
    z, y = logits
    weight = np.arange(N) % 3
    weighted = rp.PosteriorCalibrator(PRIOR).fit(z, y, sample_weight=weight)
    repeated = rp.PosteriorCalibrator(PRIOR).fit(np.repeat(z, weight, 0), np.repeat(y, weight))
    assert weighted.strength_ == repeated.strength_
    assert weighted.best_score_ == repeated.best_score_


def test_torch_tensors_go_in_and_come_out(logits, fitted):
    z, y = torch.tensor(logits[0]), torch.tensor(logits[1])
    calibrator = rp.PosteriorCalibrator(PRIOR, temperature="fit").fit(z, y)
    assert calibrator.strength_ == fitted.strength_
    posterior = calibrator.predict_proba(z)
    assert isinstance(posterior, torch.Tensor)
    np.testing.assert_allclose(
        calibrator.predict(z).numpy(), fitted.predict(logits[0]), atol=ROUNDING
    )


def test_string_labels_give_string_predictions(logits, fitted):
    z, y = logits
    names = np.array(["ant", "bee", "cow", "dog", "elk"])
    frame = pd.DataFrame(z, columns=names)
    calibrator = rp.PosteriorCalibrator(dict(zip(names, PRIOR, strict=True)))
    calibrator.fit(frame, pd.Series(names[y]))
    assert calibrator.strength_ == fitted.strength_
    np.testing.assert_array_equal(calibrator.predict(frame), names[fitted.predict(z)])
    np.testing.assert_array_equal(calibrator.predict(frame[names[::-1]]), calibrator.predict(z))


def test_summary_shows_before_and_after(fitted):
    text = fitted.summary()
    assert f"strength     {fitted.strength_:.4f}" in text
    assert f"{fitted.best_score_:.4f}" in text
    assert "on the tuning labels" in text
    assert "no tuning data at hand" in fitted.retarget("uniform").summary()


def test_summary_where_the_strength_is_outside_the_bounds(logits):
    with pytest.warns(rp.RepriorWarning, match="is the source prior"):
        calibrator = rp.PosteriorCalibrator(PRIOR, target_prior=PRIOR, bounds=(2, 3)).fit(*logits)
    assert "+0.0000" in calibrator.summary()


def test_repr(fitted):
    assert repr(rp.PosteriorCalibrator(PRIOR)).endswith("not fitted)")
    assert f"strength_={fitted.strength_:.4g}" in repr(fitted)


@given(
    counts=st.lists(st.integers(1, 10**6), min_size=2, max_size=6),
    strength=st.floats(-3, 8),
    temperature=st.floats(0.05, 20),
    kind=st.sampled_from(["logits", "log_probs"]),
)
def test_save_and_load_round_trip(tmp_path_factory, counts, strength, temperature, kind):
    path = tmp_path_factory.mktemp("cal") / "cal.json"
    names = [f"class {i}" for i in range(len(counts))]
    prior = rp.prior_from_counts(counts)
    z = log_softmax(np.random.default_rng(0).standard_normal((5, len(counts))), axis=1)
    calibrator = rp.PosteriorCalibrator(prior, kind=kind, classes=names)
    calibrator.source_prior_, calibrator.classes_ = prior, np.array(names)
    calibrator.target_prior_ = np.full(len(counts), 1 / len(counts))
    calibrator.strength_, calibrator.temperature_ = strength, temperature
    calibrator.strength_interval_, calibrator.best_score_ = (strength, strength), 0.5
    calibrator.save(path)
    loaded = rp.load(path)
    np.testing.assert_array_equal(loaded.predict_proba(z), calibrator.predict_proba(z))
    np.testing.assert_array_equal(loaded.predict(z), calibrator.predict(z))
    assert loaded.best_score_ == 0.5


def test_the_file_has_the_promised_fields(logits, fitted, tmp_path):
    fitted.save(tmp_path / "cal.json")
    fields = json.loads((tmp_path / "cal.json").read_text())
    promised = "format_version strength temperature source_prior target_prior kind metric classes"
    assert set(promised.split()) <= fields.keys()
    loaded = rp.load(tmp_path / "cal.json")
    np.testing.assert_array_equal(loaded.predict(logits[0]), fitted.predict(logits[0]))
    assert loaded.profile_ is None
    retargeted = fitted.retarget(PRIOR)
    retargeted.save(tmp_path / "cal.json")
    assert math.isnan(rp.load(tmp_path / "cal.json").best_score_)


def test_a_metric_of_ones_own_is_saved_by_name(logits, tmp_path):
    f2 = rp.CountMetric("macro_f2", gain=5, support=4, predicted=1)
    calibrator = rp.PosteriorCalibrator(PRIOR, metric=f2).fit(*logits)
    calibrator.save(tmp_path / "cal.json")
    assert rp.load(tmp_path / "cal.json").metric == "macro_f2"
    assert "macro_f2" in calibrator.summary()
    assert "macro_f2" in repr(calibrator)


def test_numpy_integer_classes_survive_the_file(logits, tmp_path):
    z, y = logits
    classes = np.array([10, 20, 30, 40, 50])
    rp.PosteriorCalibrator(PRIOR, classes=classes).fit(z, classes[y]).save(tmp_path / "c.json")
    assert rp.load(tmp_path / "c.json").predict(z).dtype == classes.dtype


@pytest.mark.parametrize("use", ["predict", "predict_proba", "predict_log_proba"])
def test_unfitted_use_is_refused(logits, use):
    with pytest.raises(rp.NotFittedError, match=r"not fitted\. Call fit"):
        getattr(rp.PosteriorCalibrator(PRIOR), use)(logits[0])


@pytest.mark.parametrize("use", ["summary", "as_affine"])
def test_unfitted_use_without_scores_is_refused(use, tmp_path):
    with pytest.raises(rp.NotFittedError):
        getattr(rp.PosteriorCalibrator(PRIOR), use)()
    with pytest.raises(rp.NotFittedError):
        rp.PosteriorCalibrator(PRIOR).save(tmp_path / "x.json")
    with pytest.raises(rp.NotFittedError):
        rp.PosteriorCalibrator(PRIOR).retarget("uniform")
    assert list(tmp_path.iterdir()) == []


BAD_OPTIONS = [
    ({"metric": "balanced_acuracy"}, r"Did you mean 'balanced_accuracy'\?"),
    ({"metric": "roc_auc"}, "ranks samples"),
    ({"kind": "logit"}, "Did you mean 'logits'"),
    ({"tune": "everything"}, "`tune` must be one of 'strength', 'per_class'"),
    ({"selection": "best"}, "`selection` must be one of 'max', 'smooth'"),
    ({"cv": 1}, "`cv` must be at least 2 folds. Got 1. Pass cv=3"),
    ({"temperature": 0.0}, "above 0. Got 0.0. Or pass 'fit'"),
    ({"temperature": "auto"}, "`temperature` must be"),
    ({"bounds": (2.0, 0.0)}, "bounds reversed"),
    ({"subject_to": "accuracy > 0.5"}, "must read like"),
    ({"subject_to": "accuracy >= 1.5"}, "Loosen the constraint"),
    ({"subject_to": "recall[cat] >= 0.5"}, "names a class|must name a class"),
    ({"target_prior": "unifrom"}, "Did you mean 'uniform'"),
    ({"target_prior": [0.5, 0.5]}, "one value per class"),
    ({"classes": list("abcd")}, "5 different classes"),
]


@pytest.mark.parametrize("options, words", BAD_OPTIONS)
def test_bad_options_are_answered_in_words(logits, options, words):
    with pytest.raises(rp.RepriorError, match=words):
        rp.PosteriorCalibrator(PRIOR, **options).fit(*logits)


BAD_PRIORS = [
    ([0.5, 0.5], "one entry per class|2 classes"),
    ([0.7, 0.1, 0.1, 0.1, 0.0], "positive for every class.*Got source_prior.4.=0.*smoothing=1"),
    ([1000, 400, 100, 40, 10], "sum to 1.*look like counts.*prior_from_counts"),
    ([0.5, 0.5, math.nan, 0.0, 0.0], "finite"),
    ([0.5, 0.6, -0.1, 0.0, 0.0], "negative"),
    ([1.0], "at least two classes"),
]


@pytest.mark.parametrize("prior, words", BAD_PRIORS)
def test_bad_priors_are_answered_in_words(logits, prior, words):
    with pytest.raises(rp.RepriorError, match=words):
        rp.PosteriorCalibrator(prior).fit(*logits)


def test_mixed_libraries_are_refused(logits):
    with pytest.raises(rp.RepriorError, match="one array library"):
        rp.PosteriorCalibrator(PRIOR).fit(torch.tensor(logits[0]), logits[1])


def test_no_warning_without_a_reason(logits):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rp.PosteriorCalibrator(PRIOR).fit(*logits)


def test_equal_odds_divided_differently_are_one_switch():
    # 60:20 and 66:22 are both 3:1, and one rounding apart as logarithms: no strength parts them.
    p = np.array([[60, 20], [66, 22], [0, 0]]) / 100
    p = np.c_[p, 1 - p.sum(axis=1)]
    calibrator = rp.PosteriorCalibrator(
        [0.8, 0.1, 0.1], kind="probs", metric="accuracy", bounds=(0.25, 2.0)
    )
    with pytest.warns(rp.RepriorWarning, match=r"No strength from 0.25 to 8 changes accuracy"):
        calibrator.fit(p, [1, 0, 2])
    assert calibrator.best_score_ == np.mean(calibrator.predict(p) == [1, 0, 2]) == 2 / 3


def test_a_refit_that_fails_changes_nothing(logits):
    calibrator = rp.PosteriorCalibrator(PRIOR).fit(*logits)
    before = calibrator.predict_proba(logits[0])
    calibrator.subject_to, calibrator.source_prior = "accuracy >= 2", np.full(K, 1 / K)
    with pytest.raises(rp.InfeasibleError):
        calibrator.fit(*logits)
    np.testing.assert_array_equal(calibrator.predict_proba(logits[0]), before)


@pytest.mark.filterwarnings("ignore:.* tuning samples are left out")
def test_a_temperature_can_be_fitted_with_a_class_out_of_play(logits):
    z, y = logits
    target = [0.0, 0.25, 0.25, 0.25, 0.25]
    full_map = rp.PosteriorCalibrator(PRIOR, target_prior=target, temperature="fit").fit(z, y)
    assert 0 < full_map.temperature_ < np.inf


@pytest.mark.parametrize("extreme", [40.0, 800.0])
def test_a_temperature_of_one_score_per_sample_is_that_of_two_columns(extreme):
    rng = np.random.default_rng(1)
    y = np.repeat([0, 1], 500)
    z = 2 * rng.standard_normal(1000) + 4 * y - 2
    z[0] = extreme  # a mislabelled sample that the model is sure of
    one = rp.PosteriorCalibrator([0.9, 0.1], temperature="fit").fit(z, y)
    two = rp.PosteriorCalibrator([0.9, 0.1], temperature="fit").fit(np.c_[0 * z, z], y)
    assert one.temperature_ == pytest.approx(two.temperature_, rel=1e-9)


def test_ignored_scores_are_never_looked_at(logits):
    z, y = logits[0].copy(), logits[1].copy()
    z[:5], y[:5] = np.nan, 255
    options = {"temperature": "fit", "ignore_index": 255}
    with_holes = rp.PosteriorCalibrator(PRIOR, **options).fit(z, y)
    without = rp.PosteriorCalibrator(PRIOR, **options).fit(z[5:], y[5:])
    assert with_holes.temperature_ == pytest.approx(without.temperature_, rel=1e-9)


@pytest.mark.filterwarnings("ignore:.* tuning samples are left out")
def test_equal_slopes_beside_a_class_out_of_play():
    z = np.random.default_rng(0).standard_normal((50, 3))
    with pytest.warns(rp.RepriorWarning, match="as far as the classes in play go"):
        calibrator = rp.PosteriorCalibrator([0.5, 0.25, 0.25], target_prior=[0, 0.5, 0.5]).fit(
            z, np.arange(50) % 3
        )
    assert calibrator.strength_ == 1.0


def test_summary_shows_the_metric_and_the_constraints_it_was_tuned_for(logits):
    rule = "accuracy >= baseline - 0.5"
    calibrator = rp.PosteriorCalibrator(PRIOR, metric="f1[4]", subject_to=[rule]).fit(*logits)
    assert f"subject to   {rule}" in calibrator.summary()
    assert "f1[4]  " in calibrator.summary()


def test_a_scalar_prior_is_refused_in_words(logits):
    with pytest.raises(rp.PriorError, match=r"must have shape \(K,\)"):
        rp.PosteriorCalibrator(0.08).fit(*logits)


def test_a_label_prior_is_checked(logits):
    with pytest.raises(rp.PriorError, match="label_prior"):
        rp.PosteriorCalibrator(PRIOR, temperature="fit", label_prior=[0.5, 0.5]).fit(*logits)


def test_uncorrected_is_the_model_as_it_is(logits, fitted):
    calibrator = rp.PosteriorCalibrator(PRIOR, temperature=2.0).fit(*logits)
    strength = calibrator.strength_
    before = calibrator.uncorrected()
    np.testing.assert_array_equal(before.predict(logits[0]), logits[0].argmax(axis=1))
    np.testing.assert_allclose(
        before.predict_log_proba(logits[0]), log_softmax(logits[0], axis=1), atol=1e-12
    )
    assert (before.strength_, before.temperature_, before.profile_) == (0.0, 1.0, None)
    assert (calibrator.strength_, calibrator.temperature_) == (strength, 2.0)
    with pytest.raises(rp.NotFittedError):
        rp.PosteriorCalibrator(PRIOR).uncorrected()


@pytest.mark.filterwarnings("ignore:.* tuning samples are left out")
def test_uncorrected_knows_classes_out_of_play(logits):
    target = [0.0, *([1 / (len(PRIOR) - 1)] * (len(PRIOR) - 1))]
    before = rp.PosteriorCalibrator(PRIOR, target_prior=target).fit(*logits).uncorrected()
    assert (before.predict_proba(logits[0])[:, 0] > 0).all()
