"""``reprior demo``: the whole job on real data, with the commands a user types."""

from __future__ import annotations

import contextlib
import io
import json
import shlex
import shutil
import sys
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import click
import numpy as np
from rich.text import Text

from reprior.calibrator import PosteriorCalibrator
from reprior.calibrator.load import load
from reprior.cli.options import PROMPT, folder_option, shows
from reprior.cli.session import Session, plain, session_options
from reprior.core.prior import prior_from_counts
from reprior.exceptions import OptionError, require
from reprior.files.atomic import atomic_write
from reprior.files.limits import MAX_TEXT_BYTES, parse_json, read_limited
from reprior.metrics.count_metrics import COUNT_METRICS
from reprior.metrics.counts import ClassCounts
from reprior.metrics.groups import group_metric, shot_groups

__all__ = [
    "CONSTRAINT",
    "GROUPS",
    "Part",
    "Scored",
    "command",
    "compare",
    "long_tailed_digits",
    "train",
]

Vector: TypeAlias = np.ndarray[Any, Any]
Column: TypeAlias = dict[str, float]

N_CLASSES = 10
LARGEST, RATIO = 100, 50  # images of digit 0 in training; how many times fewer of digit 9
TUNING, TEST = 24, 50  # images of each digit
GROUPS = (10, 40)  # fewer than the first: few; more than the second: many

CONSTRAINT = "accuracy >= baseline - 0.01"


class Part(NamedTuple):
    """Some of the images, (N, 64), and the digits they show, (N,)."""

    images: Vector
    labels: Vector


class Scored(NamedTuple):
    """Training counts, (K,), and the scores and labels of the tuning and test images."""

    train_counts: Vector
    tuning_scores: Vector
    tuning_labels: Vector
    test_scores: Vector
    test_labels: Vector


def long_tailed_digits(seed: int = 0) -> tuple[Part, Part, Part]:
    """Split the digits into long-tailed training, balanced tuning and balanced test images.

    Examples
    --------
    >>> training, tuning, test = long_tailed_digits()
    >>> training.labels.size, tuning.labels.size, test.labels.size
    (280, 240, 500)
    """
    datasets = require("sklearn.datasets", extra="sklearn", purpose="For the demo")
    images, labels = datasets.load_digits(return_X_y=True)
    rng = np.random.default_rng(seed)
    tail = np.rint(LARGEST * RATIO ** (-np.arange(N_CLASSES) / (N_CLASSES - 1))).astype(int)
    training, tuning, test = [], [], []
    for digit, n_training in enumerate(tail):
        order = rng.permutation(np.flatnonzero(labels == digit))
        training.append(order[:n_training])
        tuning.append(order[LARGEST : LARGEST + TUNING])
        test.append(order[LARGEST + TUNING : LARGEST + TUNING + TEST])
    parts = map(np.concatenate, (training, tuning, test))
    first, second, third = (Part(images[index] / 16, labels[index]) for index in parts)
    return first, second, third


def train(seed: int = 0) -> Scored:
    """Train a logistic regression and score the tuning and the test images.

    Examples
    --------
    >>> train().train_counts
    array([100,  65,  42,  27,  18,  11,   7,   5,   3,   2])
    """
    linear = require("sklearn.linear_model", extra="sklearn", purpose="For the demo")
    training, tuning, test = long_tailed_digits(seed)
    model = linear.LogisticRegression(max_iter=1000).fit(training.images, training.labels)
    return Scored(
        np.bincount(training.labels),
        model.decision_function(tuning.images),
        tuning.labels,
        model.decision_function(test.images),
        test.labels,
    )


def compare(seed: int = 0) -> dict[str, Column]:
    """Return the table of the README: the model, corrected, and corrected for most nines.

    Examples
    --------
    >>> table = compare()
    >>> {name: round(column["balanced accuracy"], 2) for name, column in table.items()}
    {'before': 0.76, 'after': 0.88, 'most 9s': 0.9}
    """
    scored = train(seed)
    source_prior = prior_from_counts(scored.train_counts)
    tuned = PosteriorCalibrator(source_prior, metric="balanced_accuracy")
    tuned.fit(scored.tuning_scores, scored.tuning_labels)

    # With these weights the balanced tuning images stand for the training mix, so that the
    # constraint is about accuracy there. One weight per class changes no class's recall.
    most_nines = PosteriorCalibrator(source_prior, metric="recall[9]", subject_to=CONSTRAINT)
    most_nines.fit(
        scored.tuning_scores,
        scored.tuning_labels,
        sample_weight=source_prior[scored.tuning_labels],
    )
    decisions = {
        "before": scored.test_scores.argmax(axis=1),
        "after": tuned.predict(scored.test_scores),
        "most 9s": most_nines.predict(scored.test_scores),
    }
    return {name: _judge(scored, made) for name, made in decisions.items()}


