"""Dask arrays and dataframes go into the calibrator, and predictions come out lazy."""

from __future__ import annotations

import warnings
from dataclasses import replace

import dask
import dask.array as da
import numpy as np
import pytest
from tests.calibrator.shared import VALID, K, case, fit
from tests.support.chunked_scores import assert_same_fit, flat, images, quietly, weighted

from reprior.calibrator import posterior
from reprior.exceptions import LabelsError, RepriorWarning
from reprior.profile import Bins

NAMES = np.array(["ant", "bee", "cow", "dog"])


def lazy(array, rows=13):
    return None if array is None else da.from_array(array, chunks=(rows, *array.shape[1:]))


def both(data, **options):
    """The fits in memory and of Dask arrays, with their warnings."""
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
    (expected, expected_messages), (lazily_fitted, messages) = both(data, **options)
    assert_same_fit(lazily_fitted, expected)
    assert messages == expected_messages


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
    (expected, expected_messages), (lazily_fitted, messages) = both(flat(4, n=200), **options)
    assert lazily_fitted.strength_ == pytest.approx(expected.strength_, rel=1e-6)
    assert lazily_fitted.temperature_ == pytest.approx(expected.temperature_, rel=1e-6)
    np.testing.assert_allclose(lazily_fitted.log_loss_, expected.log_loss_, rtol=1e-9)
    assert messages == expected_messages


@pytest.mark.parametrize("prior", [[0.6, 0.25, 0.1, 0.05], [0.3, 0.3, 0.3, 0.1]])
@pytest.mark.parametrize("options", [{}, {"temperature": 2.0}])
def test_fits_by_log_loss_without_labels_of_a_class(options, prior):
    data = flat(4, n=200, prior=np.array(prior))
    kept = data.labels != 3
    data = replace(data, scores=data.scores[kept], labels=data.labels[kept])
    (expected, expected_messages), (lazily_fitted, messages) = both(
        data, metric="log_loss", **options
    )
    assert lazily_fitted.strength_ == pytest.approx(expected.strength_, rel=1e-6)
    assert lazily_fitted.temperature_ == pytest.approx(expected.temperature_, rel=1e-6)
    np.testing.assert_allclose(lazily_fitted.log_loss_, expected.log_loss_, rtol=1e-9)
    assert messages == expected_messages


def test_what_needs_all_scores_gathers_them():
    (expected, _), (lazily_fitted, _) = both(flat(4, n=200), tune="per_class")
    np.testing.assert_array_equal(lazily_fitted.biases_, expected.biases_)
    assert lazily_fitted.counts_.true_positive.tolist() == expected.counts_.true_positive.tolist()


def test_labels_that_are_names():
    data = flat(4, n=100)
    names = NAMES[data.labels]
    for options in ({"classes": NAMES.tolist()}, {}):
        expected, expected_messages = quietly(data.calibrator(**options).fit, data.scores, names)
        lazily_fitted, messages = quietly(
            data.calibrator(**options).fit, lazy(data.scores), lazy(names)
        )
        assert_same_fit(lazily_fitted, expected)
        assert messages == expected_messages
    with pytest.raises(LabelsError, match="must be among the classes"):
        data.calibrator(classes=["w", "x", "y", "z"]).fit(lazy(data.scores), lazy(names))


@pytest.mark.parametrize("on_disk", [False, True])
def test_dataframes(on_disk, tmp_path):
    pd, dd = pytest.importorskip("pandas"), pytest.importorskip("dask.dataframe")
    data = weighted(flat(4, n=100))
    frame = pd.DataFrame(data.scores[:, ::-1], columns=NAMES[::-1])  # another order
    frame = frame.assign(label=NAMES[data.labels], weight=data.weight)
    expected, _ = quietly(
        data.calibrator(classes=NAMES.tolist()).fit, data.scores, frame["label"], data.weight
    )
    lazily = dd.from_pandas(frame, npartitions=5)
    if on_disk:  # of which Dask reads those of few columns several to a partition
        for i in range(5):
            frame.iloc[20 * i : 20 * (i + 1)].to_parquet(tmp_path / f"{i}.parquet")
        lazily = dd.read_parquet([tmp_path / f"{i}.parquet" for i in range(5)])
        assert lazily["label"].optimize().npartitions < 5
    lazily_fitted, _ = quietly(
        data.calibrator(classes=NAMES.tolist()).fit,
        lazily[NAMES.tolist()[::-1]], lazily["label"], lazily["weight"],
    )  # fmt: skip
    assert_same_fit(lazily_fitted, expected)
    posterior = lazily_fitted.predict_proba(lazily[NAMES.tolist()])
    assert isinstance(posterior, da.Array)
    np.testing.assert_allclose(posterior.compute(), expected.predict_proba(data.scores), rtol=1e-12)


