// A number of a product of bytes by a workgroup, four bytes of a row and of a column at a time.
#include "group.cuh"

constexpr unsigned THREADS = 64;

// The bytes of x are unsigned unless `is_signed`. Unsigned ones are taken as signed ones 128 lower.
extern "C" __global__ void byte_row(const int *x, const int *w, const int *sums, const float *rows,
                                    const float *columns, const float *bias, const int *zero,
                                    const float *x_scale, const float *w_scale, float *out, int is_signed,
                                    int is_positive, unsigned m, unsigned k, unsigned n, unsigned has_rows,
                                    unsigned has_columns, unsigned has_bias) {
  unsigned column = blockIdx.x, row = blockIdx.y, flip = is_signed ? 0 : 0x80808080;
  x += (size_t)row * (k / 4), w += (size_t)column * (k / 4);
  int sum = 0;
  for (unsigned at = threadIdx.x; at < k / 4; at += THREADS) sum = __dp4a((int)(x[at] ^ flip), w[at], sum);
  sum = combined<THREADS>(sum, Sum());
  if (threadIdx.x != 0) return;
  int above = (is_signed ? 0 : 128) - *zero;
  float value = (float)(sum + above * sums[column]);
  if (has_rows) value *= rows[row];
  if (has_columns) value *= columns[column];
  value = value * (*x_scale * *w_scale) + (has_bias ? bias[column] : 0.0f);
  out[(size_t)row * n + column] = is_positive ? fmaxf(value, 0.0f) : value;
}
