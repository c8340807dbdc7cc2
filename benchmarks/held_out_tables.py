"""Means over sets with paired intervals, mean ranks, and the tables of the held-out study."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import product
from typing import Any

import numpy as np

from benchmarks.held_out_rows import AUTO, GIVEN, GRID, OTHERS, PEERS, ROWS, WEIGHTED, tuned_row
from benchmarks.held_out_scores import METRICS
from reprior.tuning.selection import CURVE_RULES

__all__ = ["page", "summary"]

Run = dict[str, Any]

#: The rule that the decision sets choose.
CHOSEN = "bagged"

#: The reference of the leads.
REFERENCE = tuned_row(GIVEN, CHOSEN)

#: The trainings, by that rule.
TRAININGS = tuple(tuned_row(training, CHOSEN) for training in (GIVEN, WEIGHTED, AUTO))

#: The better training by its out-of-fold value.
AUTOMATIC = tuned_row(AUTO, CHOSEN)

#: The methods that the overview and the ranks compare.
METHODS = ("base", *PEERS, *OTHERS, tuned_row(GIVEN, "max"), *TRAININGS)

#: Quantiles of the bootstrap over sets.
INTERVAL = (0.05, 0.95)
DRAWS = 4000

TITLES = {"balanced_accuracy": "balanced accuracy", "macro_f1": "macro-F1", "mcc": "MCC"}

PARTS = {"decision": "decision sets", "confirmation": "confirmation sets"}

#: The groups of sets, and the condition for membership.
GROUPS: dict[str, Callable[[Run], bool]] = {
    "two classes": lambda run: run["classes"] == 2,
    "several classes": lambda run: run["classes"] > 2,
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


def interval(values: Any) -> tuple[float, float]:
    """Return the interval of the mean over sets, by the bootstrap over sets."""
    rng = np.random.default_rng(0)
    means = values[rng.integers(values.size, size=(DRAWS, values.size))].mean(axis=1)
    low, high = (float(end) for end in np.quantile(means, INTERVAL))
    return low, high


def with_all_models(runs: Sequence[Run]) -> list[Run]:
    """Return the runs of models that all sets have, so that models have equal weight."""
    names = {run["set"] for run in runs}
    models = dict.fromkeys(run["model"] for run in runs)
    complete = [m for m in models if {run["set"] for run in runs if run["model"] == m} == names]
    return [run for run in runs if run["model"] in complete]


def mean_scores(runs: Sequence[Run]) -> dict[str, dict[str, float]]:
    """Return, for each set and row, the mean over models, metrics and splits."""
    found: dict[str, dict[str, float]] = {}
    cells = [by_set(runs, metric) for metric in METRICS]
    for name in cells[0]:
        found[name] = _means([cell[name] for cell in cells])
    return found


def summary(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Return one line per part, model, group of sets, metric and row."""
    models = list(dict.fromkeys(run["model"] for run in runs))
    lines = []
    for part, model, (group, belongs), metric in product(PARTS, models, GROUPS.items(), METRICS):
        own = [
            run for run in runs
            if run["part"] == part and run["model"] == model and belongs(run)
        ]  # fmt: skip
        key = {"part": part, "model": model, "group": group, "metric": metric}
        lines += [{**key, **line} for line in _lines(by_set(own, metric))]
    return lines


def _lines(cells: dict[str, dict[str, float]]) -> list[dict[str, Any]]:
    lines = []
    ranks = mean_ranks(cells)
    for row in ROWS:
        values = np.array([means[row] for means in cells.values() if row in means])
        if not values.size:
            continue  # a threshold is for two classes
        both = [means for means in cells.values() if row in means]
        leads = {
            each: np.array([means[each] - means[row] for means in both])
            for each in (REFERENCE, AUTOMATIC)
            if all(each in means for means in both)
        }
        lines.append(
            {
                "row": row, "sets": values.size, "mean": float(values.mean()),
                "leads": {
                    each: {
                        "mean": float(lead.mean()), "interval": interval(lead),
                        "won": int((lead > 0).sum()), "lost": int((lead < 0).sum()),
                    }
                    for each, lead in leads.items()
                },
                "rank": ranks.get(row),
            }
        )  # fmt: skip
    return lines


def mean_ranks(cells: dict[str, dict[str, float]]) -> dict[str, float]:
    """Return the mean over sets of each method's rank, 1 for the best; ties share their ranks."""
    rows = [row for row in METHODS if cells and all(row in means for means in cells.values())]
    if not rows:
        return {}
    table = np.array([[means[row] for row in rows] for means in cells.values()])
    better = (table[:, None, :] > table[:, :, None]).sum(axis=2)
    equal = (table[:, None, :] == table[:, :, None]).sum(axis=2)
    ranks = (better + (equal + 1) / 2).mean(axis=0)
    return dict(zip(rows, ranks.tolist(), strict=True))


