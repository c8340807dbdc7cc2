"""Tuning a calibrator on Dask: shards of files, or arrays, larger than one machine."""

from __future__ import annotations

import copy
import logging
import os
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, NoReturn, TypeAlias, TypeVar

import array_api_compat

from reprior._warnings import warn
from reprior.calibrator import PosteriorCalibrator
from reprior.calibrator.encoding import Terms, encode
from reprior.calibrator.fitting import tuned
from reprior.calibrator.lazy_source import AUTO_BINS, NEEDS_ALL_SCORES, LazySource, gathered
from reprior.calibrator.options import check_options, full_problem
from reprior.core.checks import check_choice, check_finite_number
from reprior.engines.chunk_source import settle_terms
from reprior.engines.chunked import refuse_wide_bins
from reprior.engines.dask_shards import (
    NAMED,
    FilePieces,
    Shard,
    ShardJob,
    ShardOptions,
    expand_urls,
    pair_labels,
    read_head,
)
from reprior.exceptions import Argument, OptionError, Setting, Words, require
from reprior.files.scores import refuse_repeated_files
from reprior.profile.dask_arrays import (
    ArrayPieces,
    Bins,
    Pieces,
    Profiled,
    ProfileTally,
    delayed,
    join_profiled,
)
from reprior.profile.merging import PackedProfile
from reprior.profile.profile import StrengthProfile

__all__ = [
    "dask_fit",
    "dask_profiles",
    "dask_setup",
    "running_on",
]

Calibrator = TypeVar("Calibrator", bound=PosteriorCalibrator)
Resolution: TypeAlias = Any


def dask_fit(
    calibrator: Calibrator,
    scores: Any,
    *,
    labels: Any = None,
    reading: ShardOptions | None = None,
    resolution: Resolution = "auto",
    scheduler: str | None = None,
    n_workers: int | None = None,
    on_error: str = "raise",
) -> Calibrator:
    """Tune a calibrator on labelled scores in shards, each read and counted by one of Dask's tasks.

    The result is that of ``calibrator.fit`` on all of them at once: to the bit for strength,
    interval, score and counts, unless samples have fractional weights, whose sums then differ in
    the last bits; for what is fitted by log-loss to 1e-6 of it. It depends neither on the number
    of workers nor on the order of the shards.

    A profile is all that comes back from a task, and a tree of tasks adds the profiles up. A
    widening of the bounds is another round over all shards, and so is every Newton step of
    ``temperature="fit"`` and ``metric="log_loss"``. What needs all scores at once is refused:
    ``tune="per_class"``, ``cv``, ``n_bootstrap``, ``temperature="bcts"`` or ``"vector"`` and
    ``selection="balanced_log_loss"``; for folds and replicates made of shards see
    :func:`dask_profiles`.

    Parameters
    ----------
    calibrator : PosteriorCalibrator
        Its options say what is tuned. It is fitted in place.
    scores : path, URL, pattern or list of these; or a tuple of Dask arrays or dataframes
        Score files as :func:`reprior.files.scores.open_scores` reads them, also by URL where
        fsspec knows the protocol: ``"s3://bucket/val-*.parquet"``. A file is a shard, and a
        task: some dozen million scores make good ones. Or (scores, labels[, weight]) as Dask
        arrays, or as a dataframe with a column per class and series of it.
    labels : path, URL, pattern or list of these, optional
        Files of labels, one for every shard, where these have none inside.
    reading : ShardOptions, optional
        How the files are read: columns, class names, ``storage`` options of fsspec.
    resolution : float, "auto" or None, default "auto"
        Sum switches in bins of this width; None keeps each. "auto" keeps up to ten million and
        then sums in bins of 1e-4, with a warning.
    scheduler : str, optional
        The address of a Dask cluster, or "threads", "processes", "synchronous". By default the
        Client that is active, or threads.
    n_workers : int, optional
        Start as many single-thread worker processes on this machine for this fit.
    on_error : {"raise", "skip"}, default "raise"
        What to do about a shard that cannot be read: refuse, naming it; or leave out all of it,
        with a warning that names it. Shards of other classes are refused in any case. This,
        ``labels`` and ``reading`` are for files, and refused with arrays.

    Returns
    -------
    PosteriorCalibrator
        The calibrator, fitted. Its ``provenance_`` is None: a digest needs the shards in a row.
        Where shards were left out, it says so, ``{"digest": "", "n_samples": …, "left_out":
        {"files": […], "n_samples": None}}``.

    Examples
    --------
    >>> import numpy as np
    >>> import reprior as rp
    >>> logits = np.array([[2.0, 0.0], [1.0, 0.0], [0.4, 0.0], [0.0, 1.0]])
    >>> folder = getfixture("tmp_path")
    >>> for i in range(2):
    ...     part = slice(2 * i, 2 * i + 2)
    ...     np.savez(folder / f"{i}.npz", scores=logits[part], labels=[[0, 0], [1, 1]][i])
    >>> calibrator = dask_fit(rp.PosteriorCalibrator([0.8, 0.2]), f"{folder}/*.npz")
    >>> round(calibrator.strength_, 3)
    0.505
    """
    check_options(calibrator)
    bins = _bins(resolution, calibrator.bounds)
    with running_on(scheduler, n_workers):
        if isinstance(scores, tuple) and scores and _is_lazy(scores[0]):
            _refuse_of_files(labels=labels, reading=reading, on_error=on_error)
            source, terms = _array_source(calibrator, scores, bins)
        else:
            pieces, terms = _file_pieces(calibrator, scores, labels, reading, on_error)
            source = LazySource(pieces, bins=bins, gather=_refuse_gathering)
        found = tuned(full_problem(calibrator, terms), source)
    if source.profiled is not None:
        source.profiled.detector.warn()
    if resolution == "auto" and found.profile.resolution is not None:
        warn(
            [
                f"There are more than {bins.exact_up_to} switches, too many to keep: they are "
                f"summed in bins of {bins.resolution:g}. Pass ",
                Setting("resolution", None),
                " to keep each, or a number.",
            ]
        )
    found.warn()
    calibrator._adopt(full_problem(calibrator, terms), found, _provenance(source.pieces))
    return calibrator


