"""Run cases: mutate a valid file, read it, and judge what came of it."""

from __future__ import annotations

import resource
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from tests.fuzz.corpus import SUBJECTS, Subject, fresh, quietly
from tests.fuzz.mutations import ARCHIVE, BYTES, TEXT, Change

from reprior.exceptions import RepriorError

SECONDS = 10.0
"""A case that takes longer is a hang."""

MEMORY = 1 << 30
"""Bytes of memory that a case may take beyond what the process has."""

MOST_CHANGES = 3

_STATUS = Path("/proc/self/status")


class Judged(NamedTuple):
    """What came of a case: equal, refused, changed or failed, and why it failed."""

    outcome: str
    reason: str = ""


@dataclass
class Target:
    """The valid files of a subject in a folder, and what each of them says."""

    name: str
    folder: Path
    subject: Subject = field(init=False)
    files: list[tuple[Path, bytes, Any]] = field(init=False)

    def __post_init__(self) -> None:
        self.subject = SUBJECTS[self.name]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            paths = self.subject.write(fresh(self.folder))
        self.files = [(path, path.read_bytes(), quietly(self.subject.read, path)) for path in paths]

    def judge(self, seed: int, case: int, keep: Sequence[int] | None = None) -> Judged:
        """Run one case; of its changes only those of the indices ``keep``, if given."""
        rng = Random(f"{self.name} {seed} {case}")
        path, valid, expected = rng.choice(self.files)
        data, in_archive = valid, False
        for i, change in enumerate(self._changes(path, rng)):
            own = Random(f"{self.name} {seed} {case} {i}")
            if (keep is None or i in keep) and data:
                data = change(data, own)
                in_archive |= change in ARCHIVE
        path.write_bytes(data)
        protects = self.subject.protects and not in_archive
        try:
            return self._read(path, expected, protects=protects)
        finally:
            path.write_bytes(valid)

    def _changes(self, path: Path, rng: Random) -> list[Change]:
        changes = TEXT if self.subject.is_text or path.suffix == ".json" else BYTES
        if path.suffix == ".npz" and rng.random() < 0.5:
            changes = ARCHIVE
        return [rng.choice(changes) for _ in range(rng.randint(1, MOST_CHANGES))]

    def _read(self, path: Path, expected: Any, *, protects: bool) -> Judged:
        began, before = time.monotonic(), _memory(reset=True)
        try:
            result = quietly(self.subject.read, path)
        except RepriorError as error:
            judged = Judged("refused", "" if "\n" not in str(error) else "two lines")
        except Exception:
            return Judged("failed", traceback.format_exc())
        else:
            judged = Judged("equal" if result == expected else "changed")
        if judged.outcome == "changed" and protects:
            return Judged("failed", "another content was read, though the format has a checksum")
        if (seconds := time.monotonic() - began) > SECONDS:
            return Judged("failed", f"{seconds:.1f} seconds")
        if (taken := _memory() - before) > MEMORY:
            return Judged("failed", f"{taken:,} bytes of memory")
        return judged

    def shrink(self, seed: int, case: int) -> tuple[Path, bytes]:
        """Return the file that is mutated and its fewest changes that still fail, as bytes."""
        keep = list(range(MOST_CHANGES))
        for i in range(MOST_CHANGES):
            fewer = [each for each in keep if each != i]
            if fewer and self.judge(seed, case, fewer).outcome == "failed":
                keep = fewer
        return self.mutated(seed, case, keep)

    def mutated(
        self, seed: int, case: int, keep: Sequence[int] = range(MOST_CHANGES)
    ) -> tuple[Path, bytes]:
        """Return the path and the content of the file of a case."""
        rng = Random(f"{self.name} {seed} {case}")
        path, data, _ = rng.choice(self.files)
        for i, change in enumerate(self._changes(path, rng)):
            if i in keep and data:
                data = change(data, Random(f"{self.name} {seed} {case} {i}"))
        return path, data


def _memory(*, reset: bool = False) -> int:
    """Return the most memory that this process has had, in bytes.

    ``reset`` forgets earlier peaks where the system can (Linux), so that they hide nothing.
    """
    if _STATUS.exists():
        if reset:
            Path("/proc/self/clear_refs").write_text("5")
        line = next(line for line in _STATUS.read_text().splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) * 1024
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def run(name: str, folder: Path, cases: range, *, seed: int = 0) -> tuple[Counter[str], list[str]]:
    """Run cases in this process; return how often each outcome came, and the failures."""
    target = Target(name, folder / name)
    outcomes: Counter[str] = Counter()
    failures: list[str] = []
    for case, judged in judge_all(target, cases, seed):
        outcomes[judged.outcome] += 1
        if judged.outcome == "failed":
            written = write_failure(target, seed, case, folder)
            failures.append(f"{name}, case {case}: {written}: {judged.reason}")
    return outcomes, failures


def judge_all(target: Target, cases: range, seed: int) -> Iterator[tuple[int, Judged]]:
    """Give every case and what came of it."""
    for case in cases:
        yield case, target.judge(seed, case)


def write_failure(
    target: Target, seed: int, case: int, folder: Path, *, shrink: bool = True
) -> Path:
    """Write the file of a failed case, with as few changes as fail, and return its path."""
    path, data = target.shrink(seed, case) if shrink else target.mutated(seed, case)
    kept = folder / "failures" / f"{target.name}-{seed}-{case}-{path.name}"
    kept.parent.mkdir(parents=True, exist_ok=True)
    kept.write_bytes(data)
    return kept
