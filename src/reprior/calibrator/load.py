"""Load a calibrator, or a fusion of modalities, from its file."""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING, Any

import numpy as np

from reprior.calibrator import PosteriorCalibrator
from reprior.calibrator.document import map_of, metric_of, options_of
from reprior.calibrator.encoding import as_classes, is_range
from reprior.calibrator.forecast import Confusions
from reprior.core.flatten import EntropyReference
from reprior.core.prior import as_prior, as_target_prior
from reprior.exceptions import FileFormatError, RepriorError
from reprior.files.archive import SAVE
from reprior.files.documents import (
    CALIBRATOR_FORMAT,
    TRACKER_FORMAT,
    blend_document,
    calibrator_fields,
    fusion_document,
    is_blend,
    is_fusion,
    parsed,
)
from reprior.files.schema import shown_value
from reprior.profile.objective import Constraint

if TYPE_CHECKING:
    from reprior.fusion import Blend, ModalityFusion

__all__ = ["load", "load_calibrator"]


def load(path: str | os.PathLike[str]) -> PosteriorCalibrator | ModalityFusion | Blend:
    """Read what ``save`` of a calibrator, a :class:`ModalityFusion` or a :class:`Blend` wrote.

    The file states which of them it is. A file that is truncated, damaged, from a newer version, or
    none of them is refused.

    Examples
    --------
    >>> import numpy as np
    >>> import reprior as rp
    >>> path = getfixture("tmp_path") / "cal.json"
    >>> fitted = rp.PosteriorCalibrator([0.75, 0.25]).fit(3 * np.eye(2), [0, 1])
    >>> fitted.save(path)
    >>> rp.load(path).strength_ == fitted.strength_
    True
    """
    document = parsed(path, CALIBRATOR_FORMAT)
    if isinstance(document, dict) and document.get("format") == TRACKER_FORMAT:
        raise FileFormatError(
            f"{os.fspath(path)!r} must be a calibrator or a fusion.",
            got="a prior tracker",
            remedy="Read it with PriorTracker.load.",
        )
    if is_fusion(document):
        return _fusion(fusion_document(path, document))
    if is_blend(document):
        return _blend(blend_document(path, document))
    return _calibrator(path, calibrator_fields(path, document))


def load_calibrator(path: str | os.PathLike[str]) -> PosteriorCalibrator:
    """Read a calibrator; refuse a fusion, for callers that need a calibrator."""
    document = parsed(path, CALIBRATOR_FORMAT)
    if is_fusion(document) or is_blend(document):
        raise FileFormatError(
            f"{os.fspath(path)!r} must be a calibrator of one model.",
            got="a fusion of several" if is_fusion(document) else "a blend of two",
            remedy="Pass what PosteriorCalibrator.save or `reprior fit` wrote.",
        )
    return _calibrator(path, calibrator_fields(path, document))


def _calibrator(path: str | os.PathLike[str], fields: dict[str, Any]) -> PosteriorCalibrator:
    classes = fields["classes"]
    calibrator = PosteriorCalibrator(
        fields["source_prior"],
        target_prior=fields["target_prior"],
        metric=metric_of(fields),
        class_groups=fields["class_groups"],
        kind=fields["kind"],
        class_axis=fields["class_axis"],
        classes=classes,
        **options_of(fields),
    )
    calibrator._lost_function = bool(fields["metric_function"])
    calibrator._hold(map_of(fields))
    if fields["probability_map"] is not None:
        calibrator.probability_map_ = map_of(fields["probability_map"])
    calibrator.strength_interval_ = tuple(fields["strength_interval"])
    calibrator._forget()
    _adopt(calibrator, fields)
    tables = fields["confusion"]
    if tables is not None:
        calibrator._confusions = Confusions(
            *(np.array(tables[name], np.int64) for name in ("before", "after"))
        )
    if fields["promise"] is not None:
        _check_promise(path, calibrator)
        calibrator.certified_ = True
    return calibrator


