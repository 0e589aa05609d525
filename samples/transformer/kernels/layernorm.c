// Layer normalisation of the rows of x: out[i, :] = (x[i, :] - mean) / sqrt(variance + eps) * gain + bias, with the
// mean and the (biased) variance of the row. The variance is the mean of the squared distances from the mean, taken in
// a second pass: E[x^2] - E[x]^2 loses all its digits when the mean is large.
//
// Grid: (ceildiv(m, 16)); a workgroup does 16 rows. Compile with -fno-math-errno, or the square root becomes a call.
#include "vector.h"

enum { ROWS = 16 };

static float sum(const float *x, size_t n) {
  size_t whole = n - n % LANES;
  floats sums = splat(0.0f);
  for (size_t i = 0; i < whole; i += LANES) sums += load(x + i);
  if (whole < n) sums += load_some(x + whole, n - whole, 0.0f);
  return sum_of_lanes(sums);
}

static float sum_of_squared_distances(const float *x, float from, size_t n) {
  size_t whole = n - n % LANES;
  floats sums = splat(0.0f);
  for (size_t i = 0; i < whole; i += LANES) {
    floats distance = load(x + i) - from;
    sums += distance * distance;
  }
  if (whole < n) {
    floats distance = load_some(x + whole, n - whole, from) - from;
    sums += distance * distance;
  }
  return sum_of_lanes(sums);
}

static void layernorm_row(const float *x, const float *gain, const float *bias, float eps, float *out, size_t n) {
  size_t whole = n - n % LANES;
  float mean = sum(x, n) / (float)n;
  float variance = sum_of_squared_distances(x, mean, n) / (float)n;
  float scale = 1.0f / __builtin_sqrtf(variance + eps);
  for (size_t i = 0; i < whole; i += LANES)
    store(out + i, (load(x + i) - mean) * scale * load(gain + i) + load(bias + i));
  for (size_t i = whole; i < n; i++) out[i] = (x[i] - mean) * scale * gain[i] + bias[i];
}

void layernorm(const float *x, const float *gain, const float *bias, float eps, float *out, size_t m, size_t n,
               size_t workgroup_x) {
  size_t end = (workgroup_x + 1) * ROWS < m ? (workgroup_x + 1) * ROWS : m;
  for (size_t i = workgroup_x * ROWS; i < end; i++) layernorm_row(x + i * n, gain, bias, eps, out + i * n, n);
}
