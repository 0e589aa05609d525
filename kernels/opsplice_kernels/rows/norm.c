// Layer and RMS norms of the rows of x: out = (x - mean) / sqrt(variance + eps) * gain + bias. gain and bias may be
// null. The variance is the mean of the squared distances from the mean, which is 0 for an RMS norm. f16 and bf16 are
// widened as they are read, and all is computed in f32.
//
// Grid: (ceildiv(m, 16)); a workgroup does 16 rows.
#include "../halves.h"

enum { ROWS = 16, CHANNELS = 4, WIDE = 4 };

// The sum of (x - from)^power over n numbers from number `start` on.
INLINE float sum_of_powers(const int kind, const int power, const void *x, size_t start, float from, size_t n) {
  floats sums[WIDE];
  UNROLL for (int v = 0; v < WIDE; v++) sums[v] = splat(0.0f);
  size_t i = 0;
  for (; i + WIDE * LANES <= n; i += WIDE * LANES)
    UNROLL for (int v = 0; v < WIDE; v++) {
      floats d = load_numbers(kind, x, start + i + v * LANES, LANES, from) - from;
      sums[v] += power == 2 ? d * d : d;
    }
  for (; i < n; i += LANES) {
    floats d = load_numbers(kind, x, start + i, n - i, from) - from;
    sums[0] += power == 2 ? d * d : d;
  }
  return sum_of_lanes((sums[0] + sums[1]) + (sums[2] + sums[3]));
}

// One row, which starts at number `start`. All its elements have the gain and the bias of `scale` and `shift`, too.
INLINE void norm_row(const int kind, const int has_mean, const void *x, const void *gain, const void *bias, float scale,
                     float shift, float eps, void *out, size_t start, size_t n) {
  const float mean = has_mean ? sum_of_powers(kind, 1, x, start, 0.0f, n) / (float)n : 0.0f;
  const float factor = scale / __builtin_sqrtf(sum_of_powers(kind, 2, x, start, mean, n) / (float)n + eps);
  for (size_t i = 0; i < n; i += LANES) {
    floats by = splat(factor);
    if (gain) by *= load_numbers(kind, gain, i, n - i, 0.0f);
    floats value = (load_numbers(kind, x, start + i, n - i, 0.0f) - mean) * by + shift;
    if (bias) value += load_numbers(kind, bias, i, n - i, 0.0f);
    store_numbers(kind, out, start + i, value, n - i);
  }
}

INLINE void norm(const int kind, const int has_mean, const void *x, const void *gain, const void *bias, float eps,
                 void *out, size_t m, size_t n, size_t workgroup_x) {
  size_t end = least(m, (workgroup_x + 1) * ROWS);
  for (size_t row = workgroup_x * ROWS; row < end; row++)
    norm_row(kind, has_mean, x, gain, bias, 1.0f, 0.0f, eps, out, row * n, n);
}

// Of images, with a gain and a bias for each channel. Grid: (ceildiv(c, 4), b).
INLINE void norm_images(const int kind, const void *x, const void *gain, const void *bias, float eps, void *out,
                        size_t c, size_t n, size_t workgroup_x, size_t workgroup_y) {
  const size_t end = least(c, (workgroup_x + 1) * CHANNELS);
  for (size_t channel = workgroup_x * CHANNELS; channel < end; channel++) {
    const float scale = number(kind, gain, channel);
    const float shift = number(kind, bias, channel);
    norm_row(kind, 1, x, 0, 0, scale, shift, eps, out, (workgroup_y * c + channel) * n, n);
  }
}

#define OF_ROWS \
  const void *x, const void *gain, const void *bias, float eps, void *out, size_t m, size_t n, size_t workgroup_x
#define LAYERNORM(kind) norm(kind, 1, x, gain, bias, eps, out, m, n, workgroup_x)
void opsplice_layernorm_f32(OF_ROWS) { LAYERNORM(F32); }
void opsplice_layernorm_f16(OF_ROWS) { LAYERNORM(F16); }
void opsplice_layernorm_bf16(OF_ROWS) { LAYERNORM(BF16); }

#define WITH_GAIN const void *x, const void *gain, float eps, void *out, size_t m, size_t n, size_t workgroup_x
#define RMSNORM(kind) norm(kind, 0, x, gain, 0, eps, out, m, n, workgroup_x)
void opsplice_rmsnorm_f32(WITH_GAIN) { RMSNORM(F32); }
void opsplice_rmsnorm_f16(WITH_GAIN) { RMSNORM(F16); }
void opsplice_rmsnorm_bf16(WITH_GAIN) { RMSNORM(BF16); }

#define OF_IMAGES \
  const void *x, const void *gain, const void *bias, float eps, void *out, size_t b, size_t c, size_t h, size_t w, \
      size_t workgroup_x, size_t workgroup_y
#define INSTANCENORM(kind) (void)b, norm_images(kind, x, gain, bias, eps, out, c, h * w, workgroup_x, workgroup_y)
void opsplice_instancenorm_f32(OF_IMAGES) { INSTANCENORM(F32); }
void opsplice_instancenorm_f16(OF_IMAGES) { INSTANCENORM(F16); }
void opsplice_instancenorm_bf16(OF_IMAGES) { INSTANCENORM(BF16); }
