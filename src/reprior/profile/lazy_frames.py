"""Dask's dataframes and series as Dask arrays, and names of classes in these."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from reprior.exceptions import ScoresError
from reprior.profile.dask_arrays import delayed, tree

__all__ = ["is_lazy_frame", "lazy_column", "lazy_columns", "lazy_names", "same_partitions"]

Vector: TypeAlias = np.ndarray[Any, Any]


def is_lazy_frame(values: Any) -> bool:
    """Whether values are a dataframe of Dask."""
    return hasattr(values, "to_dask_array") and values.ndim == 2


def same_partitions(frame: Any, *columns: Any) -> tuple[Any, ...]:
    """A dataframe of Dask, and series that belong to it, in partitions of the same samples.

    Dask reads files of few columns several to a partition: of one set of files a frame of scores
    may have more partitions than a series of labels, and neither tells how long they are. So all
    columns are read as one frame here. Anything that is no series of Dask stays as it is.
    """
    own = {f"__reprior_{i}": each for i, each in enumerate(columns) if _is_series(each)}
    if not is_lazy_frame(frame) or not own:
        return frame, *columns
    joined = frame.assign(**own)
    fixed = joined.map_partitions(_as_it_is, meta=joined._meta)  # of which Dask leaves nothing out
    names = [f"__reprior_{i}" for i in range(len(columns))]
    others = (
        fixed[name] if name in own else each for name, each in zip(names, columns, strict=True)
    )
    return fixed[list(frame.columns)], *others


def _as_it_is(partition: Any) -> Any:
    return partition


def _is_series(values: Any) -> bool:
    return hasattr(values, "to_dask_array") and values.ndim == 1


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
