"""The other readers: IDX, folders, iNaturalist, digits, toy sets, and how they are found."""

from __future__ import annotations

import gzip
import json

import numpy as np
import pytest
from PIL import Image

from reprior.exceptions import FileFormatError, LabelsError, OptionError, RepriorWarning
from reprior_lab.data import ImageData, data_names, folder, open_data
from reprior_lab.data.idx import read_idx
from reprior_lab.data.images import SOURCES, LazyImages
from reprior_lab.data.inaturalist import read_inaturalist


def idx(array):
    head = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes()
    return head + array.astype(np.uint8).tobytes()


def fashion(root, packed):
    rng = np.random.default_rng(0)
    made = {}
    for part, n in (("train", 20), ("t10k", 10)):
        made[part] = rng.integers(0, 256, (n, 28, 28)), np.arange(n) % 10
        for kind, array in zip(("images-idx3", "labels-idx1"), made[part], strict=True):
            name, data = f"{part}-{kind}-ubyte", idx(array)
            if packed:
                (root / f"{name}.gz").write_bytes(gzip.compress(data))
            else:
                (root / name).write_bytes(data)
    return made


@pytest.mark.parametrize("packed", [False, True])
def test_fashion_mnist(tmp_path, packed):
    made = fashion(tmp_path, packed)
    data = open_data("fashion_mnist", tmp_path)
    assert np.array_equal(data.train_images[..., 0], made["train"][0])
    assert np.array_equal(data.test_labels, made["t10k"][1])
    assert data.n_channels == 1
    assert data.class_names[9] == "Ankle boot"


@pytest.mark.parametrize(
    "content",
    [b"", b"\0\0\x0d\1\0\0\0\1\7", idx(np.arange(5))[:-1], idx(np.arange(5)) + b"x", b"\0\0\x08\4"],
)
def test_broken_idx_files_are_refused(tmp_path, content):
    path = tmp_path / "x-idx1-ubyte"
    path.write_bytes(content)
    with pytest.raises(FileFormatError, match="An IDX file must be"):
        read_idx(path)


def test_a_truncated_gzip_is_refused(tmp_path):
    path = tmp_path / "x.gz"
    path.write_bytes(gzip.compress(idx(np.arange(50)))[:-9])
    with pytest.raises(FileFormatError, match="Fetch the file again"):
        read_idx(path)


def write_image(path, value, size=(20, 12)):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, (value, value, value)).save(path)


def tree(root, parts):
    for part in parts:
        for k, name in enumerate(["ant", "bee"]):
            for i in range(3 - k):
                write_image(root / part / name / f"{i}.png", 100 * k + i)
    return root


@pytest.mark.parametrize(
    "parts, tuned",
    [(["train", "test"], False), (["train", "val"], False), (["train", "test", "val"], True)],
)
def test_folders(tmp_path, parts, tuned):
    data = open_data("folder", tree(tmp_path, parts), image_size=8)
    assert list(data.class_names) == ["ant", "bee"]
    assert data.train_images.shape == (5, 8, 8, 3)
    assert data.train_images[:, 4, 4, 0].tolist() == [0, 1, 2, 100, 101]
    assert data.train_labels.tolist() == [0, 0, 0, 1, 1]
    assert (data.validation_images is not None) == tuned


def test_a_class_that_cannot_be_judged_is_said(tmp_path):
    tree(tmp_path, ["train", "test"])
    for path in (tmp_path / "test" / "bee").iterdir():
        path.unlink()
    with pytest.warns(RepriorWarning, match="The test part has no image of 'bee': metrics there"):
        open_data("folder", tmp_path, image_size=8)


def test_large_folders_stay_on_disk(tmp_path, monkeypatch):
    monkeypatch.setattr(folder, "IN_MEMORY", 10)
    data = open_data("folder", tree(tmp_path, ["train", "test"]), image_size=8)
    assert isinstance(data.train_images, LazyImages)
    fewer = data.imbalanced("step", 3)
    assert fewer.train_images.take(np.array([0, 3]))[:, 0, 0, 0].tolist() == [0, 100]
    draws = np.random.default_rng(0).random((2, 5))
    assert fewer.train_images.take(np.array([1, 2]), draws).shape == (2, 8, 8, 3)


def test_a_random_part_lies_inside_and_may_be_mirrored(tmp_path):
    ramp = np.tile(np.arange(64, dtype=np.uint8)[None, :, None] * 4, (64, 1, 3))
    Image.fromarray(ramp).save(tmp_path / "ramp.png")
    draw = np.array([0.5, 0.5, 0.2, 0.9, 0.9])
    straight = folder.read_image(tmp_path / "ramp.png", 16, draw)
    draw[4] = 0.1
    mirrored = folder.read_image(tmp_path / "ramp.png", 16, draw)
    assert np.array_equal(straight, mirrored[:, ::-1])
    assert (np.diff(straight[0, :, 0].astype(int)) > 0).all()


