"""ModalityFusion: flatten, rebalance and fuse the posteriors of several modalities."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

import numpy as np

from reprior import _html
from reprior.calibrator.encoding import is_range
from reprior.calibrator.summary import (
    change_tables,
    cost_line,
    counted_metrics,
    metric_name,
)
from reprior.core.arrays import to_numpy
from reprior.core.checks import check_bounds, check_choice, check_finite_number, check_kind
from reprior.core.flatten import EntropyReference
from reprior.core.fuse import RULES
from reprior.core.logspace import warn_of_probs
from reprior.core.prior import slopes
from reprior.core.rebalance import strength_text
from reprior.exceptions import NotFittedError, OptionError, escaped_lines
from reprior.files.documents import write_fusion
from reprior.fusion.blocks import decisions, posterior
from reprior.fusion.fitting import FusionFit, Tuner
from reprior.fusion.fused import Recipe, References
from reprior.fusion.named_scores import Inputs, named_scores, read_inputs
from reprior.fusion.stream import stream_of_arrays, stream_of_chunks
from reprior.metrics.count_metrics import CountMetric
from reprior.metrics.counts import ClassCounts

__all__ = [
    "FLATTEN_BY",
    "MISSING",
    "ORDERS",
    "STRENGTHS",
    "UNCERTAINTIES",
    "ModalityFusion",
    "check_options",
    "fusion_fields",
    "fusion_text",
]


Vector: TypeAlias = np.ndarray[Any, Any]
Curve: TypeAlias = tuple[Vector, Vector]
Self = TypeVar("Self", bound="ModalityFusion")


class ModalityFusion:
    r"""One posterior from those of several modalities, some of which may be degraded.

    .. math:: P(k|x) ∝ \operatorname{fuse}_m P_m(k|x), \qquad
        P_m(k|x) ∝ \exp\bigl(δ_m(x)\,(z_{mk}(x) + λ_m w_k)\bigr), \qquad
        δ_m(x) = \frac{μ_m}{μ_m + \max(0,\; \bar H_m(x) - μ_m - σ_m)}

    with the log-scores :math:`z_m` of modality m, its strength :math:`λ_m`, the slopes
    :math:`w_k = \log P_t(k) - \log P_s(k)`, and :math:`\bar H_m(x)` the mean entropy of its
    posteriors over the image x, of which :math:`μ_m` and :math:`σ_m` are the mean and the
    (population) standard deviation over the images it is fitted on. A modality that is less sure
    than it was on these is flattened, and the others decide. The fusion is by noisy-or,
    :math:`P ∝ 1 - \prod_m (1 - P_m)`, mean or product.

    The rows of the paper's Table 5 are four settings of it:

    ========  ==========================================================
    SoftAve   ``rule="mean", flatten=False, strength=0``
    UNO       ``rule="noisy_or", flatten=True, strength=0``
    IC        ``rule="noisy_or", flatten=False`` (the strength is tuned)
    UNO-IC    ``rule="noisy_or", flatten=True`` (the strength is tuned)
    ========  ==========================================================

    Parameters
    ----------
    source_prior : array-like of shape (K,), {class: probability}, or a pandas series by class
        P_s, the class distribution that all modalities' models saw in training: one for all. The
        scores of a model that saw another are brought to it first, by :func:`log_rebalance`.
    target_prior : "uniform", array-like of shape (K,), or {class: probability}
        P_t, the class distribution to decide for.
    rule : {"noisy_or", "mean", "product"}, default "noisy_or"
        How posteriors are fused. Under "product" the correction counts once per modality: M
        modalities of strength λ are corrected by M·λ.
    flatten : bool, default True
        Whether δ is applied.
    order : {"rebalance_first", "flatten_first"}, default "rebalance_first"
        "flatten_first" is the paper's, :math:`P_m ∝ \exp(δ_m z_m + λ_m w)`. There a flattened
        modality is corrected the more the less it has to say: at δ = 1/4 a strength of 0.4 acts
        like 1.6. With "rebalance_first" δ scales the corrected log-posterior, and a flattened
        modality keeps its decision. They are the same where δ = 1.
    strengths : {"shared", "per_modality"}, default "shared"
        One λ for all, or one each. Those are searched from the best shared one, one modality
        after the other; under rule="product" and "flatten_first" only their sum counts.
    strength : float or {modality: float}, optional
        λ, where it is given and not tuned: :meth:`fit` then needs no labels.
    flatten_by : {"image", "pixel"}, default "image"
        What has its own δ; μ and σ are over the same. In scores (N, K) every row is an image.
    uncertainty : {"entropy", "mutual_information", "smaller"}, default "entropy"
        What δ is made of. The others are for scores of several passes with dropout, (passes, N, K,
        …): the posterior is their mean, and δ is that of the mutual information of class and
        pass (the entropy of the mean less the mean entropy), or the smaller one of both.
    metric : str or CountMetric, default "balanced_accuracy"
        What λ maximises, of the fused decision; see :class:`PosteriorCalibrator`. A metric of class
        counts: costs, weighted kappas, functions of the confusion matrix and means over images are
        refused.
    subject_to : str or sequence of str, optional
        Constraints such as ``"mean_iou >= baseline - 0.005"``; the baseline is the fusion without
        a correction, λ = 0.
    class_groups : mapping of str to bool mask (K,) or classes, optional
        Groups of classes that ``metric`` and ``subject_to`` may name, as in ``"recall[few]"``.
    kind : {"logits", "probs", "log_probs"}, default "logits"
        What the scores are, in all modalities.
    class_axis : int, default -1
        The axis of the classes in the scores of one pass: 1 for (N, K, H, W). The first other
        axis is the images; the rest are pixels. A single image goes in as (1, H, W, K).
    classes : sequence, optional
        The class names in the order of the scores, where labels are not 0 … K−1.
    ignore_index : optional
        A label that marks pixels to leave out of the metric. They do count for the entropy of
        their image, which is judged without labels later; images with no other label do not.
    bounds : (float, float), default (0, 2)
        Strengths to search. Where the best lies at the upper bound, that is doubled, up to 8.
    missing : {"error", "leave_out"}, default "error"
        What to do about a modality that is missing (or None) in a prediction: raise an error, or
        fuse the others.

    Attributes
    ----------
    modalities_ : tuple of str
        The modalities, in the order in which they are fused.
    references_ : {modality: EntropyReference}
        μ and σ of the entropy; empty where δ is not made of it.
    information_references_ : {modality: EntropyReference}
        μ and σ of the mutual information; empty where δ is not made of it.
    strength_ : float or None
        The shared λ; None where the modalities have their own.
    strengths_ : {modality: float}
        λ of every modality.
    best_score_ : float
        The metric *on the tuning labels*: judge the fusion on others. NaN without labels.
    search_ : {"exact", "grid", "fixed"}
        How λ was found. "exact", over the continuum: with one modality, or with the product
        rule and a shared strength, decisions are those of lines in λ. "grid": 20 steps within
        the bounds, then twice ten times finer around the best. "fixed": it was given.
    curve_ : (strengths, values) or {modality: (strengths, values)} or None
        The metric at the strengths that were looked at, along one modality with the others as
        they were where each has its own. None after :func:`reprior.load`, and without labels.
    source_prior_, target_prior_, classes_ : ndarray of shape (K,)
        The priors as used, and the classes in the order of the scores.
    provenance_ : dict or None
        What it was tuned on, ``{"digest": …, "n_samples": …}``, where that was set.

    References
    ----------
    .. [1] Tian, Liu, Glaser, Hsu, Kira. "Posterior Re-calibration for Imbalanced Datasets",
       NeurIPS 2020: Algorithm 1 and Table 5.
    .. [2] Tian et al. "UNO: Uncertainty-aware Noisy-Or Multimodal Fusion for Unanticipated Input
       Degradation", ICRA 2020.

    Examples
    --------
    >>> import numpy as np
    >>> import reprior as rp
    >>> rgb = np.array([[3.0, 0.0], [2.0, 0.0], [1.2, 0.0], [0.0, 3.0]])
    >>> depth = np.array([[2.0, 0.0], [3.0, 0.0], [0.5, 0.0], [0.0, 2.0]])
    >>> fusion = rp.ModalityFusion(rp.prior_from_counts([80, 20]))
    >>> fusion.fit({"rgb": rgb, "depth": depth}, [0, 0, 1, 1]).best_score_
    1.0
    >>> fusion.predict({"rgb": rgb, "depth": depth})
    array([0, 0, 1, 1])
    >>> fusion.predict_proba({"rgb": rgb[2:3], "depth": depth[2:3]}).round(2)
    array([[0.39, 0.61]])
    """

    modalities_: tuple[str, ...]
    references_: dict[str, EntropyReference]
    information_references_: dict[str, EntropyReference]
    strength_: float | None
    strengths_: dict[str, float]
    best_score_: float
    search_: str
    curve_: Curve | dict[str, Curve] | None
    source_prior_: Vector
    target_prior_: Vector
    classes_: Vector
    provenance_: dict[str, Any] | None = None
    _counts: tuple[ClassCounts, ClassCounts] | None = None

    def __init__(
        self,
        source_prior: Any,
        *,
        target_prior: Any = "uniform",
        rule: str = "noisy_or",
        flatten: bool = True,
        order: str = "rebalance_first",
        strengths: str = "shared",
        strength: Any = None,
        flatten_by: str = "image",
        uncertainty: str = "entropy",
        metric: str | CountMetric = "balanced_accuracy",
        subject_to: str | Sequence[str] | None = None,
        class_groups: Any = None,
        kind: str = "logits",
        class_axis: int = -1,
        classes: Any = None,
        ignore_index: Any = None,
        bounds: tuple[float, float] = (0.0, 2.0),
        missing: str = "error",
    ) -> None:
        self.source_prior = source_prior
        self.target_prior = target_prior
        self.rule = rule
        self.flatten = flatten
        self.order = order
        self.strengths = strengths
        self.strength = strength
        self.flatten_by = flatten_by
        self.uncertainty = uncertainty
        self.metric = metric
        self.subject_to = subject_to
        self.class_groups = class_groups
        self.kind = kind
        self.class_axis = class_axis
        self.classes = classes
        self.ignore_index = ignore_index
        self.bounds = bounds
        self.missing = missing

    def fit(self: Self, scores: Any, labels: Any = None, sample_weight: Any = None) -> Self:
        """Fit the references and the strength on labelled scores of images like those of training.

        Parameters
        ----------
        scores : {modality: array of shape (N, K), (N, K, H, W), …}
            The models' outputs on data that they were not trained on, of one shape and array
            library. With ``uncertainty`` other than "entropy": (passes, N, K, …).
        labels : array, series or list
            Class indices, or names from ``classes``; the scores' shape without the class axis.
            Where ``strength`` is given none are needed: nothing is tuned, and nothing measured.
        sample_weight : array of the labels' shape, optional
            A weight per pixel, for the metric. The references weigh all images alike.
        """
        stream = stream_of_arrays(self, scores, labels, sample_weight)
        check_options(self)
        tuner = Tuner(self, stream)
        best, profile = tuner.search() or tuner.problem.search(tuner.profile)
        tuner.warn(profile)
        return self._adopt(tuner, tuner.finish(best, profile))

    def fit_stream(self: Self, chunks: Any) -> Self:
        """Fit on data larger than memory, from labelled chunks that are iterated repeatedly.

        Parameters
        ----------
        chunks : callable, or a list
            Returns, at every call, a fresh iterable of ``({modality: scores}, labels)`` or
            ``({modality: scores}, labels, sample_weight)`` with whole images; where ``strength``
            is given ``{modality: scores}`` alone will do. Integer labels are class indices;
            others are names from ``classes``. One pass takes the references;
            an exact search takes one pass, a grid three, and each widening of the bounds as many
            again; strengths per modality take up to nine more for each modality.
        """
        stream = stream_of_chunks(self, chunks)
        check_options(self)
        tuner = Tuner(self, stream)
        best, profile = tuner.search() or tuner.problem.search(tuner.profile)
        tuner.warn(profile)
        return self._adopt(tuner, tuner.finish(best, profile))

    def predict_proba(self, scores: Any) -> Any:
        """Return the fused posterior of every class, of one modality's shape, library and dtype.

        For two classes and one score per sample, the probability of the second class.
        """
        inputs, recipe = self._read(scores)
        return posterior(inputs, recipe, self._strengths(recipe), log=False)

    def predict_log_proba(self, scores: Any) -> Any:
        """Return the logarithm of that posterior, exact where it underflows."""
        inputs, recipe = self._read(scores)
        return posterior(inputs, recipe, self._strengths(recipe), log=True)

    def predict(self, scores: Any) -> Any:
        """Return the class of the largest posterior: indices, or names where there are names.

        Indices come as an array of the scores' library, names as NumPy. On NumPy arrays nothing as
        large as the scores is made.
        """
        inputs, recipe = self._read(scores)
        index = decisions(inputs, recipe, self._strengths(recipe))
        return index if is_range(self.classes_) else self.classes_[to_numpy(index)]

    def summary(self) -> str:
        """Return what was fitted, every count metric before and after, and what others lose."""
        self._check_fitted()
        return escaped_lines(fusion_text(self, self._counts))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fusion to a JSON file, atomically. :func:`reprior.load` reads it."""
        self._check_fitted()
        write_fusion(path, fusion_fields(self))

    def _repr_html_(self) -> str:
        """Return the summary as HTML, for notebooks."""
        return fusion_html(self, self._counts if hasattr(self, "modalities_") else None)

    def __repr__(self) -> str:
        state = f"modalities_={self.modalities_}" if hasattr(self, "modalities_") else "not fitted"
        return (
            f"ModalityFusion(rule={self.rule!r}, metric={metric_name(self.metric)!r}, "
            f"kind={self.kind!r}, {state})"
        )

    # -------------------------------------------------------------------------------------- inside

    @property
    def _recipe(self) -> Recipe:
        return Recipe(
            names=self.modalities_,
            references=tuple(
                References(self.references_.get(name), self.information_references_.get(name))
                for name in self.modalities_
            ),
            slopes=slopes(self.source_prior_, self.target_prior_),
            rule=self.rule,
            order=self.order,
            flatten_by=self.flatten_by,
            kind=self.kind,
            passes=self.uncertainty != "entropy",
        )

    def _read(self, scores: Any) -> tuple[Inputs, Recipe]:
        self._check_fitted()
        there = named_scores(scores, self.modalities_, missing=self.missing)
        inputs = read_inputs(
            there,
            n_classes=self.source_prior_.size,
            kind=self.kind,
            class_axis=self.class_axis,
            passes=self.uncertainty != "entropy",
            classes=None if is_range(self.classes_) else self.classes_,
        )
        if inputs.look_like_probabilities():
            warn_of_probs(single_score=False)
        return inputs, self._recipe.only(list(there))

    def _strengths(self, recipe: Recipe) -> list[float]:
        return [self.strengths_[name] for name in recipe.names]

    def _check_fitted(self) -> None:
        if not hasattr(self, "strengths_"):
            raise NotFittedError(
                "This ModalityFusion is not fitted. Call fit({name: scores}, labels), or "
                "reprior.load(path), first."
            )

    def _adopt(self: Self, tuner: Tuner, fitted: FusionFit) -> Self:
        """Take the result of a fit at once, so that a fit that fails changes nothing."""
        names = tuner.recipe.names
        problem = tuner.problem
        known = dict(zip(names, tuner.recipe.references, strict=True))
        self.modalities_ = names
        self.references_ = {n: k.entropy for n, k in known.items() if k.entropy}
        self.information_references_ = {n: k.information for n, k in known.items() if k.information}
        self.strengths_ = dict(zip(names, fitted.strengths, strict=True))
        per_modality = tuner.per_modality
        curves = fitted.curves
        self.strength_ = None if per_modality else fitted.strengths[0]
        self.best_score_ = fitted.value
        self.search_ = fitted.search
        self.curve_ = None
        if curves:
            self.curve_ = dict(zip(names, curves, strict=True)) if per_modality else curves[0]
        self.source_prior_ = problem.source_prior
        self.target_prior_ = problem.target_prior
        self.classes_ = problem.classes
        self.provenance_ = None
        self._counts = None
        if fitted.before is not None and fitted.after is not None:
            self._counts = (fitted.before, fitted.after)
        return self


