"""The strength for the data set's mean IoU against that for the images' mean Dice.

On the street scenes of the gallery, whose committed scores take seconds::

    python -m docs.scripts.segmentation_metrics            # run, then render
    python -m docs.scripts.segmentation_metrics --render   # the page from the run file

Strengths are tuned on the tuning frames; metrics and intervals are of the test frames, another
drive. The table of ``docs/gallery/segmentation.md`` comes from the run file.
"""

from __future__ import annotations

import json
import sys
from typing import Any, TypeAlias

import numpy as np
from docs.scripts.gallery_outputs import DOCS, GALLERY

import reprior as rp
from reprior.files import open_scores

Run: TypeAlias = dict[str, Any]
Vector: TypeAlias = np.ndarray[Any, Any]

PAGE = GALLERY / "segmentation.md"
RUN_FILE = DOCS / "results" / "segmentation-metrics.json"
START = "<!-- metrics: written by docs/scripts/segmentation_metrics.py, do not edit -->"
END = "<!-- end of metrics -->"

TUNED = ("mean_iou", "mean_dice_per_image")
SHOWN = (*TUNED, "balanced_accuracy", "accuracy")
DRAWS = 400
"""Bootstrap draws of whole test frames."""


def read(part: str) -> tuple[Vector, Vector]:
    """Return the scores (N, K, H, W) and the labels (N, H, W) of a part."""
    chunks = list(open_scores(str(GALLERY / "data" / f"segmentation-{part}-*.npz")).chunks())
    scores = np.concatenate([np.asarray(chunk.scores, np.float32) for chunk in chunks])
    return scores, np.concatenate([np.asarray(chunk.labels) for chunk in chunks])


def run(draws: int = DRAWS) -> Run:
    """Tune for both metrics, and judge by all on the test frames."""
    counts = json.loads((GALLERY / "data" / "segmentation-counts.json").read_text("utf-8"))
    prior = rp.prior_from_counts(list(counts.values()))
    tune, test = read("tune"), read("test")
    profile = rp.StrengthProfile.from_scores(*tune, source_prior=prior, class_axis=1)
    strengths = {"uncorrected": 0.0} | {name: profile.best(name).strength for name in TUNED}
    slopes = -np.log(prior).reshape(-1, 1, 1)
    rows = []
    before = test[0].argmax(axis=1)
    for name, strength in strengths.items():
        decided = (test[0] + strength * slopes).argmax(axis=1)
        rows.append(
            {
                "tuned_for": name,
                "strength": strength,
                "tuning": {shown: profile.evaluate(shown, strength) for shown in SHOWN},
                "test": {shown: value(shown, test[1], decided, prior.size) for shown in SHOWN},
                "gain": {
                    shown: interval(shown, test[1], before, decided, prior.size, draws)
                    for shown in TUNED
                },
            }
        )
    frames = {"tuning_frames": len(tune[1]), "test_frames": len(test[1])}
    judged = rp.StrengthProfile.from_scores(*test, source_prior=prior, class_axis=1)
    best = {name: judged.best(name).strength for name in TUNED}
    return {**frames, "draws": draws, "best_of_test": best, "rows": rows}


def value(metric: str, labels: Vector, decided: Vector, n_classes: int) -> float:
    """Return a metric of decisions; every entry of the first axis is an image."""
    return rp.metrics.evaluate(metric, labels, decided, n_classes=n_classes)


def interval(
    metric: str, labels: Vector, before: Vector, after: Vector, n_classes: int, draws: int
) -> list[float]:
    """Return the 90 % bootstrap interval of a gain, over whole frames."""
    rng = np.random.default_rng(0)
    drawn = rng.integers(0, len(labels), (draws, len(labels)))
    gains = [
        value(metric, labels[each], after[each], n_classes)
        - value(metric, labels[each], before[each], n_classes)
        for each in drawn
    ]
    return [float(end) for end in np.quantile(gains, (0.05, 0.95))]


def table(found: Run) -> str:
    """Return the table of the page."""
    lines = [
        "| λ tuned for | λ | mean IoU | its gain | mean Dice per image | its gain "
        "| mean accuracy | accuracy |",
        "|---|--:|--:|:-:|--:|:-:|--:|--:|",
    ]
    titles = {
        "uncorrected": "nothing (uncorrected)",
        "mean_iou": "mean IoU of the data set",
        "mean_dice_per_image": "mean Dice of the images",
    }
    for row in found["rows"]:
        cells = [titles[row["tuned_for"]], f"{row['strength']:.3f}"]
        for name in TUNED:
            low, high = row["gain"][name]
            cells += [f"{row['test'][name]:.4f}", f"{low:+.4f} to {high:+.4f}" if high else "–"]
        cells += [f"{row['test'][name]:.4f}" for name in SHOWN[len(TUNED) :]]
        lines.append(f"| {' | '.join(cells)} |")
    note = (
        f"Tuned on {found['tuning_frames']} frames, measured on {found['test_frames']} others, of "
        f"another drive. Gains over the uncorrected network: 90 % intervals of {found['draws']} "
        "bootstrap draws of whole test frames. The test frames themselves would have asked for "
        f"{found['best_of_test']['mean_iou']:.2f} and "
        f"{found['best_of_test']['mean_dice_per_image']:.2f}."
    )
    return "\n".join([*lines, "", note])


def render(text: str, found: Run) -> str:
    """Return the page with the table of a run."""
    head, _, rest = text.partition(START)
    _, _, tail = rest.partition(END)
    return f"{head}{START}\n\n{table(found)}\n\n{END}{tail}"


def main(arguments: list[str]) -> None:
    """Run, and rewrite the page; or the latter alone."""
    if "--render" not in arguments:
        RUN_FILE.write_text(json.dumps(run(), indent=1) + "\n", encoding="utf-8")
    found = json.loads(RUN_FILE.read_text(encoding="utf-8"))
    PAGE.write_text(render(PAGE.read_text(encoding="utf-8"), found), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
