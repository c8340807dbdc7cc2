"""CIFAR-10 and CIFAR-100 from the official archives, binary or python version."""

from __future__ import annotations

import reprlib
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from reprior.exceptions import FileFormatError
from reprior.files import regular_file
from reprior_lab.data.images import ImageData, missing_data
from reprior_lab.data.pickles import read_pickle

__all__ = ["MEAN", "STD", "read_cifar"]


Array: TypeAlias = np.ndarray[Any, Any]

SIDE = 32
PIXELS = 3 * SIDE * SIDE

#: Statistics of CIFAR-10's training images; the reference code normalises both sets with them.
MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)


class _Layout(NamedTuple):
    """Names of the folders, files and keys in the archives of one data set."""

    binary: str
    python: str
    train: tuple[str, ...]
    test: str
    meta: tuple[str, str]  # files of the class names: binary, python
    keys: tuple[bytes, bytes]  # of the python version: labels, class names
    label_bytes: int
    n_classes: int


_LAYOUTS = {
    "cifar10": _Layout(
        "cifar-10-batches-bin",
        "cifar-10-batches-py",
        tuple(f"data_batch_{i}" for i in range(1, 6)),
        "test_batch",
        ("batches.meta.txt", "batches.meta"),
        (b"labels", b"label_names"),
        1,
        10,
    ),
    "cifar100": _Layout(
        "cifar-100-binary",
        "cifar-100-python",
        ("train",),
        "test",
        ("fine_label_names.txt", "meta"),
        (b"fine_labels", b"fine_label_names"),
        2,
        100,
    ),
}


def read_cifar(name: str, root: Path) -> ImageData:
    """Return ``cifar10`` or ``cifar100`` from the folder its archive was unpacked in.

    ``root`` is the folder with ``cifar-10-batches-bin`` or ``cifar-10-batches-py`` in it
    (``cifar-100-binary``, ``cifar-100-python``), or that folder itself. Of CIFAR-100 the 100 fine
    classes are taken.

    Examples
    --------
    >>> from pathlib import Path
    >>> read_cifar("cifar10", Path("nowhere"))
    Traceback (most recent call last):
    ...
    reprior.exceptions.FileFormatError: `root` must be the folder of cifar10. Got 'nowhere', which
    has no cifar-10-batches-bin and no cifar-10-batches-py. Get ...
    """
    layout = _LAYOUTS[name]
    for folder in (root / layout.binary, root):
        if (folder / f"{layout.test}.bin").is_file():
            return _data(name, *_read_binary(folder, layout))
    for folder in (root / layout.python, root):
        if (folder / layout.test).is_file():
            return _data(name, *_read_python(folder, layout))
    raise missing_data(name, root, f"which has no {layout.binary} and no {layout.python}")


def _data(name: str, train: list[Any], test: tuple[Any, Any], classes: list[str]) -> ImageData:
    images, labels = (np.concatenate(parts) for parts in zip(*train, strict=True))
    return ImageData(
        name, images, labels, test[0], test[1], classes, MEAN, STD, padding=4, flip=True
    )


def _read_binary(folder: Path, layout: _Layout) -> tuple[list[Any], tuple[Any, Any], list[str]]:
    train = [_binary_batch(folder / f"{part}.bin", layout) for part in layout.train]
    test = _binary_batch(folder / f"{layout.test}.bin", layout)
    names = folder / layout.meta[0]
    lines = names.read_bytes().split() if names.is_file() else []
    return train, test, _class_names(names, lines, layout)


def _binary_batch(path: Path, layout: _Layout) -> tuple[Array, Array]:
    """Read records of label bytes (the last is the fine label) and three colour planes."""
    record = layout.label_bytes + PIXELS
    data = np.fromfile(regular_file(path), np.uint8)
    if not data.size or data.size % record:
        raise FileFormatError(
            f"A binary CIFAR file must be records of {record} bytes. Got {data.size} bytes in "
            f"{path}. It is truncated: unpack the archive again."
        )
    data = data.reshape(-1, record)
    labels = data[:, layout.label_bytes - 1]
    return _images(data[:, layout.label_bytes :]), _labels(labels, path, layout)


def _read_python(folder: Path, layout: _Layout) -> tuple[list[Any], tuple[Any, Any], list[str]]:
    train = [_python_batch(folder / part, layout) for part in layout.train]
    test = _python_batch(folder / layout.test, layout)
    meta = folder / layout.meta[1]
    names = read_pickle(meta).get(layout.keys[1], []) if meta.is_file() else []
    return train, test, _class_names(meta, names, layout)


def _python_batch(path: Path, layout: _Layout) -> tuple[Array, Array]:
    batch = read_pickle(path)
    pixels: Any = batch.get(b"data")
    labels = _whole_numbers(batch.get(layout.keys[0], ()), path)
    fits = isinstance(pixels, np.ndarray) and pixels.dtype == np.uint8
    if not fits or pixels.shape != (labels.size, PIXELS):
        raise FileFormatError(
            f"A python CIFAR batch must have `data` of uint8 (N, {PIXELS}) and N labels. Got "
            f"{labels.size} labels and data of shape {getattr(pixels, 'shape', None)} in {path}. "
            f"Unpack the archive again."
        )
    return _images(pixels), _labels(labels, path, layout)


def _whole_numbers(labels: Any, path: Path) -> Array:
    """Return the labels of a pickle as an array; refuse anything but a list of integers."""
    if isinstance(labels, np.ndarray) and labels.ndim == 1:
        labels = labels.tolist()
    listed = isinstance(labels, list | tuple)
    strange = [each for each in labels if type(each) is not int] if listed else [labels]
    if strange:
        raise FileFormatError(
            f"Labels of a python CIFAR batch must be a list of whole numbers. Got a "
            f"{type(strange[0]).__name__} in {path}. Unpack the archive again."
        )
    return np.asarray(labels, object)  # integers of any size: the caller checks the range


def _images(planes: Array) -> Array:
    """Return colour planes as images (N, H, W, C)."""
    return np.ascontiguousarray(planes.reshape(-1, 3, SIDE, SIDE).transpose(0, 2, 3, 1))


def _labels(labels: Array, path: Path, layout: _Layout) -> Array:
    strange = labels[(labels < 0) | (labels >= layout.n_classes)]
    if strange.size:
        label = strange[0] if abs(int(strange[0])) < 10**20 else "a number of more than 20 digits"
        raise FileFormatError(
            f"Labels of CIFAR must be from 0 to below {layout.n_classes}. Got {label} in "
            f"{path}. Take the archive of this data set: CIFAR-10 and CIFAR-100 differ."
        )
    return labels.astype(np.int64)


def _class_names(path: Path, found: Any, layout: _Layout) -> list[str]:
    """Return the names in a file, as bytes; numbers where there is not one for each class."""
    try:
        names = [name.decode() for name in found]
    except (AttributeError, TypeError, UnicodeDecodeError) as error:
        raise FileFormatError(
            f"Names of classes must be text in UTF-8. Got {reprlib.repr(found)} in {path}. Unpack "
            f"the archive again."
        ) from error
    whole = len(names) == layout.n_classes
    return names if whole else [str(k) for k in range(layout.n_classes)]
