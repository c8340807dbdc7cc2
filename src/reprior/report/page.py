"""``write_report``: the template, the scripts and the numbers in one file."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterable
from importlib import resources
from importlib.metadata import version
from importlib.resources.abc import Traversable
from os import PathLike
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from reprior.calibrator.summary import (
    digits_apart,
    metric_name,
    price_of_promise,
    promise_sentence,
    single_bin_width,
)
from reprior.core.rebalance import strength_text
from reprior.exceptions import NotFittedError, OptionError, require
from reprior.files.atomic import atomic_write, output_target
from reprior.report.classes import Classes, describe_classes
from reprior.report.headline import change_sentence, judged_sentence
from reprior.report.measure import Measured, measure
from reprior.report.payload import MOST_BYTES, fitting_data

if TYPE_CHECKING:
    from reprior.calibrator import PosteriorCalibrator
    from reprior.files.chunks import Chunk

__all__ = ["write_report"]

PLOTLY = "plotly/plotly-cartesian.min.js"

#: In the order they need each other.
SCRIPTS = (
    "decode",
    "format",
    "model",
    "theme",
    "table",
    "headline",
    "curves",
    "linear",
    "verdict",
    "classes",
    "confusion",
    "tradeoff",
    "reliability",
    "priors",
    "controls",
    "main",
)
STYLES = ("page", "controls", "tables", "print")


def write_report(
    path: str | PathLike[str],
    calibrator: PosteriorCalibrator,
    validation: Iterable[Chunk],
    *,
    test: Iterable[Chunk] | None = None,
    counts: Any = None,
    groups: tuple[float, float] = (20, 100),
    title: str | None = None,
    progress: Callable[[int], Any] | None = None,
) -> Path:
    """Write what a calibrator does as one HTML file that opens offline.

    A slider over the strength moves every figure and table of the page. Counts, metrics and
    confusion follow exactly from the switches of the samples; reliability and log-loss are
    computed on a grid of strengths. The page stays below 15 MB, and says where data are thinned,
    grouped or cut for that.

    Parameters
    ----------
    path : path
        The file to write, or ``"-"`` for standard output; it is written completely or not at all.
    calibrator : PosteriorCalibrator
        Fitted or loaded; tuned as a strength, without biases or a second map.
    validation : iterable of Chunk, or of (scores, labels[, weight])
        The labelled scores it was tuned on, such as ``reprior.files.scores.open_scores`` gives.
    test : iterable of the same, optional
        Other labelled scores to judge it on.
    counts : array-like of shape (K,) or {class: count}, optional
        Training samples of every class.
    groups : (float, float), default (20, 100)
        With ``counts``: classes below the first have few samples, above the second many.
    title : str, optional
        The title of the page.
    progress : callable, optional
        Called with the number of samples done so far, of both sets.

    Returns
    -------
    Path
        The file.

    Examples
    --------
    >>> import numpy as np
    >>> import reprior as rp
    >>> from reprior.files.chunks import Chunk
    >>> logits = np.array([[2.0, 0.0], [1.0, 0.0], [0.4, 0.0], [0.0, 1.0]])
    >>> labels = np.array([0, 0, 1, 1])
    >>> calibrator = rp.PosteriorCalibrator([0.8, 0.2]).fit(logits, labels)
    >>> path = getfixture("tmp_path") / "report.html"
    >>> write_report(path, calibrator, [Chunk(logits, labels)], counts=[80, 20]).name
    'report.html'
    """
    output_target(path, text=True)
    if not hasattr(calibrator, "strength_"):
        raise NotFittedError(
            argument="calibrator",
            rule="must be fitted",
            got="one that is not",
            remedy="Call fit(scores, labels), or reprior.load(path), first.",
        )
    _refuse_more_than_a_strength(calibrator)
    jinja2 = require("jinja2", extra="cli", purpose="To write a report")
    classes = describe_classes(calibrator, counts, groups)
    sets = {"validation": measure(calibrator, validation, name="validation", progress=progress)}
    if test is not None:
        done = sets["validation"].n_read
        sets["test"] = measure(calibrator, test, name="test", progress=progress, done=done)
    html = _html(jinja2, calibrator, classes, sets, title)
    with atomic_write(path, text=True) as file:
        file.write(html.encode("utf-8"))
    return Path(path)


def _refuse_more_than_a_strength(calibrator: PosteriorCalibrator) -> None:
    """Refuse what the page's slider cannot show."""
    held = {
        "a bias for every class": calibrator.biases_,
        "a scale for every class": calibrator.scales_,
        "a second map, for probabilities": calibrator.probability_map_,
    }
    for words, value in held.items():
        if value is not None:
            raise OptionError(
                argument="calibrator",
                rule=(
                    "must correct by a strength and a temperature: the report has a slider "
                    "over strengths"
                ),
                got=f"one with {words}",
                remedy="Tune without it for the report, and compare both by `reprior evaluate`.",
            )


