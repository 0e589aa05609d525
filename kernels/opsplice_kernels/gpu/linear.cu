// Products of matrices with a bias, in any layout.
#include "group.cuh"

// What a kernel is passed, in order.
#define LINEAR                                                                                                        \
  const float *x, const float *w, const float *bias, const unsigned *first, float *out, unsigned b, unsigned m,       \
      unsigned k, unsigned n, unsigned x_m, unsigned x_k, unsigned w_n, unsigned w_k, unsigned has_bias,              \
      unsigned out_m, unsigned out_n

// ---- a tile by 256 threads, EACH by EACH of its numbers for each of them

// PAD: so that neighbours of threads write into other banks of shared memory, whichever way a matrix lies.
constexpr unsigned THREADS = 256, DEEP = 8, PAD = 4;

// What the product needs of TILE rows of a matrix: DEEP of its columns, from `from` on, zeros beyond its end. Neighbours
// of threads read neighbours in memory.
template <unsigned TILE>
struct Part {
  static constexpr unsigned COUNT = DEEP * TILE / THREADS;
  const float *matrix;
  unsigned top, rows, depth, row_step, depth_step;
  float held[COUNT];

  __device__ unsigned row(unsigned each) const { return row_step < depth_step ? each % TILE : each / DEEP; }
  __device__ unsigned at(unsigned each) const { return row_step < depth_step ? each / TILE : each % DEEP; }

  __device__ void read(unsigned from) {
#pragma unroll
    for (unsigned i = 0; i < COUNT; ++i) {
      unsigned each = i * THREADS + threadIdx.x, place = top + row(each), column = from + at(each);
      held[i] = place < rows && column < depth ? matrix[(size_t)place * row_step + (size_t)column * depth_step] : 0.0f;
    }
  }

  __device__ void write(float to[DEEP][TILE + PAD]) const {
#pragma unroll
    for (unsigned i = 0; i < COUNT; ++i) to[at(i * THREADS + threadIdx.x)][row(i * THREADS + threadIdx.x)] = held[i];
  }
};

// Where the j-th column of a thread is from its first: four by four, so that 16 threads read 256 bytes in a row.
__device__ constexpr unsigned apart(unsigned j) { return j / 4 * 64 + j % 4; }

// While a part is multiplied, the next one is read.
template <unsigned EACH>
__device__ void tile(const float *x, const float *w, const float *bias, float *out, unsigned m, unsigned k, unsigned n,
                     unsigned x_m, unsigned x_k, unsigned w_n, unsigned w_k, unsigned out_m, unsigned out_n) {
  constexpr unsigned ACROSS = 16, TILE = ACROSS * EACH;
  __shared__ __align__(16) float rows[2][DEEP][TILE + PAD], columns[2][DEEP][TILE + PAD];
  unsigned top = blockIdx.y * TILE, left = blockIdx.z * TILE, now = 0;
  unsigned own_row = threadIdx.x / ACROSS * EACH, own_column = threadIdx.x % ACROSS * 4;
  Part<TILE> down = {x, top, m, k, x_m, x_k}, across = {w, left, n, k, w_n, w_k};
  down.read(0), across.read(0);
  down.write(rows[0]), across.write(columns[0]);
  __syncthreads();
  float sums[EACH][EACH] = {};
  for (unsigned from = 0; from < k; from += DEEP) {
    bool is_last = from + DEEP >= k;
    if (!is_last) down.read(from + DEEP), across.read(from + DEEP);
#pragma unroll
    for (unsigned l = 0; l < DEEP; ++l)
#pragma unroll
      for (unsigned i = 0; i < EACH; ++i)
#pragma unroll
        for (unsigned j = 0; j < EACH; ++j) sums[i][j] += rows[now][l][own_row + i] * columns[now][l][own_column + apart(j)];
    now ^= 1;
    if (!is_last) down.write(rows[now]), across.write(columns[now]);
    __syncthreads();
  }
#pragma unroll
  for (unsigned i = 0; i < EACH; ++i)
#pragma unroll
    for (unsigned j = 0; j < EACH; ++j) {
      unsigned row = top + own_row + i, column = left + own_column + apart(j);
      if (row < m && column < n)
        out[(size_t)row * out_m + (size_t)column * out_n] = sums[i][j] + (bias ? bias[column] : 0.0f);
    }
}

#define TILE_OF(each)                                                                                                 \
  const unsigned *start = first + blockIdx.x * 3;                                                                     \
  tile<each>(x + start[0], w + start[1], has_bias ? bias : nullptr, out + start[2], m, k, n, x_m, x_k, w_n, w_k,      \
             out_m, out_n)

extern "C" __global__ void linear_tile(LINEAR) { TILE_OF(4); }

extern "C" __global__ void linear_block(LINEAR) { TILE_OF(8); }

// ---- 32 columns of a row by 32 warps, for few rows: each weight is read once a row

extern "C" __global__ void linear_row(LINEAR) {
  constexpr unsigned WARPS = 32;
  __shared__ float parts[WARPS][WARP];
  const unsigned *start = first + blockIdx.x * 3;
  unsigned lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, left = blockIdx.z * WARP;
  x += start[0] + (size_t)blockIdx.y * x_m, w += start[1];
  float sum = 0;
  if (w_k <= w_n) {  // a warp has a column
    w += (size_t)(left + warp) * w_n;
    if (left + warp < n)
#pragma unroll 8
      for (unsigned at = lane; at < k; at += WARP) sum += x[at * x_k] * w[at * w_k];
    sum = in_warp(sum, Sum());
    if (lane == 0) parts[0][warp] = sum;
    __syncthreads();
  } else {  // a thread has a part of a column
    w += (left + lane) * w_n;
    if (left + lane < n)
#pragma unroll 8
      for (unsigned at = warp; at < k; at += WARPS) sum += x[at * x_k] * w[(size_t)at * w_k];
    parts[warp][lane] = sum;
    __syncthreads();
    if (warp == 0)
      for (unsigned i = 1; i < WARPS; ++i) parts[0][lane] += parts[i][lane];
  }
  unsigned column = left + lane;
  if (warp == 0 && column < n)
    out[start[2] + (size_t)blockIdx.y * out_m + (size_t)column * out_n] =
        parts[0][lane] + (has_bias ? bias[column] : 0.0f);
}
