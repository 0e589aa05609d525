// The most that a core does: multiplications with additions, all in registers.
#include <stddef.h>

typedef float lanes __attribute__((vector_size(LANES * 4)));

void multiply_add(const float *x, float *out, size_t n, size_t row) {
  lanes sums[12];
  lanes factor, addend;
  for (int i = 0; i < LANES; i++) {
    factor[i] = x[i];
    addend[i] = x[LANES + i];
  }
  for (int s = 0; s < 12; s++)
    sums[s] = factor;
  for (size_t turn = 0; turn < 100000; turn++)
    for (int s = 0; s < 12; s++)
      sums[s] = sums[s] * factor + addend;
  for (int i = 0; i < LANES; i++) {
    float sum = 0;
    for (int s = 0; s < 12; s++)
      sum += sums[s][i];
    out[i] = sum;
  }
  for (size_t i = LANES; i < n; i++)
    out[i] = 0;
}
