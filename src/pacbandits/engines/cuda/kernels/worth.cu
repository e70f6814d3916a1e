// How good a policy is: plain scores of rows, and the log-wealth of bets on its value and on those of single actions.
//
// What is bounded goes by kinds: 0, the policy; 1 + a, its lead over action a; 1 + ACTIONS + a, action a alone.
//
// Told when it is compiled: ACTIONS; THREADS of a block; for `bounds` also EXPERTS, and ROWS of a tile.

typedef unsigned char u8;
typedef long long i64;
typedef unsigned long long u64;

#define ROWS_GIVEN                                                                                             \
    const u8 *actions, const double *rewards, const double *repeats, const int *rounds, const double *propensity, \
        const double *propensities, i64 propensity_pitch, const double *predictions, i64 n, const u8 *leaders, \
        int n_leaders, const double *shares, const u8 *counted

__device__ __forceinline__ i64 nearest(double value, double most, double scale) {
    return __double2ll_rn(fmax(fmin(value, most), -most) * scale);
}

#ifndef EXPERTS
// out (n, ACTIONS + 1): the doubly robust value of each action, 0 in rounds that do not count, and of the policy; as
// multiples of 1/scale. leaders (L, n): what each policy does; shares (rounds, L); counted (rounds,).
extern "C" __global__ void __launch_bounds__(THREADS) plain_scores(ROWS_GIVEN, double most, double scale, i64* out) {
    __shared__ double tile[THREADS * ((ACTIONS + 1) | 1)];
    const int pitch = (ACTIONS + 1) | 1;
    double* mine = tile + threadIdx.x * pitch;
    const i64 first = (i64)blockIdx.x * THREADS, i = first + threadIdx.x;
    if (i < n) {
        const double* f = predictions + i * ACTIONS;
        const int a = actions[i], t = rounds[i];
        const double weight = repeats[i], off = (rewards[i] - f[a]) / propensity[i];
        for (int x = 0; x < ACTIONS; x++) mine[x] = f[x] * weight;
        mine[a] += off * weight;
        if (!counted[t])
            for (int x = 0; x < ACTIONS; x++) mine[x] = 0.0;
        double whole = 0.0;
        for (int j = 0; j < n_leaders; j++) {
            const double share = shares[(i64)t * n_leaders + j];
            if (share != 0.0) whole += share * mine[leaders[j * n + i]];
        }
        mine[ACTIONS] = whole;
    }
    __syncthreads();
    const int rows = (int)min((i64)THREADS, n - first);
    for (int e = threadIdx.x; e < rows * (ACTIONS + 1); e += THREADS)
        out[first * (ACTIONS + 1) + e] = nearest(tile[e / (ACTIONS + 1) * pitch + e % (ACTIONS + 1)], most, scale);
}

#else
#define KINDS (2 * ACTIONS + 1)
#define SIDES (2 * KINDS)  // each kind, and it with the other sign

// Add to wealth and lost (KINDS, 2, K), K experts in all of which this kernel takes EXPERTS from `at` on: whole numbers
// floor(scale log-wealth), of what a thread adds up of a tile, less `slack` times the rows it is of; and whether an
// expert had no room to bet.
// stakes (K, rounds); centres (KINDS, rounds). A thread owns a side, and adds up its experts over rows of a tile, which
// lie in shared memory; (x, y) of the grid: rows, sides.
extern "C" __global__ void __launch_bounds__(THREADS) bounds(
    ROWS_GIVEN, const double* stakes, const double* centres, int n_rounds, double share, double scale, double slack,
    int at, int experts, int sides, u64* wealth, u64* lost) {
    __shared__ double own[ROWS][ACTIONS], predicted[ROWS][ACTIONS], known[ROWS][ACTIONS];
    __shared__ double reward[ROWS], inverse[ROWS], weight[ROWS], above[ROWS], below[ROWS];
    __shared__ int action[ROWS], round[ROWS];
    const int groups = THREADS / sides, group = threadIdx.x / sides;
    const int side = blockIdx.y * sides + threadIdx.x % sides;
    const int kind = side / 2, b = kind == 0 ? -1 : (kind - 1) % ACTIONS;
    const double sign = side % 2 ? -1.0 : 1.0;
    const bool alone = kind > ACTIONS, works = group < groups && side < SIDES;
    i64 total[EXPERTS];
    unsigned without = 0;  // a bit an expert
#pragma unroll
    for (int k = 0; k < EXPERTS; k++) total[k] = 0;
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
            for (int x = 0; x < ACTIONS; x++) more += fmax(own[r][x], 0.0), less += fmax(-own[r][x], 0.0);
            above[r] = more, below[r] = less;
            reward[r] = rewards[i], inverse[r] = 1.0 / propensity[i], weight[r] = repeats[i];
            action[r] = actions[i], round[r] = counted[t] ? t : -1;
        }
        __syncthreads();
        double sum[EXPERTS], weighed = 0.0;
#pragma unroll
        for (int k = 0; k < EXPERTS; k++) sum[k] = 0.0;
        for (int r = group; works && r < rows; r += groups) {
            const int t = round[r];
            if (t < 0) continue;
            const double centre = sign * centres[(i64)kind * n_rounds + t];
            double under = sign > 0.0 ? below[r] : above[r];  // what all negative weights come to
            if (alone) under = sign > 0.0 ? 0.0 : 1.0;
            else if (b >= 0) under += fmax(-sign * (own[r][b] - 1.0), 0.0) - fmax(-sign * own[r][b], 0.0);
            double room[EXPERTS], score[EXPERTS];
#pragma unroll
            for (int k = 0; k < EXPERTS; k++) {
                room[k] = share / stakes[(i64)(at + k) * n_rounds + t] - fmax(centre, 0.0) - under;
                score[k] = 0.0;
            }
            for (int x = alone ? b : 0; x < (alone ? b + 1 : ACTIONS); x++) {
                const double u = sign * (alone ? 1.0 : own[r][x] - (x == b ? 1.0 : 0.0));
                if (u == 0.0) continue;
                const double f = predicted[r][x], reach = known[r][x] / fabs(u);
                const bool hit = x == action[r];
                double earned = reward[r];
                if (isnan(earned)) earned = u > 0.0 ? 0.0 : 1.0;
#pragma unroll
                for (int k = 0; k < EXPERTS; k++) {
                    const double most = room[k] * reach;
                    const double kept = u > 0.0 ? fmin(f, most) : fmax(f, 1.0 - most);
                    score[k] += u * (hit ? kept + (earned - kept) * inverse[r] : kept);
                }
            }
#pragma unroll
            for (int k = 0; k < EXPERTS; k++) {
                if (room[k] <= 0.0) without |= 1u << k;
                else sum[k] += weight[r] * log1p(stakes[(i64)(at + k) * n_rounds + t] * (score[k] - centre));
            }
            weighed += weight[r];
        }
        if (weighed > 0.0) {
#pragma unroll
            for (int k = 0; k < EXPERTS; k++) total[k] += (i64)floor((sum[k] - slack * weighed) * scale);
        }
    }
    if (works) {
#pragma unroll
        for (int k = 0; k < EXPERTS; k++) {
            if (total[k]) atomicAdd(wealth + (i64)side * experts + at + k, (u64)total[k]);
            if (without >> k & 1u) atomicAdd(lost + (i64)side * experts + at + k, (u64)1);
        }
    }
}
#endif
