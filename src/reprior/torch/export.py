"""Export a fusion as one ONNX file with an input per modality, and compare it with NumPy."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from reprior.core.flatten import EntropyReference
from reprior.exceptions import (
    Argument,
    FoldError,
    MissingDependencyError,
    OptionError,
    ScoresError,
    Setting,
    quoted,
    require,
)
from reprior.files.atomic import atomic_paths
from reprior.fusion.blocks import posterior
from reprior.fusion.fused import Recipe, References
from reprior.fusion.named_scores import read_inputs
from reprior.torch.folding import TOLERANCES
from reprior.torch.fusion import ModalityFusion
from reprior.torch.loader import evaluating

__all__ = ["Exported", "export_fusion"]

Vector: TypeAlias = np.ndarray[Any, Any]
Axes: TypeAlias = dict[int, str]

OUTPUT = "log_posterior"

LARGE = 1_500_000_000
"""From this many bytes on, weights go to a separate file: a protobuf message holds 2 GB."""


@dataclass(frozen=True)
class Exported:
    """The files that were written, and how they compare with NumPy.

    Attributes
    ----------
    paths : tuple of str
        The model file, and the file of its weights if there is one.
    inputs : tuple of str
        The inputs of the graph, one per modality. Its output is ``log_posterior``.
    samples : int or None
        Samples (pixels, for maps) that were compared; None with ``verify=False``.
    posterior_error : float or None
        The largest difference of a posterior from the one NumPy computes in double precision.
    """

    paths: tuple[str, ...]
    inputs: tuple[str, ...]
    samples: int | None = None
    posterior_error: float | None = None


def export_fusion(
    module: ModalityFusion,
    inputs: Mapping[str, Tensor],
    path: str | os.PathLike[str],
    *,
    dynamic_axes: Mapping[int, str] | Mapping[str, Mapping[int, str]] | None = None,
    tolerance: float | None = None,
    verify: bool = True,
) -> Exported:
    """Write a fusion, with its networks inside, as one ONNX graph with an input per modality.

    The output ``log_posterior`` is that of :class:`ModalityFusion`. Before the file is written
    under its name, it runs in ONNX Runtime on ``inputs`` and on their first sample alone; it is
    refused unless its posteriors equal those that NumPy computes from the networks' scores.

    Parameters
    ----------
    module : ModalityFusion
        With networks or without; it is exported in evaluation mode, and keeps its own mode.
    inputs : {modality: Tensor}
        A batch of at least two samples: scores, or with networks their inputs. A modality that
        is left out here, if the module allows it, is no input of the graph.
    path : path
        The file to write. Weights of 1.5 GB and more go to a second file, ``path`` with the
        suffix ``.data``.
    dynamic_axes : {axis: name} or {modality: {axis: name}}, optional
        Axes of the inputs that may have any length when the graph runs; the same name means the
        same length. By default the sample axis, ``{0: "batch"}``; for networks that take images
        of any size ``{0: "batch", 2: "height", 3: "width"}``.
    tolerance : float, optional
        By how much posteriors may differ. By default rounding in the scores' dtype: 1e-5 for
        float32.
    verify : bool, default True
        Whether to compare, which needs onnxruntime.

    Returns
    -------
    Exported
        The files, and their largest difference from NumPy.

    Notes
    -----
    Needs onnx and onnxscript, and the exporter of PyTorch 2.7 or later. NumPy has no bfloat16: a
    fusion with bfloat16 inputs or outputs can only be written with ``verify=False``.

    Examples
    --------
    A file that takes the scores of two networks, of any batch and image size, is written by::

        export_fusion(
            ModalityFusion(fusion),
            {"rgb": rgb_scores, "depth": depth_scores},
            "fusion.onnx",
            dynamic_axes={0: "batch", 2: "height", 3: "width"},
        )
    """
    _require(verify)
    given = _checked(module, inputs)
    if verify:
        _refuse_unknown_to_numpy(given, "`inputs`")
    free = _free_axes(module, given, dynamic_axes)
    with evaluating(module), torch.no_grad():
        program = _exported(module, given, free)
        large = sum(t.nbytes for t in (*module.parameters(), *module.buffers())) >= LARGE
        target = os.fspath(path)
        targets = (target, f"{target}.data") if large else (target,)
        with atomic_paths(*targets) as fresh:
            program.save(str(fresh[0]), external_data=large)
            made = Exported(targets, tuple(given))
            if verify:
                made = _compared(module, given, free, str(fresh[0]), made, tolerance)
            if large:  # written beside the first
                (fresh[0].parent / fresh[1].name).rename(fresh[1])
    return made


# ------------------------------------------------------------------------------------------ export


def _require(verify: bool) -> None:
    if not find_spec("onnx") or not find_spec("onnxscript"):
        raise MissingDependencyError(
            "To export a fusion, onnx and onnxscript must be installed. They are not. Run: "
            "pip install 'reprior[torch,onnx]' onnxscript"
        )
    if verify:
        require("onnxruntime", extra="onnx", purpose="To compare an exported fusion")


def _checked(module: Any, inputs: Any) -> dict[str, Tensor]:
    if not isinstance(module, ModalityFusion):
        raise OptionError(
            argument="module",
            rule="must be a reprior.torch.ModalityFusion",
            got=type(module).__name__,
            remedy="Pass ModalityFusion(fusion, networks).",
        )
    given: dict[str, Tensor] = module._named(inputs)
    if OUTPUT in given:
        raise OptionError(
            f"The modalities must not be called {OUTPUT!r}, as the output of the graph is. Got "
            f"{', '.join(map(repr, given))}. Rename it in the fit."
        )
    for name, value in given.items():
        if not isinstance(value, Tensor):
            raise ScoresError(
                argument=Argument("inputs", (repr(name),)),
                rule="must be a tensor",
                got=type(value).__name__,
                remedy=(
                    "Pass torch.as_tensor(…); a network of several inputs needs a module around it."
                ),
            )
    return given


def _refuse_unknown_to_numpy(tensors: Mapping[str, Tensor], what: str) -> None:
    """Refuse dtypes that NumPy cannot compare, such as bfloat16."""
    for name, z in tensors.items():
        try:
            torch.empty(0, dtype=z.dtype).numpy()
        except TypeError as error:
            raise ScoresError(
                [
                    (
                        f"{what} must be of a dtype that NumPy has, to compare the file with it. "
                        f"Got {str(z.dtype).removeprefix('torch.')} for {name!r}. Pass float32, "
                        "with module.float() where there are networks, or "
                    ),
                    Setting("verify", False),
                    ".",
                ],
            ) from error


def _free_axes(module: ModalityFusion, given: Mapping[str, Tensor], wanted: Any) -> dict[str, Axes]:
    """Return the dynamic axes of every input; refuse axes that do not exist or have length 1."""
    if wanted is None:
        wanted = {_batch_axis(module): "batch"}
    shared = all(isinstance(axis, int) for axis in wanted)
    if not shared and set(wanted) - set(given):
        raise OptionError(
            argument="dynamic_axes",
            rule=[
                "must be for the modalities in ",
                Argument("inputs"),
                f", {', '.join(map(repr, given))}",
            ],
            got=f"{sorted(set(wanted) - set(given))[0]!r}",
            remedy="Pass {0: 'batch'} for all of them.",
        )
    free = {}
    for name, z in given.items():
        axes = dict(wanted if shared else wanted.get(name, {}))
        for axis in axes:
            if not 0 <= axis < z.ndim or z.shape[axis] < 2:
                raise OptionError(
                    argument="inputs",
                    rule=(
                        "must have at least two entries on every dynamic axis, so that the "
                        "exporter does not take it for a constant"
                    ),
                    got=f"axis {axis} and shape {tuple(z.shape)} for {name!r}",
                    remedy=[
                        "Pass a larger batch, or other ",
                        Argument("dynamic_axes"),
                        ".",
                    ],
                )
        free[name] = axes
    return free


def _batch_axis(module: ModalityFusion) -> int:
    """The axis of the samples in what the module takes."""
    if module.networks:
        return 0
    return int(module.class_axis == 0) + int(module.passes)


def _exported(module: ModalityFusion, given: dict[str, Tensor], free: dict[str, Axes]) -> Any:
    """Return the exported program; hide the exporter's warnings about its own internals."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            program: Any = torch.onnx.export(
                module,
                (),
                kwargs={"scores": given},
                input_names=list(given),
                output_names=[OUTPUT],
                dynamic_shapes={"scores": free},
                dynamo=True,
                verbose=False,
            )
        except Exception as error:  # the exporter's own, of many kinds
            raise FoldError(
                argument="module",
                rule="must go through torch.onnx.export",
                remedy=(
                    f"It does not: {_reason(error)} Export the networks one by one to find out "
                    "which does not."
                ),
            ) from error
    _refuse_held(program.model_proto.graph.input, given, free)
    return program


