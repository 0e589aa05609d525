#include <stddef.h>

enum { STEP = 256, WIDTH = 8 };

// Of k as many as STEP, from number s * STEP on. b is packed: WIDTH columns lie together.
void partial(const float *restrict a, const float *restrict b, float *restrict out, size_t m, size_t k, size_t p,
             size_t s) {
  size_t first = s * STEP, end = first + STEP < k ? first + STEP : k;
  for (size_t i = 0; i < m; ++i)
    for (size_t block = 0; block < p; ++block) {
      float sums[WIDTH] = {0};
      for (size_t l = first; l < end; ++l)
        for (size_t j = 0; j < WIDTH; ++j) sums[j] += a[i * k + l] * b[(block * k + l) * WIDTH + j];
      for (size_t j = 0; j < WIDTH; ++j) out[((s * m + i) * p + block) * WIDTH + j] = sums[j];
    }
}

void combine(const float *restrict parts, float *restrict out, size_t s, size_t m, size_t w, size_t n, size_t row) {
  for (size_t j = 0; j < n; ++j) {
    float sum = 0;
    for (size_t part = 0; part < s; ++part) sum += parts[(part * m + row) * w + j];
    out[row * n + j] = sum;
  }
}
