"""A profile as a file, and a growing sum of profiles as named arrays: to the bit, and back.

Everything is checked when it is read: names, dtypes, shapes, ranges, and that the switches lead
from the counts at the lower bound to possible ones. A file that passes can be used.
"""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike, fspath
from typing import Any, NoReturn, TypeAlias

import numpy as np

from reprior.core.checks import first_index
from reprior.core.prior import SUM_TOLERANCE, slopes
from reprior.exceptions import FileFormatError
from reprior.files.archive import SAVE, pack_archive, read_archive, unpack_archive, write_archive
from reprior.files.schema import (
    Field,
    check_document,
    is_boolean,
    is_integer,
    is_list,
    is_number,
    null_or,
    shown_value,
)
from reprior.metrics.counts import PairCounts
from reprior.profile.binning import BinnedSwitches
from reprior.profile.merging import ProfileSum, _Tally
from reprior.profile.passes import Pairs, Table
from reprior.profile.profile import StrengthProfile
from reprior.profile.samples import ruled_out
from reprior.profile.switches import Switches

__all__ = [
    "PAIR_ARRAYS",
    "SUM_FIELDS",
    "pack_profile",
    "pack_sum",
    "read_profile",
    "unpack_profile",
    "unpack_sum",
    "write_profile",
]

Vector: TypeAlias = np.ndarray[Any, Any]

_FORMAT, _FORMAT_VERSION = "reprior strength profile", 3
"""Version 2 has no priors, and perhaps a direction; version 3 has pairs of label and prediction.
Profiles with priors and without pairs are of version 1, which every reprior reads."""


def write_profile(path: str | PathLike[str], profile: StrengthProfile) -> None:
    """Write everything a profile is made of."""
    write_archive(path, *_content(profile))


def pack_profile(profile: StrengthProfile) -> bytes:
    """Return what :func:`write_profile` would write."""
    return pack_archive(*_content(profile))


def read_profile(path: str | PathLike[str]) -> dict[str, Any]:
    """Read back what :func:`write_profile` wrote, as the profile's constructor takes it."""
    archive = read_archive(path, format_name=_FORMAT, version=_FORMAT_VERSION)
    return _parts(path, *archive)


def unpack_profile(content: bytes) -> dict[str, Any]:
    """Read back what :func:`pack_profile` gave, as the profile's constructor takes it."""
    name = f"{len(content)} bytes"
    archive = unpack_archive(content, name=name, format_name=_FORMAT, version=_FORMAT_VERSION)
    return _parts(name, *archive)


def _content(profile: StrengthProfile) -> tuple[dict[str, Any], dict[str, Any]]:
    header = {
        "format": _FORMAT,
        "format_version": _version_of(profile),
        "bounds": list(profile.bounds),
        "resolution": profile.resolution,
        **({"images_numbered": True} if profile._pairs and profile._pairs.numbered else {}),
    }
    line = {
        "source_prior": profile.source_prior,
        "target_prior": profile.target_prior,
        "direction": profile._direction,
    }
    arrays = {
        **{name: array for name, array in line.items() if array is not None},
        "counts": profile._counts,
        **({} if profile._sums is None else {"sums": profile._sums}),
        **{f"switch_{name}": column for name, column in profile._switches.arrays().items()},
        **_pair_arrays(profile),
    }
    return header, arrays


def _version_of(profile: StrengthProfile) -> int:
    if profile._pairs is not None:
        return 3
    return 2 if profile.source_prior is None else 1


_PAIR_TABLES = ("start", "origin")
_PAIR_COLUMNS = {"label": "i", "predicted": "i", "count": "i", "weight": "f", "image": "i"}

#: The arrays of labels and predictions that a profile may have.
PAIR_ARRAYS = tuple(f"pair_{table}_{name}" for table in _PAIR_TABLES for name in _PAIR_COLUMNS)


def _pair_arrays(profile: StrengthProfile) -> dict[str, Vector]:
    """The arrays of labels and predictions; those at 0 only where they are others."""
    pairs = profile._pairs
    arrays: dict[str, Vector] = {}
    if pairs is None:
        return arrays
    for table in _PAIR_TABLES:
        if table == "origin" and pairs.origin is pairs.start:
            continue
        for name in _PAIR_COLUMNS:
            column = getattr(getattr(pairs, table), name)
            if column is not None:
                arrays[f"pair_{table}_{name}"] = column
    return arrays


