// The value of a policy: plain scores of rows, and the log-wealth of bets on its value and on those of single actions.
//
// The same operations in the same order as in pacbandits.certificate.intervals; multiply-adds are not fused, so that
// all integers equal those of the CPU to the last bit.
//
// The bounded quantities have kinds: 0, the policy; 1 + a, its lead over action a; 1 + ACTIONS + a, action a alone.
//
// Macros: ACTIONS; THREADS of a block; for `bounds` also EXPERTS; ROWS of a tile, a multiple of GROUP; GROUP, the rows
// whose factors are multiplied before a logarithm is taken; and REST_BITS.

typedef unsigned char u8;
typedef long long i64;
typedef unsigned long long u64;

#define ROWS_GIVEN                                                                                             \
    const u8 *actions, const double *rewards, const double *repeats, const int *rounds, const double *propensity, \
        const double *propensities, i64 propensity_pitch, const double *predictions, i64 n, const u8 *leaders, \
        int n_leaders, const double *shares, const u8 *counted

__device__ __forceinline__ double between(double value, double low, double high) {
    return fmin(fmax(value, low), high);
}

#ifndef EXPERTS
// out (n, ACTIONS + 1): the doubly robust value of each action, 0 in rounds that do not count, and of the policy; as
// multiples of 1/scale, integers of at most `largest`. leaders (L, n): the actions of each policy; shares (rounds, L);
// counted (rounds,). most: the bound to which an importance-weighted residual is cut.
extern "C" __global__ void __launch_bounds__(THREADS) plain_scores(
    ROWS_GIVEN, double most, double scale, double largest, i64* out) {
    __shared__ double tile[THREADS * ((ACTIONS + 1) | 1)];
    const int pitch = (ACTIONS + 1) | 1;
    double* mine = tile + threadIdx.x * pitch;
    const i64 first = (i64)blockIdx.x * THREADS, i = first + threadIdx.x;
    if (i < n) {
        const double* f = predictions + i * ACTIONS;
        const int a = actions[i], t = rounds[i];
        const double weight = repeats[i], off = between((rewards[i] - f[a]) / propensity[i], -most, most);
        double whole = 0.0;
        if (counted[t]) {
            for (int x = 0; x < ACTIONS; x++) {
                double score = f[x];
                if (x == a) score += off;
                mine[x] = score * weight;
            }
            for (int j = 0; j < n_leaders; j++) {
                const double share = shares[(i64)t * n_leaders + j];
                if (share != 0.0) whole += share * mine[leaders[j * n + i]];
            }
        } else {
            for (int x = 0; x < ACTIONS; x++) mine[x] = 0.0;
        }
        mine[ACTIONS] = whole;
    }
    __syncthreads();
    const int rows = (int)min((i64)THREADS, n - first);
    for (int e = threadIdx.x; e < rows * (ACTIONS + 1); e += THREADS) {
        const double value = tile[e / (ACTIONS + 1) * pitch + e % (ACTIONS + 1)];
        out[first * (ACTIONS + 1) + e] = __double2ll_rn(between(value * scale, -largest, largest));
    }
}

#else
#define KINDS (2 * ACTIONS + 1)
#define SIDES (2 * KINDS)  // each kind, with either sign
#define REST ((double)(1LL << REST_BITS))

__device__ __forceinline__ double positive(double x) { return x > 0.0 ? x : 0.0; }

// Add floor(value scale) to a sum of integers, and the remainder, as a multiple of 1/REST, to another.
__device__ __forceinline__ void add_whole(double value, double scale, i64& wealth, i64& rest) {
    const double fine = floor(value * scale * REST), whole = floor(fine * (1.0 / REST));
    wealth += (i64)whole;
    rest += (i64)(fine - whole * REST);
}

