#include <math.h>
#include <stddef.h>

/* Row number `row` of m rows of n elements. */
void tiny_layers_rms_norm(const float *x, const float *gain, float eps, float *out, size_t m, size_t n, size_t row) {
  x += row * n;
  out += row * n;
  float sum = 0;
  for (size_t i = 0; i < n; ++i)
    sum += x[i] * x[i];
  const float scale = 1 / sqrtf(sum / (float)n + eps);
  for (size_t i = 0; i < n; ++i)
    out[i] = x[i] * scale * gain[i];
}
