"""Draw the figures of the documentation: ``python -m docs.scripts.figures`` from the root.

Nothing is random: the lines are stated below, the step curve comes from the demo's seed 0.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from examples.demo import long_tailed_digits
from matplotlib import pyplot as plt
from sklearn.linear_model import LogisticRegression

import reprior as rp

FIGURES = Path(__file__).parent.parent / "figures"

# Okabe and Ito's colours, told apart by every kind of colour vision.
BLUE, ORANGE, GREEN, PURPLE = "#0072B2", "#D55E00", "#009E73", "#CC79A7"
INK, FAINT = "#222222", "#8a8a8a"

STYLE: dict[str, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "figure.facecolor": "white",
    "savefig.dpi": 200,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
}

BOUNDS = (0.0, 2.0)

# One sample of four classes: its log-scores, and the prior the model was trained on.
CLASSES = {"a": BLUE, "b": ORANGE, "c": GREEN, "d": PURPLE}
SCORES = np.array([2.40, 1.85, 0.75, -0.95])
SOURCE_PRIOR = np.array([0.60, 0.25, 0.10, 0.05])


def lines_and_envelope(ax: Any) -> None:
    """Draw the four lines, the upper envelope and its switches."""
    slopes = np.log(1 / SCORES.size) - np.log(SOURCE_PRIOR)
    strength = np.linspace(*BOUNDS, 2001)
    lines = SCORES + strength[:, None] * slopes
    winner = lines.argmax(axis=1)
    switches = strength[1:][np.diff(winner) != 0]
    edges = [BOUNDS[0], *switches, BOUNDS[1]]
    names = list(CLASSES)
    floor = -1.55
    for k, colour in enumerate(CLASSES.values()):
        ax.plot(strength, lines[:, k], color=colour, lw=1.4, zorder=2)
    for start, end in pairwise(edges):
        k = winner[np.searchsorted(strength, (start + end) / 2)]
        inside = (strength >= start) & (strength <= end)
        colour = CLASSES[names[k]]
        ax.plot(strength[inside], lines[inside, k], color=colour, lw=5, zorder=3,
                solid_capstyle="butt")  # fmt: skip
        ax.fill_between([start, end], floor, floor + 0.32, color=colour, lw=0, zorder=3)
        ax.text((start + end) / 2, floor + 0.15, f"predicts {names[k]}", color="white",
                ha="center", va="center", fontsize=8.5, fontweight="bold", zorder=4)  # fmt: skip
    for at in switches:
        top = lines[np.searchsorted(strength, at)].max()
        ax.plot([at, at], [floor, top], color=FAINT, lw=0.9, ls=(0, (3, 2)), zorder=1)
        ax.plot(at, top, "o", ms=7.5, mfc="white", mec=INK, mew=1.4, zorder=5)
        ax.annotate(f"switch\n{at:.2f}", (at, top), (at, top + 0.26), ha="center", fontsize=8.5)
    for k, (name, colour) in enumerate(CLASSES.items()):
        slope_text = "0" if slopes[k] == 0 else f"{slopes[k]:+.2f}".replace("-", "\N{MINUS SIGN}")
        ax.text(BOUNDS[1] + 0.04, lines[-1, k], f"{name}   {slope_text}",
                color=colour, va="center", fontsize=9, fontweight="bold")  # fmt: skip
    ax.text(BOUNDS[1] + 0.04, 2.95, "class and\nslope w", va="center", fontsize=9)
    ax.set_xticks([0, 0.5, 1, 1.5, 2])
    ax.set(xlim=BOUNDS, ylim=(floor, 3.3), xlabel="strength λ", ylabel="score   z + λ·w")
    ax.set_title("One sample: the line on top wins", pad=12)


def digits_profile() -> rp.StrengthProfile:
    """Profile the demo's tuning images."""
    training, tuning, _ = long_tailed_digits(seed=0)
    model = LogisticRegression(max_iter=1000).fit(training.images, training.labels)
    return rp.StrengthProfile.from_scores(
        model.decision_function(tuning.images),
        tuning.labels,
        source_prior=rp.prior_from_counts(np.bincount(training.labels)),
        bounds=BOUNDS,
    )


def step_curve(ax: Any, profile: rp.StrengthProfile) -> None:
    """Draw the exact curve of balanced accuracy with the best interval."""
    best = profile.best("balanced_accuracy")
    strengths, values = profile.curve("balanced_accuracy")
    strengths, values = np.append(strengths, BOUNDS[1]), np.append(values, values[-1])

    def draw(axes: Any, width: float, shade_from: float) -> None:
        axes.axvspan(*best.interval, ymin=shade_from, color=ORANGE, alpha=0.28, lw=0, zorder=1)
        axes.step(strengths, values, where="post", color=BLUE, lw=width, zorder=2)
        axes.plot(best.strength, best.value, "o", ms=6.5, mfc="white", mec=ORANGE, mew=2, zorder=3)

    draw(ax, 1.6, shade_from=0.62)
    ax.plot(0, values[0], "o", ms=6.5, mfc="white", mec=INK, mew=1.4, zorder=3, clip_on=False)
    ax.annotate(f"the model as it is: {values[0]:.3f}", (0, values[0]), (0.07, 0.694),
                fontsize=8.5, va="center")  # fmt: skip
    low, high = best.interval
    words = f"best interval [{low:.3f}, {high:.3f})\nits middle {best.strength:.3f} is reported"
    thin = {"arrowstyle": "-", "color": FAINT, "shrinkA": 2}
    ax.annotate(words, (high, best.value), (high + 0.16, best.value + 0.028), fontsize=8.5,
                va="center", arrowprops=thin)  # fmt: skip
    ax.set_xticks([0, 0.5, 1, 1.5, 2])
    ax.set(xlim=BOUNDS, ylim=(0.44, 0.92), xlabel="strength λ", ylabel="balanced accuracy")
    ax.set_title(f"{profile.n_samples} samples: {profile.n_switches} switches", pad=12)

    zoom = ax.inset_axes((0.17, 0.10, 0.46, 0.33))
    draw(zoom, 1.8, shade_from=0.0)
    zoom.set(xlim=(low - 0.09, high + 0.09), ylim=(best.value - 0.011, best.value + 0.003))
    zoom.set_yticks(np.unique(values.round(4))[-3:])
    zoom.tick_params(labelsize=7.5, length=2)
    zoom.set_title("around the best interval", fontsize=8.5, fontweight="normal", pad=4)
    frame = ax.indicate_inset_zoom(zoom, edgecolor=FAINT, alpha=0.9)
    for connector in frame.connectors:
        connector.set_visible(False)


def main() -> None:
    FIGURES.mkdir(exist_ok=True)
    with mpl.rc_context(STYLE):
        figure, (left, right) = plt.subplots(1, 2, figsize=(9.8, 4.3), gridspec_kw={"wspace": 0.5})
        lines_and_envelope(left)
        step_curve(right, digits_profile())
        figure.savefig(FIGURES / "lines-and-envelope.png", bbox_inches="tight")


if __name__ == "__main__":
    main()