// Add to wealth and rest (KINDS, 2, K), K experts in all of which this kernel takes EXPERTS from `at` on, the log-wealth
// of groups of rows; and to lost (KINDS, 2, K) the rows in which an expert had no room to bet.
// stakes, caps (K, rounds); centres (KINDS, rounds). A thread owns a side, and multiplies the factors of its experts
// over the rows of a group, which are in shared memory; (x, y) of the grid: rows, sides.
extern "C" __global__ void __launch_bounds__(THREADS) bounds(
    ROWS_GIVEN, const double* stakes, const double* caps, const double* centres, int n_rounds, double slack,
    double least, double most, double scale, int at, int experts, int sides, u64* wealth, u64* rest, u64* lost) {
    __shared__ double own[ROWS][ACTIONS], predicted[ROWS][ACTIONS], known[ROWS][ACTIONS];
    __shared__ double reward[ROWS], inverse[ROWS], weight[ROWS], above[ROWS], below[ROWS];
    __shared__ int action[ROWS], round[ROWS];
    const int groups = THREADS / sides, group = threadIdx.x / sides;
    const int side = blockIdx.y * sides + threadIdx.x % sides;
    const int kind = side / 2, b = kind == 0 ? -1 : (kind - 1) % ACTIONS;
    const double sign = side % 2 ? -1.0 : 1.0;
    const bool alone = kind > ACTIONS, works = group < groups && side < SIDES;
    i64 total[EXPERTS], left[EXPERTS];
    int without[EXPERTS];
#pragma unroll
    for (int k = 0; k < EXPERTS; k++) total[k] = 0, left[k] = 0, without[k] = 0;
    for (i64 first = (i64)blockIdx.x * ROWS; first < n; first += (i64)gridDim.x * ROWS) {
        const int rows = (int)min((i64)ROWS, n - first);
        __syncthreads();
        for (int e = threadIdx.x; e < rows * ACTIONS; e += THREADS) {
            const i64 i = first + e / ACTIONS;
            own[e / ACTIONS][e % ACTIONS] = 0.0;
            predicted[e / ACTIONS][e % ACTIONS] = predictions[first * ACTIONS + e];
            known[e / ACTIONS][e % ACTIONS] = propensities[i * propensity_pitch + e % ACTIONS];
        }
        __syncthreads();
        for (int r = threadIdx.x; r < rows; r += THREADS) {
            const i64 i = first + r;
            const int t = rounds[i];
            for (int j = 0; j < n_leaders; j++) own[r][leaders[j * n + i]] += shares[(i64)t * n_leaders + j];
            double more = 0.0, less = 0.0;
            for (int x = 0; x < ACTIONS; x++) {
                if (own[r][x] > 0.0) more += own[r][x];
                else less -= own[r][x];
            }
            above[r] = more, below[r] = less;
            reward[r] = rewards[i], inverse[r] = 1.0 / propensity[i], weight[r] = repeats[i];
            action[r] = actions[i], round[r] = counted[t] ? t : -1;
        }
        __syncthreads();
        for (int start = group * GROUP; works && start < rows; start += groups * GROUP) {
            double product[EXPERTS], held = 0.0;
#pragma unroll
            for (int k = 0; k < EXPERTS; k++) product[k] = 1.0;
            for (int r = start; r < min(start + GROUP, rows); r++) {
                const int t = round[r];
                if (t < 0) continue;
                const double centre = sign * centres[(i64)kind * n_rounds + t];
                double under = sign > 0.0 ? below[r] : above[r];  // the sum of all negative weights
                if (alone) under = sign > 0.0 ? 0.0 : 1.0;
                else if (b >= 0) under = under + (positive(-sign * (own[r][b] - 1.0)) - positive(-sign * own[r][b]));
                double room[EXPERTS], score[EXPERTS];
#pragma unroll
                for (int k = 0; k < EXPERTS; k++) {
                    room[k] = caps[(i64)(at + k) * n_rounds + t] - positive(centre) - under;
                    score[k] = 0.0;
                }
                for (int x = alone ? b : 0; x < (alone ? b + 1 : ACTIONS); x++) {
                    const double u = sign * (alone ? 1.0 : x == b ? own[r][x] - 1.0 : own[r][x]);
                    if (u == 0.0) continue;
                    const double f = predicted[r][x], reach = known[r][x] / fabs(u);
                    const bool hit = x == action[r];
#pragma unroll
                    for (int k = 0; k < EXPERTS; k++) {
                        const double high = room[k] * reach;
                        double kept = u > 0.0 ? fmin(f, high) : fmax(f, 1.0 - high);
                        if (hit) kept += (reward[r] - kept) * inverse[r];
                        score[k] += u * kept;
                    }
                }
                const bool once = weight[r] == 1.0;
                if (once) held += 1.0;
#pragma unroll
                for (int k = 0; k < EXPERTS; k++) {
                    const double factor = 1.0 + stakes[(i64)(at + k) * n_rounds + t] * (score[k] - centre);
                    if (!(room[k] > 0.0 && factor >= least)) without[k] += 1;
                    else if (once) product[k] *= fmin(factor, most);
                    else add_whole(weight[r] * (log_below(fmin(factor, most)) - slack), scale, total[k], left[k]);
                }
            }
            if (held > 0.0) {
#pragma unroll
                for (int k = 0; k < EXPERTS; k++)
                    add_whole(log_below(product[k]) - slack * held, scale, total[k], left[k]);
            }
        }
    }
    if (works) {
#pragma unroll
        for (int k = 0; k < EXPERTS; k++) {
            const i64 place = (i64)side * experts + at + k;
            if (total[k]) atomicAdd(wealth + place, (u64)total[k]);
            if (left[k]) atomicAdd(rest + place, (u64)left[k]);
            if (without[k]) atomicAdd(lost + place, (u64)without[k]);
        }
    }
}
#endif
