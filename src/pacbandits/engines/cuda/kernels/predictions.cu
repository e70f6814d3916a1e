// Predictions of fitted step models for every action: means, regions of trees, sums of one step per feature.
//
// The same operations in the same order as in pacbandits.rewards; multiply-adds are not fused.
//
// Macros: ACTIONS; THREADS of a block.

typedef unsigned char u8;
typedef long long i64;

#define PITCH (ACTIONS | 1)  // of a row in shared memory: odd, so that rows start in different banks
#define CHUNK (ACTIONS < 16 ? ACTIONS : 16)  // actions that are summed at once, in registers

struct Node {  // a test of the step of a feature, and its children; in a leaf, `feature` is -1 and `yes` its position
    int feature, value, label, yes, no;
};

struct Part {  // of a model: its kind (0: regions, 1: a sum), its first number in tables, its first node; its weights
    i64 table;
    int kind, root;
    double own, shared;
};

struct Model {  // its parts, from one up to another; the number of played actions; bounds of predictions
    int first, last, count, pad;
    double low, high;
};

__device__ __forceinline__ double between(double value, double low, double high) {
    return fmin(fmax(value, low), high);
}

// out (n, ACTIONS): m + sum over parts of own (f - m) + shared mean(f - m), by the model of each row's round; one half
// if there is none (-1). codes (n, stride): steps; starts (features,): the first of each among all; means, played
// (models, ACTIONS).
extern "C" __global__ void __launch_bounds__(THREADS) predict(
    const u8* codes, int stride, int features, const int* starts, i64 n, const int* rounds, const int* model_of,
    const Model* models, const double* means, const u8* played, const Part* parts, const Node* nodes,
    const double* tables, double low, double high, double* out) {
    __shared__ double tile[THREADS * PITCH];
    double* mine = tile + threadIdx.x * PITCH;
    const i64 first = (i64)blockIdx.x * THREADS, i = first + threadIdx.x;
    if (i < n) {
        const int number = model_of[rounds[i]];
        if (number < 0) {
            for (int x = 0; x < ACTIONS; x++) mine[x] = 0.5;
        } else {
            const Model model = models[number];
            const double* m = means + (i64)number * ACTIONS;
            const u8* heard = played + (i64)number * ACTIONS;
            const u8* code = codes + i * stride;
            for (int x = 0; x < ACTIONS; x++) mine[x] = m[x];
            for (int p = model.first; p < model.last; p++) {
                const Part part = parts[p];
                const double* table = tables + part.table;
                double total = 0.0;
                if (part.kind == 0) {
                    int at = part.root;
                    while (nodes[at].feature >= 0) {
                        const Node node = nodes[at];
                        const int step = code[node.feature];
                        at = (node.label ? step == node.value : step <= node.value) ? node.yes : node.no;
                    }
                    table += (i64)nodes[at].yes * ACTIONS;
                }
                for (int begin = 0; begin < ACTIONS; begin += CHUNK) {
                    double value[CHUNK];
#pragma unroll
                    for (int c = 0; c < CHUNK; c++) value[c] = begin + c < ACTIONS ? table[begin + c] : 0.0;
                    if (part.kind == 1) {
                        for (int j = 0; j < features; j++) {
                            const double* slopes = table + (i64)(1 + starts[j] + code[j]) * ACTIONS + begin;
#pragma unroll
                            for (int c = 0; c < CHUNK; c++)
                                if (begin + c < ACTIONS) value[c] += slopes[c];
                        }
                    }
#pragma unroll
                    for (int c = 0; c < CHUNK; c++) {
                        const int x = begin + c;
                        if (x < ACTIONS) {
                            const double off = between(value[c], low, high) - m[x];
                            mine[x] += part.own * off;
                            if (heard[x]) total += off;
                        }
                    }
                }
                const double shared = part.shared * (total / model.count);
                for (int x = 0; x < ACTIONS; x++)
                    if (heard[x]) mine[x] += shared;
            }
            for (int x = 0; x < ACTIONS; x++) mine[x] = between(mine[x], model.low, model.high);
        }
    }
    __syncthreads();
    const int rows = (int)min((i64)THREADS, n - first);
    for (int e = threadIdx.x; e < rows * ACTIONS; e += THREADS)
        out[first * ACTIONS + e] = tile[(e / ACTIONS) * PITCH + e % ACTIONS];
}
