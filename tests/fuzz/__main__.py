"""Fuzz formats in child processes with a limit on time and memory: ``python -m tests.fuzz``.

Without formats, all; without ``--cases``, until Ctrl-C. Failing files are written to
``build/fuzz/failures`` and the totals to ``build/fuzz/totals.json``; the exit code is 1 where there
are failures.
"""

from __future__ import annotations

import argparse
import json
import queue
import resource
import subprocess
import sys
import threading
from collections import Counter
from itertools import count
from pathlib import Path

from tests.fuzz.corpus import SUBJECTS
from tests.fuzz.driver import SECONDS, Target, judge_all, write_failure

AT_ONCE = 2_000
"""Cases of a format before the next one, where there is no end."""

VIRTUAL_MEMORY = 4 << 30
"""Bytes of address space that a child may take beyond what it has when it starts."""

STARTING = 120.0
"""Seconds that a child may take to import and to write its valid files."""


def main() -> int:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("formats", nargs="*", choices=[[], *SUBJECTS])
    parser.add_argument("--cases", type=int, default=0, help="of each format; 0: until Ctrl-C")
    parser.add_argument("--first", type=int, default=0, help="the first case")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=Path, default=Path("build/fuzz"))
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    formats = given.formats or list(SUBJECTS)
    if given.child:
        child(formats[0], given.folder, range(given.first, given.first + given.cases), given.seed)
        return 0
    totals = {name: Counter[str]() for name in formats}
    rounds = (
        [range(given.first, given.first + given.cases)]
        if given.cases
        else (range(i, i + AT_ONCE) for i in count(given.first, AT_ONCE))
    )
    given.folder.mkdir(parents=True, exist_ok=True)
    try:
        for cases in rounds:
            for name in formats:
                totals[name] += supervise(name, given.folder, cases, given.seed)
                text = json.dumps({each: dict(n) for each, n in totals.items()}, indent=1)
                (given.folder / "totals.json").write_text(text)
                print(f"{name}: {dict(totals[name])}", flush=True)
    except KeyboardInterrupt:
        pass
    return int(any(n["failed"] for n in totals.values()))


def child(name: str, folder: Path, cases: range, seed: int) -> None:
    """Run cases here, and print each with what came of it."""
    target = Target(name, folder / "files" / name)
    with open("/proc/self/statm", encoding="ascii") as file:
        limit = int(file.read().split()[0]) * resource.getpagesize() + VIRTUAL_MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    print("ready", flush=True)
    for case, judged in judge_all(target, cases, seed):
        print(json.dumps([case, judged.outcome, judged.reason]), flush=True)
        if judged.outcome == "failed":
            write_failure(target, seed, case, folder)


def supervise(name: str, folder: Path, cases: range, seed: int) -> Counter[str]:
    """Run cases in a child; one that kills or stops it is a failure, and the next child goes on."""
    outcomes: Counter[str] = Counter()
    left = cases
    while left:
        command = [
            sys.executable, "-X", "faulthandler", "-m", "tests.fuzz", "--child", name,
            "--cases", str(len(left)), "--first", str(left.start), "--seed", str(seed),
            "--folder", str(folder),
        ]  # fmt: skip
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        lines: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=_forward, args=(process, lines), daemon=True).start()
        n_done, reason = _follow(process, lines, name, outcomes)
        left = left[n_done:]
        if left:
            outcomes["failed"] += 1
            target = Target(name, folder / "files" / name)
            kept = write_failure(target, seed, left.start, folder, shrink=False)
            print(f"{name}, case {left.start}: {kept}: {reason}", flush=True)
            left = left[1:]
    return outcomes


def _forward(process: subprocess.Popen[str], lines: queue.Queue[str | None]) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        lines.put(line)
    lines.put(None)


def _follow(
    process: subprocess.Popen[str],
    lines: queue.Queue[str | None],
    name: str,
    outcomes: Counter[str],
) -> tuple[int, str]:
    """Count what a child prints, until it ends; return how many cases it did and why it ended."""
    n_done = 0
    limit = STARTING
    with process:
        while True:
            try:
                line = lines.get(timeout=limit)
            except queue.Empty:
                process.kill()
                return n_done, f"no answer within {limit:g} seconds"
            if line is None:
                break
            if line.startswith("["):
                case, outcome, reason = json.loads(line)
                n_done += 1
                outcomes[outcome] += 1
                if outcome == "failed":
                    print(f"{name}, case {case}: {reason}", flush=True)
            limit = 3 * SECONDS  # shrinking a failure reads it again
        assert process.stderr is not None
        tail = process.stderr.read()[-2000:]
    return n_done, f"the process ended with {process.returncode}: {tail}"


if __name__ == "__main__":
    sys.exit(main())
