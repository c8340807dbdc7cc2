"""Draw the pictures of docs/fusion.md: ``python -m docs.scripts.fusion_figures`` from the root.

The curves are formulas. The comparison runs the page's own sensors on six splits of the digits; the
seeds are stated below.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from docs.scripts.figures import BLUE, FAINT, GREEN, INK, ORANGE, PURPLE, STYLE
from matplotlib import pyplot as plt
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

import reprior as rp

PICTURES = Path(__file__).parent.parent / "figures" / "fusion"
DPI = 130

SEEDS = range(6)
NOISE = np.array([0.0, 0.25, 0.5, 0.75, 0.9])

ROWS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "SoftAve": (FAINT, "-", {"rule": "mean", "flatten": False, "strength": 0.0}),
    "UNO": (PURPLE, "-", {"strength": 0.0}),
    "IC": (GREEN, "-", {"flatten": False}),
    "UNO-IC": (BLUE, "-", {}),
    "UNO-IC, paper's order": (ORANGE, "--", {"order": "flatten_first"}),
}

# One pixel of three classes: its log-scores, and the prior the model was trained on.
SCORES = np.array([2.2, 1.0, 0.0])
SOURCE_PRIOR = np.array([0.75, 0.20, 0.05])
DELTA, STRENGTH = 0.25, 0.4


def delta(ax: Any) -> None:
    """δ against the entropy of an image, for two modalities."""
    entropy = np.linspace(0, 2.3, 500)
    for (mean, std), colour, name, where in (
        ((0.3, 0.1), BLUE, "a sure modality", (1.12, 0.10)),
        ((0.7, 0.2), ORANGE, "a less sure one", (1.2, 0.76)),
    ):
        factor = mean / (mean + np.maximum(0.0, entropy - mean - std))
        ax.plot(entropy, factor, color=colour, lw=2.2)
        ax.plot([mean + std] * 2, [0, 1], color=colour, lw=0.9, ls=(0, (3, 2)))
        ax.text(mean + std + 0.02, 0.04, "μ + σ", color=colour, fontsize=9)
        ax.text(*where, f"{name}: μ = {mean}, σ = {std}", color=colour, fontsize=9.5)
    ax.set(xlim=(0, 2.3), ylim=(0, 1.08), xlabel="mean entropy H of an image, in nats",
           ylabel="δ", yticks=[0, 0.25, 0.5, 0.75, 1])  # fmt: skip
    ax.set_title("Unchanged up to μ + σ, then weighted less and less", pad=10)


def acting(ax: Any) -> None:
    """The strength that acts on a flattened modality's decision."""
    factor = np.linspace(0.15, 1, 300)
    ax.plot(factor, STRENGTH / factor, color=ORANGE, lw=2.2, ls="--")
    ax.plot(factor, np.full_like(factor, STRENGTH), color=BLUE, lw=2.2)
    ax.plot(DELTA, STRENGTH / DELTA, "o", ms=7, mfc="white", mec=ORANGE, mew=2)
    top = STRENGTH / DELTA
    ax.text(DELTA + 0.06, top + 0.12, f"δ = {DELTA}: {STRENGTH} acts like {top:g}", fontsize=9)
    ax.text(0.62, STRENGTH / 0.62 + 0.12, "flatten first: λ/δ", color=ORANGE, fontsize=9.5)
    ax.text(0.62, STRENGTH - 0.17, "rebalance first: λ", color=BLUE, fontsize=9.5)
    ax.set(xlim=(0.15, 1), ylim=(0, 2.7), xlabel="δ", ylabel="strength that acts")
    ax.set_title(f"A strength of {STRENGTH}", pad=10)


def one_pixel(ax: Any) -> None:
    """The posterior of one pixel under both orders."""
    shift = STRENGTH * (np.log(1 / 3) - np.log(SOURCE_PRIOR))
    cases = {
        "the model": (FAINT, SCORES),
        "corrected, δ = 1": (INK, SCORES + shift),
        "rebalance first,\nδ = 0.25": (BLUE, DELTA * (SCORES + shift)),
        "flatten first,\nδ = 0.25": (ORANGE, DELTA * SCORES + shift),
    }
    width = 0.2
    for i, (name, (colour, z)) in enumerate(cases.items()):
        p = np.exp(z) / np.exp(z).sum()
        at = np.arange(3) + (i - 1.5) * width
        ax.bar(at, p, width * 0.9, color=colour, label=name)
        best = int(p.argmax())
        ax.plot(at[best], p[best] + 0.03, "v", color=colour, ms=6)
    ax.set_xticks(range(3), [f"class of\nprior {p:g}" for p in SOURCE_PRIOR])
    ax.set(ylim=(0, 1.0), ylabel="posterior")
    ax.set_title("One pixel; ▾ is the decision", pad=10)
    ax.legend(frameon=False, fontsize=8.5, loc="upper right")


