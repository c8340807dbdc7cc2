"""ModalityFusion: what its posterior is, and the identities that it keeps."""

from __future__ import annotations

import json
import math
import re
import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.support.fusions import (
    COUNTS,
    ORDERS,
    PRIOR,
    ROUNDING,
    RULES,
    K,
    flat,
    fused_by_hand,
    made,
    modalities,
    problems,
    references_by_hand,
    softmax,
)

import reprior as rp
from reprior.exceptions import OptionError
from reprior.files.documents import FUSION_CHOICES
from reprior.fusion import modality as options_of
from reprior.fusion.fitting import fixed_strengths, refuse_negative
from reprior.fusion.modality import check_options, fusion_fields

W = -np.log(PRIOR * K)


@pytest.fixture
def data(rng):
    return modalities(rng)


@pytest.fixture
def fitted(data):
    return rp.ModalityFusion(PRIOR, class_axis=1).fit(*data)


# ---------------------------------------------------------------------------------- oracles


@given(problems())
def test_the_posterior_is_algorithm_1_by_hand(problem):
    fusion = made(
        problem["prior"],
        problem["references"],
        problem["strengths"],
        rule=problem["rule"],
        order=problem["order"],
        flatten_by=problem["by"],
        class_axis=1,
    )
    found = fusion.predict_proba(problem["scores"])
    expected = fused_by_hand(
        problem["scores"],
        slopes=-np.log(problem["prior"] * problem["prior"].size),
        strengths=problem["strengths"],
        references=problem["references"],
        rule=problem["rule"],
        order=problem["order"],
        by=problem["by"],
    )
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=ROUNDING)
    np.testing.assert_allclose(
        np.exp(fusion.predict_log_proba(problem["scores"])), found, rtol=1e-9, atol=ROUNDING
    )
    np.testing.assert_array_equal(fusion.predict(problem["scores"]), found.argmax(axis=1))


@pytest.mark.parametrize("by", ["image", "pixel"])
def test_references_are_population_statistics(data, by):
    scores, labels = data
    fusion = rp.ModalityFusion(PRIOR, class_axis=1, flatten_by=by).fit(scores, labels)
    for name, z in flat(scores).items():
        mean, std = references_by_hand(z, by)
        assert fusion.references_[name].mean == pytest.approx(mean, rel=1e-12)
        assert fusion.references_[name].std == pytest.approx(std, rel=1e-9)


TABLE_5 = {
    "SoftAve": {"rule": "mean", "flatten": False, "strength": 0},
    "UNO": {"rule": "noisy_or", "flatten": True, "strength": 0},
    "IC": {"rule": "noisy_or", "flatten": False},
    "UNO-IC": {"rule": "noisy_or", "flatten": True},
}


@pytest.mark.parametrize("row", TABLE_5)
@pytest.mark.parametrize("order", ORDERS)
def test_the_rows_of_table_5_are_four_settings(data, row, order):
    scores, labels = data
    options = TABLE_5[row]
    fusion = rp.ModalityFusion(PRIOR, class_axis=1, order=order, **options).fit(scores, labels)
    tuned = "strength" not in options
    assert (fusion.strength_ > 0) == tuned
    assert fusion.search_ == ("grid" if tuned else "fixed")
    z = flat(scores)
    expected = fused_by_hand(
        z,
        slopes=W,
        strengths=dict.fromkeys(z, fusion.strength_),
        references={n: references_by_hand(x) for n, x in z.items()} if options["flatten"] else None,
        rule=options["rule"],
        order=order,
    )
    found = fusion.predict_proba(scores)
    np.testing.assert_allclose(found.reshape(expected.shape), expected, rtol=1e-9, atol=ROUNDING)


def test_the_rows_are_in_the_docstring():
    for row in TABLE_5:
        assert row in rp.ModalityFusion.__doc__


