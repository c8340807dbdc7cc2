"""Every cell of ``--protocol paper``, from tiny data to tables, as a user starts it.

The commands run in the environment of ``REPRIOR_PYTHON``, see :mod:`lab.tests.support.installed`.
SYNTHIA has its own test, ``synthia/test_paper_protocol.py``.
"""

from __future__ import annotations

import json

import numpy as np
import pytest
from lab.tests.support.installed import run_installed
from PIL import Image

from reprior_lab.config import METHODS
from reprior_lab.data.imbalance import imbalance_counts
from reprior_lab.inaturalist_results import ROWS

pytestmark = pytest.mark.heavy

#: Images of the largest class: ratio 10 leaves one of the smallest.
N_MAX = 10

#: Test images of each class: one half is tuned on.
N_TEST = 2


def drawn(labels, n_classes, side, rng):
    """Noisy images, uint8 (N, side, side, 3): the class is the shade."""
    shades = 40 + 175 * labels / n_classes
    noise = rng.normal(0, 20, (labels.size, side, side, 3))
    return (shades[:, None, None, None] + noise).clip(0, 255).astype(np.uint8)


@pytest.fixture(scope="module")
def cifar_root(tmp_path_factory):
    """CIFAR-10 and CIFAR-100 in their binary form, with as many images as ratio 10 keeps."""
    root, rng = tmp_path_factory.mktemp("cifar"), np.random.default_rng(0)
    for n_classes in (10, 100):
        folder = root / f"cifar-{n_classes}{'-batches-bin' if n_classes == 10 else '-binary'}"
        folder.mkdir()
        counts = imbalance_counts(N_MAX, n_classes, "exp", 10)
        train = np.repeat(np.arange(n_classes), counts)
        test = np.repeat(np.arange(n_classes), N_TEST)
        parts = {"train": train, "test": test}
        if n_classes == 10:
            split = np.array_split(rng.permutation(train), 5)
            parts = {f"data_batch_{i}": labels for i, labels in enumerate(split, 1)}
            parts["test_batch"] = test
        for name, labels in parts.items():
            planes = drawn(labels, n_classes, 32, rng).transpose(0, 3, 1, 2)
            columns = [labels[:, None]] * (1 if n_classes == 10 else 2)  # coarse and fine
            records = [*columns, planes.reshape(labels.size, -1)]
            np.concatenate(records, axis=1).astype(np.uint8).tofile(folder / f"{name}.bin")
    return root


@pytest.fixture(scope="module")
def inaturalist_root(tmp_path_factory):
    """INaturalist of four species: 32 training images, and three of each to judge on."""
    root, rng = tmp_path_factory.mktemp("inaturalist"), np.random.default_rng(0)
    (root / "train_val2018").mkdir()
    number = 0
    for name, counts in (("train2018", (16, 8, 5, 3)), ("val2018", (3, 3, 3, 3))):
        labels = np.repeat(np.arange(4), counts)
        images, annotations = [], []
        for label, pixels in zip(labels.tolist(), drawn(labels, 4, 96, rng), strict=True):
            number += 1
            file = f"train_val2018/{number}.jpg"
            Image.fromarray(pixels).save(root / file)
            images.append({"id": number, "file_name": file})
            annotations.append({"image_id": number, "category_id": label})
        categories = [{"id": k, "name": str(k)} for k in range(4)]
        text = {"images": images, "annotations": annotations, "categories": categories}
        (root / f"{name}.json").write_text(json.dumps(text))
    return root


def finished(folder):
    """Settings of the runs that a folder has, all of which must be finished."""
    found = [json.loads(path.read_text()) for path in sorted(folder.glob("cells/*/run.json"))]
    assert {each["status"] for each in found} == {"finished"}
    assert all(len(each["epochs"]) == each["config"]["epochs"] for each in found)
    return [each["config"] for each in found]


def test_every_row_of_cifar_on_two_devices(cifar_root, tmp_path):
    options = [
        "reproduce",
        "cifar",
        "--root",
        cifar_root,
        "--protocol",
        "paper",
        "--cells",
        "cifar10-exp10",
        "--cells",
        "cifar100-exp10",
        "--set",
        "epochs=2",
        "--set",
        "seed=0",
        "--set",
        "batch_size=64",
        "-o",
        tmp_path,
    ]
    made = run_installed(*options, "--devices", 2)
    runs = finished(tmp_path)
    assert len(runs) == 2 * len(METHODS)
    assert {each["model"] for each in runs} == {"resnet32"}
    assert {each["data"] for each in runs} == {"cifar10", "cifar100"}
    names = [table["name"] for table in made["tables"]]
    assert {"cifar-table2", "cifar-gains", "cifar-strengths"} <= set(names)
    assert not any("not finished" in note for note in made["notes"])
    assert (tmp_path / "cifar-table2.md").exists()
    assert run_installed(*options, "--no-train")["tables"] == made["tables"]


def test_a_cell_of_cifar_on_one_device_of_two(cifar_root, tmp_path):
    """The first process of two must not be joined by a second that finds its cell claimed."""
    made = run_installed(
        "reproduce",
        "cifar",
        "--root",
        cifar_root,
        "--protocol",
        "paper",
        "--cells",
        "cifar10-exp10/cb_focal",
        "--set",
        "epochs=2",
        "--devices",
        "0,1",
        "--jobs",
        1,
        "-o",
        tmp_path,
    )
    assert [each["focal_reduction"] for each in finished(tmp_path)] == ["plain_mean"]
    assert made["files"]


def test_every_row_of_inaturalist(inaturalist_root, tmp_path):
    made = run_installed(
        "reproduce",
        "inaturalist",
        "--root",
        inaturalist_root,
        "--model",
        "resnet50",
        "--set",
        "epochs=2",
        "--set",
        "batch_size=16",
        "--set",
        "image_size=32",
        "-o",
        tmp_path,
    )
    assert len(finished(tmp_path)) == len(ROWS)
    assert [table["name"] for table in made["tables"]] == ["inaturalist", "inaturalist-strength"]
    assert (tmp_path / "inaturalist.png").exists()


def test_a_large_network_on_two_devices_in_parts_and_mixed_precision(inaturalist_root, tmp_path):
    made = run_installed(
        "reproduce",
        "inaturalist",
        "--root",
        inaturalist_root,
        "--model",
        "inception_v3",
        "--row",
        "ce-drw",
        "--devices",
        2,
        "--precision",
        "bf16-mixed",
        "--set",
        "accumulate=2",
        "--set",
        "epochs=2",
        "--set",
        "batch_size=16",
        "--set",
        "image_size=80",
        "-o",
        tmp_path,
    )
    (found,) = finished(tmp_path)
    assert (found["schedule"], found["precision"], found["accumulate"]) == ("drw", "bf16-mixed", 2)
    assert made["tables"]


def test_the_toy_sets(tmp_path):
    made = run_installed("reproduce", "toy", "--protocol", "paper", "--epochs", 2, "-o", tmp_path)
    assert made["tables"]
    assert (tmp_path / "toy.png").exists()


def test_a_network_on_two_devices(tmp_path):
    options = [
        "train",
        "--data",
        "digits",
        "--imbalance",
        "exp",
        "--ratio",
        20,
        "--epochs",
        2,
        "--accelerator",
        "cpu",
        "--devices",
        2,
        "-o",
        tmp_path / "run",
    ]
    made = run_installed(*options)
    written = json.loads((tmp_path / "run" / "run.json").read_text())
    assert written["status"] == "finished"
    assert made["result"] == written["result"]
    assert run_installed(*options, "--resume")["result"] == made["result"]
