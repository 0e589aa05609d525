// Layer and RMS norms of the rows of x: out = (x - mean) / sqrt(variance + eps) * gain + bias. gain and bias may be
// null. The variance is the mean of the squared distances from the mean, which is 0 for an RMS norm.
//
// Grid: (ceildiv(m, 16)); a workgroup does 16 rows.
#include "../vector.h"

enum { ROWS = 16, CHANNELS = 4, WIDE = 4 };

// The sum of (x - from)^power.
INLINE float sum_of_powers(const int power, const float *x, float from, size_t n) {
  floats sums[WIDE];
  UNROLL for (int v = 0; v < WIDE; v++) sums[v] = splat(0.0f);
  size_t i = 0;
  for (; i + WIDE * LANES <= n; i += WIDE * LANES)
    UNROLL for (int v = 0; v < WIDE; v++) {
      floats d = load(x + i + v * LANES) - from;
      sums[v] += power == 2 ? d * d : d;
    }
  for (; i < n; i += LANES) {
    floats d = load_up_to(x + i, n - i, from) - from;
    sums[0] += power == 2 ? d * d : d;
  }
  return sum_of_lanes((sums[0] + sums[1]) + (sums[2] + sums[3]));
}

// One row, of which all elements have the gain and the bias of `scale` and `shift`, too.
INLINE void norm_row(const int has_mean, const float *x, const float *gain, const float *bias, float scale, float shift,
                     float eps, float *out, size_t n) {
  const float mean = has_mean ? sum_of_powers(1, x, 0.0f, n) / (float)n : 0.0f;
  const float factor = scale / __builtin_sqrtf(sum_of_powers(2, x, mean, n) / (float)n + eps);
  for (size_t i = 0; i < n; i += LANES) {
    floats by = splat(factor);
    if (gain) by *= load_up_to(gain + i, n - i, 0.0f);
    floats value = (load_up_to(x + i, n - i, 0.0f) - mean) * by + shift;
    if (bias) value += load_up_to(bias + i, n - i, 0.0f);
    store_up_to(out + i, value, n - i);
  }
}

INLINE void norm(const int has_mean, const float *x, const float *gain, const float *bias, float eps, float *out,
                 size_t m, size_t n, size_t workgroup_x) {
  size_t end = least(m, (workgroup_x + 1) * ROWS);
  for (size_t row = workgroup_x * ROWS; row < end; row++)
    norm_row(has_mean, x + row * n, gain, bias, 1.0f, 0.0f, eps, out + row * n, n);
}

// Of images, with a gain and a bias for each channel. Grid: (ceildiv(c, 4), b).
void opsplice_instancenorm(const float *x, const float *gain, const float *bias, float eps, float *out, size_t b,
                           size_t c, size_t h, size_t w, size_t workgroup_x, size_t workgroup_y) {
  (void)b;
  const size_t end = least(c, (workgroup_x + 1) * CHANNELS), n = h * w;
  for (size_t channel = workgroup_x * CHANNELS; channel < end; channel++) {
    const size_t at = (workgroup_y * c + channel) * n;
    norm_row(1, x + at, 0, 0, gain[channel], bias[channel], eps, out + at, n);
  }
}

void opsplice_layernorm(const float *x, const float *gain, const float *bias, float eps, float *out, size_t m, size_t n,
                        size_t workgroup_x) {
  norm(1, x, gain, bias, eps, out, m, n, workgroup_x);
}

void opsplice_rmsnorm(const float *x, const float *gain, float eps, float *out, size_t m, size_t n,
                      size_t workgroup_x) {
  norm(0, x, gain, 0, eps, out, m, n, workgroup_x);
}
