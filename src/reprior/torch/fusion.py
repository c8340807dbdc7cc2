"""A fitted fusion of modalities as a module, with or without its networks."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from reprior.core.binary import is_single_score, resolve_class_axis
from reprior.core.prior import slopes
from reprior.exceptions import Argument, NotFittedError, OptionError, ScoresError, Setting, quoted
from reprior.files import parse_json
from reprior.torch.loader import scores_in
from reprior.torch.rebalance import exact_buffers

__all__ = ["Layout", "ModalityFusion", "columns", "compute_dtype", "fused", "posterior_of"]


REFERENCES = ("entropy_mean", "entropy_std", "information_mean", "information_std")
"""Buffers with μ and σ of every modality, of what δ is made of."""


class ModalityFusion(nn.Module):
    r"""A module that returns the fused log-posterior of several modalities.

    .. math:: \log P(k|x) = \log \operatorname{fuse}_m P_m(k|x) - \log Z(x), \qquad
        P_m(k|x) ∝ \exp\bigl(δ_m(x)\,(z_{mk}(x) + λ_m w_k)\bigr)

    as :meth:`reprior.ModalityFusion.predict_log_proba` does, with the log-scores :math:`z_m` of
    modality m, its strength :math:`λ_m`, the slopes :math:`w_k = \log P_t(k) - \log P_s(k)`, the
    flattening :math:`δ_m(x)` and Z(x) the sum over the classes; with the order "flatten_first"
    it is :math:`P_m ∝ \exp(δ_m z_m + λ_m w)`. Its input are the modalities' scores, or what their
    networks take. Like :class:`Rebalance`, it returns the logarithm: ``.exp()`` gives the
    posterior, ``.argmax(class_axis)`` the decision.

    Parameters
    ----------
    fusion : reprior.ModalityFusion
        A fitted or loaded fusion.
    networks : {modality: torch.nn.Module}, optional
        A network for every modality, which computes its scores. Without them the module is
        called with scores.
    class_axis : int, optional
        The axis of the classes, if the networks' differs from that of the tuning scores.
    output_key : str, int or callable, optional
        Where the scores are in the networks' outputs, as in :func:`fit_from_loader`.

    Attributes
    ----------
    strengths : Tensor of shape (M,)
        λ of every modality.
    slopes : Tensor of shape (K,)
        w.
    entropy_mean, entropy_std, information_mean, information_std : Tensor of shape (M,)
        μ and σ of the entropy, or of the mutual information: those that δ uses.
    networks : torch.nn.ModuleDict
        The networks; empty if there are none.
    modalities : tuple of str
        The modalities, in the order of fusion.
    n_classes : int
        K.

    Notes
    -----
    The module has no trainable parameters of its own; gradients flow through it to the networks.
    16-bit scores are computed in float32, under autocast too, and returned in their own dtype.
    The buffers keep their precision when the module is cast. The values of the scores are not
    checked, so nothing is copied to the host: NaN in, NaN out. Two things that
    :class:`reprior.ModalityFusion` refuses are therefore not refused here: a sample for which the
    product rule leaves no class possible becomes NaN, and rows of kind="probs" or "log_probs"
    that do not sum to 1 are used as they are.

    With uncertainty="mutual_information" or "smaller" scores have a leading axis of passes:
    networks must return (passes, N, K, …), with dropout switched on.

    A modality that is missing, or None, is left out if the fusion has missing="leave_out".
    The options are part of the state dict; loading one of other options or modalities is refused.
    ``torch.compile``, ``torch.export`` and ``torch.jit.trace`` work, ``torch.jit.script`` does
    not; :func:`export_fusion` writes an ONNX file.

    Examples
    --------
    >>> import torch
    >>> import reprior as rp
    >>> from reprior.torch import ModalityFusion
    >>> rgb = torch.tensor([[3.0, 0.0], [2.0, 0.0], [1.2, 0.0], [0.0, 3.0]])
    >>> depth = torch.tensor([[2.0, 0.0], [3.0, 0.0], [0.5, 0.0], [0.0, 2.0]])
    >>> fusion = rp.ModalityFusion(rp.prior_from_counts([80, 20]))
    >>> fusion = fusion.fit({"rgb": rgb, "depth": depth}, torch.tensor([0, 0, 1, 1]))
    >>> module = ModalityFusion(fusion)
    >>> module({"rgb": rgb, "depth": depth}).argmax(1)
    tensor([0, 0, 1, 1])
    >>> networks = {"rgb": torch.nn.Linear(3, 2), "depth": torch.nn.Linear(1, 2)}
    >>> module = ModalityFusion(fusion, networks)
    >>> module({"rgb": torch.ones(5, 3), "depth": torch.ones(5, 1)}).shape
    torch.Size([5, 2])
    """

    strengths: Tensor
    slopes: Tensor

    def __init__(
        self,
        fusion: Any,
        networks: Mapping[str, nn.Module] | None = None,
        *,
        class_axis: int | None = None,
        output_key: str | int | Callable[[Any], Any] | None = None,
    ) -> None:
        super().__init__()
        _check_fusion(fusion)
        self.modalities: tuple[str, ...] = tuple(fusion.modalities_)
        self.rule = fusion.rule
        self.order = fusion.order
        self.kind = fusion.kind
        self.flatten_by = fusion.flatten_by
        self.missing = fusion.missing
        self.uncertainty = fusion.uncertainty
        self.class_axis = _axis(fusion.class_axis if class_axis is None else class_axis)
        self.n_classes = int(fusion.source_prior_.size)
        self.output_key = output_key
        self.networks = _module_dict(networks, self.modalities)
        self._hold(fusion)

    @property
    def passes(self) -> bool:
        """Whether scores have a leading axis of passes."""
        return bool(self.uncertainty != "entropy")

    @property
    def flattens(self) -> bool:
        """Whether there is a δ."""
        return any(getattr(self, name) is not None for name in REFERENCES)

    def forward(self, scores: Mapping[str, Any]) -> Tensor:
        """Return the log-posterior, of the shape and dtype of one modality's scores.

        Parameters
        ----------
        scores : {modality: Tensor}
            The scores; with networks, the input of each network: a tensor, or a tuple of them.
        """
        there = self._scores(scores)
        layout = self._layout(there)
        given = list(there.values())
        dtype = compute_dtype(given)
        log_posteriors = [
            posterior_of(self, self.modalities.index(name), columns(z.to(dtype), layout), layout)
            for name, z in there.items()
        ]
        result = fused(log_posteriors, self.rule, layout.axis)
        if layout.single:
            result = result.narrow(layout.axis, 1, 1)
            result = result.squeeze(-1) if len(layout.shape) == 1 else result
        wanted = given[0].dtype
        for z in given[1:]:
            wanted = torch.promote_types(wanted, z.dtype)
        return result.to(wanted) if wanted.is_floating_point else result

    def shift(self, m: int, dtype: torch.dtype) -> Tensor:
        """Return λ·w of a modality; 0 where λ is 0, even for a class of target prior 0."""
        strength = self.strengths[m]
        moved = strength * self.slopes
        return torch.where(strength == 0, torch.zeros_like(moved), moved).to(dtype)

    def reference(self, measure: str, m: int) -> tuple[Tensor, Tensor] | None:
        """Return μ and μ + σ of a modality's "entropy" or "information"; None if δ has no such."""
        mean = getattr(self, f"{measure}_mean")
        if mean is None:
            return None
        return mean[m], mean[m] + getattr(self, f"{measure}_std")[m]

    def extra_repr(self) -> str:
        """Return what ``print(model)`` shows."""
        names = ", ".join(self.modalities)
        flattened = self.order if self.flattens else "not flattened"
        return (
            f"{names}; {self.n_classes} classes, rule={self.rule!r}, {flattened}, "
            f"kind={self.kind!r}, class_axis={self.class_axis}"
        )

    def get_extra_state(self) -> Tensor:
        """Return modalities and options as JSON bytes in a tensor, which every format stores."""
        text = json.dumps(self._options, ensure_ascii=False)
        return torch.tensor(list(text.encode()), dtype=torch.uint8)

    def set_extra_state(self, state: Tensor) -> None:
        """Do nothing: :meth:`load_state_dict` refuses other modalities or options."""

    # -------------------------------------------------------------------------------------- inside

    @property
    def _options(self) -> dict[str, Any]:
        """Return the options that the buffers do not hold; without ``missing``, the caller's."""
        return {
            "modalities": list(self.modalities),
            "rule": self.rule,
            "order": self.order,
            "flatten": self.flattens,
            "flatten_by": self.flatten_by,
            "uncertainty": self.uncertainty,
            "kind": self.kind,
            "class_axis": self.class_axis,
        }

    def _hold(self, fusion: Any) -> None:
        def column(values: Sequence[float] | np.ndarray[Any, Any]) -> Tensor:
            return torch.tensor(np.asarray(values), dtype=torch.float64)

        names = self.modalities
        weights = slopes(fusion.source_prior_, fusion.target_prior_)
        self.register_buffer("strengths", column([fusion.strengths_[name] for name in names]))
        self.register_buffer("slopes", column(weights))
        measures = {
            "entropy": fusion.references_,
            "information": fusion.information_references_,
        }
        for measure, known in measures.items():
            for part in ("mean", "std"):
                buffer = None
                if known:
                    buffer = column([getattr(known[name], part) for name in names])
                self.register_buffer(f"{measure}_{part}", buffer)

    def _named(self, scores: Any) -> dict[str, Any]:
        """Return the given modalities in the order of fusion; refuse unknown and missing ones."""
        what = "inputs" if self.networks else "scores"
        known = ", ".join(map(repr, self.modalities))
        if not isinstance(scores, Mapping):
            raise ScoresError(
                argument="scores",
                rule=f"must be a mapping from modality to {what}",
                got=type(scores).__name__,
                remedy=f"Pass {{{self.modalities[0]!r}: …}}.",
            )
        unknown = [name for name in scores if name not in self.modalities]
        if unknown:
            raise ScoresError(
                argument="scores",
                rule=f"must be of the modalities that were fitted, {known}",
                got=f"{unknown[0]!r}",
                remedy="Leave it out, or fit again with it.",
            )
        given = {n: scores[n] for n in self.modalities if scores.get(n) is not None}
        absent = [name for name in self.modalities if name not in given]
        if absent and (self.missing == "error" or not given):
            raise ScoresError(
                argument="scores",
                rule=f"must have {what} of every modality, {known}",
                got=f"none for {absent[0]!r}",
                remedy=[
                    "Pass them, or fuse what is there with ",
                    Setting("missing", "leave_out"),
                    ".",
                ],
            )
        return given

    def _scores(self, scores: Any) -> dict[str, Any]:
        """Return the scores of the given modalities: of the networks, or as they were given."""
        given = self._named(scores)
        if not self.networks:
            return given
        return {name: scores_in(self._run(name, z), self.output_key) for name, z in given.items()}

    def _run(self, name: str, given: Any) -> Any:
        network = self.networks[name]
        return network(*given) if isinstance(given, tuple) else network(given)

    def _layout(self, given: Mapping[str, Any]) -> Layout:
        """Return the axes of classes and images; from shapes alone, so a graph holds none of it."""
        shapes = {name: _shape(name, z) for name, z in given.items()}
        if self.passes:
            shapes = {name: _without_passes(name, shape) for name, shape in shapes.items()}
        (first, shape), *others = shapes.items()
        for name, other in others:
            if other != shape:
                raise ScoresError(
                    argument="scores",
                    rule="must have one shape, with the same classes",
                    got=f"{shape} for {first!r} and {other} for {name!r}",
                    remedy="Resize or align them before fusing.",
                )
        if len(shape) == 1 and self.n_classes != 2:
            raise ScoresError(
                argument="scores",
                rule="must have an axis of images and one of classes",
                got=f"shape {shape}",
                remedy="Pass shape (1, K) for one sample.",
            )
        axis = resolve_class_axis(shape, self.n_classes, self.class_axis)
        single = is_single_score(shape, self.n_classes, axis)
        where = 1 if len(shape) == 1 else axis
        return Layout(shape, where, single, self.kind, 1 if self.passes else 0)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> ModalityFusion:
        """Move with the networks to their device, but keep the dtype."""
        with exact_buffers(self):
            super()._apply(fn, recurse)  # type: ignore[no-untyped-call] # untyped in torch
        return self

    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, *arguments: Any
    ) -> None:
        state = state_dict.get(f"{prefix}_extra_state")
        if state is not None:
            theirs = _read_options(state)
            for name, mine in self._options.items():
                if theirs.get(name) != mine:
                    raise OptionError(
                        argument="state_dict",
                        rule=f"must be of a ModalityFusion with {name}={mine!r}, as this one has",
                        got=f"{theirs.get(name)!r}",
                        remedy="Make the module from that fusion before loading.",
                    )
        super()._load_from_state_dict(state_dict, prefix, *arguments)