def _provenance(pieces: Pieces) -> dict[str, Any] | None:
    """Which shards were left out, and how many samples the others had."""
    if not isinstance(pieces, FilePieces) or not pieces.left_out:
        return None
    left_out = {"files": pieces.left_out, "n_samples": None}
    return {"digest": "", "n_samples": pieces.n_samples, "left_out": left_out}


def dask_profiles(
    calibrator: PosteriorCalibrator,
    scores: Any,
    *,
    n_groups: int,
    labels: Any = None,
    reading: ShardOptions | None = None,
    resolution: Resolution = "auto",
    scheduler: str | None = None,
    n_workers: int | None = None,
    on_error: str = "raise",
) -> list[StrengthProfile]:
    """Profile shards in groups: what cross-validation and bootstrap at scale are made of.

    The shards are dealt out to ``n_groups`` groups in turn, and the profiles of a group are added
    up where they are made. Give the result to :func:`reprior.tuning.crossval.nested` for a score
    on groups that were not tuned on, or to
    :func:`reprior.tuning.bootstrap.bootstrap_profiles` for intervals. A group is then the
    unit that is drawn: the answer is about new shards, days, users or hospitals, whatever a shard
    is, and about new samples only if samples were dealt out to the shards at random.

    Parameters
    ----------
    calibrator : PosteriorCalibrator
        Its priors, bounds, kind and classes are those of the profiles. It is not fitted.
    n_groups : int
        How many profiles to make: 5 for folds; 20 or more for a bootstrap. At most as many as
        there are shards.
    scores, labels, reading, resolution, scheduler, n_workers, on_error
        As :func:`dask_fit` takes them; files only.

    Returns
    -------
    list of StrengthProfile
        One for every group, in their order; all exact, or all with the same bins. A group
        without samples, as where none of its shards can be read, is an error that names them.
    """
    check_options(calibrator)
    bins = _bins(resolution, calibrator.bounds)
    with running_on(scheduler, n_workers):
        pieces, terms = _file_pieces(calibrator, scores, labels, reading, on_error)
        _check_groups(n_groups, len(pieces.shards))
        bounds, shards = full_problem(calibrator, terms).bounds, pieces.shards
        counted: list[Profiled | None] = pieces.run_groups(
            partial(ProfileTally, bounds, bins), partial(join_profiled, bins=bins), n_groups
        )
    profiles = [_profile_of(each, shards[i::n_groups]).unpacked() for i, each in enumerate(counted)]
    if any(profile.resolution is not None for profile in profiles):
        profiles = [profile.binned(bins.resolution) for profile in profiles]
    return profiles


def _profile_of(counted: Profiled | None, group: Sequence[Shard]) -> PackedProfile:
    """The profile of a group of shards; refuses one without samples, whose place would be empty."""
    if counted is None or counted.packed is None:
        why = "could be read" if counted is None else "has samples that count"
        named = ", ".join(repr(shard.url) for shard in group[:NAMED])
        more = f" and {len(group) - NAMED} more" if len(group) > NAMED else ""
        raise OptionError(
            argument="n_groups",
            rule="must leave samples in every group",
            got=f"a group of which no shard {why}: {named}{more}",
            remedy=["Leave these out of ", Argument("scores"), ", or ask for fewer groups."],
        )
    return counted.packed


