"""The correction of a network against plain arithmetic on its score files."""

from __future__ import annotations

import json

import numpy as np
import pytest

pytest.importorskip("torch", reason="torch is not installed")

from lab.tests.support.tiny_networks import SETTINGS
from lab.tests.synthia.test_frame_counts import metrics

from reprior.exceptions import FileFormatError
from reprior_lab.synthia.correction import CURVE, WAYS, read_correction
from reprior_lab.synthia.runs import NetworkRun, digests_of
from reprior_lab.synthia.scores import read_scores
from reprior_lab.synthia.settings import home_of, rgb_networks

NETWORKS = {each.loss: each for each in rgb_networks(settings=SETTINGS)}

#: Curves are kept to six decimals.
ROUNDED = 1e-6


def opened(made, loss):
    home = home_of(made.folder, NETWORKS[loss])
    return read_correction(home), NetworkRun.read(home), home


def at(home, part, prior, strength):
    """Mean IoU and mean accuracy at a strength, by the formula of the paper."""
    scores = read_scores(home, part)
    shift = -strength * np.log(np.asarray(prior)).astype(np.float32)
    decided = (scores.scores.astype(np.float32) + shift[:, None, None]).argmax(axis=1)
    return metrics(scores.labels, decided, len(prior))


@pytest.mark.parametrize("loss", ["ce", "ldam"])
def test_it_is_that_of_the_scores(made, loss):
    found, run, home = opened(made, loss)
    prior = np.array(run.class_counts) / sum(run.class_counts)
    as_trained = at(home, "clear", prior, 0.0)
    assert tuple(found.as_trained.values()) == pytest.approx(as_trained)
    for way in WAYS:
        judged = found.raw[way]
        after = at(home, "clear", prior, judged.strength)
        assert (judged.mean_iou, judged.balanced_accuracy) == pytest.approx(after)
        gains = [gain.value for gain in judged.gains.values()]
        assert gains == pytest.approx([a - b for a, b in zip(after, as_trained, strict=True)])
    assert found.raw["bayes"].strength == 1.0
    assert (found.n_held_out, found.n_test) == (4, 6)


def test_it_says_which_scores_it_is_of(made):
    found, _, home = opened(made, "ce")
    assert found.scores == digests_of(home, ("held_out", "clear"))


def test_the_strength_is_the_best_of_the_held_out_frames(made):
    found, run, home = opened(made, "ce")
    prior = np.array(run.class_counts) / sum(run.class_counts)
    before = at(home, "held_out", prior, 0.0)
    grid = [at(home, "held_out", prior, strength) for strength in np.linspace(0, 2, 81)]
    best = at(home, "held_out", prior, found.raw["tuned"].strength)
    assert best[1] >= max(accuracy for _, accuracy in grid)
    kept = at(home, "held_out", prior, found.raw["kept"].strength)
    assert kept[0] >= before[0] - 0.005
    assert kept[1] >= max(accuracy for iou, accuracy in grid if iou >= before[0] - 0.005)


def test_curves_are_exact_where_they_are_kept(made):
    found, run, home = opened(made, "ce")
    prior = np.array(run.class_counts) / sum(run.class_counts)
    for part in ("held_out", "clear"):
        for i in (0, 7, 50):
            values = [curve[i] for curve in found.curves[part].values()]
            assert values == pytest.approx(at(home, part, prior, CURVE[i]), abs=2 * ROUNDED)


def test_a_loss_whose_prior_is_uniform_has_nothing_left_to_correct(made):
    found, _, _ = opened(made, "max_ce")
    assert found.effective != found.raw
    for way in WAYS:
        assert found.effective[way].balanced_accuracy == found.as_trained["balanced_accuracy"]
        assert found.effective[way].gains["mean_iou"] == (0.0, 0.0, 0.0)
    plain, _, _ = opened(made, "ce")
    assert plain.effective == plain.raw


def test_it_is_read_as_it_was_written(made, tmp_path):
    found, _, _ = opened(made, "focal")
    found.write(tmp_path)
    assert read_correction(tmp_path) == found
    assert read_correction(tmp_path / "nowhere") is None


@pytest.mark.parametrize(
    "change, words",
    [
        (lambda document: "{", "JSONDecodeError"),
        (lambda document: "[]", "AttributeError|TypeError"),
        (lambda document: json.dumps({**document, "format_version": 1}), "another format_version"),
        (lambda document: json.dumps({**document, "strengths": [0.0]}), "at other strengths"),
        (lambda document: json.dumps({**document, "raw": {"tuned": {}}}), "KeyError"),
    ],
)
def test_a_damaged_file_is_named(made, tmp_path, change, words):
    _, _, home = opened(made, "ce")
    text = change(json.loads((home / "correction.json").read_text()))
    (tmp_path / "correction.json").write_text(text)
    with pytest.raises(FileFormatError, match=rf"Got ({words}).*correction\.json|{words}"):
        read_correction(tmp_path)