def _read_options(state: Any) -> dict[str, Any]:
    """Return the options in the extra state of a state dict, which may come from anywhere."""
    try:
        options = parse_json(state.cpu().numpy().astype(np.uint8, casting="equiv").tobytes())
        if not isinstance(options, dict):
            raise TypeError(type(options).__name__)
    except (AttributeError, TypeError, ValueError) as error:
        raise OptionError(
            argument="state_dict",
            rule="must have the options of a ModalityFusion as its extra state, in JSON",
            got=quoted(error, typed=True),
            remedy="Save it again with module.state_dict().",
        ) from error
    return options


def _check_fusion(fusion: Any) -> None:
    if not all(hasattr(fusion, name) for name in ("flatten_by", "missing", "predict_log_proba")):
        raise OptionError(
            argument="fusion",
            rule="must be a fitted reprior.ModalityFusion",
            got=type(fusion).__name__,
            remedy="Pass the result of fit(…) or reprior.load(path).",
        )
    if not hasattr(fusion, "strengths_"):
        raise NotFittedError(
            argument="fusion",
            rule="must be fitted",
            remedy="It is not. Call fit({name: scores}, labels), or reprior.load(path), first.",
        )


def _axis(axis: Any) -> int:
    if isinstance(axis, bool) or not isinstance(axis, int | np.integer):
        raise OptionError(
            argument="class_axis",
            rule="must be an integer",
            got=f"{axis!r}",
            remedy="Pass 1 for scores of shape (N, K, H, W), -1 where the classes come last.",
        )
    return int(axis)


