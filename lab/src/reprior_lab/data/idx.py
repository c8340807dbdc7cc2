"""Read Fashion-MNIST and other IDX files, compressed with gzip or not."""

from __future__ import annotations

import gzip
import math
import zlib
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from reprior.exceptions import FileFormatError
from reprior.files import regular_file
from reprior_lab.data.images import ImageData, missing_data

__all__ = ["read_fashion_mnist", "read_idx"]

Array: TypeAlias = np.ndarray[Any, Any]

CLOTHES = (
    "T-shirt/top",
    "Trouser",
    "Pullover",
    "Dress",
    "Coat",
    "Sandal",
    "Shirt",
    "Sneaker",
    "Bag",
    "Ankle boot",
)

#: Bytes of a file, unpacked: five times those of Fashion-MNIST's training images.
MOST_BYTES = 1 << 28

#: The code of uint8 in the third byte of the header.
UINT8 = 8


def read_idx(path: Path) -> Array:
    r"""Return the uint8 array of an IDX file.

    Examples
    --------
    >>> path = getfixture("tmp_path") / "labels-idx1-ubyte"
    >>> _ = path.write_bytes(bytes([0, 0, 8, 1, 0, 0, 0, 3, 7, 0, 9]))
    >>> read_idx(path)
    array([7, 0, 9], dtype=uint8)
    """
    try:
        with (gzip.open if path.suffix == ".gz" else open)(regular_file(path), "rb") as file:
            data = file.read(MOST_BYTES + 1)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise _broken(path, f"{error}") from error
    if len(data) > MOST_BYTES:
        raise _broken(path, f"more than {MOST_BYTES:,} bytes")
    if len(data) < 4 or data[:2] != b"\0\0" or data[2] != UINT8:
        raise _broken(path, f"the first bytes {data[:4]!r}")
    start = 4 + 4 * data[3]
    shape = tuple(int(n) for n in np.frombuffer(data[4:start], ">u4"))
    if len(shape) != data[3] or len(data) - start != math.prod(shape):
        raise _broken(path, f"{max(len(data) - start, 0)} bytes for the shape {shape}")
    return np.frombuffer(data, np.uint8, offset=start).reshape(shape)


def _broken(path: Path, what: str) -> FileFormatError:
    return FileFormatError(
        f"An IDX file must be a header of uint8 data and all of its data. Got {what} in {path}. "
        f"Fetch the file again."
    )


def read_fashion_mnist(root: Path) -> ImageData:
    """Return Fashion-MNIST from the folder that holds its four files.

    Examples
    --------
    >>> from pathlib import Path
    >>> read_fashion_mnist(Path("nowhere"))
    Traceback (most recent call last):
    ...
    reprior.exceptions.FileFormatError: `root` must be the folder of fashion_mnist. Got 'nowhere',
    which has no train-images-idx3-ubyte. Get ...
    """
    parts: list[Any] = []
    for part in ("train", "t10k"):
        images = read_idx(_file(root, f"{part}-images-idx3-ubyte"))
        labels = read_idx(_file(root, f"{part}-labels-idx1-ubyte")).astype(np.int64)
        if images.ndim != 3 or labels.ndim != 1 or (labels.size and labels.max() >= len(CLOTHES)):
            raise _broken(root, f"images of shape {images.shape}, labels of shape {labels.shape}")
        parts += [images[..., np.newaxis], labels]
    return ImageData(
        "fashion_mnist",
        parts[0],
        parts[1],
        parts[2],
        parts[3],
        CLOTHES,
        (0.2860,),
        (0.3530,),
        padding=2,
        flip=True,
    )


def _file(root: Path, name: str) -> Path:
    for path in (root / name, root / f"{name}.gz"):
        if path.is_file():
            return path
    raise missing_data("fashion_mnist", root, f"which has no {name}")