def _check_groups(n_groups: Any, n_shards: int) -> None:
    whole = isinstance(n_groups, int) and not isinstance(n_groups, bool)
    if not whole or not 1 <= n_groups <= n_shards:
        raise OptionError(
            argument="n_groups",
            rule=f"must be a whole number from 1 to the number of shards, {n_shards}",
            got=repr(n_groups),
            remedy="Cut the data in more shards, or ask for fewer groups.",
        )


def _array_source(
    calibrator: PosteriorCalibrator, scores: tuple[Any, ...], bins: Bins
) -> tuple[LazySource, Terms]:
    """The passes over (scores, labels[, weight]) as Dask arrays, and the classes."""
    encoded = encode(calibrator, *(*scores, None)[:3])
    gather = partial(gathered, encoded.data)
    return LazySource(ArrayPieces(encoded.data), bins=bins, gather=gather), encoded.terms


def _is_lazy(values: Any) -> bool:
    """Whether values are an array, a dataframe or a series of Dask."""
    return bool(array_api_compat.is_dask_array(values)) or hasattr(values, "to_dask_array")


def _refuse_arrays(scores: Any) -> None:
    """Refuse arrays that are not a tuple of Dask's."""
    first = next(iter(scores), "") if isinstance(scores, tuple | list) else scores
    if isinstance(first, str | os.PathLike):
        return
    got = type(first).__name__
    raise OptionError(
        argument="scores",
        rule="must be files by path or URL, or a tuple of Dask arrays or dataframes, (scores, "
        "labels) or (scores, labels, weight)",
        got=got if first is scores else f"{got} first",
        remedy="Pass such a tuple, or give scores and labels to calibrator.fit, which takes any "
        "array.",
    )


def _refuse_of_files(**given: Any) -> None:
    """Refuse options that arrays have no use for."""
    for name, value in given.items():
        got = repr(value) if isinstance(value, str) else type(value).__name__
        if value is not None and got != "'raise'":
            raise OptionError(
                argument=name,
                rule=[
                    "must be left out where ",
                    Argument("scores"),
                    " are Dask arrays: it is about files",
                ],
                got=got,
                remedy="Pass labels and weights in the tuple, (scores, labels, weight).",
            )


def _file_pieces(
    calibrator: PosteriorCalibrator,
    scores: Any,
    labels: Any,
    reading: ShardOptions | None,
    on_error: str,
) -> tuple[FilePieces, Terms]:
    check_choice("on_error", on_error, ("raise", "skip"))
    _refuse_arrays(scores)
    options, skip = reading or ShardOptions(), on_error == "skip"
    shards = [Shard(url) for url in expand_urls(scores, "scores", options.storage)]
    if labels is not None:
        own = expand_urls(labels, "labels", options.storage)
        shards = pair_labels([shard.url for shard in shards], own)
    refuse_repeated_files([shard.url for shard in shards], [shard.labels for shard in shards])
    # On a worker too: that is where the files have to be readable.
    head = delayed(read_head)(shards, options, skip=skip).compute()
    terms = settle_terms(calibrator, _NoChunks(head.class_names))
    blank = copy.copy(calibrator)
    blank.__dict__ = {k: v for k, v in vars(calibrator).items() if not k.endswith("_")}
    return FilePieces(shards, ShardJob(blank, terms, options, head, skip)), terms


class _NoChunks(tuple[Any, ...]):
    """What is known of the classes before any sample was read: the names in the files."""

    class_names: Sequence[str] | None

    def __new__(cls, class_names: Sequence[str] | None) -> _NoChunks:
        """No chunks, with class names."""
        empty = super().__new__(cls)
        empty.class_names = class_names
        return empty


def _bins(resolution: Resolution, bounds: Sequence[float]) -> Bins:
    if resolution is None or resolution == "auto":
        return Bins.of(None) if resolution is None else AUTO_BINS
    if isinstance(resolution, str):
        why = ", which reads the shards once more, in order, on one machine: engines.fit does that"
        raise OptionError(
            argument="resolution",
            rule=["must be a number above 0, 'auto' or ", Words("None", "none")],
            got=f"{resolution!r}{why if resolution == 'refine' else ''}",
            remedy=[
                "Pass for example 0.0001, or ",
                Words("None", "none"),
                " to keep every switch.",
            ],
        )
    refuse_wide_bins(resolution, bounds)
    return Bins.of(check_finite_number("resolution", resolution, positive=True))


