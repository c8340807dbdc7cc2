"""The page as a file: its numbers, its sentences, and that nothing gets out of its place."""

from __future__ import annotations

import base64
import hashlib
import html as html_module
import re

import numpy as np
import pytest
from tests.support.report_pages import (
    brute_joint,
    chunked,
    fitted,
    make_scores,
    page_json,
    replay,
    slopes_of,
    unpack,
)

import reprior as rp
from reprior.files.chunks import Chunk
from reprior.report import write_report
from reprior.report.payload import SizeLimits

TUNED_HERE = "On the labels it was tuned on: expect less on others."
TUNED_ON_TEST = "The test set is what it was tuned on."
JUDGED_ELSEWHERE = "Predictions on other data than it was tuned on."
NOT_RECOGNISED = (
    "This is not the file it was tuned on, by its digest. The same samples in another order or "
    "number format would not be recognised."
)
UNKNOWN = (
    "Whether this is other data than it was tuned on is not known: the calibrator does not say "
    "what it was tuned on."
)

NASTY = '</script><script>alert("x")</script>'


@pytest.fixture
def rng():
    return np.random.default_rng(7)


def headline(path):
    text = path.read_text(encoding="utf-8")
    found = (re.search(rf'id="{name}">(.*?)</p>', text)[1] for name in ("headline", "judged"))
    return tuple(html_module.unescape(each) for each in found)


def check_everywhere(data, log_scores, labels, calibrator, rng, weight=None):
    """The embedded switches give the joint table of brute force, at many strengths."""
    w = slopes_of(calibrator)
    low, high = data["bounds"]
    one_set, k = data["sets"][0], w.size
    assert one_set["resolution"] is None
    for strength in [0.0, calibrator.strength_, *rng.uniform(max(low, 0), high, 40)]:
        wanted = brute_joint(log_scores, labels, w, strength, weight)
        found = replay(one_set, strength, k, weighted=weight is not None)
        np.testing.assert_allclose(found[:k, :k], wanted, atol=1e-9)
        assert not found[k].any()
        assert not found[:, k].any()


def test_the_numbers_equal_brute_force(tmp_path, rng):
    logits, labels, counts = make_scores(rng)
    calibrator = fitted(logits, labels, counts)
    path = write_report(tmp_path / "r.html", calibrator, chunked(logits, labels), counts=counts)
    assert path == tmp_path / "r.html"
    data = page_json(path)
    check_everywhere(data, logits, labels, calibrator, rng)
    assert unpack(data["classes"]["counts"]).tolist() == counts.tolist()
    assert data["strength"] == calibrator.strength_
    assert data["bounds"] == [0.0, 2.0]


def test_the_numbers_equal_the_profile(tmp_path, rng):
    logits, labels, counts = make_scores(rng, n=500, k=7)
    calibrator = fitted(logits, labels, counts)
    data = page_json(write_report(tmp_path / "r.html", calibrator, [(logits, labels)]))
    for strength in [0.0, 2.0, calibrator.strength_, *rng.uniform(0, 2, 20)]:
        joint = replay(data["sets"][0], strength, 7)[:7, :7]
        wanted = calibrator.profile_.counts(strength)
        assert np.array_equal(np.diag(joint), wanted.true_positive)
        assert np.array_equal(joint.sum(axis=0), wanted.predicted)
        assert np.array_equal(joint.sum(axis=1), wanted.support)


def test_curves_and_optima_are_the_profiles(tmp_path, rng):
    logits, labels, counts = make_scores(rng)
    calibrator = fitted(logits, labels, counts, metric="mean_iou")
    one_set = page_json(write_report(tmp_path / "r.html", calibrator, [(logits, labels)]))["sets"][
        0
    ]
    assert next(iter(one_set["curves"])) == "mean_iou"
    assert set(one_set["curves"]) == set(rp.metrics.COUNT_METRICS) - {"macro_recall"}
    for name, curve in one_set["curves"].items():
        x, y = calibrator.profile_.curve(name)
        assert np.array_equal(unpack(curve["x"]), x)
        assert np.array_equal(unpack(curve["y"]), y)
        best = calibrator.profile_.best(name)
        assert one_set["best"][name]["interval"] == list(best.interval)
        assert one_set["best"][name]["value"] == best.value
    assert len(one_set["fronts"]) == 10


