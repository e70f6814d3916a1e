// Sums of scores by the bins of two features, exactly, in 64 bits.
//
// Rows are visited in the order of a key (see order.cu): the bin of a feature x, or of x and its neighbour y. While the
// key stays the same, a block needs only the sums by the bins of each other feature k < x, which fit in shared memory.
// A thread owns two features k, k + 1 and one action a: no other thread uses its cells, so it adds with plain loads and
// stores, and cells are laid out without bank conflicts within a warp. When the key changes, the cells are added to the
// sums of (k, x) and (k, y), and one feature's cells to those of (x, y): a row is added once for three pairs of
// features.
//
// Macros: WIDTH, the actions of a slab; PART, the bytes of one copy of scores (8 or 16); ROWS of a tile.

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;

#define PARTS (WIDTH * 8 / PART)

struct Job {         // the work of blocks on the rows of one order
    int order;       // the number of the order
    int x;           // feature of the key
    int x_start;     // its first bin among all
    int y_start;     // that of its neighbour; -1 if the key has none
    int y_bins;      // 1 if the key has none
    int keys;        // the number of keys
    int runs_at;     // the position of the order's runs in starts
    int pairs_at;    // first pair of features k, k + 1
    int pairs;       // the number of pairs
    int bins;        // the largest number of bins of any k
    int groups;      // groups of threads, each with its own rows and cells
    int lanes;       // groups * pairs * WIDTH, rounded up to a multiple of 16
    int action_at;   // first action
    int actions;     // the number of actions, at most WIDTH
    int own;         // 1: this job adds for the pair (x, y); 2: for (x, x); 0: for neither
    int words_at;    // first 4 bytes of codes that are copied
    int words;       // the number of these words
};

struct Item {  // rows first to last in the order of a job's keys in a chunk
    int job;
    int chunk;
    u32 first;
    u32 last;
};

struct Tile {  // rows that are copied together; all of one key
    u32 at;
    int rows;
    int key;
    u32 stop;  // the end of the key's rows
};

__device__ __forceinline__ u32 shared_at(const void* p) { return (u32)__cvta_generic_to_shared(p); }
__device__ __forceinline__ void copy4(void* to, const void* from) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(shared_at(to)), "l"(from));
}
__device__ __forceinline__ void copy_part(void* to, const void* from) {
#if PART == 16
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_at(to)), "l"(from));
#else
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" ::"r"(shared_at(to)), "l"(from));
#endif
}
__device__ __forceinline__ void copies_done() { asm volatile("cp.async.wait_all;" ::: "memory"); }
__device__ __forceinline__ void add_global(i64* to, i64 value) { atomicAdd((u64*)to, (u64)value); }

// Return the tile after this one; it has no rows after the last.
__device__ __forceinline__ void advance(Tile& tile, const u32* runs, u32 last) {
    tile.at += tile.rows;
    if (tile.at >= last) {
        tile.rows = 0;
        return;
    }
    while (tile.stop <= tile.at) tile.stop = runs[++tile.key + 1];
    tile.rows = min((u32)ROWS, min(tile.stop, last) - tile.at);
}

