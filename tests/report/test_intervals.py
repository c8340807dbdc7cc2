"""The interval of the gain on the page, against the bootstrap written out."""

from __future__ import annotations

import numpy as np
import pytest
from tests.support.report_pages import chunked, fitted, make_scores, page_json, unpack

import reprior as rp
from reprior.report import write_report
from reprior.report.intervals import N_REPLICATES

#: Intervals of two bootstraps of 200 and 4,000 replicates, in units of their width.
NOISE = 0.25


def brute_interval(logits, labels, w, strength, unit):
    """Draw units again, all their samples together; the 90 % interval of the gain in recall."""
    rng = np.random.default_rng(5)
    before, after = logits.argmax(axis=1), (logits + strength * w).argmax(axis=1)
    gains = []
    for _ in range(4000):
        times = rng.poisson(1.0, unit.max() + 1)[unit]

        def recall(predicted, times=times):
            hits = np.bincount(labels, times * (predicted == labels), w.size)
            support = np.bincount(labels, times, w.size)
            return np.mean(hits[support > 0] / support[support > 0])

        gains.append(recall(after) - recall(before))
    return np.quantile(gains, [0.05, 0.95])


def gain_at(path, strength):
    raw = page_json(path)["sets"][0]
    grid = unpack(raw["gain"]["strengths"])
    ends = [np.interp(strength, grid, unpack(raw["gain"][name])) for name in ("low", "high")]
    return raw["gain"], np.array(ends)


@pytest.mark.parametrize("size", [None, 7])
def test_the_interval_is_that_of_samples_drawn_again(tmp_path, size):
    logits, labels, counts = make_scores(np.random.default_rng(3), n=400, k=4)
    calibrator = fitted(logits, labels, counts)
    chunks = chunked(logits, labels, **({} if size is None else {"size": size * 10}))
    path = write_report(tmp_path / "r.html", calibrator, chunks)
    raw, found = gain_at(path, calibrator.strength_)
    wanted = brute_interval(
        logits, labels, -np.log(calibrator.source_prior_), calibrator.strength_, np.arange(400)
    )
    assert (raw["unit"], raw["units"]) == ("samples", 400)
    assert np.abs(found - wanted).max() < NOISE * np.diff(wanted)[0]
    assert N_REPLICATES == 200


def test_pixels_are_drawn_with_their_image(tmp_path):
    rng = np.random.default_rng(4)
    logits, labels, counts = make_scores(rng, n=40 * 6 * 5, k=4)
    order = np.argsort(labels, kind="stable")  # images of one class each: far from independent
    maps = np.moveaxis(logits[order].reshape(40, 6, 5, 4), -1, 1)
    planes = labels[order].reshape(40, 6, 5)
    calibrator = rp.PosteriorCalibrator(rp.prior_from_counts(counts), class_axis=1)
    calibrator.fit(maps, planes)
    path = write_report(tmp_path / "r.html", calibrator, [(maps[:15], planes[:15]),
                                                          (maps[15:], planes[15:])])  # fmt: skip
    raw, found = gain_at(path, calibrator.strength_)
    wanted = brute_interval(
        logits[order], labels[order], -np.log(calibrator.source_prior_), calibrator.strength_,
        np.repeat(np.arange(40), 30),
    )  # fmt: skip
    assert (raw["unit"], raw["units"]) == ("images", 40)
    assert np.abs(found - wanted).max() < NOISE * np.diff(wanted)[0]


def test_few_images_have_no_interval(tmp_path):
    logits, labels, counts = make_scores(np.random.default_rng(4), n=90, k=3)
    maps = np.moveaxis(logits.reshape(9, 2, 5, 3), -1, 1)
    calibrator = rp.PosteriorCalibrator(rp.prior_from_counts(counts), class_axis=1)
    calibrator.fit(maps, labels.reshape(9, 2, 5))
    path = write_report(tmp_path / "r.html", calibrator, [(maps, labels.reshape(9, 2, 5))])
    raw = page_json(path)["sets"][0]
    assert raw["gain"] is None
    assert raw["noGain"] == "Pixels of one image are not independent, and 9 images are too few."


def test_large_sets_have_no_interval(tmp_path, monkeypatch):
    monkeypatch.setattr("reprior.report.intervals.MOST_SAMPLES", 100)
    logits, labels, counts = make_scores(np.random.default_rng(4), n=101, k=3)
    calibrator = fitted(logits, labels, counts)
    raw = page_json(write_report(tmp_path / "r.html", calibrator, [(logits, labels)]))["sets"][0]
    assert (raw["gain"], raw["noGain"]) == (
        None,
        "The set is too large for a bootstrap on this page.",
    )
