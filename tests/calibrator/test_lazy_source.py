"""Dask arrays and dataframes go into the calibrator, and predictions come out lazy."""

from __future__ import annotations

import warnings
from dataclasses import replace

import dask
import dask.array as da
import numpy as np
import pytest
from tests.calibrator.shared import K, case, fit
from tests.engines.shared import assert_same_fit, flat, images, quietly, weighted

from reprior.calibrator import lazy_source
from reprior.calibrator.lazy_source import CountTally, join_sums
from reprior.core.score_map import ScoreMap
from reprior.exceptions import LabelsError, OptionError, RepriorWarning
from reprior.metrics.counts import ClassCounts
from reprior.profile.dask_arrays import ArrayPieces, Bins

NAMES = np.array(["ant", "bee", "cow", "dog"])


def lazy(array, rows=13):
    return None if array is None else da.from_array(array, chunks=(rows, *array.shape[1:]))


def both(data, **options):
    """The fits in memory and of Dask arrays, with what they said."""
    arrays = data.scores, data.labels, data.weight
    return (
        quietly(data.calibrator(**options).fit, *arrays),
        quietly(data.calibrator(**options).fit, *map(lazy, arrays)),
    )


@pytest.mark.parametrize("heavy", [False, True])
@pytest.mark.parametrize("make", [flat, images])
@pytest.mark.parametrize("options", [{}, {"temperature": "fit"}, {"bounds": (0.0, 0.1)}])
def test_fit_of_dask_arrays_is_the_fit(make, heavy, options):
    data = weighted(make(2)) if heavy else make(2)
    (want, words), (found, said) = both(data, **options)
    assert_same_fit(found, want)
    assert said == words


@pytest.mark.parametrize(
    "options",
    [
        {"metric": "log_loss"},
        {"metric": "log_loss", "temperature": 2.0},
        {"metric": "log_loss", "target_prior": [0.6, 0.25, 0.1, 0.05]},
        {"separate": True},
        {"target_prior": [0.5, 0.5, 0.0, 0.0], "metric": "log_loss"},
    ],
)
def test_fits_by_log_loss(options):
    (want, words), (found, said) = both(flat(4, n=200), **options)
    assert found.strength_ == pytest.approx(want.strength_, rel=1e-6)
    assert found.temperature_ == pytest.approx(want.temperature_, rel=1e-6)
    np.testing.assert_allclose(found.log_loss_, want.log_loss_, rtol=1e-9)
    assert said == words


@pytest.mark.parametrize("prior", [[0.6, 0.25, 0.1, 0.05], [0.3, 0.3, 0.3, 0.1]])
@pytest.mark.parametrize("options", [{}, {"temperature": 2.0}])
def test_fits_by_log_loss_without_labels_of_a_class(options, prior):
    data = flat(4, n=200, prior=np.array(prior))
    kept = data.labels != 3
    data = replace(data, scores=data.scores[kept], labels=data.labels[kept])
    (want, words), (found, said) = both(data, metric="log_loss", **options)
    assert found.strength_ == pytest.approx(want.strength_, rel=1e-6)
    assert found.temperature_ == pytest.approx(want.temperature_, rel=1e-6)
    np.testing.assert_allclose(found.log_loss_, want.log_loss_, rtol=1e-9)
    assert said == words


def test_what_needs_all_scores_gathers_them():
    (want, _), (found, _) = both(flat(4, n=200), tune="per_class")
    np.testing.assert_array_equal(found.biases_, want.biases_)
    assert found.counts_.true_positive.tolist() == want.counts_.true_positive.tolist()


def test_labels_that_are_names():
    data = flat(4, n=100)
    names = NAMES[data.labels]
    for options in ({"classes": NAMES.tolist()}, {}):
        want, words = quietly(data.calibrator(**options).fit, data.scores, names)
        found, said = quietly(data.calibrator(**options).fit, lazy(data.scores), lazy(names))
        assert_same_fit(found, want)
        assert said == words
    with pytest.raises(LabelsError, match="must be among the classes"):
        data.calibrator(classes=["w", "x", "y", "z"]).fit(lazy(data.scores), lazy(names))


