"""CIFAR from both official archives, made here as their publisher lays them out."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from reprior.exceptions import FileFormatError
from reprior.experiments.data import open_data
from reprior.experiments.data.cifar import read_cifar
from reprior.experiments.data.pickles import read_pickle

N = 6


def images(seed):
    return np.random.default_rng(seed).integers(0, 256, (N, 32, 32, 3), dtype=np.uint8)


def planes(x):
    return x.transpose(0, 3, 1, 2).reshape(len(x), -1)


def binary10(root):
    folder = root / "cifar-10-batches-bin"
    folder.mkdir(parents=True)
    names = [f"data_batch_{i}" for i in range(1, 6)] + ["test_batch"]
    for seed, name in enumerate(names):
        labels = np.arange(N, dtype=np.uint8)[:, None]
        np.concatenate([labels, planes(images(seed))], axis=1).tofile(folder / f"{name}.bin")
    (folder / "batches.meta.txt").write_text("\n".join(f"name{k}" for k in range(10)) + "\n\n")
    return folder


def python10(root, protocol=2):
    folder = root / "cifar-10-batches-py"
    folder.mkdir(parents=True)
    names = [f"data_batch_{i}" for i in range(1, 6)] + ["test_batch"]
    for seed, name in enumerate(names):
        batch = {b"data": planes(images(seed)), b"labels": list(range(N)), b"batch_label": b"x"}
        (folder / name).write_bytes(pickle.dumps(batch, protocol))
    meta = {b"label_names": [b"name%d" % k for k in range(10)]}
    (folder / "batches.meta").write_bytes(pickle.dumps(meta, protocol))
    return folder


def test_binary_and_python_archives_are_the_same(tmp_path):
    binary10(tmp_path / "a")
    python10(tmp_path / "b")
    one, other = (read_cifar("cifar10", tmp_path / part) for part in "ab")
    assert np.array_equal(one.train_images, np.concatenate([images(i) for i in range(5)]))
    assert np.array_equal(one.test_images, images(5))
    for name in ("train_images", "train_labels", "test_images", "test_labels", "class_names"):
        assert np.array_equal(getattr(one, name), getattr(other, name))
    assert list(one.class_names) == [f"name{k}" for k in range(10)]


@pytest.mark.parametrize("make", [binary10, python10])
def test_the_inner_folder_will_do(tmp_path, make):
    assert len(read_cifar("cifar10", make(tmp_path)).test_labels) == N


def test_text_of_python_2_is_read(tmp_path):
    path = tmp_path / "batch"
    path.write_bytes(b"\x80\x02}q\x00U\x06labelsq\x01]q\x02(K\x03K\x01es.")
    assert read_pickle(path) == {b"labels": [3, 1]}


def test_no_other_codec_is_called(tmp_path):
    path = tmp_path / "batch"
    path.write_bytes(b"c_codecs\nencode\n(VAAAA\nVzlib\ntR.")
    with pytest.raises(FileFormatError, match=r"_codecs\.encode"):
        read_pickle(path)


@pytest.mark.parametrize("protocol", [0, 1, 2, 3, 4])
def test_pickles_of_every_protocol_are_read(tmp_path, protocol):
    data = read_cifar("cifar10", python10(tmp_path, protocol))
    assert np.array_equal(data.test_images, images(5))


def test_cifar100_takes_the_fine_labels(tmp_path):
    folder = tmp_path / "cifar-100-binary"
    folder.mkdir()
    labels = np.array([[19, 99], [3, 42], [0, 7], [1, 1], [2, 5], [4, 98]], np.uint8)
    for seed, name in enumerate(("train", "test")):
        data = np.concatenate([labels, planes(images(seed))], axis=1)
        data.tofile(folder / f"{name}.bin")
    data = open_data("cifar100", tmp_path)
    assert data.test_labels.tolist() == [99, 42, 7, 1, 5, 98]
    assert data.n_classes == 100
    assert data.class_names[42] == "42"


def test_cifar100_python(tmp_path):
    folder = tmp_path / "cifar-100-python"
    folder.mkdir()
    batch = {b"data": planes(images(0)), b"fine_labels": [99] * N, b"coarse_labels": [1] * N}
    for name in ("train", "test"):
        (folder / name).write_bytes(pickle.dumps(batch, 2))
    assert open_data("cifar100", tmp_path).train_labels.tolist() == [99] * N


def test_a_truncated_file_is_refused(tmp_path):
    folder = binary10(tmp_path)
    path = folder / "data_batch_3.bin"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(FileFormatError, match="records of 3073 bytes"):
        read_cifar("cifar10", tmp_path)


def test_a_label_of_another_data_set_is_refused(tmp_path):
    folder = binary10(tmp_path)
    path = folder / "test_batch.bin"
    path.write_bytes(b"\x2a" + path.read_bytes()[1:])
    with pytest.raises(FileFormatError, match=r"below 10\. Got 42"):
        read_cifar("cifar10", tmp_path)


def test_a_batch_without_its_data_is_refused(tmp_path):
    folder = python10(tmp_path)
    (folder / "data_batch_1").write_bytes(pickle.dumps({b"labels": [1]}, 2))
    with pytest.raises(FileFormatError, match="must have `data`"):
        read_cifar("cifar10", tmp_path)


class Malicious:
    """Pickled, it is a call that writes a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (str(self.path), "w"))


def test_a_pickle_that_would_run_code_is_refused_and_runs_nothing(tmp_path):
    folder, victim = python10(tmp_path), tmp_path / "victim"
    (folder / "data_batch_1").write_bytes(pickle.dumps({b"data": Malicious(victim)}, 2))
    with pytest.raises(FileFormatError, match=r"arrays alone\. Got a call of"):
        read_cifar("cifar10", tmp_path)
    assert not victim.exists()


@pytest.mark.parametrize("content", [b"", b"no pickle", pickle.dumps([1]), b"\x80\x02}q\x00"])
def test_what_is_no_pickle_of_a_dictionary_is_refused(tmp_path, content):
    folder = python10(tmp_path)
    (folder / "data_batch_1").write_bytes(content)
    with pytest.raises(FileFormatError, match="Unpack the archive again"):
        read_cifar("cifar10", tmp_path)


@pytest.mark.parametrize("name", ["cifar10", "cifar100"])
def test_missing_data_are_answered_by_where_to_get_them(tmp_path, name):
    with pytest.raises(FileFormatError, match=r"kriz/cifar\.html and unpack it") as caught:
        open_data(name, tmp_path)
    assert str(caught.value).startswith(f"`root` must be the folder of {name}. Got '{tmp_path}'")
