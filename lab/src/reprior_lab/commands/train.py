"""``reprior train``: from a data set to a trained network's run folder."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from reprior.cli import PATH, Names, Session, collected, folder_option, session_options, shows
from reprior.exceptions import OptionError
from reprior_lab.config import (
    LOGGERS,
    LR_SCHEDULES,
    PRECISIONS,
    PROTOCOLS,
    SAMPLERS,
    SCHEDULES,
    RunConfig,
)
from reprior_lab.data.imbalance import IMBALANCES
from reprior_lab.data.registry import data_names
from reprior_lab.settings import read_settings, settings_help
from reprior_lab.training.recipes import LOSSES
from reprior_lab.training.runfile import COUNTS, EFFECTIVE_PRIOR, RUN_FILE, RunFile

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["command"]

#: Lightning's accelerators that work with the lab's dependencies.
ACCELERATORS = ("auto", "cpu", "gpu", "mps")

#: The default folder of runs.
RUNS = "runs"

#: Up to this ratio of a prior's largest to its smallest share, a correction changes almost nothing.
NEARLY_EQUAL = 1.05

#: Settings that have their own option.
_OPTIONS = (
    "data",
    "root",
    "imbalance",
    "ratio",
    "loss",
    "schedule",
    "sampler",
    "model",
    "protocol",
    "seed",
    "epochs",
    "batch_size",
    "lr",
    "lr_schedule",
    "precision",
    "accumulate",
)


@dataclass(frozen=True)
class How:
    """Options of training that the result does not depend on."""

    base: str | None
    resume: bool
    logger: str | None
    accelerator: str
    devices: str


_how_options = collected(
    How,
    "how",
    (
        click.option(
            "--base",
            type=PATH,
            metavar="DIR",
            help="A run without drw whose first epochs drw takes over.",
        ),
        click.option("--resume", is_flag=True, help="Go on with the run that the folder has."),
        click.option("--logger", type=Names(LOGGERS), help="Log each epoch into the folder."),
        click.option(
            "--accelerator",
            type=Names(ACCELERATORS),
            default="auto",
            show_default=True,
            help="What to train on.",
        ),
        click.option(
            "--devices",
            default="auto",
            show_default=True,
            help="How many, their numbers such as 0,1, or auto.",
        ),
    ),
)


@click.command(
    "train",
    short_help="Train a network on long-tailed data, to compare methods.",
    epilog=shows(
        "reprior train --data digits --imbalance exp --ratio 50 --batch-size 32 -o run",
        "reprior fit run/validation.npz --counts run/counts.json -o run/cal.json",
        "reprior evaluate run/cal.json run/test.npz",
    ),
)
@click.option("--data", type=Names(data_names()), required=True, help="The data set.")
@click.option("--root", type=PATH, metavar="DIR", help="The folder with the data set's files.")
@click.option("--imbalance", type=Names(IMBALANCES), help="Make the training part imbalanced.")
@click.option("--ratio", type=float, help="Largest class over smallest. 100, if not given.")
@click.option("--loss", type=Names(list(LOSSES)), help="What to minimise. ce, if not given.")
@click.option(
    "--schedule",
    type=Names(SCHEDULES),
    help="drw: weigh classes in the last epochs, one at least. bbn: the network with two branches.",
)
@click.option("--sampler", type=Names(SAMPLERS), help="How the samples of an epoch are drawn.")
@click.option(
    "--model",
    metavar="NAME",
    help="resnet8-wide, resnet8, 14, 20, 32 or 56 for small images, toy for moons and circles, or "
    "any of timm.",
)
@click.option(
    "--protocol",
    type=Names(list(PROTOCOLS)),
    default="compact",
    show_default=True,
    help="Everything that is not given: compact for a laptop, paper as published.",
)
@click.option("--seed", type=click.IntRange(min=0), help="0, if not given.")
@click.option("--epochs", type=click.IntRange(min=1), help="As the protocol has it.")
@click.option("--batch-size", type=click.IntRange(min=1), help="As the protocol has it.")
@click.option("--lr", type=float, help="Peak learning rate, as the protocol has it.")
@click.option("--lr-schedule", type=Names(LR_SCHEDULES), help="As the protocol has it.")
@click.option(
    "--precision",
    type=Names(PRECISIONS),
    help="32-true, if not given. 16-mixed needs a GPU.",
)
@click.option(
    "--accumulate",
    type=click.IntRange(min=1),
    help="Parts that a batch is divided into, where it does not fit into memory. 1, if not given.",
)
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    help=settings_help("Any other setting, such as weight_decay=0.0005.", RunConfig, _OPTIONS),
)
@_how_options
@folder_option("The run's folder. By default runs/ and a name made of the settings.")
@session_options
def command(
    session: Session,
    protocol: str,
    settings: Sequence[str],
    how: How,
    output: str | None,
    **given: Any,
) -> None:
    """Train a network on imbalanced data, and score what it did not learn from.

    The run's folder gets run.json (settings, versions, metrics of each epoch), counts.json,
    effective-prior.json (what loss, schedule and sampler make of the counts), validation.npz and
    test.npz (score files for fit and evaluate) and checkpoints. A run that was stopped, at any
    moment, continues with --resume to the same result.
    """
    config = RunConfig.resolve(protocol, **_merged(given, settings))
    folder = Path(output) if output is not None else Path(RUNS) / config.id
    exists = (folder / RUN_FILE).exists()
    if exists and not how.resume:
        raise OptionError(
            f"--output must be a folder without a run. Got {str(folder)!r}, which has one. Pass "
            f"--resume to resume it, or another folder."
        )
    if how.resume and not folder.exists():
        session.note(f"{folder} has no run yet: a new run starts.")
    run = _trained(session, config, folder, how)
    if _is_first_process():
        _show(session, run, folder)


def _is_first_process() -> bool:
    """Return whether this process, of several, shows progress and the result."""
    return os.environ.get("LOCAL_RANK", "0") == "0"


def _merged(given: dict[str, Any], settings: Sequence[str]) -> dict[str, Any]:
    """Return the options merged with those of --set."""
    chosen = {key: value for key, value in given.items() if value is not None}
    return chosen | read_settings(settings, given=list(chosen))


def _trained(session: Session, config: RunConfig, folder: Path, how: How) -> RunFile:
    from reprior_lab.training.loop import open_for, train

    done = how.resume and (folder / RUN_FILE).exists() and RunFile.read(folder).finished
    data = None if done else open_for(config)
    known = data is not None and config.sampler not in ("under", "smote", "adasyn")
    total = config.epochs * len(data.train_labels) if known and data is not None else None
    with session.progress(f"training {config.model}", total) as progress:
        return _noting_how_to_resume(
            train,
            config,
            folder,
            resume=how.resume,
            base=how.base,
            data=data,
            progress=progress if _is_first_process() else None,
            logger=how.logger,
            accelerator=how.accelerator,
            devices=int(how.devices) if how.devices.isdigit() else how.devices,
        )


def _noting_how_to_resume(train: Callable[..., RunFile], *given: Any, **options: Any) -> RunFile:
    """Train; after an interrupt, say that finished epochs are kept."""
    try:
        return train(*given, **options)
    except KeyboardInterrupt as interrupt:
        interrupt.add_note("Finished epochs are kept: add --resume to continue.")
        raise


def _show(session: Session, run: RunFile, folder: Path) -> None:
    counts = run.class_counts
    session.say(
        f"run          {run.config.id}",
        f"trained on   {sum(counts):,} samples of {len(counts):,} classes, from {max(counts):,} "
        f"down to {min(counts):,}",
        f"epochs       {len(run.epochs)}, in {run.seconds:,.0f} s",
        "test part    "
        + ", ".join(f"{name.replace('_', ' ')} {value:.4f}" for name, value in run.result.items()),
    )
    if not session.quiet:
        session.say("", f"Written: {folder}. {_next_step(run, folder)}")
    session.result(
        {
            "id": run.config.id,
            "folder": str(folder),
            "result": dict(run.result),
            "class_counts": list(counts),
            "effective_prior": list(run.effective_prior),
            "seconds": run.seconds,
        }
    )


def _next_step(run: RunFile, folder: Path) -> str:
    """Return how to correct the network: by the prior that it has learnt."""
    option = f"--counts {folder / COUNTS}"
    if not run.learnt_the_counts and (folder / EFFECTIVE_PRIOR).exists():
        option = f"--source-prior {folder / EFFECTIVE_PRIOR}"
    command = f"reprior fit {folder / 'validation.npz'} {option} -o {folder / 'cal.json'}"
    least, most = min(run.effective_prior), max(run.effective_prior)
    if not run.learnt_the_counts and most <= NEARLY_EQUAL * least:
        return (
            f"Loss, schedule and sampler have taken the training prior out: next to nothing is "
            f"left to correct towards equal classes. Towards another mix: {command} "
            f"--target-prior FILE"
        )
    return f"Correct it: {command}"
