"""HTML views: well formed, without scripts, with nothing that a name could break."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import reprior as rp
from reprior.sklearn import RebalancedClassifierCV

NASTY = "<script>alert(1)</script>"
VOID = {"path", "rect", "circle"}


class Elements(HTMLParser):
    """Counts elements, and checks that each is closed."""

    def __init__(self, text):
        super().__init__()
        self.open, self.seen, self.text = [], [], []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, _attrs):
        self.seen.append(tag)
        self.open.append(tag)

    def handle_startendtag(self, tag, _attrs):
        assert tag in VOID
        self.seen.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] != "style":
            self.text.append(data)


def view_of(thing):
    """The elements and the words of a view; colours are those of light and dark grounds."""
    html = thing._repr_html_()
    found = Elements(html)
    assert "script" not in found.seen
    assert not re.search(r"\son\w+=|https?:|url\(", html)
    assert "prefers-color-scheme:dark" in html
    return found, " ".join(" ".join(found.text).split())


def data(n=300, k=4, seed=0):
    rng = np.random.default_rng(seed)
    counts = np.array([900, 200, 40, 10])[:k]
    labels = rng.integers(k, size=n)
    scores = rng.normal(size=(n, k)) + 2 * np.eye(k)[labels] + np.log(counts)
    return scores, labels, counts


@pytest.fixture
def calibrator():
    scores, labels, counts = data()
    names = np.array(["cat", "dog", NASTY, "owl"])
    fitted = rp.PosteriorCalibrator(
        rp.prior_from_counts(counts), classes=names, cv=3, n_bootstrap=100, random_state=0
    )
    return fitted.fit(scores, names[labels])


def test_a_calibrator_shows_strength_gains_and_costs(calibrator):
    found, words = view_of(calibrator)
    assert f"Strength λ {round(calibrator.strength_, 4):g} (ties: " in words
    assert "90% sure" in words
    assert "Held out balanced_accuracy" in words
    assert found.seen.count("svg") == 1
    before, after = calibrator.profile_.baseline, calibrator.counts_
    for name, metric in rp.metrics.COUNT_METRICS.items():
        if name != "macro_recall":
            assert f"{name} {metric(before):.4f} {metric(after):.4f}" in words
    recall = rp.metrics.COUNT_METRICS["macro_recall"]
    change = recall.per_class(after) - recall.per_class(before)
    worst = calibrator.classes_[np.argmin(change)]
    assert change.min() < 0
    assert f"{worst} " in words


def test_names_of_classes_are_text(calibrator):
    _, words = view_of(calibrator)
    assert NASTY in words


def test_a_calibrator_without_tuning_data_and_one_that_is_not_fitted(calibrator, tmp_path):
    calibrator.save(tmp_path / "cal.json")
    assert "no tuning data at hand" in view_of(rp.load(tmp_path / "cal.json"))[1]
    assert "Not fitted" in view_of(rp.PosteriorCalibrator([0.5, 0.5]))[1]


@pytest.mark.parametrize(
    "options",
    [
        {"metric": "log_loss", "bounds": (0.0, 8.0)},
        {"tune": "per_class"},
        {"separate": True, "bounds": (0.0, 8.0)},
        {"temperature": "fit", "subject_to": "accuracy >= baseline - 0.05"},
    ],
)
def test_every_kind_of_fit_has_a_view(options):
    scores, labels, counts = data()
    fitted = rp.PosteriorCalibrator(rp.prior_from_counts(counts), **options).fit(scores, labels)
    _, words = view_of(fitted)
    assert "on the tuning labels before after change" in words


def test_a_profile_and_a_front():
    scores, labels, counts = data()
    profile = rp.StrengthProfile.from_scores(
        scores, labels, source_prior=rp.prior_from_counts(counts)
    )
    _, words = view_of(profile)
    best = profile.best("mean_iou")
    assert f"mean_iou {profile.evaluate('mean_iou', 0.0):.4f} {best.value:.4f}" in words
    front = profile.pareto("balanced_accuracy", "accuracy")
    found, words = view_of(front)
    assert f"{front.values_a[0]:.4f} {front.values_b[0]:.4f}" in words
    assert found.seen.count("svg") == 1


def test_uncertainty():
    scores, labels, counts = data()
    bootstrap = rp.StrengthBootstrap.from_scores(
        scores, labels, source_prior=rp.prior_from_counts(counts), n_replicates=100
    )
    known = rp.uncertainty(bootstrap, "balanced_accuracy")
    _, words = view_of(known)
    assert f"gain {known.gain:+.4f} {known.gain_interval[0]:+.4f}" in words


def test_a_fusion():
    scores, labels, counts = data()
    fusion = rp.ModalityFusion(rp.prior_from_counts(counts))
    assert "Not fitted" in view_of(fusion)[1]
    fusion.fit({"rgb": scores, "depth<b>": scores[::-1]}, labels)
    _, words = view_of(fusion)
    assert "depth<b>" in words
    assert "on the tuning labels" in words


def test_the_classifier_shows_its_calibrator_in_the_diagram_of_scikit_learn():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 5))
    y = np.where(x[:, 0] + 0.5 * rng.normal(size=300) > 1.2, "rare", "frequent")
    classifier = RebalancedClassifierCV(LogisticRegression())
    assert "reprior-view" not in classifier._repr_html_()
    html = classifier.fit(x, y)._repr_html_()
    assert html.index('class="sk-container"') < html.index("reprior-view") < html.rindex("</div>")
    assert "LogisticRegression" in html
    assert classifier._repr_mimebundle_()["text/html"].count("reprior-view") > 1


def test_an_empty_front_says_so():
    nothing = np.empty(0)
    assert "No strength." in Elements(rp.ParetoFront(nothing, nothing, nothing)._repr_html_()).text
