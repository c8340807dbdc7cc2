"""Every row of Table 5 against Algorithm 1 written out in NumPy."""

from __future__ import annotations

import itertools
import json
import shutil
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("torch", reason="torch is not installed")

from lab.tests.support.tiny_networks import SETTINGS
from lab.tests.synthia.test_frame_counts import metrics

from reprior.exceptions import FileFormatError
from reprior.fusion import ModalityFusion
from reprior_lab.synthia.correction import METRICS, WAYS
from reprior_lab.synthia.fused import (
    ALONE,
    CHOICES,
    FUSIONS,
    MODALITIES,
    decide,
    fit_fusion,
    fusion_home,
    read_fusion,
    read_pair,
)
from reprior_lab.synthia.runs import NetworkRun
from reprior_lab.synthia.settings import home_of, rgbd_networks

NETWORKS = rgbd_networks(settings=SETTINGS)


def softmax(z):
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def image_entropies(z):
    p = softmax(z)
    return -(p * np.log(p)).sum(axis=1).mean(axis=(1, 2))


def factors(z, reference):
    mean, std = reference
    excess = np.maximum(0.0, image_entropies(z) - mean - std)
    return (mean / (mean + excess))[:, None, None, None]


def algorithm_one(row, scores, strength, prior, references):
    """The posterior of a row, as the paper prints it; and with its two steps changed round."""
    posteriors = []
    for name in MODALITIES:
        z = np.log(softmax(scores[name]))
        shift = -strength * np.log(prior)[:, None, None]
        delta = factors(scores[name], references[name]) if row.startswith("uno") else 1.0
        z = delta * (z + shift) if row.endswith("rebalanced") else delta * z + shift
        posteriors.append(softmax(z))
    if row == "softave":
        return sum(posteriors) / 2
    return 1.0 - np.prod([1.0 - p for p in posteriors], axis=0)


@pytest.fixture(scope="module")
def homes(made):
    return {each.modality: home_of(made.folder, each) for each in NETWORKS}


@pytest.fixture(scope="module")
def place(made):
    return fusion_home(made.folder, [each.id for each in NETWORKS])


@pytest.fixture(scope="module")
def prior(homes):
    counts = np.array(NetworkRun.read(homes["rgb"]).class_counts)
    return counts / counts.sum()


def logits(homes, condition):
    pair = read_pair(homes, condition)
    return {n: s.scores.astype(np.float64) for n, s in pair.items()}, pair["rgb"].labels


def test_references_are_those_of_the_held_out_frames(homes, place):
    scores, _ = logits(homes, "held_out")
    for name, (mean, std) in read_fusion(place).references.items():
        entropies = image_entropies(scores[name])
        assert (mean, std) == pytest.approx((entropies.mean(), entropies.std()), rel=1e-3)


@pytest.mark.parametrize("condition", ["clear", "rain_night"])
@pytest.mark.parametrize("row", FUSIONS)
def test_every_row_is_algorithm_one(homes, place, prior, row, condition):
    found = read_fusion(place)
    scores, labels = logits(homes, condition)
    for choice in ("",) if "strength" in FUSIONS[row] else CHOICES:
        name = f"{row}/{choice}" if choice else row
        strength = found.strengths.get(name, 0.0)
        posterior = algorithm_one(row, scores, strength, prior, found.references)
        judged = found.judged[name][condition]
        # Rounding may decide a pixel or two of 2304 another way.
        values = metrics(labels, posterior.argmax(axis=1), prior.size)
        assert tuple(judged.values()) == pytest.approx(values, abs=0.02)


def test_one_modality_alone_is_its_own_decision(homes, place, prior):
    scores, labels = logits(homes, "fog")
    for name in MODALITIES:
        values = metrics(labels, scores[name].argmax(axis=1), prior.size)
        assert tuple(read_fusion(place).judged[name]["fog"].values()) == pytest.approx(values)


def test_one_modality_corrected_is_so_by_a_strength_of_its_own(homes, place, prior):
    found = read_fusion(place)
    for row, name in ALONE.items():
        held_out, truth = logits(homes, "held_out")
        scores, labels = logits(homes, "rain")

        def value(scores, labels, strength, name=name):
            corrected = scores[name] - strength * np.log(prior)[:, None, None]
            return metrics(labels, corrected.argmax(axis=1), prior.size)

        for way in WAYS:
            strength = found.strengths[f"{row}/{way}"]
            values = tuple(found.judged[f"{row}/{way}"]["rain"].values())
            assert values == pytest.approx(value(scores, labels, strength), abs=0.02)
        best = max(value(held_out, truth, strength)[1] for strength in np.linspace(0, 2, 81))
        assert value(held_out, truth, found.strengths[f"{row}/tuned"])[1] >= best - 0.002


