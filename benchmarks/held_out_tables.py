"""Means over sets with paired intervals, and the tables of the study of held-out quality."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import product
from typing import Any

import numpy as np

from benchmarks.held_out_rows import PEERS, ROWS
from benchmarks.held_out_scores import METRICS
from reprior.tuning.selection import RULES

__all__ = ["page", "summary"]

Run = dict[str, Any]

#: The reference rule: the best rule on the selection half of the sets.
REFERENCE = "λ, bagged"

#: The rows of the overview table.
SHORT = ("base", *PEERS, REFERENCE, "per-class, shrunk", "class weights, λ")

#: Rules that use one repetition of cross-validation; the default is one of them.
CANDIDATES = tuple(f"λ, {rule}" for rule in RULES)

#: Quantiles of the bootstrap over sets.
INTERVAL = (0.05, 0.95)
DRAWS = 4000

TITLES = {"balanced_accuracy": "balanced accuracy", "macro_f1": "macro-F1"}

#: The groups of sets, and the condition for membership.
GROUPS: dict[str, Callable[[Run], bool]] = {
    "two classes": lambda run: run["classes"] == 2,
    "several classes": lambda run: run["classes"] > 2,
    "all sets": lambda run: run["classes"] >= 2,
}


def by_set(runs: Iterable[Run], metric: str) -> dict[str, dict[str, float]]:
    """Return, for each set and row, the mean over models of the mean over splits."""
    found: dict[str, list[dict[str, float]]] = {}
    for run in runs:
        splits = [split["values"][metric] for split in run["splits"]]
        found.setdefault(run["set"], []).append(_means(splits))
    return {name: _means(models) for name, models in found.items()}


def _means(parts: Sequence[dict[str, float]]) -> dict[str, float]:
    """Average over the rows that all of them have."""
    rows = [row for row in parts[0] if all(row in values for values in parts)]
    return {row: float(np.mean([values[row] for values in parts])) for row in rows}


def interval(values: Any) -> list[float]:
    """Return the interval of the mean over sets, by the bootstrap over sets."""
    rng = np.random.default_rng(0)
    means = values[rng.integers(values.size, size=(DRAWS, values.size))].mean(axis=1)
    return [float(end) for end in np.quantile(means, INTERVAL)]


def summary(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Return one line per model selection, group of sets, metric and row."""
    models = list(dict.fromkeys(run["model"] for run in runs))
    parts = {model: [run for run in runs if run["model"] == model] for model in models}
    parts["both models"] = _with_all(runs, models)
    lines = []
    for (model, model_runs), (group, belongs) in product(parts.items(), GROUPS.items()):
        for metric in METRICS:
            key = {"model": model, "group": group, "metric": metric}
            cells = by_set(filter(belongs, model_runs), metric)
            lines += [{**key, **line} for line in _lines(cells)]
    return lines


def _with_all(runs: Sequence[Run], models: Sequence[str]) -> list[Run]:
    """Use only sets that every model was trained on, so that models have equal weight."""
    set_names = [{run["set"] for run in runs if run["model"] == model} for model in models]
    return [run for run in runs if all(run["set"] in names for names in set_names)]


def _lines(cells: dict[str, dict[str, float]]) -> list[dict[str, Any]]:
    lines = []
    for row in ROWS:
        if not cells or not all(row in means for means in cells.values()):
            continue  # a threshold is for two classes
        values = np.array([means[row] for means in cells.values()])
        leads = np.array([means[REFERENCE] for means in cells.values()]) - values
        lines.append(
            {
                "row": row, "sets": values.size, "mean": float(values.mean()),
                "interval": interval(values), "lead": float(leads.mean()),
                "lead_interval": interval(leads), "won": int((leads > 0).sum()),
                "lost": int((leads < 0).sum()),
            }
        )  # fmt: skip
    return lines


def halves(runs: Sequence[Run]) -> tuple[set[str], set[str]]:
    """Every other set, by name, of two classes and of several: to choose on, and to confirm."""
    choose: set[str] = set()
    for belongs in (GROUPS["two classes"], GROUPS["several classes"]):
        choose |= set(sorted({run["set"] for run in runs if belongs(run)})[::2])
    return choose, {run["set"] for run in runs} - choose