def _module_dict(networks: Any, modalities: Sequence[str]) -> nn.ModuleDict:
    """Return the networks by name, one for every modality."""
    if networks is None:
        return nn.ModuleDict()
    if not isinstance(networks, Mapping) or set(networks) != set(modalities):
        got = ", ".join(map(repr, networks)) if isinstance(networks, Mapping) else networks
        raise OptionError(
            argument="networks",
            rule=(
                "must be a mapping with one network for every modality, "
                f"{', '.join(map(repr, modalities))}"
            ),
            got=f"{got or 'none'}",
            remedy="Name them as in the fusion.",
        )
    modules = nn.ModuleDict()
    for name in modalities:
        if not isinstance(networks[name], nn.Module):
            raise OptionError(
                argument=Argument("networks", (repr(name),)),
                rule="must be a torch.nn.Module",
                got=type(networks[name]).__name__,
                remedy="Pass the network itself.",
            )
        try:
            modules[name] = networks[name]
        except KeyError as error:
            raise OptionError(
                f"A modality with a network must have a name that torch takes for a module, a word "
                f"without dots. Got {name!r}. Rename it in the fit, or fuse scores without "
                f"networks."
            ) from error
    return modules


def _shape(name: str, z: Any) -> tuple[int, ...]:
    """Return the lengths of a tensor; while tracing as integers, since they become constants."""
    if not isinstance(z, Tensor):
        raise ScoresError(
            argument=Argument("scores", (repr(name),)),
            rule="must be a tensor",
            got=type(z).__name__,
            remedy="Pass torch.as_tensor(scores).",
        )
    if not torch.jit.is_tracing():  # type: ignore[attr-defined,no-untyped-call] # untyped in torch
        return tuple(z.shape)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return tuple(int(length) for length in z.shape)


