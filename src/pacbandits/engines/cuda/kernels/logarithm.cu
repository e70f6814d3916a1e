// The logarithm of pacbandits.certificate.ledger: the same operations in the same order, none of them fused, so that
// the result is the same to the last bit. That module bounds its error and shows that it is never too large.
//
// This source is put before the kernels that take logarithms; see card.py.

__device__ __forceinline__ double log_below(double x) {
    if (!(x > 0.0)) return __longlong_as_double((long long)0xfff0000000000000ULL);  // minus infinity
    const long long bits = __double_as_longlong(x);
    int k = (int)(bits >> 52) - 1022;
    double m = __longlong_as_double((bits & 0xfffffffffffffLL) | 0x3fe0000000000000LL);
    if (m < 0.7071067811865476) {
        m += m;
        k -= 1;
    }
    const double s = (m - 1.0) / (m + 1.0), z = s * s, w = z * z;
    const double odd = ((((2.0 / 19.0) * w + 2.0 / 15.0) * w + 2.0 / 11.0) * w + 2.0 / 7.0) * w + 2.0 / 3.0;
    const double even =
        (((((2.0 / 21.0) * w + 2.0 / 17.0) * w + 2.0 / 13.0) * w + 2.0 / 9.0) * w + 2.0 / 5.0) * w + 2.0;
    const double twos = (double)k;
    const double y = twos * 0.6931471803691238 + (twos * 1.9082149292705877e-10 + s * (odd * z + even));
    return y - 4.440892098500626e-16 * (1.0 + fabs(y));  // 2^-51
}