ORDERS = ("rebalance_first", "flatten_first")
"""Whether δ scales the rebalanced log-posterior, or the model's own."""

STRENGTHS = ("shared", "per_modality")
"""How many strengths there are."""

FLATTEN_BY = ("image", "pixel")
"""What has its own δ."""

UNCERTAINTIES = ("entropy", "mutual_information", "smaller")
"""What δ is made of."""

MISSING = ("error", "leave_out")
"""What to do about a missing modality."""


def check_options(options: Any) -> None:
    """Refuse options of a fusion that are wrong whatever the data are."""
    check_kind(options.kind)
    check_choice("rule", options.rule, RULES)
    check_choice("order", options.order, ORDERS)
    check_choice("strengths", options.strengths, STRENGTHS)
    check_choice("flatten_by", options.flatten_by, FLATTEN_BY)
    check_choice("uncertainty", options.uncertainty, UNCERTAINTIES)
    check_choice("missing", options.missing, MISSING)
    check_bounds(options.bounds)
    if not isinstance(options.flatten, bool | np.bool_):
        raise OptionError(
            argument="flatten",
            rule="must be True or False",
            got=f"{options.flatten!r}",
            remedy="Pass True to flatten images that a modality is unusually unsure of.",
        )
    if isinstance(options.strength, Mapping):
        for name, number in options.strength.items():
            check_finite_number(f"strength[{name!r}]", number)
    elif options.strength is not None:
        check_finite_number("strength", options.strength, hint="Or pass None to tune it.")


