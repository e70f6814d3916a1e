// Scores of every action by rows, as integers: log-wealth, gaps, values. Each row is a context of its own.
//
// The same operations in the same order as in pacbandits.certificate.ledger; multiply-adds are not fused, so that all
// numbers equal those of the CPU to the last bit.
//
// Macros: ACTIONS; SINGLE, 1 if predictions are in single precision; THREADS of a block.

typedef unsigned char u8;
typedef long long i64;
#if SINGLE
typedef float real;
#else
typedef double real;
#endif

#define PITCH (ACTIONS | 1)  // of a row in shared memory: odd, so that rows start in different banks

// The arguments of every kernel, for n rows from `begin` on: played actions (n,); rewards (n,), NaN if pending; repeats
// (n,); rounds (n,); propensities of played actions (n,); those of all actions (n, ACTIONS), or one row for all with a
// pitch of 0; and predictions (n, ACTIONS).
#define ROWS                                                                                                   \
    const u8 *actions, const double *rewards, const double *repeats, const int *rounds, const double *propensity, \
        const double *propensities, i64 propensity_pitch, const real *predictions, i64 begin, i64 n

__device__ __forceinline__ double room_above(double mean, double stake) {
    if (stake > 1e6) return 0.0;
    if (stake < 1e-6) return 1.0 - mean;
    const double rest = 1.0 - stake;
    const double left = 0.5 * (rest + sqrt(rest * rest + 4.0 * mean * stake));
    return fmax(fmin((1.0 - left) / stake, 1.0 - mean), 0.0);
}

// Write rows of shared memory (THREADS, PITCH) to out (n, pitch), from column `at` on.
__device__ __forceinline__ void write_out(const i64* tile, i64 first, i64 n, i64* out, int pitch, int at) {
    const int rows = (int)min((i64)THREADS, n - first);
    for (int e = threadIdx.x; e < rows * ACTIONS; e += THREADS)
        out[(first + e / ACTIONS) * pitch + at + e % ACTIONS] = tile[(e / ACTIONS) * PITCH + e % ACTIONS];
}

// out (n, ACTIONS): floor(scale * w log(1 + bet (epsilon - Z))), of rows from `begin` on; 0 without a bet.
// leaders (L, pitch): the actions of each leader; turns (rounds,), moves (rounds, L), bets (rounds,).
// sizes (n,): raised to the largest absolute score of a row, shifted right by `shift` bits.
extern "C" __global__ void __launch_bounds__(THREADS) log_wealth(
    ROWS, const u8* leaders, i64 leader_pitch, int n_leaders, const int* turns,
    const double* moves, const double* bets, double share, double epsilon, double scale, int shift,
    i64* out, i64* sizes) {
    __shared__ i64 tile[THREADS * PITCH];
    double* high = reinterpret_cast<double*>(tile) + threadIdx.x * PITCH;
    i64* scores = tile + threadIdx.x * PITCH;
    const i64 first = (i64)blockIdx.x * THREADS, here = first + threadIdx.x, i = begin + here;
    if (here < n) {
        const int t = rounds[i];
        const double bet = bets[t];
        const int turn = turns[t];
        if (bet == 0.0 || turn < 0) {
            for (int x = 0; x < ACTIONS; x++) scores[x] = 0;
        } else {
            const double* p = propensities + i * propensity_pitch;
            const real* f = predictions + i * ACTIONS;
            const int q = leaders[turn * leader_pitch + i], a = actions[i];
            double r = rewards[i];
            if (isnan(r)) r = a == q ? 0.0 : 1.0;
            double moved = 0.0;
            for (int j = 0; j < n_leaders; j++) {
                const double move = moves[(i64)t * n_leaders + j];
                if (move > 0.0 && leaders[j * leader_pitch + i] != q) moved += move;
            }
            const double cap = fmax(share / (bet * (1.0 + moved)) - 1.0, 0.0);
            const double played = propensity[i], weight = repeats[i];
            const double low = fmin(room_above(1.0 - (double)f[q], bet / fmax(p[q], 1e-12)), p[q] * cap);
            const double base = low + (a == q ? (r - low) / played : 0.0);
            for (int x = 0; x < ACTIONS; x++) {
                const double room = fmin(room_above((double)f[x], bet / fmax(p[x], 1e-12)), p[x] * cap);
                double value = 1.0 - room;
                if (a == x) value += (room - (1.0 - r)) / played;
                high[x] = x == q ? base : value;
            }
            double gained = epsilon;
            if (moved > 0.0)
                for (int j = 0; j < n_leaders; j++)
                    gained -= moves[(i64)t * n_leaders + j] * (high[leaders[j * leader_pitch + i]] - base);
            i64 largest = 0;
            for (int x = 0; x < ACTIONS; x++) {
                const double wealth = weight * log_below(1.0 + bet * (gained - (high[x] - base)));
                const i64 score = (i64)floor(wealth * scale);
                scores[x] = score;
                largest = max(largest, (score < 0 ? -score : score) >> shift);
            }
            sizes[here] = max(sizes[here], largest);
        }
    }
    __syncthreads();
    write_out(tile, first, n, out, ACTIONS, 0);
}

