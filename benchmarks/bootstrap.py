"""A thousand bootstrap replicates of a profile, against a loop that profiles every resample."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import reprior as rp
from benchmarks.profile import scores_of
from benchmarks.timing import Row, compare
from reprior.tuning.bootstrap import StrengthBootstrap

#: Samples and classes, and the mean lead of the true class: half of the rows switch.
SHAPE, LEAD = (10_000, 100), 5.0
METRIC = "balanced_accuracy"

#: Replicates in the comparison; for a thousand, the loop would need minutes.
FEW, MANY = 100, 1000

#: What the comparison may cost of the loop, which has all that makes a profile quick itself, and
#: seconds that all of them may take on two cores.
BAR, ALLOWED = 0.5, 2.0


def rows() -> Iterator[Row]:
    logits, labels, prior = scores_of(SHAPE, LEAD)

    def replicates(n: int) -> np.ndarray:
        made = StrengthBootstrap.from_scores(logits, labels, source_prior=prior, n_replicates=n)
        return made.replicates(METRIC).best_strength

    def loop() -> np.ndarray:
        rng = np.random.default_rng(0)
        found = np.empty(FEW)
        for i in range(FEW):
            drawn = rng.integers(labels.size, size=labels.size)
            profile = rp.StrengthProfile.from_scores(
                logits[drawn], labels[drawn], source_prior=prior
            )
            found[i] = profile.best(METRIC).strength
        return found

    ours, theirs = replicates(FEW), loop()
    apart = abs(ours.mean() - theirs.mean())
    allowed = 5 * np.hypot(ours.std(), theirs.std()) / np.sqrt(FEW)
    if apart > allowed:
        raise SystemExit(f"Both must choose alike. Their means are {apart:.3g} apart.")
    size = f"{SHAPE[0]:,} x {SHAPE[1]}"
    yield compare(
        f"bootstrap, {FEW} replicates, {size}", lambda: replicates(FEW),
        f"{FEW} x StrengthProfile.from_scores(z[drawn], …).best(…)", loop, bar=BAR, pairs=5,
    )  # fmt: skip
    yield _of_seconds(f"bootstrap, {MANY:,} replicates, {size}", lambda: replicates(MANY))


def _of_seconds(what: str, work: Callable[[], Any]) -> Row:
    """A share of the seconds that are allowed; with those of the processor, which are all threads'.

    On a machine that is busy with other things only the latter say something.
    """
    shares, busy = [], []
    for _ in range(5):
        start, before = time.perf_counter(), time.process_time()
        work()
        shares.append((time.perf_counter() - start) / ALLOWED)
        busy.append(time.process_time() - before)
    low, high = np.quantile(shares, [0.05, 0.95])
    what = f"{what}, {np.median(busy):.1f} s of processor time"
    return Row(what, f"{ALLOWED:g} s", float(np.median(shares)), float(low), float(high), 1.0)
