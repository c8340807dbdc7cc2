"""CIFAR from both official archives, made here as their publisher lays them out."""

from __future__ import annotations

import os
import pickle
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.support.child_processes import ended

from reprior.exceptions import FileFormatError
from reprior_lab.data import open_data
from reprior_lab.data.cifar import read_cifar, read_pickle

ROOT = str(Path(__file__).parents[3])
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
        batch[b"filenames"] = [b"%d.png" % i for i in range(1_000)]  # old protocols: a call each
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


# The opcodes of a real batch, as Python 2 and the NumPy of its time wrote them.
RECONSTRUCT = b"cnumpy.core.multiarray\n_reconstruct\n"
EMPTY = RECONSTRUCT + b"cnumpy\nndarray\nK\x00\x85U\x01b\x87R"
UINT8 = b"cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R"
NO_FIELDS = b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xff"
PLAIN_STATE = b"(K\x03U\x01|" + NO_FIELDS + b"K\x00tb"
SHAPE = b"K\x02M\x00\x0c\x86"  # (2, 3072)
PIXELS = bytes(range(256)) * 24


def string(text):
    """A string of Python 2 of any length."""
    return b"T" + len(text).to_bytes(4, "little") + text


DATA = string(PIXELS)


def batch(empty=EMPTY, shape=SHAPE, dtype=UINT8, state=PLAIN_STATE, order=b"\x89", data=DATA):
    array = empty + b"(K\x01" + shape + dtype + state + order + data + b"tb"
    return b"\x80\x02}q\x01(U\x06labelsq\x04]q\x05(K\x06K\x09eU\x04dataq\x06" + array + b"u."


def test_a_batch_as_python_2_wrote_it(tmp_path):
    (tmp_path / "batch").write_bytes(batch())
    found = read_pickle(tmp_path / "batch")
    assert found[b"labels"] == [6, 9]
    assert found[b"data"].dtype == np.uint8
    assert np.array_equal(found[b"data"], np.frombuffer(PIXELS, np.uint8).reshape(2, 3072))


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6, dtype=">i4").reshape(2, 3),
        np.asfortranarray(np.arange(6, dtype="<f8").reshape(2, 3)),
        np.array([True, False]),
        np.array(3.5, np.float16),
        np.zeros((0, 3)),
    ],
)
def test_arrays_of_plain_numbers_are_read(tmp_path, array):
    (tmp_path / "batch").write_bytes(pickle.dumps({b"data": array}, 3))
    found = read_pickle(tmp_path / "batch")[b"data"]
    assert (found.dtype, found.shape) == (array.dtype, array.shape)
    assert np.array_equal(found, array)


def dtype_state(order=b"U\x01|", fields=NO_FIELDS, flags=b"K\x00"):
    return b"(K\x03" + order + fields + flags + b"tb"


OBJECTS = UINT8.replace(b"u1", b"O8")
HOSTILE = {
    "objects": batch(dtype=OBJECTS),
    "objects in a list": batch(dtype=OBJECTS, data=b"](K\x01K\x02e"),
    # NumPy takes raw bytes for pointers where these flags say that the numbers are objects.
    "flags": batch(state=dtype_state(flags=b"K\x3f")),
    "size": batch(state=dtype_state(fields=b"NNNM\x00\x10J\xff\xff\xff\xff")),
    "sub-array": batch(
        state=dtype_state(fields=b"cnumpy\ndtype\nU\x02u1K\x00K\x01\x87RK\x02\x86NNK\x02K\x01")
    ),
    "fields": batch(state=dtype_state(fields=b"NU\x01a\x85}J\xff\xff\xff\xffJ\xff\xff\xff\xff")),
    "byte order": batch(state=dtype_state(order=b"U\x01O")),
    "state of another version": batch(state=b"(K\x04" + dtype_state()[3:]),
    "no tuple as state": batch(state=b"}U\x05flagsK\x3fsb"),
    "aligned": batch(dtype=UINT8.replace(b"K\x00", b"K\x01")),
    "strings": batch(dtype=UINT8.replace(b"u1", b"S9")),
    "records": batch(dtype=UINT8.replace(b"u1", b"V9")),
    "no dtype": batch(dtype=b"U\x02u1", state=b""),
    "too short": batch(data=string(PIXELS[:-1])),
    "too long": batch(data=string(PIXELS + b"0")),
    "text for bytes": batch(data=b"X\x02\x00\x00\x00ab"),
    "negative shape": batch(shape=b"J\xfe\xff\xff\xffJ\x00\xf4\xff\xff\x86"),
    "shape that overflows": batch(shape=b"\x8a\x09" + bytes(8) + b"\x01K\x01\x86"),
    "boolean shape": batch(shape=b"\x88M\x00\x0c\x86"),
    "no shape": batch(shape=b"M\x00\x18"),
    "order": batch(order=b"K\x07"),
    "two states of a dtype": batch(state=PLAIN_STATE + dtype_state(flags=b"K\x3f")),
    "no ndarray": batch(empty=EMPTY.replace(b"cnumpy\nndarray\n", b"cnumpy\ndtype\n")),
    "ndarray called": batch(empty=b"cnumpy\nndarray\nK\x02\x85U\x02u1\x86R"),
    "another global": batch(empty=b"cnumpy\nmemmap\nU\x01x\x85R"),
    "attributes of a function": batch(empty=RECONSTRUCT),
    "attributes of a codec": b"\x80\x02}U\x01xc_codecs\nencode\nN}U\x01aK\x01s\x86bs.",
    "array without a state": b"\x80\x02}U\x01x" + EMPTY + b"s.",
    "array in a list": b"\x80\x02}U\x01x]" + EMPTY + b"as.",
    "deep tuples": b"\x80\x02})" + b"\x85" * 1_000_000 + b"K\x01s.",
    # 268 MB in every interpreter that fills a memo up to its largest index.
    "memo of a far index": b"\x80\x02}r\xff\xff\xff\x00.",
    "memo of a far index as text": b"}p99999999\n.",
    "deep tuples in the memo": b"\x80\x02})" + b"\x85q\x01" * 1_000_000 + b"K\x01s.",
    "deep tuples as arguments": b"\x80\x02})q\x01"
    + b"c_codecs\nencode\nh\x01\x85q\x01R" * 1_000
    + b"h\x01K\x01s.",
}


