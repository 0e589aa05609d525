// A block of 64 x 64 of the result to 16 x 16 threads, 4 x 4 to each.
extern "C" __global__ void matmul(const float *a, const float *b, float *out, unsigned m, unsigned k, unsigned n) {
  __shared__ float left[16][65], right[16][64];
  unsigned x = threadIdx.x, y = threadIdx.y, id = y * 16 + x;
  unsigned column = blockIdx.x * 64, row = blockIdx.y * 64;
  float sums[4][4] = {};
  for (unsigned start = 0; start < k; start += 16) {
    for (unsigned i = id; i < 16 * 64; i += 256) {
      unsigned r = row + i / 16, p = start + i % 16;
      left[i % 16][i / 16] = r < m && p < k ? a[r * k + p] : 0.0f;
      unsigned c = column + i % 64, q = start + i / 64;
      right[i / 64][i % 64] = q < k && c < n ? b[q * n + c] : 0.0f;
    }
    __syncthreads();
    for (unsigned p = 0; p < 16; ++p)
      for (unsigned i = 0; i < 4; ++i)
        for (unsigned j = 0; j < 4; ++j) sums[i][j] += left[p][y + 16 * i] * right[p][x + 16 * j];
    __syncthreads();
  }
  for (unsigned i = 0; i < 4; ++i)
    for (unsigned j = 0; j < 4; ++j) {
      unsigned r = row + y + 16 * i, c = column + x + 16 * j;
      if (r < m && c < n) out[r * n + c] = sums[i][j];
    }
}
