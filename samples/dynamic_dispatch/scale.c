// The kernel of the sample, in bare C: no libc, no threads. One workgroup makes 64 elements.

#include <stddef.h>

void scale_add(const float *x, const float *y, float factor, float *out, size_t n, size_t workgroup_x) {
  size_t begin = workgroup_x * 64;
  size_t end = begin + 64 < n ? begin + 64 : n;
  for (size_t i = begin; i < end; ++i) out[i] = factor * x[i] + y[i];
}