# ------------------------------------------------------------------------------- identities


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("metric", ["balanced_accuracy", "mean_iou"])
def test_one_modality_is_plain_rebalancing(data, rule, metric):
    scores, labels = data
    fusion = rp.ModalityFusion(PRIOR, class_axis=1, rule=rule, flatten=False, metric=metric)
    fusion.fit({"rgb": scores["rgb"]}, labels)
    plain = rp.PosteriorCalibrator(PRIOR, class_axis=1, metric=metric).fit(scores["rgb"], labels)
    assert fusion.search_ == "exact"
    assert (fusion.strength_, fusion.best_score_) == (plain.strength_, plain.best_score_)
    np.testing.assert_allclose(
        fusion.predict_proba({"rgb": scores["rgb"]}),
        plain.predict_proba(scores["rgb"]),
        rtol=ROUNDING,
    )
    for mine, theirs in zip(fusion.curve_, plain.profile_.curve(metric), strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_one_modality_keeps_its_strength_where_it_is_flattened(data):
    scores, labels = data
    whole = rp.ModalityFusion(PRIOR, class_axis=1, flatten=False).fit({"a": scores["rgb"]}, labels)
    flattened = rp.ModalityFusion(PRIOR, class_axis=1).fit({"a": scores["rgb"]}, labels)
    assert flattened.strength_ == whole.strength_
    np.testing.assert_array_equal(
        flattened.predict({"a": scores["rgb"]}), whole.predict({"a": scores["rgb"]})
    )


@given(problems())
def test_the_fusion_is_symmetric(problem):
    options = {"rule": problem["rule"], "order": problem["order"], "class_axis": 1}
    turned = dict(reversed(problem["scores"].items()))
    one = made(problem["prior"], problem["references"], problem["strengths"], **options)
    strengths = {name: problem["strengths"][name] for name in turned}
    other = made(problem["prior"], problem["references"], strengths, **options)
    np.testing.assert_allclose(
        one.predict_proba(turned), other.predict_proba(turned), rtol=1e-8, atol=ROUNDING
    )
    # The order in which they are passed changes nothing to the bit.
    np.testing.assert_array_equal(one.predict_proba(turned), one.predict_proba(problem["scores"]))


@given(st.integers(0, 10**6), st.floats(0.0, 5.0))
def test_noisy_or_is_monotone(seed, more):
    """The odds of a class against any other rise with its score in one modality."""
    rng = np.random.default_rng(seed)
    scores = {name: 2 * rng.standard_normal((5, K)) + 2 for name in ("rgb", "depth")}
    fusion = made(PRIOR, None, dict.fromkeys(scores, 0.7))
    before = fusion.predict_proba(scores)
    raised = {**scores, "rgb": scores["rgb"] + more * np.eye(K)[1]}
    after = fusion.predict_proba(raised)
    odds = [p[:, [1]] / np.delete(p, 1, axis=1) for p in (before, after)]
    assert (odds[1] >= odds[0] * (1 - 1e-9)).all()


#: Flattened this far, a modality of K classes cannot turn a decision by a margin of 1e-4.
NOTHING = 1e-7


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(
    "order, strength", [("rebalance_first", 0.0), ("rebalance_first", 1.3), ("flatten_first", 0.0)]
)
def test_a_fully_flattened_modality_changes_no_arg_max(rng, rule, order, strength):
    scores = {"rgb": 3 * rng.standard_normal((400, K)) + 2, "depth": rng.standard_normal((400, K))}
    references = {"rgb": (10.0, 0.0), "depth": (NOTHING, 0.0)}
    strengths = dict.fromkeys(scores, strength)
    both = made(PRIOR, references, strengths, rule=rule, order=order)
    alone = made(PRIOR, None, {"rgb": strength}, rule=rule)
    posterior = np.sort(alone.predict_proba({"rgb": scores["rgb"]}), axis=1)
    clear = posterior[:, -1] - posterior[:, -2] > 1e-4
    assert clear.mean() > 0.9
    np.testing.assert_array_equal(
        both.predict(scores)[clear], alone.predict({"rgb": scores["rgb"]})[clear]
    )


def test_in_the_papers_order_a_flattened_modality_takes_over(rng):
    """The flaw: at δ → 0 the modality says λ·w, the rarest class, whatever it sees."""
    scores = {"rgb": 3 * rng.standard_normal((400, K)) + 2, "depth": rng.standard_normal((400, K))}
    references = {"rgb": (10.0, 0.0), "depth": (NOTHING, 0.0)}
    strengths = {"rgb": 0.0, "depth": 2.0}
    paper = made(PRIOR, references, strengths, order="flatten_first").predict(scores)
    ours = made(PRIOR, references, strengths).predict(scores)
    alone = scores["rgb"].argmax(axis=1)
    rarest = int(np.argmin(COUNTS))
    assert (paper != alone).sum() > 20
    assert (paper[paper != alone] == rarest).all()
    np.testing.assert_array_equal(ours, alone)


@given(problems())
def test_flattening_keeps_the_decision_of_one_modality(problem):
    """Of its own, in rebalance_first at any strength and in flatten_first at 0."""
    name, z = next(iter(problem["scores"].items()))
    strength = problem["strengths"][name] if problem["order"] == "rebalance_first" else 0.0
    options = {"order": problem["order"], "class_axis": 1}
    flattened = made(problem["prior"], {name: (1e-3, 0.0)}, {name: strength}, **options)
    plain = made(problem["prior"], None, {name: strength}, **options)
    before, after = plain.predict_proba({name: z}), flattened.predict_proba({name: z})
    winner = before.argmax(axis=1)[:, None]
    assert (np.take_along_axis(after, winner, axis=1) >= after.max(axis=1, keepdims=True)).all()


@given(problems())
def test_delta_is_1_to_the_bit_within_one_sigma(problem):
    name, z = next(iter(problem["scores"].items()))
    h = rp.core.flatten.image_entropy(z, class_axis=1)
    inside = {name: (float(h.max()) + 1e-6, 0.0)}
    flattened = made(problem["prior"], inside, {name: 0.5}, class_axis=1)
    plain = made(problem["prior"], None, {name: 0.5}, class_axis=1)
    np.testing.assert_array_equal(
        flattened.predict_proba({name: z}), plain.predict_proba({name: z})
    )


@pytest.mark.parametrize("n_modalities", [1, 2, 3])
def test_the_product_counts_the_correction_once_per_modality(rng, n_modalities):
    parts = {f"m{i}": rng.standard_normal((20, K)) + 2 for i in range(n_modalities)}
    fusion = made(PRIOR, None, dict.fromkeys(parts, 0.6), rule="product")
    once = rp.rebalance(sum(parts.values()), PRIOR, strength=0.6 * n_modalities)
    np.testing.assert_allclose(fusion.predict_proba(parts), once, rtol=1e-10)
    assert "once per modality" in rp.ModalityFusion.__doc__


def test_every_row_of_a_table_is_an_image(data):
    scores, labels = modalities(np.random.default_rng(3), n=60, pixels=())
    by_image = rp.ModalityFusion(PRIOR).fit(scores, labels)
    by_pixel = rp.ModalityFusion(PRIOR, flatten_by="pixel").fit(scores, labels)
    assert by_image.references_["rgb"].mean == pytest.approx(
        rp.EntropyReference.fit(scores["rgb"]).mean, rel=1e-12
    )
    np.testing.assert_array_equal(by_image.predict_proba(scores), by_pixel.predict_proba(scores))


# -------------------------------------------------------------------------------- layouts


AXES = {
    "(N, K, H, W)": (lambda z: z, 1),
    "(N, H, W, K)": (lambda z: np.moveaxis(z, 1, -1), -1),
    "(N, H, K, W)": (lambda z: np.moveaxis(z, 1, 2), 2),
    "(K, N, H, W)": (lambda z: np.moveaxis(z, 1, 0), 0),
    "Fortran order": (np.asfortranarray, 1),
    "contiguous (N, H, W, K)": (lambda z: np.ascontiguousarray(np.moveaxis(z, 1, -1)), -1),
}


@pytest.mark.parametrize("layout", AXES)
@pytest.mark.parametrize("pixels", [(3, 5), (9, 11), (1, 1)])
@pytest.mark.parametrize("n_classes", [4, 30])
def test_any_class_axis(rng, layout, pixels, n_classes):
    turn, axis = AXES[layout]
    prior = rp.prior_from_counts(np.arange(1, n_classes + 1))
    scores = {n: rng.standard_normal((36, n_classes, *pixels)) * 2 for n in ("a", "b")}
    labels = np.arange(36 * np.prod(pixels)).reshape(36, *pixels) % n_classes
    expected = rp.ModalityFusion(prior, class_axis=1, strength=0.4).fit(scores, labels)
    turned = {name: turn(z) for name, z in scores.items()}
    fusion = rp.ModalityFusion(prior, class_axis=axis, strength=0.4).fit(turned, labels)
    assert fusion.best_score_ == expected.best_score_
    found = fusion.predict_proba(turned)
    assert found.shape == turned["a"].shape
    np.testing.assert_allclose(found, turn(expected.predict_proba(scores)), rtol=1e-10)
    np.testing.assert_array_equal(fusion.predict(turned), expected.predict(scores))


@pytest.mark.parametrize("shape", [(50,), (50, 1)])
@pytest.mark.parametrize("kind", ["logits", "probs", "log_probs"])
def test_one_score_per_sample_of_two_classes(rng, kind, shape):
    labels = (rng.random(50) < 0.4).astype(int)
    z = {n: rng.standard_normal(50) * 2 + 3 * labels - 2.5 for n in ("a", "b")}
    two = {n: np.stack([0 * x, x], axis=1) for n, x in z.items()}
    turned = {
        n: {"logits": x, "probs": p, "log_probs": np.log(p)}[kind].reshape(shape)
        for n, x in z.items()
        for p in [1 / (1 + np.exp(-x))]
    }
    expected = rp.ModalityFusion([0.8, 0.2]).fit(two, labels)
    fusion = rp.ModalityFusion([0.8, 0.2], kind=kind).fit(turned, labels)
    assert fusion.strength_ == expected.strength_
    found = fusion.predict_proba(turned)
    assert found.shape == shape
    np.testing.assert_allclose(
        found.reshape(-1), expected.predict_proba(two)[:, 1], rtol=1e-9, atol=ROUNDING
    )
    np.testing.assert_array_equal(fusion.predict(turned), expected.predict(two))


@pytest.mark.parametrize("kind", ["probs", "log_probs"])
@pytest.mark.parametrize("rule", RULES)
def test_probabilities_are_as_good_as_logits(data, kind, rule):
    scores, labels = data
    p = {n: np.moveaxis(softmax(np.moveaxis(z, 1, -1)), -1, 1) for n, z in scores.items()}
    given_as = p if kind == "probs" else {n: np.log(x) for n, x in p.items()}
    expected = rp.ModalityFusion(PRIOR, class_axis=1, rule=rule).fit(scores, labels)
    fusion = rp.ModalityFusion(PRIOR, class_axis=1, rule=rule, kind=kind).fit(given_as, labels)
    assert fusion.strength_ == pytest.approx(expected.strength_, abs=1e-9)
    np.testing.assert_allclose(
        fusion.predict_proba(given_as), expected.predict_proba(scores), rtol=1e-8
    )


def test_zero_probabilities_stay_zero_but_for_the_other_modality():
    p = {"a": np.array([[0.5, 0.5, 0.0]]), "b": np.array([[1.0, 0.0, 0.0]])}
    options = {"kind": "probs"}
    prior, references = np.array([0.5, 0.3, 0.2]), {"a": (0.1, 0.0), "b": (0.1, 0.0)}
    found = made(prior, references, {"a": 0.5, "b": 0.5}, **options).predict_proba(p)
    assert found[0, 2] == 0.0
    assert (found[0, :2] > 0).all()
    log = made(prior, references, {"a": 0.5, "b": 0.5}, **options).predict_log_proba(p)
    assert log[0, 2] == -np.inf
    np.testing.assert_allclose(np.exp(log[0, :2]), found[0, :2], rtol=1e-12)
    product = made(prior, references, {"a": 0.5, "b": 0.5}, rule="product", **options)
    np.testing.assert_array_equal(product.predict_proba(p), [[1.0, 0.0, 0.0]])


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_the_dtype_stays(data, dtype):
    scores = {name: z.astype(dtype) for name, z in data[0].items()}
    fusion = rp.ModalityFusion(PRIOR, class_axis=1).fit(scores, data[1])
    assert fusion.predict_proba(scores).dtype == dtype
    assert fusion.predict_log_proba(scores).dtype == dtype
    wide = fusion.predict_proba({name: z.astype(np.float64) for name, z in scores.items()})
    np.testing.assert_allclose(
        fusion.predict_proba(scores), wide, atol=4e-3 if dtype == "float16" else 1e-5
    )
    # What was tuned is what is predicted, also where rounding to 16 bits makes ties.
    found = rp.metrics.evaluate("balanced_accuracy", data[1], fusion.predict(scores))
    assert fusion.best_score_ == pytest.approx(found, abs=ROUNDING)


def test_mixed_and_integer_dtypes(data):
    scores = {"a": np.array([[4, 1], [0, 3]]), "b": np.array([[2.0, 3.0], [0, 3]], np.float32)}
    fusion = made(np.array([0.7, 0.3]), None, {"a": 1.0, "b": 1.0})
    assert fusion.predict_proba(scores).dtype == np.float64
    whole = {name: np.rint(z).astype(int) for name, z in scores.items()}
    assert fusion.predict_proba(whole).dtype == np.float64
    np.testing.assert_allclose(fusion.predict_proba(whole), fusion.predict_proba(scores))


def test_nothing_is_mutated(data):
    scores, labels = data
    before = {name: z.copy() for name, z in scores.items()}, labels.copy()
    for rule in RULES:
        fusion = rp.ModalityFusion(PRIOR, class_axis=1, rule=rule).fit(scores, labels)
        fusion.predict_proba(scores)
        fusion.predict_log_proba(scores)
    for name, z in scores.items():
        np.testing.assert_array_equal(z, before[0][name])
    np.testing.assert_array_equal(labels, before[1])


def test_fit_returns_self_and_keeps_the_options(data):
    fusion = rp.ModalityFusion(PRIOR, class_axis=1)
    before = dict(vars(fusion))
    assert fusion.fit(*data) is fusion
    assert {name: vars(fusion)[name] for name in before} == before
    assert fusion.modalities_ == ("rgb", "depth")


# ---------------------------------------------------------------------------------- tuning


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("by", ["image", "pixel"])
def test_best_score_is_the_metric_of_predict_and_no_strength_tried_beats_it(data, rule, order, by):
    scores, labels = data
    fusion = rp.ModalityFusion(PRIOR, class_axis=1, rule=rule, order=order, flatten_by=by)
    fusion.fit(scores, labels)
    assert fusion.search_ == ("exact" if rule == "product" else "grid")
    found = rp.metrics.evaluate("balanced_accuracy", labels, fusion.predict(scores))
    assert fusion.best_score_ == pytest.approx(found, abs=ROUNDING)
    strengths, values = fusion.curve_
    assert fusion.best_score_ == pytest.approx(values.max(), abs=ROUNDING)
    for strength in np.linspace(0, 2, 41):
        other = made(
            PRIOR,
            {n: (r.mean, r.std) for n, r in fusion.references_.items()},
            dict.fromkeys(scores, float(strength)),
            rule=rule,
            order=order,
            flatten_by=by,
            class_axis=1,
        )
        score = rp.metrics.evaluate("balanced_accuracy", labels, other.predict(scores))
        margin = ROUNDING if rule == "product" or np.isclose(strengths, strength).any() else 0.02
        assert score <= fusion.best_score_ + margin


def test_strengths_per_modality_do_at_least_as_well(data):
    scores, labels = data
    shared = rp.ModalityFusion(PRIOR, class_axis=1).fit(scores, labels)
    own = rp.ModalityFusion(PRIOR, class_axis=1, strengths="per_modality").fit(scores, labels)
    assert own.best_score_ >= shared.best_score_
    assert own.strength_ is None
    assert set(own.strengths_) == set(own.curve_) == set(scores)
    assert shared.strengths_ == dict.fromkeys(scores, shared.strength_)
    found = rp.metrics.evaluate("balanced_accuracy", labels, own.predict(scores))
    assert own.best_score_ == pytest.approx(found, abs=ROUNDING)


def test_a_weak_prior_in_one_modality_asks_for_two_strengths(rng):
    """depth was trained on balanced classes: it needs no correction, and rgb all of it."""
    labels = rng.integers(0, K, 3000)
    lead = 2.0 * np.eye(K)[labels]
    scores = {
        "rgb": lead + rng.standard_normal(lead.shape) + 1.5 * np.log(PRIOR),
        "depth": lead + rng.standard_normal(lead.shape),
    }
    fusion = rp.ModalityFusion(PRIOR, strengths="per_modality", flatten=False).fit(scores, labels)
    assert fusion.strengths_["rgb"] > fusion.strengths_["depth"] + 0.5


def test_given_strengths_are_not_tuned(data):
    scores, labels = data
    fusion = rp.ModalityFusion(PRIOR, class_axis=1, strength={"depth": 0.2, "rgb": 1.0})
    fusion.fit(scores, labels)
    assert (fusion.search_, fusion.strength_) == ("fixed", None)
    assert fusion.strengths_ == {"rgb": 1.0, "depth": 0.2}
    found = rp.metrics.evaluate("balanced_accuracy", labels, fusion.predict(scores))
    assert fusion.best_score_ == pytest.approx(found, abs=ROUNDING)
    one = rp.ModalityFusion(PRIOR, class_axis=1, strength=0.7).fit(scores, labels)
    assert one.strength_ == 0.7
    assert [len(part) for part in one.curve_] == [1, 1]
    same = rp.ModalityFusion(PRIOR, class_axis=1, strength=0.7, strengths="per_modality")
    assert same.fit(scores, labels).strengths_ == one.strengths_


def test_constraints_hold(data):
    scores, labels = data
    rule = "recall[0] >= baseline - 0.02"
    free = rp.ModalityFusion(PRIOR, class_axis=1).fit(scores, labels)
    bound = rp.ModalityFusion(PRIOR, class_axis=1, subject_to=rule).fit(scores, labels)
    base = rp.ModalityFusion(PRIOR, class_axis=1, strength=0).fit(scores, labels)
    recall = [(f.predict(scores)[labels == 0] == 0).mean() for f in (base, free, bound)]
    assert recall[1] < recall[0] - 0.02 <= recall[2] + ROUNDING
    assert bound.strength_ < free.strength_
    with pytest.raises(rp.InfeasibleError, match="the nearest is"):
        rp.ModalityFusion(PRIOR, class_axis=1, subject_to="accuracy >= 1.5").fit(scores, labels)


def test_groups_of_classes(data):
    scores, labels = data
    groups = {"rare": [K - 2, K - 1]}
    fusion = rp.ModalityFusion(PRIOR, class_axis=1, metric="recall[rare]", class_groups=groups)
    fusion.fit(scores, labels)
    found = [rp.metrics.evaluate(f"recall[{k}]", labels, fusion.predict(scores), n_classes=K)
             for k in groups["rare"]]  # fmt: skip
    assert fusion.best_score_ == pytest.approx(np.mean(found))
    assert "recall[rare]" in fusion.summary()
    limited = rp.ModalityFusion(
        PRIOR, class_axis=1, subject_to="recall[rare] >= baseline", class_groups=groups
    )
    assert limited.fit(scores, labels).strength_ >= 0
    with pytest.raises(rp.LabelsError, match="must name a class that exists"):
        rp.ModalityFusion(PRIOR, class_axis=1, metric="recall[rare]").fit(scores, labels)


@pytest.mark.parametrize("rule", ["noisy_or", "product"])
@pytest.mark.parametrize("metric", ["cohen_kappa(linear)", "mean_dice_per_image"])
def test_metrics_of_pairs_are_refused(data, rule, metric):
    scores, labels = data
    words = "must be a metric of class counts for a fusion of modalities"
    with pytest.raises(OptionError, match=f"`metric` {words}. Got '{re.escape(metric)}'"):
        rp.ModalityFusion(PRIOR, class_axis=1, rule=rule, metric=metric).fit(scores, labels)
    with pytest.raises(OptionError, match=f"`subject_to` {words}"):
        rp.ModalityFusion(PRIOR, class_axis=1, rule=rule, subject_to=f"{metric} >= 0.1").fit(
            scores, labels
        )


def test_ignored_pixels_count_for_the_image_and_not_for_the_metric(data, rng):
    scores, labels = data
    holes = labels.copy()
    holes[rng.random(labels.shape) < 0.3] = 255
    holes[:, 0, 0] = labels[:, 0, 0]  # no image is left out
    fusion = rp.ModalityFusion(PRIOR, class_axis=1, ignore_index=255).fit(scores, holes)
    whole = rp.ModalityFusion(PRIOR, class_axis=1).fit(scores, labels)
    assert fusion.references_ == whole.references_
    kept = holes != 255
    found = rp.metrics.evaluate("balanced_accuracy", labels[kept], fusion.predict(scores)[kept])
    assert fusion.best_score_ == pytest.approx(found, abs=ROUNDING)


def test_an_image_without_labels_does_not_count_at_all(data):
    scores, labels = data
    labels = labels.copy()
    labels[3:7] = 255
    scores = {name: z.copy() for name, z in scores.items()}
    scores["rgb"][3:7] = np.nan
    kept = np.r_[0:3, 7 : len(labels)]
    fusion = rp.ModalityFusion(PRIOR, class_axis=1, ignore_index=255).fit(scores, labels)
    same = rp.ModalityFusion(PRIOR, class_axis=1).fit(
        {name: z[kept] for name, z in scores.items()}, labels[kept]
    )
    assert fusion.strength_ == same.strength_
    assert fusion.best_score_ == same.best_score_
    for name in scores:
        assert fusion.references_[name].mean == pytest.approx(same.references_[name].mean)


@pytest.mark.parametrize("rule", ["noisy_or", "product"])
def test_sample_weights_count_as_repetitions(rule):
    scores, labels = modalities(np.random.default_rng(5), n=300, pixels=())
    weight = np.arange(labels.size) % 3
    options = {"rule": rule, "flatten": False}
    weighted = rp.ModalityFusion(PRIOR, **options).fit(scores, labels, sample_weight=weight)
    repeated = rp.ModalityFusion(PRIOR, **options).fit(
        {name: np.repeat(z, weight, axis=0) for name, z in scores.items()},
        np.repeat(labels, weight),
    )
    assert weighted.strength_ == repeated.strength_
    assert weighted.best_score_ == pytest.approx(repeated.best_score_, abs=ROUNDING)


def test_the_upper_bound_is_widened_and_said_so(rng):
    labels = rng.integers(0, K, 600)
    lead = 2.5 * np.eye(K)[labels]
    scores = {n: lead + rng.standard_normal(lead.shape) + 3 * np.log(PRIOR) for n in ("a", "b")}
    for rule in ("noisy_or", "product"):
        with pytest.warns(rp.RepriorWarning) as caught:
            fusion = rp.ModalityFusion(PRIOR, rule=rule, bounds=(0.0, 1.0)).fit(scores, labels)
        assert "upper bound 1: searching up to 2" in str(caught[0].message)
        assert caught[0].filename == __file__
        assert fusion.strength_ > 1.5


def test_equal_priors_leave_the_strength_at_one(data):
    with pytest.warns(rp.RepriorWarning, match="is the source prior"):
        fusion = rp.ModalityFusion(PRIOR, target_prior=PRIOR, class_axis=1).fit(*data)
    assert fusion.strength_ == 1.0


def test_absent_classes_bring_a_warning(data):
    scores, labels = data
    with pytest.warns(rp.RepriorWarning, match="1 of 4 classes have no tuning labels: 3"):
        rp.ModalityFusion(PRIOR, class_axis=1).fit(scores, np.minimum(labels, 2))


def test_a_class_of_target_prior_zero_is_never_predicted(data):
    scores, labels = data
    target = [0.5, 0.25, 0.25, 0.0]
    for rule in RULES:
        fusion = rp.ModalityFusion(
            PRIOR, target_prior=target, class_axis=1, rule=rule, strength=0.5
        ).fit(scores, labels)
        assert (fusion.predict_proba(scores)[:, 3] == 0).all()
    none = rp.ModalityFusion(PRIOR, target_prior=target, class_axis=1, strength=0)
    assert (none.fit(scores, labels).predict_proba(scores)[:, 3] > 0).all()


def test_no_warning_without_a_reason(data):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rp.ModalityFusion(PRIOR, class_axis=1).fit(*data)


def test_string_labels_and_frames():
    scores, labels = modalities(np.random.default_rng(8), n=200, pixels=())
    names = np.array(["ant", "bee", "cow", "dog"])
    frames = {name: pd.DataFrame(z, columns=names) for name, z in scores.items()}
    fusion = rp.ModalityFusion(dict(zip(names, PRIOR, strict=True)))
    fusion.fit(frames, pd.Series(names[labels]), sample_weight=pd.Series(np.ones(200)))
    same = rp.ModalityFusion(PRIOR).fit(scores, labels)
    assert fusion.strength_ == same.strength_
    np.testing.assert_array_equal(fusion.predict(frames), names[same.predict(scores)])
    turned = {name: frame[names[::-1]] for name, frame in frames.items()}
    np.testing.assert_array_equal(fusion.predict(turned), fusion.predict(scores))


def test_a_refit_that_fails_changes_nothing(data, fitted):
    before = fitted.predict_proba(data[0])
    fitted.subject_to, fitted.source_prior = "accuracy >= 2", np.full(K, 1 / K)
    with pytest.raises(rp.InfeasibleError):
        fitted.fit(*data)
    np.testing.assert_array_equal(fitted.predict_proba(data[0]), before)


# --------------------------------------------------------------------- what is not there


@pytest.mark.parametrize("rule", RULES)
def test_a_missing_modality_is_left_out_where_that_is_allowed(data, rule):
    scores, labels = data
    fusion = rp.ModalityFusion(PRIOR, class_axis=1, rule=rule, missing="leave_out")
    fusion.fit(scores, labels)
    known = fusion.references_["depth"]
    alone = made(
        PRIOR,
        {"depth": (known.mean, known.std)},
        {"depth": fusion.strength_},
        rule=rule,
        class_axis=1,
    )
    expected = alone.predict_proba({"depth": scores["depth"]})
    for there in ({"depth": scores["depth"]}, {"rgb": None, "depth": scores["depth"]}):
        np.testing.assert_allclose(fusion.predict_proba(there), expected, rtol=ROUNDING)
        np.testing.assert_array_equal(fusion.predict(there), expected.argmax(axis=1))


# ------------------------------------------------------------------------- several passes


def passes_by_hand(z):
    """(T, N, K, P) logits: the mean posterior, its entropy, and the mutual information."""
    p = np.moveaxis(softmax(np.moveaxis(z, 2, -1)), -1, 2)
    mean = p.mean(axis=0)
    whole = -(mean * np.log(mean)).sum(axis=1)
    each = -(p * np.log(p)).sum(axis=2).mean(axis=0)
    return mean, whole, whole - each


@pytest.mark.parametrize("uncertainty", ["mutual_information", "smaller"])
@pytest.mark.parametrize("by", ["image", "pixel"])
@pytest.mark.parametrize("order", ORDERS)
def test_passes_of_dropout(rng, uncertainty, by, order):
    scores, labels = modalities(rng, n=12, pixels=(4,))
    passes = {
        name: z + rng.uniform(0.2, 2.0, (1, 12, 1, 1)) * rng.standard_normal((5, *z.shape))
        for name, z in scores.items()
    }
    fusion = rp.ModalityFusion(
        PRIOR, class_axis=1, uncertainty=uncertainty, flatten_by=by, order=order, strength=0.4
    ).fit(passes, labels)
    expected = {}
    for name, z in passes.items():
        mean, *measures = passes_by_hand(z)
        factors = []
        for value in measures if uncertainty == "smaller" else measures[1:]:
            per = value.mean(axis=1, keepdims=True) if by == "image" else value
            mu, sigma = per.mean(), per.std()
            factors.append(mu / (mu + np.maximum(0, per - mu - sigma)))
        d = np.min(factors, axis=0)[:, None]
        assert d.min() < 1
        shift = 0.4 * W[:, None]
        a = d * (np.log(mean) + shift) if order == "rebalance_first" else d * np.log(mean) + shift
        expected[name] = np.moveaxis(softmax(np.moveaxis(a, 1, -1)), -1, 1)
    mass = 1 - (1 - expected["rgb"]) * (1 - expected["depth"])
    np.testing.assert_allclose(
        fusion.predict_proba(passes), mass / mass.sum(axis=1, keepdims=True), rtol=1e-8
    )
    assert set(fusion.information_references_) == set(scores)
    assert set(fusion.references_) == (set(scores) if uncertainty == "smaller" else set())


def test_passes_that_are_alike_are_one(rng):
    """Their mutual information is 0, so δ is that of the entropy alone."""
    scores, labels = modalities(rng, n=20, pixels=(3,))
    noisy = {n: z + rng.standard_normal((4, *z.shape)) for n, z in scores.items()}
    fusion = rp.ModalityFusion(PRIOR, class_axis=1, uncertainty="smaller").fit(noisy, labels)
    one = made(
        PRIOR,
        {n: (r.mean, r.std) for n, r in fusion.references_.items()},
        fusion.strengths_,
        class_axis=1,
    )
    same = {n: np.stack([z] * 3) for n, z in scores.items()}
    np.testing.assert_allclose(
        fusion.predict_proba(same), one.predict_proba(scores), rtol=1e-9, atol=ROUNDING
    )


# ----------------------------------------------------------------------------------- torch


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_torch_is_numpy(data, rule, dtype):
    scores, labels = {n: z.astype(dtype) for n, z in data[0].items()}, data[1]
    expected = rp.ModalityFusion(PRIOR, class_axis=1, rule=rule).fit(scores, labels)
    tensors = {n: torch.tensor(z) for n, z in scores.items()}
    fusion = rp.ModalityFusion(PRIOR, class_axis=1, rule=rule)
    fusion.fit(tensors, torch.tensor(labels))
    assert fusion.strength_ == expected.strength_
    assert fusion.references_ == expected.references_
    found = fusion.predict_proba(tensors)
    assert isinstance(found, torch.Tensor)
    assert found.dtype == getattr(torch, dtype)
    atol = {"float16": 1e-3, "float32": 1e-6, "float64": ROUNDING}[dtype]
    np.testing.assert_allclose(found.numpy(), expected.predict_proba(scores), atol=atol)
    log, log_expected = fusion.predict_log_proba(tensors), expected.predict_log_proba(scores)
    np.testing.assert_allclose(log.numpy(), log_expected, rtol=20 * atol, atol=20 * atol)
    index = fusion.predict(tensors)
    assert isinstance(index, torch.Tensor)
    assert (index.numpy() == expected.predict(scores)).mean() > 0.999


def test_mixed_libraries_are_refused(data):
    scores, labels = data
    with pytest.raises(rp.RepriorError, match="one array library"):
        rp.ModalityFusion(PRIOR, class_axis=1).fit(
            {"rgb": torch.tensor(scores["rgb"]), "depth": scores["depth"]}, labels
        )


# ----------------------------------------------------------------------------------- files


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"flatten": False},
        {"strengths": "per_modality"},
        {"order": "flatten_first"},
        {"rule": "product", "flatten_by": "pixel"},
        {"strength": {"rgb": 1.0, "depth": 0.5}},
        {"missing": "leave_out", "rule": "mean", "target_prior": [0.4, 0.3, 0.2, 0.1]},
    ],
)
def test_save_and_load_round_trip(data, tmp_path, options):
    scores, labels = data
    fusion = rp.ModalityFusion(PRIOR, class_axis=1, **options).fit(scores, labels)
    fusion.save(tmp_path / "fusion.json")
    loaded = rp.load(tmp_path / "fusion.json")
    assert isinstance(loaded, rp.ModalityFusion)
    np.testing.assert_array_equal(loaded.predict_proba(scores), fusion.predict_proba(scores))
    for name in (
        "strength_",
        "strengths_",
        "references_",
        "information_references_",
        "modalities_",
        "best_score_",
        "search_",
        "missing",
        "rule",
        "order",
    ):
        assert getattr(loaded, name) == getattr(fusion, name)
    assert loaded.curve_ is None
    loaded.save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == (tmp_path / "fusion.json").read_bytes()


