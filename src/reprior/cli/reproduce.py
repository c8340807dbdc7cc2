"""``reprior reproduce``: the paper's tables and figures, with our numbers beside its own."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click

from reprior.cli.examples import shows
from reprior.cli.failures import SentenceGroup
from reprior.cli.options import PATH, Names, collected
from reprior.cli.session import Session, session_options
from reprior.cli.settings import read_settings, settings_help
from reprior.cli.tables import Grid
from reprior.exceptions import OptionError, RepriorError, require
from reprior.experiments.cells import TABLE_SETTINGS
from reprior.experiments.config import RunConfig
from reprior.experiments.protocols import PROTOCOLS
from reprior.experiments.reproduction import Progress, Reproduction
from reprior.experiments.synthia.plan import PLANNED
from reprior.experiments.synthia.settings import NetworkSettings

__all__ = ["command"]

#: Where results go that are given no folder.
REPRODUCED = "reproduced"

Command = TypeVar("Command", bound=Callable[..., Any])


@click.group(
    "reproduce",
    cls=SentenceGroup,
    epilog=shows(
        "reprior reproduce odds-ratio -o figures",
        "reprior reproduce cifar --root data --jobs 2 -o cifar",
    ),
)
def command() -> None:
    """Reproduce a table or figure of the paper, with its figures beside ours.

    Each writes into its folder what it made: tables as Markdown, LaTeX and JSON, figures as PNG
    and SVG, and run files that say how. What is already there is not run again.
    """


def _experiment(name: str, example: str) -> Callable[[Command], click.Command]:
    """Make a function a command of the group, with ``--output``, ``--json`` and ``--quiet``."""

    def decorate(function: Command) -> click.Command:
        @functools.wraps(function)
        def shown(session: Session, output: str | None, **options: Any) -> None:
            folder = Path(output) if output is not None else Path(REPRODUCED) / name
            with _Bars(session, name) as progress:
                made = function(folder, progress, **options)
            _show(session, made, folder)

        where = click.option(
            "-o", "--output", type=PATH, metavar="DIR",
            help=f"Where to write. {REPRODUCED}/{name}, if not given.",
        )  # fmt: skip
        summary = (function.__doc__ or "").strip().partition("\n")[0]
        return command.command(name, short_help=summary, epilog=shows(example))(
            where(session_options(shown))
        )

    return decorate


protocol_option = click.option(
    "--protocol", type=Names(list(PROTOCOLS)), default="compact", show_default=True,
    help="How networks are trained: compact for a laptop, paper as published.",
)  # fmt: skip
seed_option = click.option(
    "--seed", type=click.IntRange(min=0), default=0, show_default=True,
    help="Of everything random.",
)  # fmt: skip


@_experiment("toy", "reprior reproduce toy -o toy")
@protocol_option
@seed_option
@click.option("--epochs", type=click.IntRange(min=1), help="As the protocol has it.")
def toy(
    folder: Path, progress: Progress, protocol: str, seed: int, epochs: int | None
) -> Reproduction:
    """Two moons and circles: boundaries for several strengths, and exact curves."""
    from reprior.experiments.toy import reproduce

    _need_torch()
    return reproduce(folder, protocol=protocol, seed=seed, epochs=epochs, progress=progress)


@_experiment("odds-ratio", "reprior reproduce odds-ratio -o figures")
def odds_ratio(folder: Path, progress: Progress) -> Reproduction:
    """What the strength makes of the odds between two classes."""
    from reprior.experiments.odds import reproduce

    return reproduce(folder, progress=progress)


@_experiment("datasets", "reprior reproduce datasets -o tables")
@click.option("--root", type=PATH, metavar="DIR", help="The folder with the data sets' files.")
def datasets(folder: Path, progress: Progress, root: str | None) -> Reproduction:
    """Table 1: the data sets and their imbalance, counted."""
    from reprior.experiments.datasets import reproduce

    return reproduce(folder, root=root, progress=progress)


@_experiment(
    "cifar", "reprior reproduce cifar --root data --cells 'cifar10-exp100/ce*' --jobs 2 -o cifar"
)
@click.option(
    "--root", type=PATH, metavar="DIR", help="The folder with CIFAR's files. Needed to train."
)
@click.option(
    "--cells", multiple=True, metavar="PATTERN",
    help="COLUMN, COLUMN/ROW or COLUMN/ROW/sSEED with a shell's wildcards. Repeatable. The columns "
    "of ratio 100, if not given.",
)  # fmt: skip
@protocol_option
@click.option(
    "--set", "settings", multiple=True, metavar="KEY=VALUE",
    help=settings_help("A setting of all runs that differs from the protocol, such as epochs=2.",
                       RunConfig, TABLE_SETTINGS),
)  # fmt: skip
@click.option(
    "--jobs", type=click.IntRange(min=1), default=1, show_default=True,
    help="Cells to train at once, each on its share of the CPU.",
)  # fmt: skip
@click.option(
    "--no-train", "tables_only", is_flag=True, help="Make tables of the cells that are finished."
)
def cifar(
    folder: Path,
    progress: Progress,
    root: str | None,
    cells: Sequence[str],
    protocol: str,
    settings: Sequence[str],
    jobs: int,
    tables_only: bool,
) -> Reproduction:
    """Table 2 and the strengths: every method on imbalanced CIFAR, with and without IC."""
    from reprior.experiments.cifar import reproduce

    if not tables_only:
        _need_torch()
    return reproduce(
        folder, root=root, cells=cells, protocol=protocol, settings=read_settings(settings),
        jobs=jobs, train=not tables_only, progress=progress,
    )  # fmt: skip


@dataclass(frozen=True)
class Networks:
    """How SYNTHIA's networks are trained."""

    root: str | None
    protocol: str
    seed: int
    settings: tuple[str, ...]
    jobs: int
    tables_only: bool
    skip_unreadable: bool


