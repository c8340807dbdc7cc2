from __future__ import annotations

import array_api_strict
import dask.array as da
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from tests.support import oracles
from tests.tuning.shared import ROUNDING, assert_same_counts, random_case

from reprior.exceptions import (
    LabelsError,
    OptionError,
    PriorError,
    RepriorError,
    RepriorWarning,
    ScoresError,
)
from reprior.profile import StrengthProfile

PRIOR = [0.5, 0.3, 0.2]
LIBRARIES = {
    "torch": torch.as_tensor,
    "jax": jnp.asarray,
    "strict": array_api_strict.asarray,
    "list": np.ndarray.tolist,
}


def profile(scores, labels, **options):
    return StrengthProfile.from_scores(scores, labels, **({"source_prior": PRIOR} | options))


def softmax(scores):
    mass = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return mass / mass.sum(axis=-1, keepdims=True)


def assert_same(a, b):
    """Two profiles agree to the bit in everything that can be asked of them."""
    assert (a.n_samples, a.n_switches) == (b.n_samples, b.n_switches)
    assert_same_counts(a.baseline, b.baseline)
    for name in oracles.METRICS:
        for mine, theirs in zip(a.curve(name), b.curve(name), strict=True):
            np.testing.assert_array_equal(mine, theirs)
        assert a.best(name) == b.best(name)
    for strength in np.linspace(*a.bounds, 7):
        assert_same_counts(a.counts(strength), b.counts(strength))


@pytest.fixture
def case(rng):
    return random_case(rng, 120, 3)


# -------------------------------------------------------------------------------- layouts


@pytest.mark.parametrize("class_axis", [0, 1, 2, 3, -1, -2, -3, -4])
def test_any_class_axis(rng, class_axis):
    scores = rng.normal(size=(4, 5, 6, 3))
    labels = rng.integers(3, size=(4, 5, 6))
    weight = rng.integers(0, 3, size=(4, 5, 6))
    want = profile(scores.reshape(-1, 3), labels.reshape(-1), sample_weight=weight.reshape(-1))
    moved = np.moveaxis(scores, -1, class_axis)
    assert_same(profile(moved, labels, class_axis=class_axis, sample_weight=weight), want)


def test_classes_first(case):
    want = case.profile()
    for scores in (case.scores.T, np.ascontiguousarray(case.scores.T)):
        found = StrengthProfile.from_scores(
            scores, case.labels, source_prior=case.source, class_axis=0
        )
        assert_same(found, want)


@pytest.mark.parametrize("kind", ["logits", "probs", "log_probs"])
@pytest.mark.parametrize("shape", ["(N,)", "(N, 1)", "(1, N)", "(N, 1, 1)"])
def test_one_score_per_sample(rng, kind, shape):
    z = rng.normal(size=40)
    labels = rng.integers(2, size=40)
    columns = np.stack([np.zeros(40), z], axis=1)
    p = 1 / (1 + np.exp(-z))
    single = {"logits": z, "probs": p, "log_probs": np.log(p)}[kind]
    shaped, axis, y = {
        "(N,)": (single, -1, labels),
        "(N, 1)": (single[:, None], -1, labels),
        "(1, N)": (single[None], 0, labels),
        "(N, 1, 1)": (single[:, None, None], 1, labels[:, None]),
    }[shape]
    want = profile(columns, labels, source_prior=[0.7, 0.3])
    found = profile(shaped, y, source_prior=[0.7, 0.3], kind=kind, class_axis=axis)
    at = np.linspace(0, 2, 37)
    for name in oracles.METRICS:
        np.testing.assert_allclose(found.evaluate(name, at), want.evaluate(name, at))
        assert found.best(name).interval == pytest.approx(want.best(name).interval, abs=1e-12)