@pytest.mark.parametrize("on_disk", [False, True])
def test_dataframes(on_disk, tmp_path):
    pd, dd = pytest.importorskip("pandas"), pytest.importorskip("dask.dataframe")
    data = weighted(flat(4, n=100))
    frame = pd.DataFrame(data.scores[:, ::-1], columns=NAMES[::-1])  # another order
    frame = frame.assign(label=NAMES[data.labels], weight=data.weight)
    want, _ = quietly(
        data.calibrator(classes=NAMES.tolist()).fit, data.scores, frame["label"], data.weight
    )
    lazily = dd.from_pandas(frame, npartitions=5)
    if on_disk:  # of which Dask reads those of few columns several to a partition
        for i in range(5):
            frame.iloc[20 * i : 20 * (i + 1)].to_parquet(tmp_path / f"{i}.parquet")
        lazily = dd.read_parquet([tmp_path / f"{i}.parquet" for i in range(5)])
        assert lazily["label"].optimize().npartitions < 5
    found, _ = quietly(
        data.calibrator(classes=NAMES.tolist()).fit,
        lazily[NAMES.tolist()[::-1]], lazily["label"], lazily["weight"],
    )  # fmt: skip
    assert_same_fit(found, want)
    posterior = found.predict_proba(lazily[NAMES.tolist()])
    assert isinstance(posterior, da.Array)
    np.testing.assert_allclose(posterior.compute(), want.predict_proba(data.scores), rtol=1e-12)


@pytest.mark.parametrize("classes", [None, NAMES.tolist()])
def test_predictions_are_lazy(classes):
    data = flat(4, n=100)
    labels = data.labels if classes is None else NAMES[data.labels]
    calibrator, _ = quietly(data.calibrator(classes=classes).fit, data.scores, labels)

    def never(*_, **__):
        raise AssertionError("it was computed")

    scores = da.from_array(data.scores, chunks=(30, 2))
    with dask.config.set(scheduler=never):
        found = [calibrator.predict_proba(scores), calibrator.predict(scores)]
    assert all(isinstance(each, da.Array) for each in found)
    np.testing.assert_allclose(
        found[0].compute(), calibrator.predict_proba(data.scores), rtol=1e-12
    )
    assert found[1].dtype == np.asarray(calibrator.predict(data.scores)).dtype
    np.testing.assert_array_equal(found[1].compute(), calibrator.predict(data.scores))


def test_many_switches_are_binned_and_it_is_said(monkeypatch):
    monkeypatch.setattr(lazy_source, "AUTO_BINS", Bins(20, 1e-4))
    data = flat(4)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*(no tuning labels|upper bound).*")
        with pytest.warns(RepriorWarning, match="more than 20 switches.*resolution=None") as said:
            found = data.calibrator().fit(lazy(data.scores), lazy(data.labels))
    assert {each.filename for each in said} == {__file__}
    assert found.profile_.resolution == 1e-4


def test_logits_that_look_like_probabilities():
    _, said = quietly(
        flat().calibrator().fit, da.full((40, 4), 0.25, chunks=10), da.arange(40, chunks=10) % 4
    )
    assert any("every row lies in [0, 1] and sums to 1" in each for each in said)


def test_too_many_scores_to_gather(monkeypatch):
    monkeypatch.setattr(lazy_source, "GATHERED_SCORES", 100)
    data = flat(4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RepriorWarning)
        with pytest.raises(OptionError, match=r"at most 100\. Got 240\."):
            data.calibrator(cv=3).fit(lazy(data.scores), lazy(data.labels))


def test_a_fit_without_labels_that_count():
    data = flat(4)
    with pytest.raises(LabelsError, match="Got 60 samples, all of them ignored"):
        data.calibrator(ignore_index=9).fit(lazy(data.scores), lazy(np.full(60, 9)))


def test_counts_leave_out_chunks_in_which_nothing_counts():
    data = flat(4)
    labels = data.labels.copy()
    labels[:26] = 9
    encoded = data.with_options(ignore_index=9).calibrator()
    from reprior.calibrator.encoding import encode

    part = encode(encoded, lazy(data.scores), lazy(labels), None).data
    found = ArrayPieces(part).run(lambda: CountTally(ScoreMap(0.5)), join_sums)
    shifted = data.scores[26:] - 0.5 * np.log(data.prior) + 0.5 * np.log(0.25)
    want = ClassCounts.from_predictions(labels[26:], shifted.argmax(1), n_classes=4)
    assert found.predicted.tolist() == want.predicted.tolist()
    assert join_sums([None, None]) is None


@pytest.mark.parametrize("options", [{"metric": "log_loss"}, {"temperature": "fit"}])
def test_labels_that_neither_target_nor_label_prior_has_count_nothing(options):
    scores, labels = case()
    options = {**options, "target_prior": [0.5, 0.3, 0.2, 0.0], "label_prior": [0.2, 0.3, 0.5, 0.0]}
    known = fit(options, scores, labels)
    assert np.isfinite(known.log_loss_).all()
    there = fit(options, da.from_array(scores, chunks=(300, K)), da.from_array(labels, 300))
    assert there.log_loss_ == pytest.approx(known.log_loss_, rel=1e-9)
    assert there.temperature_ == pytest.approx(known.temperature_, rel=1e-6)
