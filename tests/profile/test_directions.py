"""Profiles along lines in any direction, one for all samples or one for each."""

from __future__ import annotations

import dask.array
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from tests.support import oracles
from tests.support.properties import FEWER_EXAMPLES
from tests.tuning.shared import BESIDE, BOUNDS, MARGIN, ROUNDING

import reprior as rp
from reprior.core import kernels
from reprior.exceptions import (
    OptionError,
    ProfileMismatchError,
    RepriorError,
    ScoresError,
)
from reprior.profile import AFTER_ZERO, Line, Samples
from reprior.tuning import cross_validate_samples, select

along = rp.StrengthProfile.along


def values(profile, at):
    return {name: profile.evaluate(name, at) for name in oracles.METRICS}


def assert_equals_brute_force(profile, scores, direction, labels, at, weights=None):
    wanted = oracles.metrics_at(scores, labels, direction, at, weights)
    for name, value in values(profile, at).items():
        np.testing.assert_allclose(value, wanted[name], rtol=0, atol=ROUNDING, err_msg=name)


@st.composite
def exact_problems(draw):
    """Draw lines that are exact in float64, with ties, equal slopes and impossible classes."""
    n_classes, n = draw(st.integers(2, 6)), draw(st.integers(1, 8))
    shape, bounds = (n, n_classes), draw(st.sampled_from([*BOUNDS, (0.0, 1.0)]))
    first = np.arange(n_classes) == 0
    scores = draw(hnp.arrays(np.int64, shape, elements=st.integers(-6, 6))) * 0.75
    direction = draw(hnp.arrays(np.int64, shape, elements=st.integers(-2, 2))) * 1.0
    if draw(st.booleans()):
        scores = np.where(draw(hnp.arrays(bool, shape)) & ~first, -np.inf, scores)
    if bounds[0] >= 0 and draw(st.booleans()):
        direction = np.where(draw(hnp.arrays(bool, shape)) & ~first, -np.inf, direction)
    direction[0, 0] = 3.0  # never parallel
    direction[0, 1] = -3.0
    dtypes = st.sampled_from(["f2", "f4", "f8"])
    scores, direction = scores.astype(draw(dtypes)), direction.astype(draw(dtypes))
    labels = draw(hnp.arrays(np.int64, n, elements=st.integers(0, n_classes - 1)))
    weights = None
    if draw(st.booleans()):
        weights = draw(hnp.arrays(np.int64, n, elements=st.integers(1, 4))) * 1.0
    return scores, direction, labels, weights, bounds


def exact_strengths(bounds):
    """Return strengths at which lines cross exactly, and one on either side of each."""
    low, high = bounds
    grid = np.arange(-32, 49) / 16
    beside = np.concatenate([grid, grid - BESIDE, grid + BESIDE, [AFTER_ZERO]])
    return np.unique(beside[(beside >= low) & (beside <= high)])


@pytest.mark.parametrize("native", [True, False])
@FEWER_EXAMPLES
@given(exact_problems())
def test_exact_lines_equal_brute_force_at_the_switches_too(native, problem):
    scores, direction, labels, weights, bounds = problem
    with pytest.MonkeyPatch.context() as patch:
        if not native:
            patch.setattr(kernels, "native", None)
        profile = along(scores, direction, labels, bounds=bounds, sample_weight=weights)
    at = exact_strengths(bounds)[::5]
    assert_equals_brute_force(profile, scores, direction, labels, at, weights)
    origin = oracles.predictions(scores, direction, 0.0)[0]
    matrix = oracles.confusion(labels, origin, scores.shape[1], weights)
    np.testing.assert_allclose(profile.baseline.predicted, matrix.sum(axis=0), atol=ROUNDING)


