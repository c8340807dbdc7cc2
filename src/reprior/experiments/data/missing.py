"""Say where a data set that is not there can be had, and how to lay it out."""

from __future__ import annotations

from pathlib import Path

from reprior.exceptions import FileFormatError

__all__ = ["SOURCES", "missing_data"]

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


def missing_data(name: str, root: Path | None, found: str) -> FileFormatError:
    """Return the error that answers a missing data set.

    Examples
    --------
    >>> str(missing_data("folder", Path("pets"), "which is no folder"))  # doctest: +ELLIPSIS
    "`root` must be a folder of images, by part and class. Got 'pets', which is no folder. Lay ..."
    """
    got = "none" if root is None else repr(str(root))
    what = "a folder of images, by part and class" if name == "folder" else f"the folder of {name}"
    return FileFormatError(f"`root` must be {what}. Got {got}, {found}. {SOURCES[name]}")
