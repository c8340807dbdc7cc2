"""Options of a fusion are refused in words."""

from __future__ import annotations

import numpy as np
import pytest

import reprior as rp
from reprior.exceptions import OptionError
from reprior.files.documents import CHOICES
from reprior.fusion.options import (
    FLATTEN_BY,
    MISSING,
    ORDERS,
    STRENGTHS,
    UNCERTAINTIES,
    check_options,
    fixed_strengths,
    refuse_negative,
)

WORDS = {
    "rule": ({"rule": "max"}, "`rule` must be one of 'noisy_or', 'mean', 'product'. Got 'max'."),
    "order": ({"order": None}, "`order` must be one of 'rebalance_first', 'flatten_first'."),
    "strengths": ({"strengths": "own"}, "`strengths` must be one of 'shared', 'per_modality'."),
    "flatten_by": ({"flatten_by": "row"}, "`flatten_by` must be one of 'image', 'pixel'."),
    "uncertainty": ({"uncertainty": "mutual"}, "Did you mean 'mutual_information'?"),
    "missing": ({"missing": "skip"}, "`missing` must be one of 'error', 'leave_out'."),
    "kind": ({"kind": "logit"}, "Did you mean 'logits'?"),
    "flatten": ({"flatten": "yes"}, "`flatten` must be True or False. Got 'yes'."),
    "strength": ({"strength": "auto"}, "`strength` must be a finite number. Got 'auto'."),
    "nan": ({"strength": {"rgb": np.nan}}, "`strength['rgb']` must be a finite number."),
    "bounds": ({"bounds": (1, 1)}, "an empty range"),
}


@pytest.mark.parametrize("case", WORDS)
def test_words(case):
    options, words = WORDS[case]
    with pytest.raises(OptionError) as caught:
        check_options(rp.ModalityFusion([0.5, 0.5], **options))
    assert words in str(caught.value)


def test_the_defaults_are_fine():
    check_options(rp.ModalityFusion([0.5, 0.5]))
    check_options(rp.ModalityFusion([0.5, 0.5], strength={"rgb": 1}, flatten=np.False_))


def test_files_know_the_same_words():
    named = {"order": ORDERS, "strengths": STRENGTHS, "flatten_by": FLATTEN_BY,
             "uncertainty": UNCERTAINTIES, "missing": MISSING,
             "rule": rp.core.fuse.RULES}  # fmt: skip
    assert {name: CHOICES[name] for name in named} == named


def test_fixed_strengths():
    assert fixed_strengths(None, ("a", "b")) is None
    assert fixed_strengths(0, ("a", "b")) == (0.0, 0.0)
    assert fixed_strengths({"b": 2, "a": 1}, ("a", "b")) == (1.0, 2.0)
    for wrong in ({"a": 1}, {"a": 1, "b": 1, "c": 1}, {}):
        with pytest.raises(OptionError, match="one number for every modality, 'a', 'b'"):
            fixed_strengths(wrong, ("a", "b"))


def test_negative_strengths_need_a_positive_target_prior():
    refuse_negative(-1.0, np.array([0.5, 0.5]))
    refuse_negative(0.0, np.array([1.0, 0.0]))
    with pytest.raises(OptionError, match=r"Got -1 and target_prior\[1\]=0"):
        refuse_negative(-1.0, np.array([1.0, 0.0]))
