"""{name: scores} of several modalities, checked, with views in the layout of the passes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, TypeAlias

import numpy as np

from reprior.calibrator.encoding import score_array
from reprior.core.arrays import (
    Array,
    Namespace,
    is_floating,
    is_traced,
    namespace,
    to_numpy,
)
from reprior.core.binary import expand, expanded_axis, is_single_score, resolve_class_axis
from reprior.core.checks import first_index
from reprior.core.logspace import (
    are_distributions,
    as_scores,
    excluded_row,
    refuse_scores,
    row_element,
    sum_tolerance,
)
from reprior.exceptions import OptionError, ScoresError, Setting
from reprior.fusion.fused import Recipe

__all__ = ["Inputs", "images_axis", "named_scores", "read_inputs"]

Vector: TypeAlias = np.ndarray[Any, Any]


def images_axis(class_axis: int) -> int:
    """Return the axis of the images: the first that is not the class axis.

    Examples
    --------
    >>> images_axis(0), images_axis(1)
    (1, 0)
    """
    return 1 if class_axis == 0 else 0


@dataclass(frozen=True, eq=False)
class Inputs:
    """Scores of one shape and library, by modality."""

    given: dict[str, Array]
    """The scores as passed; errors name these."""
    arrays: dict[str, Array]
    """The scores with K classes on the class axis."""
    axis: int
    """The class axis in one pass of ``arrays``."""
    shape: tuple[int, ...]
    """The shape of one pass as given, which is that of the result."""
    kind: str
    passes: bool
    xp: Namespace

    @property
    def single(self) -> bool:
        """Whether there is one score per sample, that of class 1."""
        first = next(iter(self.given))
        return self.given[first] is not self.arrays[first]

    @property
    def labels_shape(self) -> tuple[int, ...]:
        """The shape of labels and predictions: images first, then pixels."""
        if len(self.shape) == 1:
            return self.shape
        return tuple(n for i, n in enumerate(self.shape) if i != self.axis)

    @property
    def columns_shape(self) -> tuple[int, ...]:
        """The shape of one pass with all classes."""
        return tuple(next(iter(self.arrays.values())).shape)[1 if self.passes else 0 :]

    @property
    def dtype(self) -> Any:
        """The dtype of the result, on the host, in which decisions are made."""
        hosts = [to_numpy(z[:0]).dtype for z in self.given.values()]
        dtype = np.result_type(*hosts)
        return dtype if is_floating(dtype) else np.dtype(np.float64)

    @property
    def tolerances(self) -> tuple[float, ...]:
        """How far the sum of a row of probabilities may be from 1, per modality."""
        n_classes = self.columns_shape[self.axis]
        return tuple(sum_tolerance(z.dtype, self.kind, n_classes) for z in self.given.values())

    def images_first(self) -> tuple[Array, ...]:
        """Return views (images, K, pixels …), after the axis of passes if there is one."""
        lead = 1 if self.passes else 0
        source = (images_axis(self.axis) + lead, self.axis + lead)
        return tuple(self.xp.moveaxis(z, source, (lead, lead + 1)) for z in self.arrays.values())

    def view(self, columns: Array) -> Array:
        """Return this view of an array with the shape of one pass."""
        return self.xp.moveaxis(columns, (images_axis(self.axis), self.axis), (0, 1))

    def look_like_probabilities(self) -> bool:
        """Tell whether the logits of a modality all lie in [0, 1] and sum to 1 per row."""
        if self.kind != "logits" or self.single:
            return False
        axis = self.axis + (1 if self.passes else 0)
        return any(_are_probabilities(z, axis, self.xp) for z in self.arrays.values())

    def as_given(self, result: Array) -> Array:
        """Move the axes of (images, K, pixels …) to where the user has them."""
        return self.xp.moveaxis(result, (0, 1), (images_axis(self.axis), self.axis))

    def refuse(
        self, modality: int | None, recipe: Recipe, left_out: Vector | None = None
    ) -> NoReturn:
        """Raise the reason why a row has no posterior.

        ``modality`` is None where it is not known which one it is. ``left_out`` (of the labels'
        shape) marks what was not checked.
        """
        for i, name in enumerate(self.given):
            if modality in (None, i):
                self._refuse_one(name, recipe, left_out)
        raise ScoresError(
            argument="scores",
            rule=[
                "must leave some class possible in every row under ",
                Setting("rule", "product"),
            ],
            got="a row in which every class has probability 0 in one of the modalities",
            remedy=[
                "Pass ",
                Setting("rule", "noisy_or"),
                " or 'mean'.",
            ],
        )

    def _refuse_one(self, name: str, recipe: Recipe, left_out: Vector | None) -> None:
        host = to_numpy(self.arrays[name])
        axis = self.axis + (1 if self.passes else 0)
        if left_out is not None:
            even = 1 / host.shape[axis]
            harmless = {"logits": 0.0, "probs": even, "log_probs": np.log(even)}[self.kind]
            host = np.where(np.expand_dims(left_out, self.axis), harmless, host)
        called = f"scores[{name!r}]"
        tolerance = sum_tolerance(self.given[name].dtype, self.kind, host.shape[axis])
        refuse_scores(host, self.kind, axis=axis, tolerance=tolerance, name=called)
        gone = host <= 0 if self.kind == "probs" else np.isneginf(host.astype(np.float64))
        trailing = (1,) * (host.ndim - 1 - axis)
        removed = np.all(gone | np.isneginf(recipe.slopes).reshape(-1, *trailing), axis=axis)
        if removed.any():
            raise excluded_row(row_element(first_index(removed), host.ndim, axis, called))


def named_scores(
    scores: Any,
    modalities: Sequence[str] | None = None,
    *,
    missing: str = "error",
    fitting: bool = False,
) -> dict[str, Any]:
    """Return the modalities in the order of ``modalities``, or as given; refuse wrong ones.

    A fit needs all of them in every chunk, whatever ``missing`` allows in predictions.
    """
    if not isinstance(scores, Mapping):
        raise ScoresError(
            argument="scores",
            rule="must be a mapping from modality to scores",
            got=type(scores).__name__,
            remedy="Pass for example {'rgb': rgb_scores, 'depth': depth_scores}.",
        )
    for name in scores:
        if not isinstance(name, str) or not name:
            raise OptionError(
                argument="scores",
                rule="must name its modalities by words",
                got=f"{name!r}",
                remedy="Pass for example {'rgb': rgb_scores}.",
            )
    there = {name: z for name, z in scores.items() if z is not None}
    known = list(there) if modalities is None else list(modalities)
    unknown = [name for name in scores if name not in known]
    if unknown and modalities is not None:
        raise ScoresError(
            argument="scores",
            rule=f"must be of the modalities that were fitted, {_listed(known)}",
            got=f"{unknown[0]!r}",
            remedy="Leave it out, or fit again with it.",
        )
    if not there:
        raise ScoresError(
            argument="scores",
            rule="must hold the scores of at least one modality",
            got="none",
            remedy="Pass for example {'rgb': rgb_scores}.",
        )
    absent = [name for name in known if name not in there]
    if missing == "error" and (absent or (modalities is None and len(there) < len(scores))):
        gone = absent or [name for name in scores if name not in there]
        if fitting:
            raise ScoresError(
                argument="scores",
                rule=f"must have every modality to be fitted on, {_listed(known + gone)}",
                got=f"none for {gone[0]!r}",
                remedy=[
                    "Pass its scores, or leave its name out to fit without it: ",
                    Setting("missing", "leave_out"),
                    " is for predicting.",
                ],
            )
        raise ScoresError(
            argument="scores",
            rule=f"must have every modality that was fitted, {_listed(known + gone)}",
            got=f"none for {gone[0]!r}",
            remedy=[
                "Pass its scores, or fuse what is there with ",
                Setting("missing", "leave_out"),
                ".",
            ],
        )
    return {name: there[name] for name in known if name in there}


def read_inputs(
    scores: Mapping[str, Any],
    *,
    n_classes: int,
    kind: str,
    class_axis: int,
    passes: bool,
    classes: Vector | None = None,
    beside: Sequence[Any] = (),
) -> Inputs:
    """Check everything but the values, which the passes check.

    ``beside`` are the labels and weights, which must be of the same library.
    """
    values = {name: score_array(z, classes) for name, z in scores.items()}
    xp = namespace(*values.values(), *beside)
    given = {name: as_scores(z, xp, name=f"scores[{name!r}]") for name, z in values.items()}
    shape = _one_pass(given) if passes else _common_shape(given)
    if len(shape) == 1 and n_classes != 2:
        raise ScoresError(
            argument="scores",
            rule="must have an axis of images and one of classes",
            got=f"shape {shape}",
            remedy="Pass shape (1, K) for one sample.",
        )
    axis = resolve_class_axis(shape, n_classes, class_axis)
    if not is_single_score(shape, n_classes, axis):
        return Inputs(given, given, axis, shape, kind, passes, xp)
    lead = 1 if passes else 0
    where = expanded_axis(len(shape), axis)
    arrays = {}
    for name, z in given.items():
        z = z[..., None] if len(shape) == 1 else z
        arrays[name] = expand(z, kind, xp=xp, class_axis=where + lead, name=f"scores[{name!r}]")
    return Inputs(given, arrays, where, shape, kind, passes, xp)


def _are_probabilities(z: Array, axis: int, xp: Namespace) -> bool:
    if is_traced(z):
        return False
    # The first row decides nearly every case, without a pass over the rest.
    first = z[tuple(slice(None) if i == axis else 0 for i in range(z.ndim))]
    return are_distributions(first, 0, xp) and are_distributions(z, axis, xp)


def _common_shape(given: Mapping[str, Array]) -> tuple[int, ...]:
    return _same({name: tuple(z.shape) for name, z in given.items()})


def _one_pass(given: Mapping[str, Array]) -> tuple[int, ...]:
    """Return the shape after the axis of passes, whose length may differ between modalities."""
    for name, z in given.items():
        if z.ndim < 3:
            raise ScoresError(
                argument="scores",
                rule="must have a leading axis of passes where the uncertainty is not 'entropy'",
                got=f"shape {tuple(z.shape)} for {name!r}",
                remedy=[
                    "Pass (passes, N, K, …), or ",
                    Setting("uncertainty", "entropy"),
                    ".",
                ],
            )
    return _same({name: tuple(z.shape)[1:] for name, z in given.items()})


def _same(shapes: Mapping[str, tuple[int, ...]]) -> tuple[int, ...]:
    (first, shape), *others = shapes.items()
    for name, other in others:
        if other != shape:
            raise ScoresError(
                argument="scores",
                rule="must have one shape, with the same classes",
                got=f"{shape} for {first!r} and {other} for {name!r}",
                remedy="Resize or align them before fusing.",
            )
    return shape


def _listed(names: Sequence[str]) -> str:
    return ", ".join(repr(name) for name in dict.fromkeys(names))
