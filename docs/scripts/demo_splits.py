"""The demo on twenty splits, for README.md. Run ``python -m docs.scripts.demo_splits``."""

from __future__ import annotations

import numpy as np

from reprior.cli.demo import compare

N_SPLITS = 20


def gains() -> dict[str, np.ndarray]:
    """Return after minus before, in points, for every row of the demo's table and every split."""
    found: dict[str, list[float]] = {}
    for seed in range(N_SPLITS):
        table = compare(seed)
        for row, before in table["before"].items():
            found.setdefault(row, []).append(100 * (table["after"][row] - before))
    return {row: np.array(values) for row, values in found.items()}


if __name__ == "__main__":
    title = f"after minus before, points, {N_SPLITS} splits"
    print(f"{title:<43}{'least':>9}{'mean':>9}{'most':>9}")
    for row, gain in gains().items():
        print(f"{row:<43}{gain.min():>+9.1f}{gain.mean():>+9.1f}{gain.max():>+9.1f}")