def random_problem(rng):
    """Return scores of two models, labels, weights and bounds of a random sort and size."""
    n_classes = int(rng.choice([2, 3, 5, 10, 17, 40]))
    n = int(rng.integers(1, 40))
    labels = rng.integers(n_classes, size=n)
    first, second = rng.normal(scale=2.0, size=(2, n, n_classes))
    for scores in (first, second):
        scores[np.arange(n), labels] += rng.uniform(0, 3)
    first = first.astype(rng.choice(["f2", "f4", "f8"]))
    second = second.astype(rng.choice(["f2", "f4", "f8"]))
    weights = rng.uniform(0.1, 3.0, n) if rng.random() < 0.3 else None
    bounds = [(0.0, 1.0), (0.0, 1.0), (-0.5, 1.5), (0.2, 0.9)][int(rng.integers(4))]
    return first, second, labels, weights, bounds


def crossings(scores, direction, bounds):
    """Return all strengths within the bounds at which two lines of a sample cross."""
    z, w = np.asarray(scores, float), np.asarray(direction, float)
    with np.errstate(divide="ignore", invalid="ignore"):
        at = (z[:, :, None] - z[:, None, :]) / (w[:, None, :] - w[:, :, None])
    at = at[np.isfinite(at)]
    return np.unique(at[(at > bounds[0]) & (at < bounds[1])])


def check_random_problem(seed):
    """Compare one random problem with brute force, between all crossings or at random strengths."""
    rng = np.random.default_rng(seed)
    scores, ends, labels, weights, bounds = random_problem(rng)
    direction = (ends.astype(float) - scores).astype(rng.choice(["f2", "f4", "f8"]))
    profile = along(scores, direction, labels, bounds=bounds, sample_weight=weights)
    edges = np.array([bounds[0], *crossings(scores, direction, bounds), bounds[1]])
    wide = np.diff(edges) > 4 * MARGIN
    at = ((edges[1:] + edges[:-1]) / 2)[wide]
    every = at.size <= 400
    at = at if every else np.sort(rng.choice(at, 400, replace=False))
    s = scores.astype(float) + at[:, None, None] * direction.astype(float)
    predicted = s.argmax(axis=2)
    n_classes = scores.shape[1]
    hot = np.eye(n_classes) * 1.0
    amounts = np.ones(labels.size) if weights is None else weights
    own = hot[labels] * amounts[:, None]
    tp = np.einsum("snk,nk->sk", hot[predicted], own)
    n_predicted = np.einsum("snk,n->sk", hot[predicted], amounts)
    support = own.sum(axis=0)
    accuracy = tp.sum(axis=1) / support.sum()
    there = (support > 0) | (n_predicted > 0)
    with np.errstate(invalid="ignore"):
        iou = np.where(there, tp / np.where(there, support + n_predicted - tp, 1.0), 0.0)
    iou = iou.sum(axis=1) / there.sum(axis=1)
    for name, want in (("accuracy", accuracy), ("mean_iou", iou)):
        np.testing.assert_allclose(profile.evaluate(name, at), want, rtol=0, atol=ROUNDING)
        best = profile.best(name)
        if every and wide.all():
            top = max(want.max(), profile.evaluate(name, 0.0) if bounds[0] <= 0 else -np.inf)
            assert abs(best.value - top) <= ROUNDING
        assert best.value >= want.max() - ROUNDING
    matrix = oracles.confusion(labels, scores.argmax(axis=1), n_classes, weights)
    np.testing.assert_allclose(profile.baseline.predicted, matrix.sum(axis=0), atol=ROUNDING)
    np.testing.assert_allclose(profile.baseline.true_positive, np.diag(matrix), atol=ROUNDING)


@FEWER_EXAMPLES
@given(st.integers(0, 2**32))
def test_random_problems_equal_brute_force(seed):
    check_random_problem(seed)


@pytest.mark.heavy
def test_ten_thousand_random_problems_equal_brute_force():
    for seed in range(10_000):
        check_random_problem(seed)


@pytest.fixture
def problem(rng):
    """Scores, a direction per sample and labels, (200, 7)."""
    labels = rng.integers(7, size=200)
    scores, ends = rng.normal(size=(2, 200, 7)) + np.eye(7)[labels]
    return scores, ends - scores, labels