_of_networks = collected(
    Networks,
    "networks",
    (
        click.option(
            "--root", type=PATH, metavar="DIR",
            help="The folder of SYNTHIA-SF, or the one it lies in, or that of SYNTHIA-Sequences. "
            "Needed to train.",
        ),
        protocol_option,
        seed_option,
        click.option(
            "--set", "settings", multiple=True, metavar="KEY=VALUE",
            help=settings_help(
                "A setting of all networks that differs from the protocol, such as model=tiny.",
                NetworkSettings, PLANNED,
            ),
        ),
        click.option(
            "--jobs", type=click.IntRange(min=1), default=1, show_default=True,
            help="Networks to train at once, each on its share of the CPU.",
        ),
        click.option(
            "--no-train", "tables_only", is_flag=True,
            help="Make tables of the networks that are finished.",
        ),
        click.option(
            "--skip-unreadable", is_flag=True,
            help="Leave out frames that lack a file or cannot be decoded. Reads all at the start.",
        ),
    ),
)  # fmt: skip


@_experiment("synthia-rgb", "reprior reproduce synthia-rgb --root SYNTHIA-SF --jobs 2 -o synthia")
@_of_networks
def synthia_rgb(folder: Path, progress: Progress, networks: Networks) -> Reproduction:
    """Table 4: losses for imbalanced pixels, and IC, on colour alone."""
    from reprior.experiments.synthia.rgb import reproduce

    return _of_settings(reproduce, folder, progress, networks)


@_experiment("synthia-rgbd", "reprior reproduce synthia-rgbd --root SYNTHIA-SF --jobs 2 -o synthia")
@_of_networks
def synthia_rgbd(folder: Path, progress: Progress, networks: Networks) -> Reproduction:
    """Table 5: colour and depth fused under weather that no network has seen."""
    from reprior.experiments.synthia.rgbd import reproduce

    return _of_settings(reproduce, folder, progress, networks)


def _of_settings(
    reproduce: Callable[..., Reproduction],
    folder: Path,
    progress: Progress,
    networks: Networks,
) -> Reproduction:
    if not networks.tables_only:
        _need_torch()
    try:
        return reproduce(
            folder, root=networks.root, protocol=networks.protocol, seed=networks.seed,
            settings=read_settings(networks.settings, ("seed",)), jobs=networks.jobs,
            train=not networks.tables_only, skip_unreadable=networks.skip_unreadable,
            progress=progress,
        )  # fmt: skip
    except RepriorError as error:
        in_words = str(error).replace("on_error='skip'", "--skip-unreadable")
        raise type(error)(in_words) from error


