// A tile of 64 rows and 64 columns of a product, 4 by 8 of them for each of 128 threads. Any layout.

constexpr unsigned TILE = 64, DEEP = 16, DOWN = 4, ACROSS = 8, WORKERS = 128;

// Copies what the product needs of 64 rows of a matrix: DEEP of its columns, from `from` on, zeros beyond its end.
__device__ void load(float to[DEEP][TILE], const float *matrix, unsigned top, unsigned from, unsigned rows,
                     unsigned depth, unsigned row_step, unsigned depth_step) {
  for (unsigned each = threadIdx.x; each < DEEP * TILE; each += WORKERS) {
    // Neighbours of threads read neighbours in memory.
    unsigned row = row_step < depth_step ? each % TILE : each / DEEP;
    unsigned at = row_step < depth_step ? each / TILE : each % DEEP;
    bool is_in = top + row < rows && from + at < depth;
    to[at][row] = is_in ? matrix[(size_t)(top + row) * row_step + (size_t)(from + at) * depth_step] : 0.0f;
  }
}

extern "C" __global__ void linear_tile(const float *x, const float *w, const float *bias, const unsigned *first,
                                       float *out, unsigned b, unsigned m, unsigned k, unsigned n, unsigned x_m,
                                       unsigned x_k, unsigned w_n, unsigned w_k, unsigned has_bias, unsigned out_m,
                                       unsigned out_n) {
  __shared__ float rows[DEEP][TILE], columns[DEEP][TILE];
  const unsigned *start = first + blockIdx.x * 3;
  unsigned top = blockIdx.y * TILE, left = blockIdx.z * TILE;
  unsigned own_row = threadIdx.x / 8 * DOWN, own_column = threadIdx.x % 8 * ACROSS;
  float sums[DOWN][ACROSS] = {};
  for (unsigned from = 0; from < k; from += DEEP) {
    load(rows, x + start[0], top, from, m, k, x_m, x_k);
    load(columns, w + start[1], left, from, n, k, w_n, w_k);
    __syncthreads();
#pragma unroll
    for (unsigned l = 0; l < DEEP; ++l)
#pragma unroll
      for (unsigned i = 0; i < DOWN; ++i)
#pragma unroll
        for (unsigned j = 0; j < ACROSS; ++j) sums[i][j] += rows[l][own_row + i] * columns[l][own_column + j];
    __syncthreads();
  }
  for (unsigned i = 0; i < DOWN; ++i)
    for (unsigned j = 0; j < ACROSS; ++j) {
      unsigned row = top + own_row + i, column = left + own_column + j;
      if (row < m && column < n)
        out[start[2] + (size_t)row * out_m + (size_t)column * out_n] = sums[i][j] + (has_bias ? bias[column] : 0.0f);
    }
}
