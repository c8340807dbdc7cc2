"""The prior correction as a layer behind a network."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn

from reprior.core.arrays import to_numpy
from reprior.core.binary import is_single_score, resolve_class_axis
from reprior.core.checks import KINDS, check_kind
from reprior.core.flatten import EntropyReference
from reprior.core.rebalance import log_rebalance
from reprior.exceptions import OptionError, ScoresError, Setting

__all__ = ["Affine", "Rebalance", "affine_of", "affine_of_prior", "exact_buffers"]


class Rebalance(nn.Module):
    r"""A layer that returns the log-posterior of a network's scores with the class prior re-set.

    .. math:: \log P_f(k|x) = z_k(x)/T + λ\,w_k - \log Z(x), \qquad
        w_k = \log P_t(k) - \log P_s(k)

    where z_k is the log-score of class k, T the temperature, λ the strength, P_s the source
    prior, P_t the target prior and Z(x) the sum over the classes. The layer has no trainable
    parameters: scale and bias are buffers.

    Parameters
    ----------
    source_prior : array-like of shape (K,)
        P_s, the class distribution the network was trained on.
    target_prior : "uniform" or array-like of shape (K,), default "uniform"
        P_t, the class distribution it is used on. A class of target prior 0 gets the
        log-posterior −inf.
    strength : float, default 1
        λ, as in :func:`reprior.rebalance`: T does not divide it.
    temperature : float, default 1
        T.
    kind : {"logits", "probs", "log_probs"}, default "logits"
        What the network outputs.
    class_axis : int, default -1
        The axis of the classes: 1 for (N, K, H, W).

    Attributes
    ----------
    scale : Tensor of shape (), or (K,) for a calibrator with ``temperature="vector"``
        1/T.
    bias : Tensor of shape (K,)
        λ·w, up to a constant.
    n_classes : int
        K.

    Notes
    -----
    For a fitted calibrator use :meth:`from_calibrator`. Where T is not 1, a calibrator's λ is not
    this layer's: its posterior is softmax((z + λ·w)/T), which is
    ``strength=cal.strength_ / cal.temperature_`` here. Passing ``strength_`` and ``temperature_``
    unchanged gives other decisions.

    For two classes, one score per sample is accepted, as in :func:`reprior.rebalance`; the result
    is then the log-posterior of class 1. 16-bit scores are computed in float32, under autocast
    too, and returned in their own dtype. The values of the scores are not checked: NaN in, NaN
    out.

    Scale and bias keep their precision when the network is cast: ``model.half()`` does not round
    them. Kind and class axis are part of the state dict; loading one with others is refused.

    Examples
    --------
    >>> import torch
    >>> from reprior.torch import Rebalance
    >>> correct = Rebalance([0.8, 0.2])
    >>> correct(torch.zeros(1, 2)).exp()
    tensor([[0.2000, 0.8000]])
    >>> network = torch.nn.Sequential(torch.nn.Linear(3, 2), correct)
    >>> network(torch.ones(5, 3)).shape
    torch.Size([5, 2])
    """

    scale: Tensor
    bias: Tensor

    def __init__(
        self,
        source_prior: Any,
        *,
        target_prior: Any = "uniform",
        strength: float = 1.0,
        temperature: float = 1.0,
        kind: str = "logits",
        class_axis: int = -1,
    ) -> None:
        super().__init__()
        self._hold(
            affine_of_prior(
                to_numpy(source_prior),
                target_prior=target_prior,
                strength=strength,
                temperature=temperature,
                kind=kind,
                class_axis=class_axis,
            )
        )

    @classmethod
    def from_calibrator(
        cls,
        calibrator: Any,
        *,
        class_axis: int | None = None,
        map: str | None = None,
    ) -> Rebalance:
        """Return a layer that computes a fitted calibrator's ``predict_log_proba``.

        Parameters
        ----------
        calibrator : PosteriorCalibrator
            A fitted or loaded calibrator.
        class_axis : int, optional
            The axis of the classes, if the network's differs from that of the tuning scores.
        map : {"decision", "probability"}, optional
            Which of its maps to use. Required for a calibrator with ``separate=True``.

        Examples
        --------
        >>> import torch
        >>> import reprior as rp
        >>> from reprior.torch import Rebalance
        >>> logits = torch.tensor([[2.0, 0.0], [0.4, 0.0], [0.0, 1.0]])
        >>> cal = rp.PosteriorCalibrator([0.8, 0.2]).fit(logits, torch.tensor([0, 1, 1]))
        >>> torch.equal(Rebalance.from_calibrator(cal)(logits).argmax(-1), cal.predict(logits))
        True
        """
        affine = affine_of(calibrator, map)
        module = cls.__new__(cls)
        nn.Module.__init__(module)
        module._hold(affine if class_axis is None else affine._replace(class_axis=class_axis))
        return module

    def forward(self, scores: Tensor) -> Tensor:
        """Return the log-posterior, of the scores' shape and dtype."""
        if not isinstance(scores, Tensor):
            raise _no_tensor(scores)
        axis, single = self._layout(scores)
        z = _widened(scores)
        if single and z.ndim == 1:
            z = z.unsqueeze(-1)
            axis = 1
        z = _log_scores(z, self.kind, axis, single)
        shape = [1] * z.ndim
        shape[axis] = self.n_classes
        bias = self.bias.to(z.dtype).reshape(shape)
        scale = self.scale.to(z.dtype)
        if scale.ndim:
            # An impossible class stays impossible, whatever its scale.
            gone = z == -math.inf
            scale = scale.reshape(shape)
            z = torch.where(gone, z, torch.where(gone, torch.zeros_like(z), z) * scale + bias)
        else:
            z = z * scale + bias
        result = torch.log_softmax(z, dim=axis)
        if single:
            result = result.select(axis, 1).reshape(scores.shape)
        return result if not scores.is_floating_point() else result.to(scores.dtype)

    def extra_repr(self) -> str:
        """Return what ``print(model)`` shows."""
        numbers = "" if self.scale.is_meta else f"{_numbers(self.scale, self.bias)}, "
        return (
            f"{self.n_classes} classes, {numbers}kind={self.kind!r}, class_axis={self.class_axis}"
        )

    def get_extra_state(self) -> Tensor:
        """Return kind and class axis as a tensor, which every file format can store."""
        return torch.tensor([KINDS.index(self.kind), self.class_axis])

    def set_extra_state(self, state: Tensor) -> None:
        """Do nothing: :meth:`load_state_dict` refuses another kind or class axis."""

    def _hold(self, affine: Affine) -> None:
        check_kind(affine.kind)
        axis = affine.class_axis
        if isinstance(axis, bool) or not isinstance(axis, int | np.integer):
            raise OptionError(
                argument="class_axis",
                rule="must be an integer",
                got=f"{axis!r}",
                remedy="Pass 1 for scores of shape (N, K, H, W), -1 where the classes come last.",
            )
        self.kind, self.class_axis, self.n_classes = affine.kind, int(axis), affine.bias.size
        self.register_buffer("scale", torch.tensor(affine.scale, dtype=torch.float64))
        self.register_buffer("bias", torch.tensor(affine.bias, dtype=torch.float64))

    def _layout(self, scores: Tensor) -> tuple[int, bool]:
        """Return the class axis counted from 0, and whether there is one score for two classes.

        It depends on the shape alone, so a traced graph holds nothing of it.
        """
        shape: Any = scores.shape
        if torch.jit.is_tracing():  # type: ignore[attr-defined,no-untyped-call] # untyped in torch
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # lengths become constants: these are
                shape = tuple(int(length) for length in shape)
        axis = resolve_class_axis(shape, self.n_classes, self.class_axis)
        return axis, is_single_score(shape, self.n_classes, axis)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Rebalance:
        """Move with the network to its device, but keep the dtype."""
        with exact_buffers(self):
            super()._apply(fn, recurse)  # type: ignore[no-untyped-call] # untyped in torch
        return self

    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, *arguments: Any
    ) -> None:
        state = state_dict.get(f"{prefix}_extra_state")
        if state is not None:
            kind = KINDS[int(state[0])]
            axis = int(state[1])
            if (kind, axis) != (self.kind, self.class_axis):
                raise OptionError(
                    argument="state_dict",
                    rule=[
                        "must be of a Rebalance with ",
                        Setting("kind", self.kind),
                        f" and class_axis={self.class_axis}, as this one has",
                    ],
                    got=[
                        Setting("kind", kind),
                        f" and class_axis={axis}",
                    ],
                    remedy="Make the module with these before loading.",
                )
        super()._load_from_state_dict(state_dict, prefix, *arguments)


