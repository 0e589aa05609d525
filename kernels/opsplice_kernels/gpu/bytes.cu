// A number of a product of bytes by a workgroup, four bytes of a row and of a column at a time.
#include "group.cuh"

constexpr unsigned THREADS = 64;

// The bytes of x are unsigned unless `is_signed`. Unsigned ones are taken as signed ones 128 lower.
extern "C" __global__ void byte_row(const int *x, const int *w, const int *sums, const float *rows,
                                    const float *columns, const float *bias, const unsigned char *zero,
                                    const float *scale, float *out, int is_signed, unsigned m, unsigned k, unsigned n,
                                    unsigned has_rows, unsigned has_columns, unsigned has_bias) {
  unsigned column = blockIdx.x, row = blockIdx.y, flip = is_signed ? 0 : 0x80808080;
  x += (size_t)row * (k / 4), w += (size_t)column * (k / 4);
  int sum = 0;
  for (unsigned at = threadIdx.x; at < k / 4; at += THREADS) sum = __dp4a((int)(x[at] ^ flip), w[at], sum);
  sum = combined<THREADS>(sum, Sum());
  if (threadIdx.x != 0) return;
  int above = is_signed ? -(int)(signed char)*zero : 128 - (int)*zero;
  float value = (float)(sum + above * sums[column]);
  if (has_rows) value *= rows[row];
  if (has_columns) value *= columns[column];
  value *= *scale;
  out[(size_t)row * n + column] = value + (has_bias ? bias[column] : 0.0f);
}