def test_long_curves_are_thinned_and_marked_so(tmp_path, rng, monkeypatch):
    limits = (SizeLimits(curve_points=21, front_points=3),)
    monkeypatch.setattr("reprior.report.payload.SIZE_LIMITS", limits)
    logits, labels, counts = make_scores(rng)
    calibrator = fitted(logits, labels, counts)
    one_set = page_json(write_report(tmp_path / "r.html", calibrator, [(logits, labels)]))["sets"][
        0
    ]
    curve = one_set["curves"]["accuracy"]
    x, y = unpack(curve["x"]), unpack(curve["y"])
    assert not curve["exact"]
    assert calibrator.strength_ in x
    assert np.array_equal(y, calibrator.profile_.evaluate("accuracy", x))
    assert all(unpack(front["strengths"]).size <= 3 for front in one_set["fronts"])


def test_weights_and_ignored_labels(tmp_path, rng):
    logits, labels, counts = make_scores(rng)
    weight = rng.integers(0, 4, labels.size).astype(float) / 4
    labels[::17] = -100
    calibrator = fitted(logits, np.maximum(labels, 0), counts, ignore_index=-100)
    chunks = chunked(logits, labels, weight)
    data = page_json(write_report(tmp_path / "r.html", calibrator, chunks))
    kept = (labels != -100) & (weight > 0)
    assert data["sets"][0]["weighted"]
    assert data["sets"][0]["samples"] == kept.sum()
    check_everywhere(data, logits[kept], labels[kept], calibrator, rng, weight[kept])


def test_a_chunk_of_ignored_samples_is_passed_over(tmp_path, rng):
    logits, labels, counts = make_scores(rng)
    labels[:64] = -1
    calibrator = fitted(logits[64:], labels[64:], counts, ignore_index=-1)
    seen = []
    write_report(tmp_path / "r.html", calibrator, chunked(logits, labels), progress=seen.append)
    assert seen == [64, 128, 192, 256, 300]
    data = page_json(tmp_path / "r.html")
    check_everywhere(data, logits[64:], labels[64:], calibrator, rng)


def test_images(tmp_path, rng):
    logits, labels, counts = make_scores(rng, n=4 * 6 * 5, k=3)
    images = np.moveaxis(logits.reshape(4, 6, 5, 3), -1, 1)
    calibrator = fitted(images, labels.reshape(4, 6, 5), counts, class_axis=1)
    chunks = chunked(images, labels.reshape(4, 6, 5), size=3)
    data = page_json(write_report(tmp_path / "r.html", calibrator, chunks))
    check_everywhere(data, logits, labels, calibrator, rng)


def test_one_score_per_sample(tmp_path, rng):
    score, labels = rng.normal(size=200) - 2, rng.integers(0, 2, 200)
    calibrator = fitted(score, labels, [90, 10], classes=None)
    data = page_json(write_report(tmp_path / "r.html", calibrator, chunked(score, labels)))
    logits = np.stack([np.zeros(200), score], axis=1)
    check_everywhere(data, logits, labels, calibrator, rng)


@pytest.mark.filterwarnings("ignore:.* tuning samples are left out")
def test_probabilities_and_a_class_out_of_play(tmp_path, rng):
    logits, labels, counts = make_scores(rng)
    probs = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    target = np.array([0.4, 0.3, 0.3, 0.0, 0.0])
    calibrator = fitted(probs, labels, counts, kind="probs", target_prior=target)
    data = page_json(write_report(tmp_path / "r.html", calibrator, chunked(probs, labels)))
    check_everywhere(data, np.log(probs), labels, calibrator, rng)
    assert replay(data["sets"][0], 1e-9, 5)[:, 3:5].sum() == 0
    assert replay(data["sets"][0], 0.0, 5)[:, 3:5].sum() > 0


def test_a_loaded_calibrator_gives_the_same_page(tmp_path, rng):
    logits, labels, counts = make_scores(rng)
    chunks = chunked(logits, labels)
    calibrator = rp.PosteriorCalibrator(rp.prior_from_counts(counts), temperature="fit")
    rp.engines.fit(calibrator, chunks)
    calibrator.save(tmp_path / "cal.json")
    first = write_report(tmp_path / "a.html", calibrator, chunks)
    second = write_report(tmp_path / "b.html", rp.load(tmp_path / "cal.json"), chunks)
    assert first.read_bytes() == second.read_bytes()


