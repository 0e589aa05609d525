#include <stddef.h>

/* x / (1 + |x|) of a elements. */
void acme_kernels_soft_sign(const float *x, float *out, size_t a) {
  for (size_t i = 0; i < a; ++i) {
    const float size = x[i] < 0 ? -x[i] : x[i];
    out[i] = x[i] / (1 + size);
  }
}
