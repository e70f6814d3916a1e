"""The logarithm that processors and cards have in common: how far it is off, and that it is never too large."""

from __future__ import annotations

import math
from decimal import Context, Decimal

import numpy as np
import pytest

from pacbandits.arrays import FloatArray
from pacbandits.certificate.intervals import GROUP_ROWS, MAX_FACTOR, MIN_FACTOR, rounding_of
from pacbandits.certificate.ledger import LN2_HIGH, LN2_LOW, ROOT_HALF, log_below
from pacbandits.engines.cuda.card import SOURCES
from tests.engines.compiled_kernels import compile_kernel, needs_compiler

U = 2.0**-53
PRECISE = Context(prec=60)


def some_numbers() -> FloatArray:
    """Positive ones: near 1 and far from it, and about the ends of the two pieces."""
    rng = np.random.default_rng(0)
    near = 1.0 + np.ldexp(rng.uniform(-1.0, 1.0, 2000), -rng.integers(0, 54, 2000))
    ends = np.concatenate([end * (1.0 + U * 2.0 * np.arange(-20, 21)) for end in (ROOT_HALF, 0.5, 1.0, 2 * ROOT_HALF)])
    drawn = (np.exp(rng.uniform(-690.0, 690.0, 1000)), np.exp(rng.normal(size=2000)), rng.uniform(0.1, 3.0, 2000))
    made = np.concatenate([near, ends, *drawn, np.exp2(np.arange(-999.0, 1000.0, 7.0))])
    return made[made > 0]


@pytest.mark.thorough
def test_logarithms_are_never_too_large_and_hardly_less():
    """The proof has 3.2u + 2u|log x| for what is computed of a number that was not rounded; 4u + 4u|log x| is off."""
    for x in some_numbers():
        true = PRECISE.ln(Decimal(float(x)))
        off, size = float(Decimal(log_below(float(x))) - true), 1.0 + abs(float(true))
        assert -7.5 * U * size <= off <= -0.8 * U * size


def test_sums_that_were_rounded_are_allowed_for():
    """log(1 + b), where 1 + b is not a double: what is proven by it holds for the b that there is."""
    rng = np.random.default_rng(1)
    for b in np.ldexp(rng.uniform(-0.9, 1.0, 3000), -rng.integers(0, 60, 3000)):
        true = PRECISE.ln(PRECISE.add(Decimal(1), Decimal(float(b))))
        assert Decimal(log_below(1.0 + float(b))) <= true


@pytest.mark.thorough
def test_products_of_factors_are_allowed_for():
    """What is taken off a row is more than its factor's rounding; no product of a group leaves the range of doubles."""
    assert MIN_FACTOR**GROUP_ROWS > 2.0**-1000
    assert MAX_FACTOR**GROUP_ROWS < 2.0**1000
    rng = np.random.default_rng(2)
    for n_actions in (2, 190):
        for _ in range(300):
            factors = rng.choice([rng.uniform(0.1, 1.0), rng.uniform(1.0, 3.0), 1e9], size=GROUP_ROWS)
            off = 1.0 + rng.choice([-1.0, 1.0], GROUP_ROWS) * 32 * (n_actions + 5) * U  # as much as the proof allows
            product = 1.0
            for factor in factors * off:
                product *= float(factor)
            true = sum(PRECISE.ln(Decimal(float(factor))) for factor in factors)
            assert Decimal(log_below(product) - rounding_of(n_actions) * GROUP_ROWS) <= true


def test_what_has_no_logarithm_is_minus_infinity():
    assert [log_below(x) for x in (0.0, -0.0, -1.0, -math.inf, math.nan)] == [-math.inf] * 5


def test_the_first_part_of_log_two_is_short():
    """So that its product with a whole number of 11 bits is exact."""
    mantissa = int(math.ldexp(LN2_HIGH, 53))
    assert mantissa % 2**21 == 0
    two = PRECISE.ln(Decimal(2))
    assert abs(Decimal(LN2_HIGH) + Decimal(LN2_LOW) - two) < Decimal(2) ** -85


@pytest.mark.thorough
@needs_compiler
def test_the_logarithm_of_a_card_has_the_same_bits():
    source = (SOURCES / "logarithm.cu").read_text(encoding="utf-8") + (
        'extern "C" __global__ void logs(const double* x, double* out, int n) {'
        " for (int i = 0; i < n; i++) out[i] = log_below(x[i]); }"
    )
    given = np.concatenate([some_numbers(), [0.0, -2.0, math.nan, math.inf, 5e-324]])
    out = np.empty_like(given)
    compile_kernel(source, "logs")((1,), (1,), (given, out, np.int32(len(given))))
    np.testing.assert_array_equal(out.view(np.int64), np.array([log_below(float(x)) for x in given]).view(np.int64))
    assert out[0] == pytest.approx(math.log(given[0]), abs=1e-15)