def assert_same(a, b):
    assert a.to_bytes() == b.to_bytes()


def test_a_direction_of_priors_gives_the_profile_of_the_priors(problem):
    scores, _, labels = problem
    prior = rp.prior_from_counts([7, 6, 5, 4, 3, 2, 1])
    want = rp.StrengthProfile.from_scores(scores, labels, source_prior=prior)
    shared = along(scores, want.direction, labels, bounds=(0.0, 2.0))
    own = along(scores, np.tile(want.direction, (200, 1)), labels, bounds=(0.0, 2.0))
    for profile in (shared, own):
        np.testing.assert_array_equal(profile.switches.position, want.switches.position)
        np.testing.assert_array_equal(profile.counts(1.1).predicted, want.counts(1.1).predicted)
        assert profile.best("macro_f1") == want.best("macro_f1")
        assert profile.source_prior is None
        assert profile.target_prior is None
    np.testing.assert_array_equal(shared.direction, want.direction)
    assert own.direction is None


@pytest.mark.parametrize("bounds", [(0.0, 1.0), (-1.0, 2.0), (0.3, 0.8)])
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_kernel_and_array_code_give_the_same_bits(problem, dtype, bounds, monkeypatch):
    scores, direction, labels = problem
    scores, direction = scores.astype(dtype), direction.astype("f4")
    weights = np.linspace(0.5, 2.0, 200)
    found = along(scores, direction, labels, bounds=bounds, sample_weight=weights)
    monkeypatch.setattr(kernels, "native", None)
    want = along(scores, direction, labels, bounds=bounds, sample_weight=weights)
    np.testing.assert_array_equal(found._counts, want._counts)
    table, other = found.switches, want.switches
    for name in ("position", "label", "before", "after", "weight"):
        np.testing.assert_array_equal(getattr(table, name), getattr(other, name), err_msg=name)


def test_other_libraries_axes_and_lists_give_the_same_profile(problem):
    scores, direction, labels = problem
    want = along(scores, direction, labels)
    tensors = map(torch.as_tensor, (scores, direction, labels))
    assert_same(along(*tensors), want)
    assert_same(along(scores.tolist(), direction.tolist(), labels.tolist()), want)
    maps = (np.moveaxis(each.reshape(4, 50, 7), -1, 1) for each in (scores, direction))
    found = along(*maps, labels.reshape(4, 50), class_axis=1)
    np.testing.assert_array_equal(found.switches.position, want.switches.position)
    np.testing.assert_array_equal(found._counts, want._counts)


@pytest.mark.parametrize("kind", ["probs", "log_probs"])
def test_probabilities_start_the_line_at_their_logarithms(problem, kind):
    scores, direction, labels = problem
    want = along(scores, direction, labels)
    log_p = scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))
    given_as = np.exp(log_p) if kind == "probs" else log_p
    found = along(given_as, direction, labels, kind=kind)
    np.testing.assert_allclose(
        found.switches.position, want.switches.position, rtol=1e-9, atol=1e-12
    )


def test_one_score_per_sample_has_the_slope_of_the_second_class(rng):
    margin, slope = rng.normal(size=(2, 60))
    labels = rng.integers(2, size=60)
    columns = [np.stack([np.zeros(60), each], axis=1) for each in (margin, slope)]
    want = along(*columns, labels)
    assert_same(along(margin, slope, labels), want)
    assert_same(along(margin[:, None], slope[:, None], labels), want)
    with pytest.raises(ScoresError, match="must differ between the classes"):
        along(margin, 0 * slope, labels)
    shared = along(margin, [0.0, 1.5], labels)
    assert_same(along(columns[0], [0.0, 1.5], labels), shared)
    assert_same(
        along(margin[:2], slope[:2], labels[:2]), along(*(c[:2] for c in columns), labels[:2])
    )