def fusion_fields(fusion: ModalityFusion) -> dict[str, Any]:
    """Return the fields of the file, as JSON values."""
    return {
        "rule": fusion.rule,
        "flatten": bool(fusion.flatten),
        "order": fusion.order,
        "strengths": "shared" if fusion.strength_ is not None else "per_modality",
        "flatten_by": fusion.flatten_by,
        "uncertainty": fusion.uncertainty,
        "missing": fusion.missing,
        "kind": fusion.kind,
        "class_axis": fusion.class_axis,
        "source_prior": fusion.source_prior_.tolist(),
        "target_prior": fusion.target_prior_.tolist(),
        "classes": None if is_range(fusion.classes_) else fusion.classes_.tolist(),
        "metric": metric_name(fusion.metric),
        "search": fusion.search_,
        "best_score": None if math.isnan(fusion.best_score_) else fusion.best_score_,
        "modalities": [
            {
                "name": name,
                "strength": fusion.strengths_[name],
                "entropy": _fields(fusion.references_.get(name)),
                "mutual_information": _fields(fusion.information_references_.get(name)),
            }
            for name in fusion.modalities_
        ],
        "provenance": fusion.provenance_,
    }


def _fields(reference: EntropyReference | None) -> dict[str, float] | None:
    return None if reference is None else {"mean": reference.mean, "std": reference.std}


