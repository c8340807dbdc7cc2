"""Compare this version with another one, in two interpreters that alternate.

python -m benchmarks revisions OTHER_PYTHON [CASE …] [--pairs N] [--json FILE]

OTHER_PYTHON has the other version installed, for example an earlier commit. Both interpreters run
the same lines; every pair of runs gives a ratio, this version's time by the other's. ``first_``
cases start a new process for every run.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np

from benchmarks.timing import Row, interval

#: An interval entirely above this value is a regression.
BAR = 1.05

_SCORES = """
import io, json, os, tempfile, warnings
from pathlib import Path
import numpy as np
import reprior as rp
warnings.simplefilter("ignore")
def scores_of(n, k, lead=16.0, dtype=np.float32):
    rng = np.random.default_rng(0)
    prior = rp.prior_from_counts(100.0 ** -np.linspace(0, 1, k))
    labels = rng.integers(0, k, n)
    logits = rng.standard_normal((n, k), dtype=np.float32)
    logits[np.arange(n), labels] += rng.random(n, dtype=np.float32) * np.float32(2 * lead)
    return (logits + np.log(prior).astype(np.float32)).astype(dtype), labels, prior
def profile(z, y, prior, **options):
    return rp.StrengthProfile.from_scores(z, y, source_prior=prior, **options)
def command(*arguments):
    import contextlib, sys
    from reprior.__main__ import main
    def run():
        sys.argv = ["reprior", *map(str, arguments)]
        quiet = io.StringIO()
        with contextlib.redirect_stdout(quiet), contextlib.redirect_stderr(quiet):
            try:
                code = main()
            except SystemExit as end:
                code = end.code
        assert not code, quiet.getvalue()
    return run
"""

#: name: lines that prepare, and the expression that is timed.
CASES: dict[str, tuple[str, str]] = {
    "fit_small": (
        "z, y, p = scores_of(1_000, 10)",
        "rp.PosteriorCalibrator(p).fit(z, y)",
    ),
    "predict_row": (
        "z, y, p = scores_of(1_000, 10); cal = rp.PosteriorCalibrator(p).fit(z, y); row = z[:1]",
        "cal.predict(row)",
    ),
    "fit_medium": ("z, y, p = scores_of(10_000, 100)", "rp.PosteriorCalibrator(p).fit(z, y)"),
    "profile_few": (
        "z, y, p = scores_of(1_000_000, 14, 14.0)",
        "profile(z, y, p).best('balanced_accuracy')",
    ),
    "profile_most": (
        "z, y, p = scores_of(1_000_000, 14, 3.5)",
        "profile(z, y, p).best('balanced_accuracy')",
    ),
    "profile_many_classes": (
        "z, y, p = scores_of(24_426, 8_142, 18.0)",
        "profile(z, y, p).best('balanced_accuracy')",
    ),
    "profile_weighted": (
        "z, y, p = scores_of(200_000, 14, 3.5); w = np.random.default_rng(1).random(200_000)",
        "profile(z, y, p, sample_weight=w).best('macro_f1')",
    ),
    "profile_binned": (
        "z, y, p = scores_of(1_000_000, 14, 3.5)",
        "profile(z, y, p, resolution=1e-3).best('mean_iou')",
    ),
    "sum_of_profiles": (
        "z, y, p = scores_of(200_000, 14, 3.5); "
        "a, b = profile(z, y, p), profile(z[::2], y[::2], p)",
        "(a + b).best('balanced_accuracy')",
    ),
    "cross_validation": (
        "z, y, p = scores_of(10_000, 100)",
        "rp.PosteriorCalibrator(p, cv=5, n_bootstrap=200).fit(z, y)",
    ),
    "per_class": (
        "z, y, p = scores_of(10_000, 100)",
        "rp.PosteriorCalibrator(p, tune='per_class').fit(z, y)",
    ),
    "log_loss": (
        "z, y, p = scores_of(100_000, 20, 4.0)",
        "rp.PosteriorCalibrator(p, metric='log_loss').fit(z, y)",
    ),
    "predict_proba": (
        "z, y, p = scores_of(1_000_000, 14); cal = rp.PosteriorCalibrator(p).fit(z, y)",
        "cal.predict_proba(z)",
    ),
    "estimate_prior": (
        "z, y, p = scores_of(100_000, 100)",
        "rp.estimate_target_prior(z, source_prior=p)",
    ),
    "fusion": (
        "z, y, p = scores_of(100_000, 14); m = {'a': z, 'b': z[::-1].copy()}; "
        "f = rp.ModalityFusion(p).fit(m, y)",
        "f.predict_proba(m)",
    ),
    "fusion_fit": (
        "z, y, p = scores_of(100_000, 14); m = {'a': z, 'b': z[::-1].copy()}",
        "rp.ModalityFusion(p).fit(m, y)",
    ),
    "save_and_load": (
        "z, y, p = scores_of(1_000, 10); cal = rp.PosteriorCalibrator(p).fit(z, y); "
        "f = Path(tempfile.mkdtemp()) / 'cal.json'",
        "(cal.save(f), rp.load(f))",
    ),
    "fit_file": (
        "z, y, p = scores_of(500_000, 14); f = Path(tempfile.mkdtemp()) / 'a.npz'; "
        "np.savez(f, scores=z, labels=y); from reprior.engines import fit; "
        "from reprior.files.scores import open_scores",
        "fit(rp.PosteriorCalibrator(p), open_scores(f, kind='logits'))",
    ),
    "fit_csv": (
        "z, y, p = scores_of(50_000, 14); d = Path(tempfile.mkdtemp()); "
        "np.savetxt(d / 'a.csv', np.c_[z, y], delimiter=',', "
        "header=','.join([*(f'c{i}' for i in range(14)), 'label']), comments='', "
        "fmt=['%.6g'] * 14 + ['%d']); (d / 'n.json').write_text(json.dumps((1e4 * p).tolist())); "
        "run = command('fit', d / 'a.csv', '--counts', d / 'n.json', '--kind', 'logits', '-o', "
        "d / 'cal.json')",
        "run()",
    ),
}

_WORKER = """
import sys, time
exec({setup!r})
work = compile({work!r}, "work", "eval")
eval(work); eval(work)
print("ready", flush=True)
for line in sys.stdin:
    n = int(line)
    start = time.perf_counter()
    for _ in range(n): eval(work)
    print((time.perf_counter() - start) / n, flush=True)