def test_metrics_per_image_follow_any_line(problem):
    scores, direction, labels = problem
    maps = [each.reshape(4, 50, 7) for each in (scores, direction)]
    profile = along(*maps, labels.reshape(4, 50))
    with_ids = along(scores, direction, labels, image_ids=np.repeat(np.arange(4), 50))
    at = [0.0, 0.3, 0.9]
    values = profile.evaluate("mean_iou_per_image", at)
    np.testing.assert_array_equal(with_ids.evaluate("mean_iou_per_image", at), values)
    assert profile.best("mean_iou_per_image").value >= values.max()


def test_one_sample_of_several_classes():
    profile = along([0.0, 1.0, 2.0], [3.0, 0.0, 0.0], 0)
    assert profile.switches.position.tolist() == [2 / 3]


def test_ignored_and_weightless_samples_may_have_any_direction(problem):
    scores, direction, labels = problem
    direction = direction.copy()
    direction[3], direction[5] = np.nan, np.inf
    labels = labels.copy()
    labels[3] = -1
    weights = np.ones(200)
    weights[5] = 0.0
    kept = np.delete(np.arange(200), [3, 5])
    found = along(scores, direction, labels, ignore_index=-1, sample_weight=weights)
    want = along(scores[kept], direction[kept], labels[kept], sample_weight=weights[kept])
    np.testing.assert_array_equal(found.switches.position, want.switches.position)
    assert found.n_samples == 198


@pytest.mark.parametrize("chunks", [200, 64, (50, 3)])
def test_dask_arrays_in_any_chunks_give_the_same_profile(problem, chunks):
    scores, direction, labels = problem
    want = along(scores, direction, labels)
    lazy = dask.array.from_array(scores, chunks=chunks)
    other = dask.array.from_array(direction, chunks=(90, 7))
    y = dask.array.from_array(labels, chunks=70)
    found = along(lazy, other, y)
    np.testing.assert_array_equal(found.switches.position, want.switches.position)
    np.testing.assert_array_equal(found.counts(0.4).predicted, want.counts(0.4).predicted)
    shared = along(lazy, other[0], y)
    assert shared.best("accuracy") == along(scores, direction[0], labels).best("accuracy")


def test_dask_arrays_of_unknown_chunks_pair_with_directions_of_the_same_ones(problem):
    scores, direction, labels = problem
    known = [dask.array.from_array(each, chunks=(64, *each.shape[1:])) for each in problem]
    mask = dask.array.ones(200, chunks=64, dtype=bool)
    unknown = [each[mask] for each in known]
    found = along(*unknown)
    assert found.best("accuracy") == along(scores, direction, labels).best("accuracy")
    with pytest.raises(ScoresError, match="`direction` must have the shape and the chunks"):
        along(unknown[0], known[1][:100], unknown[2])
    with pytest.raises(ScoresError, match="`direction` must have the shape and the chunks"):
        along(known[0], known[1][:, 1:], known[2])
    one = dask.array.from_array(scores[0], chunks=7)
    assert along(one, known[1][0], 0).n_samples == 1


def test_an_error_in_a_later_chunk_names_the_sample(problem):
    scores, direction, labels = problem
    direction = direction.copy()
    direction[150, 2] = np.nan
    lazy = [dask.array.from_array(each, chunks=(64, 7)) for each in (scores, direction)]
    with pytest.raises(ScoresError, match=r"direction\[22, 2\]=nan.*count from sample 128"):
        along(*lazy, dask.array.from_array(labels, chunks=64))
    with pytest.raises(RepriorError, match="one array library"):
        along(lazy[0], direction, labels)