def _refuse_held(values: Any, given: Mapping[str, Tensor], free: Mapping[str, Axes]) -> None:
    """Refuse a graph whose inputs have a fixed length on a dynamic axis."""
    names = [value.name for value in values]
    if set(names) != set(free):
        raise FoldError(
            f"The graph must have an input for every modality, {', '.join(map(repr, free))}. Got "
            f"{', '.join(map(repr, names)) or 'none'}: the exporter renamed or dropped one. Rename "
            f"it in the fit, to a plain word, or use networks that depend on their input."
        )
    for value in values:
        for axis, name in free[value.name].items():
            if value.type.tensor_type.shape.dim[axis].WhichOneof("value") != "dim_param":
                raise FoldError(
                    argument="dynamic_axes",
                    rule="must be axes that the networks leave free",
                    got=(
                        f"axis {axis} ({name!r}) of {value.name!r}, which the graph holds at "
                        f"{given[value.name].shape[axis]}"
                    ),
                    remedy="Leave it out.",
                )


def _reason(error: BaseException) -> str:
    """Return the first cause of a chain of errors, on one line."""
    while error.__cause__ is not None:
        error = error.__cause__
    return f"{quoted(error)}."


# ------------------------------------------------------------------------------------------ parity


def _compared(
    module: ModalityFusion,
    given: dict[str, Tensor],
    free: dict[str, Axes],
    path: str,
    made: Exported,
    tolerance: float | None,
) -> Exported:
    """Run the file on the inputs and on one sample; refuse posteriors that differ from NumPy's."""
    runtime: Any = require("onnxruntime", extra="onnx", purpose="To compare an exported fusion")
    session = runtime.InferenceSession(path, providers=["CPUExecutionProvider"])
    batches = [given]
    axis = _batch_axis(module)
    if all(axis in axes for axes in free.values()):
        batches.append({name: z.narrow(axis, 0, 1) for name, z in given.items()})
    samples = 0
    worst = 0.0
    for batch in batches:
        scores = module._scores(batch)
        _refuse_unknown_to_numpy(scores, "What the networks give")
        wanted = _by_numpy(module, scores)
        feed = {name: z.detach().cpu().numpy() for name, z in batch.items()}
        posterior = np.exp(session.run([OUTPUT], feed)[0].astype(np.float64))
        dtype = next(iter(scores.values())).dtype
        allowed = TOLERANCES.get(dtype, 1e-5) if tolerance is None else tolerance
        worst = max(worst, _difference(wanted, posterior, allowed))
        samples += wanted.size // wanted.shape[module.class_axis]
    return Exported(made.paths, made.inputs, samples, worst)