def _refuse_gathering() -> NoReturn:
    raise OptionError(
        argument="calibrator",
        rule="must ask for what adds up over shards",
        got=[
            *NEEDS_ALL_SCORES[:-3],
            " or ",
            *NEEDS_ALL_SCORES[-2:],
            ", which need all scores at once",
        ],
        remedy="Leave it out, or fit a sample with engines.fit; for folds and replicates made of "
        "shards there is engines.dask_profiles.",
    )


LOCAL = ("threads", "processes", "synchronous")
"""Dask's schedulers without a cluster."""


@contextmanager
def running_on(scheduler: str | None = None, n_workers: int | None = None) -> Iterator[None]:
    """Run Dask's tasks within on a cluster, on some local workers, or where they would run anyway.

    Parameters
    ----------
    scheduler : str, optional
        The address of a cluster, such as ``"tcp://10.0.0.1:8786"``, or one of Dask's own:
        "threads", "processes", "synchronous".
    n_workers : int, optional
        Start as many worker processes of one thread each on this machine, for as long.

    Examples
    --------
    >>> import dask
    >>> with running_on("synchronous"):
    ...     dask.delayed(sum)([1, 2]).compute()
    3
    """
    _check(scheduler, n_workers)
    if scheduler is None and n_workers is None:
        yield
    elif scheduler in LOCAL:
        dask = require("dask", extra="dask", purpose="To run on Dask")
        with dask.config.set(scheduler=scheduler):
            yield
    else:
        distributed = require("distributed", extra="dask", purpose="To run on a Dask cluster")
        if scheduler is not None:
            with _connected(distributed, scheduler):
                yield
            return
        with (
            _without_last_words(),
            distributed.LocalCluster(
                n_workers=n_workers,
                threads_per_worker=1,
                # No pages to look at; what is served besides takes any port that is free.
                dashboard_address="127.0.0.1:0",
                scheduler_kwargs={"dashboard": False},
                silence_logs=logging.CRITICAL,  # what fails is raised here, once
                preload=["reprior.engines.dask_engine"],
            ) as cluster,
            distributed.Client(cluster),
        ):
            yield


@contextmanager
def _without_last_words() -> Iterator[None]:
    """Keep asyncio from complaining that nobody waits any more for what Ctrl-C has ended."""

    def wanted(record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        return type(error).__name__ != "AllExit"  # by which Dask's client leaves a wait

    logger = logging.getLogger("asyncio")
    logger.addFilter(wanted)
    try:
        yield
    finally:
        logger.removeFilter(wanted)


@contextmanager
def _connected(distributed: Any, address: str) -> Iterator[None]:
    dask = require("dask", extra="dask", purpose="To run on Dask")
    client = distributed.Client.__new__(distributed.Client)  # to be closed whatever becomes of it
    try:
        # As a default it would stay one for all of the process, though nobody answers.
        client.__init__(address, set_as_default=False)
    except (ImportError, OSError, RuntimeError, TimeoutError, ValueError) as error:
        # Left to the garbage collector, it would be closed at any time, and may wait for ever then:
        # for a lock that the next client holds while it starts.
        with suppress(Exception):  # half made, it may lack what closing needs
            client.close()
        raise OptionError(
            argument="scheduler",
            rule=f"must be the address of a Dask scheduler that answers, or one of {LOCAL}",
            got=f"{address!r} ({error})",
            remedy="Check the address, and that the cluster is up.",
        ) from error
    with client, client.as_current(), dask.config.set(scheduler=client):
        yield


def _check(scheduler: Any, n_workers: Any) -> None:
    if scheduler is not None and (not isinstance(scheduler, str) or not scheduler):
        raise OptionError(
            argument="scheduler",
            rule=f"must be an address such as 'tcp://10.0.0.1:8786', or one of {LOCAL}",
            got=repr(scheduler),
            remedy="A Client that is active is used without it.",
        )
    if n_workers is None:
        return
    if isinstance(n_workers, bool) or not isinstance(n_workers, int) or n_workers < 1:
        raise OptionError(
            argument="n_workers",
            rule="must be a whole number of at least 1",
            got=repr(n_workers),
            remedy="Pass as many as there are cores, or leave it out.",
        )
    if scheduler is not None:
        raise OptionError(
            argument="n_workers",
            rule=["must be left out where ", Argument("scheduler"), " names a place to run"],
            got=f"{n_workers} and {scheduler!r}",
            remedy="Pass one of them.",
        )


def dask_setup(worker: object) -> None:  # noqa: ARG001 - Dask passes it
    """Ignore Ctrl-C; Dask calls this in every worker as it starts."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
