"""Make the score files of the tabular story: gradient boosting on Atlantic storms.

    python docs/gallery/train_storms.py storms.csv [--out docs/gallery/data] [--seed 0]

storms.csv is the table `storms` of the R package dplyr as a CSV file, one row per six hours of a
storm, taken from the Atlantic hurricane data base of the US National Hurricane Center. The
Rdatasets collection has it as csv/dplyr/storms.csv. The class is `status`, one of nine kinds of
weather system. Storms, not rows, are split at random: 60 % to train, 20 % to tune, 20 % to judge.
`category` is left out, because it is made from the class.

Needs pandas and scikit-learn. It takes seconds.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier

PARTS = {"train": 0.6, "tune": 0.2, "test": 0.2}
MEASURED = ["month", "day", "hour", "lat", "long", "wind", "pressure"]
SIZES = ["tropicalstorm_force_diameter", "hurricane_force_diameter"]
MOVING = ["lat", "long", "wind", "pressure"]


def features(table: pd.DataFrame, storm: pd.Series) -> pd.DataFrame:
    """What was measured, how it changed since the row before, and how old the storm is."""
    change = table.groupby(storm, sort=False)[MOVING].diff().add_prefix("change_of_")
    age = table.groupby(storm, sort=False).cumcount().rename("age")
    return pd.concat([table[[*MEASURED, *SIZES]], change, age], axis=1)


def parts(storm: pd.Series, seed: int) -> dict[str, np.ndarray]:
    """Rows of every part; all rows of a storm are in the same."""
    names = np.random.default_rng(seed).permutation(storm.unique())
    ends = np.cumsum([round(share * len(names)) for share in PARTS.values()])[:-1]
    return {
        part: storm.isin(chosen).to_numpy()
        for part, chosen in zip(PARTS, np.split(names, ends), strict=True)
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("table", type=Path)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "data")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()

    table = pd.read_csv(options.table)
    # A storm that crosses New Year's Eve is in two years: the few such count as two storms.
    storm = table["name"] + " " + table["year"].astype(str)
    x, y, rows = features(table, storm), table["status"], parts(storm, options.seed)
    # Larger trees and more of them had a larger log-loss on the tuning part.
    model = HistGradientBoostingClassifier(
        learning_rate=0.05,
        max_iter=100,
        max_leaf_nodes=7,
        early_stopping=False,
        random_state=options.seed,
    )
    model.fit(x[rows["train"]], y[rows["train"]])

    options.out.mkdir(parents=True, exist_ok=True)
    for part in ("tune", "test"):
        posterior = pd.DataFrame(model.predict_proba(x[rows[part]]), columns=model.classes_)
        posterior.insert(0, "label", y[rows[part]].to_numpy())
        posterior.to_csv(options.out / f"storms-{part}.csv", index=False, float_format="%.4g")
        print(part, (posterior["label"] == posterior[model.classes_].idxmax(axis=1)).mean())
    counts = y[rows["train"]].value_counts().reindex(model.classes_)
    text = json.dumps({str(name): int(n) for name, n in counts.items()}, indent=1)
    (options.out / "storms-counts.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