@pytest.mark.parametrize("content", HOSTILE.values(), ids=HOSTILE)
def test_hostile_arrays_are_refused(tmp_path, content):
    # Some of them crash an interpreter that gives them to NumPy.
    (tmp_path / "batch").write_bytes(content)
    with pytest.raises(FileFormatError, match=r"^A data file must .* Got .*/batch\. .*archive"):
        read_pickle(tmp_path / "batch")


def test_an_array_says_what_is_wrong_with_it(tmp_path):
    (tmp_path / "batch").write_bytes(HOSTILE["too short"])
    with pytest.raises(FileFormatError, match=r"Got 6143 bytes for an array of 6144 bytes in"):
        read_pickle(tmp_path / "batch")


MUTATE = """
import pickle
import pickletools
import random
import sys
from pathlib import Path

import numpy as np
from lab.tests.data.test_cifar import batch
from reprior.exceptions import FileFormatError
from reprior_lab.data.pickles import read_pickle

content = {b"data": np.arange(48, dtype=np.uint8).reshape(2, 24), b"labels": [1, 2]}
content |= {b"batch_label": b"x", b"filenames": [b"a.png"] * 3, b"mean": np.arange(3.0)}
valid = [batch(), *(pickle.dumps(content, protocol) for protocol in range(5))]
codes = [code.code.encode("latin1") for code in pickletools.opcodes]
rng = random.Random(int(sys.argv[1]))
refused = 0
for case in range(int(sys.argv[2])):
    data = bytearray(rng.choice(valid))
    for _ in range(rng.randint(1, 5)):
        # Most positions of a batch are pixels; its program is before and behind them.
        near = [rng.randrange(min(len(data), 220)), len(data) - 1 - rng.randrange(60)]
        position = rng.choice([*near, rng.randrange(len(data))])
        match rng.randrange(5):
            case 0:
                data[position : position + 1] = rng.choice(codes)
            case 1:
                data[position] = rng.choice([0, 127, 128, 255, rng.randrange(256)])
            case 2 if len(data) > 100:
                del data[position : position + rng.randint(1, 8)]
            case 3:
                data[position:position] = rng.choice(codes)
            case 4:
                start = rng.randrange(len(data))
                data[position:position] = data[start : start + rng.randint(1, 40)]
    Path("batch").write_bytes(data)
    try:
        for value in read_pickle(Path("batch")).values():
            repr(value.sum() if isinstance(value, np.ndarray) else value)
    except FileFormatError:
        refused += 1
    except Exception as error:
        raise AssertionError(f"case {case}") from error
print(refused)
"""


def test_mutated_batches_do_not_crash_the_interpreter(tmp_path):
    done = ended(
        [sys.executable, "-X", "faulthandler", "-c", MUTATE, "0", "3000"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": ROOT},
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 1500


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


@pytest.mark.parametrize(
    "label, sentence",
    [
        ("x", "must be a list of whole numbers"),
        (None, "must be a list of whole numbers"),
        (1.7, "must be a list of whole numbers"),
        (True, "must be a list of whole numbers"),
        pytest.param(
            10**5000, r"must be from 0 to below 10\. Got a number of more than 20 digits", id="huge"
        ),
        (2**63, r"must be from 0 to below 10\. Got 9223372036854775808"),
        (10, r"must be from 0 to below 10\. Got 10"),
        (-1, r"must be from 0 to below 10\. Got -1"),
    ],
)
@pytest.mark.parametrize("n_others", [0, N - 1])
def test_labels_of_a_batch_are_whole_numbers_in_range(tmp_path, label, sentence, n_others):
    folder = python10(tmp_path)
    labels = [label] + [1] * n_others
    batch = {b"data": planes(images(0))[: len(labels)], b"labels": labels}
    (folder / "data_batch_1").write_bytes(pickle.dumps(batch, 2))
    with pytest.raises(FileFormatError, match=sentence):
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


@pytest.mark.parametrize("names", [5, [5], [None] * 10, [b"\xff"] * 10])
def test_names_of_classes_are_text(tmp_path, names):
    folder = python10(tmp_path)
    (folder / "batches.meta").write_bytes(pickle.dumps({b"label_names": names}, 2))
    with pytest.raises(FileFormatError, match=r"Names of classes must be text in UTF-8\. Got"):
        read_cifar("cifar10", tmp_path)


def test_names_of_classes_in_a_text_file_are_text(tmp_path):
    (binary10(tmp_path) / "batches.meta.txt").write_bytes(b"\xff\n" * 10)
    with pytest.raises(FileFormatError, match=r"Names of classes must be text in UTF-8\. Got"):
        read_cifar("cifar10", tmp_path)


@pytest.mark.parametrize("name", ["cifar10", "cifar100"])
def test_missing_data_are_answered_by_where_to_get_them(tmp_path, name):
    with pytest.raises(FileFormatError, match=r"kriz/cifar\.html and unpack it") as caught:
        open_data(name, tmp_path)
    assert str(caught.value).startswith(f"`root` must be the folder of {name}. Got '{tmp_path}'")
