"""The recipes for other engines run as they stand, and give what memory gives."""

from __future__ import annotations

import os
import re
import shutil
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import reprior as rp

DOCS = Path(__file__).parents[2] / "docs"


def run(page: str) -> dict[str, Any]:
    """Execute the Python of a page, block after block, and return its names."""
    text = (DOCS / page).read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(blocks) == 3
    names: dict[str, Any] = {"__name__": "__main__"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the engine, about itself
        for block in blocks:
            exec(compile(block, page, "exec"), names)
    return names


def check(names: dict[str, Any], rows: list[dict[str, Any]]) -> None:
    """Compare what a page found, and the corrected rows, with the same in memory."""
    logits, labels, prior = names["logits"], names["labels"], names["PRIOR"]
    want = rp.StrengthProfile.from_scores(logits, labels, source_prior=prior, resolution=1e-4)
    assert names["profile"].n_samples == len(labels)
    assert names["best"] == want.best("balanced_accuracy")
    assert names["best"].value > want.evaluate("balanced_accuracy", 0.0)
    posterior = rp.rebalance(logits, prior, strength=names["best"].strength)
    rows = sorted(rows, key=lambda row: row["id"])
    found = np.array([[row[name] for name in names["CLASSES"]] for row in rows])
    np.testing.assert_allclose(found, posterior, rtol=1e-12)
    predicted = [row["prediction"] for row in rows]
    assert predicted == [names["CLASSES"][i] for i in posterior.argmax(axis=1)]


@pytest.mark.heavy
def test_spark(monkeypatch):
    pytest.importorskip("pyspark", reason="pyspark is not installed")
    if not (os.environ.get("JAVA_HOME") or shutil.which("java")):
        pytest.skip("NO JAVA: the Spark recipe was not run. Install Java 17 or newer")
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")  # whatever the machine's name resolves to
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    monkeypatch.setenv("PYSPARK_DRIVER_PYTHON", sys.executable)
    names = run("recipes-spark.md")
    try:
        check(names, [row.asDict() for row in names["result"].collect()])
    finally:
        names["spark"].stop()


@pytest.mark.heavy
def test_ray(monkeypatch):
    pytest.importorskip("ray", reason="ray is not installed")
    monkeypatch.setenv("RAY_DATA_DISABLE_PROGRESS_BARS", "1")
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")  # a test reports to nobody
    names = run("recipes-ray.md")
    try:
        check(names, names["result"].take_all())
    finally:
        names["ray"].shutdown()
