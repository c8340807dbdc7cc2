"""Paired, interleaved timing: a ratio and its interval, never bare seconds."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any
from unittest import mock

import numpy as np

#: Quantiles of the median's bootstrap distribution that are reported as its interval.
INTERVAL = (0.05, 0.95)


@dataclass(frozen=True)
class Row:
    """One line of the table: the case, the peer, the ratio, its interval and the bar."""

    what: str
    peer: str
    ratio: float
    low: float
    high: float
    bar: float

    @property
    def kept(self) -> bool:
        """Whether the ratio meets the bar; NaN means no bar."""
        return not self.ratio > self.bar


def compare(
    what: str,
    ours: Callable[[], Any],
    peer: str,
    theirs: Callable[[], Any],
    *,
    bar: float,
    pairs: int = 31,
    warm: bool = False,
) -> Row:
    """Time the two alternately and take the median of the paired ratios.

    Pairs that are neighbours in time share whatever else the machine is doing. Both are run once
    before, untimed, unless they are ``warm``: have been run already.
    """
    if not warm:
        ours()
        theirs()
    ratios = np.array([_seconds(ours) / _seconds(theirs) for _ in range(pairs)])
    return Row(what, peer, float(np.median(ratios)), *interval(ratios), bar)


def interval(ratios: np.ndarray) -> tuple[float, float]:
    """The 90 % bootstrap interval of the median of paired ratios."""
    rng = np.random.default_rng(0)
    medians = np.median(rng.choice(ratios, (1000, ratios.size)), axis=1)
    low, high = np.quantile(medians, INTERVAL)
    return float(low), float(high)


def has(package: str, install: str | None = None) -> bool:
    """Return whether a peer is installed; if not, print how to install it."""
    if find_spec(package) is not None:
        return True
    how = f"pip install {install or package}"
    print(f"LEFT OUT: {package} is not installed. Run: {how}", flush=True)
    return False


@contextmanager
def array_code() -> Iterator[None]:
    """Run without the compiled kernels."""
    with mock.patch("reprior.core.kernels.native", None):
        yield


def _seconds(work: Callable[[], Any]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start