def _parts(
    path: str | PathLike[str], header: dict[str, Any], arrays: dict[str, Vector]
) -> dict[str, Any]:
    version = header["format_version"]
    has_priors = version == 1 or (version == 3 and bool(arrays.keys() & _PRIORS.keys()))
    header = check_document(path, header, _HEADER_FIELDS)
    low, high = map(float, header["bounds"])
    width = None if header["resolution"] is None else float(header["resolution"])
    parts = _Content(path, arrays, (low, high), width, has_priors).checked()
    if header["images_numbered"] and parts["pairs"] is not None:
        parts["pairs"] = parts["pairs"]._replace(numbered=True)
    return parts


def _are_bounds(value: Any) -> bool:
    return is_list(value, 2) and all(map(is_number, value)) and value[0] < value[1]


_HEADER_FIELDS = {
    "bounds": Field("two numbers [low, high] with low below high", _are_bounds),
    "resolution": Field(
        "null or a positive number", null_or(lambda value: is_number(value) and value > 0)
    ),
    "images_numbered": Field(
        "true or false, where images have numbers that nobody gave", is_boolean, required=False
    ),
}

#: Sums of weights may miss 0 by this, relative to the largest, where profiles were subtracted.
WEIGHT_SLACK = 1e-6

#: Floats hold every integer up to here.
MOST_SAMPLES = 1 << 53

#: A sweep multiplies sums of weights with up to 2**56, and adds them.
LARGEST_WEIGHT = 1e280

#: Slopes that are equal but for rounding differ by less.
SLOPE_ROUNDING = 1e-12

_PRIORS = {"source_prior": "f", "target_prior": "f"}
_EXACT = {"position": "f", "label": "i", "loser": "i", "winner": "i"}
_BINNED = {
    "event_position": "f",
    "event_klass": "i",
    "event_predicted": "i",
    "event_true_positive": "i",
    "point": "f",
    "count": "i",
}
_BINNED_WEIGHTS = ("event_weighted_predicted", "event_weighted_true_positive", "mass")
_KINDS = {"f": "64-bit floats", "i": "integers of 32 or 64 bits"}
_DTYPES = {"f": ("<f8",), "i": ("<i4", "<i8")}


