// Leaves of trees of depth 2 or less for rows with known bins, and sums of scores by parts of the rows.

typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;

// out (trees, n): the value of the leaf, of four (trees, 4), that each row reaches. features, lefts (trees, 3), (trees,
// 3, 8): the features that the root and its two children test, and a bit mask of the bins that go left.
extern "C" __global__ void tree_leaves(
    const u8* codes, int stride, i64 n, const int* features, const u32* lefts, const u8* leaves, int trees, u8* out) {
    const i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    for (int tree = 0; tree < trees; tree++) {
        int node = 0, leaf = 0;
        for (int depth = 0; depth < 2; depth++) {
            const int code = codes[i * stride + features[3 * tree + node]];
            const int right = !(lefts[(3 * tree + node) * 8 + code / 32] >> (code % 32) & 1u);
            leaf = 2 * leaf + right;
            node = 1 + right;
        }
        out[tree * n + i] = leaves[4 * tree + leaf];
    }
}

// Add to out (parts, out_width), from column `at` on, the scores (n, width) of the rows in each part: part (n,) with a
// given pitch. A thread owns a column, with its own cells in shared memory; (x, y) of the grid: rows, columns.
extern "C" __global__ void sum_parts(
    const u8* part, int pitch, i64 n, const i64* scores, int width, int parts, int columns, i64* out, int out_width,
    int at) {
    extern __shared__ i64 cells[];  // [part][thread]
    const int threads = blockDim.x, groups = threads / columns, group = threadIdx.x / columns;
    const int column = blockIdx.y * columns + threadIdx.x % columns;
    for (int e = threadIdx.x; e < parts * threads; e += threads) cells[e] = 0;
    __syncthreads();
    if (group < groups && column < width) {
        const i64 step = (i64)gridDim.x * groups;
        for (i64 i = (i64)blockIdx.x * groups + group; i < n; i += step)
            cells[part[i * pitch] * threads + threadIdx.x] += scores[i * width + column];
        for (int p = 0; p < parts; p++) {
            const i64 value = cells[p * threads + threadIdx.x];
            if (value) atomicAdd((u64*)(out + (i64)p * out_width + at + column), (u64)value);
        }
    }
}

// Add scores in the same way by ids (n,), of which there may be any number.
extern "C" __global__ void sum_ids(
    const i64* ids, i64 n, const i64* scores, int width, i64* out, int out_width, int at) {
    for (i64 e = (i64)blockIdx.x * blockDim.x + threadIdx.x; e < n * width; e += (i64)gridDim.x * blockDim.x) {
        const i64 value = scores[e];
        if (value) atomicAdd((u64*)(out + ids[e / width] * out_width + at + e % width), (u64)value);
    }
}
