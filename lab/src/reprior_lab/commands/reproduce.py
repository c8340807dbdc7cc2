"""``reprior reproduce``: the paper's tables and figures, with our numbers beside its own."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

import click

from reprior.cli import (
    PATH,
    Grid,
    Names,
    SentenceGroup,
    Session,
    collected,
    folder_option,
    session_options,
    shows,
)
from reprior.exceptions import OptionError, RepriorError, Setting
from reprior_lab.cifar import TABLE_SETTINGS
from reprior_lab.config import PRECISIONS, PROTOCOLS, RunConfig
from reprior_lab.departures import DEPARTURES, Departure
from reprior_lab.inaturalist_results import FIXED_SETTINGS
from reprior_lab.reproduction import Progress, Reproduction
from reprior_lab.settings import common_settings, read_settings, settings_help
from reprior_lab.synthia.settings import (
    PLANNED,
    NetworkSettings,
    rgb_networks,
    rgbd_networks,
)

__all__ = ["command"]

#: The default folder of results.
REPRODUCED = "reproduced"

Command = TypeVar("Command", bound=Callable[..., Any])

_ONE_EACH = "Each trains one network at a time."


@click.group(
    "reproduce",
    cls=SentenceGroup,
    short_help="Reproduce a table or figure of the paper.",
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


@dataclass(frozen=True)
class Explanation:
    """The networks that a command would train: their settings, and the departures."""

    experiment: str
    protocol: str
    settings: Mapping[str, Mapping[str, Any]]

    @property
    def departures(self) -> tuple[Departure, ...]:
        """Departures from the public recipes, listed for the protocol ``paper`` only."""
        return DEPARTURES[self.experiment] if self.protocol == "paper" else ()


def _experiment(name: str, example: str) -> Callable[[Command], click.Command]:
    """Turn a function into a command of the group, with ``--output``, ``--json``, ``--quiet``."""

    def decorate(function: Command) -> click.Command:
        @functools.wraps(function)
        def shown(session: Session, output: str | None, **options: Any) -> None:
            folder = Path(output) if output is not None else Path(REPRODUCED) / name
            with _Bars(session, name) as progress:
                made = function(folder, progress, **options)
            if isinstance(made, Explanation):
                _explain(session, made)
            else:
                _show(session, made, folder)

        where = folder_option(f"Where to write. {REPRODUCED}/{name}, if not given.")
        summary = (function.__doc__ or "").strip().partition("\n")[0]
        return command.command(name, short_help=summary, epilog=shows(example))(
            where(session_options(shown))
        )

    return decorate


protocol_option = click.option(
    "--protocol",
    type=Names(list(PROTOCOLS)),
    default="compact",
    show_default=True,
    help="How networks are trained: compact for a laptop, paper as published.",
)
explain_option = click.option(
    "--explain",
    is_flag=True,
    help="Show the settings of each network, and where they depart from the public recipes. Trains "
    "nothing and needs no data.",
)


def _devices_option(use: str) -> Callable[[Command], Command]:
    return click.option(
        "--devices",
        default="auto",
        show_default=True,
        metavar="DEVICES",
        help=f"How many, their numbers such as 0,1, or auto for all GPUs. {use} On the CPU a "
        f"device is a process.",
    )


seed_option = click.option(
    "--seed",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="Of everything random.",
)


@_experiment("toy", "reprior reproduce toy -o toy")
@protocol_option
@seed_option
@click.option("--epochs", type=click.IntRange(min=1), help="As the protocol has it.")
def toy(
    folder: Path, progress: Progress, protocol: str, seed: int, epochs: int | None
) -> Reproduction:
    """Two moons and circles: boundaries for several strengths, and exact curves."""
    from reprior_lab.toy import reproduce

    return reproduce(folder, protocol=protocol, seed=seed, epochs=epochs, progress=progress)


@_experiment("odds-ratio", "reprior reproduce odds-ratio -o figures")
def odds_ratio(folder: Path, progress: Progress) -> Reproduction:
    """What the strength makes of the odds between two classes."""
    from reprior_lab.odds import reproduce

    return reproduce(folder, progress=progress)


@_experiment("datasets", "reprior reproduce datasets -o tables")
@click.option("--root", type=PATH, metavar="DIR", help="The folder with the data sets' files.")
def datasets(folder: Path, progress: Progress, root: str | None) -> Reproduction:
    """Table 1: the data sets and their imbalance, counted."""
    from reprior_lab.datasets import reproduce

    return reproduce(folder, root=root, progress=progress)


@_experiment(
    "cifar", "reprior reproduce cifar --root data --cells 'cifar10-exp100/ce*' --jobs 2 -o cifar"
)
@click.option(
    "--root", type=PATH, metavar="DIR", help="The folder with CIFAR's files. Needed to train."
)
@click.option(
    "--cells",
    multiple=True,
    metavar="PATTERN",
    help="COLUMN, COLUMN/ROW or COLUMN/ROW/sSEED with a shell's wildcards. Repeatable. The columns "
    "of ratio 100, if not given.",
)
@protocol_option
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    help=settings_help(
        "A setting of all runs that differs from the protocol, such as epochs=2.",
        RunConfig,
        TABLE_SETTINGS,
    ),
)
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    help="Cells to train at once, each on its share of the CPU. One for each device, if not given.",
)
@_devices_option(_ONE_EACH)
@click.option(
    "--no-train", "tables_only", is_flag=True, help="Make tables of the cells that are finished."
)
@explain_option
def cifar(
    folder: Path,
    progress: Progress,
    root: str | None,
    cells: Sequence[str],
    protocol: str,
    settings: Sequence[str],
    jobs: int | None,
    devices: str,
    tables_only: bool,
    explain: bool,
) -> Reproduction | Explanation:
    """Table 2 and the strengths: every method on imbalanced CIFAR, with and without IC."""
    from reprior_lab.cifar import reproduce, select_cells

    given = read_settings(settings)
    if explain:
        chosen = select_cells(cells, protocol=protocol, root=root, settings=given)
        resolved = {cell.name: cell.config.to_dict() for cell in chosen}
        return Explanation("cifar", protocol, resolved)
    return reproduce(
        folder,
        root=root,
        cells=cells,
        protocol=protocol,
        settings=given,
        jobs=jobs,
        devices=devices,
        train=not tables_only,
        progress=progress,
    )


@dataclass(frozen=True)
class Networks:
    """How SYNTHIA's networks are trained."""

    root: str | None
    protocol: str
    seed: int
    settings: tuple[str, ...]
    jobs: int | None
    devices: str
    tables_only: bool
    skip_unreadable: bool
    explain: bool


