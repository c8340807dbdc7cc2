"""Chunks: the same as the whole, in bounded memory, refused in words."""

from __future__ import annotations

import weakref

import numpy as np
import pytest
import torch
from tests.support.fusions import PRIOR, RULES, modalities

import reprior as rp
from reprior.fusion.stream import stream_of_arrays, stream_of_chunks


@pytest.fixture
def data(rng):
    return modalities(rng)


def chunks(scores, labels, size, weight=None):
    for start in range(0, len(labels), size):
        part = slice(start, start + size)
        chunk = {name: z[part] for name, z in scores.items()}, labels[part]
        yield chunk if weight is None else (*chunk, weight[part])


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"flatten_by": "pixel"},
        {"strengths": "per_modality"},
        {"strength": 0.5},
        {"flatten": False},
    ],
)
def test_chunks_are_the_whole(data, rule, options):
    scores, labels = data
    options = {"class_axis": 1, "rule": rule, **options}
    whole = rp.ModalityFusion(PRIOR, **options).fit(scores, labels)
    parts = rp.ModalityFusion(PRIOR, **options).fit_stream(lambda: chunks(scores, labels, 7))
    assert parts.search_ == whole.search_
    for name in scores:
        # δ rests on references that were added up in another order.
        assert parts.strengths_[name] == pytest.approx(whole.strengths_[name], abs=2e-3)
        if options.get("flatten", True):
            assert parts.references_[name].mean == pytest.approx(
                whole.references_[name].mean, rel=1e-12
            )
    assert parts.best_score_ == pytest.approx(whole.best_score_, abs=1e-2)


@pytest.mark.parametrize("rule", ["noisy_or", "product"])
def test_without_flattening_they_are_equal_to_the_bit(data, rule):
    scores, labels = data
    options = {"class_axis": 1, "rule": rule, "flatten": False}
    whole = rp.ModalityFusion(PRIOR, **options).fit(scores, labels)
    parts = rp.ModalityFusion(PRIOR, **options).fit_stream(list(chunks(scores, labels, 7)))
    assert (parts.strength_, parts.best_score_) == (whole.strength_, whole.best_score_)


def test_weights_and_ignored_chunks(data, rng):
    scores, labels = data
    weight, holes = rng.integers(0, 3, labels.shape).astype(float), labels.copy()
    holes[7:14] = 255
    weight[14:21] = 0.0
    options = {"class_axis": 1, "flatten": False, "ignore_index": 255}
    whole = rp.ModalityFusion(PRIOR, **options).fit(scores, holes, sample_weight=weight)
    parts = rp.ModalityFusion(PRIOR, **options).fit_stream(lambda: chunks(scores, holes, 7, weight))
    assert parts.strength_ == whole.strength_
    assert parts.best_score_ == pytest.approx(whole.best_score_, abs=1e-12)


def test_names_and_torch(data):
    scores, labels = data
    names = np.array(["ant", "bee", "cow", "dog"])
    options = {"class_axis": 1, "flatten": False}
    whole = rp.ModalityFusion(PRIOR, **options).fit(scores, labels)
    named = rp.ModalityFusion(PRIOR, classes=names, **options)
    named.fit_stream(lambda: chunks(scores, names[labels], 9))
    assert named.strength_ == whole.strength_
    assert set(named.predict(scores).reshape(-1)) <= set(names)
    tensors = {name: torch.tensor(z) for name, z in scores.items()}
    torched = rp.ModalityFusion(PRIOR, **options)
    torched.fit_stream(lambda: chunks(tensors, torch.tensor(labels), 9))
    assert torched.strength_ == whole.strength_


@pytest.mark.parametrize("rule", ["noisy_or", "product"])
def test_chunks_are_let_go(data, rule):
    """Bounded memory: while a chunk is made, no other is alive but the one before."""
    scores, labels = data
    made, alive = [], []

    def source():
        for part, y in chunks(scores, labels, 4):
            own = {name: z.copy() for name, z in part.items()}
            made.extend(map(weakref.ref, own.values()))
            alive.append(sum(ref() is not None for ref in made))
            del part
            yield own, y

    rp.ModalityFusion(PRIOR, class_axis=1, rule=rule).fit_stream(source)
    assert max(alive) <= 2 * len(scores)


