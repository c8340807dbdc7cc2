"""Random crops and mirror images of a whole batch at once, straight from the bytes in memory."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

__all__ = ["Crops", "normalised"]

Array: TypeAlias = np.ndarray[Any, Any]


class Crops:
    """Images with a margin around them, to cut random crops from.

    The margin is black, as in the reference recipe. It is put around all images once, so that a
    crop of a batch is one copy of bytes.

    Parameters
    ----------
    images : uint8 (N, H, W, C)
        The training images.
    padding : int
        Width of the margin; 0 for none.
    flip : bool
        Whether half of the images are mirrored.

    Examples
    --------
    >>> import numpy as np, torch
    >>> images = np.arange(2 * 4 * 4, dtype=np.uint8).reshape(2, 4, 4, 1)
    >>> crops = Crops(images, padding=1, flip=True)
    >>> crops.batch(np.array([1, 0, 1]), torch.Generator().manual_seed(0)).shape
    (3, 4, 4, 1)
    """

    def __init__(self, images: Array, padding: int, flip: bool) -> None:
        self.size, self.padding, self.flip = images.shape[1:3], padding, flip
        around = ((0, 0), (padding, padding), (padding, padding), (0, 0))
        self._padded = np.pad(images, around) if padding else images

    def __len__(self) -> int:
        return len(self._padded)

    def batch(self, index: Array, generator: torch.Generator) -> Array:
        """Return crops of some images, uint8 (n, H, W, C)."""
        n, places, (height, width) = len(index), 2 * self.padding + 1, self.size
        y, x = torch.randint(0, places, (2, n), generator=generator).numpy()
        mirrored = torch.randint(0, 2, (n,), generator=generator).numpy()
        crops = np.empty((n, height, width, self._padded.shape[-1]), np.uint8)
        # A loop of slices: indexing by arrays copies pixel by pixel and takes three times as long.
        for crop, i, top, left in zip(crops, index, y, x, strict=True):
            crop[:] = self._padded[i, top : top + height, left : left + width]
        if self.flip:
            chosen = np.flatnonzero(mirrored)
            crops[chosen] = crops[chosen, :, ::-1]
        return crops


def normalised(images: Array, mean: Any, std: Any, device: Any = "cpu") -> Tensor:
    """Return images as a network takes them: float32 (n, C, H, W), in memory channels last.

    Flat features (n, D) only become a tensor.

    Examples
    --------
    >>> import numpy as np
    >>> white = np.full((1, 2, 2, 1), 255, np.uint8)
    >>> normalised(white, [0.5], [0.25]).flatten()
    tensor([2., 2., 2., 2.])
    """
    tensor = torch.from_numpy(images).to(device)
    if tensor.ndim == 2:
        return tensor.float()
    scale = 1.0 / (255.0 * torch.tensor(std, dtype=torch.float32, device=device))
    shift = -torch.tensor(mean, dtype=torch.float32, device=device) * 255.0 * scale
    # (n, H, W, C) seen as (n, C, H, W) is what PyTorch calls channels last.
    return tensor.float().mul_(scale).add_(shift).permute(0, 3, 1, 2)