def _comparison(scores: dict[str, dict[str, float]], rows: Sequence[str], base: str) -> list[str]:
    """Return lines of a table: the mean of each row, and its lead over ``base`` in points."""
    lines = []
    for row in rows:
        if not all(row in means and base in means for means in scores.values()):
            continue
        values = np.array([means[row] for means in scores.values()])
        leads = np.array([means[row] - means[base] for means in scores.values()])
        low, high = (100 * end for end in interval(leads))
        cell = "" if row == base else f"{100 * leads.mean():+.2f} ({low:+.2f} to {high:+.2f})"
        lines.append(f"| {row} | {values.mean():.4f} | {cell} |")
    return lines


def decision_tables(runs: Sequence[Run]) -> list[str]:
    """Return the tables that decide on the rule and on the training, and their confirmation."""
    lines = []
    for part, title in PARTS.items():
        own = with_all_models([run for run in runs if run["part"] == part])
        if not own:
            continue
        models = ", ".join(dict.fromkeys(run["model"] for run in own))
        scores = mean_scores(own)
        rules = [tuned_row(GIVEN, rule) for rule in CURVE_RULES]
        weighted = [run for run in own if AUTOMATIC in run["splits"][0]["values"]["mcc"]]
        weighted = with_all_models(weighted)
        lines += [
            f"{title.capitalize()} ({len(scores)}; {models}):", "",
            "| selection | mean score | points above the grid of step 0.1 (90 %) |",
            "|---|--:|:-:|",
            *_comparison(scores, [GRID, *rules], GRID), "",
            f"| training, with {CHOSEN!r} | mean score | points above as given (90 %) |",
            "|---|--:|:-:|",
            *_comparison(mean_scores(weighted), TRAININGS, TRAININGS[0]), "",
        ]  # fmt: skip
    return lines


def glance_table(runs: Sequence[Run]) -> list[str]:
    """Return the means over sets and models, of the models that are trained with weights too."""
    heads = [f"{TITLES[metric]}, {PARTS[part]}" for part in PARTS for metric in METRICS]
    lines = [f"| | {' | '.join(heads)} |", f"|---|{'--:|' * len(heads)}"]
    cells: dict[str, list[str]] = {row: [] for row in METHODS}
    for part, metric in product(PARTS, METRICS):
        own = [
            run for run in runs
            if run["part"] == part and AUTOMATIC in run["splits"][0]["values"][metric]
        ]  # fmt: skip
        means = by_set(with_all_models(own), metric)
        found = {
            row: float(np.mean([each[row] for each in means.values()]))
            for row in METHODS
            if means and all(row in each for each in means.values())
        }
        top = max((round(value, 3) for value in found.values()), default=0.0)
        for row in METHODS:
            cells[row].append(_value(found.get(row), top))
    lines += [f"| {row} | {' | '.join(each)} |" for row, each in cells.items() if any(each)]
    return lines


def rank_table(lines: Sequence[dict[str, Any]], part: str) -> list[str]:
    """Return mean values and mean ranks of the methods, a line per model, group and metric."""
    found = [
        f"| model | sets | metric | {' | '.join(METHODS)} |",
        f"|---|---|---|{':-:|' * len(METHODS)}",
    ]
    cells: dict[tuple[str, ...], dict[str, Any]] = {}
    for line in lines:
        if line["part"] == part and line["row"] in METHODS:
            key = line["model"], line["group"], TITLES[line["metric"]]
            cells.setdefault(key, {})[line["row"]] = line
    for (model, group, metric), rows in cells.items():
        n_sets = max(line["sets"] for line in rows.values())
        ranks = [line["rank"] for line in rows.values() if line["rank"] is not None]
        values = [_mean_and_rank(rows.get(row), min(ranks, default=None)) for row in METHODS]
        found.append(f"| {model} | {n_sets} of {group} | {metric} | {' | '.join(values)} |")
    return found


def _mean_and_rank(line: dict[str, Any] | None, best: float | None) -> str:
    if line is None:
        return ""
    rank = line["rank"]
    text = f"{line['mean']:.3f}" if rank is None else f"{line['mean']:.3f} ({rank:.1f})"
    return f"**{text}**" if rank is not None and rank == best else text


