"""The classes as the page shows them: names, counts, groups, and cells of the confusion table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from reprior.calibrator.encoding import as_mapping
from reprior.core.arrays import to_numpy
from reprior.exceptions import Argument, Element, PriorError
from reprior.metrics.groups import shot_groups

if TYPE_CHECKING:
    from reprior.calibrator import PosteriorCalibrator

__all__ = ["Classes", "describe_classes"]

Vector: TypeAlias = np.ndarray[Any, Any]

#: Classes up to which the confusion table is shown whole.
WHOLE_TABLE = 30

#: Groups of classes, by training frequency, in the confusion table of more than that.
N_CELLS = 10


@dataclass(frozen=True, eq=False)
class Classes:
    """``group`` and ``cell`` (K,) are indices into ``group_names`` and ``cell_names``."""

    names: list[str]
    counts: Vector | None
    group: Vector
    group_names: list[str]
    group_note: str
    cell: Vector
    cell_names: list[str]

    @property
    def whole(self) -> bool:
        """Whether every class has a cell of its own."""
        return len(self.cell_names) == len(self.names)


def describe_classes(
    calibrator: PosteriorCalibrator, counts: Any, groups: tuple[float, float] = (20, 100)
) -> Classes:
    """Read the training ``counts``, if any, and group the classes by them or by the prior."""
    names = [str(name) for name in calibrator.classes_.tolist()]
    host = _counts(counts, calibrator.classes_.tolist())
    prior = calibrator.source_prior_
    order = np.argsort(-prior, kind="stable")
    masks = None if host is None else shot_groups(host, thresholds=groups)
    fixed = masks is not None and sum(bool(mask.any()) for mask in masks.values()) > 1
    if masks is not None and (fixed or len(names) == 1):
        low, high = (f"{limit:g}" for limit in groups)
        labels = {
            "many": f"many (> {high})",
            "medium": f"medium ({low} to {high})",
            "few": f"few (< {low})",
        }
        group_names = [labels[name] for name in masks]
        group = np.argmax(list(masks.values()), axis=0)
        note = (
            f"Groups are by training count: many above {high}, medium {low} to {high}, few below "
            f"{low}."
        )
    else:
        group_names = ["head", "middle", "tail"]
        group = np.empty(len(names), np.int64)
        for i, part in enumerate(np.array_split(order, 3)):
            group[part] = i
        note = "The groups are thirds of the classes by source prior"
        if masks is None:
            note = f"No training counts were given. {note}."
        else:
            limits = " and ".join(f"{limit:g}" for limit in groups)
            note = f"{note}: the limits {limits} would put all classes into one group."
    cell = np.arange(len(names))
    cell_names = names
    if len(names) > WHOLE_TABLE:
        cell, cell_names = _cells(order)
    return Classes(names, host, group, group_names, note, cell, cell_names)


def _cells(order: Vector) -> tuple[Vector, list[str]]:
    """Return cells of equally many classes, the most frequent first."""
    cell = np.empty(order.size, np.int64)
    names = []
    start = 1
    for i, part in enumerate(np.array_split(order, N_CELLS)):
        cell[part] = i
        names.append(f"{start}–{start + part.size - 1}")
        start += part.size
    return cell, names


def _counts(counts: Any, classes: list[Any]) -> Vector | None:
    if counts is None:
        return None
    counts = as_mapping(counts)
    if isinstance(counts, Mapping):
        missing = [name for name in classes if name not in counts]
        if missing:
            raise PriorError(
                argument="counts",
                rule="must have a number for every class",
                got=f"none for {missing[0]!r}",
                remedy=[
                    "Add it, or leave ",
                    Argument("counts"),
                    " out.",
                ],
            )
        counts = [counts[name] for name in classes]
    host = to_numpy(counts)
    if host.shape != (len(classes),):
        raise PriorError(
            argument="counts",
            rule="must have one number per class",
            got=f"shape {host.shape} for {len(classes)} classes",
            remedy="Pass the training samples of every class, in the order of the scores.",
        )
    bad = ~np.isfinite(host) | (host < 0) if host.dtype.kind in "iuf" else np.ones(host.shape, bool)
    if bad.any():
        where = int(np.argmax(bad))
        raise PriorError(
            argument="counts",
            rule="must be finite and not negative for every class",
            got=Element("counts", (where,), str(host[where])),
            remedy="Check how they were counted.",
        )
    return host
