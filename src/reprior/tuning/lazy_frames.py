"""Dask's dataframes and series as Dask arrays, and names of classes in these."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from reprior.exceptions import ScoresError
from reprior.tuning.lazy import delayed, tree

__all__ = ["is_lazy_frame", "lazy_column", "lazy_columns", "lazy_names"]

Vector: TypeAlias = np.ndarray[Any, Any]


def is_lazy_frame(values: Any) -> bool:
    """Whether values are a dataframe of Dask."""
    return hasattr(values, "to_dask_array") and values.ndim == 2


def lazy_column(values: Any) -> Any:
    """A series of Dask as a Dask array; anything else as it is."""
    if not hasattr(values, "to_dask_array"):
        return values
    if getattr(values.dtype, "kind", "O") not in "biuf":
        values = values.astype(object)  # names, in whatever pandas keeps them
    return values.to_dask_array()


def lazy_columns(frame: Any, classes: Vector | None) -> Any:
    """Scores of a dataframe; columns that are named after the classes in the order of these."""
    columns = list(frame.columns)
    if classes is not None and set(columns) == set(classes.tolist()):
        frame = frame[classes.tolist()]
    odd = [name for name, kind in frame.dtypes.items() if getattr(kind, "kind", "O") not in "fiu"]
    if odd:
        raise ScoresError(
            f"`scores` must be numbers in every column. Got a dataframe with other types in "
            f"{odd[0]!r}. Select the columns of scores, one per class."
        )
    return frame.to_dask_array()


def lazy_names(labels: Any) -> list[Any]:
    """The different values in a Dask array, each once."""
    work = delayed(_different)
    found: set[Any] = tree([work(block) for block in labels.to_delayed().ravel()], _union).compute()
    return list(found)


def _different(block: Any) -> set[Any]:
    return set(np.asarray(block, dtype=object).reshape(-1).tolist())


def _union(parts: list[set[Any]]) -> set[Any]:
    return set().union(*parts)
