// Sort rows by a key: the bin of one feature, or the bins of two. The order of rows with the same key is arbitrary:
// sums over them are of integers, so it does not matter.

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef long long i64;

#define THREADS 512
#define EACH 16  // rows of a thread

// The key of a row: bin of x, or bin of x times the bins of its neighbour x + 1, and that one's bin. x is even then.
__device__ __forceinline__ u32 key_of(const u8* codes, i64 row, int stride, int x, int neighbour_bins) {
    const u8* at = codes + row * stride + x;
    if (neighbour_bins == 0) return *at;
    u32 both = *reinterpret_cast<const u16*>(at);
    return (both & 255u) * neighbour_bins + (both >> 8);
}

// counts (chunks, keys): rows of each key in each chunk of `chunk_rows` rows, tiles_per_chunk blocks a chunk.
extern "C" __global__ void __launch_bounds__(THREADS) count_keys(
    const u8* codes, i64 n, int stride, int x, int neighbour_bins, int keys, i64 chunk_rows, int tiles_per_chunk,
    u32* counts) {
    extern __shared__ u32 seen[];
    i64 chunk = blockIdx.x / tiles_per_chunk;
    i64 first = chunk * chunk_rows + (i64)(blockIdx.x % tiles_per_chunk) * (THREADS * EACH);
    i64 last = min(min(first + THREADS * EACH, (chunk + 1) * chunk_rows), n);
    for (int k = threadIdx.x; k < keys; k += THREADS) seen[k] = 0;
    __syncthreads();
    for (i64 row = first + threadIdx.x; row < last; row += THREADS)
        atomicAdd(&seen[key_of(codes, row, stride, x, neighbour_bins)], 1u);
    __syncthreads();
    for (int k = threadIdx.x; k < keys; k += THREADS)
        if (seen[k]) atomicAdd(&counts[chunk * keys + k], seen[k]);
}

// order (n,): the rows of each chunk by their keys, counted from the chunk's first; next (chunks, keys): where the next
// row of a key goes, initially the number of rows with smaller keys.
extern "C" __global__ void __launch_bounds__(THREADS) place_rows(
    const u8* codes, i64 n, int stride, int x, int neighbour_bins, int keys, i64 chunk_rows, int tiles_per_chunk,
    u32* next, u32* order) {
    extern __shared__ u32 seen[];
    i64 chunk = blockIdx.x / tiles_per_chunk;
    i64 begin = chunk * chunk_rows;
    i64 first = begin + (i64)(blockIdx.x % tiles_per_chunk) * (THREADS * EACH);
    i64 last = min(min(first + THREADS * EACH, begin + chunk_rows), n);
    for (int k = threadIdx.x; k < keys; k += THREADS) seen[k] = 0;
    __syncthreads();
    u32 place[EACH];  // key in the lower half; rank among the tile's rows of this key in the upper
#pragma unroll
    for (int e = 0; e < EACH; e++) {
        i64 row = first + e * THREADS + threadIdx.x;
        if (row < last) {
            u32 key = key_of(codes, row, stride, x, neighbour_bins);
            place[e] = key | atomicAdd(&seen[key], 1u) << 16;
        }
    }
    __syncthreads();
    for (int k = threadIdx.x; k < keys; k += THREADS)
        if (seen[k]) seen[k] = atomicAdd(&next[chunk * keys + k], seen[k]);
    __syncthreads();
#pragma unroll
    for (int e = 0; e < EACH; e++) {
        i64 row = first + e * THREADS + threadIdx.x;
        if (row < last) order[begin + seen[place[e] & 0xffffu] + (place[e] >> 16)] = (u32)(row - begin);
    }
}
