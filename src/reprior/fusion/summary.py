"""A fitted fusion in words and numbers, and as the fields of its file."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from reprior.calibrator.encoding import is_range
from reprior.calibrator.summary import metric_name
from reprior.core.flatten import EntropyReference
from reprior.metrics.count_metrics import COUNT_METRICS, find_metric
from reprior.metrics.counts import ClassCounts

if TYPE_CHECKING:
    from reprior.fusion.modality import ModalityFusion

__all__ = ["fusion_fields", "fusion_text"]


def fusion_fields(fusion: ModalityFusion) -> dict[str, Any]:
    """The fields of the file, JSON values all of them."""
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
    """Rule, modalities, and the count metrics before and after the correction."""
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
    names = fusion.classes_.tolist()
    shown = {k: m for k, m in COUNT_METRICS.items() if k != "macro_recall"}  # = balanced_accuracy
    tuned = find_metric(fusion.metric, n_classes=len(names), classes=names)
    shown.setdefault(tuned.name, tuned)
    lines += ["", f"{'on the tuning labels':<22}{'before':>9}{'after':>9}{'change':>9}"]
    for label, each in shown.items():
        before, after = (each(count) for count in counts)
        lines.append(f"{label:<22}{before:>9.4f}{after:>9.4f}{after - before:>+9.4f}")
    return "\n".join(lines)


def _shown(reference: EntropyReference | None) -> str:
    return "-" if reference is None else f"{reference.mean:.4f} ± {reference.std:.4f}"