def _numbers(scale: Tensor, bias: Tensor, n: int = 4) -> str:
    """Return the temperature, or the first few scales, and the first few biases as text."""

    def few(values: Tensor) -> str:
        shown = ", ".join(f"{value:.4g}" for value in values[:n].tolist())
        return f"[{shown}{', …' if values.numel() > n else ''}]"

    scaled = f"scale={few(scale)}" if scale.ndim else f"temperature={1.0 / float(scale):.4g}"
    return f"{scaled}, bias={few(bias)}"


def _no_tensor(scores: Any) -> ScoresError:
    """Return the error for an object that is no tensor, with what to pass instead."""
    got = type(scores).__name__
    remedy = "Pass torch.as_tensor(scores)."
    if isinstance(scores, Mapping):
        got = f"a {got} with keys {', '.join(map(repr, scores))}"
        remedy = "Pass the entry with the scores, such as output['logits']."
    elif isinstance(scores, tuple):
        got = f"a {got} of {len(scores)}"
        remedy = "Pass the entry with the scores, such as output[0]."
    elif isinstance(getattr(scores, "logits", None), Tensor):
        remedy = "Pass its scores, output.logits."
    return ScoresError(
        argument="scores",
        rule="must be a tensor",
        got=got,
        remedy=remedy,
    )


