// The kernel of the sample, the plain C function of docs/kernels.md. One workgroup makes 16 rows.

#include <stddef.h>

void scale(const float *restrict x, float gain, const float *restrict offset, float *restrict out, size_t m, size_t n,
           size_t workgroup_x) {
  size_t begin = workgroup_x * 16;
  size_t end = begin + 16 < m ? begin + 16 : m;
  for (size_t row = begin; row < end; ++row) {
    for (size_t i = 0; i < n; ++i) out[row * n + i] = x[row * n + i] * gain + offset[i];
  }
}
