"""All numbers of the page, laid out as JSON."""

from __future__ import annotations

import base64
import json
import math
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from reprior.calibrator.document import document_of
from reprior.calibrator.summary import has_other_mix
from reprior.exceptions import Argument, OptionError
from reprior.files.documents import CALIBRATOR_FORMAT, calibrator_version
from reprior.metrics.count_metrics import Agreement, CountMetric
from reprior.profile.profile import StrengthProfile
from reprior.report.classes import Classes
from reprior.report.headline import is_known_along, metric_label, shown_metrics, tuned_on
from reprior.report.intervals import CONFIDENCE
from reprior.report.measure import GRID_SIZE, N_BINS, GridReliability, Measured, page_bounds
from reprior.report.thinning import (
    SwitchRows,
    grid_points,
    grouped,
    on_grid,
    summed_per_class,
    thinned,
    widths,
)

if TYPE_CHECKING:
    from reprior.calibrator import PosteriorCalibrator

__all__ = [
    "MOST_BYTES",
    "SIZE_LIMITS",
    "SizeLimits",
    "exactly",
    "fitting_data",
    "packed",
    "page_data",
    "script_json",
    "smallest_ids",
]


Vector: TypeAlias = np.ndarray[Any, Any]


def fitting_data(
    calibrator: PosteriorCalibrator, classes: Classes, sets: dict[str, Measured], most_bytes: int
) -> str:
    """Return the data of the page as JSON, as much as ``most_bytes`` allows."""
    for limits in SIZE_LIMITS:
        text = script_json(page_data(calibrator, classes, sets, limits))
        if len(text.encode()) <= most_bytes:
            return text
    raise OptionError(
        argument="calibrator",
        rule=(f"must be of so few classes that a page of {MOST_BYTES // 10**6} MB can hold them"),
        got=f"{len(classes.names):,}",
        remedy=[
            "Merge rare classes, or leave ",
            Argument("test"),
            " out.",
        ],
    )


def page_data(
    calibrator: PosteriorCalibrator, classes: Classes, sets: dict[str, Measured], limits: SizeLimits
) -> dict[str, Any]:
    """The data of the page, ready for JSON."""
    metrics = shown_metrics(calibrator)
    names = [limits.cut(name) for name in classes.names]
    counts = None
    if classes.counts is not None:
        counts = exactly(classes.counts, limits.float_type)
    return {
        "metrics": [_metric(metric) for metric in metrics],
        "strength": float(calibrator.strength_),
        "interval": [float(end) for end in calibrator.strength_interval_],
        "temperature": float(calibrator.temperature_),
        "bounds": list(page_bounds(calibrator)),
        "classes": {
            "names": names,
            "cutTo": None if names == classes.names else limits.letters,
            "counts": counts,
            "source": packed(calibrator.source_prior_, limits.float_type),
            "target": packed(calibrator.target_prior_, limits.float_type),
            "group": packed(classes.group, "u1"),
            "groupNames": classes.group_names,
            "cell": packed(classes.cell, smallest_ids(len(classes.cell_names))),
            "cellNames": names if classes.whole else classes.cell_names,
            "whole": classes.whole,
        },
        "bins": N_BINS,
        "gridSize": GRID_SIZE,
        "curvePoints": limits.curve_points,
        "confidence": CONFIDENCE,
        "calibrator": _document(calibrator) if limits.letters is None else None,
        "uncertainty": _uncertainty(calibrator),
        "sets": [
            {
                "name": name,
                **_set(calibrator, measured, metrics, limits),
                **_rows(calibrator, classes, measured, len(sets), limits),
            }
            for name, measured in sets.items()
        ],
    }


def _document(calibrator: PosteriorCalibrator) -> dict[str, Any]:
    """The calibrator as its file, for downloads with the strength of the slider."""
    fields = document_of(calibrator)
    version = calibrator_version(fields)
    return {"format": CALIBRATOR_FORMAT, "format_version": version, **fields}


def _uncertainty(calibrator: PosteriorCalibrator) -> dict[str, Any] | None:
    """The calibrator's own intervals, where its fit made some."""
    known = calibrator.uncertainty_
    if known is None:
        return None
    return {"confidence": known.confidence, "gain": list(known.gain_interval)}


def _gain(measured: Measured) -> dict[str, Any]:
    known = measured.gain
    if known is None:
        return {"gain": None, "noGain": measured.no_gain_interval}
    return {
        "gain": {
            "strengths": packed(known.strengths),
            "low": packed(known.low),
            "high": packed(known.high),
            "unit": known.unit,
            "units": known.n_units,
        },
        "noGain": None,
    }


