"""Train what the held-out study compares, and cache the scores; a run continues where one ended.

python -m benchmarks.held_out_training --cache DIR [--splits 3]

One process, one set at a time: all sets with one split of each model first, then the next split, so
that a run that is stopped leaves sets with fewer splits, and not fewer sets.
"""

from __future__ import annotations

import argparse
import sys
from itertools import product
from pathlib import Path

from benchmarks.held_out_data import confirmation_sets, data_sets
from benchmarks.held_out_scores import ENSEMBLES, MODELS, place, scored

__all__ = ["main"]

#: scikit-learn's boosting is the slowest.
ORDER = (*(name for name in MODELS if name != "boosting"), ENSEMBLES, "boosting")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--splits", type=int, default=3)
    options = parser.parse_args()
    sets = {**data_sets(), **confirmation_sets()}
    loaded = {}
    for split, model in product(range(options.splits), ORDER):
        for name, make in sets.items():
            if place(options.cache, name, model, split).exists():
                continue
            data = loaded.setdefault(name, None) or make()
            loaded[name] = data
            scored(options.cache, data, model, split)
            print(f"{name}, {model}, split {split}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
