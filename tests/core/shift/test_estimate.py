"""The target prior of unlabelled scores."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import expit, log_softmax, logit, logsumexp, softmax
from tests.support.backends import EPS, WIDE_BACKENDS
from tests.support.label_shift import world
from tests.support.properties import FEWER_EXAMPLES

import reprior as rp
from reprior.core.shift import METHODS, em, newton

CLOSE = 3e-5
"""Where the likelihood is flat, scipy stops within its own tolerance of the gradient."""

LIKELIHOOD = 1e-9
"""By how much the likelihood of EM's end may be below that of scipy's: both stop early."""


def drawn(seed, n=400, n_classes=3, separation=2.0):
    """Return scores of the true densities, the source prior, and what the labels follow."""
    rng = np.random.default_rng(seed)
    source, target = rng.dirichlet(np.full(n_classes, 3.0), 2)
    labels = rng.choice(n_classes, n, p=target)
    means = separation * rng.normal(size=(n_classes, 2))
    x = means[labels] + rng.normal(size=(n, 2))
    scores = -0.5 * ((x[:, None] - means) ** 2).sum(axis=-1) + np.log(source)
    return scores, source, target, np.bincount(labels, minlength=n_classes) / n


def likelihood(prior, scores, source):
    with np.errstate(divide="ignore"):
        mixture = log_softmax(scores, axis=1) - np.log(source) + np.log(prior)
    return float(logsumexp(mixture, axis=1).mean())


def brute_force(scores, source):
    """Maximise the likelihood over the simplex, by softmax of free numbers."""

    def loss(free):
        return -likelihood(softmax(free), scores, source)

    found = minimize(loss, np.log(source), method="BFGS", options={"gtol": 1e-8, "maxiter": 5000})
    return softmax(found.x)


@FEWER_EXAMPLES
@given(st.integers(0, 500), st.integers(2, 4), st.sampled_from([0.7, 1.5, 4.0]))
@example(64, 4, 0.7)  # EM's own steps do not end within three thousand
def test_it_is_the_maximum_of_the_likelihood(seed, n_classes, separation):
    scores, source, _, _ = drawn(seed, 60, n_classes, separation)
    found = rp.estimate_target_prior(scores, source_prior=source)
    best = brute_force(scores, source)
    assert likelihood(found, scores, source) >= likelihood(best, scores, source) - LIKELIHOOD
    # Concave: no direction of the simplex leads up, whatever another optimiser found.
    ratio = np.exp(log_softmax(scores, axis=1) - np.log(source))
    gradient = (ratio / (ratio @ found)[:, None]).mean(axis=0)
    assert gradient.max() - 1 <= 1e-5
    assert found.sum() == pytest.approx(1)


@pytest.mark.parametrize("seed", range(5))
def test_the_mix_is_found(seed):
    scores, source, _, mix = drawn(seed, 20_000, 4, 3.0)
    found = rp.estimate_target_prior(scores, source_prior=source)
    np.testing.assert_allclose(found, mix, atol=0.02)
    assert found.dtype == np.float64
    assert found.shape == (4,)


def test_plain_em_agrees():
    scores, source, _, _ = drawn(1, 300, 3, 2.0)
    posterior, prior = softmax(scores, axis=1), source
    for _ in range(3000):
        mixed = posterior * prior / source
        prior = (mixed / mixed.sum(axis=1, keepdims=True)).mean(axis=0)
    found = rp.estimate_target_prior(scores, source_prior=source)
    np.testing.assert_allclose(found, prior, atol=1e-7)


@pytest.mark.filterwarnings("ignore:.* too few to estimate the mix")
def test_an_informative_model_just_counts():
    scores = 100.0 * np.eye(3)[[0, 0, 0, 1, 2, 2]]
    found = rp.estimate_target_prior(scores, source_prior=[0.2, 0.5, 0.3])
    np.testing.assert_allclose(found, [1 / 2, 1 / 6, 1 / 3])


@pytest.mark.filterwarnings("ignore:.* too few to estimate the mix")
def test_a_model_that_knows_nothing_keeps_the_source_prior():
    source = np.array([0.2, 0.5, 0.3])
    scores = np.tile(np.log(source), (7, 1))
    found = rp.estimate_target_prior(scores, source_prior=source)
    np.testing.assert_allclose(found, source, atol=1e-12)


def test_an_absent_class_gets_the_prior_0():
    scores, source, _, _ = drawn(2, 500, 3, 6.0)
    scores = scores[scores.argmax(axis=1) != 0]
    assert rp.estimate_target_prior(scores, source_prior=source)[0] < 1e-6


@pytest.mark.filterwarnings("ignore:.* too few to estimate the mix")
def test_scores_far_apart_do_not_overflow():
    scores = np.array([[2000.0, 0.0], [0.0, 3000.0], [-np.inf, 0.0], [0.0, 0.0]])
    found = rp.estimate_target_prior(scores, source_prior=[0.5, 0.5])
    np.testing.assert_allclose(found, [1 / 3, 2 / 3], atol=1e-9)


@pytest.mark.parametrize("backend", WIDE_BACKENDS, ids=str)
@pytest.mark.parametrize("kind", ["logits", "probs", "log_probs"])
def test_every_library_kind_and_layout(backend, kind):
    scores, source, _, _ = drawn(3, 48, 3, 2.0)
    known = rp.estimate_target_prior(scores, source_prior=source)
    form = {
        "logits": lambda z: z,
        "probs": lambda z: softmax(z, axis=1),
        "log_probs": lambda z: log_softmax(z, axis=1),
    }[kind]
    dense = np.moveaxis(form(scores).reshape(4, 6, 2, 3), -1, 1)
    given_scores = backend.make(dense)
    found = rp.estimate_target_prior(given_scores, source_prior=source, kind=kind, class_axis=1)
    np.testing.assert_allclose(found, known, atol=1000 * EPS[backend.dtype] + 1e-7)
    assert isinstance(found, np.ndarray)


@pytest.mark.parametrize("kind", ["logits", "probs", "log_probs"])
def test_single_scores_of_two_classes(kind):
    scores, source, _, _ = drawn(4, 100, 2, 2.0)
    z = scores[:, 1] - scores[:, 0]
    single = {"logits": z, "probs": expit(z), "log_probs": np.log(expit(z))}[kind]
    known = rp.estimate_target_prior(scores, source_prior=source)
    for shape in [(100,), (100, 1)]:
        found = rp.estimate_target_prior(single.reshape(shape), source_prior=source, kind=kind)
        np.testing.assert_allclose(found, known, atol=1e-8)


@pytest.mark.filterwarnings("ignore:.* too few to estimate the mix")
def test_one_sample_of_many_classes():
    found = rp.estimate_target_prior([5.0, 0.0, 0.0], source_prior=[0.4, 0.3, 0.3])
    np.testing.assert_allclose(found, [1, 0, 0], atol=1e-6)


def test_nothing_is_mutated():
    scores, source, _, _ = drawn(0)
    before = scores.copy()
    rp.estimate_target_prior(scores, source_prior=source)
    np.testing.assert_array_equal(scores, before)


def test_it_warns_where_em_does_not_converge(monkeypatch):
    scores, source, _, _ = drawn(5, 300, 4, 0.5)
    monkeypatch.setattr(em, "MAX_ITERATIONS", 3)
    monkeypatch.setattr(newton, "MAX_CLASSES", 3)
    words = "did not converge in 3 passes of EM over the scores: it may still move"
    with pytest.warns(rp.RepriorWarning, match=words) as caught:
        rp.estimate_target_prior(scores, source_prior=source)
    assert caught[0].filename == __file__


def test_it_warns_where_newton_does_not_converge_either(monkeypatch):
    scores, source, _, _ = drawn(0, 60, 4, 0.7)
    monkeypatch.setattr(newton, "EM_PATIENCE", 6)
    monkeypatch.setattr(newton, "MAX_STEPS", 1)
    words = "did not converge in 8 passes of EM and Newton's method over the scores"
    with pytest.warns(rp.RepriorWarning, match=words):
        rp.estimate_target_prior(scores, source_prior=source)


def test_single_scores_that_look_like_probabilities():
    p = np.linspace(0.1, 0.9, 30)
    with pytest.warns(rp.RepriorWarning, match="second class"):
        rp.estimate_target_prior(p, source_prior=[0.5, 0.5])
    assert logit(0.5) == 0.0


def test_the_estimate_is_a_target_prior():
    scores, source, _, mix = drawn(6, 2000, 3, 2.5)
    target = rp.estimate_target_prior(scores, source_prior=source)
    posterior = rp.rebalance(scores, source, target_prior=target)
    np.testing.assert_allclose(posterior.mean(axis=0), target, atol=1e-7)
    np.testing.assert_allclose(target, mix, atol=0.05)


Z = [[1.0, 2.0], [2.0, 0.5]]


@pytest.mark.parametrize(
    "scores, options, error, words",
    [
        (Z, {"method": "bsse"}, rp.OptionError, "Got 'bsse'. Did you mean 'bbse'"),
        (Z, {"method": "rlls"}, rp.OptionError, "`validation` must be .* for method='rlls'"),
        (
            Z,
            {"method": "bbse", "validation": np.array(Z)},
            rp.OptionError,
            r"must be \(scores, labels\)",
        ),
        (Z, {"method": "bbse", "validation": (Z, [0, 0])}, rp.LabelsError, "none of class 1"),
        (Z, {"calibration": 2.0}, rp.OptionError, "Got float"),
        (Z, {"kind": "logit"}, rp.OptionError, "Did you mean 'logits'"),
        (Z, {"source_prior": [0.5, 0.0]}, rp.PriorError, r"source_prior\[1\]=0"),
        (Z, {"source_prior": [3, 4]}, rp.PriorError, "prior_from_counts"),
        (Z, {"source_prior": [0.2, 0.3, 0.5]}, rp.ScoresError, "one entry per class"),
        ([[1.0, np.nan]], {}, rp.ScoresError, r"scores\[0, 1\]=nan"),
        ([[0.3, 0.3]], {"kind": "probs"}, rp.ScoresError, "must sum to 1"),
        (np.empty((0, 2)), {}, rp.ScoresError, "at least one sample"),
        (Z, {"class_axis": 3}, rp.OptionError, "`class_axis` must be an axis"),
    ],
)
def test_error_sentences(scores, options, error, words):
    with pytest.raises(error, match=words):
        rp.estimate_target_prior(scores, **{"source_prior": [0.5, 0.5], **options})


@pytest.mark.parametrize("kind", ["logits", "probs", "log_probs"])
def test_single_scores_on_a_first_axis(kind):
    p = np.random.default_rng(3).beta(2, 5, size=200)
    scores = {"logits": np.log(p) - np.log1p(-p), "probs": p, "log_probs": np.log(p)}[kind]
    options = {"source_prior": [0.6, 0.4], "kind": kind}
    expected = rp.estimate_target_prior(scores, **options)
    assert np.allclose(rp.estimate_target_prior(scores[None], class_axis=0, **options), expected)
    assert np.allclose(rp.estimate_target_prior(scores[:, None], class_axis=1, **options), expected)


MOMENTS = [method for method in METHODS if method != "em"]


def labelled(seed, n=300, n_labels=400, n_classes=3, separation=3.0):
    rng = np.random.default_rng(seed)
    here = world(rng, n_classes, separation)
    scores, _ = here.draw(rng, n, here.target)
    return here, scores, here.validation(rng, n_labels)


def estimate(method, scores, source, validation, **options):
    seen = None if method == "em" else validation
    return rp.estimate_target_prior(
        scores, source_prior=source, method=method, validation=seen, **options
    )


@pytest.mark.parametrize("method", METHODS)
@given(st.integers(0, 100), st.integers(2, 5))
def test_it_is_a_prior(method, seed, n_classes):
    here, scores, validation = labelled(seed, 60, 150, n_classes, 5.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rp.RepriorWarning)  # some have classes hard to tell
        found = estimate(method, scores, here.source, validation)
    assert found.shape == (n_classes,)
    assert found.dtype == np.float64
    assert (found >= 0).all()
    assert found.sum() == pytest.approx(1)


@pytest.mark.parametrize("method", METHODS)
@FEWER_EXAMPLES
@given(st.integers(0, 100), st.randoms(use_true_random=False))
def test_the_order_of_the_classes_makes_no_difference(method, seed, shuffler):
    here, scores, (seen, labels) = labelled(seed, 80, 300, 4, 5.0)
    order = np.array(shuffler.sample(range(4), 4))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rp.RepriorWarning)
        found = estimate(method, scores, here.source, (seen, labels))
        turned = estimate(
            method,
            scores[:, order],
            here.source[order],
            (seen[:, order], np.argsort(order)[labels]),
        )
    np.testing.assert_allclose(turned, found[order], atol=1e-6)


@pytest.mark.parametrize("method", MOMENTS)
def test_validation_samples_as_the_target_give_their_own_mix(method):
    _, _, (seen, labels) = labelled(3)
    mix = np.bincount(labels) / labels.size
    found = estimate(method, seen, mix, (seen, labels))
    np.testing.assert_allclose(found, mix, atol=1e-9)


@pytest.mark.parametrize("method", METHODS)
def test_without_a_shift_it_is_the_source_prior_in_the_limit(method):
    rng = np.random.default_rng(4)
    here = world(rng, 3, 3.0)
    scores, _ = here.draw(rng, 50_000, here.source)
    found = estimate(method, scores, here.source, here.validation(rng, 50_000))
    # Errors of 1/√50,000 = 0.0045 for a model that is never wrong, some times that for this one.
    np.testing.assert_allclose(found, here.source, atol=0.02)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("seed", range(3))
def test_every_method_finds_the_mix(method, seed):
    rng = np.random.default_rng(seed)
    here = world(rng, 3, 4.0)
    scores, labels = here.draw(rng, 20_000, here.target)
    found = estimate(method, scores, here.source, here.validation(rng, 20_000))
    np.testing.assert_allclose(found, np.bincount(labels) / labels.size, atol=0.03)


@pytest.mark.parametrize("method", ["bbse", "bbse_soft"])
def test_neither_the_labels_mix_nor_the_source_prior_matters_to_bbse(method):
    here, scores, (seen, labels) = labelled(5, n_labels=600)
    first = [np.flatnonzero(labels == k)[: min(np.bincount(labels))] for k in range(3)]
    even = np.concatenate(first)
    found = estimate(method, scores, here.source, (seen[even], labels[even]))
    other = estimate(method, scores, np.array([0.2, 0.3, 0.5]), (seen[even], labels[even]))
    np.testing.assert_allclose(found, other, atol=1e-12)
    copies = np.concatenate([even, first[0], first[0]])  # the same samples, three times of class 0
    again = estimate(method, scores, here.source, (seen[copies], labels[copies]))
    np.testing.assert_allclose(found, again, atol=1e-12)


@pytest.mark.parametrize("method", ["bbse", "bbse_soft"])
def test_a_model_that_is_wrong_does_not_mislead_bbse(method):
    rng = np.random.default_rng(6)
    here = world(rng, 3, 3.0)
    wrong = np.array([0.0, 2.0, -1.0])
    scores, labels = here.draw(rng, 20_000, here.target)
    seen, known = here.validation(rng, 20_000)
    mix = np.bincount(labels) / labels.size
    found = estimate(method, 3 * scores + wrong, here.source, (3 * seen + wrong, known))
    np.testing.assert_allclose(found, mix, atol=0.03)
    misled = rp.estimate_target_prior(3 * scores + wrong, source_prior=here.source)
    assert np.abs(misled - mix).max() > 2 * np.abs(found - mix).max()


@pytest.mark.parametrize("method", METHODS)
def test_a_calibration_undoes_what_was_done_to_source_and_target(method):
    here, scores, (seen, labels) = labelled(7)
    shift = np.array([0.5, -1.0, 0.0])
    known = estimate(method, scores, here.source, (seen, labels))
    found = estimate(
        method,
        2 * (scores - shift),
        here.source,
        (2 * (seen - shift), labels),
        calibration=(0.5, shift),
    )
    np.testing.assert_allclose(found, known, atol=1e-9)


@pytest.mark.parametrize("method", MOMENTS)
@pytest.mark.parametrize("backend", WIDE_BACKENDS, ids=str)
def test_every_library_with_validation(method, backend):
    here, scores, (seen, labels) = labelled(8, 48, 60)
    known = estimate(method, scores, here.source, (seen, labels))
    maps, marks = seen.reshape(3, 5, 4, 3).transpose(0, 3, 1, 2), labels.reshape(3, 5, 4).copy()
    found = estimate(
        method,
        backend.make(scores.reshape(2, 6, 4, 3).transpose(0, 3, 1, 2)),
        here.source,
        (backend.make(maps), backend.make_integers(marks)),
        class_axis=1,
    )
    np.testing.assert_allclose(found, known, atol=1e-4)


def test_ignored_labels_are_left_out():
    here, scores, (seen, labels) = labelled(9)
    marked = np.where(np.arange(labels.size) < 50, -1, labels)
    found = estimate("bbse_soft", scores, here.source, (seen, marked), ignore_index=-1)
    known = estimate("bbse_soft", scores, here.source, (seen[50:], labels[50:]))
    np.testing.assert_allclose(found, known)


@pytest.mark.parametrize("method", MOMENTS)
def test_a_near_singular_confusion_matrix_brings_a_warning(method):
    rng = np.random.default_rng(10)
    here = world(rng)._replace(means=np.zeros((3, 2)))
    scores, _ = here.draw(rng, 100, here.target)
    scores = scores + rng.normal(size=scores.shape)
    seen, labels = here.validation(rng, 100)
    seen = seen + rng.normal(size=seen.shape)
    with pytest.warns(rp.RepriorWarning, match="validation samples may be singular") as caught:
        found = estimate(method, scores, here.source, (seen, labels))
    assert found.sum() == pytest.approx(1)
    assert len(caught) == 1


def test_predictions_that_no_validation_sample_had():
    # Class 0 alone was predicted in validation, and class 1 alone on the target: no information.
    seen, target = np.tile([5.0, 0.0], (20, 1)), np.tile([0.0, 5.0], (20, 1))
    with pytest.warns(rp.RepriorWarning, match="never predicted"):
        found = estimate("bbse", target, np.array([0.7, 0.3]), (seen, np.arange(20) % 2))
    np.testing.assert_allclose(found, [0.7, 0.3])


class TestReport:
    def test_it_has_the_estimate(self):
        for method in METHODS:
            here, scores, validation = labelled(11)
            seen = None if method == "em" else validation
            report = rp.estimate_target_prior_report(
                scores, source_prior=here.source, method=method, validation=seen, n_replicates=20
            )
            np.testing.assert_array_equal(
                report.prior, estimate(method, scores, here.source, validation)
            )
            assert (report.method, report.n_samples) == (method, 300)
            assert report.intervals.shape == (3, 2)
            assert (report.intervals[:, 0] <= report.intervals[:, 1]).all()
            assert report.n_labels == (None if method == "em" else 400)
            assert (report.conditioning is None) == (method == "em")
            np.testing.assert_allclose(report.source_prior, here.source)

    def test_how_em_went(self, monkeypatch):
        here, scores, _ = labelled(12)
        report = rp.estimate_target_prior_report(scores, source_prior=here.source, n_replicates=2)
        assert report.converged
        assert report.iterations > 2
        assert 0 <= report.last_change < 1e-6
        monkeypatch.setattr(em, "MAX_ITERATIONS", 3)
        monkeypatch.setattr(newton, "MAX_CLASSES", 2)
        with pytest.warns(rp.RepriorWarning, match="did not converge") as caught:
            report = rp.estimate_target_prior_report(
                scores, source_prior=here.source, n_replicates=2
            )
        assert not report.converged
        assert report.iterations == 3
        assert caught[0].filename == __file__

    def test_the_negative_mass_is_reported(self):
        # Predicted less often than it is for samples of either class.
        seen = np.array([[2.0, 0.0]] * 9 + [[0.0, 2.0]] + [[2.0, 0.0]] * 3 + [[0.0, 2.0]] * 7)
        target = np.array([[2.0, 0.0]] * 20)
        report = rp.estimate_target_prior_report(
            target,
            source_prior=[0.5, 0.5],
            method="bbse",
            validation=(seen, np.repeat([0, 1], 10)),
            n_replicates=10,
        )
        # p + (1 − p)·… : 0.9 p + 0.3 (1 − p) = 1 has the solution p = 7/6.
        assert report.negative_mass == pytest.approx(1 / 6)
        np.testing.assert_allclose(report.prior, [1, 0])

    @pytest.mark.parametrize(
        "options, words",
        [
            ({"confidence": 1.0}, "`confidence` must be below 1. Got 1"),
            ({"confidence": 0}, "`confidence` must be a finite number above 0"),
            ({"n_replicates": 1}, "`n_replicates` must be an integer of at least 2. Got 1"),
            ({"n_replicates": 2.5}, "Got 2.5"),
            ({"n_replicates": True}, "Got True"),
            ({"method": "bbse"}, "`validation` must be"),
        ],
    )
    def test_error_sentences(self, options, words):
        with pytest.raises(rp.OptionError, match=words):
            rp.estimate_target_prior_report(Z, source_prior=[0.5, 0.5], **options)


# ------------------------------------------------------------------------------- names, few samples


NAMES = ["cow", "ant", "bee"]


def framed(seed=0):
    rng = np.random.default_rng(seed)
    here = world(rng, 3, 2.5)
    scores, _ = here.draw(rng, 200, here.target)
    return here, scores, here.validation(rng, 300)


@pytest.mark.parametrize("method", ["em", "bbse"])
def test_names_of_columns_say_which_class_is_which(method):
    here, scores, (seen, labels) = framed()
    known = rp.estimate_target_prior(
        scores, source_prior=here.source, method=method, validation=(seen, labels)
    )
    frame, named = pd.DataFrame(scores, columns=NAMES), pd.DataFrame(seen, columns=NAMES)
    series = pd.Series(here.source, index=NAMES)
    for prior in (series, series.sort_index(), series.to_dict(), here.source):
        for truth in (labels, np.array(NAMES)[labels], pd.Series(np.array(NAMES)[labels])):
            found = rp.estimate_target_prior(
                frame, source_prior=prior, method=method, validation=(named, truth)
            )
            np.testing.assert_allclose(found, known, rtol=1e-12)


def test_columns_in_another_order_are_refused():
    here, scores, (seen, labels) = framed()
    frame, other = pd.DataFrame(scores, columns=NAMES), ["ant", "bee", "cow"]
    named = pd.DataFrame(seen, columns=NAMES)
    words = r"`scores` must have its columns in the order of `validation\[0\]`. Got 'cow', 'ant'"
    for columns in (other, ["ant", "cow", "owl"]):
        with pytest.raises(rp.ScoresError, match=words):
            rp.estimate_target_prior(
                frame,
                source_prior=here.source,
                validation=(named.set_axis(columns, axis=1), labels),
            )
    with pytest.raises(
        rp.PriorError, match=r"indexed by 'cow', 'ant', 'bee'. Pass source_prior.so"
    ):
        rp.estimate_target_prior(scores, source_prior=pd.Series(here.source, index=NAMES))
    with pytest.raises(rp.LabelsError, match=r"Got validation\[1\]\[0\]='owl'. Correct or drop"):
        rp.estimate_target_prior(
            frame, source_prior=here.source, validation=(named, ["owl"] + ["ant"] * 299)
        )


@pytest.mark.parametrize("n, few", [(1, True), (11, True), (12, False)])
@pytest.mark.parametrize("method", ["em", "bbse", "rlls_soft"])
def test_it_warns_of_too_few_samples(n, few, method):
    here, scores, validation = framed()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        rp.estimate_target_prior(
            scores[:n], source_prior=here.source, method=method, validation=validation
        )
    said = [str(w.message) for w in caught if "too few to estimate the mix of 3" in str(w.message)]
    assert len(said) == few
    assert not few or said[0].startswith("1 sample is too" if n == 1 else "11 samples are too")


# ------------------------------------------------------------------------------- where it warns


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("which", ["scores", "validation[0]", "both"])
@pytest.mark.parametrize("report", [False, True])
def test_likely_probabilities_are_warned_of_once_at_the_callers_line(method, which, report):
    here, scores, (seen, labels) = framed()
    target = softmax(scores, axis=1) if which != "validation[0]" else scores
    seen = softmax(seen, axis=1) if which != "scores" else seen
    call = rp.estimate_target_prior_report if report else rp.estimate_target_prior
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call(target, source_prior=here.source, method=method, validation=(seen, labels))
    found = [w for w in caught if "declared as kind='logits'" in str(w.message)]
    names = ["validation[0]", "scores"] if which == "both" else [which]
    assert [str(w.message).split("`")[1] for w in found] == names
    assert {w.filename for w in caught} == {__file__}


def test_warnings_of_other_libraries_are_reissued():
    here, scores, _ = framed()

    def calibration(rows):
        warnings.warn("mine", UserWarning, stacklevel=1)
        return rows

    with pytest.warns(UserWarning, match="mine"):
        rp.estimate_target_prior(scores, source_prior=here.source, calibration=calibration)
