from __future__ import annotations

import numpy as np
import pytest

from reprior.tuning.constants import AFTER_ZERO, fraction_bits


def test_after_zero_is_the_next_number():
    assert np.nextafter(0.0, 1.0) == AFTER_ZERO


@pytest.mark.parametrize("n_classes", [1, 2, 3, 14, 300, 4095, 4096, 8142, 100_000, 10_000_000])
def test_the_sum_over_classes_fits_into_64_bits(n_classes):
    bits = fraction_bits(n_classes)
    assert n_classes * 2**bits < 2**63
    assert bits <= 50


def test_values_of_few_classes_keep_50_bits():
    assert fraction_bits(1000) == 50