def test_parts_add_and_subtract_and_bins_and_files_hold_them(problem, tmp_path):
    scores, direction, labels = problem
    whole = along(scores, direction, labels)
    parts = [
        along(scores[rows], direction[rows], labels[rows])
        for rows in (slice(0, 80), slice(80, 200))
    ]
    assert_same((parts[0] + parts[1]).binned(0.01), whole.binned(0.01))
    rest = whole - parts[0]
    np.testing.assert_array_equal(rest.switches.position, parts[1].switches.position)
    for profile in (whole, whole.binned(0.01), along(scores, direction[0], labels)):
        profile.save(tmp_path / "profile.npz")
        again = rp.StrengthProfile.load(tmp_path / "profile.npz")
        assert_same(again, profile)
        assert again.source_prior is None
        assert again.best("mean_iou") == profile.best("mean_iou")
    resolved = along(scores, direction, labels, resolution=0.01)
    assert_same(resolved, whole.binned(0.01))


def test_profiles_along_other_lines_do_not_add(problem):
    scores, direction, labels = problem
    priors = rp.StrengthProfile.from_scores(
        scores,
        labels,
        source_prior=np.full(7, 1 / 7),
        target_prior=[0.4, *[0.1] * 6],
        bounds=(0.0, 1.0),
    )
    own = along(scores, direction, labels)
    shared = along(scores, direction[0], labels)
    for a, b in ((own, shared), (shared, along(scores, direction[1], labels))):
        with pytest.raises(ProfileMismatchError, match="equal direction to add"):
            a + b
    with pytest.raises(ProfileMismatchError, match="equal source_prior to add"):
        own + priors


def test_a_damaged_file_is_refused(problem, tmp_path):
    scores, direction, labels = problem
    content = along(scores, direction[0], labels).to_bytes()
    path = tmp_path / "profile.npz"
    path.write_bytes(content)
    arrays = dict(np.load(path))
    path = tmp_path / "changed.npz"
    for change, said in (
        ({"direction": arrays["direction"][:-1]}, "of the same classes"),
        ({"direction": -arrays["direction"]}, "larger slope"),
        ({"source_prior": np.full(7, 1 / 7)}, "no arrays but"),
    ):
        np.savez(path, **{**arrays, **change})
        with pytest.raises(RepriorError, match=said):
            rp.StrengthProfile.load(path)


def test_everything_that_a_profile_has(problem):
    scores, direction, labels = problem
    profile = along(scores, direction, labels)
    limited = profile.best("accuracy", subject_to="macro_f1 >= baseline")
    assert limited.value <= profile.best("accuracy").value
    assert len(profile.pareto("accuracy", "worst_recall")) >= 1
    strengths, curve = profile.curve("mcc")
    assert strengths[0] == 0.0
    assert curve.max() == profile.best("mcc").value
    assert "200 samples, 7 classes" in repr(profile)
    assert profile.n_ruled_out.sum() == 0
    with pytest.raises(OptionError, match="within the bounds"):
        profile.evaluate("accuracy", 1.5)
    with pytest.raises(OptionError, match="no sample of class 3"):
        along(scores, direction, np.zeros(200, int)).best("recall[3]")


BAD = {
    "nan": (lambda d: _with(d, np.nan), r"must be finite, or -inf.*direction\[4, 2\]=nan"),
    "inf": (lambda d: _with(d, np.inf), r"direction\[4, 2\]=inf"),
    "shape": (lambda d: d[:, :-1], r"must have the shape of `scores`, or one number per class"),
    "rows": (lambda d: d[:-1], r"shape \(199, 7\) for scores of shape \(200, 7\)"),
    "names": (lambda d: d.astype(str), r"`direction` must be real numbers"),
    "equal": (lambda d: np.repeat(d[:, :1], 7, axis=1), r"must differ between the classes"),
    "shared equal": (lambda d: np.ones(7), r"must differ between the classes"),
    "shared nan": (lambda d: _with(d, np.nan)[4], r"direction\[2\]=nan"),
    "shared -inf": (lambda d: _with(d, -np.inf)[4], r"finite where all samples share it"),
    "gone": (lambda d: np.full_like(d, -np.inf), r"leave some class possible"),
}


def _with(direction, value):
    changed = direction.copy()
    changed[4, 2] = value
    return changed


