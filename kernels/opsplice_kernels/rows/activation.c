// A function of each element, times another factor where there is one. `which` is one of vector_math.h. f16 and bf16 are
// widened as they are read, and all is computed in f32.
//
// Grid: (ceildiv(m, 4096)); a workgroup does 4096 elements.
#include "../halves.h"
#include "../vector_math.h"

enum { SHARE = 4096, WIDE = 2 };

INLINE void some(const int kind, const int which, const void *x, const void *factor, void *out, size_t i, size_t count) {
  floats value = activate(which, load_numbers(kind, x, i, count, 0.0f));
  store_numbers(kind, out, i, factor ? value * load_numbers(kind, factor, i, count, 0.0f) : value, count);
}

INLINE void each(const int kind, const int which, const void *x, const void *factor, void *out, size_t m,
                 size_t workgroup_x) {
  size_t i = workgroup_x * SHARE, end = least(m, i + SHARE);
  for (; i + WIDE * LANES <= end; i += WIDE * LANES)
    UNROLL for (int v = 0; v < WIDE; v++) some(kind, which, x, factor, out, i + v * LANES, LANES);
  for (; i < end; i += LANES) some(kind, which, x, factor, out, i, end - i);
}

#define GIVEN const void *x, const void *factor, int32_t which, void *out, size_t m, size_t workgroup_x
#define EACH(kind, name) \
  case name: \
    each(kind, name, x, factor, out, m, workgroup_x); \
    break;
#define ANY(kind) \
  switch (which) { \
    EACH(kind, GELU) EACH(kind, GELU_TANH) EACH(kind, SILU) EACH(kind, MISH) EACH(kind, SOFTPLUS) EACH(kind, ERF) \
    EACH(kind, SINE) EACH(kind, COSINE) \
  }
void opsplice_activation_f32(GIVEN) { ANY(F32) }
void opsplice_activation_f16(GIVEN) { ANY(F16) }
void opsplice_activation_bf16(GIVEN) { ANY(BF16) }