def _by_numpy(module: ModalityFusion, scores: Mapping[str, Tensor]) -> Vector:
    """Return the posterior of the same scores by :mod:`reprior.fusion`, in double precision."""
    arrays = {name: z.detach().cpu().double().numpy() for name, z in scores.items()}
    index = {name: module.modalities.index(name) for name in arrays}
    recipe = Recipe(
        names=tuple(arrays),
        references=tuple(_references(module, m) for m in index.values()),
        slopes=module.slopes.cpu().double().numpy(),
        rule=module.rule,
        order=module.order,
        flatten_by=module.flatten_by,
        kind=module.kind,
        passes=module.passes,
    )
    read = read_inputs(
        arrays,
        n_classes=module.n_classes,
        kind=module.kind,
        class_axis=module.class_axis,
        passes=module.passes,
    )
    strengths = [float(module.strengths[m]) for m in index.values()]
    return np.asarray(posterior(read, recipe, strengths, log=False))


def _references(module: ModalityFusion, m: int) -> References:
    references = []
    for measure in ("entropy", "information"):
        mean, std = (getattr(module, f"{measure}_{part}") for part in ("mean", "std"))
        references.append(None if mean is None else EntropyReference(float(mean[m]), float(std[m])))
    return References(*references)


def _difference(wanted: Vector, posterior: Vector, allowed: float) -> float:
    """Return the largest difference; refuse one that rounding does not explain.

    Decisions can then differ only where two posteriors are within twice that difference.
    """
    if posterior.shape != wanted.shape:
        raise FoldError(
            f"The exported fusion must give posteriors of shape {wanted.shape}. Got "
            f"{posterior.shape}. Check that the networks give the same shape for every batch."
        )
    worst = float(np.nan_to_num(np.abs(posterior - wanted), nan=np.inf).max(initial=0.0))
    if worst > allowed:
        raise FoldError(
            [
                (
                    "The exported fusion must give the posteriors of NumPy, to within "
                    f"{allowed:g}. Got a difference of {worst:.3g}, and nothing was written. "
                    "Where a network is large or its dtype coarse, pass a larger "
                ),
                Argument("tolerance"),
                ".",
            ],
        )
    return worst
