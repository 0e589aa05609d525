// Softmax of one row in three passes, the exponential as a polynomial that compilers vectorise.
#include <stddef.h>
#include <stdint.h>

// exp of what is not above 0, to about 2 units in the last place; below -87 it is 0 or next to it.
static inline float exponential(float x) {
  x = x < -87.0f ? -87.0f : x;
  int32_t whole = (int32_t)(x * 1.44269504f - 0.5f);
  float rest = (x - whole * 0.693359375f) + whole * 2.12194440e-4f;
  float y = 1.9875691500e-4f;
  y = y * rest + 1.3981999507e-3f;
  y = y * rest + 8.3334519073e-3f;
  y = y * rest + 4.1665795894e-2f;
  y = y * rest + 1.6666665459e-1f;
  y = y * rest + 5.0000001201e-1f;
  y = y * rest * rest + rest + 1.0f;
  union { int32_t bits; float value; } power = {(whole + 127) << 23};
  return y * power.value;
}

void softmax_rows(const float *restrict x, float *restrict out, size_t m, size_t n, size_t row) {
  x += row * n;
  out += row * n;
  // From x[0] on, clang would take the loop below apart to read that once, and not vectorise it.
  float peak = -3.40282347e38f, sum = 0;
  for (size_t i = 0; i < n; ++i) peak = x[i] > peak ? x[i] : peak;
  for (size_t i = 0; i < n; ++i) sum += out[i] = exponential(x[i] - peak);
  float scale = 1.0f / sum;
  for (size_t i = 0; i < n; ++i) out[i] *= scale;
}
