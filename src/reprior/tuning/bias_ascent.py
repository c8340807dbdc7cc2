"""Coordinate ascent: one class's bias after the other, each by an exact line search.

Most steps are short. So at first every class looks for its best bias within a box around where
all of them were, which takes few samples; when none finds a better one there, each looks along
its whole line. That goes on until the whole line of no class has a better place. With few
samples, pairs of classes are tried too.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from reprior.core import kernels
from reprior.profile.constants import EQUAL_VALUES
from reprior.profile.objective import best_interval, middle
from reprior.tuning.bias_goal import Goal
from reprior.tuning.bias_line import Stretch, climb_box, climb_lines, line_of, promising_part
from reprior.tuning.bias_pairs import best_pair, pairs_worth_trying
from reprior.tuning.columns import Columns
from reprior.tuning.top_two import TopTwo

__all__ = ["Ascent"]

Vector: TypeAlias = np.ndarray[Any, Any]

#: The box reaches as far as makes this share of the samples doubtful. In a smaller one biases soon
#: are at the edge, a larger one is not much cheaper than the whole line.
DOUBTFUL = 0.15


@dataclass(eq=False)
class Ascent:
    """Biases on their way up.

    Parameters
    ----------
    data : Columns
        The labelled log-scores.
    goal : Goal
        What is maximised.
    start : array of shape (K,)
        Where the biases begin, −inf for a class out of play. Of equally good intervals of a bias
        the widest is taken, then the one nearest to here.
    movable : bool array of shape (K,)
        The classes whose biases may move.
    begin : array of shape (K,), optional
        Where the biases begin instead, −inf as in ``start``.
    thorough : bool
        Whether pairs of classes are tried too where all of their places are too many: at some of
        them, under constraints.

    Attributes
    ----------
    counts : ClassCounts
        Class counts at the biases.
    history : list of float
        The goal's rank at the start and after every step; it rises.
    n_cycles : int
        How many times all classes were asked, within the box or along the line.
    converged : bool
        Whether no step along any class's bias improves the rank.
    """

    data: Columns
    goal: Goal
    start: Vector
    movable: Vector
    begin: Vector | None = None
    thorough: bool = False
    history: list[float] = field(default_factory=list)
    n_cycles: int = 0
    converged: bool = False

    def __post_init__(self) -> None:
        begin = self.start if self.begin is None else self.begin
        self._two = TopTwo(self.data, begin)
        self.counts = self._two.counts()
        self.history.append(self.goal.rank(self.counts))
        self._order = np.flatnonzero(self.movable & np.isfinite(self.start))

    @property
    def biases(self) -> Vector:
        """Where they are now, (K,)."""
        return self._two.biases.copy()

    @property
    def rank(self) -> float:
        """The goal's rank there."""
        return self.history[-1]

    def run(self, max_cycles: int) -> None:
        """Go round the classes until none improves, or so many times."""
        pairs, places = pairs_worth_trying(
            self.data, self._order.tolist(), some=self.thorough and bool(self.goal.constraints)
        )
        while not self.converged and self.n_cycles < max_cycles:
            self._near(max_cycles)
            if self.n_cycles < max_cycles:
                self.n_cycles += 1
                moved = self._far()
                tried = (self._try_pair(pair, places) for pair in pairs)
                self.converged = not moved and not any(tried)

    def _near(self, max_cycles: int) -> None:
        """Go round the classes until none improves within a box around where they are."""
        radius = self._radius()
        if self.goal.constraints or not 0 < radius < np.inf:
            return  # it would be no cheaper
        if kernels.native is not None:
            self._climb(radius, max_cycles - self.n_cycles)
            return
        centre, still = self.biases, 0
        while self.n_cycles < max_cycles and still < len(self._order):
            self.n_cycles += 1
            for k in self._order.tolist():
                ends = (centre[k] - radius, centre[k] + radius)
                still += 1
                if self._step(k, line_of(self._two, self.counts, k, ends)):
                    still = 0
                if still == len(self._order):
                    break

    def _far(self) -> bool:
        """Move every class to the best place on its line; whether any moved."""
        if kernels.native is not None and not self.goal.constraints:
            steps = climb_lines(
                self._two, self.counts, self.goal.metric, self.start, self._order, self.rank
            )
            self.history += steps
            self.counts = self._two.counts()
            return bool(steps)
        moved = [self._step(k, self._along_line(k)) for k in self._order.tolist()]  # every one
        return any(moved)

    def _climb(self, radius: float, max_cycles: int) -> None:
        """Go round within the box by a kernel."""
        biases, steps, cycles = climb_box(
            self._two, self.counts, self.goal.metric, self.start, self._order, self.rank, radius,
            max_cycles,
        )  # fmt: skip
        self.n_cycles += cycles
        if steps:
            self.history += steps
            self._two = TopTwo(self.data, biases)
            self.counts = self._two.counts()

    def _step(self, k: int, stretch: Stretch | None) -> bool:
        """Move the bias of class ``k`` to its best place; whether that is better than now."""
        if stretch is None:
            return False
        home = float(self.start[k])
        steps = self.goal.along(stretch, home)
        low, high, rank = best_interval(steps, stretch.high - home, spared=np.nan)
        if not rank > self.rank + EQUAL_VALUES:
            return False
        return self._jump({k: home + float(middle(low, high))})

    def _try_pair(self, pair: tuple[int, int], places: int | None) -> bool:
        """Move the biases of two classes to the best place found, if that is better than now."""
        found = best_pair(self.data, self.goal, self._two.biases, pair, self.rank, places)
        return found is not None and self._jump(found)

    def _jump(self, biases: dict[int, float]) -> bool:
        """Give some classes other biases if that is better; whether it is.

        Switches are placed to rounding: what counts is the prediction at the biases themselves.
        """
        before = {k: float(self._two.biases[k]) for k in biases}
        for k, bias in biases.items():
            self._two.move(k, bias)
        counts = self._two.counts()
        rank = self.goal.rank(counts)
        if rank > self.rank + EQUAL_VALUES:
            self.counts = counts
            self.history.append(rank)
            return True
        for k, bias in before.items():
            self._two.move(k, bias)
        return False

    def _along_line(self, k: int) -> Stretch | None:
        """The line of class ``k``, but for where it is known to be worse."""
        if self.rank < 0 or kernels.native is None:
            return line_of(self._two, self.counts, k)
        return promising_part(self._two, self.counts, k, self.goal.metric, self.rank)

    def _radius(self) -> float:
        """Half the lead that ``DOUBTFUL`` of the samples' first classes have at most."""
        lead = self._two.top - self._two.following
        rank = int(DOUBTFUL * lead.size)
        return float(np.partition(lead, rank)[rank]) / 2