@pytest.mark.parametrize("kind, good", [("logits", 0.5), ("probs", 0.5), ("log_probs", -1.0)])
def test_one_score_per_sample_may_be_anything_where_ignored(kind, good):
    scores = np.array([good, np.nan, good, np.nan])
    for shaped in (scores, scores[:, None]):
        found = profile(
            shaped, [0, 255, 1, 1], source_prior=[0.7, 0.3], kind=kind, ignore_index=255,
            sample_weight=[1, 1, 1, 0],
        )  # fmt: skip
        assert found.n_samples == 2


def test_a_single_sample(rng):
    scores = rng.normal(size=3)
    want = profile(scores[None], [2])
    assert_same(profile(scores, [2]), want)
    assert_same(profile(scores, 2), want)
    assert_same(profile(scores, 2, sample_weight=1), profile(scores[None], [2], sample_weight=[1]))
    assert profile(np.float32(1.5).reshape(1), [1], source_prior=[0.5, 0.5]).n_samples == 1


@pytest.mark.parametrize("kind", ["probs", "log_probs"])
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_kinds_of_scores_are_one_profile(case, kind, dtype):
    probs = softmax(case.scores).astype(dtype)
    with np.errstate(divide="ignore"):
        scores = probs if kind == "probs" else np.log(probs)
        wide = np.log(scores.astype("f8")) if kind == "probs" else scores.astype("f8")
    found = StrengthProfile.from_scores(scores, case.labels, source_prior=case.source, kind=kind)
    at = oracles.clear_strengths(wide, case.slopes, np.linspace(0, 2, 41), 1e-9)
    for name, want in oracles.metrics_at(wide, case.labels, case.slopes, at).items():
        np.testing.assert_allclose(found.evaluate(name, at), want, rtol=0, atol=ROUNDING)


def test_probabilities_may_be_0_and_miss_1_a_little():
    probs = np.array([[1.0, 0.0, 0.0], [0.5005, 0.5, 0.0], [0.2, 0.3, 0.5]])
    found = profile(probs, [0, 1, 2], kind="probs")
    assert found.counts(2.0).predicted.tolist() == [1, 1, 1]


def test_bfloat16_probabilities_are_as_coarse_as_they_are(rng):
    probs = torch.softmax(torch.as_tensor(rng.normal(size=(200, 40))), dim=1).bfloat16()
    off = (probs.double().sum(dim=1) - 1).abs().max()
    assert off > 1e-3  # refused in any finer dtype
    prior = np.full(40, 1 / 40)
    found = profile(probs, torch.zeros(200, dtype=int), source_prior=prior, kind="probs")
    assert found.n_samples == 200
    jax_probs = jnp.asarray(probs.float().numpy(), dtype="bfloat16")
    again = profile(jax_probs, jnp.zeros(200, int), source_prior=prior, kind="probs")
    assert_same(again, found)


# ------------------------------------------------------------------------------ libraries


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("target", ["uniform", [0.0, 0.5, 0.5]])
def test_other_libraries_equal_numpy(case, library, weighted, target):
    make = LIBRARIES[library]
    scores = case.scores.astype(np.float32)
    weight = np.arange(case.n) % 3 if weighted else None
    labels = case.labels.copy()
    labels[::7] = 255
    options = {"source_prior": case.source, "target_prior": target, "ignore_index": 255}
    want = StrengthProfile.from_scores(scores, labels, sample_weight=weight, **options)
    found = StrengthProfile.from_scores(
        make(scores),
        make(labels),
        sample_weight=None if weight is None else make(weight),
        **options,
    )
    assert_same(found, want)


@pytest.mark.parametrize("kind", ["logits", "probs", "log_probs"])
@pytest.mark.parametrize("class_axis", [0, 1, -1])
def test_array_api_strict_takes_every_path(rng, kind, class_axis):
    scores = rng.normal(size=(6, 7, 3))
    scores = {"logits": scores, "probs": softmax(scores), "log_probs": np.log(softmax(scores))}[
        kind
    ]
    labels = rng.integers(3, size=(6, 7))
    moved = np.moveaxis(scores, -1, class_axis)
    options = {"kind": kind, "class_axis": class_axis, "bounds": (-1.0, 2.0)}
    found = profile(
        array_api_strict.asarray(moved.copy()), array_api_strict.asarray(labels), **options
    )
    assert_same(found, profile(moved, labels, **options))


