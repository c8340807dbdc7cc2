"""The black-box searches against brute force, the printed Algorithm 2, and the study's run file."""

from __future__ import annotations

import dataclasses
import functools
import importlib.util
import json
import math
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from reprior import SearchResult, search_strength
from reprior.exceptions import OptionError, RepriorError
from reprior.profile import StrengthProfile
from reprior.tuning import METHODS

DOCS = Path(__file__).parents[2] / "docs"
N_DEFAULT = 21
"""Grid points of the default range: 0, 0.1, …, 2."""

Metric = Callable[[float], float]


@pytest.fixture(scope="module")
def study() -> ModuleType:
    """Import the study's script, which lives outside the package."""
    spec = importlib.util.spec_from_file_location(
        "binary_search_study", DOCS / "scripts" / "binary_search_study.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def parabola(peak: float) -> Metric:
    return lambda strength: -((strength - peak) ** 2)


def table(values: Sequence[float], first: int = 0, precision: float = 0.1) -> Metric:
    """A metric that has ``values`` at (first + i)·precision, and is asked for nothing else."""
    known = {round((first + i) * precision, 9): value for i, value in enumerate(values)}
    return lambda strength: known[round(strength, 9)]


def brute_force(values: Sequence[float], first: int = 0) -> tuple[float, int]:
    """Best value and its index: ties to the smaller |λ|, then to the positive one."""
    ranked = [(value, -abs(first + i), first + i) for i, value in enumerate(values)]
    value, _, index = max(ranked)
    return value, index


def most_calls(n_points: float) -> float:
    return 3 + 3 * math.log2(n_points)


numbers = st.floats(-1, 1, allow_nan=False)
# Few different values, so that plateaus and ties are common.
coarse = st.integers(0, 3).map(float)
curves = st.lists(numbers | coarse, min_size=2, max_size=200)


@st.composite
def peaked(draw: st.DrawFn) -> list[float]:
    """Values that strictly rise, then strictly fall; either part may be missing."""
    up = draw(st.lists(st.integers(1, 9), max_size=60))
    down = draw(st.lists(st.integers(1, 9), max_size=60, min_size=0 if up else 1))
    rise = np.cumsum([0, *up])
    return [float(v) for v in (*rise, *(rise[-1] - np.cumsum(down)))]


def over(values: Sequence[float], first: int = 0, **options: Any) -> SearchResult:
    """Search the whole of a table and nothing else."""
    low, high = first / 10, (first + len(values) - 1) / 10
    metric = table(values, first)
    return search_strength(metric, low=low, high=high, **{"extend": False, **options})


# ------------------------------------------------------------------------------- identities


@given(curves, st.integers(-100, 20))
def test_grid_is_brute_force(values: list[float], first: int) -> None:
    found = over(values, first, method="grid")
    value, index = brute_force(values, first)
    assert (found.value, found.strength) == (value, index / 10)
    assert found.n_evaluations == len(values)
    assert [v for _, v in found.evaluated] == values
    assert found.at_bound == (index in (first, first + len(values) - 1))


@given(peaked(), st.integers(-100, 20))
def test_binary_finds_the_best_of_the_grid_where_there_is_one_peak(
    values: list[float], first: int
) -> None:
    assert over(values, first).strength == over(values, first, method="grid").strength


@given(st.floats(-3, 5), st.floats(0.01, 0.5), st.floats(0.1, 10))
def test_binary_finds_the_best_of_the_grid_on_concave_curves(
    peak: float, precision: float, sharpness: float
) -> None:
    def metric(strength: float) -> float:
        return -sharpness * (strength - peak) ** 2 - 0.1 * strength

    options: dict[str, Any] = {"precision": precision, "extend": False}
    binary, grid = (search_strength(metric, method=method, **options) for method in METHODS)
    assert binary.value == grid.value


@given(curves, st.integers(-100, 20))
def test_binary_ends_soon_stays_inside_and_returns_the_best_it_saw(
    values: list[float], first: int
) -> None:
    found = over(values, first)  # the table raises KeyError for anything outside
    assert found.n_evaluations == len(found.evaluated) <= most_calls(len(values))
    assert list(found.evaluated) == sorted(found.evaluated)
    assert (found.strength, found.value) in found.evaluated
    assert found.value == max(value for _, value in found.evaluated)
    assert values[0] <= found.value
    assert values[-1] <= found.value


@given(curves)
def test_binary_is_never_worse_than_the_uncorrected_model(values: list[float]) -> None:
    first = -(len(values) // 2)
    assert over(values, first).value >= values[-first]


@given(curves, st.sampled_from(METHODS))
def test_each_strength_is_evaluated_once(values: list[float], method: str) -> None:
    asked: list[float] = []
    metric = table(values)

    def counted(strength: float) -> float:
        asked.append(strength)
        return metric(strength)

    high = (len(values) - 1) / 10
    found = search_strength(counted, high=high, method=method, extend=False)
    assert sorted(asked) == [strength for strength, _ in found.evaluated]
    assert len(asked) == found.n_evaluations


@given(st.lists(numbers | coarse, min_size=81, max_size=81), st.sampled_from(METHODS))
def test_extension_ends_soon_at_most_at_the_cap(values: list[float], method: str) -> None:
    found = search_strength(table(values), extend=True, method=method)
    assert all(0 <= strength <= 8 for strength, _ in found.evaluated)
    assert found.at_bound or found.strength < max(found.evaluated)[0]
    if method == "binary":
        assert found.n_evaluations <= most_calls(N_DEFAULT) + most_calls(81)


@given(st.floats(2.0, 8.0))
def test_extension_finds_a_peak_beyond_the_range(peak: float) -> None:
    found = search_strength(parabola(peak))
    whole = search_strength(parabola(peak), method="grid", high=8.0)
    assert found.value == whole.value


@given(
    st.decimals(-3, 3, places=3),
    st.decimals("0.001", 3, places=3),
    st.decimals("0.001", 1, places=3),
)
def test_grid_points_are_the_decimals_within_the_bounds(
    low: Any, width: Any, precision: Any
) -> None:
    high = low + width
    start = math.floor(low / precision) - 1
    inside = [k for k in range(start, start + 6010) if low <= k * precision <= high]
    assume(len(inside) >= 2)
    found = search_strength(
        parabola(0.0), low=float(low), high=float(high), precision=float(precision), method="grid"
    )
    assert [s for s, _ in found.evaluated] == [float(k * precision) for k in inside]


# ------------------------------------------------------------------------------------- totality


@pytest.mark.parametrize("method", METHODS)
def test_a_flat_metric_ends_at_no_correction(method: str) -> None:
    found = search_strength(lambda _: 0.5, method=method, extend=True)
    assert (found.strength, found.value, found.at_bound) == (0.0, 0.5, True)
    assert max(found.evaluated)[0] == 2.0


@pytest.mark.parametrize(
    "values, first, expected",
    [
        ([1.0, 1.0, 1.0], -1, 0.0),
        ([1.0, 0.0, 1.0], -1, 0.1),  # of −λ and λ: λ
        ([0.0, 1.0, 1.0, 1.0, 0.0], 0, 0.1),
        ([0.0, 1.0, 1.0, 1.0, 0.0], -4, -0.1),
    ],
)
@pytest.mark.parametrize("method", METHODS)
def test_ties_go_towards_0(values: list[float], first: int, expected: float, method: str) -> None:
    assert over(values, first, method=method).strength == expected


def test_a_rising_metric_is_followed_to_the_cap() -> None:
    found = search_strength(lambda strength: strength)
    assert (found.strength, found.value, found.at_bound) == (8.0, 8.0, True)
    assert {4.0, 8.0} <= {strength for strength, _ in found.evaluated}


def test_a_rising_metric_ends_at_the_range_unless_extended() -> None:
    found = search_strength(lambda strength: strength, extend=False)
    assert (found.strength, found.at_bound, max(found.evaluated)[0]) == (2.0, True, 2.0)
    whole = search_strength(lambda strength: strength, method="grid")
    assert (whole.strength, whole.n_evaluations) == (2.0, N_DEFAULT)


def test_a_grid_is_extended_when_asked() -> None:
    found = search_strength(lambda strength: min(strength, 3.0), method="grid", extend=True)
    assert (found.strength, found.n_evaluations, found.at_bound) == (3.0, 41, False)


def test_a_falling_metric_is_never_followed_below_the_range() -> None:
    found = search_strength(lambda strength: -strength)
    assert (found.strength, found.at_bound, min(found.evaluated)[0]) == (0.0, True, 0.0)


@pytest.mark.parametrize(
    "low, high, expected",
    [
        (0.0, 1.5, 8.0),  # 1.5, 3, 6, 8
        (0.0, 8.0, 8.0),
        (0.0, 10.0, 10.0),
        (-1.0, 0.0, 0.0),  # twice 0 is 0
        (-2.0, -1.0, -1.0),
        (-1.0, 0.04, 8.0),  # several doublings before there is a new grid point
    ],
)
def test_how_far_a_range_is_extended(low: float, high: float, expected: float) -> None:
    assert search_strength(lambda strength: strength, low=low, high=high).strength == expected


def test_a_noisy_metric_ends() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        found = search_strength(lambda _: rng.normal(), precision=0.001)
        assert found.n_evaluations <= 2 * most_calls(8001)


@pytest.mark.parametrize("precision", [1e-1, 1e-3, 1e-6, 1e-12])
def test_evaluations_grow_with_the_logarithm(precision: float) -> None:
    found = search_strength(parabola(1.234567), precision=precision)
    assert found.n_evaluations <= most_calls(2 / precision)
    assert abs(found.strength - 1.234567) <= precision


def test_infinite_values_are_compared() -> None:
    found = search_strength(lambda strength: -math.inf if strength > 0.5 else strength)
    assert (found.strength, found.value) == (0.5, 0.5)


def test_a_number_of_any_kind_is_a_value() -> None:
    assert search_strength(np.float32, extend=False).value == 2.0
    assert search_strength(lambda strength: np.asarray(1.0)).value == 1.0
    assert search_strength(lambda strength: strength > 0.1).value == 1.0


def test_an_error_of_the_metric_passes_through() -> None:
    with pytest.raises(ZeroDivisionError):
        search_strength(lambda strength: 1 / strength)


def test_result_is_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        search_strength(parabola(1.0)).strength = 2.0  # type: ignore[misc] # frozen: that is the test


def test_search_of_a_profile_is_at_most_its_best() -> None:
    rng = np.random.default_rng(1)
    labels = rng.integers(4, size=300)
    logits = rng.normal(size=(300, 4)) + np.eye(4)[labels] + np.log([8, 4, 2, 1])
    prior = np.array([8, 4, 2, 1]) / 15
    profile = StrengthProfile.from_scores(logits, labels, source_prior=prior)
    for metric in ("balanced_accuracy", "mean_iou"):
        black_box = functools.partial(profile.evaluate, metric)
        binary, grid = (
            search_strength(black_box, method=method, extend=False) for method in METHODS
        )
        assert binary.value <= grid.value <= profile.best(metric).value


# ------------------------------------------------------------------------- Algorithm 2 as printed


def asked_by_the_printed(study: ModuleType, metric: Metric) -> list[float]:
    """What the printed algorithm evaluates, also where it does not end."""
    asked: list[float] = []

    def noted(strength: float) -> float:
        asked.append(strength)
        return metric(strength)

    study.ends(noted)
    return asked


@pytest.mark.parametrize("peak", [0.3, 0.77, 1.0, 1.5, 1.83])
def test_printed_and_ours_agree_where_it_works(study: ModuleType, peak: float) -> None:
    found = search_strength(parabola(peak)).strength
    # Its range is halved in floats, so its answers are not multiples of the precision.
    assert study.printed_search(parabola(peak)) == pytest.approx(found, abs=0.1)


@pytest.mark.parametrize("peak", [1.2, 1.45, 1.7, 1.95])
def test_printed_does_not_end_on_concave_curves_with_a_tie(study: ModuleType, peak: float) -> None:
    assert not study.ends(parabola(peak))
    assert search_strength(parabola(peak)).value == pytest.approx(0.0, abs=0.05**2 + 1e-12)


@pytest.mark.parametrize(
    "metric",
    [lambda _: 0.5, lambda strength: min(strength, 1.0), lambda strength: strength],
    ids=["flat", "saturated", "rising"],
)
def test_printed_widens_its_range_for_ever(study: ModuleType, metric: Metric) -> None:
    assert max(asked_by_the_printed(study, metric)) > 40
    assert max(search_strength(metric).evaluated)[0] <= 8


def test_printed_does_not_end_on_a_staircase(study: ModuleType) -> None:
    def stairs(strength: float) -> float:
        return -abs(round(strength * 2) / 2 - 1)

    assert not study.ends(stairs)
    assert search_strength(stairs).value == 0.0


def test_printed_leaves_the_range(study: ModuleType) -> None:
    assert min(asked_by_the_printed(study, parabola(0.06))) < 0
    assert min(search_strength(parabola(0.06)).evaluated)[0] == 0.0


def test_printed_gives_up_on_one_noisy_step(study: ModuleType) -> None:
    def dented(strength: float) -> float:
        return parabola(1.0)(strength) - 0.3 * (strength == 0.1)

    assert study.printed_search(dented) == 0.0
    assert search_strength(dented).strength == 1.0


# ---------------------------------------------------------------------------------------- words


@pytest.mark.parametrize(
    "arguments, words",
    [
        (
            {"metric": "mean_iou"},
            "`metric` must be a function that takes a strength and returns a number. Got "
            "'mean_iou'. Pass for example lambda strength: profile.evaluate('mean_iou', strength)",
        ),
        ({"metric": None}, "or use profile.best('balanced_accuracy'), which is exact."),
        (
            {"metric": lambda s: math.nan if s == 2.0 else s},
            "`metric` must return a number, not NaN. Got metric(2.0)=nan. Return -inf for a "
            "strength that must not be chosen.",
        ),
        ({"metric": lambda _: None}, "Got metric(0.0)=None."),
        ({"metric": lambda _: "0.5"}, "Got metric(0.0)='0.5'."),
        ({"metric": lambda _: np.ones(2)}, "Got metric(0.0)=array([1., 1.])."),
        (
            {"method": "binari"},
            "`method` must be one of 'binary', 'grid'. Got 'binari'. Did you mean 'binary'?",
        ),
        ({"method": None}, "`method` must be one of 'binary', 'grid'. Got None."),
        ({"precision": 0}, "`precision` must be a finite number above 0. Got 0."),
        ({"precision": -0.1}, "`precision` must be a finite number above 0. Got -0.1."),
        ({"precision": math.nan}, "`precision` must be a finite number above 0. Got nan."),
        ({"precision": "fine"}, "`precision` must be a finite number above 0. Got 'fine'."),
        (
            {"precision": 3.0},
            "`precision` must leave at least two multiples of it between `low` and `high`. Got "
            "precision=3 for 0 to 2. Pass a smaller precision.",
        ),
        ({"low": 0.11, "high": 0.29}, "Got precision=0.1 for 0.11 to 0.29."),
        (
            {"low": 2.0, "high": 0.0},
            "`low` must be below `high`. Got low=2, high=0: bounds reversed. Pass low=0, high=2.",
        ),
        (
            {"low": 1.0, "high": 1.0},
            "Got low=1, high=1: an empty range. Pass two different numbers.",
        ),
        ({"low": -math.inf}, "`low` must be a finite number. Got -inf."),
        ({"high": None}, "`high` must be a finite number. Got None."),
        ({"extend": "yes"}, "`extend` must be True, False or None. Got 'yes'. Leave it out."),
    ],
)
def test_words(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(OptionError) as caught:
        search_strength(**{"metric": parabola(1.0), **arguments})
    assert words in str(caught.value)
    assert isinstance(caught.value, RepriorError)


# -------------------------------------------------------------------------------------- the study


def test_study_runs(study: ModuleType, tmp_path: Path) -> None:
    config = study.Config(
        datasets=("wine",),
        models=("logistic regression", "naive Bayes"),
        ratios=(20.0,),
        seeds=(0,),
    )
    run = study.run(config)
    rows = [dict(zip(run["columns"], row, strict=True)) for row in run["rows"]]
    assert len(rows) == 2 * 2 * 4
    study.write_run(run, tmp_path / "run.json")
    assert json.loads((tmp_path / "run.json").read_text(encoding="utf-8")) == run
    page = study.render(f"# A\n{study.START}\nold\n{study.END}\nB\n", run)
    assert "| `mean_iou` | 4 |" in page
    assert "old" not in page
    assert study.render(page, run) == page


@pytest.mark.parametrize(
    "values, shape",
    [
        ([1, 2, 3, 2], (True, True, True)),
        ([1, 2, 4, 3, 0], (False, True, True)),
        ([1, 2, 2, 1], (True, True, False)),
        ([1, 2, 2, 3], (False, True, False)),
        ([1, 2, 1, 2], (False, False, False)),
        ([1, 1, 1], (True, True, False)),
        ([3, 2, 1], (True, True, True)),
    ],
)
def test_shape_of_a_curve(study: ModuleType, values: list[int], shape: tuple[bool, ...]) -> None:
    assert study.shape_of(values) == shape


def test_run_file_obeys_the_theory(study: ModuleType) -> None:
    run = json.loads(study.RUN_FILE.read_text(encoding="utf-8"))
    for row in run["rows"]:
        row = study.Row(**dict(zip(run["columns"], row, strict=True)))
        assert min(row.grid_loss, row.exact_loss, row.grid_exact_loss) >= 0
        assert row.exact_loss == pytest.approx(row.grid_loss + row.grid_exact_loss, abs=1e-5)
        assert row.unimodal or not row.concave
        assert row.grid_loss == 0 or not (row.concave or row.strict)
        assert row.n_evaluations <= most_calls(N_DEFAULT)


def test_page_is_what_the_run_file_says(study: ModuleType) -> None:
    run = json.loads(study.RUN_FILE.read_text(encoding="utf-8"))
    page = study.PAGE.read_text(encoding="utf-8")
    assert study.render(page, run) == page
    assert study.FIGURE.is_file()