def test_parts_tell_what_counts(data):
    scores, labels = data
    holes = labels.copy()
    holes[3] = holes[5, 0, 0] = 255
    options = rp.ModalityFusion(PRIOR, class_axis=1, ignore_index=255)
    (part,) = stream_of_arrays(options, scores, holes, None).parts()
    assert part.images.tolist() == [i for i in range(len(labels)) if i != 3]
    assert part.keep.sum() == labels.size - labels[3].size - 1
    assert part.labels.shape == (len(labels), 15)
    (whole,) = stream_of_arrays(options, scores, labels, None).parts()
    assert whole.images is None


def _stream(source, **options):
    return rp.ModalityFusion(PRIOR, class_axis=1, **options).fit_stream(source)


def test_words(data):
    scores, labels = data
    with pytest.raises(rp.OptionError, match=r"several times. Got generator. Pass a function"):
        _stream(chunks(scores, labels, 7))
    with pytest.raises(rp.OptionError, match=r"must return an iterable of .* Got int"):
        _stream(lambda: 3)
    with pytest.raises(rp.LabelsError, match=r"at least one chunk. Got none"):
        _stream(list)
    with pytest.raises(rp.ScoresError, match=r"must give .* Got ndarray. Name the modalities"):
        _stream([labels])
    with pytest.raises(rp.LabelsError, match="`labels` must be given for a strength to be tuned"):
        _stream([scores])
    with pytest.raises(rp.LabelsError, match="Got 600 samples, all of them ignored"):
        _stream(lambda: chunks(scores, np.full_like(labels, 255), 7), ignore_index=255)


def test_errors_tell_the_chunk(data):
    scores, labels = data
    bad = {name: z.copy() for name, z in scores.items()}
    bad["depth"][9, 1, 0, 0] = np.nan
    where = r"Got scores\['depth'\]\[2, 1, 0, 0\]=nan.*\(In chunk 1, counted from 0\.\)"
    for flatten in (True, False):
        with pytest.raises(rp.ScoresError, match=where):
            _stream(lambda: chunks(bad, labels, 7), flatten=flatten)
    with pytest.raises(rp.ScoresError, match=r"Got none for 'depth'.*\(In chunk 1"):
        _stream(lambda: [(scores, labels), ({"rgb": scores["rgb"]}, labels)])
    with pytest.raises(rp.ScoresError, match=r"'rgb'. Got 'depth'. Leave it out.*\(In chunk 1"):
        _stream(lambda: [({"rgb": scores["rgb"]}, labels), (scores, labels)])


def test_passes_must_be_alike(data):
    scores, labels = data
    calls = []

    def shorter():
        calls.append(1)
        n = len(labels) if len(calls) < 4 else 20
        return chunks({name: z[:n] for name, z in scores.items()}, labels[:n], 7)

    with pytest.raises(rp.OptionError, match=r"same samples in every pass. Got 600 .* then 300"):
        _stream(shorter)


def test_weights_for_all_chunks_or_none(data):
    scores, labels = data
    with pytest.raises(rp.OptionError, match="for all chunks or for none"):
        _stream([(scores, labels), (scores, labels, np.ones(labels.shape))], flatten=False)


def test_the_encoding_of_chunks_is_that_of_engines(data):
    """Integer labels are indices, whatever the classes are called."""
    scores, labels = data
    options = rp.ModalityFusion(PRIOR, class_axis=1, classes=[10, 20, 30, 40])
    part = next(stream_of_chunks(options, [(scores, labels)]).parts())
    np.testing.assert_array_equal(part.labels, labels.reshape(len(labels), -1))
    part = next(stream_of_arrays(options, scores, 10 * (labels + 1), None).parts())
    np.testing.assert_array_equal(part.labels, labels.reshape(len(labels), -1))
