"""Where Dask's tasks run: a cluster by its address, one started here, or whatever is active."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from reprior.exceptions import OptionError, require

__all__ = ["running_on"]

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
                preload=["reprior.engines.worker_signals"],
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
            f"`scheduler` must be the address of a Dask scheduler that answers, or one of {LOCAL}. "
            f"Got {address!r} ({error}). Check the address, and that the cluster is up."
        ) from error
    with client, client.as_current(), dask.config.set(scheduler=client):
        yield


def _check(scheduler: Any, n_workers: Any) -> None:
    if scheduler is not None and (not isinstance(scheduler, str) or not scheduler):
        raise OptionError(
            f"`scheduler` must be an address such as 'tcp://10.0.0.1:8786', or one of {LOCAL}. "
            f"Got {scheduler!r}. A Client that is active is used without it."
        )
    if n_workers is None:
        return
    if isinstance(n_workers, bool) or not isinstance(n_workers, int) or n_workers < 1:
        raise OptionError(
            f"`n_workers` must be a whole number of at least 1. Got {n_workers!r}. Pass as many "
            f"as there are cores, or leave it out."
        )
    if scheduler is not None:
        raise OptionError(
            f"`n_workers` must be left out where `scheduler` names a place to run. Got "
            f"{n_workers} and {scheduler!r}. Pass one of them."
        )
