"""Draw the pictures of README.md: ``python -m docs.scripts.readme_figures`` from the root.

The nines of the demo's test images before and after, and the demo's report while its slider moves.
The second needs Chromium and Playwright.
"""

from __future__ import annotations

import io
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib import pyplot as plt
from PIL import Image

import reprior as rp
from reprior.cli.demo import long_tailed_digits

FIGURES = Path(__file__).parent.parent / "figures" / "readme"

FOUND, MISSED, INK = "#0072B2", "#bdbdbd", "#222222"
DIGIT = 9

#: Of the animation: pixels, milliseconds of a frame and of the last one, colours, rounds of λ.
SIZE, FRAME, LAST, COLOURS = (960, 1010), 110, 2600, 96
STEPS = 18

#: The verdict and the figure of the classes; the rest of the page would not be seen.
STYLE = """
.top, .sections, #metrics, #group-table, #classes > .note, #verdict-note { display: none }
.controls { position: static } #verdict { min-height: 422px }
"""


def demo(folder: Path) -> Path:
    """Run the demo; return its folder."""
    target = folder / "demo"
    command = [sys.executable, "-m", "reprior", "demo", "--quiet", "-o", str(target)]
    subprocess.run(command, check=True, capture_output=True)
    return target


def nines(folder: Path) -> Any:
    """Draw every test image of the rarest digit: found ones in colour, others with their guess."""
    _, _, test = long_tailed_digits(seed=0)
    table = np.loadtxt(folder / "test.csv", delimiter=",", skiprows=1)
    scores, labels = table[:, :-1], table[:, -1].astype(int)
    assert np.array_equal(labels, test.labels)
    calibrator = rp.load(folder / "cal.json")
    after = np.array([int(str(name).split()[-1]) for name in calibrator.predict(scores)])
    chosen = np.flatnonzero(labels == DIGIT)
    figure, axes = plt.subplots(1, 2, figsize=(9.2, 2.35), layout="constrained")
    pairs = (("before", scores.argmax(axis=1)), ("after: one addition per class", after))
    for ax, (title, predicted) in zip(axes, pairs, strict=True):
        sheet(ax, test.images[chosen].reshape(-1, 8, 8), predicted[chosen])
        found = int((predicted[chosen] == DIGIT).sum())
        ax.set_title(f"{title}: {found} of {chosen.size} nines found", loc="left", fontsize=11,
                     fontweight="bold", color=INK)  # fmt: skip
    return figure


def sheet(ax: Any, images: Any, predicted: Any, wide: int = 13) -> None:
    """Draw images in rows, with what each was taken for."""
    for i, (image, guess) in enumerate(zip(images, predicted, strict=True)):
        x, y = 10 * (i % wide), 13 * (i // wide)
        colour = FOUND if guess == DIGIT else MISSED
        shade = mpl.colors.LinearSegmentedColormap.from_list("", ["white", colour])
        ax.imshow(image, cmap=shade, extent=(x, x + 8, y + 8, y), interpolation="nearest")
        ax.text(x + 4, y + 8.4, str(guess), ha="center", va="top", fontsize=7.5,
                color=FOUND if guess == DIGIT else "#767676",
                fontweight="bold" if guess == DIGIT else "normal")  # fmt: skip
    rows = -(-len(images) // wide)
    ax.set(xlim=(-1, 10 * wide), ylim=(13 * rows, -1))
    ax.set_axis_off()


def animation(page: Path, out: Path) -> None:
    """Record the report while λ goes from 0 to the chosen strength."""
    from playwright.sync_api import sync_playwright

    frames = []
    with sync_playwright() as playwright:
        program = shutil.which("chromium")
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        tab = browser.new_page(viewport={"width": SIZE[0], "height": SIZE[1]})
        tab.goto(page.as_uri())
        tab.wait_for_selector("html[data-ready]")
        tab.add_style_tag(content=STYLE)
        chosen = tab.evaluate("Reprior.state.strength")
        for strength in [*np.linspace(0.0, chosen, STEPS, endpoint=False), chosen]:
            tab.evaluate("strength => Reprior.setStrength(strength)", float(strength))
            tab.wait_for_function(
                "s => ['verdict', 'classes'].every(id => "
                "Number(document.getElementById(id).dataset.strength) === s)",
                arg=float(strength),
            )
            frames.append(Image.open(io.BytesIO(tab.screenshot())).convert("RGB"))
        browser.close()
    palette = frames[-1].quantize(COLOURS, dither=Image.Dither.NONE)
    drawn = [frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame in frames]
    durations = [LAST // 3, *[FRAME] * (len(drawn) - 2), LAST]
    drawn[0].save(
        out, save_all=True, append_images=drawn[1:], duration=durations, loop=0, optimize=True
    )


def main() -> None:
    FIGURES.mkdir(parents=True, exist_ok=True)
    mpl.use("Agg")
    with tempfile.TemporaryDirectory() as scratch:
        folder = demo(Path(scratch))
        nines(folder).savefig(FIGURES / "nines.png", dpi=130)
        animation(folder / "report.html", FIGURES / "report.gif")


if __name__ == "__main__":
    main()
