"""A data set of the lab: labelled images, or flat features, in two or three parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np

from reprior.exceptions import FileFormatError, LabelsError
from reprior_lab.data.imbalance import imbalanced_indices

__all__ = ["SOURCES", "ImageData", "LazyImages", "missing_data"]

Array: TypeAlias = np.ndarray[Any, Any]

#: Where to get each data set, and what ``root`` must then hold.
SOURCES = {
    "cifar10": "Get cifar-10-binary.tar.gz or cifar-10-python.tar.gz from "
    "https://www.cs.toronto.edu/~kriz/cifar.html and unpack it in that folder.",
    "cifar100": "Get cifar-100-binary.tar.gz or cifar-100-python.tar.gz from "
    "https://www.cs.toronto.edu/~kriz/cifar.html and unpack it in that folder.",
    "fashion_mnist": "Get the four files train-images-idx3-ubyte.gz, train-labels-idx1-ubyte.gz, "
    "t10k-images-idx3-ubyte.gz and t10k-labels-idx1-ubyte.gz from "
    "https://github.com/zalandoresearch/fashion-mnist and put them in that folder, as they are "
    "or unpacked.",
    "inaturalist2018": "Get train2018.json, val2018.json and train_val2018.tar.gz from "
    "https://github.com/visipedia/inat_comp/tree/master/2018 and unpack them in that folder, so "
    "that it holds both JSON files and train_val2018/.",
    "folder": "Lay it out as train/CLASS/IMAGE and test/CLASS/IMAGE. A third part to tune on, "
    "validation/CLASS/IMAGE, may be there; without it the test part is halved. A folder val is "
    "taken for validation, or for test where there is no test.",
}


@runtime_checkable
class LazyImages(Protocol):
    """Images that stay on disk until a batch needs them."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of all images as an array, (N, H, W, C)."""

    def __len__(self) -> int: ...

    def subset(self, index: Array) -> LazyImages:
        """Return some of the images, without reading them."""

    def take(self, index: Array, draws: Array | None = None) -> Array:
        """Return images as uint8 (n, H, W, C).

        ``draws`` (n, 5) are uniform random numbers of a training batch, which determine a random
        crop. Without them the centre is cropped.
        """


@dataclass(frozen=True, eq=False)
class ImageData:
    """A data set.

    Parameters
    ----------
    name : str
        Its name.
    train_images, test_images : uint8 (N, H, W, C), float32 (N, D), or LazyImages
        Images, or flat features.
    train_labels, test_labels : int64 (N,)
        Class indices.
    class_names : sequence of str
        One for each class.
    mean, std : sequence of float
        Statistics of the training images' channels, on the scale 0 to 1, for normalisation.
    validation_images, validation_labels : optional
        A part to tune on, if the data set has one.
    padding : int, default 0
        Width of the margin that random crops of training images may include.
    flip : bool, default False
        Whether training images are mirrored at random.
    """

    name: str
    train_images: Any
    train_labels: Array
    test_images: Any
    test_labels: Array
    class_names: Sequence[str]
    mean: Sequence[float] = ()
    std: Sequence[float] = ()
    validation_images: Any = None
    validation_labels: Array | None = None
    padding: int = 0
    flip: bool = False

    def __post_init__(self) -> None:
        for part in ("train", "validation", "test"):
            images, labels = getattr(self, f"{part}_images"), getattr(self, f"{part}_labels")
            if images is None:
                continue
            if len(images) != len(labels):
                raise LabelsError(
                    argument=f"{part}_labels",
                    rule="must have a label for every image",
                    got=f"{len(labels)} labels and {len(images)} images",
                    remedy="Read both from the same files.",
                )

    @property
    def n_classes(self) -> int:
        """K."""
        return len(self.class_names)

    @property
    def class_counts(self) -> Array:
        """Training samples of each class, (K,)."""
        return np.bincount(self.train_labels, minlength=self.n_classes)

    @property
    def flat(self) -> bool:
        """Whether samples are feature vectors, not images."""
        return len(self.train_images.shape) == 2

    @property
    def n_channels(self) -> int:
        """Channels of an image, or features."""
        return int(self.train_images.shape[-1])

    def imbalanced(self, kind: str, ratio: float) -> ImageData:
        """Return the data set with fewer training samples of some classes.

        Examples
        --------
        >>> import numpy as np
        >>> x, y = np.zeros((8, 2, 2, 1), np.uint8), np.array([0, 0, 0, 0, 1, 1, 1, 1])
        >>> data = ImageData("tiny", x, y, x, y, ["a", "b"])
        >>> data.imbalanced("exp", 4).class_counts
        array([4, 1])
        """
        index = imbalanced_indices(self.train_labels, kind, ratio)
        if index.size == len(self.train_labels):
            return self
        return replace(
            self,
            train_images=_some(self.train_images, index),
            train_labels=self.train_labels[index],
        )


def _some(images: Any, index: Array) -> Any:
    return images[index] if isinstance(images, np.ndarray) else images.subset(index)


def missing_data(name: str, root: Path | None, found: str) -> FileFormatError:
    """Return the error for a missing data set, which says where to get it.

    Examples
    --------
    >>> str(missing_data("folder", Path("pets"), "which is no folder"))  # doctest: +ELLIPSIS
    "`root` must be a folder of images, by part and class. Got 'pets', which is no folder. Lay ..."
    """
    got = "none" if root is None else repr(str(root))
    what = "a folder of images, by part and class" if name == "folder" else f"the folder of {name}"
    return FileFormatError(
        argument="root",
        rule=f"must be {what}",
        got=f"{got}, {found}",
        remedy=SOURCES[name],
    )