def _judge(scored: Scored, predictions: Vector) -> Column:
    """Return a column of the table, from labels and predictions alone."""
    labels, train_counts = scored.test_labels, scored.train_counts
    counts = ClassCounts.from_predictions(labels, predictions, n_classes=N_CLASSES)
    recall = COUNT_METRICS["macro_recall"].per_class(counts)
    mean = group_metric(counts, shot_groups(train_counts, thresholds=GROUPS), "macro_recall")
    mix = train_counts[labels] / train_counts.sum()
    return {
        "balanced accuracy": COUNT_METRICS["balanced_accuracy"](counts),
        "macro F1": COUNT_METRICS["macro_f1"](counts),
        "mean IoU": COUNT_METRICS["mean_iou"](counts),
        "recall: digits with > 40 training images": mean["many"],
        "        digits with 10 to 40": mean["medium"],
        "        digits with < 10": mean["few"],
        "        digit 9, with 2": float(recall[9]),
        "        worst digit": float(recall.min()),
        "accuracy, digits as often as in training": float(
            np.average(predictions == labels, weights=mix)
        ),
    }


#: What a demo writes.
FILES = ("val.csv", "test.csv", "counts.json", "cal.json", "report.html")


@click.command("demo", epilog=shows("reprior demo -o demo"))
@folder_option("The folder to write to. It is made if it is not there.", required=True)
@click.option("--seed", type=click.IntRange(min=0), default=0, help="Seed of the split.")
@session_options
def command(session: Session, output: str, seed: int) -> None:
    """Do the whole job on real data, in under a minute.

    Trains a logistic regression on scikit-learn's handwritten digits, made long-tailed: 100 images
    of digit 0 down to 2 of digit 9. Then it runs fit, evaluate and report as you would by hand, and
    shows the commands. The folder keeps the score files, the calibrator and the page.
    """
    folder = Path(output)
    _refuse_others(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with session.progress("training a model"):
        scored = train(seed)
    _write(folder, scored)
    _set_the_scene(session, scored, folder)
    results = {name: _run(session, arguments) for name, *arguments in _commands(folder)}
    judged = _found(folder)
    session.say(
        "",
        "Lines that begin with $ are commands. Repeat them, or change them.",
        "",
        *_sentences(*judged),
        f"The report: {folder / 'report.html'}",
    )
    found = dict(zip(("labels", "before", "after"), judged, strict=True))
    session.result({"folder": output, "found": found, **results})


def _found(folder: Path) -> tuple[list[int], list[int], list[int]]:
    """Count the test images of each digit, and those found before and after, from the files."""
    table = np.loadtxt(folder / "test.csv", delimiter=",", skiprows=1)
    scores, labels = table[:, :-1], table[:, -1].astype(int)
    calibrator = load(folder / "cal.json")
    decisions = (scores.argmax(axis=1), _indices(calibrator.predict(scores)))
    found = [np.bincount(labels[made == labels], minlength=N_CLASSES) for made in decisions]
    before, after = found
    return np.bincount(labels).tolist(), before.tolist(), after.tolist()


def _indices(names: Vector) -> Vector:
    """Return the digits of names such as "digit 9"."""
    return np.array([int(str(name).removeprefix("digit ")) for name in names])


def _sentences(labels: list[int], before: list[int], after: list[int]) -> list[str]:
    """Return what the rarest digit gains, and which digit pays most for it."""
    rarest = N_CLASSES - 1
    worst = min(range(N_CLASSES), key=lambda k: after[k] - before[k])
    cost = "No digit is found less often than before."
    if after[worst] < before[worst]:
        cost = (
            f"The largest cost: digit {worst}, {before[worst]} of {labels[worst]} before, "
            f"{after[worst]} after."
        )
    gain = (
        f"Digit {rarest}: {before[rarest]} of {labels[rarest]} found before, "
        f"{after[rarest]} of {labels[rarest]} after."
    )
    return [gain, cost]


def _refuse_others(folder: Path) -> None:
    """Refuse a folder whose files of these names are not a demo's."""
    existing_names = [name for name in FILES if (folder / name).exists()]
    try:
        counts = read_limited(folder / "counts.json", MAX_TEXT_BYTES, "counts")
        is_demo = "digit 0" in parse_json(counts)
    except (OSError, ValueError, TypeError):
        is_demo = False
    if existing_names and not is_demo:
        raise OptionError(
            f"--output must be a new folder, or one that a demo wrote. Got {str(folder)!r}, which "
            f"has another file {existing_names[0]!r}. Choose another folder."
        )


def _commands(folder: Path) -> list[list[str]]:
    """Return the commands to run, each after a name for its result."""
    val, test, counts, cal, page = (str(folder / name) for name in FILES)
    low, high = map(str, GROUPS)
    return [
        [
            "fit",
            "fit",
            val,
            "--counts",
            counts,
            "--kind",
            "logits",
            "--temperature",
            "fit",
            "-o",
            cal,
        ],
        ["evaluate", "evaluate", cal, test, "--counts", counts, "--groups", low, high],
        [
            "report",
            "report",
            cal,
            val,
            "--test",
            test,
            "--counts",
            counts,
            "--groups",
            low,
            high,
            "-o",
            page,
        ],
    ]


def _run(session: Session, arguments: list[str]) -> Any:
    """Run a command as it is typed; return its result where JSON is wanted."""
    from reprior.cli.app import app

    line = Text(plain(f"{PROMPT}{_program()} {shlex.join(arguments)}"), style="bold")
    session.say("", line, "")
    more = [*(["--quiet"] if session.quiet else []), *(["--json"] if session.json else [])]
    stream = contextlib.redirect_stdout(io.StringIO()) if session.json else contextlib.nullcontext()
    with stream as caught:
        app.main([*arguments, *more], prog_name="reprior", standalone_mode=False)
    return json.loads(caught.getvalue()) if caught is not None else None


def _program() -> str:
    """Return how to call this program: by its name, or as it was started."""
    if shutil.which("reprior") is not None:
        return "reprior"
    started = Path(sys.argv[0])
    if started.stem == "reprior" and started.is_file():
        return shlex.quote(str(started))
    return f"{shlex.quote(sys.executable)} -m reprior"


def _write(folder: Path, scored: Scored) -> None:
    """Write what a user would have: validation scores, test scores, training counts."""
    for name, scores, labels in (
        ("val.csv", scored.tuning_scores, scored.tuning_labels),
        ("test.csv", scored.test_scores, scored.test_labels),
    ):
        heads = ",".join([*(f"digit {k}" for k in range(N_CLASSES)), "label"])
        text = io.StringIO()
        table = np.column_stack([scores, labels])
        np.savetxt(
            text,
            table,
            fmt=["%.6f"] * N_CLASSES + ["%d"],
            delimiter=",",
            header=heads,
            comments="",
        )
        with atomic_write(folder / name) as file:
            file.write(text.getvalue().encode())
    named = {f"digit {k}": int(n) for k, n in enumerate(scored.train_counts)}
    with atomic_write(folder / "counts.json") as file:
        file.write(json.dumps(named, indent=1).encode())


def _set_the_scene(session: Session, scored: Scored, folder: Path) -> None:
    """Show which images are used for what."""
    session.say(
        "Handwritten digits, made long-tailed. Training images of the digits 0 to 9:",
        "  " + " ".join(map(str, scored.train_counts)),
        f"  training  {scored.train_counts.sum()} images: a logistic regression learns from them",
        f"  tuning    {scored.tuning_labels.size} other images, {TUNING} of each digit: "
        f"the strength is chosen here",
        f"  test      {scored.test_labels.size} other images, {TEST} of each digit: "
        f"the result is judged here",
        f"Written to {folder}: val.csv, test.csv (the model's scores), counts.json",
    )
