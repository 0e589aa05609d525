#include <stddef.h>

void scale_bias(const float *x, float gain, const float *bias, float *out, size_t m, size_t n, size_t column,
                size_t row) {
  size_t end = column * 64 + 64 < n ? column * 64 + 64 : n;
  for (size_t i = column * 64; i < end; ++i) out[row * n + i] = x[row * n + i] * gain + bias[i];
}