def test_class_names_and_passes_survive_the_file(rng, tmp_path):
    scores, labels = modalities(rng, n=30, pixels=())
    passes = {n: z + rng.standard_normal((3, *z.shape)) for n, z in scores.items()}
    names = np.array(["ant", "bee", "cow", "dog"])
    fusion = rp.ModalityFusion(PRIOR, classes=names, uncertainty="smaller")
    fusion.fit(passes, names[labels]).save(tmp_path / "f.json")
    loaded = rp.load(tmp_path / "f.json")
    np.testing.assert_array_equal(loaded.predict(passes), fusion.predict(passes))
    assert loaded.information_references_ == fusion.information_references_


def test_the_file_says_what_it_is(fitted, tmp_path):
    fitted.save(tmp_path / "fusion.json")
    fields = json.loads((tmp_path / "fusion.json").read_text())
    assert (fields["format"], fields["format_version"]) == ("reprior fusion", 1)
    assert [each["name"] for each in fields["modalities"]] == ["rgb", "depth"]


# ----------------------------------------------------------------------------------- words


def test_summary_and_repr(data, fitted, tmp_path):
    text = fitted.summary()
    assert "noisy_or, rebalance first" in text
    assert f"{fitted.best_score_:.4f}" in text
    assert f"{fitted.references_['depth'].mean:.4f}" in text
    assert "on a grid" in text
    assert repr(rp.ModalityFusion(PRIOR)).endswith("not fitted)")
    assert "('rgb', 'depth')" in repr(fitted)
    fitted.save(tmp_path / "f.json")
    assert "no tuning data at hand" in rp.load(tmp_path / "f.json").summary()