def test_a_strength_beyond_the_bounds_is_on_the_page(tmp_path, rng):
    logits, labels, counts = make_scores(rng)
    calibrator = fitted(logits, labels, counts, bounds=(0.5, 8.0))
    calibrator.strength_, calibrator.profile_, calibrator.bounds = 2.5, None, (0.5, 1.0)
    data = page_json(write_report(tmp_path / "r.html", calibrator, chunked(logits, labels)))
    assert data["bounds"] == [0.0, 2.5]
    check_everywhere(data, logits, labels, calibrator, rng)


def test_negative_strengths(tmp_path, rng):
    logits, labels, counts = make_scores(rng)
    calibrator = fitted(logits, labels, counts, bounds=(-1.0, 2.0))
    data = page_json(write_report(tmp_path / "r.html", calibrator, chunked(logits, labels)))
    assert data["bounds"] == [-1.0, 2.0]
    check_everywhere(data, logits, labels, calibrator, rng)
    w = slopes_of(calibrator)
    found = replay(data["sets"][0], -0.6, 5)[:5, :5]
    assert np.array_equal(found, brute_joint(logits, labels, w, -0.6))


def test_a_metric_of_one_class_is_shown_first(tmp_path, rng):
    logits, labels, counts = make_scores(rng, k=3)
    names = np.array(["a", "b", "c"])
    calibrator = fitted(logits, names[labels], counts, metric="f1[c]", classes=names)
    calibrator.save(tmp_path / "cal.json")
    path = write_report(tmp_path / "r.html", rp.load(tmp_path / "cal.json"), [(logits, labels)])
    metric = page_json(path)["metrics"][0]
    assert (metric["name"], metric["average"], metric["ofClass"]) == ("f1[c]", "one", 2)
    assert "f1[c] goes from" in headline(path)[0]


def test_a_metric_of_ones_own_is_replaced_where_only_its_name_is_left(tmp_path, rng):
    logits, labels, counts = make_scores(rng)
    f2 = rp.metrics.CountMetric("macro_f2", gain=5, support=4, predicted=1)
    calibrator = fitted(logits, labels, counts, metric=f2)
    path = write_report(tmp_path / "r.html", calibrator, [(logits, labels)])
    assert page_json(path)["metrics"][0]["name"] == "macro_f2"
    calibrator.metric = "macro_f2"
    path = write_report(tmp_path / "r.html", calibrator, [(logits, labels)])
    assert page_json(path)["metrics"][0]["name"] == "balanced_accuracy"


def test_a_cost_is_a_number_that_should_fall(tmp_path, rng):
    logits, labels, counts = make_scores(rng, k=3)
    cost = rp.Cost(100.0 * (1.0 - np.eye(3)) * np.arange(1, 4)[:, None])
    calibrator = fitted(logits, labels, counts, metric=cost)
    path = write_report(tmp_path / "r.html", calibrator, [(logits, labels)])
    metric, *others = page_json(path)["metrics"]
    assert (metric["name"], metric["fraction"], metric["greaterIsBetter"]) == ("cost", False, False)
    assert all(each["fraction"] and each["greaterIsBetter"] for each in others)
    old, new = (calibrator.profile_.evaluate(cost, at) for at in (0.0, calibrator.strength_))
    assert f"cost goes from {old:.4g} to {new:.4g} on the validation" in headline(path)[0]
    assert page_json(path)["sets"][0]["best"]["cost"]["value"] == pytest.approx(new)


def test_a_function_of_the_confusion_matrix_is_shown_first(tmp_path, rng):
    def agreement(matrices):
        return matrices.diagonal(axis1=1, axis2=2).sum(axis=1)

    logits, labels, counts = make_scores(rng, k=3)
    calibrator = fitted(logits, labels, counts, metric=rp.metrics.from_confusion(agreement))
    path = write_report(tmp_path / "r.html", calibrator, [(logits, labels)])
    assert page_json(path)["metrics"][0]["name"] == "agreement"
    calibrator.save(tmp_path / "cal.json")
    path = write_report(tmp_path / "r.html", rp.load(tmp_path / "cal.json"), [(logits, labels)])
    assert page_json(path)["metrics"][0]["name"] == "balanced_accuracy"


