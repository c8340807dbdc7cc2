"""Three folds, the best strength and the curves of one classifier, against slow oracles."""

from __future__ import annotations

import json

import numpy as np
import pytest

import reprior as rp
from reprior.exceptions import FileFormatError
from reprior.metrics import top_k_accuracy
from reprior_lab.correction import correct_folds
from reprior_lab.inaturalist_results import judge, read_result, value_at, write_result

K, EACH = 30, 6


@pytest.fixture(scope="module")
def given():
    """Logits that have the training prior in them, of a balanced set."""
    rng = np.random.default_rng(0)
    counts = rng.permutation(np.geomspace(2, 500, K).astype(int))
    labels = np.repeat(np.arange(K), EACH)
    scores = 2.2 * np.eye(K)[labels] + rng.normal(size=(labels.size, K)) + 0.6 * np.log(counts)
    return scores.astype(np.float32), labels, rp.prior_from_counts(counts)


@pytest.fixture(scope="module")
def result(given):
    scores, labels, raw = given
    effective = np.sqrt(raw) / np.sqrt(raw).sum()
    return judge(scores, labels, raw, effective, seed=3)


def error(given, strength, prior, k=1):
    scores, labels, _ = given
    moved = rp.log_rebalance(scores.astype(float), prior, strength=strength)
    return 1 - top_k_accuracy(moved, labels, k=k)


def test_the_uncorrected_classifier(given, result):
    assert result.error == pytest.approx(error(given, 0.0, given[2]))
    assert result.top5_error == pytest.approx(error(given, 0.0, given[2], k=5))
    assert (result.n_samples, result.n_classes) == (K * EACH, K)
    assert result.n_switches > 0


def test_the_folds_are_those_of_the_prior(given, result):
    scores, labels, raw = given
    assert result.raw.folds == correct_folds(scores, labels, raw, n_folds=3, seed=3)
    assert result.raw.folds != correct_folds(scores, labels, raw, n_folds=3, seed=4)
    assert result.raw.folds.mean < result.error


@pytest.mark.parametrize("name", ["raw", "effective"])
def test_the_best_of_all_samples(given, result, name):
    prior = given[2] if name == "raw" else np.sqrt(given[2]) / np.sqrt(given[2]).sum()
    found = getattr(result, name)
    tried = [error(given, strength, prior) for strength in np.linspace(0, 4, 300)]
    assert found.error == pytest.approx(error(given, found.strength, prior))
    assert found.error <= min(tried) + 1e-12
    assert found.interval[0] <= found.strength < found.interval[1]
    assert found.top5_error == pytest.approx(error(given, found.strength, prior, k=5))
    assert found.bayes == pytest.approx(error(given, 1.0, prior))


def test_half_the_slopes_need_twice_the_strength(result):
    # The root of a prior has half its slopes: the same decisions, at twice the strength.
    assert result.effective.error == result.raw.error
    assert result.effective.strength == pytest.approx(2 * result.raw.strength)


@pytest.mark.parametrize("which, k", [("top1", 1), ("top5", 5)])
def test_the_curves_are_exact(given, result, which, k):
    curve = getattr(result, which)
    for strength in np.random.default_rng(1).uniform(*result.bounds, 40):
        expected = 1 - error(given, strength, given[2], k)
        assert value_at(curve, strength) == pytest.approx(expected, abs=1e-12)


def test_an_effective_prior_that_is_the_raw_one_is_left_out(given):
    scores, labels, raw = given
    again = raw * (1 + 1e-15)
    assert judge(scores, labels, raw, again / again.sum()).effective is None


def test_a_nearly_uniform_prior_is_no_warning(given):
    """Slopes near 0: the search goes up to its end, and says so by the strength."""
    scores, labels, raw = given
    nearly = 1 + 1e-3 * (raw - raw.mean()) / raw.max()
    found = judge(scores, labels, raw, nearly / nearly.sum()).effective
    assert found.strength <= 8.0
    assert found.error <= judge(scores, labels, raw, raw).error


def test_few_classes_have_no_top_5():
    scores, labels = np.array([[2.0, 0.0], [0.5, 0.0]] * 3), np.array([0, 1] * 3)
    found = judge(scores, labels, np.array([0.8, 0.2]), np.array([0.8, 0.2]))
    assert found.top5_error == 0.0
    assert found.raw.error == 0.0


def test_what_is_written_is_read(result, tmp_path):
    write_result(result, tmp_path)
    again = read_result(tmp_path)
    assert again.to_dict() == result.to_dict()
    assert (again.raw, again.effective, again.bounds) == (
        result.raw,
        result.effective,
        result.bounds,
    )
    for one, other in ((again.top1, result.top1), (again.top5, result.top5)):
        assert all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def test_what_is_not_there_is_none(result, tmp_path):
    assert read_result(tmp_path) is None
    write_result(result, tmp_path)
    (tmp_path / "curves.npz").unlink()
    assert read_result(tmp_path) is None


@pytest.mark.parametrize(
    "change", [{"format_version": 7}, {"raw": None}, {"bounds": [1]}, {"raw": {"folds": {}}}]
)
def test_a_broken_document_is_refused(result, tmp_path, change):
    write_result(result, tmp_path)
    path = tmp_path / "correction.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(FileFormatError, match=r"must be what reprior wrote\. .* Remove the file"):
        read_result(tmp_path)


def test_broken_curves_are_refused(result, tmp_path):
    write_result(result, tmp_path)
    path = tmp_path / "curves.npz"
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(FileFormatError, match="must be what reprior wrote"):
        read_result(tmp_path)