def _without_passes(name: str, shape: tuple[int, ...]) -> tuple[int, ...]:
    if len(shape) < 3:
        raise ScoresError(
            argument="scores",
            rule="must have a leading axis of passes where the uncertainty is not 'entropy'",
            got=f"shape {shape} for {name!r}",
            remedy="Pass (passes, N, K, …).",
        )
    return shape[1:]


class Layout(NamedTuple):
    """How scores lie."""

    shape: tuple[int, ...]
    """The shape of one pass as given, which is that of the result."""
    axis: int
    """The class axis of one pass, counted with all K classes."""
    single: bool
    """Whether there is one score for two classes."""
    kind: str
    passes: int
    """Leading axes of passes, 0 or 1."""


def compute_dtype(given: Sequence[Tensor]) -> torch.dtype:
    """Return the dtype to compute in: at least float32; float64 for float64 and integers."""
    wide = torch.float32
    for z in given:
        exact = z.dtype == torch.float64 or not z.is_floating_point()
        if exact and z.device.type != "mps":  # which has no float64
            wide = torch.float64
    return wide


def columns(z: Tensor, layout: Layout) -> Tensor:
    """Return log-scores with K entries on the class axis.

    Rows of "probs" and "log_probs" that do not sum to 1 are used as they are, where
    :mod:`reprior.fusion` raises: they act like rows divided by their sum.
    """
    axis = layout.axis + layout.passes
    if not layout.single:
        return _log(z) if layout.kind == "probs" else z
    if len(layout.shape) == 1:
        z = z.unsqueeze(-1)
    if layout.kind == "logits":
        return torch.cat([torch.zeros_like(z), z], dim=axis)
    if layout.kind == "probs":
        return _log(torch.cat([1.0 - z, z], dim=axis))
    near = (-torch.expm1(z)).log()
    far = torch.log1p(-z.exp())
    return torch.cat([torch.where(z > -math.log(2.0), near, far), z], dim=axis)


