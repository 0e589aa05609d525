// The kernel of the sample, in bare C: no libc, no threads. One workgroup makes 64 elements.

#include <stddef.h>

// out[i] = -|lhs[i] * rhs[i]| + 1. The + 1 is not in the pattern: it shows that this code ran, not the compiler's own.
void mul_abs_negate(const float *restrict lhs, const float *restrict rhs, float *restrict out, size_t n,
                    size_t workgroup_x) {
  size_t begin = workgroup_x * 64;
  size_t end = begin + 64 < n ? begin + 64 : n;
  for (size_t i = begin; i < end; ++i) {
    float product = lhs[i] * rhs[i];
    out[i] = (product < 0.0f ? product : -product) + 1.0f;
  }
}
