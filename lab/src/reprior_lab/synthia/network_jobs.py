"""Train and score the networks of the tables, one after the other or several at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from reprior.exceptions import Argument, OptionError
from reprior_lab.reproduction import Progress, check_jobs, claimed, titled_progress, train_at_once
from reprior_lab.synthia.data import CLEAR, HELD_OUT, DataSource, Parts
from reprior_lab.synthia.runs import NetworkRun, score_path, scored_names
from reprior_lab.synthia.settings import RECIPE, NetworkSettings, home_of

__all__ = ["NetworkJob", "check_frames", "finished_run", "run_network", "run_networks"]


@dataclass(frozen=True, eq=False)
class NetworkJob:
    """A network to train and score.

    Parameters
    ----------
    settings : NetworkSettings
        The settings of the network.
    source : DataSource
        The frames.
    weather : bool
        Whether it is scored under the unseen conditions, too.
    train : bool, default True
        Whether to train it; otherwise it is scored only if it is finished.
    """

    settings: NetworkSettings
    source: DataSource
    weather: bool
    train: bool = True

    @property
    def name(self) -> str:
        """Modality, loss and seed."""
        return f"{self.settings.modality}-{self.settings.loss}/s{self.settings.seed}"


def finished_run(folder: Path, settings: NetworkSettings) -> NetworkRun | None:
    """Return the run of a network, or None if it is not finished.

    A network of another recipe is refused: it has the same id, but is another network.
    """
    home = home_of(folder, settings)
    try:
        run = NetworkRun.read(home)
    except FileNotFoundError:
        return None
    if run.recipe != RECIPE:
        raise OptionError(
            argument="folder",
            rule=f"must have networks of the present recipe, {RECIPE}",
            got=f"{str(home)!r}, which is of recipe {run.recipe}",
            remedy="Take another folder, with -o.",
        )
    return run if run.finished else None


def check_frames(folder: Path, chosen: Sequence[NetworkSettings], source: DataSource) -> None:
    """Refuse finished networks and score files of other frames than the source's."""
    for settings in chosen:
        run = finished_run(folder, settings)
        if run is not None:
            _check_frames(run, home_of(folder, settings), source.open())


def _check_frames(run: NetworkRun, home: Path, parts: Parts) -> None:
    if run.data != parts.data.digest:
        raise OptionError(
            argument="folder",
            rule=["must have networks that were trained on the frames of ", Argument("root")],
            got=f"{str(home)!r}, which learnt from others: their digest is "
            f"{run.data}, not {parts.data.digest}",
            remedy="Take another folder, with -o.",
        )
    for condition, names in parts.frame_names().items():
        path = score_path(home, condition)
        if path.exists() and scored_names(home, condition) != names:
            raise OptionError(
                argument="folder",
                rule=["must have scores of the frames of ", Argument("root")],
                got=f"{str(path)!r}, which is of others",
                remedy="Take another folder, with -o, or remove the file.",
            )


def run_networks(
    folder: Path,
    waiting: Sequence[NetworkJob],
    jobs: int | None,
    progress: Progress | None,
    *,
    devices: int | str = "auto",
) -> None:
    """Train and score networks, ``jobs`` of them at a time, each on one of the devices."""
    from reprior_lab.training.devices import list_devices

    names = list_devices(devices)
    jobs = check_jobs(jobs, names)
    left = [job for job in waiting if not _is_done(folder, job)]
    if not left:
        return
    left[0].source.open()  # what is wrong with the folder is said before anything is started
    if jobs > 1 and len(left) > 1:
        chains = [(job,) for job in left]
        train_at_once(
            folder, chains, jobs, progress, run=run_network, devices=names, counted="networks"
        )
        return
    for done, job in enumerate(left, 1):
        title = f"network {done} of {len(left)}: {job.name}"
        run_network(folder, job, progress, title, device=names[0])


def run_network(
    folder: Path,
    job: NetworkJob,
    progress: Progress | None = None,
    title: str = "",
    *,
    device: str | None = None,
) -> NetworkRun | None:
    """Train a network and write its score files; return None if another process trains it.

    An unfinished network that must not be trained is None, too. ``device`` is as in
    :func:`~reprior_lab.synthia.training.train_network`: a network is trained and scored on one.
    """
    from reprior_lab.synthia.scores import write_scores
    from reprior_lab.synthia.training import load_network, train_network

    home = home_of(folder, job.settings)
    run = finished_run(folder, job.settings)
    if run is None and not job.train:
        return None
    with claimed(home) as ours:
        if not ours:
            return None
        parts = job.source.open()
        if run is None:
            steps = titled_progress(progress, title)
            run = train_network(
                parts.data, job.settings, home, resume=True, progress=steps, device=device
            )
        _check_frames(run, home, parts)
        wanted = {
            name: frames
            for name, frames in parts.conditions(weather=job.weather).items()
            if not score_path(home, name).exists()
        }
        if wanted:
            write_scores(
                load_network(home, device=device),
                job.settings,
                run.classes,
                wanted,
                home,
                progress=_scored(progress, title),
            )
    return run


def _is_done(folder: Path, job: NetworkJob) -> bool:
    """Whether nothing is left to do, as far as is known without the frames."""
    run = finished_run(folder, job.settings)
    if run is None:
        return not job.train
    if job.weather:
        return False  # which conditions there are, the frames say
    home = home_of(folder, job.settings)
    return all(score_path(home, name).exists() for name in (HELD_OUT, CLEAR))


def _scored(progress: Progress | None, title: str) -> Callable[[str, int, int], None] | None:
    if progress is None:
        return None
    return lambda condition, done, total: progress(f"{title}, scores: {condition}", done, total)
