"""Do forecasts without labels cover the truth, and how large is their error?

python -m benchmarks forecast [--shifts N] [--nannyml PYTHON] [--json FILE] [--markdown PAGE]

A pool of real scores stands for the population. For every shift a tuning set is drawn from it with
replacement, and 2,000 samples of another class mix, itself drawn at random (Dirichlet, all mixes
alike). The truth is the accuracy of the same decisions on the pool, weighted to that mix.

PYTHON is an interpreter that has NannyML, whose confidence-based estimate (CBPE) gets the same
tuning set as its reference and the same samples; its probabilities are those of the model, and of
the calibrator.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import reprior as rp
from benchmarks.certify import write_between
from benchmarks.real_scores import POOLS, Pool

SAMPLES = 2_000
SHARES = {"images": 0.4, "storms": 0.3, "digits": 0.3}

#: Runs in NannyML's environment: reads one npz per shift, prints a JSON list of estimates.
NANNYML = """
import json, sys, warnings
from pathlib import Path
warnings.simplefilter("ignore")
import numpy as np, pandas as pd, nannyml as nml
def frame(p, decided, labels=None):
    k = p.shape[1]
    made = pd.DataFrame({f"p{i}": p[:, i] for i in range(k)})
    made["y_pred"] = [f"c{i}" for i in decided]
    if labels is not None:
        made["y_true"] = [f"c{i}" for i in labels]
    return made
found = []
for path in sorted(Path(sys.argv[1]).glob("*.npz")):
    d, row = np.load(path), []
    for when in ("before", "after"):
        k = d["tune_" + when].shape[1]
        estimator = nml.CBPE(
            y_pred_proba={f"c{i}": f"p{i}" for i in range(k)}, y_pred="y_pred", y_true="y_true",
            problem_type="classification_multiclass", metrics=["accuracy"], chunk_number=1)
        estimator.fit(frame(d["tune_" + when], d["tune_decided_" + when], d["labels"]))
        result = estimator.estimate(frame(d["new_" + when], d["new_decided_" + when]))
        data = result.filter(period="analysis").to_df()
        row.append(float(data[("accuracy", "value")].iloc[-1]))
    found.append(row)
print(json.dumps(found))
"""


def shifted(pool: Pool, n: int, seed: int, folder: Path | None) -> list[dict[str, Any]]:
    """Forecast n shifts; write what NannyML needs into a folder."""
    rng = np.random.default_rng(seed)
    support = np.bincount(pool.labels)
    rows = []
    for i in range(n):
        tune = rng.integers(pool.labels.size, size=pool.labels.size)
        calibrator = rp.PosteriorCalibrator(pool.source_prior, random_state=seed + i)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", rp.RepriorWarning)
            calibrator.fit(pool.scores[tune], pool.labels[tune])
        mix = rng.dirichlet(np.ones(pool.n_classes))
        there = rng.choice(pool.labels.size, SAMPLES, p=(mix / support)[pool.labels])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", rp.RepriorWarning)
            forecast = calibrator.forecast(pool.scores[there])
        row: dict[str, Any] = {"pool": pool.name, "mix": mix.round(4).tolist()}
        kept = {"labels": pool.labels[tune]}
        for when, each in (("before", calibrator.uncorrected()), ("after", calibrator)):
            decided = each.predict(pool.scores)
            right = (mix / support)[pool.labels] @ (decided == pool.labels)
            low, high = getattr(forecast, f"{when}_interval")
            row[when] = {
                "truth": float(right),
                "forecast": getattr(forecast, when),
                "low": low,
                "high": high,
            }
            p = each.predict_proba(pool.scores)
            p = p / p.sum(axis=1, keepdims=True)
            kept[f"tune_{when}"], kept[f"tune_decided_{when}"] = p[tune], decided[tune]
            kept[f"new_{when}"], kept[f"new_decided_{when}"] = p[there], decided[there]
        if folder is not None:
            np.savez(folder / f"{i:04d}.npz", **kept)
        rows.append(row)
    return rows


def with_nannyml(rows: list[dict[str, Any]], python: str, folder: Path) -> None:
    """Add the estimates of NannyML to the rows."""
    done = subprocess.run(
        [python, "-c", NANNYML, str(folder)], check=True, capture_output=True, text=True
    )
    for row, estimates in zip(rows, json.loads(done.stdout.splitlines()[-1]), strict=True):
        for when, value in zip(("before", "after"), estimates, strict=True):
            row[when]["nannyml"] = value


def summary(rows: Sequence[dict[str, Any]]) -> str:
    """Return coverage and mean absolute errors as Markdown."""
    peer = all("nannyml" in row["before"] for row in rows)
    heads = ["scores", "shifts", "decisions", "covered by 90 %", "mean error"]
    lines = [heads + ["error of CBPE"] * peer, ["---", "--:", "---", "--:", "--:"] + ["--:"] * peer]
    pools = list(dict.fromkeys(row["pool"] for row in rows))
    for pool in [*pools, "all"]:
        for when in ("before", "after"):
            each = [row[when] for row in rows if pool in (row["pool"], "all")]
            covered = np.mean([x["low"] <= x["truth"] <= x["high"] for x in each])
            error = np.mean([abs(x["forecast"] - x["truth"]) for x in each])
            line = [pool, str(len(each)), when, f"{covered:.1%}", f"{error:.4f}"]
            if peer:
                line.append(f"{np.mean([abs(x['nannyml'] - x['truth']) for x in each]):.4f}")
            lines.append(line)
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the study, write the run file, and write the table of the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks forecast", description=__doc__)
    parser.add_argument("--shifts", type=int, default=500, help="0 reads the run file")
    parser.add_argument("--nannyml", metavar="PYTHON")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--markdown", type=Path)
    options = parser.parse_args(arguments)
    if options.shifts:
        rows = []
        for seed, (name, share) in enumerate(SHARES.items()):
            with tempfile.TemporaryDirectory() as made:
                folder = Path(made) if options.nannyml else None
                found = shifted(POOLS[name](), round(share * options.shifts), 1000 * seed, folder)
                if options.nannyml:
                    with_nannyml(found, options.nannyml, Path(made))
            rows += found
        if options.json:
            options.json.parent.mkdir(parents=True, exist_ok=True)
            options.json.write_text(json.dumps(rows, indent=None).replace("}}, ", "}},\n") + "\n")
    else:
        rows = json.loads(options.json.read_text())
    text = summary(rows)
    print(text)
    if options.markdown:
        write_between(options.markdown, "forecasts", text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