def test_decisions_are_of_single_precision(homes, prior):
    held_out = read_pair(homes, "held_out")
    fusion = fit_fusion("uno", held_out, prior)
    pair = read_pair(homes, "clear")
    single = {name: each.scores.astype(np.float32) for name, each in pair.items()}
    decided = decide(fusion, pair)
    assert np.array_equal(decided, fusion.predict(single))
    # Posteriors that are told apart in single precision, and equal in half.
    scores = np.tile(np.array([0.0, 1e-4], np.float16).reshape(1, 2, 1, 1), (1, 1, 1, 2))
    near = dict.fromkeys(MODALITIES, SimpleNamespace(scores=scores, labels=scores[:, 0]))
    plain = ModalityFusion(np.array([0.5, 0.5]), class_axis=1, flatten=False, strength=0.0)
    plain.fit(dict.fromkeys(MODALITIES, scores.astype(np.float32)), np.array([[[0, 1]]]))
    assert plain.predict(dict.fromkeys(MODALITIES, scores)).tolist() == [[[0, 0]]]
    assert decide(plain, near).tolist() == [[[1, 1]]]


def test_factors_are_the_mean_of_delta(homes, place):
    found = read_fusion(place)
    scores, _ = logits(homes, "winter")
    for name in MODALITIES:
        mean = factors(scores[name], found.references[name]).mean()
        assert found.factors["winter"][name] == pytest.approx(mean, rel=1e-4)


def test_strengths_are_tuned_on_the_held_out_frames_alone(homes, place, prior):
    found = read_fusion(place)
    scores, labels = logits(homes, "held_out")
    for row in ("ic", "uno-ic-rebalanced"):

        def value(strength, row=row):
            p = algorithm_one(row, scores, strength, prior, found.references)
            return metrics(labels, p.argmax(axis=1), prior.size)[1]

        best = max(value(strength) for strength in np.linspace(0, 2, 21))
        assert value(found.strengths[f"{row}/tuned"]) >= best - 0.01
        assert found.strengths[f"{row}/paper"] == 0.4
        assert found.strengths[f"{row}/bayes"] == 1.0


def test_gains_are_differences_of_means_over_the_seven(place):
    found = read_fusion(place)
    assert set(found.conditions) - set(found.averaged) == {"night"}
    assert len(found.averaged) == 7
    assert found.simulated
    for gains, over in ((found.gains, found.averaged), (found.clear_gains, ["clear"])):
        for pair, metric in itertools.product(gains, METRICS):
            one, other = (
                np.mean([found.judged[row][name][metric] for name in over])
                for row in pair.split(" over ")
            )
            gain = gains[pair][metric]
            assert gain.value == pytest.approx(one - other)
            assert gain.low <= gain.value + 1e-9
            assert gain.high >= gain.value - 1e-9


def test_a_known_strength_is_not_tuned_again(homes, prior):
    held_out = read_pair(homes, "held_out")
    fusion = fit_fusion("uno-ic/kept", held_out, prior, strength=0.25)
    assert fusion.search_ == "fixed"
    assert fusion.strength_ == 0.25


def test_it_is_read_as_it_was_written(place, tmp_path):
    found = read_fusion(place)
    found.write(tmp_path / "new")
    assert read_fusion(tmp_path / "new") == found
    assert read_fusion(tmp_path) is None


@pytest.mark.parametrize(
    "text, words",
    [
        ("{", "JSONDecodeError"),
        ('{"format_version": 9}', "another format_version"),
        ('{"format_version": 2}', "KeyError"),
    ],
)
def test_a_damaged_file_is_named(tmp_path, text, words):
    (tmp_path / "fusion.json").write_text(text)
    with pytest.raises(FileFormatError, match=rf"{words}.*fusion\.json"):
        read_fusion(tmp_path)


def test_it_is_of_its_score_files_and_conditions_alone(homes, place, tmp_path):
    found = read_fusion(place)
    assert found.is_of(homes, tuple(found.n_test))
    assert not found.is_of(homes, ("clear", "fog"))
    assert found.is_of(dict.fromkeys(homes, tmp_path), tuple(found.n_test))
    shutil.copytree(homes["depth"] / "scores", tmp_path / "scores")
    assert found.is_of({**homes, "depth": tmp_path}, tuple(found.n_test))
    shutil.copy(homes["rgb"] / "scores/fog.npz", tmp_path / "scores/fog.npz")
    assert not found.is_of({**homes, "depth": tmp_path}, tuple(found.n_test))


def test_numbers_are_plain_json(place):
    document = json.loads((place / "fusion.json").read_text())
    assert document["networks"] == {each.modality: each.id for each in NETWORKS}


def test_scores_of_other_frames_are_refused(homes, tmp_path):
    copy = {name: tmp_path / name for name in homes}
    for name, home in homes.items():
        shutil.copytree(home / "scores", copy[name] / "scores")
    shutil.copy(copy["depth"] / "scores/held_out.npz", copy["depth"] / "scores/clear.npz")
    with pytest.raises(FileFormatError, match="must be of the same frames"):
        read_pair(copy, "clear")