def _widened(scores: Tensor) -> Tensor:
    """Return scores in the dtype to compute in: float32 at least."""
    if scores.dtype in (torch.float32, torch.float64):
        return scores
    if scores.is_floating_point() or scores.device.type == "mps":
        return scores.float()
    return scores.double()


def _log_scores(z: Tensor, kind: str, axis: int, single: bool) -> Tensor:
    """Return log-scores with K entries on the class axis, as :func:`reprior.core.binary.expand`."""
    if not single:
        return z.log() if kind == "probs" else z
    if kind == "logits":
        return torch.cat([torch.zeros_like(z), z], dim=axis)
    if kind == "probs":
        return torch.cat([1.0 - z, z], dim=axis).log()
    near = (-torch.expm1(z)).log()
    far = torch.log1p(-z.exp())
    return torch.cat([torch.where(z > -math.log(2.0), near, far), z], dim=axis)


Vector: TypeAlias = np.ndarray[Any, Any]


class Affine(NamedTuple):
    """One scale, or one per class, a bias per class, and the kind of scores they apply to."""

    scale: float | Vector
    bias: Vector
    kind: str
    class_axis: int

    @property
    def scaled(self) -> bool:
        """Whether any scale differs from 1."""
        return bool(np.any(np.asarray(self.scale) != 1.0))


def affine_of(calibrator: Any, which: str | None = None) -> Affine:
    """Return the affine map of a fitted calibrator; refuse other objects.

    ``which`` of its maps, "decision" or "probability", is required where there are two.
    """
    if isinstance(calibrator, EntropyReference) or hasattr(calibrator, "flatten"):
        raise OptionError(
            argument="calibrator",
            rule="must do the same to every input",
            got=(
                f"{type(calibrator).__name__}, whose flattening depends on the input, so "
                "that no fixed scale and bias can stand for it"
            ),
            remedy=("Pass the PosteriorCalibrator of one model, and flatten and fuse outside it."),
        )
    if not hasattr(calibrator, "as_affine"):
        raise OptionError(
            argument="calibrator",
            rule="must be a fitted PosteriorCalibrator",
            got=type(calibrator).__name__,
            remedy="Pass the result of fit(…), fit_from_loader(…) or reprior.load(path).",
        )
    scale, bias = calibrator.as_affine(map=which)
    scale = float(scale) if np.ndim(scale) == 0 else scale
    return Affine(scale, bias, calibrator.kind, calibrator.class_axis)


def affine_of_prior(
    source_prior: Any,
    *,
    target_prior: Any,
    strength: float,
    temperature: float,
    kind: str,
    class_axis: int,
) -> Affine:
    """Return the affine map of ``log_rebalance`` with these options, which it checks.

    The bias is the log-posterior of equal scores: λ·w minus a constant, which the softmax cancels.
    """
    n_classes = np.size(source_prior) if np.ndim(source_prior) == 1 else 2
    bias = log_rebalance(
        np.zeros((1, n_classes)),
        source_prior,
        target_prior=target_prior,
        strength=strength,
        temperature=temperature,
    )
    return Affine(1.0 / float(temperature), bias[0], kind, class_axis)


@contextmanager
def exact_buffers(module: nn.Module) -> Iterator[None]:
    """Keep the values of a module's own buffers while torch casts or moves it.

    For use around ``super()._apply(fn)``: afterwards the buffers are where ``fn`` put them, with
    their old values, in float64 (float32 on devices without it). If ``fn`` fails, they are
    unchanged.

    Examples
    --------
    >>> import torch
    >>> from reprior.torch.rebalance import exact_buffers
    >>> module = torch.nn.Module()
    >>> module.register_buffer("third", torch.tensor(1 / 3, dtype=torch.float64))
    >>> with exact_buffers(module):
    ...     _ = module.half()
    >>> module.third
    tensor(0.3333, dtype=torch.float64)
    """
    kept = {name: value for name, value in module._buffers.items() if value is not None}
    try:
        for name, value in kept.items():
            setattr(module, name, value.float())  # some devices take no float64
        yield
    except BaseException:
        for name, value in kept.items():
            setattr(module, name, value)
        raise
    for name, value in kept.items():
        device = getattr(module, name).device
        if device.type == "meta" or value.device.type == "meta":
            continue
        exact = torch.float32 if device.type == "mps" else torch.float64
        setattr(module, name, value.to(device=device, dtype=exact))
