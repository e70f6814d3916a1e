"""A logarithm that is the same to the last bit on every processor and on a CUDA card, and never too large.

Libraries of logarithms differ in the last bit. This one is made of sums, products and one quotient of doubles alone,
which IEEE 754 rounds the same everywhere, in a fixed order and without fused products; `logarithm.cu` has the same
operations in the same order.

For x = 2^k m with m between √½ and √2, up to rounding, and s = (m − 1)/(m + 1),

    log x = k log 2 + 2s + 2s³/3 + 2s⁵/5 + … + 2s²¹/21 + R.

Let y be what is computed of this, and u = 2^−53, which is what an operation may be off by, as a share of its result.

- R: |s| < 0.1716, so that |R| ≤ 2|s|²³/(23(1 − s²)) < 2^−61.
- log m: m − 1 is exact. The sum m + 1, the quotient and the last product are off by u each; of the sum of powers, which
  is between 2 and 2.03, the last two steps are off by u each, and all before them, which come to 0.03, by 0.2u. All
  together are 5.2u of log m, which is at most 0.347 without its sign: 1.8u.
- k log 2: `LN2_HIGH` has 32 bits, so that its product with k is exact. That of `LN2_LOW` is below 2^−22, and off by
  2^−75. Its sum with log m is off by 0.4u.
- x: where it is 1 + b, a sum that was rounded, log x is off by u.
- The sum of both parts is off by u|y|, and so is what is done later: what is taken off here, what a caller takes off,
  and the product with how often a row occurred.

This is less than 4u + 4u|y|, which is taken off.
"""

from __future__ import annotations

import numpy as np

from pacbandits.compiled import kernel

SLACK = 2.0**-51  # of 1 + |log x|
ROOT_HALF = 0.7071067811865476
LN2_HIGH = 0.6931471803691238  # the first 32 bits of log 2
LN2_LOW = 1.9082149292705877e-10  # the rest of it
DIGITS = 52  # of a double after its first, in bits
DIGIT_BITS = 2**DIGITS - 1  # where these stand
HALF_BITS = 1022 << DIGITS  # one half: with other digits, a number from there to 1


@kernel
def log_below(x: float) -> float:
    """A number that is no more than log x, and less by 2^−50 (1 + |log x|) at the most, for 2^−1000 < x < 2^1000.

    −∞ where x is not positive, or not a number.
    """
    if not x > 0.0:
        return -np.inf
    bits = np.float64(x).view(np.int64)
    k = (bits >> DIGITS) - 1022
    m = np.int64(bits & DIGIT_BITS | HALF_BITS).view(np.float64)
    if m < ROOT_HALF:
        m += m
        k -= 1
    s = (m - 1.0) / (m + 1.0)
    z = s * s
    w = z * z
    odd = ((((2.0 / 19.0) * w + 2.0 / 15.0) * w + 2.0 / 11.0) * w + 2.0 / 7.0) * w + 2.0 / 3.0
    even = (((((2.0 / 21.0) * w + 2.0 / 17.0) * w + 2.0 / 13.0) * w + 2.0 / 9.0) * w + 2.0 / 5.0) * w + 2.0
    twos = float(k)
    y = twos * LN2_HIGH + (twos * LN2_LOW + s * (odd * z + even))
    return y - SLACK * (1.0 + abs(y))