def _metric(metric: CountMetric) -> dict[str, Any]:
    gain, support, predicted, true_positive = metric.form
    return {
        "name": metric.name,
        "label": metric_label(metric),
        "gain": float(gain),
        "support": float(support),
        "predicted": float(predicted),
        "truePositive": float(true_positive),
        "average": metric.average,
        "ofClass": metric.of_class,
        "mean": metric.coefficient if isinstance(metric, Agreement) else metric.mean,
        "classes": None if metric.classes is None else list(metric.classes),
        "complement": metric.complement,
        "chance": metric.chance,
        # Read from the curve of each set: counts per class do not determine it.
        "alongCurve": metric.needs != "classes",
        "fraction": metric.fraction,
        "greaterIsBetter": metric.greater_is_better,
    }


def _set(
    calibrator: PosteriorCalibrator,
    measured: Measured,
    metrics: list[CountMetric],
    limits: SizeLimits,
) -> dict[str, Any]:
    profile = measured.profile
    metrics = [metric for metric in metrics if _defined(profile, metric)]
    best = {metric.name: profile.best(metric) for metric in metrics}
    return {
        "samples": profile.n_samples,
        "switchCount": profile.n_switches,
        "profileResolution": profile.resolution,
        "support": exactly(profile.baseline.support, limits.float_type),
        "labelled": packed(profile.baseline.labelled, "u1"),
        "weighted": profile.weighted,
        **_gain(measured),
        "tunedOn": tuned_on(calibrator, measured) is True,
        "otherMix": has_other_mix(calibrator, profile.baseline),
        "curves": {
            m.name: _curve(profile, m, calibrator.strength_, limits.curve_points) for m in metrics
        },
        "best": {
            key: {
                "strength": optimum.strength,
                "value": optimum.value,
                "interval": list(optimum.interval),
                "atBound": bool(optimum.at_bound),
            }
            for key, optimum in best.items()
        },
        "fronts": [_front(profile, a, b, limits.front_points) for a, b in combinations(metrics, 2)],
        "reliability": _reliability(measured.grid),
        "reliabilityBefore": _reliability(measured.before),
    }


def _defined(profile: StrengthProfile, metric: CountMetric) -> bool:
    """Whether the set has labels of a class that the metric is about, and what it needs."""
    return is_known_along(profile, metric)