def lead_table(lines: Sequence[dict[str, Any]]) -> list[str]:
    """Return rows by metric: the mean, and the lead of the reference."""
    heads = [f"{TITLES[metric]} | lead of {REFERENCE} | won : lost" for metric in METRICS]
    found = [f"| | {' | '.join(heads)} |", f"|---|{'--:|:-:|:-:|' * len(METRICS)}"]
    for row in dict.fromkeys(line["row"] for line in lines):
        own = {line["metric"]: line for line in lines if line["row"] == row}
        cells = [_cells(own[metric]) for metric in METRICS]
        found.append(f"| {f'**{row}**' if row == REFERENCE else row} | {' | '.join(cells)} |")
    return found


def _cells(line: dict[str, Any]) -> str:
    if line["row"] == REFERENCE:
        return f"**{line['mean']:.3f}** | |"
    lead = line["leads"][REFERENCE]
    return f"{line['mean']:.3f} | {_points(lead)} | {lead['won']} : {lead['lost']}"


def _points(lead: dict[str, Any]) -> str:
    low, high = (100 * end for end in lead["interval"])
    return f"{100 * lead['mean']:+.1f} ({low:+.1f} to {high:+.1f})"


def behind_table(lines: Sequence[dict[str, Any]]) -> list[str]:
    """Return where λ leads, or is behind, a peer of the same model by more than the interval."""
    found = [
        "| sets | λ | ahead of a peer | behind a peer | in doubt | behind |",
        "|---|---|--:|--:|--:|---|",
    ]
    for (part, title), reference in product(PARTS.items(), (REFERENCE, AUTOMATIC)):
        own = [
            line for line in lines
            if line["row"] in PEERS and line["part"] == part and reference in line["leads"]
        ]  # fmt: skip
        ahead = [line for line in own if line["leads"][reference]["interval"][0] > 0]
        behind = [line for line in own if line["leads"][reference]["interval"][1] < 0]
        names = "; ".join(
            f"{line['model']}, {line['group']}, {TITLES[line['metric']]}: {line['row']} "
            f"{_points(line['leads'][reference])}"
            for line in behind
        )
        rest = len(own) - len(ahead) - len(behind)
        found.append(f"| {title} | {reference} | {len(ahead)} | {len(behind)} | {rest} | {names} |")
    return found


def sets_table(runs: Sequence[Run], model: str, metric: str) -> list[str]:
    """Return the table of every set: base model, peers and the three trainings."""
    own = [run for run in runs if run["model"] == model]
    lines = [
        f"| set | samples | classes | ratio | splits | {' | '.join(METHODS)} |",
        f"|---|--:|--:|--:|--:|{'--:|' * len(METHODS)}",
    ]
    for run in sorted(own, key=lambda run: (run["part"], run["classes"] > 2, run["set"])):
        means = by_set([run], metric)[run["set"]]
        top = max(round(means[row], 3) for row in METHODS if row in means)
        cells = [_value(means.get(row), top) for row in METHODS]
        name = run["set"] + ("" if run["part"] == "decision" else " †")
        about = (name, f"{run['samples']:,}", run["classes"], run["ratio"])
        lines.append(f"| {' | '.join(map(str, (*about, len(run['splits']), *cells)))} |")
    return lines


def _value(mean: float | None, top: float) -> str:
    """Format with three digits; the best of a line is bold."""
    if mean is None:
        return ""
    return f"**{mean:.3f}**" if round(mean, 3) == top else f"{mean:.3f}"


def page(runs: Sequence[Run], lines: Sequence[dict[str, Any]]) -> str:
    """Return all tables as Markdown."""
    parts = ["### At a glance: logistic regression, LightGBM and CatBoost", ""]
    parts += [*glance_table(runs), ""]
    parts += ["### The defaults, by the rule above", "", *decision_tables(runs)]
    for part, title in PARTS.items():
        parts += [f"### Means, and mean ranks of the methods: {title}", ""]
        parts += [*rank_table(lines, part), ""]
    parts += ["### Against peers of the same model: clear leads and losses", ""]
    parts += [*behind_table(lines), ""]
    models = list(dict.fromkeys(line["model"] for line in lines))
    for (part, title), model, group in product(PARTS.items(), models, GROUPS):
        key = (part, model, group)
        own = [line for line in lines if (line["part"], line["model"], line["group"]) == key]
        if own:
            parts += [f"### {model[0].upper()}{model[1:]}, {group}: {own[0]['sets']} {title}", ""]
            parts += [*lead_table(own), ""]
    for model, metric in product(models, METRICS):
        parts += [f"### Every set: {model}, {TITLES[metric]}", ""]
        parts += [*sets_table(runs, model, metric), ""]
    parts += ["† confirmation set", ""]
    versions = dict(sorted({item for run in runs for item in run["versions"].items()}))
    parts.append(", ".join(f"{name} {number}" for name, number in versions.items()) + ".")
    return "\n".join(parts) + "\n"
