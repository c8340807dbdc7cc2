"""A class of target prior 0 is never predicted, for every fit and engine."""

from __future__ import annotations

import warnings
from itertools import pairwise

import dask.array as da
import numpy as np
import pytest
from tests.support import oracles

import reprior as rp
from reprior.profile import AFTER_ZERO, SMALLEST_STRENGTH, Priors, Samples, Table, run_parts

SOURCE = np.array([0.7, 0.2, 0.1])
TARGET = [0.5, 0.5, 0.0]
GONE = 2
LEFT_OUT = "tuning samples are left out"


def case(n=900, seed=0):
    """Logits that are too large, many of them for the class that is not to be."""
    rng = np.random.default_rng(seed)
    labels = rng.choice(SOURCE.size, n, p=SOURCE)
    noise = rng.normal(size=(n, SOURCE.size))
    return 2 * (noise + 1.3 * np.eye(SOURCE.size)[labels]) + np.log(SOURCE), labels


def with_warnings(work):
    """The result of a call, and its warnings of samples that are left out."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fitted = work()
    return fitted, [str(each.message) for each in caught if LEFT_OUT in str(each.message)]


def fit(scores, labels, weight=None, **options):
    calibrator = rp.PosteriorCalibrator(SOURCE, **{"target_prior": TARGET, **options})
    return with_warnings(lambda: calibrator.fit(scores, labels, sample_weight=weight))


def assert_ruled_out(calibrator, scores):
    assert not (calibrator.predict(scores) == GONE).any()
    for which in ("decision", "probability"):
        assert (calibrator.predict_proba(scores, map=which)[:, GONE] == 0).all()
        assert calibrator.as_affine(map=which)[1][GONE] == -np.inf


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"metric": "accuracy"},
        {"metric": "mean_iou", "subject_to": "accuracy >= baseline - 0.3"},
        {"metric": "log_loss"},
        {"temperature": "fit"},
        {"separate": True},
        {"separate": True, "temperature": "bcts"},
        {"tune": "per_class"},
        {"tune": "per_class", "metric": "macro_f1", "cv": 3},
        {"selection": "one_se"},
        {"selection": "balanced_log_loss"},
        {"selection": "shrunk", "cv": 3},
        {"n_bootstrap": 50},
        {"bounds": (0.5, 1.0)},
    ],
    ids=repr,
)
def test_the_class_is_nowhere_predicted_and_that_is_said_once(options):
    scores, labels = case()
    fitted, messages = fit(scores, labels, **options)
    assert_ruled_out(fitted, scores)
    n = int((labels == GONE).sum())
    if "bounds" in options:
        assert messages == []
        return
    assert messages == [
        f"{n} of 900 tuning samples are left out: {n} of class 2. `target_prior` 0 rules the class "
        f"out, and no prediction could be right for them."
    ]
    kept = labels != GONE
    assert fitted.profile_.n_samples == kept.sum()
    assert fitted.profile_.baseline.support[GONE] == 0
    if "metric" not in options:
        right = [(fitted.predict(scores)[labels == k] == k).mean() for k in (0, 1)]
        assert fitted.best_score_ == pytest.approx(np.mean(right))


@pytest.mark.parametrize("metric", ["accuracy", "balanced_accuracy", "mean_iou", "macro_f1"])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_strength_is_the_best_above_0_for_all_others(metric, weighted):
    scores, labels = case(n=300)
    weight = np.random.default_rng(1).integers(0, 4, 300) if weighted else None
    fitted, _ = fit(scores, labels, weight, metric=metric)
    kept = labels != GONE
    slopes = np.where(
        np.array(TARGET) > 0, np.log(np.array(TARGET) + 1e-300) - np.log(SOURCE), -1e6
    )
    at = np.linspace(1e-3, 2, 2000)
    kept_weight = None if weight is None else weight[kept]
    values = oracles.metrics_at(scores[kept], labels[kept], slopes, at, kept_weight)[metric]
    assert fitted.best_score_ >= max(values) - 1e-12
    at_strength = oracles.metrics_at(
        scores[kept], labels[kept], slopes, [fitted.strength_], kept_weight
    )
    assert fitted.best_score_ == pytest.approx(at_strength[metric][0])


@pytest.mark.parametrize(
    "options", [{}, {"metric": "mean_iou"}, {"selection": "one_se"}, {"temperature": "fit"}]
)
def test_every_engine_finds_the_same(options):
    scores, labels = case()
    order = np.argsort(labels == GONE, kind="stable")  # the last chunks have nothing else
    scores, labels = scores[order], labels[order]
    fitted, (messages,) = fit(scores, labels, **options)

    def fresh():
        return rp.PosteriorCalibrator(SOURCE, target_prior=TARGET, **options)

    cuts = [0, 100, 500, 850, 870, 900]
    chunks = [(scores[a:b], labels[a:b]) for a, b in pairwise(cuts)]
    lazy = da.from_array(scores, chunks=(90, 3)), da.from_array(labels, chunks=90)

    def online():
        one = rp.engines.OnlineFit(fresh())
        for chunk in chunks:
            one.update(*chunk)
        return one.finish()

    for work in (
        lambda: rp.engines.fit(fresh(), chunks),
        lambda: fresh().fit(*lazy),
        lambda: rp.engines.dask_fit(fresh(), lazy),
        online,
    ):
        other, (again,) = with_warnings(work)
        assert again == messages
        assert other.strength_ == fitted.strength_
        assert other.strength_interval_ == fitted.strength_interval_
        assert other.best_score_ == fitted.best_score_
        assert other.temperature_ == pytest.approx(fitted.temperature_, rel=1e-6)
        np.testing.assert_array_equal(other.counts_.predicted, fitted.counts_.predicted)


def test_the_meta_estimator_leaves_them_out_too():
    from sklearn.linear_model import LogisticRegression

    from reprior.sklearn import RebalancedClassifierCV

    scores, labels = case()
    model = RebalancedClassifierCV(LogisticRegression(), target_prior=TARGET, cv=3)
    fitted, messages = with_warnings(lambda: model.fit(scores, labels))
    assert len(messages) == 1
    assert not (fitted.predict(scores) == GONE).any()


@pytest.mark.parametrize("resolution", [None, 0.25, "refine"])
@pytest.mark.parametrize("options", [{}, {"selection": "one_se"}, {"temperature": 0.05}])
def test_where_no_correction_is_best_the_strength_is_just_above_0(options, resolution):
    rng = np.random.default_rng(3)
    labels = rng.choice(2, 400, p=[0.5, 0.5])
    scores = np.c_[np.eye(2)[labels] * 0.5, rng.choice([-1.0, 1.0], 400)]  # right as they are
    calibrator = rp.PosteriorCalibrator(SOURCE, target_prior=TARGET, **options)
    fitted, messages = with_warnings(
        lambda: rp.engines.fit(calibrator, [(scores, labels)], resolution=resolution)
    )
    assert messages == []
    assert fitted.best_score_ == 1.0
    assert fitted.strength_ >= SMALLEST_STRENGTH
    assert fitted.strength_interval_[0] == 0.0
    assert_ruled_out(fitted, scores)
    np.testing.assert_array_equal(fitted.predict(scores), labels)


def test_an_interval_from_0_on_in_one_bin_rules_the_class_out():
    labels = np.array([0, 0, 0, 1, 1, 1] * 20)
    scores = np.tile([[0.1, 0.0, 1.0], [0.1, 0, 0], [0.1, 0, 0]] + [[0.0, 1.0, 0]] * 3, (20, 1))
    calibrator = rp.PosteriorCalibrator(SOURCE, target_prior=TARGET, temperature=20.0)
    fitted, _ = with_warnings(
        lambda: rp.engines.fit(calibrator, [(scores, labels)], resolution=1.0)
    )
    assert fitted.strength_ == SMALLEST_STRENGTH
    assert_ruled_out(fitted, scores)
    np.testing.assert_array_equal(fitted.predict(scores), labels)


def test_a_profile_and_an_evaluation_have_all_samples():
    scores, labels = case()
    profile = rp.StrengthProfile.from_scores(
        scores, labels, source_prior=SOURCE, target_prior=TARGET
    )
    assert profile.n_samples == labels.size
    assert not profile.n_ruled_out.any()
    fitted, _ = fit(scores, labels)
    assert rp.engines.evaluate(fitted, [(scores, labels)]).n_samples == labels.size


def test_labels_of_the_class_alone_are_refused():
    scores = np.zeros((4, 3))
    for options in ({}, {"metric": "log_loss"}, {"tune": "per_class"}):
        with pytest.raises(rp.LabelsError, match="must hold a class of positive `target_prior`"):
            fit(scores, np.full(4, GONE), **options)


def test_a_metric_of_the_class_is_refused_with_the_reason():
    scores, labels = case()
    with pytest.raises(rp.OptionError, match="target prior of class 2 is 0, which rules it out"):
        fit(scores, labels, metric="recall[2]")
    with pytest.raises(rp.OptionError, match="`subject_to` must be of a class that has labels"):
        fit(scores, labels, subject_to="recall[2] >= 0.1")


def test_a_report_knows_the_tuning_data_again():
    from reprior.report.headline import alike

    scores, labels = case()
    fitted, _ = fit(scores, labels)
    priors = {"source_prior": SOURCE, "target_prior": TARGET}
    full_profile = rp.StrengthProfile.from_scores(scores, labels, **priors)
    assert alike(fitted.profile_, full_profile)
    assert alike(full_profile, fitted.profile_)
    assert alike(fitted.profile_, full_profile.binned(0.01))
    other = rp.StrengthProfile.from_scores(*case(seed=1), **priors)
    assert not alike(fitted.profile_, other)
    assert not alike(
        fitted.profile_, rp.StrengthProfile.from_scores(scores[1:], labels[1:], **priors)
    )
    with pytest.raises(rp.OptionError, match="bounds of the profile, above 0 to 2"):
        fitted.profile_.evaluate("accuracy", 0.0)


@pytest.mark.parametrize("weighted", [False, True])
def test_parts_of_a_pass_know_how_many_are_left_out(weighted):
    scores, labels = case(n=50)
    labels[:5] = 9
    weight = np.arange(50.0) if weighted else None
    priors = Priors.of(SOURCE, TARGET, (AFTER_ZERO, 2.0))
    samples = Samples.of(
        scores, labels, weight, n_classes=priors.n_classes, ignore_index=9, excluded=priors.excluded
    )
    ((counts, sums, *_),) = run_parts(samples, priors.slopes, priors.bounds)
    gone = labels == GONE
    assert counts[Table.SUPPORT, GONE] == gone.sum()
    assert counts[Table.SUPPORT].sum() == 45
    assert counts[Table.PREDICTED].sum() == 45 - gone.sum()
    if weighted:
        assert sums[Table.SUPPORT, GONE] == weight[gone].sum()