def test_array_api_strict_one_score_per_sample(rng):
    z, labels = rng.normal(size=20), rng.integers(2, size=20)
    labels[3] = 7
    strict = array_api_strict.asarray
    options = {"source_prior": [0.6, 0.4], "ignore_index": 7}
    assert_same(profile(strict(z), strict(labels), **options), profile(z, labels, **options))


def test_torch_gradients_are_no_hindrance(case):
    scores = torch.as_tensor(case.scores).requires_grad_()
    found = StrengthProfile.from_scores(
        scores, torch.as_tensor(case.labels), source_prior=case.source
    )
    assert_same(found, case.profile())


# ----------------------------------------------------------------------------------- Dask


@pytest.mark.parametrize("chunks", [120, 50, 7])
@pytest.mark.parametrize("resolution", [None, 0.05])
def test_dask_arrays_equal_numpy(case, chunks, resolution):
    scores = da.from_array(case.scores, chunks=(chunks, 2))
    labels = da.from_array(case.labels, chunks=33)
    options = {"source_prior": case.source, "resolution": resolution}
    found = StrengthProfile.from_scores(scores, labels, **options)
    assert_same(found, case.profile(resolution=resolution))


def test_dask_arrays_with_weights_classes_first(case):
    weight = np.arange(case.n) % 4
    found = StrengthProfile.from_scores(
        da.from_array(case.scores.T.copy(), chunks=(3, 25)),
        da.from_array(case.labels, chunks=120),
        sample_weight=da.from_array(weight, chunks=11),
        source_prior=case.source,
        class_axis=0,
    )
    assert_same(found, case.profile(sample_weight=weight))


def test_dask_chunks_with_nothing_to_count_are_passed_over(case):
    labels = case.labels.copy()
    labels[20:60] = 255  # two whole chunks
    weight = np.ones(case.n)
    weight[80:] = 0.0  # and the last two
    options = {"source_prior": case.source, "ignore_index": 255}
    found = StrengthProfile.from_scores(
        da.from_array(case.scores, chunks=(20, 3)), da.from_array(labels),
        sample_weight=da.from_array(weight), **options,
    )  # fmt: skip
    want = StrengthProfile.from_scores(case.scores, labels, sample_weight=weight, **options)
    assert_same(found, want)
    with pytest.raises(LabelsError, match="at least one sample to count"):
        StrengthProfile.from_scores(
            da.from_array(case.scores, chunks=(20, 3)),
            da.from_array(np.full(case.n, 255)),
            **options,
        )


def test_dask_scores_with_lists_of_labels(case):
    found = StrengthProfile.from_scores(
        da.from_array(case.scores, chunks=(50, 3)), case.labels.tolist(),
        sample_weight=[1] * case.n, source_prior=case.source,
    )  # fmt: skip
    assert_same(found, case.profile(sample_weight=np.ones(case.n)))


def test_dask_vectors(rng):
    z, labels = rng.normal(size=30), rng.integers(2, size=30)
    found = profile(da.from_array(z, chunks=7), da.from_array(labels), source_prior=[0.6, 0.4])
    assert_same(found, profile(z, labels, source_prior=[0.6, 0.4]))
    one = profile(da.from_array(np.array([0.0, 1.0, 5.0]), chunks=1), [2])
    assert_same(one, profile([0.0, 1.0, 5.0], [2]))


def test_a_bad_score_in_a_dask_chunk_says_where_the_chunk_begins():
    scores = np.zeros((30, 3))
    scores[25, 1] = np.nan
    with pytest.raises(ScoresError, match=r"scores\[5, 1\]=nan.* count from sample 20"):
        profile(da.from_array(scores, chunks=(10, 3)), da.zeros(30, dtype=int))
    with pytest.raises(ScoresError, match=r"output\.$"):
        profile(da.from_array(scores, chunks=(30, 3)), da.zeros(30, dtype=int))