@pytest.mark.parametrize("use", ["predict", "predict_proba", "predict_log_proba"])
def test_unfitted_use_is_refused(data, use):
    with pytest.raises(rp.NotFittedError, match=r"not fitted\. Call fit"):
        getattr(rp.ModalityFusion(PRIOR), use)(data[0])
    with pytest.raises(rp.NotFittedError):
        rp.ModalityFusion(PRIOR).summary()


def _scores(**changed):
    rng = np.random.default_rng(0)
    scores = {name: rng.standard_normal((6, K, 2)) + 2 for name in ("rgb", "depth")}
    return {**scores, **changed}


_LABELS = np.arange(12).reshape(6, 2) % K
_NAN = np.full((6, K, 2), 2.0)
_NAN[2, 1, 0] = np.nan
_SURE = np.zeros((6, K, 2))
_SURE[:, 1] = 1.0
_ONE = np.zeros((6, K, 2))
_ONE[:, 2] = 1.0

FIT_WORDS = {
    "not a mapping": (
        {},
        [1, 2],
        _LABELS,
        rp.ScoresError,
        "`scores` must be a mapping from modality to scores. Got list. Pass for example",
    ),
    "no modality": (
        {},
        {},
        _LABELS,
        rp.ScoresError,
        "`scores` must hold the scores of at least one modality. Got none.",
    ),
    "a number for a name": (
        {},
        {1: np.ones((6, K, 2))},
        _LABELS,
        rp.OptionError,
        "`scores` must name its modalities by words. Got 1.",
    ),
    "None": (
        {},
        _scores(depth=None),
        _LABELS,
        rp.ScoresError,
        "Got none for 'depth'. Pass its scores, or leave its name out to fit without it",
    ),
    "shapes": (
        {},
        _scores(depth=np.ones((5, K, 2))),
        _LABELS,
        rp.ScoresError,
        "`scores` must have one shape, with the same classes. Got (6, 4, 2) for 'rgb' and "
        "(5, 4, 2) for 'depth'. Resize or align them before fusing.",
    ),
    "class counts": (
        {},
        _scores(depth=np.ones((6, 3, 2))),
        _LABELS,
        rp.ScoresError,
        "with the same classes. Got (6, 4, 2) for 'rgb' and (6, 3, 2) for 'depth'.",
    ),
    "other classes than the prior": (
        {},
        {"rgb": np.ones((6, 3, 2))},
        _LABELS,
        rp.ScoresError,
        "`scores` must have one entry per class on the class axis. Got 3",
    ),
    "a vector": (
        {"class_axis": -1},
        {"rgb": np.ones(4)},
        [1],
        rp.ScoresError,
        "`scores` must have an axis of images and one of classes. Got shape (4,). Pass shape",
    ),
    "NaN": (
        {},
        _scores(depth=_NAN),
        _LABELS,
        rp.ScoresError,
        "`scores['depth']` must not contain NaN or +inf. Got scores['depth'][2, 1, 0]=nan.",
    ),
    "NaN, exactly": (
        {},
        {"depth": _NAN},
        _LABELS,
        rp.ScoresError,
        "Got scores['depth'][2, 1, 0]=nan.",
    ),
    "NaN, unflattened": (
        {"flatten": False},
        _scores(depth=_NAN),
        _LABELS,
        rp.ScoresError,
        "Got scores['depth'][2, 1, 0]=nan.",
    ),
    "zero entropy": (
        {"kind": "probs"},
        {"rgb": _SURE, "depth": _SURE},
        _LABELS,
        rp.ScoresError,
        "`scores['rgb']` must have some entropy on the images it is fitted on, or there is nothing "
        "to refer to. Got a mean entropy of 0. Pass scores of a calibrated model, or "
        "flatten=False.",
    ),
    "no dropout": (
        {"uncertainty": "mutual_information"},
        {"rgb": np.stack([_scores()["rgb"]] * 2)},
        _LABELS,
        rp.ScoresError,
        "must have some mutual information on the images it is fitted on",
    ),
    "no passes": (
        {"uncertainty": "smaller", "class_axis": -1},
        {"rgb": np.ones((6, K))},
        _LABELS,
        rp.ScoresError,
        "`scores` must have a leading axis of passes",
    ),
    "all ignored": (
        {"ignore_index": 255},
        _scores(),
        np.full((6, 2), 255),
        rp.LabelsError,
        "`labels` must leave at least one sample to count. Got 12 samples, all of them ignored or "
        "of weight 0.",
    ),
    "labels of another shape": (
        {},
        _scores(),
        _LABELS[:5],
        rp.LabelsError,
        "`labels` must have one entry per sample.",
    ),
    "a label too large": (
        {},
        _scores(),
        _LABELS + 1,
        rp.LabelsError,
        "`labels` must be class indices from 0 to 3.",
    ),
    "nothing in common": (
        {"kind": "probs", "rule": "product", "flatten": False},
        {"rgb": _SURE, "depth": _ONE},
        _LABELS,
        rp.ScoresError,
        "`scores` must leave some class possible in every row under rule='product'.",
    ),
    "only impossible classes": (
        {"kind": "probs", "flatten": False, "target_prior": [0.5, 0.0, 0.25, 0.25]},
        {"rgb": _SURE, "depth": _ONE},
        _LABELS,
        rp.ScoresError,
        "`scores['rgb']` must leave some class of positive `target_prior` possible in every row. "
        "Got scores['rgb'][0, :, 0], whose every possible class has target prior 0.",
    ),
    "rows that are no distributions": (
        {"kind": "probs"},
        _scores(rgb=np.full((6, K, 2), 0.3)),
        _LABELS,
        rp.ScoresError,
        "`scores['rgb']` must sum to 1 over the class axis under kind='probs'",
    ),
    "rule": (
        {"rule": "noisyor"},
        _scores(),
        _LABELS,
        rp.OptionError,
        "`rule` must be one of 'noisy_or', 'mean', 'product'. Got 'noisyor'. Did you mean",
    ),
    "order": (
        {"order": "flatten"},
        _scores(),
        _LABELS,
        rp.OptionError,
        "`order` must be one of 'rebalance_first', 'flatten_first'. Got 'flatten'. Did you mean "
        "'flatten_first'?",
    ),
    "bounds": ({"bounds": (2, 0)}, _scores(), _LABELS, rp.OptionError, "bounds reversed"),
    "negative bounds": (
        {"bounds": (-1, 1), "target_prior": [0.5, 0.5, 0, 0]},
        _scores(),
        _LABELS,
        rp.OptionError,
        "Strengths must not reach below 0 where `target_prior` has a 0. Got -1 and "
        "target_prior[2]=0.",
    ),
    "strength of others": (
        {"strength": {"rgb": 1.0}},
        _scores(),
        _LABELS,
        rp.OptionError,
        "`strength` must have one number for every modality, 'rgb', 'depth'. Got 'rgb'.",
    ),
    "metric": ({"metric": "auc"}, _scores(), _LABELS, rp.OptionError, "must be decided by hard"),
    "prior": ({"target_prior": [1.0]}, _scores(), _LABELS, rp.PriorError, "`target_prior`"),
}


