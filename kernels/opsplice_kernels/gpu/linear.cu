// Products of matrices with a bias, in any layout.
#include "parts.cuh"

// What a kernel is passed, in order.
#define LINEAR                                                                                                        \
  const float *x, const float *w, const float *bias, const unsigned *first, float *out, unsigned b, unsigned m,       \
      unsigned k, unsigned n, unsigned x_m, unsigned x_k, unsigned w_n, unsigned w_k, unsigned has_bias,              \
      unsigned out_m, unsigned out_n

// ---- a tile by 256 threads, EACH by EACH of its numbers for each of them

constexpr unsigned THREADS = 256;

// Where the j-th column of a thread is from its first: four by four, so that 16 threads read 256 bytes in a row.
__device__ constexpr unsigned apart(unsigned j) { return j / 4 * 64 + j % 4; }

// While a part is multiplied, the next one is read.
template <unsigned EACH, unsigned DEEP>
__device__ void tile(const float *x, const float *w, const float *bias, float *out, unsigned m, unsigned k, unsigned n,
                     unsigned x_m, unsigned x_k, unsigned w_n, unsigned w_k, unsigned out_m, unsigned out_n) {
  constexpr unsigned ACROSS = 16, TILE = ACROSS * EACH;
  __shared__ __align__(16) float rows[2][DEEP][TILE + PAD], columns[2][DEEP][TILE + PAD];
  unsigned top = blockIdx.y * TILE, left = blockIdx.z * TILE, now = 0;
  unsigned own_row = threadIdx.x / ACROSS * EACH, own_column = threadIdx.x % ACROSS * 4;
  Part<TILE, DEEP, THREADS> down(x, top, m, k, x_m, x_k), across(w, left, n, k, w_n, w_k);
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

#define TILE_OF(each, deep)                                                                                           \
  const unsigned *start = first + blockIdx.x * 3;                                                                     \
  tile<each, deep>(x + start[0], w + start[1], has_bias ? bias : nullptr, out + start[2], m, k, n, x_m, x_k, w_n, w_k,\
             out_m, out_n)

extern "C" __global__ void linear_tile(LINEAR) { TILE_OF(4, 16); }

// Two workgroups at a time on each multiprocessor.
extern "C" __global__ void __launch_bounds__(THREADS, 2) linear_block(LINEAR) { TILE_OF(8, 8); }

// ---- 32 columns of a row by 32 warps, for few rows: each weight is read once a row

constexpr unsigned WARPS = 32, COLUMNS = 32;

// A row by a column, which a warp goes along: for all its lanes. It reads one number at a time or four, and as much before
// it needs it as registers hold.
template <class Number>
__device__ float along(const float *x, const float *w, unsigned k, unsigned x_k, unsigned w_k) {
  constexpr unsigned WIDE = sizeof(Number) / 4, TURNS = 16 / WIDE, STEP = WARP * WIDE;
  float sum = 0;
  for (unsigned from = threadIdx.x % WARP * WIDE; from < k; from += TURNS * STEP) {
    Number a[TURNS] = {}, b[TURNS] = {};
#pragma unroll
    for (unsigned i = 0; i < TURNS; ++i) {
      unsigned at = from + i * STEP;
      if (at < k) a[i] = *(const Number *)(x + at * x_k), b[i] = *(const Number *)(w + at * w_k);
    }
#pragma unroll
    for (unsigned i = 0; i < TURNS; ++i) sum += product(a[i], b[i]);
  }
  return in_warp(sum, Sum());
}

// Columns of which each thread goes along some rows, likewise: for each warp.
template <class Number>
__device__ void across(float parts[WARPS][COLUMNS], const float *x, const float *w, unsigned k, unsigned n,
                       unsigned x_k, unsigned w_n, unsigned w_k) {
  constexpr unsigned WIDE = sizeof(Number) / 4, TURNS = 16 / WIDE, LANES = COLUMNS / WIDE, STEP = WARPS * WARP / LANES;
  unsigned lane = threadIdx.x % WARP, column = lane % LANES * WIDE;
  union { Number all; float each[WIDE]; } values[TURNS];
  float sums[WIDE] = {};
  for (unsigned from = threadIdx.x / LANES; from < k; from += TURNS * STEP) {
    float own[TURNS];
#pragma unroll
    for (unsigned i = 0; i < TURNS; ++i) {
      unsigned at = from + i * STEP;
      bool is_in = at < k && column < n;
      own[i] = is_in ? x[at * x_k] : 0;
      values[i].all = is_in ? *(const Number *)(w + (size_t)at * w_k + column * w_n) : Number();
    }
#pragma unroll
    for (unsigned i = 0; i < TURNS; ++i)
#pragma unroll
      for (unsigned j = 0; j < WIDE; ++j) sums[j] += own[i] * values[i].each[j];
  }
#pragma unroll
  for (unsigned j = 0; j < WIDE; ++j) {
    for (unsigned step = LANES; step < WARP; step *= 2) sums[j] += __shfl_xor_sync(ALL, sums[j], step);
    if (lane < LANES) parts[threadIdx.x / WARP][column + j] = sums[j];
  }
}

extern "C" __global__ void __launch_bounds__(WARPS * WARP, 1) linear_row(LINEAR) {
  __shared__ float parts[WARPS][COLUMNS];
  const unsigned *start = first + blockIdx.x * 3;
  unsigned lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, left = blockIdx.z * COLUMNS, count = WARPS;
  x += start[0] + (size_t)blockIdx.y * x_m, w += start[1] + (size_t)left * w_n;
  if (w_k <= w_n) {
    bool fours = k % 4 == 0 && in_fours(x, x_k, 0) && in_fours(w, w_k, w_n);
    w += (size_t)warp * w_n, count = 1;
    float sum = left + warp >= n ? 0 : fours ? along<Four>(x, w, k, x_k, w_k) : along<float>(x, w, k, x_k, w_k);
    if (lane == 0) parts[0][warp] = sum;
  } else if (in_fours(w, w_n, w_k) && n % 4 == 0) {
    across<Four>(parts, x, w, k, n - left, x_k, w_n, w_k);
  } else {
    across<float>(parts, x, w, k, n - left, x_k, w_n, w_k);
  }
  __syncthreads();
  unsigned column = left + lane;
  if (warp != 0 || column >= n) return;
  float sum = has_bias ? bias[column] : 0.0f;
  for (unsigned i = 0; i < count; ++i) sum += parts[i][lane];
  out[start[2] + (size_t)blockIdx.y * out_m + (size_t)column * out_n] = sum;
}
