// softmax and log-softmax of the rows of x, and softmax of columns.
//
// Grid: (ceildiv(m, 16)); a workgroup does 16 rows. (b, ceildiv(m, 256)) for columns: a workgroup does 256 of one image.
#include "../vector_math.h"

enum { ROWS = 16, COLUMNS = 256, WIDE = 4 };

static float largest(const float *x, size_t n) {
  floats peak[WIDE];
  UNROLL for (int v = 0; v < WIDE; v++) peak[v] = splat(-__builtin_inff());
  size_t i = 0;
  for (; i + WIDE * LANES <= n; i += WIDE * LANES)
    UNROLL for (int v = 0; v < WIDE; v++) peak[v] = larger(load(x + i + v * LANES), peak[v]);
  for (; i < n; i += LANES) peak[0] = larger(load_up_to(x + i, n - i, -__builtin_inff()), peak[0]);
  return largest_of_lanes(larger(larger(peak[0], peak[1]), larger(peak[2], peak[3])));
}

// The sum of e^(x - peak), whose terms are kept in `out` if there is one. The next row is fetched meanwhile.
INLINE float sum_of_exponentials(const float *x, float peak, float *out, size_t n) {
  floats sums[WIDE];
  UNROLL for (int v = 0; v < WIDE; v++) sums[v] = splat(0.0f);
  size_t i = 0;
  for (; i + WIDE * LANES <= n; i += WIDE * LANES)
    UNROLL for (int v = 0; v < WIDE; v++) {
      if (v * LANES % LINE == 0) __builtin_prefetch(x + n + i + v * LANES);
      floats e = exponential_below(load(x + i + v * LANES) - peak);
      if (out) store(out + i + v * LANES, e);
      sums[v] += e;
    }
  for (; i < n; i += LANES) {
    floats e = exponential_below(load_up_to(x + i, n - i, -__builtin_inff()) - peak);
    if (out) store_up_to(out + i, e, n - i);
    sums[0] += e;
  }
  return sum_of_lanes((sums[0] + sums[1]) + (sums[2] + sums[3]));
}

void opsplice_softmax(const float *x, float *out, size_t m, size_t n, size_t workgroup_x) {
  size_t end = least(m, (workgroup_x + 1) * ROWS);
  for (size_t row = workgroup_x * ROWS; row < end; row++) {
    float *to = out + row * n;
    float factor = 1.0f / sum_of_exponentials(x + row * n, largest(x + row * n, n), to, n);
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) store(to + i, load(to + i) * factor);
    if (i < n) store_some(to + i, load_some(to + i, n - i, 0.0f) * factor, n - i);
  }
}

void opsplice_log_softmax(const float *x, float *out, size_t m, size_t n, size_t workgroup_x) {
  size_t end = least(m, (workgroup_x + 1) * ROWS);
  for (size_t row = workgroup_x * ROWS; row < end; row++) {
    const float *from = x + row * n;
    float peak = largest(from, n), rest = logarithm(splat(sum_of_exponentials(from, peak, 0, n)))[0];
    for (size_t i = 0; i < n; i += LANES)
      store_up_to(out + row * n + i, load_up_to(from + i, n - i, 0.0f) - peak - rest, n - i);
  }
}

// WIDE vectors of columns, or as many as there are. The elements of a column lie x_n apart, and out_n in `out`.
INLINE void softmax_columns(const float *x, float *out, size_t n, size_t count, size_t x_n, size_t out_n) {
  floats peaks[WIDE], sums[WIDE];
#define EACH UNROLL for (int v = 0; v < WIDE; v++) if ((size_t)v * LANES < count)
#define LOADED(from) load_up_to(from + v * LANES, count - v * LANES, 0.0f)
#define STORED(value) store_up_to(out + i * out_n + v * LANES, value, count - v * LANES)
  EACH peaks[v] = splat(-__builtin_inff()), sums[v] = splat(0.0f);
  for (size_t i = 0; i < n; i++) EACH peaks[v] = larger(LOADED(x + i * x_n), peaks[v]);
  for (size_t i = 0; i < n; i++)
    EACH {
      floats e = exponential_below(LOADED(x + i * x_n) - peaks[v]);
      STORED(e);
      sums[v] += e;
    }
  EACH sums[v] = 1.0f / sums[v];
  for (size_t i = 0; i < n; i++) EACH STORED(LOADED(out + i * out_n) * sums[v]);
}

void opsplice_softmax_columns(const float *x, float *out, size_t b, size_t m, size_t n, size_t x_m, size_t x_n,
                              size_t out_m, size_t out_n, size_t image, size_t part) {
  (void)b, (void)x_m, (void)out_m, (void)image;
  size_t end = least(m, (part + 1) * COLUMNS);
  for (size_t at = part * COLUMNS; at < end; at += WIDE * LANES)
    softmax_columns(x + at, out + at, n, least(WIDE * LANES, end - at), x_n, out_n);
}
