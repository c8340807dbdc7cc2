"""``reprior reproduce synthia-rgbd``: train the networks of Table 5, fuse them, print it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from reprior.exceptions import OptionError
from reprior_lab.reproduction import Progress, Reproduction, titled_progress
from reprior_lab.synthia.data import CLEAR, HELD_OUT, DataSource
from reprior_lab.synthia.fused import (
    MODALITIES,
    FusionResult,
    fuse_networks,
    fusion_home,
    read_fusion,
)
from reprior_lab.synthia.network_jobs import (
    NetworkJob,
    check_frames,
    finished_run,
    run_networks,
)
from reprior_lab.synthia.rgb import no_network
from reprior_lab.synthia.runs import NetworkRun, score_path, scored_conditions
from reprior_lab.synthia.settings import NetworkSettings, home_of, rgbd_networks
from reprior_lab.synthia.tables import rgbd_tables
from reprior_lab.synthia.weather import CONDITIONS
from reprior_lab.tables import write_table

__all__ = ["reproduce"]

NO_EXAMPLES = (
    "The figure of examples was not drawn: it needs the folder of the frames and the networks' "
    "score files."
)


def reproduce(
    folder: str | os.PathLike[str],
    *,
    root: str | os.PathLike[str] | None = None,
    protocol: str = "compact",
    seed: int = 0,
    settings: Mapping[str, Any] | None = None,
    jobs: int | None = None,
    devices: int | str = "auto",
    train: bool = True,
    skip_unreadable: bool = False,
    progress: Progress | None = None,
) -> Reproduction:
    """Train what is not trained yet, and write Table 5 and the figure of examples.

    Parameters
    ----------
    folder : path
        Gets ``networks/`` with a folder for each, ``fusions/``, the tables and the figure. It may
        be that of ``synthia-rgb``: the network of colour is the same.
    root : path, optional
        The folder of SYNTHIA; needed where something is left to train or to score, and for the
        figure.
    protocol, seed, settings
        As in :func:`~reprior_lab.synthia.settings.rgbd_networks`.
    jobs : int, optional
        Networks that are trained at once, on equal shares of the CPU's threads. By default one for
        each device.
    devices : int or str, default "auto"
        How many devices, their numbers such as "0,1", or "auto": all GPUs, otherwise one. A network
        is trained on one device, and networks are spread over them.
    train : bool, default True
        Whether to train; otherwise both networks must be finished.
    skip_unreadable : bool, default False
        Whether frames that lack a file, or have a damaged one, are left out.
    progress : callable, optional
        Told what is being done.
    """
    folder = Path(folder)
    chosen = rgbd_networks(protocol=protocol, seed=seed, settings=settings)
    source = DataSource.of_settings(root, chosen[0], skip_unreadable=skip_unreadable)
    homes = {each.modality: home_of(folder, each) for each in chosen}
    if root is not None:
        check_frames(folder, chosen, source)
    place = fusion_home(folder, [each.id for each in chosen])
    result = _kept(place, homes, source)
    if result is None and (train or root is not None):
        waiting = [NetworkJob(each, source, weather=True, train=train) for each in chosen]
        run_networks(folder, waiting, jobs, progress, devices=devices)
    runs = {each.modality: finished_run(folder, each) for each in chosen}
    known = {name: run for name, run in runs.items() if run is not None}
    if len(known) < len(runs):
        raise _unfinished(folder, chosen, [name for name in runs if name not in known])
    partial: tuple[str, ...] = ()
    if result is None:
        result = fuse_networks(known, homes, _scored(homes), titled_progress(progress, "fusing"))
        partial = _partial(result, source)
        if not partial:
            result.write(place)
    tables = rgbd_tables(result, [known[name] for name in MODALITIES])
    files = [path for table in tables for path in write_table(table, folder)]
    drawn, notes = _examples(folder, result, known, homes, source)
    return Reproduction(tables, (*files, *drawn), (*partial, *notes))


def _kept(place: Path, homes: Mapping[str, Path], source: DataSource) -> FusionResult | None:
    """Return the fusion that is kept, unless there are other scores or conditions by now."""
    result = read_fusion(place)
    if result is None:
        return None
    if source.root is not None:
        conditions = _conditions(source)
    else:
        # Without the frames, what is scored tells: nothing where results are kept without scores.
        conditions = list(
            {*result.n_test, *scored_conditions(homes.values(), (CLEAR, *CONDITIONS))}
        )
    return result if result.is_of(homes, conditions) else None


def _conditions(source: DataSource) -> list[str]:
    """Return what a fusion is judged on: all that the frames have, or may have if not given."""
    if source.root is None:
        return [CLEAR, *CONDITIONS]
    return [name for name in source.open().frame_names() if name != HELD_OUT]


def _partial(result: FusionResult, source: DataSource) -> tuple[str, ...]:
    """Say which conditions a fusion lacks: it is not kept then, to be whole the next time."""
    lacking = [name for name in _conditions(source) if name not in result.n_test]
    if not lacking:
        return ()
    words = ", ".join(name.replace("_", " ") for name in lacking)
    return (
        f"The tables are without {words}: not both networks are scored there. The fusion is not "
        f"kept, and made anew the next time.",
    )


def _unfinished(folder: Path, chosen: Sequence[NetworkSettings], lacking: list[str]) -> OptionError:
    if len(lacking) == len(MODALITIES):
        return no_network(folder, chosen)
    return OptionError(
        f"`folder` must have both networks finished. Got {str(folder)!r}, which lacks that of "
        f"{lacking[0]}. Train it first."
    )


def _scored(homes: Mapping[str, Path]) -> list[str]:
    """Return the conditions under which all networks are scored."""
    found = scored_conditions(homes.values(), (HELD_OUT, CLEAR, *CONDITIONS))
    if found[:2] != [HELD_OUT, CLEAR] or len(found) < 3:
        raise OptionError(
            "`root` must be given for the networks to be scored. Got none, and no score files of "
            "the held-out frames, the clear ones and an unseen condition. Pass the folder of "
            "SYNTHIA."
        )
    return found[1:]


def _examples(
    folder: Path,
    result: FusionResult,
    runs: Mapping[str, NetworkRun],
    homes: Mapping[str, Path],
    source: DataSource,
) -> tuple[tuple[Path, ...], tuple[str, ...]]:
    """Write the figure of examples where the frames and scores are there; else say so."""
    wanted = (HELD_OUT, *result.conditions)
    scored = all(score_path(home, name).exists() for home in homes.values() for name in wanted)
    if source.root is None or not scored:
        return (), (NO_EXAMPLES,)
    from reprior_lab.synthia.examples import RULE, choose_examples, write_examples

    run = next(iter(runs.values()))
    examples = choose_examples(result, runs, homes)
    drawn = write_examples(
        examples, source.open().conditions(), run.classes, run.class_counts, folder
    )
    return drawn, (f"The figure of examples: {RULE}",)
