"""``reprior reproduce synthia-rgb``: train the networks of Table 4, correct each, print it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from reprior.exceptions import OptionError
from reprior.experiments.other_runs import of_other_settings
from reprior.experiments.reproduction import Progress, Reproduction
from reprior.experiments.synthia.correction import correct_network, read_correction
from reprior.experiments.synthia.network_jobs import (
    NetworkJob,
    check_frames,
    finished_run,
    run_networks,
)
from reprior.experiments.synthia.origins import changed, score_path
from reprior.experiments.synthia.plan import NETWORKS, PLANNED, home_of, rgb_networks
from reprior.experiments.synthia.rgb_tables import RgbResult, make_tables
from reprior.experiments.synthia.runs import NetworkRun
from reprior.experiments.synthia.settings import NetworkSettings
from reprior.experiments.synthia.sources import CLEAR, HELD_OUT, DataSource
from reprior.experiments.tables import write_table
from reprior.experiments.training.runfile import RUN_FILE

__all__ = ["no_network", "reproduce"]


def reproduce(
    folder: str | os.PathLike[str],
    *,
    root: str | os.PathLike[str] | None = None,
    protocol: str = "compact",
    seed: int = 0,
    settings: Mapping[str, Any] | None = None,
    jobs: int = 1,
    train: bool = True,
    skip_unreadable: bool = False,
    progress: Progress | None = None,
) -> Reproduction:
    """Train what is not trained yet, and write Table 4 and the curves.

    Parameters
    ----------
    folder : path
        Gets ``networks/`` with a folder for each, and the tables and the figure.
    root : path, optional
        The folder of SYNTHIA; needed where something is left to train or to score.
    protocol, seed, settings
        As in :func:`~reprior.experiments.synthia.plan.rgb_networks`.
    jobs : int, default 1
        Networks that are trained at once, on equal shares of the CPU's threads.
    train : bool, default True
        Whether to train; otherwise tables are made of the networks that are finished.
    skip_unreadable : bool, default False
        Whether frames that lack a file, or have a damaged one, are left out.
    progress : callable, optional
        Told what is being done.
    """
    from reprior.experiments.synthia.curve_figure import write_curves

    folder, source = Path(folder), DataSource(root, skip_unreadable=skip_unreadable)
    chosen = rgb_networks(protocol=protocol, seed=seed, settings=settings)
    if root is not None:
        check_frames(folder, chosen, source)
    waiting = [
        NetworkJob(each, source, weather=False, train=train)
        for each in chosen
        if _result(folder, each) is None
    ]
    if train or root is not None:
        run_networks(folder, waiting, jobs, progress)
    results = {}
    for each in chosen:
        found = _result(folder, each) or _correct(folder, each)
        if found is not None:
            results[each.loss] = found
    missing = [job.name for job in waiting if job.settings.loss not in results]
    if not results:
        raise no_network(folder, chosen)
    tables = make_tables(results, missing)
    files = [path for table in tables for path in write_table(table, folder)]
    files += write_curves(results, folder)
    return Reproduction(tables, tuple(files), tables[0].notes)


def no_network(folder: Path, chosen: Sequence[NetworkSettings]) -> OptionError:
    """Return the error that answers a folder without anything to make tables of."""
    homes = [path.parent for path in sorted(folder.glob(f"{NETWORKS}/*/{RUN_FILE}"))]
    others = of_other_settings(
        [run.settings.to_dict() for run in map(NetworkRun.read, homes) if run.finished],
        [settings.to_dict() for settings in chosen],
        PLANNED,
        "network",
    )
    return OptionError(
        f"`folder` must have a finished network to make tables of. Got {str(folder)!r}, which has "
        f"none of the {len(chosen)} that the table needs. {others or 'Train them first.'}"
    )


def _result(folder: Path, settings: NetworkSettings) -> RgbResult | None:
    """Return what is finished: a correction of other scores than those that are there is not."""
    home, run = home_of(folder, settings), finished_run(folder, settings)
    found = None if run is None else read_correction(home)
    if run is None or found is None or changed(found.scores, home):
        return None
    return RgbResult(run, found)


def _correct(folder: Path, settings: NetworkSettings) -> RgbResult | None:
    """Make the correction of a network's score files, where they are there."""
    home, run = home_of(folder, settings), finished_run(folder, settings)
    if run is None or not all(score_path(home, part).exists() for part in (HELD_OUT, CLEAR)):
        return None
    found = correct_network(run, home)
    found.write(home)
    return RgbResult(run, found)