@pytest.mark.parametrize("case", FIT_WORDS)
def test_bad_input_is_answered_in_words(case):
    options, scores, labels, error, words = FIT_WORDS[case]
    with pytest.raises(error) as caught:
        rp.ModalityFusion(PRIOR, **{"class_axis": 1, **options}).fit(scores, labels)
    assert words in str(caught.value)
    assert isinstance(caught.value, rp.RepriorError)


def test_bad_input_to_a_fitted_fusion(fitted, data):
    scores, _ = data
    with pytest.raises(rp.ScoresError, match=r"'rgb', 'depth'. Got 'lidar'. Leave it out"):
        fitted.predict({**scores, "lidar": scores["rgb"]})
    with pytest.raises(rp.ScoresError, match=r"Got none for 'depth'. Pass its scores"):
        fitted.predict({"rgb": scores["rgb"]})
    with pytest.raises(rp.ScoresError, match=r"at least one modality. Got none"):
        fitted.predict({})
    with pytest.raises(rp.ScoresError, match="one shape"):
        fitted.predict_proba({"rgb": scores["rgb"], "depth": scores["depth"][:3]})
    for library in (np.asarray, torch.tensor):
        bad = {name: z.copy() for name, z in scores.items()}
        bad["depth"][1, 2, 0, 0] = np.inf
        tensors = {name: library(z) for name, z in bad.items()}
        for use in (fitted.predict, fitted.predict_proba, fitted.predict_log_proba):
            with pytest.raises(rp.ScoresError, match=r"scores\['depth'\]\[1, 2, 0, 0\]=inf"):
                use(tensors)


