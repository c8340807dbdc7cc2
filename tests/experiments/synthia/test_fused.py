"""Every row of Table 5 against Algorithm 1 written out in NumPy."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest

pytest.importorskip("torch", reason="torch is not installed")

from tests.experiments.synthia.test_frame_counts import metrics
from tests.experiments.synthia.tiny_networks import SETTINGS

from reprior.exceptions import FileFormatError
from reprior.experiments.synthia.fused import (
    CHOICES,
    FUSIONS,
    MODALITIES,
    fit_fusion,
    fusion_home,
    read_fusion,
    read_pair,
)
from reprior.experiments.synthia.plan import home_of, rgbd_networks
from reprior.experiments.synthia.runs import NetworkRun

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
    for pair, gains in found.gains.items():
        one, other = pair.split(" over ")
        for metric, gain in gains.items():
            means = [
                np.mean([found.judged[row][name][metric] for name in found.averaged])
                for row in (one, other)
            ]
            assert gain.value == pytest.approx(means[0] - means[1])
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
    [("{", "JSONDecodeError"), ('{"format_version": 9}', "another format_version"),
     ('{"format_version": 1}', "KeyError")],
)  # fmt: skip
def test_a_damaged_file_is_named(tmp_path, text, words):
    (tmp_path / "fusion.json").write_text(text)
    with pytest.raises(FileFormatError, match=rf"{words}.*fusion\.json"):
        read_fusion(tmp_path)


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