def test_dask_refuses_other_lengths_and_unknown_ones():
    scores = da.zeros((30, 3), chunks=(10, 3))
    with pytest.raises(
        LabelsError, match=r"`labels` must have one entry per sample. Got shape \(40"
    ):
        profile(scores, da.zeros(40, dtype=int))
    with pytest.raises(LabelsError, match="`sample_weight` must have one entry per sample"):
        profile(scores, da.zeros(30, dtype=int), sample_weight=da.ones(31))
    with pytest.raises(ScoresError, match="must have chunks of known sizes"):
        profile(scores[scores[:, 0] > 0], da.zeros(30, dtype=int))
    with pytest.raises(RepriorError, match="one array library"):
        profile(scores, np.zeros(30, int))


# ---------------------------------------------------------------------------------- words

GOOD = np.arange(12.0).reshape(4, 3)
LABELS = np.array([0, 1, 2, 0])
NAN, INF, EMPTY = (GOOD.copy() for _ in range(3))
NAN[1, 2], INF[3, 0], EMPTY[2] = np.nan, np.inf, -np.inf


@pytest.mark.parametrize(
    "scores, labels, options, error, sentence",
    [
        (NAN, LABELS, {}, ScoresError, "must not contain NaN or +inf. Got scores[1, 2]=nan."),
        (NAN.T, LABELS, {"class_axis": 0}, ScoresError, "Got scores[2, 1]=nan."),
        (INF, LABELS, {}, ScoresError, "Got scores[3, 0]=inf."),
        (EMPTY, LABELS, {}, ScoresError, "a finite score in every row. Got scores[2, :]"),
        (EMPTY.T, LABELS, {"class_axis": 0}, ScoresError, "Got scores[:, 2]"),
        (
            np.where(np.eye(4, 3) > 0, 0.0, [-np.inf, 0, 0]),
            LABELS,
            {"target_prior": [1, 0, 0]},
            ScoresError,
            "Got scores[1, :], whose every possible class has target prior 0.",
        ),
        (-GOOD, LABELS, {"kind": "probs"}, ScoresError, "must not be negative under kind='probs'"),
        (GOOD / 60, LABELS, {"kind": "probs"}, ScoresError, "must sum to 1"),
        (-GOOD - 9, LABELS, {"kind": "log_probs"}, ScoresError, "must sum to 1"),
        (GOOD[:, :2], LABELS, {}, ScoresError, "Got 2 on axis -1 of shape (4, 2)"),
        (GOOD.T, LABELS, {}, ScoresError, "Pass class_axis=0."),
        (GOOD[:0], LABELS[:0], {}, ScoresError, "must hold at least one sample. Got shape (0, 3)"),
        (GOOD.astype(str), LABELS, {}, ScoresError, "must be real numbers"),
        (GOOD, LABELS + 1, {}, LabelsError, "from 0 to 2. Got labels[2]=3."),
        (GOOD, LABELS - 1, {}, LabelsError, "Got labels[0]=-1."),
        (GOOD, LABELS * 1.0, {}, LabelsError, "must be integers (class indices). Got"),
        (GOOD, LABELS[:3], {}, LabelsError, "Got shape (3,) for samples of shape (4,)"),
        (GOOD, np.eye(4, 3, dtype=int), {}, LabelsError, "not one-hot rows"),
        (GOOD, [], {}, LabelsError, "must"),
        (GOOD, LABELS * 0 + 9, {"ignore_index": 9}, LabelsError, "at least one sample to count"),
        (GOOD, LABELS, {"sample_weight": [0, 0, 0, 0]}, LabelsError, "positive for at least one"),
        (GOOD, LABELS, {"sample_weight": [1, 1, -1, 0]}, LabelsError, "Got sample_weight[2]=-1"),
        (GOOD, LABELS, {"sample_weight": [1, 1]}, LabelsError, "one entry per sample"),
        (
            GOOD,
            np.array([0, 9, 9, 9]),
            {"sample_weight": [0, 1, 1, 1], "ignore_index": 9},
            LabelsError,
            "all of them ignored or of weight 0",
        ),
        (GOOD, LABELS, {"bounds": (2, 0)}, OptionError, "bounds reversed. Pass bounds=(0, 2)."),
        (GOOD, LABELS, {"bounds": (1, 1)}, OptionError, "an empty range"),
        (GOOD, LABELS, {"bounds": 2.0}, OptionError, "must be two numbers (low, high)"),
        (GOOD, LABELS, {"bounds": (0, np.inf)}, OptionError, "`bounds[1]` must be a finite number"),
        (
            GOOD,
            LABELS,
            {"bounds": (-1, 1), "target_prior": [0.5, 0.0, 0.5]},
            OptionError,
            "Got bounds=(-1, 1) and target_prior[1]=0. Start the bounds at 0.",
        ),
        (GOOD, LABELS, {"resolution": 0}, OptionError, "`resolution` must be a finite number"),
        (GOOD, LABELS, {"resolution": -0.1}, OptionError, "Got -0.1"),
        (GOOD, LABELS, {"resolution": np.nan}, OptionError, "`resolution`"),
        (GOOD, LABELS, {"resolution": "fine"}, OptionError, "Got 'fine'"),
        (GOOD, LABELS, {"kind": "logit"}, OptionError, "Did you mean 'logits'?"),
        (GOOD, LABELS, {"class_axis": 2}, OptionError, "must be an axis of the scores"),
        (GOOD, LABELS, {"source_prior": [0.5, 0.5, 0.0]}, PriorError, "Got source_prior[2]=0."),
        (GOOD, LABELS, {"source_prior": [50, 30, 20]}, PriorError, "These look like counts."),
        (GOOD, LABELS, {"target_prior": [0.5, 0.5]}, PriorError, "2 values for 3 classes"),
        (GOOD, LABELS, {"target_prior": "unifrom"}, OptionError, "Did you mean 'uniform'?"),
        (GOOD, torch.as_tensor(LABELS), {}, RepriorError, "Got numpy and torch."),
        (torch.as_tensor(GOOD), jnp.asarray(LABELS), {}, RepriorError, "Got jax and torch."),
    ],
)  # fmt: skip
@pytest.mark.parametrize("native", [True, False])
def test_bad_input_is_refused_in_a_sentence(
    request, scores, labels, options, error, sentence, native
):
    if not native:
        request.getfixturevalue("without_native")
    with pytest.raises(error) as caught:
        profile(scores, labels, **options)
    assert sentence in str(caught.value)
    assert isinstance(caught.value, RepriorError)