def test_probabilities_declared_as_logits_bring_one_warning(data, fitted):
    scores, labels = data
    p = {n: np.moveaxis(softmax(np.moveaxis(z, 1, -1)), -1, 1) for n, z in scores.items()}
    with pytest.warns(rp.RepriorWarning, match="pass kind='probs'") as caught:
        rp.ModalityFusion(PRIOR, class_axis=1, strength=0.5).fit(p, labels)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    for use in (fitted.predict, fitted.predict_proba, fitted.predict_log_proba):
        with pytest.warns(rp.RepriorWarning, match="pass kind='probs'") as caught:
            use(p)
        assert caught[0].filename == __file__


def test_a_score_that_is_not_known_survives_as_nan(fitted, tmp_path):
    fitted.best_score_ = math.nan
    fitted.save(tmp_path / "f.json")
    assert math.isnan(rp.load(tmp_path / "f.json").best_score_)


# ------------------------------------------------------------------------------ without labels


def test_a_strength_that_is_given_needs_no_labels(data):
    scores, labels = data
    for strength in (0.7, dict.fromkeys(scores, 0.3)):
        options = {"class_axis": 1, "strength": strength}
        known = rp.ModalityFusion(PRIOR, **options).fit(scores, labels)
        found = [
            rp.ModalityFusion(PRIOR, **options).fit(scores),
            rp.ModalityFusion(PRIOR, **options).fit_stream([scores]),
            rp.ModalityFusion(PRIOR, **options).fit_stream([(scores, None)]),
        ]
        for fusion in found:
            assert fusion.references_ == known.references_
            assert np.array_equal(fusion.predict_proba(scores), known.predict_proba(scores))
            assert math.isnan(fusion.best_score_)
            assert fusion.curve_ is None
            assert "without labels" in fusion.summary()


