"""Opening the report of 8,142 classes, against a page with the plotting library and one curve."""

from __future__ import annotations

import shutil
import tempfile
import warnings
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

import reprior as rp
from benchmarks.profile import scores_of
from benchmarks.timing import Row
from reprior.files.chunks import Chunk
from reprior.report import write_report
from reprior.report.payload import MOST_BYTES

SHAPE = (24_426, 8_142)
LEAD = 6.0
PAIRS = 11

#: The report may take this many times as long as the peer.
BAR = 3.0

PEER = """<!DOCTYPE html><html><head><meta charset="utf-8"></head><body>
<div id="figure" style="height:400px"></div><script>{plotly}</script><script>
Plotly.react("figure", [{{ y: [1, 2, 4, 3], mode: "lines" }}], {{}}, {{ displayModeBar: false }});
performance.mark("first-figure");
document.documentElement.dataset.ready = "true";
</script></body></html>"""


def write_pages(folder: Path) -> tuple[Path, Path]:
    """The report of 24,426 samples of 8,142 classes, and its peer."""
    logits, labels, prior = scores_of(SHAPE, LEAD)
    chunks = [
        Chunk(logits[i : i + 4096], labels[i : i + 4096], start=i)
        for i in range(0, len(labels), 4096)
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rp.RepriorWarning)  # some classes have no labels
        calibrator = rp.engines.fit(rp.PosteriorCalibrator(prior), chunks)
    counts = np.maximum(1, np.round(prior / prior.min()))
    report = write_report(folder / "report.html", calibrator, chunks, counts=counts)
    assets = resources.files("reprior.report") / "assets" / "plotly"
    plotly = (assets / "plotly-cartesian.min.js").read_text(encoding="utf-8")
    peer = folder / "peer.html"
    peer.write_text(PEER.format(plotly=plotly), encoding="utf-8")
    return report, peer


def seconds_to_first_figure(browser: Any, path: Path) -> float:
    """Time from loading a page in a new tab until its first figure is drawn."""
    page = browser.new_page(viewport={"width": 1200, "height": 900})
    page.goto(path.as_uri())
    page.wait_for_selector("html[data-ready]", state="attached")
    mark = page.evaluate("performance.getEntriesByName('first-figure')[0].startTime")
    page.close()
    return float(mark) / 1000


def rows() -> Iterator[Row]:
    chromium = shutil.which("chromium")
    if chromium is None:
        print("no chromium: the report is not measured")
        return
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        report, peer = write_pages(Path(folder))
        size = report.stat().st_size / MOST_BYTES
        yield Row("size of the report of 8,142 classes", "15 MB", size, size, size, 1.0)
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        seconds_to_first_figure(browser, report)
        pairs = np.array(
            [[seconds_to_first_figure(browser, path) for path in (report, peer)]
             for _ in range(PAIRS)]
        )  # fmt: skip
        browser.close()
    ratios = pairs[:, 0] / pairs[:, 1]
    medians = np.median(np.random.default_rng(0).choice(ratios, (1000, PAIRS)), axis=1)
    low, high = np.quantile(medians, [0.05, 0.95])
    print(
        f"(first figure after {np.median(pairs[:, 0]):.2f} s; peer {np.median(pairs[:, 1]):.2f} s)"
    )
    what = "first figure of the report, 24,426 x 8,142"
    yield Row(
        what, "Plotly and one curve", float(np.median(ratios)), float(low), float(high), BAR
    )  # fmt: skip