@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize("change, said", BAD.values(), ids=BAD)
def test_bad_directions_are_refused(problem, change, said, native, monkeypatch):
    scores, direction, labels = problem
    if not native:
        monkeypatch.setattr(kernels, "native", None)
    with pytest.raises(ScoresError, match=said):
        along(scores, change(direction), labels)


@pytest.mark.parametrize("native", [True, False])
def test_impossible_classes_need_bounds_from_0_on(problem, native, monkeypatch):
    scores, direction, labels = problem
    if not native:
        monkeypatch.setattr(kernels, "native", None)
    gone = _with(direction, -np.inf)
    assert along(scores, gone, labels).counts(0.5).predicted.sum() == 200
    with pytest.raises(ScoresError, match=r"leave every class possible.*direction\[4, 2\]=-inf"):
        along(scores, gone, labels, bounds=(-1.0, 1.0))


def test_a_frame_in_another_order_is_refused(problem):
    pd = pytest.importorskip("pandas")
    scores, direction, labels = problem
    frame = pd.DataFrame(scores, columns=list("abcdefg"))
    other = pd.DataFrame(direction, columns=list("abcdefg"))
    assert_same(along(frame, other, labels), along(scores, direction, labels))
    with pytest.raises(ScoresError, match="must have its columns in the order of `scores`"):
        along(frame, other[list("bacdefg")], labels)
    with pytest.raises(ScoresError, match="must have its columns in the order of `scores`"):
        along(frame, other[list("bacdefg")].loc[0], labels)


def test_figures_of_priors_need_them_and_others_do_not(problem):
    plots = pytest.importorskip("reprior.report.plots")
    scores, direction, labels = problem
    profile = along(scores, direction, labels)
    plots.StrengthCurveDisplay.from_profile(profile)
    plots.ClassChangeDisplay.from_profile(profile, 0.5)
    with pytest.raises(OptionError, match="`profile` must be of two priors"):
        plots.PriorDisplay.from_profile(profile, 0.5)


def test_bootstrap_and_folds_go_along_the_same_line(problem):
    scores, direction, labels = problem
    samples = Samples.of(scores, labels, n_classes=7, direction=direction)
    line = Line.of(None, (0.0, 1.0), 7)
    bootstrap = rp.StrengthBootstrap.of(samples, line, n_replicates=100)
    assert_same(bootstrap.profile.binned(0.01), along(scores, direction, labels, resolution=0.01))
    assert 0 < bootstrap.standard_error("accuracy", 0.5) < 0.1
    folds = np.arange(200) % 4
    found = cross_validate_samples(samples, line, "accuracy", folds)
    assert found.best == bootstrap.profile.best("accuracy")
    with pytest.raises(OptionError, match="`rule` must be one that needs no priors"):
        select(bootstrap, "accuracy", "balanced_log_loss")


def test_promises_hold_along_any_line(rng):
    labels = np.repeat([0, 1], 400)
    scores, ends = rng.normal(size=(2, 800, 2)) + 2.5 * np.eye(2)[labels]
    profile = along(scores, ends - scores, labels)
    best = profile.best("accuracy", subject_to="recall[0] >= 0.85", certify=0.95)
    assert best.certified
    assert profile.evaluate("recall[0]", best.strength) > 0.87


@settings(max_examples=20)
@given(st.integers(0, 2**32))
def test_equal_directions_are_equal_to_a_shared_one(seed):
    rng = np.random.default_rng(seed)
    n_classes = int(rng.choice([2, 9, 16, 17, 33, 300]))
    scores = rng.normal(size=(30, n_classes)).astype(rng.choice(["f4", "f8"]))
    shared = rng.normal(size=n_classes)
    labels = rng.integers(n_classes, size=30)
    want = along(scores, shared, labels, bounds=(-1.0, 2.0))
    found = along(scores, np.tile(shared, (30, 1)), labels, bounds=(-1.0, 2.0))
    np.testing.assert_array_equal(found.switches.position, want.switches.position)
    np.testing.assert_array_equal(found._counts, want._counts)
