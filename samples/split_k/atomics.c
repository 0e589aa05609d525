#include <stddef.h>
#include <stdint.h>

enum { STEP = 256 };

// Other workgroups add to the same number at the same time: the sum is written only if it is still of the last one.
static void add(float *to, float more) {
  uint32_t *bits = (uint32_t *)to, old = __atomic_load_n(bits, __ATOMIC_RELAXED), new;
  do {
    float sum;
    __builtin_memcpy(&sum, &old, sizeof sum);
    sum += more;
    __builtin_memcpy(&new, &sum, sizeof new);
  } while (!__atomic_compare_exchange_n(bits, &old, new, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
}

void add_partial(const float *a, const float *b, float *out, size_t m, size_t k, size_t n, size_t part) {
  size_t first = part * STEP, end = first + STEP < k ? first + STEP : k;
  for (size_t i = 0; i < m; ++i)
    for (size_t j = 0; j < n; ++j) {
      float sum = 0;
      for (size_t l = first; l < end; ++l) sum += a[i * k + l] * b[l * n + j];
      add(out + i * n + j, sum);
    }
}