@_experiment("inaturalist", "reprior reproduce inaturalist --simulate -o inaturalist")
@click.option(
    "--root", type=PATH, metavar="DIR", help="The folder of iNaturalist 2018. Needed to train."
)
@click.option(
    "--simulate", is_flag=True,
    help="Train a linear classifier on a stand-in with the true class counts: needs no data.",
)  # fmt: skip
@click.option(
    "--protocol", type=Names(list(PROTOCOLS)), default="paper", show_default=True,
    help="How networks are trained. The stand-in has settings of its own.",
)  # fmt: skip
@click.option(
    "--model", "models", multiple=True, metavar="NAME",
    help="A network of timm. Repeatable. inception_v3 and resnet50, if not given.",
)  # fmt: skip
@click.option(
    "--row", "rows", multiple=True, metavar="ROW",
    help="ce, ce-drw, focal, focal-drw, ldam, ldam-drw or bbn. Repeatable. All, if not given; of "
    "the stand-in the first four.",
)  # fmt: skip
@click.option(
    "--n-classes", type=click.IntRange(min=2), help="Classes of the stand-in. 8,142, if not given."
)
@seed_option
@click.option(
    "--set", "settings", multiple=True, metavar="KEY=VALUE",
    help="A setting of the training that differs, such as epochs=2. Repeatable. Lists are 1,2 or "
    "[1,2]. Keys are those of reprior reproduce cifar.",
)  # fmt: skip
def inaturalist(
    folder: Path,
    progress: Progress,
    root: str | None,
    simulate: bool,
    protocol: str,
    models: Sequence[str],
    rows: Sequence[str],
    n_classes: int | None,
    seed: int,
    settings: Sequence[str],
) -> Reproduction:
    """Table 3 and the curve along λ: 8,142 classes, cross-validated."""
    from reprior.experiments.inaturalist import MODELS, reproduce

    if simulate and models:
        raise OptionError(
            f"--model must be left out with the stand-in, which has a linear layer. Got "
            f"{models[0]!r}. Leave out one of the two."
        )
    _need_torch()
    return reproduce(
        folder, root=root, simulate=simulate, protocol=protocol, models=models or MODELS,
        rows=rows or None, seed=seed, n_classes=n_classes, settings=read_settings(settings),
        progress=progress,
    )  # fmt: skip


def _need_torch() -> None:
    require("torch", extra="experiments", purpose="To train")


class _Bars:
    """What experiments tell their progress to: a bar for each thing, one after the other."""

    def __init__(self, session: Session, name: str) -> None:
        self._session, self._name, self._title = session, name, ""
        self._open = ExitStack()
        self._step: Callable[[int], None] | None = None

    def __enter__(self) -> Progress:
        return self._tell

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def _tell(self, title: str, done: int, total: int) -> None:
        if self._step is None or title != self._title:
            self._open.close()
            self._session.log(f"{self._name}: {title}")
            bar = self._session.progress(f"{self._name}: {title}", total, counted="")
            self._step, self._title = self._open.enter_context(bar), title
        elif title in ("cells", "networks"):
            self._session.log(f"{self._name}: {done} of {total} {title}")
        self._step(done)


def _show(session: Session, made: Reproduction, folder: Path) -> None:
    below = {note for table in made.tables for note in table.notes}
    for note in made.notes:
        if note not in below:
            session.note(note)
    for table in made.tables:
        rows = [
            (label, *(cell.shown(table.digits, short=True) for cell in cells))
            for label, cells in table.rows
        ]
        said = [cell.shown() for _, cells in table.rows for cell in cells]
        beside = "; in brackets the paper's" if any("(paper " in each for each in said) else ""
        title = f"{table.title}{beside}"
        session.say(Grid((table.corner, *table.columns), rows, title=title).rich())
        session.say(*table.notes, "")
    session.done(f"Written: {len(made.files)} files in {folder}")
    session.result(
        {
            "folder": str(folder),
            "tables": [table.to_dict() for table in made.tables],
            "files": [str(path) for path in made.files],
        }
    )