def _html(
    jinja2: ModuleType,
    calibrator: PosteriorCalibrator,
    classes: Classes,
    sets: dict[str, Measured],
    title: str | None,
) -> str:
    """Return the page, with as much data as its size limit allows."""
    assets = resources.files("reprior.report") / "assets"
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    template = environment.from_string(_text(assets, "page.html.j2"))
    plotly = _text(assets, PLOTLY)
    scripts = [_text(assets, f"js/{name}.js") for name in SCRIPTS]
    content = {
        "policy": _policy([plotly, *scripts]),
        "plotly": plotly,
        "scripts": scripts,
        "styles": [_text(assets, f"css/{name}.css") for name in STYLES],
        **_words(calibrator, classes, sets, title),
    }
    empty: str = template.render(data="", **content)
    data = fitting_data(calibrator, classes, sets, MOST_BYTES - len(empty.encode()))
    html: str = template.render(data=data, **content)
    return html


def _words(
    calibrator: PosteriorCalibrator,
    classes: Classes,
    sets: dict[str, Measured],
    title: str | None,
) -> dict[str, Any]:
    """Return the texts of the template."""
    judged_on = list(sets)[-1]
    return {
        "title": title or "What the prior correction changes",
        "change": change_sentence(calibrator, sets[judged_on], judged_on),
        "judged": judged_sentence(calibrator, sets),
        "facts": _facts(calibrator, classes, sets),
        "group_note": classes.group_note,
        "whole": classes.whole,
        "n_classes": len(classes.names),
        "n_cells": len(classes.cell_names),
        "set_names": list(sets),
        "judged_on": judged_on,
    }


def _text(assets: Traversable, name: str) -> str:
    return assets.joinpath(*name.split("/")).read_text(encoding="utf-8")


def _policy(scripts: list[str]) -> str:
    """The content security policy: these scripts and no others, and no request to anywhere.

    Plotly sets inline styles, and draws heat maps as data images.
    """
    digests = (base64.b64encode(hashlib.sha256(text.encode()).digest()) for text in scripts)
    allowed = " ".join(f"'sha256-{digest.decode()}'" for digest in digests)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; "
        f"img-src data: blob:; base-uri 'none'; form-action 'none'"
    )


def _facts(
    calibrator: PosteriorCalibrator, classes: Classes, sets: dict[str, Measured]
) -> dict[str, str]:
    """Return the facts about the fit that the page lists."""
    (low, high), width = calibrator.strength_interval_, single_bin_width(calibrator)
    n_digits = digits_apart(low, high)
    ties = f"ties: {low:.{n_digits}f} to {high:.{n_digits}f}"
    rules = calibrator.subject_to
    facts = {
        "Chosen strength": f"{strength_text(calibrator.strength_)} "
        f"({ties if width is None else f'the best of a grid of {width:g}'})",
        "Tuned for": metric_name(calibrator.metric),
        "Subject to": "" if not rules else rules if isinstance(rules, str) else ", ".join(rules),
        "Promised": promise_sentence(calibrator),
        "The promise costs": price_of_promise(calibrator),
        "Temperature": f"{calibrator.temperature_:.6g}",
        "Scores": calibrator.kind,
        "Classes": f"{len(classes.names):,}",
    }
    for name, measured in sets.items():
        profile = measured.profile
        weighted = ", weighted" if profile.weighted else ""
        facts[f"{name.capitalize()} set"] = (
            f"{profile.n_samples:,} samples{weighted}, {profile.n_switches:,} switches"
        )
    facts["Written by"] = f"reprior {version('reprior')}"
    return {key: value for key, value in facts.items() if value}
