"""A fit of scores that come by once."""

from __future__ import annotations

import pickle

import jax.numpy as jnp
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.support.chunked_scores import (
    PRIOR,
    Data,
    assert_same_fit,
    cuts,
    flat,
    images,
    quietly,
    weighted,
)

import reprior as rp
from reprior.engines import OnlineFit, online

NAMES = ["ant", "bee", "cow", "dog"]

SAMPLE_TOLERANCE = 0.1
"""A temperature from some 500 rows of 3,000: its standard error is about 0.03."""


def streamed(data, where, make=np.asarray, **options):
    settings = {
        name: options.pop(name)
        for name in ("resolution", "exact_up_to", "again", "seed")
        if name in options
    }
    fit = OnlineFit(data.calibrator(**options), **settings)
    for chunk in data.chunks(where):
        weight = None if chunk.weight is None else make(chunk.weight)
        fit.update(make(chunk.scores), make(chunk.labels), weight)
    return fit


def in_memory(data, **options):
    return quietly(data.calibrator(**options).fit, data.scores, data.labels, data.weight)[0]


@given(st.integers(0, 10), cuts(60), st.booleans())
def test_batches_are_the_whole(seed, where, heavy):
    data = weighted(flat(seed), seed) if heavy else flat(seed)
    data = data.with_options(bounds=(0.0, 8.0))  # as far as bounds are ever widened
    fitted, _ = quietly(streamed(data, where, temperature="fit").finish)
    assert_same_fit(fitted, in_memory(data, temperature="fit"))
    assert fitted.provenance_ is None


@pytest.mark.parametrize("make", [np.asarray, torch.as_tensor, jnp.asarray])
def test_images_of_every_library(make):
    data = weighted(images()).with_options(bounds=(0.0, 8.0))
    fitted, _ = quietly(streamed(data, [1, 2, 4], make, temperature="fit").finish)
    assert_same_fit(fitted, in_memory(data, temperature="fit"))


@pytest.mark.parametrize("kind", ["probs", "log_probs"])
def test_short_probabilities_that_miss_one(kind):
    p = torch.softmax(torch.as_tensor(flat(3).scores), dim=1).to(torch.bfloat16)
    scores = p if kind == "probs" else p.log()
    labels = torch.as_tensor(flat(3).labels)
    data = Data(scores, labels).with_options(kind=kind)
    fitted, _ = quietly(streamed(data, [20], lambda x: x, temperature="fit").finish)
    assert_same_fit(fitted, in_memory(data, temperature="fit"))


@given(cuts(60), cuts(60), st.integers(0, 2))
def test_several_processes(where, elsewhere, coarse):
    data, other = (flat(seed).with_options(bounds=(0.0, 8.0)) for seed in (1, 2))
    limits = [{}, {"exact_up_to": 10}, {"resolution": 0.01}][coarse]
    first = streamed(data, where, temperature="fit", **limits)
    second = pickle.loads(
        pickle.dumps(streamed(other, elsewhere, temperature="fit", again=lambda: [], **limits))
    )
    assert first.merge(second) is first
    assert first.n_samples == 120
    fitted, _ = quietly(first.finish)
    both = Data(np.concatenate([data.scores, other.scores]), np.r_[data.labels, other.labels])
    both = both.with_options(bounds=(0.0, 8.0))
    known = in_memory(both, temperature="fit")
    if not coarse:
        assert_same_fit(fitted, known)
    whole = rp.StrengthProfile.from_scores(
        both.scores, both.labels, source_prior=PRIOR, bounds=(0.0, 8.0)
    )
    if coarse:
        whole = whole.binned(0.01 if coarse == 2 else 1e-4)
    assert fitted.profile_.resolution == whole.resolution
    assert fitted.strength_ == whole.best("balanced_accuracy").strength


def test_one_coarse_and_one_exact_process():
    fine, coarse = streamed(flat(1), [30]), streamed(flat(2), [30], exact_up_to=5)
    a, _ = quietly(streamed(flat(1), [30]).merge(coarse).finish)
    b, _ = quietly(coarse.merge(fine).finish)
    assert a.profile_.resolution == 1e-4
    assert_same_fit(a, b)


def test_bounds_are_widened_where_the_scores_can_be_read_again():
    data = flat(3, shift=2.5).with_options(bounds=(0.1, 0.25))
    again = lambda: data.chunks([7])  # noqa: E731 - as users write it
    fitted, said = quietly(streamed(data, [30], again=again).finish)
    assert_same_fit(fitted, in_memory(data))
    assert any("searching up to" in sentence for sentence in said)


def test_bounds_stay_where_they_cannot():
    data = flat(3, shift=2.5).with_options(bounds=(0.1, 0.25))
    fit = streamed(data, [30])
    with pytest.warns(rp.RepriorWarning, match="and the scores cannot be read again") as caught:
        fitted = fit.finish()
    assert [warning.filename for warning in caught] == [__file__]
    assert fitted.profile_.bounds == (0.1, 0.25)
    assert fitted.strength_ <= 0.25


def test_again_must_give_the_same_samples():
    data = flat(3, shift=2.5).with_options(bounds=(0.1, 0.25))
    fit = streamed(data, [30], again=lambda: data.chunks([7])[:1])
    with pytest.raises(rp.OptionError, match="Got 7 instead of 60"):
        quietly(fit.finish)