@pytest.mark.parametrize("classes", [None, NAMES.tolist()])
def test_predictions_are_lazy(classes):
    data = flat(4, n=100)
    labels = data.labels if classes is None else NAMES[data.labels]
    calibrator, _ = quietly(data.calibrator(classes=classes).fit, data.scores, labels)

    def never(*_, **__):
        raise AssertionError("it was computed")

    scores = da.from_array(data.scores, chunks=(30, 2))
    with dask.config.set(scheduler=never):
        lazily_fitted = [calibrator.predict_proba(scores), calibrator.predict(scores)]
    assert all(isinstance(each, da.Array) for each in lazily_fitted)
    np.testing.assert_allclose(
        lazily_fitted[0].compute(), calibrator.predict_proba(data.scores), rtol=1e-12
    )
    assert lazily_fitted[1].dtype == np.asarray(calibrator.predict(data.scores)).dtype
    np.testing.assert_array_equal(lazily_fitted[1].compute(), calibrator.predict(data.scores))


def test_many_switches_are_binned_and_it_is_said(monkeypatch):
    monkeypatch.setattr(posterior, "AUTO_BINS", Bins(20, 1e-4))
    data = flat(4)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*(no tuning labels|upper bound).*")
        with pytest.warns(
            RepriorWarning, match="more than 20 switches.*resolution=None"
        ) as messages:
            lazily_fitted = data.calibrator().fit(lazy(data.scores), lazy(data.labels))
    assert {each.filename for each in messages} == {__file__}
    assert lazily_fitted.profile_.resolution == 1e-4


def test_logits_that_look_like_probabilities():
    _, messages = quietly(
        flat().calibrator().fit, da.full((40, 4), 0.25, chunks=10), da.arange(40, chunks=10) % 4
    )
    assert any("every row lies in [0, 1] and sums to 1" in each for each in messages)


def test_a_fit_without_labels_that_count():
    data = flat(4)
    with pytest.raises(LabelsError, match="Got 60 samples, all of them ignored"):
        data.calibrator(ignore_index=9).fit(lazy(data.scores), lazy(np.full(60, 9)))


@pytest.mark.parametrize("name", ["fit", "log_loss", "log_loss-vector", "per_class", "separate"])
def test_every_kind_of_fit(name):
    scores, labels = case()
    lazily = fit(VALID[name], da.from_array(scores, chunks=(300, K)), da.from_array(labels, 300))
    known = fit(VALID[name])
    np.testing.assert_allclose(lazily.predict_proba(scores), known.predict_proba(scores), atol=1e-6)


@pytest.mark.parametrize("options", [{"metric": "log_loss"}, {"temperature": "fit"}])
def test_labels_that_neither_target_nor_label_prior_has_count_nothing(options):
    scores, labels = case()
    options = {**options, "target_prior": [0.5, 0.3, 0.2, 0.0], "label_prior": [0.2, 0.3, 0.5, 0.0]}
    known = fit(options, scores, labels)
    assert np.isfinite(known.log_loss_).all()
    there = fit(options, da.from_array(scores, chunks=(300, K)), da.from_array(labels, 300))
    assert there.log_loss_ == pytest.approx(known.log_loss_, rel=1e-9)
    assert there.temperature_ == pytest.approx(known.temperature_, rel=1e-6)
