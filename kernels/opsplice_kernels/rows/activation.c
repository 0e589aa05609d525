// A function of each element, times another factor where there is one. `which` is one of vector_math.h.
//
// Grid: (ceildiv(m, 4096)); a workgroup does 4096 elements.
#include "../vector_math.h"

enum { SHARE = 4096, WIDE = 2 };

INLINE void each(const int which, const float *x, const float *factor, float *out, size_t m, size_t workgroup_x) {
  size_t i = workgroup_x * SHARE, end = least(m, i + SHARE);
  for (; i + WIDE * LANES <= end; i += WIDE * LANES)
    UNROLL for (int v = 0; v < WIDE; v++) {
      floats value = activate(which, load(x + i + v * LANES));
      store(out + i + v * LANES, factor ? value * load(factor + i + v * LANES) : value);
    }
  for (; i < end; i += LANES) {
    floats value = activate(which, load_up_to(x + i, end - i, 0.0f));
    if (factor) value *= load_up_to(factor + i, end - i, 0.0f);
    store_up_to(out + i, value, end - i);
  }
}

void opsplice_activation(const float *x, const float *factor, int32_t which, float *out, size_t m, size_t workgroup_x) {
#define EACH(name) \
  case name: \
    each(name, x, factor, out, m, workgroup_x); \
    break;
  switch (which) { EACH(GELU) EACH(GELU_TANH) EACH(SILU) EACH(MISH) EACH(SOFTPLUS) EACH(ERF) EACH(SINE) EACH(COSINE) }
}
