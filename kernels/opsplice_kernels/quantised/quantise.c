// Bytes for numbers, as DynamicQuantizeLinear of ONNX: bytes[i] = round(x[i] / scale) + zero within 0 and 255, where the
// bytes reach from the least number to the largest, and to 0. With a NaN among the numbers the scale is 0, as in IREE's
// import, where bytes are then 255 for what is above 0.
//
// One workgroup does all: the scale is known only once all numbers were read.
#include "../vector.h"

enum { WIDE = 4 };

typedef uint8_t bytes_anywhere __attribute__((vector_size(LANES), aligned(1), may_alias));

// To the nearest whole number, to the even one of two, for |x| < 2^22.
INLINE floats rounded(floats x) { return (x + 12582912.0f) - 12582912.0f; }

INLINE floats byte_of(floats x, float scale, float zero) {
  floats value = rounded(smaller(larger(x / scale, splat(-512.0f)), splat(512.0f))) + zero;
  return smaller(splat(255.0f), larger(splat(0.0f), value));
}

void opsplice_quantise_bytes(const float *x, uint8_t *bytes, float *scale, uint8_t *zero, size_t m) {
  floats top[WIDE], bottom[WIDE];
  UNROLL for (int v = 0; v < WIDE; v++) top[v] = bottom[v] = splat(0.0f);
  ints odd = {0};
  size_t i = 0;
  for (; i + WIDE * LANES <= m; i += WIDE * LANES)
    UNROLL for (int v = 0; v < WIDE; v++) {
      floats value = load(x + i + v * LANES);
      top[v] = larger(value, top[v]), bottom[v] = smaller(value, bottom[v]), odd |= value != value;
    }
  for (; i < m; i += LANES) {
    floats value = load_up_to(x + i, m - i, 0.0f);
    top[0] = larger(value, top[0]), bottom[0] = smaller(value, bottom[0]), odd |= value != value;
  }
  float largest = largest_of_lanes(larger(larger(top[0], top[1]), larger(top[2], top[3])));
  float least_one = -largest_of_lanes(-smaller(smaller(bottom[0], bottom[1]), smaller(bottom[2], bottom[3])));
  for (int l = 0; l < LANES; l++)
    if (odd[l]) largest = least_one = 0.0f;
  float step = (largest - least_one) / 255.0f, start = step > 0.0f ? rounded(splat(-least_one / step))[0] : 0.0f;
  *scale = step, *zero = (uint8_t)start;
  for (i = 0; i < m; i += LANES) {
    size_t count = least(m - i, LANES);
    ints value = __builtin_convertvector(byte_of(load_up_to(x + i, count, 0.0f), step, start), ints);
    if (count == LANES) *(bytes_anywhere *)(bytes + i) = __builtin_convertvector(value, bytes_anywhere);
    else UNROLL for (int l = 0; l < LANES; l++) if ((size_t)l < count) bytes[i + l] = (uint8_t)value[l];
  }
}