extern "C" __global__ void add_pairs(
    const u8* __restrict__ codes, int stride, const i64* __restrict__ scores, int width, i64 n, i64 chunk_rows,
    const u32* __restrict__ orders, const u32* __restrict__ starts, const Job* __restrict__ jobs,
    const Item* __restrict__ items, const int* __restrict__ bin_starts, int all_bins, int code_words, int table_cells,
    i64* __restrict__ out, int out_width, int out_at) {
    extern __shared__ __align__(16) char memory[];
    i64* table = reinterpret_cast<i64*>(memory);              // [bin][half][lane]
    i64* score_tiles = table + table_cells;                   // [2][ROWS][WIDTH]
    u32* code_tiles = (u32*)(score_tiles + 2 * ROWS * WIDTH);  // [2][ROWS][code_words]
    u32* order_tiles = code_tiles + 2 * ROWS * code_words;    // [2][ROWS]

    const Item item = items[blockIdx.x];
    const Job job = jobs[item.job];
    const u32* runs = starts + job.runs_at + (i64)item.chunk * (job.keys + 1);
    const i64 begin = (i64)item.chunk * chunk_rows;
    const u32* order = orders + (i64)job.order * n + begin;
    const u8* chunk_codes = codes + begin * stride + 4 * job.words_at;
    const i64* chunk_scores = scores + begin * width + job.action_at;
    const int tid = threadIdx.x, threads = blockDim.x;
    const int columns = job.pairs * WIDTH, row_cells = 2 * job.lanes;

    for (int e = tid; e < job.bins * row_cells; e += threads) table[e] = 0;

    // The cells that this thread owns.
    const int group = tid / columns, column = tid % columns;
    const bool mine = group < job.groups && column % WIDTH < job.actions;
    const int code_at = 2 * (job.pairs_at + column / WIDTH) - 4 * job.words_at;
    const int action = column % WIDTH;

    // The key of the first row, by bisection: the last whose rows begin there or before.
    int low = 0, high = job.keys;
    while (high - low > 1) {
        int middle = (low + high) / 2;
        if (runs[middle] <= item.first) low = middle; else high = middle;
    }
    Tile now = {item.first, 0, low, runs[low + 1]};
    advance(now, runs, item.last);
    Tile next = now;
    advance(next, runs, item.last);

    auto copy_order = [&](const Tile& tile, int buffer) {
        for (int e = tid; e < tile.rows; e += threads) copy4(order_tiles + buffer * ROWS + e, order + tile.at + e);
    };
    auto copy_rows = [&](const Tile& tile, int buffer) {
        const u32* rows = order_tiles + buffer * ROWS;
        i64* score_tile = score_tiles + buffer * ROWS * WIDTH;
        u32* code_tile = code_tiles + buffer * ROWS * code_words;
        for (int e = tid; e < tile.rows * PARTS; e += threads) {
            int r = e / PARTS, part = e % PARTS;
            if (part * (PART / 8) < job.actions)
                copy_part(score_tile + r * WIDTH + part * (PART / 8),
                          chunk_scores + (i64)rows[r] * width + part * (PART / 8));
        }
        for (int e = tid; e < tile.rows * job.words; e += threads) {
            int r = e / job.words, word = e % job.words;
            copy4(code_tile + r * code_words + word, chunk_codes + (i64)rows[r] * stride + 4 * word);
        }
    };

    copy_order(now, 0);
    copies_done();
    __syncthreads();
    copy_rows(now, 0);
    copy_order(next, 1);
    for (int buffer = 0; now.rows > 0; buffer ^= 1) {
        copies_done();
        __syncthreads();
        Tile later = next;
        if (next.rows > 0) {
            copy_rows(next, buffer ^ 1);
            advance(later, runs, item.last);
            copy_order(later, buffer);
        }
        if (mine) {
            const i64* score = score_tiles + buffer * ROWS * WIDTH + action;
            const u8* code = (const u8*)(code_tiles + buffer * ROWS * code_words) + code_at;
            i64* first = table + tid;
            i64* second = first + job.lanes;
            const int code_step = 4 * code_words;
            int r = group;
            for (; r + job.groups < now.rows; r += 2 * job.groups) {
                const int r2 = r + job.groups;
                const u32 c = *(const u16*)(code + r * code_step), c2 = *(const u16*)(code + r2 * code_step);
                const i64 s = score[r * WIDTH], s2 = score[r2 * WIDTH];
                const int i = (c & 255u) * row_cells, j = (c >> 8) * row_cells;
                const int i2 = (c2 & 255u) * row_cells, j2 = (c2 >> 8) * row_cells;
                i64 v = first[i], w = second[j], v2 = first[i2], w2 = second[j2];
                v += s;
                w += s;
                v2 = (i2 == i ? v : v2) + s2;
                w2 = (j2 == j ? w : w2) + s2;
                first[i] = v;
                second[j] = w;
                first[i2] = v2;
                second[j2] = w2;
            }
            for (; r < now.rows; r += job.groups) {
                const u32 c = *(const u16*)(code + r * code_step);
                const i64 s = score[r * WIDTH];
                const int i = (c & 255u) * row_cells, j = (c >> 8) * row_cells;
                const i64 v = first[i], w = second[j];
                first[i] = v + s;
                second[j] = w + s;
            }
        }
        if (next.rows == 0 || next.key != now.key) {  // add the key's cells to the sums
            __syncthreads();
            const int xb = job.x_start + now.key / job.y_bins, yb = job.y_start + now.key % job.y_bins;
            for (int e = tid; e < job.bins * 2 * columns; e += threads) {
                const int c = e / (2 * columns), rest = e % (2 * columns);
                const int half = rest / columns, col = rest % columns;
                i64* cell = table + c * row_cells + half * job.lanes + col;
                i64 value = 0;
                for (int g = 0; g < job.groups; g++) {
                    value += cell[g * columns];
                    cell[g * columns] = 0;
                }
                if (value == 0) continue;
                const int k = 2 * (job.pairs_at + col / WIDTH) + half, a = out_at + job.action_at + col % WIDTH;
                if (k < job.x) {
                    const i64 kb = (i64)(bin_starts[k] + c) * all_bins;
                    add_global(out + (kb + xb) * out_width + a, value);
                    if (job.y_start >= 0) add_global(out + (kb + yb) * out_width + a, value);
                }
                if (job.own && half == 0 && col < WIDTH)
                    add_global(out + ((i64)xb * all_bins + (job.own == 1 ? yb : xb)) * out_width + a, value);
            }
        }
        now = next;
        next = later;
    }
}

// Fill the sums of (b, c) from those of (c, b) if the feature of b comes later, and of (b, b) from its sums with the
// bins of another feature, if there is one.
extern "C" __global__ void mirror(
    const int* features, const int* bin_starts, int all_bins, int width, int n_features, i64* out) {
    const i64 cells = (i64)all_bins * all_bins * width;
    for (i64 e = (i64)blockIdx.x * blockDim.x + threadIdx.x; e < cells; e += (i64)gridDim.x * blockDim.x) {
        const int a = e % width;
        const int c = (e / width) % all_bins, b = e / width / all_bins;
        const int j = features[b], k = features[c];
        if (j > k) {
            out[e] = out[((i64)c * all_bins + b) * width + a];
        } else if (b == c && n_features > 1) {
            const int other = j == 0 ? 1 : 0;
            i64 sum = 0;
            for (int o = bin_starts[other]; o < bin_starts[other + 1]; o++)
                sum += other > j ? out[((i64)b * all_bins + o) * width + a] : out[((i64)o * all_bins + b) * width + a];
            out[e] = sum;
        }
    }
}
