"""Are promised constraints kept, what do they cost, and how many labels do they need?

python -m benchmarks certify [--redraws N] [--json FILE] [--markdown PAGE]

A pool of real scores stands for the population. Tuning sets of its size are drawn from it with
replacement; each is tuned under the constraint with and without ``certify=0.95``, and both
strengths are judged on the pool. The gain is that of the tuned metric over the model as it is.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

import reprior as rp
from benchmarks.real_scores import POOLS, Pool
from reprior.core import trials_needed
from reprior.profile import Constraint

CERTIFY = 0.95

#: Pool, metric, constraint. Without the constraint the best strength breaks it.
CASES = {
    "images": (
        ("balanced_accuracy", "recall[0] >= 0.85"),
        ("balanced_accuracy", "recall[0] >= baseline - 0.1"),
        ("recall[9]", "specificity[9] >= 0.95"),
        ("recall[9]", "worst_recall >= 0.4"),
    ),
    "two_classes": (
        ("recall[1]", "recall[0] >= 0.8"),
        ("recall[1]", "worst_recall >= 0.6"),
        ("recall[1]", "precision[1] >= 0.75"),
        ("recall[1]", "f1[0] >= 0.68"),
        ("recall[1]", "recall[0] >= 0.9 * baseline"),
    ),
    "storms": (
        ("balanced_accuracy", "accuracy >= 0.82"),
        ("balanced_accuracy", "accuracy >= baseline - 0.03"),
        ("balanced_accuracy", "recall[7] >= 0.85"),
    ),
}

BEGIN, END = "<!-- {}: begin -->", "<!-- {}: end -->"


@dataclass(frozen=True)
class Line:
    """The result for one constraint."""

    pool: str
    metric: str
    constraint: str
    redraws: int
    refused: int
    """Draws for which nothing could be promised."""
    broken_uncertified: float
    broken: float
    gain: float
    """Mean gain on the pool, as a share of that of the uncertified strength."""
    strength_uncertified: float
    strength: float


def measured(pool: Pool, cases: Sequence[tuple[str, str]], redraws: int, seed: int) -> list[Line]:
    """Draw tuning sets from the pool; return a line per constraint."""
    truth = rp.StrengthProfile.from_scores(pool.scores, pool.labels, source_prior=pool.source_prior)
    rng = np.random.default_rng(seed)
    strengths = np.full((len(cases), redraws, 2), np.nan)
    for i in range(redraws):
        drawn = rng.integers(pool.labels.size, size=pool.labels.size)
        profile = rp.StrengthProfile.from_scores(
            pool.scores[drawn], pool.labels[drawn], source_prior=pool.source_prior
        )
        for (metric, rule), row in zip(cases, strengths, strict=True):
            for j, certify in enumerate((None, CERTIFY)):
                try:
                    row[i, j] = profile.best(metric, subject_to=rule, certify=certify).strength
                except rp.InfeasibleError:
                    continue
    lines = []
    for (metric, rule), both in zip(cases, strengths, strict=True):
        limit = Constraint.parse(rule)
        threshold = limit.threshold(truth.evaluate(limit.metric, 0.0))
        refused = int(np.isnan(both[:, 1]).sum())
        plain, promised = both[~np.isnan(both).any(axis=1)].T
        broken = [
            float(np.mean(truth.evaluate(limit.metric, each) < threshold))
            for each in (plain, promised)
        ]
        start = truth.evaluate(metric, 0.0)
        gains = [truth.evaluate(metric, each).mean() - start for each in (plain, promised)]
        lines.append(
            Line(
                pool.name, metric, rule, redraws, refused, *broken, float(gains[1] / gains[0]),
                float(np.median(plain)), float(np.median(promised)),
            )
        )  # fmt: skip
        print(lines[-1], flush=True)
    return lines


def table(lines: Sequence[dict[str, Any]]) -> str:
    """Return the results as Markdown."""
    rows = [
        "| scores | tuned for | constraint | broken without a promise | with it | gain kept |",
        "|---|---|---|--:|--:|--:|",
    ]
    rows += [
        f"| {line['pool']} | `{line['metric']}` | `{line['constraint']}` "
        f"| {line['broken_uncertified']:.1%} | {line['broken']:.1%} | {line['gain']:.0%} |"
        for line in lines
    ]
    return "\n".join(rows)


def labels_table() -> str:
    """Return how many labels a promise of a rate needs, by the rate that is observed."""
    gaps = (0.05, 0.03, 0.02, 0.01)
    rows = ["| promised | " + " | ".join(f"{100 * gap:g} points more" for gap in gaps) + " |"]
    rows.append("|--:|" + "--:|" * len(gaps))
    for rate in (0.5, 0.7, 0.8, 0.9):
        needed = [trials_needed(rate + gap, rate, 1 - CERTIFY) for gap in gaps]
        rows.append(f"| {rate:g} | " + " | ".join(f"{n:,}" for n in needed) + " |")
    return "\n".join(rows)


def write_between(path: Path, name: str, text: str) -> None:
    """Write a text between the markers of this name on a page."""
    begin, end = BEGIN.format(name), END.format(name)
    before, _, rest = path.read_text().partition(begin)
    after = rest.partition(end)[2]
    path.write_text(f"{before}{begin}\n\n{text}\n\n{end}{after}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the study, write the run file, and write the tables of the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks certify", description=__doc__)
    parser.add_argument("--redraws", type=int, default=1000)
    parser.add_argument("--json", type=Path, help="the run file; --redraws 0 reads it")
    parser.add_argument("--markdown", type=Path, help="a page with marks for the tables")
    options = parser.parse_args(arguments)
    if options.redraws:
        lines = [
            asdict(line)
            for name, cases in CASES.items()
            for line in measured(POOLS[name](), cases, options.redraws, seed=0)
        ]
        if options.json:
            options.json.parent.mkdir(parents=True, exist_ok=True)
            options.json.write_text(json.dumps(lines, indent=1) + "\n")
    else:
        lines = json.loads(options.json.read_text())
    print(table(lines))
    print(labels_table())
    if options.markdown:
        write_between(options.markdown, "promises", table(lines))
        write_between(options.markdown, "labels", labels_table())
    return 0


if __name__ == "__main__":
    sys.exit(main())