def fusion_text(fusion: ModalityFusion, counts: tuple[ClassCounts, ClassCounts] | None) -> str:
    """Return rule, modalities, and the count metrics before and after the correction, as text."""
    how = {
        "exact": "exactly, over the continuum",
        "grid": "on a grid, refined at its best",
        "fixed": "not at all: the strength was given",
    }
    order = f", {fusion.order.replace('_', ' ')}" if fusion.flatten else ", not flattened"
    lines = [
        f"rule         {fusion.rule}{order}",
        f"tuned for    {metric_name(fusion.metric)}",
        f"searched     {how[fusion.search_]}",
        "",
        f"{'modality':<14}{'strength':>9}{'entropy (nats)':>20}{'mutual information':>21}",
    ]
    for name in fusion.modalities_:
        known = [
            _shown(references.get(name))
            for references in (fusion.references_, fusion.information_references_)
        ]
        lines.append(f"{name:<14}{fusion.strengths_[name]:>9.4f}{known[0]:>20}{known[1]:>21}")
    if counts is None:
        return "\n".join([*lines, "(loaded, or fitted without labels: no tuning data at hand)"])
    lines += ["", f"{'on the tuning labels':<22}{'before':>9}{'after':>9}{'change':>9}"]
    for label, (before, after) in counted_metrics(fusion, *counts).items():
        lines.append(f"{label:<22}{before:>9.4f}{after:>9.4f}{after - before:>+9.4f}")
    if fusion.search_ != "fixed":
        lines += cost_line(fusion, *counts)
    return "\n".join(lines)


def fusion_html(fusion: ModalityFusion, counts: tuple[ClassCounts, ClassCounts] | None) -> str:
    """Return what :func:`fusion_text` says as an HTML view."""
    shown = {"Rule": fusion.rule, "Tuned for": metric_name(fusion.metric)}
    if not hasattr(fusion, "modalities_"):
        return _html.view("ModalityFusion", _html.facts(shown), "<p>Not fitted.</p>")
    if fusion.flatten:
        shown["Order"] = fusion.order.replace("_", " ")
    rows = [
        (name, strength_text(fusion.strengths_[name]), _shown(fusion.references_.get(name)))
        for name in fusion.modalities_
    ]
    heads = ("modality", "strength λ", "entropy (nats)")
    parts = [_html.facts(shown), _html.table(heads, rows)]
    if counts is not None:
        parts += change_tables(fusion, counted_metrics(fusion, *counts), *counts)
    return _html.view("ModalityFusion", *parts)


def _shown(reference: EntropyReference | None) -> str:
    return "-" if reference is None else f"{reference.mean:.4f} ± {reference.std:.4f}"
