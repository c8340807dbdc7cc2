"""The strength profile: what labelled samples do at every strength, and how it is counted.

``samples``      labelled scores and priors, checked once
``source``       where samples are, and passes over them; ``dask_arrays`` is one source
``passes``       counts and switches of samples; ``envelope`` is the array code
``switches``     switches one by one; ``binning`` sums them on a grid
``sweep``        a metric at every strength
``objective``    the best strength, constraints, Pareto fronts
``certificates`` constraints that are promised on new data
``profile``      the profile itself; ``merging`` adds and subtracts, ``storage`` saves and loads
``constants``    tolerances and limits
"""

from reprior.profile.binning import BinnedSwitches, BinTable, GainTable, PackedBins, narrowed
from reprior.profile.certificates import check_certify, paired_p_values
from reprior.profile.constants import (
    AFTER_ZERO,
    EQUAL_VALUES,
    NARROWEST,
    SMALLEST_STRENGTH,
    WIDEST_BOUND,
)
from reprior.profile.dask_arrays import (
    DaskArrays,
    is_lazy_frame,
    lazy_column,
    lazy_columns,
    lazy_names,
    lazy_parts,
    same_partitions,
    tree,
)
from reprior.profile.merging import PackedProfile, ProfileSum, merged
from reprior.profile.objective import (
    Best,
    Constraint,
    ParetoFront,
    best_interval,
    best_of_steps,
    feasible_steps,
    middle,
    pareto_front,
    widest_best,
)
from reprior.profile.passes import Table, run_parts, run_pass
from reprior.profile.profile import StrengthProfile
from reprior.profile.samples import Line, Priors, ProbabilityDetector, Samples
from reprior.profile.source import (
    Bins,
    CollectPass,
    CountPass,
    InMemory,
    MomentsPass,
    ProfilePass,
    RowReader,
    join_profiles,
)
from reprior.profile.storage import pack_sum, unpack_sum
from reprior.profile.sweep import Steps, value_of
from reprior.profile.switches import ClassEvents, Switches, SwitchTable, grouped

__all__ = [
    "AFTER_ZERO",
    "EQUAL_VALUES",
    "NARROWEST",
    "SMALLEST_STRENGTH",
    "WIDEST_BOUND",
    "Best",
    "BinTable",
    "BinnedSwitches",
    "Bins",
    "ClassEvents",
    "CollectPass",
    "Constraint",
    "CountPass",
    "DaskArrays",
    "GainTable",
    "InMemory",
    "Line",
    "MomentsPass",
    "PackedBins",
    "PackedProfile",
    "ParetoFront",
    "Priors",
    "ProbabilityDetector",
    "ProfilePass",
    "ProfileSum",
    "RowReader",
    "Samples",
    "Steps",
    "StrengthProfile",
    "SwitchTable",
    "Switches",
    "Table",
    "best_interval",
    "best_of_steps",
    "check_certify",
    "feasible_steps",
    "grouped",
    "is_lazy_frame",
    "join_profiles",
    "lazy_column",
    "lazy_columns",
    "lazy_names",
    "lazy_parts",
    "merged",
    "middle",
    "narrowed",
    "pack_sum",
    "paired_p_values",
    "pareto_front",
    "run_parts",
    "run_pass",
    "same_partitions",
    "tree",
    "unpack_sum",
    "value_of",
    "widest_best",
]
