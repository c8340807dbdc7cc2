"""``reprior reproduce datasets``: Table 1 of the paper, counted from the data."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from reprior.exceptions import FileFormatError, OptionError
from reprior_lab.paper import paper_note, paper_rows, paper_value, paper_words
from reprior_lab.reproduction import Progress, Reproduction
from reprior_lab.tables import NOTHING, Cell, Table, write_table
from reprior_lab.training.runfile import installed_versions, write_json

__all__ = ["reproduce"]

Vector: TypeAlias = np.ndarray[Any, Any]

NAME = "datasets"
FORMAT_VERSION = 1

#: The seed of the toy sets; their sizes do not depend on it.
SEED = 0

#: For each CIFAR data set: training images per class, and the folders of its archives.
CIFAR = {
    "cifar10": (5000, 10, ("cifar-10-batches-bin", "cifar-10-batches-py")),
    "cifar100": (500, 100, ("cifar-100-binary", "cifar-100-python")),
}
#: The annotations of iNaturalist 2018, which are enough to count it.
INATURALIST = "train2018.json"
IMBALANCES = (("exp", 100), ("exp", 10), ("step", 100), ("step", 10))

#: The label images of training: the drives of the paper, and a smaller set that is easier to get,
#: which the paper does not use.
SYNTHIA = {
    "synthia": tuple(
        f"SYNTHIA-SEQS-05-{drive}/GT/LABELS/**/*.png"
        for drive in ("DAWN", "SUMMER", "NIGHT", "SUNSET")
    ),
    "synthia_sf": ("SYNTHIA-SF/train/GT/*.png", "SYNTHIA-SF/SEQ*/GTLeft/*.png"),
}

_TITLES = {
    "moons": "Two moons",
    "circles": "Circles",
    "cifar10": "CIFAR-10",
    "cifar100": "CIFAR-100",
    "inaturalist2018": "iNaturalist 2018",
    "synthia": "SYNTHIA-Sequences",
    "synthia_sf": "SYNTHIA-SF (not the paper's)",
}
_COLUMNS = (
    "dimension",
    "classes",
    "largest class",
    "imbalance",
    "ratio",
    "training samples",
    "counted from",
)


@dataclass(frozen=True, eq=False)
class _Counted:
    """The counts of the training part of a data set, as far as they are known.

    Parameters
    ----------
    key : str
        The row of the paper's table.
    title : str
        The printed name.
    dimension : str
        The dimension of a sample.
    counts : ndarray of shape (K,), optional
        Training samples of each class; None if the data are missing.
    origin : str
        The origin of the counts, or what is needed for them.
    """

    key: str
    title: str
    dimension: str
    counts: Vector | None
    origin: str

    def numbers(self) -> dict[str, float]:
        """Return the numbers behind the table; empty if nothing was counted."""
        if self.counts is None:
            return {}
        largest, smallest = int(self.counts.max()), int(self.counts.min())
        return {
            "n_classes": self.counts.size,
            "largest": largest,
            "smallest": smallest,
            "ratio": largest / smallest,
            "total": int(self.counts.sum()),
        }


def reproduce(
    folder: Path,
    *,
    root: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> Reproduction:
    """Count the training part of each data set of the paper, and write Table 1.

    Parameters
    ----------
    folder : path
        Gets ``datasets.md``, ``datasets.tex``, ``datasets.json`` and ``datasets.run.json``.
    root : path, optional
        The folder that holds the unpacked archives: of CIFAR-10 and CIFAR-100, whose counts are
        otherwise those of the published class sizes, ``train2018.json`` of iNaturalist, whose
        counts are otherwise the published ones, and of SYNTHIA, which otherwise has none.
    progress : callable, optional
        Receives the progress.

    Examples
    --------
    >>> found = reproduce(getfixture("tmp_path"))
    >>> [path.name for path in found.files]
    ['datasets.md', 'datasets.tex', 'datasets.json', 'datasets.run.json']
    """
    home = Path(folder)
    where = None if root is None else _checked(Path(root))
    counted: list[_Counted] = []
    steps = ("moons", "circles", *CIFAR, "inaturalist2018", *SYNTHIA)
    for done, name in enumerate(steps):
        if progress is not None:
            progress(f"counting {_TITLES[name]}", done, len(steps))
        counted += _count(name, where)
    if progress is not None:
        progress("counted", len(steps), len(steps))
    table = _table(counted)
    files = write_table(table, home)
    path = home / f"{NAME}.run.json"
    write_json(path, _document(counted))
    return Reproduction((table,), (*files, path), table.notes)


def _checked(root: Path) -> Path:
    """Refuse a root without any of the data sets: it is probably mistyped."""
    known = [name for _, _, names in CIFAR.values() for name in names]
    has_data = any((root / name).is_dir() for name in known) or (root / INATURALIST).is_file()
    if not has_data and not any(_label_images(root, name) for name in SYNTHIA):
        raise FileFormatError(
            argument="root",
            rule="must hold a data set of the paper",
            got=f"{str(root)!r}, which has none of {', '.join(known)}, {INATURALIST}, "
            "SYNTHIA-SEQS-05-… and SYNTHIA-SF",
            remedy="Pass the folder the archives were unpacked in, or leave it out: "
            "the sizes of CIFAR's classes are published.",
        )
    return root


def _count(name: str, root: Path | None) -> Iterator[_Counted]:
    if name in CIFAR:
        yield from _cifar(name, root)
    elif name in SYNTHIA:
        yield from _synthia(name, root)
    elif name == "inaturalist2018":
        yield _inaturalist(name, root)
    else:
        from reprior_lab.data.sklearn_sets import make_toy

        data = make_toy(name, SEED)
        yield _Counted(name, _TITLES[name], str(data.n_channels), data.class_counts, "the data")


def _cifar(name: str, root: Path | None) -> Iterator[_Counted]:
    from reprior_lab.data.cifar import SIDE, read_cifar
    from reprior_lab.data.imbalance import imbalance_counts, imbalanced_indices

    n_max, n_classes, folders = CIFAR[name]
    labels, dimension, origin = None, f"{SIDE}×{SIDE}×3", "the published class sizes"
    if root is not None and any((root / each).is_dir() for each in folders):
        data = read_cifar(name, root)
        labels, origin = data.train_labels, "the data"
        dimension = "×".join(str(size) for size in data.train_images.shape[1:])
    for kind, ratio in IMBALANCES:
        if labels is None:
            counts = imbalance_counts(n_max, n_classes, kind, ratio)
        else:
            kept = imbalanced_indices(labels, kind, ratio)
            counts = np.bincount(labels[kept], minlength=n_classes)
        title = f"{_TITLES[name]} {kind}-{ratio}"
        yield _Counted(f"{name}-{kind}{ratio}", title, dimension, counts, origin)


def _inaturalist(name: str, root: Path | None) -> _Counted:
    from reprior_lab.data.inaturalist import count_inaturalist, inaturalist_counts

    if root is not None and (root / INATURALIST).is_file():
        all_counts = count_inaturalist(root)
        counts = all_counts[all_counts > 0]  # of a part of it, the classes it has
        origin = INATURALIST
    else:
        counts, origin = inaturalist_counts(), "the published annotations"
    return _Counted(name, _TITLES[name], "many sizes", counts, origin)


def _synthia(name: str, root: Path | None) -> Iterator[_Counted]:
    paths = [] if root is None else _label_images(root, name)
    if paths:
        dimension, counts = _pixels(paths)
        yield _Counted(name, _TITLES[name], dimension, counts, f"{len(paths):,} label images")
    elif name in paper_rows(NAME):
        yield _Counted(name, _TITLES[name], NOTHING, None, "nothing: its images are not there")


def _label_images(root: Path, name: str) -> list[Path]:
    return sorted(path for pattern in SYNTHIA[name] for path in root.glob(pattern))


def _pixels(paths: Sequence[Path]) -> tuple[str, Vector]:
    """Return the size of label images, and the pixels of each class that occurs; id 0 is void."""
    from reprior_lab.synthia.png16 import first_channel

    counts: Counter[int] = Counter()
    shapes = set()
    for path in paths:
        labels = first_channel(path)
        ids, pixels = np.unique(labels, return_counts=True)
        counts.update(dict(zip(ids.tolist(), pixels.tolist(), strict=True)))
        shapes.add(labels.shape)
    del counts[0]
    if not counts:
        raise FileFormatError(
            f"Label images must have class ids above 0 in their red channel. Got none in "
            f"{len(paths)} images, the first of which is {paths[0]}. Take the folder of labels."
        )
    size = "×".join(map(str, (*shapes.pop()[::-1], 3))) if len(shapes) == 1 else "many sizes"
    return size, np.array([counts[k] for k in sorted(counts)])


def _imbalance(counts: Vector) -> str:
    """Return the kind of imbalance: a step, exactly exponential, or another long tail."""
    from reprior_lab.data.imbalance import imbalance_counts

    sizes = np.sort(counts)[::-1]
    if np.unique(sizes).size == 1:
        return "none"
    if np.unique(sizes).size == 2:
        return "step"
    try:
        curve = imbalance_counts(int(sizes[0]), sizes.size, "exp", sizes[0] / sizes[-1])
    except OptionError:  # that curve would end below one sample: rounding, of a ratio like 49
        return "long-tail"
    return "exp" if np.array_equal(sizes, curve) else "long-tail"


def _table(counted: Sequence[_Counted]) -> Table:
    rows = tuple((one.title, _cells(one)) for one in counted)
    title = "Data sets and their imbalance: the paper's Table 1, counted"
    return Table(NAME, title, _COLUMNS, rows, _notes(counted), corner="data set", digits=0)


def _notes(counted: Sequence[_Counted]) -> tuple[str, ...]:
    notes = [
        "The ratio is that of the largest class to the smallest. Samples of SYNTHIA are pixels.",
        "The paper's table has no column of training samples.",
    ]
    wrong = dict.fromkeys(paper_note(NAME, one.key, "largest") for one in counted)
    notes += [f"Largest class, {remark}." for remark in wrong if remark]
    notes += [
        f"{one.title} is counted from its label images, ROOT/SYNTHIA-SEQS-05-DAWN/GT/LABELS and "
        f"those of SUMMER, NIGHT and SUNSET. Get them from https://synthia-dataset.net."
        for one in counted
        if one.counts is None
    ]
    return tuple(notes)


def _cells(one: _Counted) -> tuple[Cell, ...]:
    known = one.numbers()
    n_classes, largest, ratio, total = (
        Cell(known.get(column), paper=paper_value(NAME, one.key, column, as_printed=True))
        for column in ("n_classes", "largest", "ratio", "total")
    )
    dimension = _worded(one, "dimension", one.dimension)
    imbalance = _worded(one, "imbalance", NOTHING if one.counts is None else _imbalance(one.counts))
    return dimension, n_classes, largest, imbalance, ratio, total, Cell(text=one.origin)


def _worded(one: _Counted, column: str, own: str) -> Cell:
    paper = paper_words(NAME, one.key, column)
    return Cell(text=own if paper is None else f"{own} (paper {paper})")


def _document(counted: Sequence[_Counted]) -> dict[str, Any]:
    """Return the data behind the table, ready for JSON."""
    return {
        "format_version": FORMAT_VERSION,
        "experiment": NAME,
        "seed": SEED,
        "versions": installed_versions(threads=1),
        "sets": {
            one.key: {"dimension": one.dimension, "origin": one.origin, **one.numbers()}
            for one in counted
        },
    }
