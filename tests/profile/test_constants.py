from __future__ import annotations

import numpy as np
import pytest

from reprior.metrics.fixed_point import fraction_bits
from reprior.profile import AFTER_ZERO, EQUAL_VALUES


def test_after_zero_is_the_next_number():
    assert np.nextafter(0.0, 1.0) == AFTER_ZERO


@pytest.mark.parametrize("n_classes", [1, 2, 3, 14, 300, 4095, 4096, 8142, 100_000, 10_000_000])
def test_the_sum_over_classes_fits_into_64_bits(n_classes):
    bits = fraction_bits(n_classes)
    assert n_classes * 2**bits < 2**63
    assert bits <= 56


@pytest.mark.parametrize("n_classes", [2, 100, 10_000])
def test_rounding_of_values_is_below_what_counts_as_equal(n_classes):
    # A mean of values that are each rounded by half a unit, of which two are compared.
    assert 2 * 0.5 * 2.0 ** -fraction_bits(n_classes) <= EQUAL_VALUES
