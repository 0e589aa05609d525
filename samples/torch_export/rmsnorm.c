// out[i, :] = gain * x[i, :] / sqrt(mean(x[i, :]^2) + eps); a workgroup does one row.
#include <stddef.h>

void rmsnorm_rows(const float *restrict x, const float *restrict gain, float eps, float *restrict out, size_t m,
                  size_t n, size_t workgroup_x) {
  (void)m;
  x += workgroup_x * n;
  out += workgroup_x * n;
  float sum = 0.0f;
  for (size_t j = 0; j < n; j++) sum += x[j] * x[j];
  float scale = 1.0f / __builtin_sqrtf(sum / n + eps);
  for (size_t j = 0; j < n; j++) out[j] = x[j] * scale * gain[j];
}
