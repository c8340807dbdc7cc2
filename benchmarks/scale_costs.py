"""Measure the cost of fit, evaluate and apply on files: the constants of docs/scale.md.

``python -m benchmarks.scale_costs [--json FILE] [--markdown FILE]`` measures files of several
sizes that the system has in memory, prints a table of medians, and what a row, a class and a switch
take of a processor, by least squares of relative errors. Seconds are of this machine; ratios are in
``scale``.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import tempfile
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.scale import BINNED, apply, command, fit, read_and_decide, write

#: Rows, classes, and the lead of the true class: with a smaller lead more rows switch.
SIZES = (
    (1_000_000, 14, 8.0),
    (2_000_000, 14, 8.0),
    (4_000_000, 14, 8.0),
    (8_000_000, 14, 8.0),
    (1_000_000, 8, 8.0),
    (1_000_000, 32, 8.0),
    (1_000_000, 64, 8.0),
    (4_000_000, 14, 14.0),
    (4_000_000, 14, 5.0),
    (4_000_000, 14, 3.0),
)

RUNS = 5

BEGIN, END = "<!-- costs: begin -->", "<!-- costs: end -->"


class Cost(NamedTuple):
    """Medians of seconds, and of processor seconds, of one size."""

    rows: int
    classes: int
    switches: float
    """Per row, between the strengths 0 and 2."""
    fit: float
    fit_processor: float
    binned: float
    binned_processor: float
    numpy: float
    evaluate_processor: float
    apply_processor: float


def evaluate(folder: Path) -> Any:
    """Evaluate the calibrator of a folder on its file."""
    import reprior as rp
    from reprior.files.scores import open_scores

    scores = open_scores(folder / "scores.npy", labels=folder / "labels.npy", kind="logits")
    return rp.engines.evaluate(rp.load(folder / "cal.json"), scores)


def measured(work: Callable[[], Any]) -> tuple[float, float]:
    """Median seconds, and processor seconds, of some runs after one warm-up run."""
    work()
    found = []
    for _ in range(RUNS):
        began, busy = time.perf_counter(), time.process_time()
        work()
        found.append((time.perf_counter() - began, time.process_time() - busy))
    wall, processor = np.median(found, axis=0)
    return float(wall), float(processor)


def cost(room: Path, rows: int, classes: int, margin: float) -> Cost:
    """Write one size, and measure it."""
    folder = write(room / f"{rows}-{classes}-{margin:g}", rows, classes, margin=margin)
    command(folder)
    switches = fit(folder, **BINNED).profile_.n_switches / rows
    by_name = {"kept": partial(fit, folder), "binned": partial(fit, folder, **BINNED)}
    kept, binned = (measured(work) for work in by_name.values())
    numpy, _ = measured(partial(read_and_decide, folder))
    _, judging = measured(partial(evaluate, folder))
    _, applying = measured(partial(apply, folder))
    for path in folder.iterdir():
        path.unlink()
    return Cost(rows, classes, switches, *kept, *binned, numpy, judging, applying)


def constants(costs: list[Cost], seconds: str, *, by_switch: bool) -> list[float]:
    """Nanoseconds of a processor per row, per class of a row and, if asked for, per switch."""
    table, spent = terms(costs, seconds, by_switch=by_switch)
    found, *_ = np.linalg.lstsq(table / spent[:, None], np.ones(spent.size), rcond=None)
    return [float(each) for each in found]


def terms(costs: list[Cost], seconds: str, *, by_switch: bool) -> tuple[Any, Any]:
    """Return a row's coefficient of each constant, and its processor time in nanoseconds."""
    table = np.array([[1.0, each.classes, each.switches] for each in costs])
    spent = np.array([getattr(each, seconds) * 1e9 / each.rows for each in costs])
    return table[:, : 3 if by_switch else 2], spent


def furthest(costs: list[Cost], seconds: str, known: list[float]) -> float:
    """Return the largest relative error of the formula."""
    table, spent = terms(costs, seconds, by_switch=len(known) == 3)
    return float(np.abs(table @ np.array(known) / spent - 1).max())


def page(costs: list[Cost], known: dict[str, list[float]]) -> str:
    """The table and the formulas, for the page."""
    lines = [
        "| rows × classes | switches per row | fit, seconds | of processors "
        "| binned from the start | reading and arg max in NumPy |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    lines += [
        f"| {each.rows / 1e6:g} million × {each.classes} | {each.switches:.2f} | {each.fit:.3f} "
        f"| {each.fit_processor:.3f} | {each.binned:.3f} | {each.numpy:.3f} |"
        for each in costs
    ]
    kept, binned = (
        "{:.0f} + {:.1f}·K + {:.0f}·s ns".format(*known[name]) for name in ("fit", "binned")
    )
    off = [furthest(costs, f"{name}_processor", known[name]) for name in ("fit", "binned")]
    lines += [
        "",
        "So a row of K classes that switches s times costs a processor about",
        "",
        f"> **{kept}** where each switch is kept, and **{binned}** where they are binned,",
        "",
        f"shared among the cores; `evaluate` {known['evaluate'][0]:.0f} + "
        f"{known['evaluate'][1]:.0f}·K ns, for both sides and all of its metrics, and `apply` "
        f"{known['apply'][0]:.0f} + {known['apply'][1]:.0f}·K ns. For the sizes above, the two fit "
        f"formulas are off by at most {off[0]:.0%} and {off[1]:.0%}.",
    ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale_costs")
    parser.add_argument("--json", type=Path, help="the run file to write")
    parser.add_argument("--markdown", type=Path, help="a page with marks for the table")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as room, warnings.catch_warnings(action="ignore"):
        costs = [cost(Path(room), *size) for size in SIZES]
    names = {"fit": True, "binned": True, "evaluate": False, "apply": False}
    known = {
        name: constants(costs, f"{name}_processor", by_switch=switch)
        for name, switch in names.items()
    }
    text = page(costs, known)
    print(text)
    if arguments.json:
        where = {"python": platform.python_version(), "cores": os.cpu_count()}
        run = {**where, "constants": known, "costs": [each._asdict() for each in costs]}
        arguments.json.write_text(json.dumps(run, indent=2) + "\n")
    if arguments.markdown:
        before, _, rest = arguments.markdown.read_text().partition(BEGIN)
        _, _, after = rest.partition(END)
        arguments.markdown.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{after}")


if __name__ == "__main__":
    main()