def test_headline_with_numbers(tmp_path, rng):
    logits, labels, counts = make_scores(rng)
    calibrator = fitted(logits, labels, counts)
    path = write_report(tmp_path / "r.html", calibrator, [(logits, labels)])
    profile = calibrator.profile_
    old = profile.evaluate("balanced_accuracy", 0.0)
    new = profile.evaluate("balanced_accuracy", calibrator.strength_)
    change, judged = headline(path)
    assert f"balanced accuracy goes from {100 * old:.1f} % to {100 * new:.1f} %" in change
    assert f"(+{100 * (new - old):.1f} points) on the validation set (300 samples)" in change
    assert judged == "On the labels it was tuned on: expect less on others."


def test_headline_says_whether_it_was_judged_elsewhere(tmp_path, rng):
    logits, labels, counts = make_scores(rng)
    others, other_labels, _ = make_scores(rng)
    tuned, other = chunked(logits, labels), chunked(others, other_labels)
    shuffled = chunked(logits[::-1], labels[::-1])
    calibrator = rp.PosteriorCalibrator(rp.prior_from_counts(counts))
    rp.engines.fit(calibrator, tuned)

    def judged(validation, test=None):
        return headline(write_report(tmp_path / "r.html", calibrator, validation, test=test))

    assert judged(tuned)[1] == TUNED_HERE
    change, where = judged(tuned, other)
    assert "on the test set (300 samples)" in change
    assert where == JUDGED_ELSEWHERE
    for again in (tuned, shuffled):
        assert judged(tuned, again)[1] == f"{TUNED_ON_TEST} {TUNED_HERE}"
    # A digest tells the same samples in another order from none at all: nothing is claimed.
    for unknown in (other, shuffled):
        assert judged(unknown)[1] == NOT_RECOGNISED
        assert judged(unknown, unknown)[1] == NOT_RECOGNISED
    assert judged(other, tuned)[1] == f"{TUNED_ON_TEST} {TUNED_HERE}"


def test_headline_of_a_calibrator_that_was_fitted_in_memory(tmp_path, rng):
    logits, labels, counts = make_scores(rng)
    others, other_labels, _ = make_scores(rng)
    calibrator = fitted(logits, labels, counts)

    def judged(scores, labels):
        return headline(write_report(tmp_path / "r.html", calibrator, [(scores, labels)]))[1]

    assert judged(logits, labels) == TUNED_HERE
    assert judged(logits[::-1].astype(np.float32), labels[::-1]) == TUNED_HERE
    assert judged(others, other_labels) == JUDGED_ELSEWHERE
    calibrator.save(tmp_path / "cal.json")
    calibrator = rp.load(tmp_path / "cal.json")
    assert judged(logits, labels) == UNKNOWN
    assert judged(others, other_labels) == UNKNOWN


def test_headline_of_a_class_without_labels(tmp_path, rng):
    logits, labels, counts = make_scores(rng)
    calibrator = fitted(logits, labels, counts)
    calibrator.metric = "recall[4]"
    rest = labels != 4
    change, _ = headline(
        write_report(
            tmp_path / "r.html", calibrator, [(logits, labels)], test=[(logits[rest], labels[rest])]
        )
    )
    assert "recall[4] is not defined without labels of that class" in change
    assert "nan" not in change


def test_headline_where_the_profile_is_binned(tmp_path, rng, monkeypatch):
    """Its numbers are those of the chosen strength, not of the bin before it."""
    monkeypatch.setattr("reprior.report.measure.MOST_SWITCHES", 10)
    monkeypatch.setattr("reprior.engines.chunked.AUTO_RESOLUTION", 0.5)
    logits, labels, counts = make_scores(rng)
    calibrator = fitted(logits, labels, counts)
    path = write_report(tmp_path / "r.html", calibrator, chunked(logits, labels))
    assert page_json(path)["sets"][0]["profileResolution"] == 0.5
    assert f"to {100 * calibrator.best_score_:.1f} %" in headline(path)[0]


def test_a_retargeted_calibrator(tmp_path, rng):
    """A target prior with a 0 leaves nothing below 0, whatever the bounds were in tuning."""
    logits, labels, counts = make_scores(rng)
    calibrator = fitted(logits, labels, counts, bounds=(-1.0, 2.0)).retarget([0.5, 0.3, 0.2, 0, 0])
    calibrator.strength_ = 0.75
    data = page_json(write_report(tmp_path / "r.html", calibrator, [(logits, labels)]))
    assert data["bounds"] == [0.0, 2.0]
    check_everywhere(data, logits, labels, calibrator, rng)