def rules(ax: Any, other: float) -> None:
    """The fused probability of class 1 of 2 against that of one modality."""
    p = np.linspace(0.001, 0.999, 400)
    mine, theirs = np.stack([1 - p, p], 1), np.tile([1 - other, other], (p.size, 1))
    for (rule, colour), style in zip(
        {"noisy_or": BLUE, "mean": GREEN, "product": ORANGE}.items(), ("-", ":", "--"), strict=True
    ):
        fused = rp.fuse([mine, theirs], rule=rule)[:, 1]
        ax.plot(p, fused, color=colour, ls=style, lw=2.2, label=rule)
    ax.axhline(0.5, color=FAINT, lw=0.8)
    ax.set(xlim=(0, 1), ylim=(0, 1), xlabel="probability by one modality")
    says = "says nothing: 0.5" if other == 0.5 else f"says {other:g}"
    ax.set_title(f"The other one {says}", pad=10)


def curves() -> dict[str, np.ndarray]:
    """Mean accuracy of every row, split and noise."""
    images, digits = load_digits(return_X_y=True)
    images = images.reshape(-1, 8, 8) / 16
    halves = {"left": images[:, :, :4].reshape(-1, 32), "right": images[:, :, 4:].reshape(-1, 32)}
    found = {row: np.empty((len(SEEDS), NOISE.size)) for row in ROWS}
    for i, seed in enumerate(SEEDS):
        rng = np.random.default_rng(seed)
        train, tune, test = np.split(rng.permutation(digits.size)[:1792], [800, 1200])
        train = train[rng.random(train.size) < 0.7 ** digits[train]]
        prior = rp.prior_from_labels(digits[train], 10)
        models = {
            name: LogisticRegression(max_iter=3000).fit(half[train], digits[train])
            for name, half in halves.items()
        }
        labels = digits[test].reshape(-1, 4, 4)
        for row, (_, _, options) in ROWS.items():
            fusion = rp.ModalityFusion(prior, class_axis=1, **options)
            fusion.fit(sheets(halves, models, tune, 0.0), digits[tune].reshape(-1, 4, 4))
            for j, noise in enumerate(NOISE):
                predicted = fusion.predict(sheets(halves, models, test, noise))
                hits = [(predicted[labels == k] == k).mean() for k in range(10)]
                found[row][i, j] = np.mean(hits)
    return found


def sheets(halves: Any, models: Any, rows: Any, noise: float) -> dict[str, np.ndarray]:
    """Scores (N, 10, 4, 4) of both models, as the page computes them."""
    seen = {name: half[rows] for name, half in halves.items()}
    storm = np.random.default_rng(7).random(seen["left"].shape)
    seen["left"] = (1 - noise) * seen["left"] + noise * storm
    return {
        name: np.moveaxis(models[name].decision_function(x).reshape(-1, 4, 4, 10), -1, 1)
        for name, x in seen.items()
    }


def comparison(ax: Any) -> None:
    """Mean over the splits."""
    ends = {}
    for row, values in curves().items():
        colour, style, _ = ROWS[row]
        mean = values.mean(axis=0)
        ax.plot(NOISE, mean, style, color=colour, lw=2, marker="o", ms=4.5)
        ends[row] = mean[-1]
    heights = spread(ends, least=0.021)
    for row, height in heights.items():
        ax.text(NOISE[-1] + 0.02, height, row, color=ROWS[row][0], va="center", fontsize=9,
                fontweight="bold")  # fmt: skip
    ax.set(xlim=(-0.02, 0.92), xlabel="share of noise in the left sensor",
           ylabel="mean accuracy on other sheets", xticks=NOISE)  # fmt: skip
    ax.set_title(f"Mean of {len(SEEDS)} splits", pad=10)


def spread(ends: dict[str, float], least: float) -> dict[str, float]:
    """Heights of labels, from the lowest up, that do not overlap."""
    heights: dict[str, float] = {}
    last = -np.inf
    for row, value in sorted(ends.items(), key=lambda item: item[1]):
        last = max(value, last + least)
        heights[row] = last
    return heights


def save(figure: Any, name: str) -> None:
    figure.savefig(PICTURES / f"{name}.png", bbox_inches="tight", dpi=DPI)
    plt.close(figure)
    print("drew", name)


def main() -> None:
    PICTURES.mkdir(parents=True, exist_ok=True)
    mpl.use("Agg")
    warnings.simplefilter("ignore", rp.RepriorWarning)  # bounds that are widened
    with mpl.rc_context(STYLE):
        figure, ax = plt.subplots(figsize=(6.4, 3.4))
        delta(ax)
        save(figure, "delta")
        figure, (left, right) = plt.subplots(1, 2, figsize=(9.6, 3.7), gridspec_kw={"wspace": 0.25})
        acting(left)
        one_pixel(right)
        save(figure, "order")
        figure, axes = plt.subplots(1, 2, figsize=(8.6, 3.6), sharey=True)
        for ax, other in zip(axes, (0.5, 0.9), strict=True):
            rules(ax, other)
        axes[0].set_ylabel("fused probability")
        axes[0].legend(frameon=False, loc="upper left")
        save(figure, "rules")
        figure, ax = plt.subplots(figsize=(6.6, 4.0))
        comparison(ax)
        save(figure, "rows")


if __name__ == "__main__":
    main()
