"""Compare selection rules and peers on data that the strength was not tuned on.

python -m benchmarks held_out --cache DIR --output DIR [--splits 5] [--cached] [--markdown FILE]
python -m benchmarks held_out --output DIR [--markdown FILE]

On real imbalanced sets, over repeated stratified splits: the base model; λ tuned on its out-of-fold
scores by each rule of selection; biases of every class; and peers of the same model, scikit-learn's
tuned threshold (two classes), balanced class weights, random over-sampling and SMOTE. Everything is
judged on the test part, for the metric that it was tuned for. With --cached, splits that are not in
the cache are left out instead of trained; without a cache, tables are made of the run files alone.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
from collections.abc import Sequence
from importlib.metadata import version
from itertools import product
from pathlib import Path
from typing import Any

from benchmarks.held_out_data import FEWEST, LONG_TAIL, MOST_SAMPLES, DataSet, data_sets
from benchmarks.held_out_rows import BOUNDS, USUAL_RULE, WEIGHTED_BOUNDS, judged
from benchmarks.held_out_scores import (
    DIVISIONS,
    FOLDS,
    METRICS,
    MODELS,
    TEST_SHARE,
    file_name,
    place,
    scored,
)
from benchmarks.held_out_tables import page, summary

BEGIN, END = "<!-- held-out: begin -->", "<!-- held-out: end -->"

PACKAGES = ("reprior", "numpy", "scikit-learn", "imbalanced-learn")


def config_of(model: str) -> dict[str, Any]:
    """All settings of a run, besides its data and its seeds."""
    return {
        "model": [repr(step) for step in MODELS[model]], "test_share": TEST_SHARE, "folds": FOLDS,
        "divisions": DIVISIONS, "bounds": list(BOUNDS), "weighted_bounds": list(WEIGHTED_BOUNDS),
        "usual_rule": USUAL_RULE, "most_samples": MOST_SAMPLES, "fewest_of_a_class": FEWEST,
        "long_tail": LONG_TAIL,
    }  # fmt: skip


def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that the figures depend on."""
    return {"python": platform.python_version()} | {name: version(name) for name in PACKAGES}


def measured(
    cache: Path, data: DataSet, model: str, seeds: Sequence[int], before: dict[str, Any]
) -> dict[str, Any]:
    """Return the run file of one set and one model; splits in ``before`` are not repeated."""
    about = {
        "set": data.name, "samples": int(data.y.size), "classes": data.n_classes,
        "ratio": round(data.ratio, 1), "model": model, "config": config_of(model),
        "versions": versions(),
    }  # fmt: skip
    same = all(before.get(key) == value for key, value in about.items())
    done = {split["seed"]: split for split in before["splits"]} if same else {}
    splits = [done[seed] if seed in done else _split(cache, data, model, seed) for seed in seeds]
    return {**about, "splits": splits}


def _split(cache: Path, data: DataSet, model: str, seed: int) -> dict[str, Any]:
    """Return the results of one split."""
    run = scored(cache, data, model, seed)
    both = {metric: judged(run, metric) for metric in METRICS}
    print(f"{data.name}, {model}, split {seed}", file=sys.stderr, flush=True)
    return {
        "seed": seed,
        "values": {metric: _rounded(values) for metric, (values, _) in both.items()},
        "strengths": {metric: _rounded(tuned) for metric, (_, tuned) in both.items()},
    }


def _rounded(values: dict[str, float]) -> dict[str, float]:
    return {row: round(value, 5) for row, value in values.items()}


def write_page(path: Path, text: str) -> None:
    """Write the tables between the markers of a page."""
    before, _, rest = path.read_text().partition(BEGIN)
    after = rest.partition(END)[2]
    path.write_text(f"{before}{BEGIN}\n\n{text}\n{END}{after}")


def without_sets(text: str) -> str:
    """Return the tables without those of every set, which are in held-out.md alone."""
    tables, _, rest = text.partition("### Every set")
    versions = rest.rstrip().splitlines()[-1]
    where = "The tables of every set are in the repository, in `docs/results/held-out/held-out.md`."
    return f"{tables}{where}\n\n{versions}\n"


def study(options: argparse.Namespace) -> None:
    """Run every set with every model, and write one file for each as soon as it is finished."""
    folder = options.output / "runs"
    folder.mkdir(parents=True, exist_ok=True)
    for (name, make), model in product(data_sets().items(), MODELS):
        seeds: Sequence[int] = range(options.splits)
        if options.cached:
            seeds = [n for n in seeds if place(options.cache, name, model, n).exists()]
        if seeds:
            path = folder / f"{file_name(name, model)}.json"
            before = json.loads(path.read_text()) if path.exists() else {}
            run = measured(options.cache, make(), model, seeds, before)
            path.write_text(json.dumps(run, indent=1, ensure_ascii=False) + "\n")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks held_out", description=__doc__)
    parser.add_argument("--cache", type=Path, help="a folder for scores")
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--cached", action="store_true", help="train nothing")
    parser.add_argument("--output", type=Path, required=True, help="a folder for runs and tables")
    parser.add_argument("--markdown", type=Path, help="a page with marks for the tables")
    options = parser.parse_args(arguments)
    if options.cache:
        study(options)
    files = sorted((options.output / "runs").glob("*.json"))
    runs = [json.loads(path.read_text()) for path in files]
    lines = summary(runs)
    text = page(runs, lines)
    print(text)
    (options.output / "held-out.json").write_text(json.dumps(lines, indent=1) + "\n")
    (options.output / "held-out.md").write_text(text)
    if options.markdown:
        write_page(options.markdown, without_sets(text))
    return 0


if __name__ == "__main__":
    sys.exit(main())