_of_networks = collected(
    Networks,
    "networks",
    (
        click.option(
            "--root",
            type=PATH,
            metavar="DIR",
            help="The folder of SYNTHIA-SF, or the one it lies in, or that of SYNTHIA-Sequences. "
            "Needed to train.",
        ),
        protocol_option,
        seed_option,
        click.option(
            "--set",
            "settings",
            multiple=True,
            metavar="KEY=VALUE",
            help=settings_help(
                "A setting of all networks that differs from the protocol, such as model=tiny.",
                NetworkSettings,
                PLANNED,
            ),
        ),
        click.option(
            "--jobs",
            type=click.IntRange(min=1),
            help="Networks to train at once, each on its share of the CPU. One for each device, if "
            "not given.",
        ),
        _devices_option(_ONE_EACH),
        click.option(
            "--no-train",
            "tables_only",
            is_flag=True,
            help="Make tables of the networks that are finished.",
        ),
        click.option(
            "--skip-unreadable",
            is_flag=True,
            help="Leave out frames that lack a file or cannot be decoded. Reads all at the start.",
        ),
        explain_option,
    ),
)


@_experiment("synthia-rgb", "reprior reproduce synthia-rgb --root SYNTHIA-SF --jobs 2 -o synthia")
@_of_networks
def synthia_rgb(folder: Path, progress: Progress, networks: Networks) -> Reproduction | Explanation:
    """Table 4: losses for imbalanced pixels, and IC, on colour alone."""
    from reprior_lab.synthia.rgb import reproduce

    if networks.explain:
        return _of_networks_explained(rgb_networks, networks)
    return _of_settings(reproduce, folder, progress, networks)


@_experiment("synthia-rgbd", "reprior reproduce synthia-rgbd --root SYNTHIA-SF --jobs 2 -o synthia")
@_of_networks
def synthia_rgbd(
    folder: Path, progress: Progress, networks: Networks
) -> Reproduction | Explanation:
    """Table 5: colour and depth fused under weather that no network has seen."""
    from reprior_lab.synthia.rgbd import reproduce

    if networks.explain:
        return _of_networks_explained(rgbd_networks, networks)
    return _of_settings(reproduce, folder, progress, networks)


def _of_networks_explained(
    planned: Callable[..., Sequence[NetworkSettings]], networks: Networks
) -> Explanation:
    given = read_settings(networks.settings)
    chosen = planned(protocol=networks.protocol, seed=networks.seed, settings=given)
    resolved = {f"{each.modality}-{each.loss}/s{each.seed}": each.all_settings() for each in chosen}
    return Explanation("synthia", networks.protocol, resolved)


def _of_settings(
    reproduce: Callable[..., Reproduction],
    folder: Path,
    progress: Progress,
    networks: Networks,
) -> Reproduction:
    try:
        return reproduce(
            folder,
            root=networks.root,
            protocol=networks.protocol,
            seed=networks.seed,
            settings=read_settings(networks.settings),
            jobs=networks.jobs,
            devices=networks.devices,
            train=not networks.tables_only,
            skip_unreadable=networks.skip_unreadable,
            progress=progress,
        )
    except RepriorError as error:
        in_python, option = Setting("on_error", "skip"), Setting("skip_unreadable", True)
        raise error.mapped(lambda part: option if part == in_python else part) from error


