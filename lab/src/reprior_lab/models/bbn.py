"""BBN, a bilateral-branch network: one branch for frequent classes and one for rare classes."""

from __future__ import annotations

import copy
from typing import cast

import torch
from torch import Tensor, nn

from reprior_lab.models.classifier import Body, make_head

__all__ = ["BilateralBranch", "mixing"]


def mixing(epoch: int, epochs: int) -> float:
    r"""Return α, the weight of the conventional branch in an epoch.

    .. math:: α = 1 - \left(\frac{t}{T}\right)^2

    where t is the index of the epoch, counted from 0, and T the number of epochs.

    References
    ----------
    .. [1] Zhou, Cui, Wei, Chen. "BBN: Bilateral-Branch Network with Cumulative Learning for
       Long-Tailed Visual Recognition", CVPR 2020: Eq. 5. Epochs count from 1 there, and the
       authors' code subtracts that 1.

    Examples
    --------
    >>> mixing(0, 200), mixing(100, 200)
    (1.0, 0.75)
    """
    return 1.0 - (epoch / epochs) ** 2


class BilateralBranch(nn.Module):
    r"""One trunk, two copies of the last block, and one linear layer over both their features.

    .. math:: z = W\,[\,2α f_c(x_c),\; 2(1-α) f_r(x_r)\,] + b

    where f_c and f_r are the features of the conventional and of the re-balancing branch, x_c a
    sample of the plain sampler, x_r one of the reversed sampler, W and b the linear layer. In
    evaluation, x_c = x_r and α = 1/2.

    Parameters
    ----------
    body : Body
        The network that is split into the trunk and the two branches.
    n_classes : int
        K.

    References
    ----------
    .. [1] Zhou, Cui, Wei, Chen. "BBN: Bilateral-Branch Network with Cumulative Learning for
       Long-Tailed Visual Recognition", CVPR 2020: Eqs. 1 and 2.

    Examples
    --------
    >>> import torch
    >>> from reprior_lab.models.resnet import resnet_body
    >>> model = BilateralBranch(resnet_body("resnet8"), 10)
    >>> model(torch.zeros(2, 3, 32, 32)).shape
    torch.Size([2, 10])
    """

    def __init__(self, body: Body, n_classes: int) -> None:
        super().__init__()
        self.trunk, self.conventional = body.trunk, body.last
        self.rebalancing = copy.deepcopy(body.last)
        for module in self.rebalancing.modules():
            if isinstance(module, nn.Conv2d):  # a beginning of its own
                nn.init.kaiming_normal_(module.weight)
            elif isinstance(module, nn.Linear):
                module.reset_parameters()
        self.head = make_head("linear", 2 * body.n_features, n_classes)

    def mixed(self, conventional: Tensor, reversed_: Tensor, alpha: float) -> Tensor:
        """Return the scores of two batches, mixed by ``alpha``."""
        first = self.conventional(self.trunk(conventional))
        second = self.rebalancing(self.trunk(reversed_))
        features = torch.cat([2 * alpha * first, 2 * (1 - alpha) * second], dim=1)
        return cast("Tensor", self.head(features))

    def forward(self, x: Tensor) -> Tensor:
        """Return the scores (N, K) of one batch."""
        shared = self.trunk(x)
        features = torch.cat([self.conventional(shared), self.rebalancing(shared)], dim=1)
        return cast("Tensor", self.head(features))