def test_a_fusion_without_labels_can_be_saved(data, tmp_path):
    fusion = rp.ModalityFusion(PRIOR, class_axis=1, strength=0.7).fit(data[0])
    fusion.save(tmp_path / "f.json")
    again = rp.load(tmp_path / "f.json")
    assert np.array_equal(again.predict(data[0]), fusion.predict(data[0]))


def test_a_strength_to_be_tuned_needs_labels(data):
    with pytest.raises(rp.LabelsError, match="`labels` must be given for a strength to be tuned"):
        rp.ModalityFusion(PRIOR, class_axis=1).fit(data[0])


def test_labels_are_there_for_all_chunks_or_for_none(data):
    scores, labels = data
    for chunks in ([scores, (scores, labels)], [(scores, labels), scores]):
        with pytest.raises(rp.LabelsError, match="for all chunks or for none"):
            rp.ModalityFusion(PRIOR, class_axis=1, strength=1).fit_stream(chunks)


def test_weights_need_labels(data):
    weight = np.ones(data[1].shape)
    with pytest.raises(rp.OptionError, match="`sample_weight` must come with labels"):
        rp.ModalityFusion(PRIOR, class_axis=1, strength=1).fit(data[0], sample_weight=weight)


@pytest.mark.parametrize("missing", ["error", "leave_out"])
def test_a_fit_needs_every_modality(data, missing):
    scores, labels = data
    name = list(scores)[-1]
    with pytest.raises(rp.ScoresError, match="leave its name out to fit without it"):
        rp.ModalityFusion(PRIOR, class_axis=1, missing=missing).fit(scores | {name: None}, labels)