def test_long_names_are_cut_to_fit(tmp_path, rng, monkeypatch):
    logits, labels, counts = make_scores(rng)
    names = np.array([f"{i} {'é' * 50_000} {i}" for i in range(5)])
    calibrator = fitted(logits, names[labels], counts, classes=names)
    whole = write_report(tmp_path / "a.html", calibrator, [(logits, names[labels])])
    assert page_json(whole)["classes"]["cutTo"] is None
    limit = whole.stat().st_size - 1
    monkeypatch.setattr("reprior.report.page.MOST_BYTES", limit)
    cut = write_report(tmp_path / "b.html", calibrator, [(logits, names[labels])])
    assert cut.stat().st_size < limit
    shown = page_json(cut)["classes"]
    assert shown["cutTo"] == 60
    assert shown["cellNames"] == shown["names"]
    assert all(len(name) == 60 and name[0] == name[-1] for name in shown["names"])


def test_what_cannot_fit_is_refused(tmp_path, rng, monkeypatch):
    logits, labels, counts = make_scores(rng)
    calibrator = fitted(logits, labels, counts)
    monkeypatch.setattr("reprior.report.page.MOST_BYTES", 1000)
    with pytest.raises(rp.OptionError, match=r"a page of 15 MB can hold them\. Got 5\. Merge rare"):
        write_report(tmp_path / "r.html", calibrator, [(logits, labels)])
    assert list(tmp_path.iterdir()) == []


def test_headline_of_no_change(tmp_path, rng):
    logits, labels, counts = make_scores(rng)
    calibrator = fitted(logits, labels, counts, metric="accuracy")
    calibrator.strength_ = 0.0
    change, _ = headline(write_report(tmp_path / "r.html", calibrator, [(logits, labels)]))
    assert re.match(r"At strength 0, accuracy stays at \d+\.\d % on the validation set", change)


def test_names_cannot_get_out(tmp_path, rng):
    logits, labels, counts = make_scores(rng, k=3)
    names = np.array([NASTY, "<img src=x onerror=alert(1)>", "a & b\u2028"])
    calibrator = fitted(logits, names[labels], counts, classes=names)
    path = write_report(
        tmp_path / "r.html", calibrator, [(logits, names[labels])], title=f"<b>{NASTY}"
    )
    text = path.read_text(encoding="utf-8")
    assert NASTY not in text
    assert "<img src=x" not in text
    assert "<b>" not in text.split("<main>")[0]
    assert page_json(path)["classes"]["names"] == names.tolist()


def test_the_policy_allows_these_scripts_only(tmp_path, rng):
    logits, labels, counts = make_scores(rng)
    calibrator = fitted(logits, labels, counts)
    text = write_report(tmp_path / "r.html", calibrator, [(logits, labels)]).read_text("utf-8")
    policy = html_module.unescape(re.search(r'Security-Policy" content="([^"]*)"', text)[1])
    scripts = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    plotly = re.findall(r'<script type="text/plain" id="plotly-source">(.*?)</script>', text, re.S)
    scripts = [*plotly, *scripts]
    hashes = [
        base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts
    ]
    assert len(hashes) > 10
    assert re.findall(r"'sha256-([^']+)'", policy) == hashes
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe-eval" not in policy
    assert text.count("<script") == len(scripts) + 1
    assert not re.search(r"<(?:script|img|link|iframe)[^>]*(?:src|href)=(?![\"']data:)", text)


def test_a_test_set_brings_a_toggle(tmp_path, rng):
    logits, labels, counts = make_scores(rng)
    calibrator = fitted(logits, labels, counts)
    one = write_report(tmp_path / "a.html", calibrator, [(logits, labels)])
    seen = []
    two = write_report(
        tmp_path / "b.html", calibrator, chunked(logits, labels, size=200),
        test=chunked(logits[:100], labels[:100]), progress=seen.append,
    )  # fmt: skip
    assert 'id="sets"' not in one.read_text("utf-8")
    assert 'id="set-test"' in two.read_text("utf-8")
    assert [each["name"] for each in page_json(two)["sets"]] == ["validation", "test"]
    assert seen == [200, 300, 364, 400]


