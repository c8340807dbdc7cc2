"""What the tests of training share: runs of seconds on digits, with one thread."""

from __future__ import annotations

import contextlib

import torch

from reprior_lab import RunConfig

#: What a result is compared by: the time it took is left out.
COMPARED = ("config", "status", "class_counts", "effective_prior", "epochs", "result")


def tiny(**differing):
    """A run of four short epochs."""
    settings = {"data": "digits", "imbalance": "exp", "ratio": 20, "epochs": 4, "batch_size": 64}
    return RunConfig.resolve(**settings | differing)


def compared(run):
    """All of a run that must be the same to the bit."""
    return {name: getattr(run, name) for name in COMPARED}


@contextlib.contextmanager
def one_thread():
    """Bits depend on the number of threads: the same in every process."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