__device__ __forceinline__ i64 nearest(double value, double most, double scale) {
    return __double2ll_rn(fmax(fmin(value, most), -most) * scale);
}

// out (n, 2 ACTIONS): doubly robust gaps to the reference (n,) as multiples of 1/scale, then their squares as those of
// 1/square_scale, each cut to at most `most`; 0 for rows of round `before` and later.
extern "C" __global__ void __launch_bounds__(THREADS) gaps(
    ROWS, const u8* reference, int before, double most, double scale, double most_square,
    double square_scale, i64* out) {
    __shared__ i64 tile[THREADS * PITCH];
    i64* mine = tile + threadIdx.x * PITCH;
    const i64 first = (i64)blockIdx.x * THREADS, here = first + threadIdx.x, i = begin + here;
    for (int squared = 0; squared < 2; squared++) {
        if (here < n) {
            const real* f = predictions + i * ACTIONS;
            const int q = reference[i], a = actions[i];
            const double r = rewards[i], played = propensity[i], weight = repeats[i];
            const bool counts = rounds[i] < before;
            const double base = (double)f[q] + (a == q ? (r - (double)f[q]) / played : 0.0);
            for (int x = 0; x < ACTIONS; x++) {
                const double gap = base - (double)f[x] - (a == x ? (r - (double)f[x]) / played : 0.0);
                if (!counts || x == q) mine[x] = 0;
                else if (squared) mine[x] = nearest(weight * (gap * gap), most_square, square_scale);
                else mine[x] = nearest(weight * gap, most, scale);
            }
        }
        __syncthreads();
        write_out(tile, first, n, out, 2 * ACTIONS, squared * ACTIONS);
        __syncthreads();
    }
}

// out (n, ACTIONS): doubly robust values as multiples of 1/scale, cut to at most `most`; rows weighted (n,).
extern "C" __global__ void __launch_bounds__(THREADS) values(
    ROWS, const double* weights, double most, double scale, i64* out) {
    __shared__ i64 tile[THREADS * PITCH];
    const i64 first = (i64)blockIdx.x * THREADS, here = first + threadIdx.x, i = begin + here;
    if (here < n) {
        i64* mine = tile + threadIdx.x * PITCH;
        const real* f = predictions + i * ACTIONS;
        const int a = actions[i];
        const double weight = weights[i], r = rewards[i], played = propensity[i];
        for (int x = 0; x < ACTIONS; x++) {
            double value = weight * (double)f[x];
            if (x == a) value += weight * (r - (double)f[x]) / played;
            mine[x] = nearest(value, most, scale);
        }
    }
    __syncthreads();
    write_out(tile, first, n, out, ACTIONS, 0);
}
