// softmax over the rows of x: out[i, :] = e^(x[i, :] - max) / sum of the same.
//
// Grid: (ceildiv(m, 16)); a workgroup does 16 rows.
#include "vector.h"

enum { ROWS = 16 };

static float largest(const float *x, size_t n) {
  size_t whole = n - n % LANES;
  floats peak = splat(-__builtin_inff());
  for (size_t i = 0; i < whole; i += LANES) peak = larger(load(x + i), peak);
  if (whole < n) peak = larger(load_some(x + whole, n - whole, -__builtin_inff()), peak);
  return largest_of_lanes(peak);
}

static void softmax_row(const float *x, float *out, size_t n) {
  size_t whole = n - n % LANES;
  float peak = largest(x, n);

  floats sums = splat(0.0f);
  for (size_t i = 0; i < whole; i += LANES) {
    floats e = exponential(load(x + i) - peak);
    store(out + i, e);
    sums += e;
  }
  if (whole < n) {
    floats e = exponential(load_some(x + whole, n - whole, -__builtin_inff()) - peak);
    store_some(out + whole, e, n - whole);
    sums += e;
  }

  float scale = 1.0f / sum_of_lanes(sums);
  for (size_t i = 0; i < whole; i += LANES) store(out + i, load(out + i) * scale);
  for (size_t i = whole; i < n; i++) out[i] *= scale;
}

void softmax(const float *x, float *out, size_t m, size_t n, size_t workgroup_x) {
  size_t end = (workgroup_x + 1) * ROWS < m ? (workgroup_x + 1) * ROWS : m;
  for (size_t i = workgroup_x * ROWS; i < end; i++) softmax_row(x + i * n, out + i * n, n);
}
