"""Tuning: the best strength or per-class biases, and how far to trust them."""

from reprior.profile.merging import ProfileSum
from reprior.tuning.bias_search import (
    Ascent,
    Columns,
    Goal,
    TopTwo,
    best_pair,
    line_of,
    pairs_worth_trying,
    tallies_of,
)
from reprior.tuning.bootstrap import bootstrap_profiles
from reprior.tuning.crossval import (
    counted_images,
    cross_validate_samples,
    fold_numbers,
    folds_of,
    images_of,
    nested,
    stratified_folds,
)
from reprior.tuning.per_class import (
    SHRINKAGES,
    fold_counts,
    label_numbers,
    nested_biases,
    shrunk,
    start_strength,
    tune_biases,
)
from reprior.tuning.problem import DEFAULT_SELECTION, best_widened, best_within
from reprior.tuning.resampling import sample_paths
from reprior.tuning.search import METHODS
from reprior.tuning.selection import (
    CURVE_RULES,
    ROUNDING,
    RULES,
    Curve,
    differences,
    log_loss_strength,
    plausible,
    redrawn_best,
    select,
    smoothed,
)
from reprior.tuning.uncertainty import FEW_LABELS, doubts

__all__ = [
    "CURVE_RULES",
    "DEFAULT_SELECTION",
    "FEW_LABELS",
    "METHODS",
    "ROUNDING",
    "RULES",
    "SHRINKAGES",
    "Ascent",
    "Columns",
    "Curve",
    "Goal",
    "ProfileSum",
    "TopTwo",
    "best_pair",
    "best_widened",
    "best_within",
    "bootstrap_profiles",
    "counted_images",
    "cross_validate_samples",
    "differences",
    "doubts",
    "fold_counts",
    "fold_numbers",
    "folds_of",
    "images_of",
    "label_numbers",
    "line_of",
    "log_loss_strength",
    "nested",
    "nested_biases",
    "pairs_worth_trying",
    "plausible",
    "redrawn_best",
    "sample_paths",
    "select",
    "shrunk",
    "smoothed",
    "start_strength",
    "stratified_folds",
    "tallies_of",
    "tune_biases",
]
