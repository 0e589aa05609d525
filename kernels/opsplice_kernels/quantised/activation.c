// An activation of numbers that bytes stand for, as bytes again: out = round(f(scale * (x - zero)) / step) + middle, within
// the numbers of a byte. `which` is one of vector.h. Each of the 256 results is computed once in a workgroup. And numbers as
// bytes, without an activation: out = round(x / step) + middle.
//
// Grid: (ceildiv(m, 32768)).
#include "../byte_tile.h"
#include "../vector_math.h"

enum { SHARE = 32768, KINDS = 256 };

void opsplice_byte_activation(const uint8_t *x, float scale, int32_t zero, int32_t is_signed, float step, float middle,
                              int32_t is_out_signed, size_t which, uint8_t *out, size_t m, size_t workgroup_x) {
  const rounding by = {step, middle, is_out_signed ? -128.0f : 0.0f};
  uint8_t results[KINDS];
  for (int32_t first = 0; first < KINDS; first += LANES) {
    ints number;
    for (int l = 0; l < LANES; l++) number[l] = first + l - (is_signed && first + l >= KINDS / 2 ? KINDS : 0) - zero;
    store_as_bytes(results + first, activated(which, __builtin_convertvector(number, floats) * scale), by, LANES);
  }
  const size_t start = workgroup_x * SHARE, end = least(m, start + SHARE);
  for (size_t i = start; i < end; i++) out[i] = results[x[i]];
}

void opsplice_quantise_linear(const float *x, float step, float middle, int32_t is_out_signed, uint8_t *out, size_t m,
                              size_t workgroup_x) {
  const rounding by = {step, middle, is_out_signed ? -128.0f : 0.0f};
  const size_t end = least(m, (workgroup_x + 1) * SHARE);
  size_t i = workgroup_x * SHARE;
  for (; i + LANES <= end; i += LANES) store_as_bytes(out + i, load(x + i), by, LANES);
  if (i < end) store_as_bytes(out + i, load_some(x + i, end - i, 0.0f), by, end - i);
}
