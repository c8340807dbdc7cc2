"""Compiled kernels of reprior. Use them through ``reprior.core.kernels``.

The binding checks dtypes, shapes and indices: `src/native/module.cpp`. Arguments named here as
arrays of float64 or int64 must be contiguous.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

# ---- instruction set
def level() -> str: ...
def levels() -> list[str]: ...
def set_level(name: str) -> None: ...

# ---- profile
def profile(
    scores: NDArray[Any],
    labels: NDArray[np.int64],
    weights: NDArray[np.float64] | None,
    slopes: NDArray[np.float64] | None,
    direction: NDArray[Any] | None,
    to_scores: bool,
    low: float,
    high: float,
    first: int,
    counts: NDArray[np.int64],
    sums: NDArray[np.float64],
    position: NDArray[np.float64],
    parties: NDArray[np.int32],
    switch_weight: NDArray[np.float64],
    used: int,
    ends: NDArray[np.int32],
) -> tuple[int, int]: ...

# ---- posterior
def posterior(
    scores: NDArray[Any],
    kind: int,
    tolerance: float,
    scale: NDArray[np.float64],
    bias: NDArray[np.float64],
    log: bool,
    start: int,
    stop: int,
    out: NDArray[Any],
) -> bool: ...
def decisions(
    scores: NDArray[Any],
    kind: int,
    tolerance: float,
    scale: NDArray[np.float64],
    bias: NDArray[np.float64],
    start: int,
    stop: int,
    classes: NDArray[np.int64],
) -> bool: ...
def tilted_sums(
    scores: NDArray[Any],
    labels: NDArray[np.int64],
    weights: NDArray[np.float64],
    scale: NDArray[np.float64],
    shift: NDArray[np.float64],
    slopes: NDArray[np.float64],
    sums: NDArray[np.float64],
) -> None: ...
def posterior_sums(
    scores: NDArray[Any],
    labels: NDArray[np.int64],
    weights: NDArray[np.float64],
    scale: NDArray[np.float64],
    bias: NDArray[np.float64],
    sums: NDArray[np.float64],
) -> None: ...

# ---- predictions
def row_totals(scores: NDArray[Any], tolerance: float, totals: NDArray[np.float64]) -> bool: ...
def largest_classes(scores: NDArray[Any], tolerance: float, classes: NDArray[np.int64]) -> bool: ...
def add_rows(
    scores: NDArray[Any],
    weights: NDArray[np.float64],
    labels: NDArray[np.int64] | None,
    sums: NDArray[np.float64],
) -> None: ...
def add_normalised(
    scores: NDArray[Any],
    tolerance: float,
    factors: NDArray[np.float64],
    sums: NDArray[np.float64],
) -> bool: ...

# ---- fusion
def entropies(
    scores: NDArray[Any], kind: str, tolerance: float, out: NDArray[np.float64]
) -> bool: ...
def fuse(
    scores: Sequence[NDArray[Any]],
    kind: str,
    tolerances: NDArray[np.float64],
    factors: NDArray[np.float64] | None,
    slopes: NDArray[np.float64],
    strengths: NDArray[np.float64],
    rule: str,
    flatten_first: bool,
    form: str,
    out: NDArray[Any],
) -> int: ...
def fused_classes(
    scores: Sequence[NDArray[Any]],
    kind: str,
    tolerances: NDArray[np.float64],
    factors: NDArray[np.float64] | None,
    slopes: NDArray[np.float64],
    strengths: NDArray[np.float64],
    rule: str,
    flatten_first: bool,
    classes: NDArray[np.int64],
) -> int: ...

# ---- reliability
def add_reliability(
    posterior: NDArray[Any],
    labels: NDArray[np.int64],
    weights: NDArray[np.float64],
    edges: NDArray[np.float64],
    top: NDArray[np.float64],
    every: NDArray[np.float64],
) -> None: ...

# ---- sweep
class Metric:
    def __init__(
        self,
        part: NDArray[np.uint8],
        share: NDArray[np.float64],
        klass: NDArray[np.int32],
        second: NDArray[np.float64],
        mean: int,
        pooled: bool,
        weighted: bool,
        gain: float,
        support: float,
        predicted: float,
        true_positive: float,
        everything: float,
        all: float,
        chance: float,
        unit: float,
    ) -> None: ...

def sweep(
    position: NDArray[np.float64],
    label: NDArray[np.int32],
    loser: NDArray[np.int32],
    winner: NDArray[np.int32],
    count: NDArray[np.int64] | None,
    weight: NDArray[np.float64] | None,
    tallies: NDArray[np.float64],
    plain: NDArray[np.int64],
    support: NDArray[np.float64],
    metric: Metric,
    low: float,
    start: NDArray[np.float64],
    value: NDArray[np.float64],
) -> int: ...
def best_interval(
    start: NDArray[np.float64], value: NDArray[np.float64], high: float, spared: float
) -> tuple[float, float, float]: ...

# ---- bins
def enter_bins(
    position: NDArray[np.float64],
    label: NDArray[np.int32],
    loser: NDArray[np.int32],
    winner: NDArray[np.int32],
    amount: NDArray[Any] | None,
    resolution: float,
    first: int,
    moved: NDArray[Any],
    net: NDArray[Any],
) -> None: ...

# ---- biases
def place_rows(
    rows: NDArray[Any],
    biases: NDArray[np.float64],
    first: NDArray[np.int32],
    second: NDArray[np.int32],
    top: NDArray[np.float64],
    following: NDArray[np.float64],
) -> None: ...
def move_class(
    rows: NDArray[Any],
    column: NDArray[Any],
    biases: NDArray[np.float64],
    k: int,
    bias: float,
    first: NDArray[np.int32],
    second: NDArray[np.int32],
    top: NDArray[np.float64],
    following: NDArray[np.float64],
) -> None: ...
def count_first(
    labels: NDArray[np.int32],
    weights: NDArray[np.float64] | None,
    first: NDArray[np.int32],
    sums: NDArray[np.float64],
    counts: NDArray[np.int64],
) -> None: ...
def promising_part(
    rows: NDArray[Any],
    labels: NDArray[np.int32],
    weights: NDArray[np.float64] | None,
    column: NDArray[Any],
    k: int,
    bias: float,
    first: NDArray[np.int32],
    second: NDArray[np.int32],
    top: NDArray[np.float64],
    following: NDArray[np.float64],
    support: NDArray[np.float64],
    metric: Metric,
    value: float,
    tallies: NDArray[np.float64],
    plain: NDArray[np.int64],
    place: NDArray[np.float64],
    chosen: NDArray[np.int64],
) -> tuple[int, float, float]: ...
def climb_lines(
    rows: NDArray[Any],
    labels: NDArray[np.int32],
    weights: NDArray[np.float64] | None,
    biases: NDArray[np.float64],
    first: NDArray[np.int32],
    second: NDArray[np.int32],
    top: NDArray[np.float64],
    following: NDArray[np.float64],
    tallies: NDArray[np.float64],
    plain: NDArray[np.int64],
    support: NDArray[np.float64],
    metric: Metric,
    home: NDArray[np.float64],
    order: NDArray[np.int64],
    value: float,
) -> list[float]: ...
def climb_box(
    rows: NDArray[Any],
    labels: NDArray[np.int32],
    weights: NDArray[np.float64] | None,
    biases: NDArray[np.float64],
    first: NDArray[np.int32],
    second: NDArray[np.int32],
    top: NDArray[np.float64],
    following: NDArray[np.float64],
    tallies: NDArray[np.float64],
    plain: NDArray[np.int64],
    support: NDArray[np.float64],
    metric: Metric,
    home: NDArray[np.float64],
    order: NDArray[np.int64],
    value: float,
    radius: float,
    max_cycles: int,
) -> tuple[list[float], int]: ...
