"""Judging a calibrator in one pass over chunks."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.support.chunked_scores import PRIOR, Data, cuts, flat, images, quietly, weighted

import reprior as rp
from reprior.files import open_scores

SUMS = 1e-10
"""Means of float64 terms, summed in another order."""

SHORT = 1e-5
"""Posteriors in float32, whose logarithms and bins are those of float32."""

NAMES = ["ant", "bee", "cow", "dog"]


def fitted(data, **options):
    return quietly(data.calibrator(**options).fit, data.scores, data.labels, data.weight)[0]


def in_memory(calibrator, data):
    """Return every metric by the functions on whole arrays, before and after."""
    axis = calibrator.class_axis
    common = {"class_axis": axis, "ignore_index": calibrator.ignore_index}
    scores = data.scores
    if calibrator.ignore_index is not None:  # NaN is not looked at in what is left out
        scores = np.where(np.isnan(scores), 0, scores)
    found = {}
    for side in (calibrator.uncorrected(), calibrator):
        posterior = side.predict_proba(scores)
        log_posterior = side.predict_log_proba(scores)
        m, weights = rp.metrics, {"sample_weight": data.weight, **common}
        values = {
            "log_loss": m.log_loss(log_posterior, data.labels, kind="log_probs", **weights),
            "brier": m.brier_score(posterior, data.labels, **weights),
            "ece": m.expected_calibration_error(posterior, data.labels, **weights),
            "classwise_ece": m.classwise_calibration_error(posterior, data.labels, **weights),
        }
        for name in ("accuracy", "balanced_accuracy", "mean_iou", "macro_precision", "macro_f1"):
            values[name] = m.evaluate(
                name,
                data.labels,
                side.predict(scores),
                n_classes=side.classes_.size,
                sample_weight=data.weight,
                ignore_index=calibrator.ignore_index,
            )
        for name, value in values.items():
            found.setdefault(name, []).append(value)
    return found


@given(st.integers(0, 10), cuts(60), st.booleans())
def test_metrics_are_those_of_the_whole(seed, where, heavy):
    data = weighted(flat(seed), seed) if heavy else flat(seed)
    calibrator = fitted(data, temperature="fit")
    found = rp.engines.evaluate(calibrator, data.chunks(where))
    known = in_memory(calibrator, data)
    assert found.metrics.keys() == known.keys()
    for name, values in known.items():
        np.testing.assert_allclose(found.metrics[name], values, rtol=SUMS, atol=SUMS, err_msg=name)
    profile = calibrator.profile_
    np.testing.assert_array_equal(found.before.true_positive, profile.baseline.true_positive)
    assert found.n_samples == profile.n_samples


@given(cuts(6), st.booleans())
def test_images_with_ignored_pixels(where, heavy):
    data = weighted(images()) if heavy else images()
    calibrator = fitted(data)
    found = rp.engines.evaluate(calibrator, data.chunks(where)).metrics
    for name, values in in_memory(calibrator, data).items():
        np.testing.assert_allclose(found[name], values, rtol=SHORT, atol=SHORT, err_msg=name)


@pytest.mark.parametrize("kind", ["logits", "probs", "log_probs"])
@pytest.mark.parametrize("column", [False, True])
def test_single_scores_of_two_classes(kind, column):
    two = flat(5, prior=np.array([0.8, 0.2]))
    z = two.scores[:, 1] - two.scores[:, 0]
    p = 1 / (1 + np.exp(-z))
    scores = {"logits": z, "probs": p, "log_probs": np.log(p)}[kind]
    data = Data(scores[:, None] if column else scores, two.labels, prior=two.prior)
    calibrator = fitted(data, kind=kind)
    found = rp.engines.evaluate(calibrator, data.chunks([7, 20])).metrics
    for name, values in in_memory(calibrator, data).items():
        np.testing.assert_allclose(found[name], values, rtol=SUMS, atol=SUMS, err_msg=name)


def test_predictions_are_those_of_predict():
    data = flat(3, n=500)
    scores = data.scores.round(1).astype(np.float16)
    data = Data(scores, data.labels)
    calibrator = fitted(data)
    found = rp.engines.evaluate(calibrator, data.chunks([100]))
    for side, counts in ((calibrator.uncorrected(), found.before), (calibrator, found.after)):
        expected = np.bincount(side.predict(scores), minlength=4)
        np.testing.assert_allclose(counts.predicted, expected, atol=2)


def test_a_loaded_calibrator_with_names_and_a_metric_of_its_own(tmp_path):
    data = flat(3)
    calibrator = fitted(Data(data.scores, np.array(NAMES)[data.labels]), metric="recall[cow]")
    calibrator.save(tmp_path / "cal.json")
    loaded = rp.load(tmp_path / "cal.json")
    by_name = rp.engines.evaluate(loaded, [(data.scores, np.array(NAMES)[data.labels])])
    by_index = rp.engines.evaluate(loaded, data.chunks([5]))
    for name, values in by_index.metrics.items():
        np.testing.assert_allclose(by_name.metrics[name], values, rtol=SUMS, err_msg=name)
    assert by_name.metrics["recall[cow]"][1] == calibrator.best_score_
    strange = rp.CountMetric("macro_f2", gain=5, support=4, predicted=1)
    calibrator = fitted(data, metric=strange)
    assert "macro_f2" in rp.engines.evaluate(calibrator, data.chunks([])).metrics
    calibrator.save(tmp_path / "own.json")
    found = rp.engines.evaluate(rp.load(tmp_path / "own.json"), data.chunks([]))
    assert "macro_f2" not in found.metrics


def test_an_iterator_progress_and_tensors():
    data, seen = flat(2), []
    calibrator = fitted(data)
    chunks = ((torch.as_tensor(c.scores), torch.as_tensor(c.labels)) for c in data.chunks([10, 30]))
    found = rp.engines.evaluate(calibrator, chunks, progress=seen.append)
    assert seen == [10, 30, 60]
    assert found.after.support.sum() == found.n_samples == 60
    assert repr(found).startswith("Evaluation(60 samples, accuracy 0.")


def test_the_log_loss_of_a_probability_too_small_for_its_dtype():
    data = Data(
        np.array([[0.0, 200.0], [1.0, 0.0]], np.float32), np.array([0, 1]), prior=[0.5, 0.5]
    )
    calibrator = rp.PosteriorCalibrator([0.6, 0.4]).fit(3 * np.eye(2), [0, 1])
    before, _ = rp.engines.evaluate(calibrator, data.chunks([])).metrics["log_loss"]
    assert before == pytest.approx((200 + np.log1p(np.e)) / 2, rel=SHORT)


def test_short_probabilities_that_miss_one():
    p = torch.softmax(torch.as_tensor(flat(3).scores), dim=1).to(torch.bfloat16)
    labels = torch.as_tensor(flat(3).labels)
    calibrator, _ = quietly(rp.PosteriorCalibrator(PRIOR, kind="probs").fit, p, labels)
    found = rp.engines.evaluate(calibrator, [(p, labels)])
    assert found.metrics["balanced_accuracy"][1] == pytest.approx(calibrator.best_score_, abs=0.05)


def test_look_alikes_are_said_once():
    rng = np.random.default_rng(0)
    scores, labels = rng.dirichlet(np.ones(4), 60), rng.integers(4, size=60)
    calibrator = fitted(flat(1))
    with pytest.warns(rp.RepriorWarning, match="pass kind='probs'") as caught:
        rp.engines.evaluate(calibrator, Data(scores, labels).chunks([20, 40]))
    assert [warning.filename for warning in caught] == [__file__]


def test_reliability_adds_up():
    data = flat(6)
    calibrator = fitted(data)
    found = rp.engines.evaluate(calibrator, data.chunks([11, 40]))
    whole = rp.metrics.Reliability.from_posterior(
        calibrator.predict_proba(data.scores), data.labels
    )
    np.testing.assert_allclose(found.reliability_after.class_hits, whole.class_hits)
    assert found.reliability_after.ece == pytest.approx(whole.ece)


COSTS = np.array([[0, 1, 2, 0.6], [3, 0, 1, 0.6], [-1, 1, -2, 0.6], [30, 9, 7, 0.6]])
"""Of four classes and as many decisions; what is gained is negative."""


def mean_costs(calibrator, data, costs):
    """Return the mean cost before and after, by arithmetic on whole arrays."""
    found = []
    for side in (calibrator.uncorrected(), calibrator):
        decided = (side.predict_proba(data.scores) @ costs).argmin(axis=1)
        found.append(np.average(costs[data.labels, decided], weights=data.weight))
    return tuple(found)


@given(st.integers(0, 10), cuts(60), st.booleans(), st.sampled_from([2, 3, 4, 6]))
def test_mean_cost_is_that_of_the_whole(seed, where, heavy, n_decisions):
    data = weighted(flat(seed), seed) if heavy else flat(seed)
    calibrator = fitted(data, temperature="fit")
    costs = np.hstack([COSTS, COSTS[::-1] / 2])[:, :n_decisions]
    found = rp.engines.evaluate(calibrator, data.chunks(where), costs=costs)
    known = mean_costs(calibrator, data, costs)
    np.testing.assert_allclose(found.mean_cost, known, rtol=SUMS, atol=SUMS)
    assert found.metrics["mean_cost"] == found.mean_cost
    plain = rp.engines.evaluate(calibrator, data.chunks(where))
    assert plain.mean_cost is None
    assert found.metrics == {**plain.metrics, "mean_cost": found.mean_cost}
    assert "mean_cost" not in plain.metrics


def test_the_cost_of_every_mistake_alike_is_the_error_of_the_probabilities():
    data = flat(4, n=300)
    calibrator = fitted(data, separate=True)
    found = rp.engines.evaluate(calibrator, data.chunks([100]), costs=1 - np.eye(4))
    assert found.mean_cost[0] == pytest.approx(1 - found.metrics["accuracy"][0], rel=SUMS)
    by_map = calibrator.predict_proba(data.scores).argmax(axis=1)
    assert (by_map != calibrator.predict(data.scores)).any()
    assert found.mean_cost[1] == pytest.approx((by_map != data.labels).mean(), rel=SUMS)


def test_costs_of_images_leave_ignored_pixels_out():
    data = images()
    calibrator = fitted(data)
    costs = COSTS[: calibrator.classes_.size, :3]
    found = rp.engines.evaluate(calibrator, data.chunks([2]), costs=costs)
    counts = data.labels != calibrator.ignore_index
    scores = np.where(np.isnan(data.scores), 0, data.scores)
    for side, value in zip((calibrator.uncorrected(), calibrator), found.mean_cost, strict=True):
        decided = rp.decide(side.predict_proba(scores), costs, class_axis=side.class_axis)
        known = costs[data.labels[counts], decided[counts]].mean()
        assert value == pytest.approx(known, rel=SHORT)


def test_costs_of_a_frame_are_put_in_the_order_of_the_classes():
    pd = pytest.importorskip("pandas")
    data = flat(3)
    calibrator = fitted(Data(data.scores, np.array(NAMES)[data.labels]))
    frame = pd.DataFrame(COSTS, index=NAMES, columns=NAMES).loc[NAMES[::-1], NAMES[::-1]]
    found, known = (
        rp.engines.evaluate(calibrator, data.chunks([]), costs=costs) for costs in (frame, COSTS)
    )
    assert found.mean_cost == known.mean_cost


@pytest.mark.parametrize(
    "costs, words",
    [
        (COSTS[:3], r"row for each of the 4 classes. Got shape \(3, 4\)"),
        (COSTS[:2], r"row for each of the 4 classes. Got shape \(2, 4\)"),
        (COSTS[0], r"must have shape \(K, D\)"),
        (np.where(COSTS == 9, np.nan, COSTS), r"must be finite. Got costs\[3, 1\]=nan"),
    ],
)
def test_words_of_wrong_costs_come_before_any_chunk_is_read(costs, words):
    with pytest.raises(rp.OptionError, match=words):
        rp.engines.evaluate(fitted(flat(1)), iter(lambda: pytest.fail("read"), None), costs=costs)


Z, Y = np.arange(40.0).reshape(10, 4) % 7, np.arange(10) % 4
BROKEN = Z.copy()
BROKEN[8, 1] = np.nan


@pytest.mark.parametrize(
    "chunks, words",
    [
        ([(Z, Y), (BROKEN, Y)], r"scores\[18, 1\]=nan"),
        ([(Z, Y), (Z, Y + 1)], r"labels\[13\]=4"),
        ([(Z, Y), (Z, None)], "without labels.*from 10 on"),
        ([(Z, Y.astype(float))], "must be integers"),
        ([(Z, np.array(NAMES)[Y])], "must be integers"),
        ([(Z[:, :3], Y)], "one entry per class"),
        ([], "Got 0 samples in all chunks"),
    ],
)
def test_words(chunks, words):
    calibrator = fitted(flat(1))
    with pytest.raises(rp.RepriorError, match=words):
        rp.engines.evaluate(calibrator, chunks)


def test_a_calibrator_that_is_not_fitted():
    with pytest.raises(rp.NotFittedError):
        rp.engines.evaluate(rp.PosteriorCalibrator(PRIOR), [(Z, Y)])


def test_what_could_not_be_read_is_said_and_kept(tmp_path):
    data = flat(0, 60)
    for i in range(3):
        piece = data.chunk(20 * i, 20 * i + 20)
        np.savez(tmp_path / f"{i}.npz", scores=piece.scores, labels=piece.labels)
    bad = tmp_path / "1.npz"
    bad.write_bytes(bad.read_bytes()[:-40])
    calibrator = quietly(data.calibrator().fit, data.scores, data.labels)[0]
    file = open_scores(str(tmp_path / "*.npz"), kind="logits", skip_unreadable=True)
    found, said = quietly(rp.engines.evaluate, calibrator, file)
    assert len(said) == 1
    assert said[0].startswith("1 file could not be read and was left out; how many samples it has")
    assert [each.path for each in found.left_out] == [bad]
    whole, silent = quietly(
        rp.engines.evaluate, calibrator, [data.chunk(0, 20), data.chunk(40, 60)]
    )
    assert found.metrics == whole.metrics
    assert found.n_samples == 40
    assert (silent, whole.left_out) == ([], ())


def test_kernels_and_array_code_evaluate_to_the_same(request):
    """Decisions to the bit; posteriors, and what is summed of them, to their rounding."""
    data = flat(3, n=6000)
    calibrator, chunks = fitted(data), data.chunks([2500, 5000])
    found = rp.engines.evaluate(calibrator, chunks).metrics
    request.getfixturevalue("without_native")
    wanted = rp.engines.evaluate(calibrator, chunks).metrics
    assert found.keys() == wanted.keys()
    for name, pair in wanted.items():
        exact = name in ("accuracy", "balanced_accuracy", "mean_iou", "macro_f1")
        assert found[name] == (pair if exact else pytest.approx(pair, rel=1e-12)), name


def test_a_file_of_a_metric_of_a_group_is_evaluated_without_that_metric(tmp_path):
    data = flat(3)
    metric = rp.metrics.find_metric(
        "worst_recall[rare]", n_classes=len(PRIOR), class_groups={"rare": [2, 3]}
    )
    fitted(data, metric=metric).save(tmp_path / "cal.json")
    calibrator = rp.load(tmp_path / "cal.json")
    metrics = rp.engines.evaluate(calibrator, data.chunks([])).metrics
    assert "balanced_accuracy" in metrics
    assert metric.name not in metrics
