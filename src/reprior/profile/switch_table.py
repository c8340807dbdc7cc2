"""The switches of a profile as a table: where each prediction changes, from what to what."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from reprior.profile.switches import Switches

__all__ = ["SwitchTable", "switch_table"]

Vector: TypeAlias = np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False)
class SwitchTable:
    """Every change of a prediction within the bounds of a profile, by strength.

    From ``position[j]`` on, ``count[j]`` samples of class ``label[j]`` are predicted as class
    ``after[j]``; below it they were predicted as class ``before[j]``.

    Attributes
    ----------
    position : ndarray of shape (S,)
        Strengths, ascending. A switch right after 0 stands at the smallest positive float.
    label, before, after : integer ndarray of shape (S,)
        The samples' own class, and their predictions on either side.
    count : integer ndarray of shape (S,)
        How many samples; 1 unless profiles were subtracted.
    weight : ndarray of shape (S,)
        Their summed weight; equal to ``count`` where samples have no weights.

    Examples
    --------
    >>> import numpy as np
    >>> import reprior as rp
    >>> logits = np.array([[2.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    >>> table = rp.StrengthProfile.from_scores(logits, [0, 1, 1], source_prior=[0.8, 0.2]).switches
    >>> table.position.round(3), table.label, table.before, table.after
    (array([0.721, 1.443]), array([1, 0], ...), array([0, 0], ...), array([1, 1], ...))
    """

    position: Vector
    label: Vector
    before: Vector
    after: Vector
    count: Vector
    weight: Vector

    def __len__(self) -> int:
        return int(self.position.size)


def switch_table(switches: Switches) -> SwitchTable:
    """Sort switches by strength, then by label and classes; nothing of theirs is shared."""
    order = np.lexsort((switches.winner, switches.loser, switches.label, switches.position))
    count = np.ones(order.size, np.int64) if switches.count is None else switches.count[order]
    weight = count.astype(np.float64) if switches.weight is None else switches.weight[order]
    return SwitchTable(
        position=switches.position[order],
        label=switches.label[order],
        before=switches.loser[order],
        after=switches.winner[order],
        count=count,
        weight=weight,
    )
