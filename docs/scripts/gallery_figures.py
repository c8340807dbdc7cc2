"""Draw the pictures of the gallery: ``python -m docs.scripts.gallery_figures`` from the root.

The commands of every page are run in a copy of its data; the calibrators they write are drawn.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from docs.scripts.gallery_outputs import DOCS, GALLERY, PAGES, renewed, scratch_copy
from matplotlib import pyplot as plt
from matplotlib.colors import ListedColormap

import reprior as rp
from reprior.files.scores import open_scores
from reprior.report.plots import ClassChangeDisplay, ReliabilityDisplay, StrengthCurveDisplay

FIGURES = DOCS / "figures" / "gallery"
# Metrics to draw over the strength. Where every class has as many labels, accuracy is balanced
# accuracy.
METRICS = {
    "storms": ["balanced_accuracy", "accuracy", "mean_iou"],
    "images": ["balanced_accuracy", "mean_iou", "recall[airplane]", "recall[truck]"],
    "segmentation": ["balanced_accuracy", "accuracy", "mean_iou"],
}

# Where the scores of a story are, and the calibrator of its figure.
STORIES = {
    "tabular.md": ("storms", "storms.json"),
    "images.md": ("images", "images.json"),
    "segmentation.md": ("segmentation", "careful.json"),
}

# One colour per class of the street scenes, common ones pale, rare ones strong.
STREET = ["#b9b4c7", "#e3cfe0", "#d9d4cc", "#8c6d46", "#555555", "#f5b700", "#2e933c", "#cfe8f7",
          "#e4002b", "#1f4fd8", "#ffffff", "#9b5de5"]  # fmt: skip


def read(pattern: str) -> tuple[Any, Any]:
    """All scores and class indices of the files."""
    chunks = list(open_scores(pattern).chunks())
    return tuple(
        np.concatenate([getattr(c, part) for c in chunks]) for part in ("scores", "labels")
    )


def strength_and_classes(folder: Path, story: str, calibrator: Any) -> Any:
    """Metrics on the tuning scores over the strength, and every class of the test scores."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(10.5, 4.4), layout="constrained")
    scores, labels = read(str(folder / f"{story}-tune*"))
    profile = rp.StrengthProfile.from_scores(
        scores,
        labels,
        source_prior=calibrator.source_prior_,
        kind=calibrator.kind,
        class_axis=calibrator.class_axis,
    )
    calibrator.profile_ = profile
    StrengthCurveDisplay.from_calibrator(calibrator, METRICS[story], ax=left)
    left.set_xlabel("strength λ (tuning data)")
    counts = json.loads((folder / f"{story}-counts.json").read_text(encoding="utf-8"))
    scores, labels = read(str(folder / f"{story}-test*"))
    ClassChangeDisplay.from_calibrator(
        calibrator, scores, calibrator.classes_[labels], counts=counts, ax=right
    )
    right.set_xlabel("recall (test data)")
    return figure


def reliability(folder: Path, story: str, calibrator: Any) -> Any:
    """Accuracy over confidence on the test scores: balanced, and in the mix of the training."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 4.6), layout="constrained")
    scores, labels = read(str(folder / f"{story}-test*"))
    names = calibrator.classes_[labels]
    ReliabilityDisplay.from_calibrator(calibrator, scores, names, ax=left)
    left.set_title("all classes equally common", loc="left")
    weight = calibrator.source_prior_[labels] * calibrator.classes_.size
    ReliabilityDisplay.from_calibrator(calibrator, scores, names, sample_weight=weight, ax=right)
    right.set_title("as common as in training", loc="left")
    return figure


def frame(folder: Path, story: str, calibrators: dict[str, Any], number: int) -> Any:
    """One test frame: the labels, the model as it is, and every calibrator."""
    scores, labels = read(str(folder / f"{story}-test*"))
    some = next(iter(calibrators.values()))
    names, index = some.classes_, {name: k for k, name in enumerate(some.classes_.tolist())}
    maps = {"labels": labels[number], "the model as it is": scores[number].argmax(axis=0)}
    for title, calibrator in calibrators.items():
        predicted = calibrator.predict(scores[number : number + 1])[0]
        maps[title] = np.vectorize(index.__getitem__)(predicted)
    figure, axes = plt.subplots(2, 2, figsize=(9, 5.6), layout="compressed")
    for ax, (title, classes) in zip(axes.flat, maps.items(), strict=True):
        ax.imshow(classes, cmap=ListedColormap(STREET), vmin=-0.5, vmax=names.size - 0.5,
                  interpolation="nearest")  # fmt: skip
        ax.set_title(title, loc="left")
        ax.set_xticks([])
        ax.set_yticks([])
    patches = [mpl.patches.Patch(facecolor=c, edgecolor="#888888", linewidth=0.5) for c in STREET]
    figure.legend(patches, names, loc="outside lower center", ncols=6, frameon=False)
    return figure


def draw(page: str, folder: Path) -> dict[str, Any]:
    """The pictures of a page, by name."""
    story, file = STORIES[page]
    calibrator = rp.load(folder / file)
    pictures = {story: strength_and_classes(folder, story, calibrator)}
    if story == "images":
        pictures["images-reliability"] = reliability(folder, story, calibrator)
    if story == "segmentation":
        both = {"largest mean accuracy": rp.load(folder / "bold.json"),
                "mean IoU kept": calibrator}  # fmt: skip
        pictures["segmentation-frame"] = frame(folder, story, both, FRAME)
    return pictures


#: Of the 60 test frames, the one in the middle.
FRAME = 30


def main() -> None:
    FIGURES.mkdir(parents=True, exist_ok=True)
    mpl.use("Agg")
    for page in PAGES:
        with tempfile.TemporaryDirectory() as scratch:
            folder = scratch_copy(Path(scratch))
            renewed((GALLERY / page).read_text(encoding="utf-8"), folder)
            for name, figure in draw(page, folder).items():
                figure.savefig(FIGURES / f"{name}.png", dpi=110)
                print("drew", name)


if __name__ == "__main__":
    main()