def posterior_of(module: Any, m: int, log_z: Tensor, layout: Layout) -> Tensor:
    """Return the log-posterior of one modality, flattened and rebalanced in the module's order."""
    axis = layout.axis
    log_z, entropy, information = _read(log_z, layout, module)
    delta = None
    for measure, value in (("entropy", entropy), ("information", information)):
        known = module.reference(measure, m)
        if known is not None and value is not None:
            ratio = _ratio(value, *(each.to(value.dtype) for each in known))
            delta = ratio if delta is None else torch.minimum(delta, ratio)
    shape = [1] * log_z.ndim
    shape[axis] = -1
    shift = module.shift(m, log_z.dtype).reshape(shape)
    if delta is None:
        return torch.log_softmax(log_z + shift, dim=axis)
    if module.order == "rebalance_first":
        return torch.log_softmax(_scaled(log_z + shift, delta), dim=axis)
    return torch.log_softmax(_scaled(log_z, delta) + shift, dim=axis)


def fused(log_posteriors: Sequence[Tensor], rule: str, axis: int) -> Tensor:
    """Fuse the log-posteriors of the modalities into one.

    Under "product" a sample whose every class is impossible for some modality has no posterior:
    it becomes NaN, where :mod:`reprior.fusion` raises, because no value is checked here.
    """
    if len(log_posteriors) == 1:
        return log_posteriors[0]
    total = log_posteriors[0]
    for part in log_posteriors[1:]:
        if rule == "product":
            total = total + part
        elif rule == "mean":
            total = _log_add(total, part)
        else:
            # log(q + p·(1 − q)): as exact as log p and log q, however small they are.
            total = _log_add(total, part + _log_rest(total))
    return torch.log_softmax(total, dim=axis)