@dataclass(frozen=True)
class _Content:
    """The arrays of a profile as a file holds them; :meth:`checked` refuses what cannot be one."""

    path: str | PathLike[str]
    arrays: dict[str, Vector]
    bounds: tuple[float, float]
    resolution: float | None
    has_priors: bool = True

    def checked(self) -> dict[str, Any]:
        """Return the arguments of a profile; refuse the first array that breaks a rule."""
        self._check_names_and_dtypes()
        if self.has_priors:
            self._check_priors()
        elif self.arrays["counts"].shape[1] < 2 or (
            self.arrays.get("direction", self.arrays["counts"][0]).size != self._n_classes
        ):
            self._refuse("counts, and perhaps a direction, of the same classes", "other shapes")
        self._check_counts()
        switches: Switches | BinnedSwitches
        columns = {
            name.removeprefix("switch_"): column
            for name, column in self.arrays.items()
            if name.startswith("switch_")
        }
        if self.resolution is None:
            self._check_exact(columns)
            switches = Switches.from_arrays(columns)
        else:
            self._check_binned(columns)
            switches = BinnedSwitches.from_arrays(columns)
        self._check_path(switches)
        pairs = self._checked_pairs(switches)
        return {
            "source_prior": self.arrays.get("source_prior"),
            "target_prior": self.arrays.get("target_prior"),
            "direction": self.arrays.get("direction"),
            "bounds": self.bounds,
            "resolution": self.resolution,
            "counts": self.arrays["counts"],
            "sums": self.arrays.get("sums"),
            "switches": switches,
            "pairs": pairs,
        }

    @property
    def _n_classes(self) -> int:
        if self.has_priors:
            return int(self.arrays["source_prior"].size)
        return int(self.arrays["counts"].shape[1])

    def _kinds(self) -> dict[str, str]:
        """The arrays there must be, and whether they hold floats or integers."""
        weighted = "sums" in self.arrays
        kinds = {"counts": "i"}
        if self.has_priors:
            kinds = {**_PRIORS, **kinds}
        elif "direction" in self.arrays:
            kinds = {"direction": "f", **kinds}
        if self.resolution is None:
            kinds |= {f"switch_{name}": kind for name, kind in _EXACT.items()}
            if "switch_count" in self.arrays:
                kinds["switch_count"] = "i"
            if weighted:
                kinds["switch_weight"] = "f"
            if "switch_image" in self.arrays:
                kinds["switch_image"] = "i"
            for table in _PAIR_TABLES:
                if f"pair_{table}_label" in self.arrays:
                    kinds |= self._pair_kinds(table)
        else:
            kinds |= {f"switch_{name}": kind for name, kind in _BINNED.items()}
            kinds |= {f"switch_{name}": "f" if weighted else "i" for name in _BINNED_WEIGHTS}
        return kinds | ({"sums": "f"} if weighted else {})

    def _pair_kinds(self, table: str) -> dict[str, str]:
        """The columns of a table of labels and predictions."""
        kept = ["label", "predicted", "count"]
        kept += ["weight"] if "sums" in self.arrays else []
        # Where images are known, all switches and all samples have one.
        kept += ["image"] if "pair_start_image" in self.arrays else []
        return {f"pair_{table}_{name}": _PAIR_COLUMNS[name] for name in kept}

    def _checked_pairs(self, switches: Switches | BinnedSwitches) -> Pairs | None:
        """Return labels and predictions, which must be those of the counts."""
        if "pair_start_label" not in self.arrays:
            return None
        tables = [
            self._checked_table(table, rows)
            for table, rows in (
                ("start", (Table.TRUE_POSITIVE, Table.PREDICTED)),
                ("origin", (Table.TRUE_POSITIVE_AT_0, Table.PREDICTED_AT_0)),
            )
            if f"pair_{table}_label" in self.arrays
        ]
        image = getattr(switches, "image", None)
        if len(image) if image is not None else len(getattr(switches, "position", ())):
            known = tables[0].image
            if (image is None) != (known is None):
                self._refuse("images of all switches and pairs, or of none", "images of some")
            if image is not None:
                inside = np.isin(image, np.asarray(known))
                self._check("switch_image", inside, "images that have samples")
        return Pairs(tables[0], tables[-1])

    def _checked_table(self, table: str, rows: tuple[int, int]) -> PairCounts:
        columns = {
            name: self.arrays[f"pair_{table}_{name}"]
            for name in _PAIR_COLUMNS
            if f"pair_{table}_{name}" in self.arrays
        }
        lengths = {column.size for column in columns.values()}
        if len(lengths) > 1:
            self._refuse(f"arrays of one length as 'pair_{table}_…'", f"lengths {sorted(lengths)}")
        for name in ("label", "predicted"):
            self._check_classes(f"pair_{table}_{name}", columns[name])
        inside = (columns["count"] > 0) & (columns["count"] <= MOST_SAMPLES)
        self._check(f"pair_{table}_count", inside, f"numbers from 1 to {MOST_SAMPLES}")
        if "weight" in columns:
            weight = columns["weight"]
            slack = self._weight_slack(weight)
            self._check(f"pair_{table}_weight", weight >= slack, "numbers of at least 0")
            self._check_total(f"pair_{table}_weight")
        pairs = PairCounts(**columns)
        right = pairs.label == pairs.predicted
        found = (
            np.bincount(pairs.label[right], pairs.count[right], minlength=self._n_classes),
            np.bincount(pairs.predicted, pairs.count, minlength=self._n_classes),
        )
        expected = [self.arrays["counts"][row] for row in rows]
        if not all(map(np.array_equal, found, expected)):
            self._refuse(f"the numbers of 'counts' as 'pair_{table}_count'", "other numbers")
        return pairs

    def _check_names_and_dtypes(self) -> None:
        kinds = self._kinds()
        unknown = sorted(self.arrays.keys() - kinds.keys())
        if unknown:
            self._refuse(f"no arrays but {', '.join(kinds)}", shown_value(unknown))
        for name, kind in kinds.items():
            if name not in self.arrays:
                self._refuse(f"an array {name!r}", "a file without it")
            array = self.arrays[name]
            n_axes = 2 if name in ("counts", "sums") else 1
            if array.dtype.str not in _DTYPES[kind] or array.ndim != n_axes:
                what = f"{_KINDS[kind]} on {n_axes} {'axis' if n_axes == 1 else 'axes'}"
                self._refuse(f"{what} as {name!r}", f"{array.dtype} of shape {array.shape}")
            if kind == "f":
                self._check(name, np.isfinite(array), "finite numbers")

    def _check_priors(self) -> None:
        for name, least in (("source_prior", "above 0"), ("target_prior", "of at least 0")):
            prior = self.arrays[name]
            if prior.size != self._n_classes or prior.size < 2:
                self._refuse(f"one probability per class as {name!r}", f"shape {prior.shape}")
            good = prior > 0 if name == "source_prior" else prior >= 0
            self._check(name, good, f"numbers {least}")
            if abs(float(prior.sum()) - 1.0) > SUM_TOLERANCE:
                self._refuse(f"a sum of 1 as {name!r}", f"{float(prior.sum()):.9g}")
        if self.bounds[0] < 0.0 and not self.arrays["target_prior"].all():
            self._refuse(
                "bounds of at least 0 where 'target_prior' has a 0", f"{list(self.bounds)}"
            )

    def _check_counts(self) -> None:
        counts, sums = self.arrays["counts"], self.arrays.get("sums")
        shape = (5, self._n_classes)
        for name in ("counts", "sums")[: 1 if sums is None else 2]:
            if self.arrays[name].shape != shape:
                self._refuse(f"shape {shape} as {name!r}", f"{self.arrays[name].shape}")
        good = (counts >= 0) & (counts <= MOST_SAMPLES)
        self._check("counts", good, f"numbers from 0 to {MOST_SAMPLES}")
        kept = self._kept_support()
        for right, predicted in (
            (Table.TRUE_POSITIVE, Table.PREDICTED),
            (Table.TRUE_POSITIVE_AT_0, Table.PREDICTED_AT_0),
        ):
            self._check_table("'counts'", counts[right], counts[predicted], kept)
        if sums is not None:
            self._check("sums", sums >= self._weight_slack(sums), "numbers of at least 0")
            self._check("sums", (sums == 0) | (counts > 0), "0 where 'counts' has 0")
            self._check_total("sums")

    def _kept_support(self) -> Vector:
        """Return the support, 0 for classes that are ruled out."""
        support = self.arrays["counts"][Table.SUPPORT]
        if not self.has_priors:
            return np.asarray(support)
        return np.where(ruled_out(self.arrays["target_prior"], self.bounds), 0, support)

    def _check_table(self, name: str, right: Vector, predicted: Vector, support: Vector) -> None:
        """Refuse more right predictions than predictions or labels, and lost samples."""
        impossible = (right < 0) | (right > np.minimum(predicted, support))
        if impossible.any():
            k = int(np.argmax(impossible))
            self._refuse(
                f"no more right predictions of a class than predictions and labels in {name}",
                f"{right[k]} of {predicted[k]} predictions and {support[k]} labels of class {k}",
            )
        if predicted.sum() != support.sum():
            self._refuse(
                f"as many predictions as labels in {name}",
                f"{int(predicted.sum())} and {int(support.sum())}",
            )

    def _check_exact(self, columns: dict[str, Vector]) -> None:
        self._check_lengths(columns, list(columns))
        self._check_positions("switch_position", columns["position"])
        for name in ("label", "loser", "winner"):
            self._check_classes(f"switch_{name}", columns[name])
        other = columns["winner"] != columns["loser"]
        rising = np.ones(other.shape, bool)
        w = self.arrays.get("direction")
        if self.has_priors:
            with np.errstate(divide="ignore"):
                w = slopes(self.arrays["source_prior"], self.arrays["target_prior"])
        if w is not None:
            rising = w[columns["winner"]] >= w[columns["loser"]] - SLOPE_ROUNDING
        self._check("switch_winner", rising & other, "a class of larger slope than the loser")
        if "count" in columns:
            self._check_positive_counts(columns["count"])
        if "weight" in columns:
            weight = columns["weight"]
            self._check(
                "switch_weight", weight >= self._weight_slack(weight), "numbers of at least 0"
            )
            self._check_total("switch_weight")

    def _check_binned(self, columns: dict[str, Vector]) -> None:
        events = [name for name in columns if name.startswith("event_")]
        self._check_lengths(columns, events)
        self._check_lengths(columns, [name for name in columns if name not in events])
        self._check_classes("switch_event_klass", columns["event_klass"])
        for name in ("event_position", "point"):
            self._check_positions(f"switch_{name}", columns[name])
            rising = np.diff(columns[name], prepend=-np.inf) >= 0
            self._check(f"switch_{name}", rising, "numbers in ascending order")
        self._check_positive_counts(columns["count"])
        for name in ("event_predicted", "event_true_positive"):
            inside = np.abs(columns[name]) <= MOST_SAMPLES
            self._check(f"switch_{name}", inside, f"numbers up to {MOST_SAMPLES}")
        mass = columns["mass"]
        self._check("switch_mass", mass >= self._weight_slack(mass), "numbers of at least 0")
        for name in _BINNED_WEIGHTS:
            self._check_total(f"switch_{name}")
        if "sums" not in self.arrays:
            for plain, weighted in (
                ("event_predicted", "event_weighted_predicted"),
                ("event_true_positive", "event_weighted_true_positive"),
                ("count", "mass"),
            ):
                same = columns[plain] == columns[weighted]
                self._check(f"switch_{weighted}", same, f"the numbers of 'switch_{plain}'")

    def _check_path(self, switches: Switches | BinnedSwitches) -> None:
        """Refuse switches that lead from the counts at the lower bound to impossible ones."""
        counts, (low, high) = self.arrays["counts"], self.bounds
        kept = self._kept_support()

        def after(strength: float) -> tuple[Vector, Vector]:
            gains = switches.gains(strength, self._n_classes)
            right = counts[Table.TRUE_POSITIVE] + gains.true_positive
            return right, counts[Table.PREDICTED] + gains.predicted

        self._check_table("'counts' after all switches", *after(high), kept)
        if low <= 0.0 <= high:
            model = counts[Table.TRUE_POSITIVE_AT_0], counts[Table.PREDICTED_AT_0]
            if not np.array_equal(after(0.0), model):
                self._refuse(
                    "switches that lead to the counts at strength 0", "switches that lead elsewhere"
                )

    def _check_lengths(self, columns: dict[str, Vector], names: list[str]) -> None:
        lengths = {columns[name].size for name in names}
        if len(lengths) > 1:
            called = ", ".join(f"switch_{name}" for name in names)
            self._refuse(f"arrays of one length as {called}", f"lengths {sorted(lengths)}")

    def _check_positions(self, name: str, position: Vector) -> None:
        low, high = self.bounds
        self._check(name, (position >= low) & (position <= high), f"numbers in [{low:g}, {high:g}]")

    def _check_classes(self, name: str, classes: Vector) -> None:
        inside = (classes >= 0) & (classes < self._n_classes)
        self._check(name, inside, f"classes from 0 to {self._n_classes - 1}")

    def _check_positive_counts(self, count: Vector) -> None:
        inside = (count > 0) & (count <= MOST_SAMPLES)
        self._check("switch_count", inside, f"numbers from 1 to {MOST_SAMPLES}")

    def _check_total(self, name: str) -> None:
        """Refuse weights with which a sweep overflows."""
        with np.errstate(over="ignore"):
            total = float(np.abs(self.arrays[name]).sum())
        if total > LARGEST_WEIGHT:
            self._refuse(f"a sum up to {LARGEST_WEIGHT:g} as {name!r}", f"{total:g}")

    def _weight_slack(self, weights: Vector) -> float:
        return -WEIGHT_SLACK * float(np.abs(weights).max(initial=0.0))

    def _check(self, name: str, good: Vector, rule: str) -> None:
        """Refuse the first value of an array that is not good."""
        if not good.all():
            where = first_index(~good)
            self._refuse(f"{rule} as {name!r}", f"{self.arrays[name][where]:g} at {list(where)}")

    def _refuse(self, rule: str, got: str) -> NoReturn:
        raise FileFormatError(
            f"{fspath(self.path)!r} must have {rule}.",
            got=got,
            remedy=["Write it again with ", SAVE, "."],
        )


