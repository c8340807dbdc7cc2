"""``reprior reproduce synthia-rgb``: train and correct the networks of Table 4, and write it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from reprior.exceptions import OptionError
from reprior_lab.reproduction import Progress, Reproduction, of_other_settings
from reprior_lab.synthia.correction import correct_network, read_correction
from reprior_lab.synthia.data import CLEAR, HELD_OUT, DataSource
from reprior_lab.synthia.network_jobs import (
    NetworkJob,
    check_frames,
    finished_run,
    run_networks,
)
from reprior_lab.synthia.runs import NetworkRun, changed, score_path
from reprior_lab.synthia.settings import NETWORKS, PLANNED, NetworkSettings, home_of, rgb_networks
from reprior_lab.synthia.tables import RgbResult, rgb_tables, write_curves
from reprior_lab.tables import write_table
from reprior_lab.training.runfile import RUN_FILE

__all__ = ["no_network", "reproduce"]


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
    """Train the unfinished networks, and write Table 4 and the curves.

    Parameters
    ----------
    folder : path
        Gets ``networks/`` with a folder for each, and the tables and the figure.
    root : path, optional
        The folder of SYNTHIA; needed if a network must be trained or scored.
    protocol, seed, settings
        As in :func:`~reprior_lab.synthia.settings.rgb_networks`.
    jobs : int, optional
        How many networks to train at once, on equal shares of the CPU's threads. By default one
        for each device.
    devices : int or str, default "auto"
        How many devices, their numbers such as "0,1", or "auto": all GPUs, or one device without
        GPUs. Each network is trained on one of them.
    train : bool, default True
        Whether to train; otherwise only finished networks are in the tables.
    skip_unreadable : bool, default False
        Whether frames that lack a file, or have a damaged one, are left out.
    progress : callable, optional
        Receives the progress.
    """
    folder = Path(folder)
    chosen = rgb_networks(protocol=protocol, seed=seed, settings=settings)
    source = DataSource.of_settings(root, chosen[0], skip_unreadable=skip_unreadable)
    if root is not None:
        check_frames(folder, chosen, source)
    waiting = [
        NetworkJob(each, source, weather=False, train=train)
        for each in chosen
        if _result(folder, each) is None
    ]
    if train or root is not None:
        run_networks(folder, waiting, jobs, progress, devices=devices)
    results = {}
    for each in chosen:
        found = _result(folder, each) or _correct(folder, each)
        if found is not None:
            results[each.loss] = found
    missing = [job.name for job in waiting if job.settings.loss not in results]
    if not results:
        raise no_network(folder, chosen)
    tables = rgb_tables(results, missing)
    files = [path for table in tables for path in write_table(table, folder)]
    files += write_curves(results, folder)
    return Reproduction(tables, tuple(files), tables[0].notes)


def no_network(folder: Path, chosen: Sequence[NetworkSettings]) -> OptionError:
    """Return the error for a folder without finished networks."""
    homes = [path.parent for path in sorted(folder.glob(f"{NETWORKS}/*/{RUN_FILE}"))]
    others = of_other_settings(
        [run.settings.all_settings() for run in map(NetworkRun.read, homes) if run.finished],
        [settings.all_settings() for settings in chosen],
        PLANNED,
        "network",
    )
    return OptionError(
        argument="folder",
        rule="must have a finished network to make tables of",
        got=f"{str(folder)!r}, which has none of the {len(chosen)} that the table needs",
        remedy=others or "Train them first.",
    )


def _result(folder: Path, settings: NetworkSettings) -> RgbResult | None:
    """Return the finished result; None if its correction is of other scores than the present."""
    home, run = home_of(folder, settings), finished_run(folder, settings)
    found = None if run is None else read_correction(home)
    if run is None or found is None or changed(found.scores, home):
        return None
    return RgbResult(run, found)


def _correct(folder: Path, settings: NetworkSettings) -> RgbResult | None:
    """Correct a network's score files, if they exist."""
    home, run = home_of(folder, settings), finished_run(folder, settings)
    if run is None or not all(score_path(home, part).exists() for part in (HELD_OUT, CLEAR)):
        return None
    correction = correct_network(run, home)
    correction.write(home)
    return RgbResult(run, correction)
