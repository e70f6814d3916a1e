// Costs of a design for the actions of rows: its probabilities from the weights of trees, and costs from those.
//
// The same operations in the same order as score_rows in pacbandits.design.large.questions and fill_row in
// pacbandits.allocation; multiply-adds are not fused, so that all numbers equal those of the CPU to the last bit.
//
// Macros: ACTIONS; THREADS of a block, a multiple of 32.

typedef unsigned char u8;
typedef unsigned long long u64;
typedef long long i64;

#define INFINITE __longlong_as_double(0x7ff0000000000000LL)

// Write the best probabilities p (ACTIONS,) for masses x (ACTIONS,) with a floor; return the sum of x / p.
__device__ __forceinline__ double fill_row(const double* x, double floor_, double* p) {
    double total = 0.0;
#pragma unroll
    for (int a = 0; a < ACTIONS; a++) {
        p[a] = sqrt(x[a]);
        total += p[a];
    }
    if (total <= 0.0) {
#pragma unroll
        for (int a = 0; a < ACTIONS; a++) p[a] = 1.0 / ACTIONS;
        return 0.0;
    }
    double scale = total;
    if (floor_ > 0.0) {
        for (int turn = 0; turn < ACTIONS; turn++) {
            double free_ = 0.0;
            int n_free = 0;
#pragma unroll
            for (int a = 0; a < ACTIONS; a++) {
                if (p[a] > floor_ * scale) {
                    free_ += p[a];
                    n_free++;
                }
            }
            const double left = 1.0 - floor_ * (double)(ACTIONS - n_free);
            const double next = n_free > 0 && left > 0.0 ? free_ / left : INFINITE;
            if (!(next > scale * (1.0 + 1e-15))) break;
            scale = next;
        }
    }
    double value = 0.0;
#pragma unroll
    for (int a = 0; a < ACTIONS; a++) {
        const double share = p[a] / scale;
        p[a] = share > floor_ ? share : floor_;
        if (x[a] > 0.0) value += x[a] / p[a];
    }
    return value;
}

// Return noise / p; infinite if an action with noise is never played.
__device__ __forceinline__ double over(double noise, double p) {
    return p > 0.0 ? noise / p : (noise > 0.0 ? INFINITE : 0.0);
}

// out (n, ACTIONS): costs of rows times cost_scale, rounded up. total (1,): the values of all rows are added to it,
// each times value_scale and rounded down. codes (n, stride): bins. pairs (n_pairs, 2): pairs of features, whose
// weights by bins are in table (n_bins, n_bins, ACTIONS); starts (d + 1,): their first bins. always (ACTIONS,): weights
// of all rows. reference (n,): actions. noise (n, ACTIONS), or one row with a pitch of 0.
extern "C" __global__ void __launch_bounds__(THREADS) serve_rows(
    const u8* codes, int stride, i64 n, const int* starts, const int* pairs, int n_pairs, const i64* table, int n_bins,
    const i64* always, const u8* reference, const double* noise, int noise_pitch, double value_floor,
    double design_floor, double cost_scale, double value_scale, i64* out, i64* total) {
    const i64 i = (i64)blockIdx.x * THREADS + threadIdx.x;
    i64 value = 0;
    if (i < n) {
        i64 mass[ACTIONS];
#pragma unroll
        for (int a = 0; a < ACTIONS; a++) mass[a] = always[a];
        for (int pair = 0; pair < n_pairs; pair++) {
            const int j = pairs[2 * pair], k = pairs[2 * pair + 1];
            const i64 at = (i64)(starts[j] + codes[i * stride + j]) * n_bins + starts[k] + codes[i * stride + k];
#pragma unroll
            for (int a = 0; a < ACTIONS; a++) mass[a] += table[at * ACTIONS + a];
        }
        const int q = reference[i];
        const double* variances = noise + i * noise_pitch;
        i64 disagree = 0;
        double x[ACTIONS], p[ACTIONS];
#pragma unroll
        for (int a = 0; a < ACTIONS; a++) {
            if (a != q) disagree += mass[a];
            x[a] = (double)mass[a] * variances[a];
        }
#pragma unroll
        for (int a = 0; a < ACTIONS; a++)
            if (a == q) x[a] = (double)disagree * variances[a];
        value = (i64)floor(fill_row(x, value_floor, p) * value_scale);
        fill_row(x, design_floor, p);
        double at_q = 0.0;
#pragma unroll
        for (int a = 0; a < ACTIONS; a++)
            if (a == q) at_q = over(variances[a], p[a]);
#pragma unroll
        for (int a = 0; a < ACTIONS; a++)
            out[i * ACTIONS + a] = a == q ? 0 : (i64)ceil((over(variances[a], p[a]) + at_q) * cost_scale);
    }
    for (int step = 16; step > 0; step /= 2) value += __shfl_down_sync(0xffffffffu, value, step);
    if (threadIdx.x % 32 == 0 && value) atomicAdd((u64*)total, (u64)value);
}