def _rows(
    calibrator: PosteriorCalibrator,
    classes: Classes,
    measured: Measured,
    n_sets: int,
    limits: SizeLimits,
) -> dict[str, Any]:
    """Joint table and switches, thinned where they are too many."""
    k = len(classes.names)
    low, high = page_bounds(calibrator)
    edges = [low, 0.0, float(calibrator.strength_)]
    row_bytes = 12 + 3 * np.dtype(smallest_ids(k)).itemsize + 8 * measured.profile.weighted
    limit = min(limits.rows, limits.row_bytes // (row_bytes * n_sets))
    joint = measured.joint
    many = len(measured.joint) > limits.pairs // n_sets
    switches, width, per_class = thinned(
        measured.switches, limit, k, edges, high, measured.resolution, per_class=many
    )
    data: dict[str, Any] = {"perClass": per_class}
    if per_class:
        joint = grouped(summed_per_class(joint, k))
        data["cells"], wider = _cell_rows(measured, classes, width, edges, high, limits.group_rows)
        if wider is not None and wider != width:  # one grid for the whole page
            placed = on_grid(measured.switches, grid_points(wider, edges, high))
            switches = grouped(summed_per_class(placed, k))
            width = wider
    return {
        **data,
        "resolution": width,
        "joint": _table(joint, k, base=True),
        "switches": _table(switches, k),
    }


def _cell_rows(
    measured: Measured,
    classes: Classes,
    width: float | None,
    edges: list[float],
    high: float,
    most: int,
) -> tuple[dict[str, Any], float | None]:
    """The joint table and switches of groups of classes, where those of classes are lost."""
    cell = np.append(classes.cell, len(classes.cell_names))

    def of_cells(rows: SwitchRows) -> SwitchRows:
        names = (cell[rows.label], cell[rows.before], cell[rows.after])
        inside = np.flatnonzero(names[1] != names[2])  # from one group into another
        return grouped(SwitchRows(rows.position, *names, rows.count, rows.weight).taken(inside))

    for wider in widths(width, coarser=True):
        switches = measured.switches
        if wider is not None:
            switches = on_grid(switches, grid_points(wider, edges, high))
        switches = of_cells(switches)
        if len(switches) <= most:
            break
    size = len(classes.cell_names)
    tables = {
        "joint": _table(of_cells(measured.joint), size, base=True),
        "switches": _table(switches, size),
    }
    return tables, wider


def _table(rows: SwitchRows, n_classes: int, *, base: bool = False) -> dict[str, Any]:
    ids = smallest_ids(n_classes)
    columns: dict[str, Any] = {
        "label": packed(rows.label, ids),
        "after": packed(rows.after, ids),
        "count": None if (rows.count == 1).all() else packed(rows.count, "i4"),
        "weight": None if rows.weight is None else packed(rows.weight),
        "size": len(rows),
    }
    if not base:
        columns["position"] = packed(rows.position)
        columns["before"] = packed(rows.before, ids)
    return columns


def _curve(
    profile: StrengthProfile, metric: CountMetric, strength: float, most: int
) -> dict[str, Any]:
    """The step function itself, or its values at some strengths where it has too many steps."""
    x, y = profile.curve(metric)
    exact = x.size <= most
    if not exact:
        low, high = profile.bounds
        best = profile.best(metric)
        even = np.linspace(low, high, most)
        x = np.unique([*even, 0.0, strength, best.strength])
        y = profile.evaluate(metric, x)
    return {"x": packed(x), "y": packed(y), "exact": exact}


def _front(profile: StrengthProfile, a: CountMetric, b: CountMetric, most: int) -> dict[str, Any]:
    front = profile.pareto(a, b)
    index = np.arange(len(front))
    if index.size > most:
        index = np.unique(np.linspace(0, index.size - 1, most).round().astype(int))
    return {
        "a": a.name,
        "b": b.name,
        "size": len(front),
        "strengths": packed(front.strengths[index]),
        "valuesA": packed(front.values_a[index]),
        "valuesB": packed(front.values_b[index]),
    }


def _reliability(grid: GridReliability) -> dict[str, Any]:
    return {
        "strengths": packed(grid.strengths),
        "weight": packed(grid.weight),
        "confidence": packed(grid.confidence),
        "hits": packed(grid.hits),
        "ece": packed(grid.ece),
        "logLoss": packed(grid.log_loss),
    }


#: Bytes of a page, scripts and all.
MOST_BYTES = 15_000_000


@dataclass(frozen=True)
class SizeLimits:
    """Limits; the page says what was cut because of them."""

    letters: int | None = None
    """Letters of a class name."""
    rows: int = 300_000
    """Rows of switches of one set."""
    row_bytes: int = 6_500_000
    """Bytes of all sets' switches, before base64 adds a third."""
    group_rows: int = 40_000
    """Rows of switches between groups of classes, where those between classes are not kept."""
    pairs: int = 150_000
    """Rows of the joint tables of all sets; with more, they are kept per class only."""
    curve_points: int = 1001
    """Steps of a curve that are all drawn; of longer ones, this many strengths."""
    front_points: int = 300
    """Points of a Pareto front that are drawn."""
    float_type: str = "f8"
    """The type of priors and supports that are not whole numbers."""

    def cut(self, name: str) -> str:
        """A class name of at most that many letters: its beginning and its end.

        Examples
        --------
        >>> SizeLimits(letters=9).cut("Larus argentatus")
        'Larus…tus'
        """
        if self.letters is None or len(name) <= self.letters:
            return name
        tail = self.letters // 3
        return f"{name[: self.letters - tail - 1]}…{name[-tail:]}"


#: From ample to tight. Long names are the first to go, then switches one by one.
SIZE_LIMITS = (
    SizeLimits(),
    SizeLimits(letters=60),
    SizeLimits(letters=60, rows=100_000, row_bytes=2_500_000, pairs=50_000),
    SizeLimits(
        letters=24,
        rows=20_000,
        row_bytes=500_000,
        pairs=5_000,
        group_rows=5_000,
        curve_points=301,
        front_points=100,
        float_type="f4",
    ),
)


def packed(values: Any, dtype: str = "f8") -> dict[str, str]:
    """An array as its bytes, little-endian, in base64, with its type.

    Examples
    --------
    >>> packed([1, 2], "u2")
    {'type': 'u2', 'data': 'AQACAA=='}
    """
    array = np.ascontiguousarray(values, dtype=f"<{dtype}")
    return {"type": dtype, "data": base64.b64encode(array.tobytes()).decode("ascii")}


def exactly(values: Any, otherwise: str = "f8") -> dict[str, str]:
    """An array packed in the smallest type of whole numbers, or else in type ``otherwise``.

    Examples
    --------
    >>> exactly([0, 300])["type"], exactly([0.5, 300])["type"]
    ('u2', 'f8')
    """
    array = np.asarray(values, np.float64)
    are_ids = bool(((array >= 0) & (array < 1 << 32) & (array % 1 == 0)).all())
    return packed(array, smallest_ids(int(array.max(initial=0))) if are_ids else otherwise)


def smallest_ids(n_classes: int) -> str:
    """Return the type that holds class indices and K, which means no class."""
    return "u1" if n_classes < 1 << 8 else "u2" if n_classes < 1 << 16 else "u4"


def script_json(data: Any) -> str:
    r"""JSON for the inside of a ``<script>`` element; what is not a finite number is null.

    Examples
    --------
    >>> print(script_json({"name": "</script>", "value": float("nan")}))
    {"name":"\u003c/script\u003e","value":null}
    """
    text = json.dumps(_finite(data), separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    # Inside strings only: JSON has none of these elsewhere.
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


def _finite(data: Any) -> Any:
    if isinstance(data, dict):
        return {key: _finite(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [_finite(value) for value in data]
    if isinstance(data, float) and not math.isfinite(data):
        return None
    return data
