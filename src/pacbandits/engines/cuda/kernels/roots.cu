// The value of the best tree of depth 2 below every root, from the sums by the bins of two features, in integers.
//
// Macros: WIDTH, the number of actions.

typedef long long i64;

#define SLOTS ((WIDTH + 31) / 32)
#define LEAST (-0x7fffffffffffffffLL - 1)

__device__ __forceinline__ i64 warp_max(i64 value) {
    for (int step = 16; step > 0; step >>= 1) value = max(value, __shfl_xor_sync(0xffffffffu, value, step));
    return value;
}

// sums (all bins, all bins, WIDTH); first, last (roots,): a root sends the bins from first to last, among all, left;
// run_bins, run_lengths, adding (runs,): the splits below it, as in a layout. out (roots,): at least the value of
// the best tree of depth 1 or less on each side. One block per root, one warp per run.
extern "C" __global__ void root_values(
    const i64* __restrict__ sums, int all_bins, const int* __restrict__ first, const int* __restrict__ last,
    const int* __restrict__ run_bins, const int* __restrict__ run_lengths, const int* __restrict__ adding, int runs,
    const int* __restrict__ bin_starts, const int* __restrict__ root_features, i64* __restrict__ out) {
    __shared__ i64 best[2][32];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    const int from = first[blockIdx.x], to = last[blockIdx.x], j = root_features[blockIdx.x];
    i64 total_left[SLOTS], total_right[SLOTS];
    i64 value_left = LEAST, value_right = LEAST;
#pragma unroll
    for (int s = 0; s < SLOTS; s++) {
        const int a = lane + 32 * s;
        total_left[s] = total_right[s] = 0;
        if (a < WIDTH) {
            for (int b = bin_starts[j]; b < bin_starts[j + 1]; b++) {
                const i64 here = sums[((i64)b * all_bins + b) * WIDTH + a];
                if (from <= b && b <= to) total_left[s] += here; else total_right[s] += here;
            }
            value_left = max(value_left, total_left[s]);
            value_right = max(value_right, total_right[s]);
        }
    }
    value_left = warp_max(value_left);
    value_right = warp_max(value_right);
    for (int r = warp; r < runs; r += warps) {
        i64 left[SLOTS], right[SLOTS];  // of the lower split, on the root's two sides
#pragma unroll
        for (int s = 0; s < SLOTS; s++) left[s] = right[s] = 0;
        for (int t = 0; t < run_lengths[r]; t++) {
            const int c = run_bins[r] + t;
            i64 ll = LEAST, lr = LEAST, rl = LEAST, rr = LEAST;
#pragma unroll
            for (int s = 0; s < SLOTS; s++) {
                const int a = lane + 32 * s;
                if (a < WIDTH) {
                    i64 here = 0;
#pragma unroll 8
                    for (int b = from; b <= to; b++) here += sums[((i64)b * all_bins + c) * WIDTH + a];
                    const i64 there = sums[((i64)c * all_bins + c) * WIDTH + a] - here;
                    left[s] = adding[r] ? left[s] + here : here;
                    right[s] = adding[r] ? right[s] + there : there;
                    ll = max(ll, left[s]);
                    lr = max(lr, total_left[s] - left[s]);
                    rl = max(rl, right[s]);
                    rr = max(rr, total_right[s] - right[s]);
                }
            }
            value_left = max(value_left, warp_max(ll) + warp_max(lr));
            value_right = max(value_right, warp_max(rl) + warp_max(rr));
        }
    }
    if (lane == 0) {
        best[0][warp] = value_left;
        best[1][warp] = value_right;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int w = 1; w < warps; w++) {
            value_left = max(value_left, best[0][w]);
            value_right = max(value_right, best[1][w]);
        }
        out[blockIdx.x] = value_left + value_right;
    }
}