def test_errors_are_sentences(tmp_path, rng):
    logits, labels, counts = make_scores(rng)
    path, chunks = tmp_path / "r.html", [(logits, labels)]
    with pytest.raises(
        rp.NotFittedError, match=r"`calibrator` must be fitted\. Got one that is not"
    ):
        write_report(path, rp.PosteriorCalibrator([0.5, 0.5]), chunks)
    calibrator = fitted(logits, labels, counts)
    with pytest.raises(rp.LabelsError, match=r"chunk without labels.*This is about `test`\."):
        write_report(path, calibrator, chunks, test=[Chunk(logits)])
    with pytest.raises(rp.PriorError, match=r"`counts` must have one number per class. Got shape"):
        write_report(path, calibrator, chunks, counts=[1, 2])
    with pytest.raises(
        rp.PriorError, match=r"`counts` must have a number for every class. Got none"
    ):
        write_report(path, calibrator, chunks, counts={0: 1, 1: 2})
    assert list(tmp_path.iterdir()) == []


def test_an_old_page_stays_when_writing_fails(tmp_path, rng, monkeypatch):
    logits, labels, counts = make_scores(rng)
    calibrator = fitted(logits, labels, counts)
    path = tmp_path / "r.html"
    path.write_text("old")

    def fail(*_paths):
        raise OSError("full")

    monkeypatch.setattr("os.replace", fail)
    with pytest.raises(OSError, match="full"):
        write_report(path, calibrator, [(logits, labels)])
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_inputs_are_left_alone(tmp_path, rng):
    logits, labels, counts = make_scores(rng)
    calibrator = fitted(logits, labels, counts)
    kept = logits.copy(), labels.copy(), counts.copy()
    for array in (logits, labels, counts):
        array.flags.writeable = False
    write_report(tmp_path / "r.html", calibrator, [(logits, labels)], counts=counts)
    assert all(np.array_equal(a, b) for a, b in zip(kept, (logits, labels, counts), strict=True))


@pytest.mark.parametrize(
    "options, words",
    [
        ({"tune": "per_class"}, "a bias for every class"),
        ({"metric": "log_loss", "temperature": "vector"}, "a bias for every class"),
        ({"separate": True}, "a second map, for probabilities"),
    ],
)
def test_more_than_a_strength_is_refused(tmp_path, options, words):
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 300)
    scores = 2 * np.eye(3)[labels] + rng.normal(size=(300, 3)) + np.log([0.7, 0.2, 0.1])
    calibrator = rp.PosteriorCalibrator([0.7, 0.2, 0.1], **options).fit(scores, labels)
    with pytest.raises(rp.OptionError, match=f"Got one with {words}"):
        write_report(tmp_path / "report.html", calibrator, [(scores, labels)])
    assert not (tmp_path / "report.html").exists()


def test_uncorrected_is_the_model_before_in_every_figure(tmp_path, rng):
    logits, labels, counts = make_scores(rng)
    calibrator = fitted(3 * logits, labels, counts, temperature="fit", bounds=(0.0, 8.0))
    assert calibrator.temperature_ > 1.5
    page = page_json(
        write_report(tmp_path / "r.html", calibrator, chunked(3 * logits, labels), counts=counts)
    )
    (one_set,) = page["sets"]
    grid, before = one_set["reliability"], one_set["reliabilityBefore"]
    (g,) = np.flatnonzero(unpack(grid["strengths"]) == 0.0)
    for name in ("ece", "logLoss", "weight", "confidence", "hits"):
        rows = unpack(grid[name]).reshape(len(unpack(grid["strengths"])), -1)
        np.testing.assert_array_equal(rows[g], unpack(before[name]))


@pytest.mark.parametrize("rare", [True, False])
def test_another_class_mix_than_the_target_prior_is_said(tmp_path, rng, rare):
    logits, labels, counts = make_scores(rng, n=600)
    kept = labels > 0 if rare else slice(None)
    calibrator = fitted(logits, labels, counts)
    path = write_report(
        tmp_path / "r.html", calibrator, chunked(logits, labels),
        test=chunked(logits[kept], labels[kept]),
    )  # fmt: skip
    assert [each["otherMix"] for each in page_json(path)["sets"]] == [False, rare]
    assert "set's own class mix, while the probabilities are made for" in path.read_text()