@pytest.mark.parametrize("bad", [NAN, INF, EMPTY])
def test_bad_scores_of_array_api_strict_are_refused_too(bad):
    with pytest.raises(ScoresError, match=r"scores\[[0-3], [0-2:]\]"):
        profile(array_api_strict.asarray(bad), array_api_strict.asarray(LABELS))


@pytest.mark.parametrize("native", [True, False])
def test_bad_scores_of_ignored_samples_do_not_matter(request, native):
    if not native:
        request.getfixturevalue("without_native")
    want = profile(GOOD[:1], LABELS[:1])
    for bad in (NAN, INF, EMPTY):
        scores = np.concatenate([GOOD[:1], bad[1:]])
        assert_same(profile(scores, [0, 9, 9, 9], ignore_index=9), want)


def test_what_looks_like_probabilities_brings_a_warning():
    with pytest.warns(RepriorWarning, match="pass kind='probs'") as caught:
        profile(np.full((2, 3), 1 / 3), [0, 1])
    assert caught[0].filename == __file__


def test_nothing_is_changed(case):
    scores, labels, weight = case.scores.copy(), case.labels.copy(), np.ones(case.n)
    for array in (scores, labels, weight):
        array.flags.writeable = False
    for kind, z in (("logits", scores), ("probs", softmax(scores))):
        StrengthProfile.from_scores(
            z, labels, source_prior=case.source, sample_weight=weight, kind=kind
        )
    np.testing.assert_array_equal(scores, case.scores)