def pack_sum(total: ProfileSum) -> tuple[dict[str, Any], dict[str, Vector]]:
    """What is known of a sum as JSON can hold it, and its arrays.

    The profiles that wait to be added in pairs are kept apart: sums of fractional weights depend
    on the order of their addition, and this keeps it.
    """
    stacks = [("exact", total._exact), ("binned", total._binned)]
    parts = [(name, rank, profile) for name, stack in stacks for rank, profile in stack]
    if total._tally is not None:
        parts.append(("tally", 0, total._tally.total()))
    header = {
        "exact_up_to": total.exact_up_to,
        "resolution": total.resolution,
        "coarse": total.coarse,
        "waiting": total._waiting,
        "parts": [[name, rank, profile.resolution] for name, rank, profile in parts],
    }
    arrays: dict[str, Vector] = {}
    for i, (_, _, profile) in enumerate(parts):
        if i == 0:
            # Only fits of a prior save their sums.
            assert profile.source_prior is not None and profile.target_prior is not None  # noqa: PT018, S101
            arrays["source_prior"] = profile.source_prior
            arrays["target_prior"] = profile.target_prior
            arrays["bounds"] = np.array(profile.bounds)
        arrays[f"{i}.counts"] = profile._counts
        if profile._sums is not None:
            arrays[f"{i}.sums"] = profile._sums
        arrays |= {f"{i}.{name}": column for name, column in _pair_arrays(profile).items()}
        for name, column in profile._switches.arrays().items():
            arrays[f"{i}.switch.{name}"] = column
    return header, arrays