"""

#: Runs shorter than this are repeated within one measurement.
LEAST_SECONDS = 0.02


class Worker:
    """An interpreter that has prepared a case and times it when asked."""

    def __init__(self, python: str, setup: str, work: str) -> None:
        code = _WORKER.format(setup=_SCORES + setup, work=work)
        self._process = subprocess.Popen(
            [python, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        if self._read() != "ready":
            raise SystemExit(f"{python} could not run: {work}")

    def _read(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def seconds(self, repeats: int) -> float:
        """Mean seconds of ``repeats`` runs."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{repeats}\n")
        self._process.stdin.flush()
        return float(self._read())

    def close(self) -> None:
        """End the process."""
        self._process.communicate()


def measured(name: str, other_python: str, pairs: int) -> Row:
    """The ratio of this version's time to the other's, for one case."""
    setup, work = CASES[name]
    ours, theirs = Worker(sys.executable, setup, work), Worker(other_python, setup, work)
    try:
        once = min(ours.seconds(1), theirs.seconds(1))
        repeats = max(1, round(LEAST_SECONDS / once))
        ratios = np.array([ours.seconds(repeats) / theirs.seconds(repeats) for _ in range(pairs)])
    finally:
        ours.close()
        theirs.close()
    return Row(name, "the other version", float(np.median(ratios)), *interval(ratios), BAR)


def main(arguments: Sequence[str]) -> int:
    """Print a line for every case; return 1 if an interval is entirely above the bar."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks revisions", description=__doc__)
    parser.add_argument("python", help="the interpreter that has the other version")
    parser.add_argument("cases", nargs="*", help=", ".join(CASES))
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    rows = []
    for name in options.cases or CASES:
        row = measured(name, options.python, options.pairs)
        flag = "   SLOWER" if row.low > BAR else ""
        print(f"{name:24} {row.ratio:6.2f}  [{row.low:5.2f}, {row.high:5.2f}]{flag}", flush=True)
        rows.append(row)
    if options.json:
        options.json.write_text(json.dumps([asdict(row) for row in rows], indent=2) + "\n")
    return int(any(row.low > BAR for row in rows))