def _check_promise(path: str | os.PathLike[str], calibrator: PosteriorCalibrator) -> None:
    """Refuse a promise of constraints that cannot be read, or are of other classes."""
    names = None if is_range(calibrator.classes_) else calibrator.classes_.tolist()
    try:
        for rule in Constraint.parse_all(calibrator.subject_to):
            rule.resolved(
                n_classes=calibrator.source_prior_.size,
                classes=names,
                class_groups=calibrator.class_groups,
            )
    except RepriorError as error:
        raise FileFormatError(
            f"{os.fspath(path)!r} must have constraints on its classes as 'subject_to' of "
            f"'promise'.",
            got=shown_value(calibrator.subject_to),
            remedy=["Write it again with ", SAVE, "."],
        ) from error


def _fusion(fields: dict[str, Any]) -> ModalityFusion:
    # Imported here, so that loading a calibrator does not import the fusion package.
    from reprior.fusion import ModalityFusion

    options = ("rule", "flatten", "order", "strengths", "flatten_by", "uncertainty", "missing")
    fusion = ModalityFusion(
        fields["source_prior"],
        target_prior=fields["target_prior"],
        metric=fields["metric"],
        kind=fields["kind"],
        class_axis=fields["class_axis"],
        classes=fields["classes"],
        **{name: fields[name] for name in options},
    )
    _adopt(fusion, fields)
    modalities = {each["name"]: each for each in fields["modalities"]}
    fusion.modalities_ = tuple(modalities)
    fusion.strengths_ = {name: float(each["strength"]) for name, each in modalities.items()}
    is_shared = fields["strengths"] == "shared"
    fusion.strength_ = next(iter(fusion.strengths_.values())) if is_shared else None
    fusion.references_ = _references(modalities, "entropy")
    fusion.information_references_ = _references(modalities, "mutual_information")
    fusion.search_ = fields["search"]
    fusion.curve_ = None
    return fusion


def _blend(fields: dict[str, Any]) -> Blend:
    from reprior.fusion import Blend

    kinds = {each["name"]: each["kind"] for each in fields["models"]}
    same = len(set(kinds.values())) == 1
    blend = Blend(
        metric_of(fields),
        kind=next(iter(kinds.values())) if same else kinds,
        class_axis=fields["class_axis"],
        classes=fields["classes"],
    )
    classes, score = fields["classes"], fields["best_score"]
    first, second = kinds
    blend.models_ = (first, second)
    blend.strength_ = float(fields["strength"])
    low, high = fields["strength_interval"]
    blend.strength_interval_ = (float(low), float(high))
    blend.classes_ = np.arange(fields["n_classes"]) if classes is None else as_classes(classes)
    blend.best_score_ = math.nan if score is None else float(score)
    blend.provenance_ = fields["provenance"]
    blend._lost_function = bool(fields["metric_function"])
    return blend


def _references(modalities: dict[str, Any], measure: str) -> dict[str, EntropyReference]:
    references = {name: each.get(measure) for name, each in modalities.items()}
    return {
        name: EntropyReference(float(reference["mean"]), float(reference["std"]))
        for name, reference in references.items()
        if reference is not None
    }


def _adopt(loaded: PosteriorCalibrator | ModalityFusion, fields: dict[str, Any]) -> None:
    """Set the fitted attributes that both kinds of file hold."""
    classes = fields["classes"]
    n_classes = len(fields["source_prior"])
    score = fields["best_score"]
    loaded.source_prior_ = as_prior(fields["source_prior"], name="source_prior")
    loaded.target_prior_ = as_target_prior(fields["target_prior"], n_classes=n_classes)
    loaded.classes_ = np.arange(n_classes) if classes is None else as_classes(classes)
    loaded.best_score_ = math.nan if score is None else float(score)
    loaded.provenance_ = fields["provenance"]