def _read(
    log_z: Tensor, layout: Layout, module: Any
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """Return log-scores of one pass, their entropy, and mutual information of class and pass."""
    axis = layout.axis
    by_pixel = module.flatten_by == "pixel"
    if not layout.passes:
        if not module.flattens:
            return log_z, None, None
        entropy = _entropy(torch.log_softmax(log_z, dim=axis), axis)
        return log_z, _mean(entropy, axis, by_pixel), None
    each = torch.log_softmax(log_z, dim=axis + 1)
    log_mean = _log_sum_exp(each) - math.log(each.shape[0])
    if not module.flattens:
        return log_mean, None, None
    whole = _mean(_entropy(log_mean, axis), axis, by_pixel)
    of_passes = _mean(_entropy(each, axis + 1).mean(dim=0), axis, by_pixel)
    # At least 0 but for rounding, since entropy is concave.
    return log_mean, whole, torch.clamp_min(whole - of_passes, 0.0)


def _entropy(log_p: Tensor, axis: int) -> Tensor:
    """Return −Σ p log p with 0·log 0 = 0, replaced before the product for a finite gradient."""
    p = log_p.exp()
    finite = torch.where(p > 0, log_p, torch.zeros_like(log_p))
    return -(p * finite).sum(dim=axis, keepdim=True)


def _mean(per_pixel: Tensor, axis: int, by_pixel: bool) -> Tensor:
    """Average over the pixels of an image, unless each pixel has its own δ.

    One axis after the other: a runtime that sums float32 sequentially then sums hundreds of
    numbers, not a hundred thousand.
    """
    if by_pixel:
        return per_pixel
    image = 1 if axis == 0 else 0
    for dim in reversed(range(per_pixel.ndim)):
        if dim not in (axis, image):
            per_pixel = per_pixel.mean(dim=dim, keepdim=True)
    return per_pixel


def _ratio(value: Tensor, mean: Tensor, limit: Tensor) -> Tensor:
    """Return δ = μ / (μ + max(0, H − (μ + σ))), which is exactly 1 where H is at most μ + σ."""
    return mean / (mean + torch.clamp_min(value - limit, 0.0))


def _scaled(log_z: Tensor, delta: Tensor) -> Tensor:
    """Return δ·z and keep −inf: its product with the gradient of δ would be NaN."""
    gone = torch.isneginf(log_z)
    return torch.where(gone, log_z, torch.where(gone, torch.zeros_like(log_z), log_z) * delta)


def _log(p: Tensor) -> Tensor:
    """Return log p without the NaN in the gradient at 0."""
    zero = p == 0
    log_p = torch.where(zero, torch.ones_like(p), p).log()
    return torch.where(zero, torch.full_like(p, -math.inf), log_p)


def _log_rest(log_q: Tensor) -> Tensor:
    """Return log(1 − q), −inf where q is 1, without the infinite gradient there."""
    sure = log_q >= 0
    rest = torch.log1p(-torch.where(sure, torch.full_like(log_q, -1.0), log_q).exp())
    return torch.where(sure, torch.full_like(log_q, -math.inf), rest)


def _log_add(a: Tensor, b: Tensor) -> Tensor:
    """Return log(exp a + exp b), −inf where both are −inf, without a NaN in the gradient there."""
    gone = torch.isneginf(torch.maximum(a, b))
    zero = torch.zeros_like(a)
    total = torch.logaddexp(torch.where(gone, zero, a), torch.where(gone, zero, b))
    return torch.where(gone, a, total)


def _log_sum_exp(each: Tensor) -> Tensor:
    """Return log-sum-exp over passes, −inf where all are −inf, without a NaN in the gradient."""
    gone = torch.isneginf(each).all(dim=0, keepdim=True)
    total = torch.logsumexp(torch.where(gone, torch.zeros_like(each), each), dim=0)
    return torch.where(gone.squeeze(0), torch.full_like(total, -math.inf), total)