def rules_table(runs: Sequence[Run]) -> list[str]:
    """Return the table of the rules on the selection half and on the confirmation half."""
    lines = [
        "| rule | chosen on: points above max | 90 % | confirmed on: points above max | 90 % |",
        "|---|--:|:-:|--:|:-:|",
    ]
    parts = [[run for run in runs if run["set"] in half] for half in halves(runs)]
    for row in (*CANDIDATES, "λ, max, folds twice", "λ, bagged, folds twice"):
        cells = []
        for part in parts:
            both = [by_set(part, metric) for metric in METRICS]
            above = np.array(
                [
                    np.mean([cell[name][row] - cell[name]["λ, max"] for cell in both])
                    for name in both[0]
                ]
            )
            low, high = (100 * end for end in interval(above))
            cells.append(f"{100 * above.mean():+.2f} | {low:+.2f} to {high:+.2f}")
        lines.append(f"| {row} | {' | '.join(cells)} |")
    return lines


def _table(lines: Sequence[dict[str, Any]]) -> list[str]:
    """Return rows by metric: the mean, and the lead of the reference."""
    heads = [f"{TITLES[metric]} | lead of {REFERENCE} | won : lost" for metric in METRICS]
    found = [f"| | {' | '.join(heads)} |", "|---|--:|:-:|:-:|--:|:-:|:-:|"]
    for row in dict.fromkeys(line["row"] for line in lines):
        own = {line["metric"]: line for line in lines if line["row"] == row}
        cells = [_cells(own[metric]) for metric in METRICS]
        found.append(f"| {f'**{row}**' if row == REFERENCE else row} | {' | '.join(cells)} |")
    return found


def short_table(lines: Sequence[dict[str, Any]]) -> list[str]:
    """Return means over sets, one line per model selection, group of sets and metric."""
    found = [
        f"| model | sets | metric | {' | '.join(SHORT)} |",
        f"|---|---|---|{'--:|' * len(SHORT)}",
    ]
    cells: dict[tuple[str, str, str], dict[str, Any]] = {}
    for line in lines:
        key = line["model"], f"{line['sets']} of {line['group']}", TITLES[line["metric"]]
        cells.setdefault(key, {})[line["row"]] = line["mean"]
    for key, means in cells.items():
        top = max(round(means[row], 3) for row in SHORT if row in means)
        values = [_value(means.get(row), top) for row in SHORT]
        found.append(f"| {' | '.join((*key, *values))} |")
    return found


def _cells(line: dict[str, Any]) -> str:
    if line["row"] == REFERENCE:
        return f"**{line['mean']:.3f}** | |"
    low, high = (100 * end for end in line["lead_interval"])
    lead = f"{100 * line['lead']:+.1f} ({low:+.1f} to {high:+.1f})"
    return f"{line['mean']:.3f} | {lead} | {line['won']} : {line['lost']}"


def sets_table(runs: Sequence[Run], model: str, metric: str) -> list[str]:
    """Return the table of every set: base model, peers and reference."""
    own = [run for run in runs if run["model"] == model]
    lines = [
        f"| set | samples | classes | ratio | splits | {' | '.join(SHORT)} |",
        f"|---|--:|--:|--:|--:|{'--:|' * len(SHORT)}",
    ]
    for run in sorted(own, key=lambda run: (run["classes"] > 2, run["set"])):
        means = by_set([run], metric)[run["set"]]
        top = max(round(means[row], 3) for row in SHORT if row in means)
        cells = [_value(means.get(row), top) for row in SHORT]
        about = (run["set"], f"{run['samples']:,}", run["classes"], run["ratio"])
        lines.append(f"| {' | '.join(map(str, (*about, len(run['splits']), *cells)))} |")
    return lines


def _value(mean: float | None, top: float) -> str:
    """Format with three digits; the best of a line is bold."""
    if mean is None:
        return ""
    return f"**{mean:.3f}**" if round(mean, 3) == top else f"{mean:.3f}"


def page(runs: Sequence[Run], lines: Sequence[dict[str, Any]]) -> str:
    """Return all tables as Markdown."""
    parts = ["### At a glance", "", *short_table(lines), ""]
    for model in dict.fromkeys(line["model"] for line in lines):
        for group in GROUPS:
            own = [line for line in lines if (line["model"], line["group"]) == (model, group)]
            if own:
                title = f"{model.capitalize()}, {group}: {own[0]['sets']} sets"
                parts += [f"### {title}", "", *_table(own), ""]
    parts += ["### Rules of selection, by halves of the sets", "", *rules_table(runs), ""]
    for model in dict.fromkeys(run["model"] for run in runs):
        for metric in METRICS:
            parts += [f"### Every set: {model}, {TITLES[metric]}", ""]
            parts += [*sets_table(runs, model, metric), ""]
    versions = dict(sorted({item for run in runs for item in run["versions"].items()}))
    parts.append(", ".join(f"{name} {number}" for name, number in versions.items()) + ".")
    return "\n".join(parts) + "\n"
