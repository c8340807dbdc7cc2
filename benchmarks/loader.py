"""fit_from_loader against the plain forward passes, and the memory it needs on top of them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable, Iterator

import numpy as np
import torch
from torch import Tensor

import reprior as rp
from benchmarks.resnet import Segmenter
from benchmarks.timing import Row, compare
from reprior.torch import fit_from_loader

K, SIZE, BATCH = 14, (96, 192), 8
TIME_BAR = 1.1
PAIRS = 31

#: Images of a timed pass; of the measurement of memory, where the network is minimal.
TIMED, MEASURED = 16, 2000

#: Pairs of processes that memory is measured in.
RUNS = 3

#: Return freed memory to the system at once, in both processes of a pair. Otherwise glibc keeps
#: blocks of the logits' size, and the peak of identical plain passes varies by 60 MB.
ALLOCATOR = {"MALLOC_MMAP_THRESHOLD_": "1000000"}

#: Bytes that may be used above the model's own.
ALLOWED = 200 * 2**20

PRIOR = rp.prior_from_counts(100.0 ** -np.linspace(0, 1, K))

#: Spread of a network's logits: a well-trained one, and one with low confidence, whose pixels
#: mostly switch more than once within the bounds.
SURE, UNSURE = 1.0, 0.25

_CHILD = "from benchmarks.loader import peak; print(peak({tunes}, {spread}))"


def batches(n_images: int) -> Iterable[tuple[Tensor, Tensor]]:
    """Images whose labels any channel shows approximately, sometimes off by one class."""
    generator = torch.Generator().manual_seed(0)
    for _ in range(n_images // BATCH):
        labels = torch.randint(0, K, (BATCH, *SIZE), generator=generator)
        noise = torch.randn(BATCH, 3, *SIZE, generator=generator)
        yield 0.1 * noise + labels[:, None] / K, labels


class Trained(torch.nn.Module):
    """Logits as a trained network gives them, the more sure of itself the larger ``spread``.

    They are worked out from the images, for next to no time, and what a network says comes on
    top, made small: it has the size of a real one, and never learnt a thing.
    """

    def __init__(self, spread: float, network: torch.nn.Module | None = None) -> None:
        super().__init__()
        self.spread, self.network = spread, network

    def forward(self, images: Tensor) -> Tensor:
        classes = torch.arange(K)[:, None, None]
        near = 6.0 - 2.0 * (K * images[:, :1] - classes).abs()
        logits = near + torch.tensor(np.log(PRIOR), dtype=torch.float32)[:, None, None]
        logits = self.spread * logits
        return logits if self.network is None else logits + 0.01 * self.network(images)


class Fresh:
    """A loader that computes its batches in every pass, and stores none."""

    def __init__(self, n_images: int) -> None:
        self.n_images = n_images

    def __len__(self) -> int:
        return self.n_images // BATCH

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        return iter(batches(self.n_images))


def plain(model: torch.nn.Module, loader: Iterable[tuple[Tensor, Tensor]]) -> None:
    with torch.no_grad():
        for images, _ in loader:
            model(images)


def tuned(
    model: torch.nn.Module, loader: Iterable[tuple[Tensor, Tensor]]
) -> rp.PosteriorCalibrator:
    return fit_from_loader(model, loader, source_prior=PRIOR, progress=False)


def peak(tunes: bool, spread: float) -> int:
    """Peak resident bytes of this process after a pass over all images."""
    torch.set_num_threads(1)
    (tuned if tunes else plain)(Trained(spread), Fresh(MEASURED))
    # For this process only: getrusage includes the parent's peak before exec.
    with open("/proc/self/status") as status:
        line = next(line for line in status if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024


def rows() -> Iterator[Row]:
    for spread in (SURE, UNSURE):
        torch.manual_seed(0)
        model, loader = Trained(spread, Segmenter()).eval(), list(batches(TIMED))
        profile = tuned(model, loader).profile_
        often = f"{100 * profile.n_switches / profile.n_samples:.0f} switches per 100 pixels"
        yield compare(
            f"fit_from_loader, images of {(K, *SIZE)}, {often}",
            lambda model=model, loader=loader: tuned(model, loader),
            f"the forward passes of {TIMED} images",
            lambda model=model, loader=loader: plain(model, loader),
            bar=TIME_BAR,
            pairs=PAIRS,
        )
        shares = np.array([_used(spread) / ALLOWED for _ in range(RUNS)])
        low, high = np.quantile(shares, [0.05, 0.95])
        what = f"its memory, {MEASURED:,} images, {often}"
        peer = "200 MB above the passes' own"
        yield Row(what, peer, float(np.median(shares)), float(low), float(high), 1.0)


def _used(spread: float) -> int:
    """Return the bytes that tuning needs beyond plain passes, each in its own process."""
    command = [sys.executable, "-W", "ignore", "-c"]
    environment = {**os.environ, **ALLOCATOR}
    tuning, passes = (
        int(
            subprocess.check_output(
                [*command, _CHILD.format(tunes=tunes, spread=spread)], env=environment
            )
        )
        for tunes in (True, False)
    )
    return tuning - passes
