"""Score files of a network."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from lab.tests.support.drives import HEIGHT, WIDTH, write_drives

from reprior import StrengthProfile
from reprior.exceptions import FileFormatError, OptionError
from reprior.files.scores import open_scores
from reprior.metrics.count_metrics import COUNT_METRICS
from reprior.metrics.counts import ClassCounts
from reprior_lab.synthia import scores as module
from reprior_lab.synthia.data import open_data
from reprior_lab.synthia.networks import build_network
from reprior_lab.synthia.scores import (
    measured,
    predict_scores,
    read_scores,
    score_path,
    write_scores,
)
from reprior_lab.synthia.settings import NetworkSettings


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return open_data(write_drives(tmp_path_factory.mktemp("drives")))


@pytest.fixture
def network():
    torch.manual_seed(0)
    return build_network("tiny", 5)


def test_files_have_what_the_network_says(tmp_path, data, network, monkeypatch):
    monkeypatch.setattr(module, "BATCH", 4)  # two batches of the six frames
    settings = NetworkSettings(model="tiny")
    told = []
    conditions = data.conditions(["fog"])
    paths = write_scores(
        network, settings, data.classes, conditions, tmp_path, progress=lambda *a: told.append(a)
    )
    assert paths == (score_path(tmp_path, "clear"), score_path(tmp_path, "fog"))
    assert told == [("clear", 4, 6), ("clear", 6, 6), ("fog", 4, 6), ("fog", 6, 6)]
    found = read_scores(tmp_path, "fog")
    assert found.names == data.test.names
    assert found.scores.dtype == np.float16
    assert found.scores.shape == (6, 5, HEIGHT // 2, WIDTH // 2)
    frame = conditions["fog"][5]
    expected, labels = predict_scores(network, [frame], settings)
    np.testing.assert_allclose(found.scores[5], expected[0], rtol=2e-3, atol=2e-3)
    assert np.array_equal(found.labels[5], frame.labels[::2, ::2])
    assert np.array_equal(labels[0], frame.labels[::2, ::2])
    clear = read_scores(tmp_path, "clear")
    assert not np.array_equal(clear.scores, found.scores)


def test_the_rest_of_the_library_reads_them(tmp_path, data, network):
    write_scores(
        network, NetworkSettings(model="tiny"), data.classes, data.conditions([]), tmp_path
    )
    own = read_scores(tmp_path, "clear")
    file = open_scores([score_path(tmp_path, "clear")], ignore_index=255)
    assert file.kind == "logits"
    assert file.class_names == data.classes
    parts = [np.asarray(chunk.scores) for chunk in file.chunks()]
    assert np.array_equal(np.concatenate(parts), own.scores)
    prior = np.asarray(data.class_counts) / np.sum(data.class_counts)
    profile = StrengthProfile.from_scores(
        own.scores, own.labels, source_prior=prior, class_axis=1, ignore_index=255
    )
    before = profile.evaluate("mean_iou", [0.0])[0]
    assert before == pytest.approx(measured(own.scores, own.labels)["mean_iou"])


def test_a_file_that_is_there_is_left_alone(tmp_path, data, network):
    settings = NetworkSettings(model="tiny")
    for _ in range(2):
        write_scores(network, settings, data.classes, data.conditions([]), tmp_path)
        before = score_path(tmp_path, "clear").stat().st_mtime_ns
        torch.nn.init.zeros_(network.head.weight)
    assert score_path(tmp_path, "clear").stat().st_mtime_ns == before
    assert read_scores(tmp_path, "clear").scores.std() > 0


def test_a_failure_leaves_no_file(tmp_path, data, network):
    class Broken:
        def __len__(self):
            return 2

        def __getitem__(self, index):
            raise RuntimeError("no frame")

    with pytest.raises(RuntimeError, match="no frame"):
        write_scores(
            network, NetworkSettings(model="tiny"), data.classes, {"fog": Broken()}, tmp_path
        )
    assert list((tmp_path / "scores").iterdir()) == []
    with pytest.raises(OptionError, match=r"Every condition must have frames. Got none for 'fog'"):
        write_scores(
            network,
            NetworkSettings(model="tiny"),
            data.classes,
            {"fog": data.test.subset([])},
            tmp_path,
        )


def test_finer_scores_are_interpolated(data, network):
    settings = NetworkSettings(model="tiny")
    fine, labels = predict_scores(network, [data.test[0]], settings, stride=1)
    assert fine.shape == (1, 5, HEIGHT, WIDTH)
    assert labels.shape == (1, HEIGHT, WIDTH)
    coarse, _ = predict_scores(network, [data.test[0]], settings, stride=4)
    half, _ = predict_scores(network, [data.test[0]], settings)
    assert np.array_equal(coarse, half[..., ::2, ::2])
    assert network.training


def test_cosines_are_scaled(data):
    network = build_network("tiny", 5, head="cosine")
    plain, _ = predict_scores(network, [data.test[0]], NetworkSettings(loss="ce"))
    scaled, _ = predict_scores(network, [data.test[0]], NetworkSettings(loss="ldam", scale=20.0))
    np.testing.assert_allclose(scaled, 20.0 * plain, rtol=1e-5)


def test_measured_leaves_out_what_has_no_label():
    rng = np.random.default_rng(0)
    scores, labels = rng.normal(size=(3, 4, 5, 6)), rng.integers(0, 4, (3, 5, 6)).astype(np.uint8)
    labels[0, 0] = 255
    kept = labels.ravel() != 255
    counts = ClassCounts.from_predictions(
        labels.ravel()[kept].astype(int), scores.argmax(1).ravel()[kept], n_classes=4
    )
    found = measured(scores, labels)
    assert found == {name: COUNT_METRICS[name](counts) for name in found}
    assert list(found) == ["accuracy", "balanced_accuracy", "mean_iou"]


def test_damaged_files(tmp_path):
    path = score_path(tmp_path, "fog")
    path.parent.mkdir()
    with pytest.raises(FileNotFoundError):
        read_scores(tmp_path, "fog")
    path.write_bytes(b"PK\x03\x04 no archive")
    with pytest.raises(FileFormatError, match="A score file must be a complete npz"):
        read_scores(tmp_path, "fog")