def unpack_sum(
    header: dict[str, Any],
    arrays: dict[str, Vector],
    *,
    into: ProfileSum | None = None,
    name: str = "checkpoint",
) -> ProfileSum:
    """The sum that :func:`pack_sum` packed, or ``into``, an empty one of the same options.

    What no sum can hold is refused; ``name`` stands for the file in errors.
    """
    header = check_document(name, header, SUM_FIELDS)
    how: dict[str, Any] = {"exact_up_to": header["exact_up_to"], "resolution": header["resolution"]}
    total = ProfileSum(**how) if into is None else into
    total.coarse, total._waiting = header["coarse"], header["waiting"]
    for i, (stack, rank, resolution) in enumerate(header["parts"]):
        profile = _part_of_sum(name, arrays, i, resolution)
        nothing = Switches.none(profile.weighted)
        if total._like is None:
            total._like = profile._like(switches=nothing, resolution=None)
        if stack == "tally":
            total._tally = _Tally(profile, resolution)
            total._tally.add(profile)
        else:
            (total._exact if stack == "exact" else total._binned).append((rank, profile))
    n_waiting = sum(profile.n_switches for _, profile in total._exact)
    if total._waiting != n_waiting:
        raise FileFormatError(
            f"{name!r} must have the number of switches in exact parts, {n_waiting}, as 'waiting'.",
            got=shown_value(total._waiting),
            remedy="Remove it; the fit then starts from the beginning.",
        )
    return total