def test_a_temperature_from_a_sample(monkeypatch):
    data = flat(4, n=3000)
    known = in_memory(data, temperature="fit").temperature_
    monkeypatch.setattr(online, "SAMPLED_SCORES", 4 * 500)
    where = list(range(100, 3000, 100))
    found = [
        quietly(streamed(data, where, temperature="fit", seed=seed).finish)[0].temperature_
        for seed in (0, 0, 1)
    ]
    assert found[0] == found[1] != found[2]
    np.testing.assert_allclose(found, known, rtol=SAMPLE_TOLERANCE)


def test_more_may_come_after_finish():
    data = flat(1).with_options(bounds=(0.0, 8.0))  # nobody looks further up
    fit = OnlineFit(data.calibrator())
    for chunk in data.chunks([30]):
        fit.update(chunk.scores, chunk.labels)
        fitted, _ = quietly(fit.finish)
    assert_same_fit(fitted, in_memory(data))


def test_names_as_labels():
    one = flat(7)
    options = {"classes": NAMES, "bounds": (0.0, 8.0)}
    data = Data(one.scores, np.array(NAMES)[one.labels]).with_options(**options)
    fitted, _ = quietly(streamed(data, [20]).finish)
    assert_same_fit(fitted, in_memory(data))
    with pytest.raises(rp.OptionError, match="`classes` must be known where labels are names"):
        OnlineFit(one.calibrator()).update(one.scores, np.array(NAMES)[one.labels])


def test_logits_that_look_like_probabilities_in_every_batch():
    rng = np.random.default_rng(0)
    scores, labels = rng.dirichlet(np.ones(4), 60), rng.integers(4, size=60)
    a, b = streamed(Data(scores, labels), [10]), streamed(Data(scores, labels), [10])
    assert any("kind='logits'" in sentence for sentence in quietly(a.merge(b).finish)[1])
    c = streamed(flat(1), [10])
    assert not any("kind='logits'" in sentence for sentence in quietly(a.merge(c).finish)[1])


def test_words():
    data = flat(1)
    fit = OnlineFit(data.calibrator(ignore_index=9))
    with pytest.raises(rp.LabelsError, match="Got 0 samples, none of them kept"):
        fit.finish()
    fit.update(data.scores, np.full(60, 9))
    with pytest.raises(rp.LabelsError, match="Got 60 samples, none of them kept"):
        fit.finish()
    broken = data.scores.copy()
    broken[3, 1] = np.inf
    with pytest.raises(rp.ScoresError, match=r"scores\[63, 1\]=inf"):
        fit.update(broken, data.labels)
    with pytest.raises(rp.LabelsError, match="without labels"):
        OnlineFit(data.calibrator(classes=NAMES)).update(broken, None)
    with pytest.raises(rp.OptionError, match=r"same options. Got kind='probs'"):
        fit.merge(OnlineFit(data.calibrator(kind="probs")))
    with pytest.raises(rp.OptionError, match="`metric` must be"):
        OnlineFit(data.calibrator(metric="auc"))
    with pytest.raises(rp.OptionError, match=r"`resolution` must be .* Got 'refine'"):
        OnlineFit(data.calibrator(), resolution="refine")


@pytest.mark.parametrize(
    "options",
    [
        {"kind": "log_probs"},
        {"ignore_index": 3},
        {"classes": NAMES},
        {"target_prior": [0.4, 0.3, 0.2, 0.1]},
        {"label_prior": [0.4, 0.3, 0.2, 0.1], "temperature": "fit"},
        {"bounds": (0.0, 4.0)},
        {"metric": "accuracy"},
        {"metric": "log_loss"},
        {"subject_to": ["accuracy >= baseline - 0.1"]},
        {"selection": "one_se"},
        {"temperature": "fit"},
        {"separate": True},
        {"resolution": 0.01},
        {"resolution": None},
    ],
)
@pytest.mark.parametrize("turned", [False, True])
def test_only_the_same_problem_is_merged(options, turned):
    data, (name, value) = flat(1), next(iter(options.items()))
    plain = OnlineFit(data.calibrator())
    if name == "resolution":
        other = OnlineFit(data.calibrator(), **options)
    else:
        other = OnlineFit(data.calibrator(**options))
    plain.update(data.scores, data.labels)
    one, two = (other, plain) if turned else (plain, other)
    before = one.n_samples
    with pytest.raises(rp.OptionError, match=rf"same options. Got {name}=.*, not ") as caught:
        one.merge(two)
    assert one.n_samples == before
    if name != "subject_to":
        assert repr(value) in str(caught.value)


def test_another_source_prior_is_not_merged():
    data = flat(1)
    other = streamed(Data(data.scores, data.labels, prior=[0.25] * 4), [])
    with pytest.raises(rp.OptionError, match=r"Got source_prior=\[0.25, 0.25, 0.25, 0.25\], not"):
        streamed(data, []).merge(other)


def test_too_many_switches_are_said():
    data = flat(4)
    with pytest.warns(rp.RepriorWarning, match="more than 5 switches, too many to keep") as said:
        found = streamed(data.with_options(bounds=(0.0, 8.0)), [30], exact_up_to=5).finish()
    assert {warning.filename for warning in said} == {__file__}
    assert found.profile_.resolution == 1e-4
    for how in ({"resolution": None}, {"resolution": 1e-4}, {"exact_up_to": 10**6}):
        _, words = quietly(streamed(data, [30], **how).finish)
        assert not any("too many to keep" in sentence for sentence in words)