def test_a_class_that_training_lacks_is_refused(tmp_path):
    tree(tmp_path, ["train", "test"])
    write_image(tmp_path / "test" / "cat" / "0.png", 1)
    with pytest.raises(FileFormatError, match="Got 'cat' in"):
        open_data("folder", tmp_path)


def test_a_damaged_image_is_named(tmp_path):
    tree(tmp_path, ["train", "test"])
    (tmp_path / "train" / "ant" / "1.png").write_bytes(b"no image")
    with pytest.raises(FileFormatError, match=r"ant/1\.png"):
        open_data("folder", tmp_path)


def inaturalist(root, *, images=True):
    parts = {"train2018": [(7, 0), (8, 0), (9, 3)], "val2018": [(17, 3), (18, 0)]}
    for name, pairs in parts.items():
        document = {
            "images": [{"id": i, "file_name": f"train_val2018/x/{i}.jpg"} for i, _ in pairs],
            "annotations": [{"image_id": i, "category_id": c} for i, c in pairs],
            "categories": [{"id": 0, "name": "0"}, {"id": 3, "name": "3"}],
        }
        (root / f"{name}.json").write_text(json.dumps(document))
        for i, _ in pairs if images else []:
            write_image(root / "train_val2018" / "x" / f"{i}.jpg", 10 * i)
    return root


def test_inaturalist(tmp_path):
    data = open_data("inaturalist2018", inaturalist(tmp_path), image_size=16)
    assert data.class_counts.tolist() == [2, 1]
    assert data.test_labels.tolist() == [1, 0]
    assert data.test_images.take(np.array([1]))[0, 8, 8].tolist() == [180, 180, 180]
    assert list(data.class_names) == ["0", "3"]


def test_names_of_inaturalist_from_its_categories(tmp_path):
    inaturalist(tmp_path)
    (tmp_path / "categories.json").write_text(json.dumps([{"id": 3, "name": "Apis mellifera"}]))
    assert list(read_inaturalist(tmp_path).class_names) == ["0", "Apis mellifera"]


def test_annotations_without_images_are_answered(tmp_path):
    with pytest.raises(FileFormatError, match=r"not the images\. Get train2018\.json"):
        read_inaturalist(inaturalist(tmp_path, images=False))


@pytest.mark.parametrize(
    "content",
    [
        "[]",
        "{",
        '{"images": []}',
        "[" * 200_000,
        '{"images": [5], "annotations": [], "categories": []}',
        '{"images": [], "annotations": [], "categories": [{"id": []}]}',
        '{"images": [{"id": 1, "file_name": 5}], "annotations": [], "categories": []}',
    ],
    ids=range(7),
)
def test_annotations_that_are_none_are_refused(tmp_path, content):
    inaturalist(tmp_path)
    (tmp_path / "val2018.json").write_text(content)
    with pytest.raises(FileFormatError, match="Annotations must be JSON"):
        read_inaturalist(tmp_path)


@pytest.mark.parametrize("content", ["{", "[5]", '[{"id": 3}]', "5"])
def test_categories_that_are_none_are_refused(tmp_path, content):
    (inaturalist(tmp_path) / "categories.json").write_text(content)
    with pytest.raises(FileFormatError, match="Categories must be a JSON list"):
        read_inaturalist(tmp_path)


def test_an_annotation_of_no_category_is_refused(tmp_path):
    path = inaturalist(tmp_path) / "val2018.json"
    path.write_text(path.read_text().replace('"category_id": 3', '"category_id": 5'))
    with pytest.raises(FileFormatError, match="Got 5, which"):
        read_inaturalist(tmp_path)


@pytest.mark.parametrize("name", sorted(SOURCES))
def test_every_missing_data_set_says_where_to_get_it(tmp_path, name):
    for root in (tmp_path, None):
        with pytest.raises(FileFormatError) as caught:
            open_data(name, root)
        assert SOURCES[name] in str(caught.value)
        what = f"the folder of {name}" if name != "folder" else "a folder of images, by part and"
        assert str(caught.value).startswith(f"`root` must be {what}")


@pytest.mark.parametrize("name", ["digits", "moons", "circles"])
def test_data_at_hand_are_the_same_every_time(name):
    one, other = open_data(name), open_data(name)
    assert name in data_names()
    assert np.array_equal(one.train_images, other.train_images)
    assert np.array_equal(one.test_labels, other.test_labels)


def test_digits_are_balanced():
    assert open_data("digits").class_counts.tolist() == [114] * 10


def test_the_toy_sets_are_nine_to_one():
    data = open_data("circles")
    assert data.flat
    assert data.class_counts.tolist() == [2500, 277]


def test_an_unknown_name_is_answered_by_the_nearest():
    with pytest.raises(OptionError, match="Did you mean 'cifar10'"):
        open_data("cifar-10")


def test_labels_must_fit_the_images():
    x = np.zeros((3, 2, 2, 1), np.uint8)
    with pytest.raises(LabelsError, match="2 labels and 3 images"):
        ImageData("x", x, np.zeros(2, int), x, np.zeros(3, int), ["a", "b"])