@_experiment("inaturalist", "reprior reproduce inaturalist --simulate -o inaturalist")
@click.option(
    "--root", type=PATH, metavar="DIR", help="The folder of iNaturalist 2018. Needed to train."
)
@click.option(
    "--simulate",
    is_flag=True,
    help="Train a linear classifier on a stand-in with the true class counts: needs no data.",
)
@click.option(
    "--protocol",
    type=Names(list(PROTOCOLS)),
    default="paper",
    show_default=True,
    help="How networks are trained. The stand-in has settings of its own.",
)
@click.option(
    "--model",
    "models",
    multiple=True,
    metavar="NAME",
    help="A network of timm. Repeatable. inception_v3 and resnet50, if not given.",
)
@click.option(
    "--row",
    "rows",
    multiple=True,
    metavar="ROW",
    help="ce, ce-drw, focal, focal-drw, ldam, ldam-drw or bbn. Repeatable. All, if not given; of "
    "the stand-in the first four.",
)
@click.option(
    "--n-classes", type=click.IntRange(min=2), help="Classes of the stand-in. 8,142, if not given."
)
@seed_option
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    help=settings_help(
        "A setting of all networks that differs from the protocol, such as "
        "epochs=2. With --simulate, one of its linear layer.",
        RunConfig,
        FIXED_SETTINGS,
    ),
)
@_devices_option("They share the batches of one network after the other.")
@click.option(
    "--precision",
    type=Names(PRECISIONS),
    help="Of the network's arithmetic. 32-true, if not given. 16-mixed needs a GPU.",
)
@explain_option
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
    devices: str,
    precision: str | None,
    explain: bool,
) -> Reproduction | Explanation:
    """Table 3 and the curve along λ: 8,142 classes, cross-validated."""
    from reprior_lab.inaturalist import MODELS, can_train, network_cells, reproduce
    from reprior_lab.inaturalist_results import ROWS

    if simulate and models:
        raise OptionError(
            f"--model must be left out with the stand-in, which has a linear layer. Got "
            f"{models[0]!r}. Leave out one of the two."
        )
    for name, given in {
        "--explain": explain,
        "--precision": precision is not None,
        "--devices": devices != "auto",
    }.items():
        if simulate and given:
            raise OptionError(
                f"{name} must be left out with the stand-in, which has settings of its own. Got "
                f"--simulate too. Leave out one of the two."
            )
    options = {} if precision is None else {"precision": precision}
    options |= read_settings(settings, tuple(options))
    if explain:
        cells = network_cells(
            rows or ROWS,
            models or MODELS,
            protocol=protocol,
            root=root,
            seed=seed,
            settings=options,
        )
        trained = [cell for cell in cells if can_train(cell)]
        resolved = {f"{cell.column}/{cell.row}": cell.config.to_dict() for cell in trained}
        return Explanation("inaturalist", protocol, resolved)
    return reproduce(
        folder,
        root=root,
        simulate=simulate,
        protocol=protocol,
        models=models or MODELS,
        rows=rows or None,
        seed=seed,
        n_classes=n_classes,
        settings=options,
        devices=devices,
        progress=progress,
    )


class _Bars:
    """Shows the progress of experiments: one bar after the other."""

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


def _explain(session: Session, made: Explanation) -> None:
    """Print common settings once, then those that differ, then the departures."""
    common = common_settings(list(made.settings.values()))
    differing = {
        name: {key: value for key, value in each.items() if key not in common}
        for name, each in made.settings.items()
    }
    networks = "1 network" if len(differing) == 1 else f"all {len(differing)} networks"
    heading = f"Settings of {networks}, protocol {made.protocol}"
    session.say(Grid(("setting", "value"), _written(common), title=heading).rich(), "")
    if any(differing.values()):
        rows = [
            (name, ", ".join(f"{key}={value}" for key, value in _written(own)))
            for name, own in differing.items()
        ]
        title = "Settings that differ between them"
        session.say(Grid(("network", "settings"), rows, title=title).rich(), "")
    if made.departures:
        table = [(each.setting, each.theirs, each.ours, each.reason) for each in made.departures]
        title = "Departures from the public recipes"
        session.say(Grid(("what", "public recipe", "here", "why"), table, title=title).rich())
    elif made.protocol != "paper":
        session.note("Departures from the public recipes are listed for --protocol paper.")
    session.result(
        {
            "experiment": made.experiment,
            "protocol": made.protocol,
            "common": common,
            "networks": differing,
            "departures": [asdict(each) for each in made.departures],
        }
    )


def _written(settings: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [(key, json.dumps(value)) for key, value in settings.items()]


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