def test_there_is_one_source_prior_for_all_modalities(data):
    scores, labels = data
    with pytest.raises(
        rp.OptionError, match=r"must be one prior for all modalities.*log_rebalance"
    ):
        rp.ModalityFusion(dict.fromkeys(scores, PRIOR), class_axis=1).fit(scores, labels)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"rule": "product"},
        {"flatten": False},
        {"order": "flatten_first"},
        {"strengths": "per_modality"},
    ],
    ids=str,
)
def test_a_class_of_target_prior_0_is_never_predicted(options):
    rng = np.random.default_rng(5)
    labels = rng.choice(3, 400, p=[0.7, 0.2, 0.1])
    one = rng.normal(size=(400, 3)) + 1.3 * np.eye(3)[labels] + np.log([0.7, 0.2, 0.1])
    scores = {
        "a": one.astype(np.float32),
        "b": (one + rng.normal(size=one.shape)).astype(np.float32),
    }
    fusion = rp.ModalityFusion([0.7, 0.2, 0.1], target_prior=[0.5, 0.0, 0.5], **options)
    posterior = fusion.fit(scores, labels).predict_proba(scores)
    assert not posterior[:, 1].any()
    np.testing.assert_allclose(posterior.sum(axis=1), 1.0, rtol=1e-5)


WORDS = {
    "rule": ({"rule": "max"}, "`rule` must be one of 'noisy_or', 'mean', 'product'. Got 'max'."),
    "order": ({"order": None}, "`order` must be one of 'rebalance_first', 'flatten_first'."),
    "strengths": ({"strengths": "own"}, "`strengths` must be one of 'shared', 'per_modality'."),
    "flatten_by": ({"flatten_by": "row"}, "`flatten_by` must be one of 'image', 'pixel'."),
    "uncertainty": ({"uncertainty": "mutual"}, "Did you mean 'mutual_information'?"),
    "missing": ({"missing": "skip"}, "`missing` must be one of 'error', 'leave_out'."),
    "kind": ({"kind": "logit"}, "Did you mean 'logits'?"),
    "flatten": ({"flatten": "yes"}, "`flatten` must be True or False. Got 'yes'."),
    "strength": ({"strength": "auto"}, "`strength` must be a finite number. Got 'auto'."),
    "nan": ({"strength": {"rgb": np.nan}}, "`strength['rgb']` must be a finite number."),
    "bounds": ({"bounds": (1, 1)}, "an empty range"),
}


@pytest.mark.parametrize("case", WORDS)
def test_words(case):
    options, words = WORDS[case]
    with pytest.raises(OptionError) as caught:
        check_options(rp.ModalityFusion([0.5, 0.5], **options))
    assert words in str(caught.value)


def test_the_defaults_are_fine():
    check_options(rp.ModalityFusion([0.5, 0.5]))
    check_options(rp.ModalityFusion([0.5, 0.5], strength={"rgb": 1}, flatten=np.False_))


def test_files_know_the_same_words():
    named = {
        "order": options_of.ORDERS,
        "strengths": options_of.STRENGTHS,
        "flatten_by": options_of.FLATTEN_BY,
        "uncertainty": options_of.UNCERTAINTIES,
        "missing": options_of.MISSING,
        "rule": rp.core.fuse.RULES,
    }
    assert {name: FUSION_CHOICES[name] for name in named} == named


def test_fixed_strengths():
    assert fixed_strengths(None, ("a", "b")) is None
    assert fixed_strengths(0, ("a", "b")) == (0.0, 0.0)
    assert fixed_strengths({"b": 2, "a": 1}, ("a", "b")) == (1.0, 2.0)
    for wrong in ({"a": 1}, {"a": 1, "b": 1, "c": 1}, {}):
        with pytest.raises(OptionError, match="one number for every modality, 'a', 'b'"):
            fixed_strengths(wrong, ("a", "b"))


def test_negative_strengths_need_a_positive_target_prior():
    refuse_negative(-1.0, np.array([0.5, 0.5]))
    refuse_negative(0.0, np.array([1.0, 0.0]))
    with pytest.raises(OptionError, match=r"Got -1 and target_prior\[1\]=0"):
        refuse_negative(-1.0, np.array([1.0, 0.0]))


def test_the_text_shows_before_and_after(rng):
    scores, labels = modalities(rng, n=20, pixels=(3,))
    fusion = rp.ModalityFusion(PRIOR, class_axis=1, metric="f1[2]").fit(scores, labels)
    lines = fusion.summary().splitlines()
    plain = rp.ModalityFusion(PRIOR, class_axis=1, strength=0).fit(scores, labels)
    row = next(line.split() for line in lines if line.startswith("accuracy"))
    for shown, each in zip(row[1:3], (plain, fusion), strict=True):
        assert float(shown) == pytest.approx((each.predict(scores) == labels).mean(), abs=5e-5)
    assert any(line.startswith("f1[2]") for line in lines)
    assert (
        "not flattened"
        in rp.ModalityFusion(PRIOR, class_axis=1, flatten=False, strength=1)
        .fit(scores, labels)
        .summary()
    )


def test_fields_are_plain(rng):
    scores, labels = modalities(rng, n=20, pixels=(3,))
    fusion = rp.ModalityFusion(PRIOR, class_axis=1, flatten=np.True_).fit(scores, labels)
    fields = fusion_fields(fusion)
    assert json.loads(json.dumps(fields)) == fields
    assert fields["strengths"] == "shared"
    assert fields["modalities"][1]["entropy"] == {
        "mean": fusion.references_["depth"].mean,
        "std": fusion.references_["depth"].std,
    }
    assert fields["modalities"][0]["mutual_information"] is None
