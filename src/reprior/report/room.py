"""How much of the numbers a page may hold: less and less, until it is below 15 MB."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["MOST_BYTES", "ROOMS", "Room"]

#: Bytes of a page, scripts and all.
MOST_BYTES = 15_000_000


@dataclass(frozen=True)
class Room:
    """Limits; whatever is cut because of them is said on the page."""

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
        >>> Room(letters=9).cut("Larus argentatus")
        'Larus…tus'
        """
        if self.letters is None or len(name) <= self.letters:
            return name
        tail = self.letters // 3
        return f"{name[: self.letters - tail - 1]}…{name[-tail:]}"


#: From ample to tight. Long names are the first to go, then switches one by one.
ROOMS = (
    Room(),
    Room(letters=60),
    Room(letters=60, rows=100_000, row_bytes=2_500_000, pairs=50_000),
    Room(
        letters=24, rows=20_000, row_bytes=500_000, pairs=5_000, group_rows=5_000,
        curve_points=301, front_points=100, float_type="f4",
    ),
)  # fmt: skip