def _is_part(value: Any) -> bool:
    if not is_list(value, 3):
        return False
    stack, rank, width = value
    in_bins = is_number(width) and width > 0
    known = (stack == "exact" and width is None) or (stack in ("binned", "tally") and in_bins)
    return known and is_integer(rank) and rank >= 0


def _are_parts(value: Any) -> bool:
    if not isinstance(value, list) or not all(map(_is_part, value)):
        return False
    return all(stack != "tally" for stack, _, _ in value[:-1])


SUM_FIELDS = {
    "exact_up_to": Field(
        "null or an integer of at least 0", null_or(lambda value: is_integer(value) and value >= 0)
    ),
    "resolution": Field("a number of at least 0", lambda value: is_number(value) and value >= 0),
    "coarse": Field("true or false", is_boolean),
    "waiting": Field("an integer of at least 0", lambda value: is_integer(value) and value >= 0),
    "parts": Field(
        "a list of [stack, rank, resolution], with the stacks 'exact', 'binned' or, at the end, "
        "'tally'",
        _are_parts,
    ),
}
"""Fields of the header that :func:`pack_sum` makes."""


def _part_of_sum(
    name: str, arrays: dict[str, Vector], i: int, resolution: float | None
) -> StrengthProfile:
    bounds = arrays.get("bounds")
    if bounds is None or not _are_bounds(bounds.tolist()):
        raise FileFormatError(
            f"{name!r} must have two numbers (low, high) with low below high as 'bounds'.",
            got="nothing" if bounds is None else shown_value(bounds.tolist()),
            remedy="Remove it; the fit then starts from the beginning.",
        )
    prefix = f"{i}."
    content = {
        each.removeprefix(prefix).replace("switch.", "switch_"): column
        for each, column in arrays.items()
        if each.startswith(prefix) or each in _PRIORS
    }
    low, high = bounds.tolist()
    return StrengthProfile(**_Content(name, content, (low, high), resolution).checked())
