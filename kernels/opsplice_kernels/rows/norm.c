// Layer and RMS norms of the rows of x: out = (x - mean) / sqrt(variance + eps) * gain + bias. gain and bias may be
// null. The variance is the mean of the squared distances from the mean, which is 0 for an RMS norm. f16 and bf16 are
// widened as they are read, and all is computed in f32.
//
// Grid: (ceildiv(m, 16)); a workgroup does 16 rows.
#include "../halves.h"

enum { ROWS = 16, NUMBERS = 4096, WIDE = 4 };

// The sum of (x - from)^power over n numbers from number `start` on.
INLINE float sum_of_powers(const int kind, const int power, const void *x, size_t start, float from, size_t n) {
  floats sums[WIDE];
  UNROLL for (int v = 0; v < WIDE; v++) sums[v] = splat(0.0f);
  size_t i = 0;
  for (; i + WIDE * LANES <= n; i += WIDE * LANES)
    UNROLL for (int v = 0; v < WIDE; v++) {
      floats d = load_numbers(kind, x, start + i + v * LANES, LANES, from) - from;
      sums[v] += power == 2 ? d * d : d;
    }
  for (; i < n; i += LANES) {
    floats d = load_numbers(kind, x, start + i, n - i, from) - from;
    sums[0] += power == 2 ? d * d : d;
  }
  return sum_of_lanes((sums[0] + sums[1]) + (sums[2] + sums[3]));
}

// One row, which starts at number `start`. All its elements have the gain and the bias of `scale` and `shift`, too.
INLINE void norm_row(const int kind, const int has_mean, const void *x, const void *gain, const void *bias, float scale,
                     float shift, float eps, void *out, size_t start, size_t n) {
  const float mean = has_mean ? sum_of_powers(kind, 1, x, start, 0.0f, n) / (float)n : 0.0f;
  const float factor = scale / __builtin_sqrtf(sum_of_powers(kind, 2, x, start, mean, n) / (float)n + eps);
  for (size_t i = 0; i < n; i += LANES) {
    floats by = splat(factor);
    if (gain) by *= load_numbers(kind, gain, i, n - i, 0.0f);
    floats value = (load_numbers(kind, x, start + i, n - i, 0.0f) - mean) * by + shift;
    if (bias) value += load_numbers(kind, bias, i, n - i, 0.0f);
    store_numbers(kind, out, start + i, value, n - i);
  }
}

INLINE void norm(const int kind, const int has_mean, const void *x, const void *gain, const void *bias, float eps,
                 void *out, size_t m, size_t n, size_t workgroup_x) {
  size_t end = least(m, (workgroup_x + 1) * ROWS);
  for (size_t row = workgroup_x * ROWS; row < end; row++)
    norm_row(kind, has_mean, x, gain, bias, 1.0f, 0.0f, eps, out, row * n, n);
}

// How far neighbours of a group lie apart along its channels, rows and columns, in numbers.
typedef struct {
  size_t c, d, h, w;
} steps;

// Where a row of a volume begins.
INLINE size_t row_at(size_t row, steps sizes, steps by) { return row / sizes.h * by.d + row % sizes.h * by.h; }

// The sum of (x - from)^power over a group. The numbers of a row lie side by side where its channels or its columns do.
INLINE float sum_of_group(const int kind, const int power, const void *x, size_t start, float from, steps sizes, steps by) {
  double sum = 0;
  const int is_last = by.c == 1 && by.w != 1;
  const size_t inner = is_last ? sizes.c : sizes.w, outer = is_last ? sizes.w : sizes.c;
  const size_t step = is_last ? by.c : by.w, next = is_last ? by.w : by.c;
  for (size_t o = 0; o < outer; o++)
    for (size_t row = 0; row < sizes.d * sizes.h; row++) {
      const size_t first = start + o * next + row_at(row, sizes, by);
      if (step == 1) sum += sum_of_powers(kind, power, x, first, from, inner);
      else
        for (size_t i = 0; i < inner; i++) {
          const float d = number(kind, x, first + i * step) - from;
          sum += power == 2 ? d * d : d;
        }
    }
  return (float)sum;
}

// The channels of one place, which lie side by side.
INLINE void norm_place(const int kind, const void *x, const void *gain, const void *bias, float mean, float factor,
                       void *out, size_t at, size_t to, size_t first, size_t c) {
  for (size_t i = 0; i < c; i += LANES) {
    floats by = splat(factor);
    if (gain) by *= load_numbers(kind, gain, first + i, c - i, 0.0f);
    floats value = (load_numbers(kind, x, at + i, c - i, mean) - mean) * by;
    if (bias) value += load_numbers(kind, bias, first + i, c - i, 0.0f);
    store_numbers(kind, out, to + i, value, c - i);
  }
}

// A row of one channel.
INLINE void norm_columns(const int kind, const void *x, float mean, float scale, float shift, void *out, size_t at,
                         size_t to, size_t step, size_t out_step, size_t w) {
  if (step == 1 && out_step == 1) {
    for (size_t i = 0; i < w; i += LANES)
      store_numbers(kind, out, to + i, (load_numbers(kind, x, at + i, w - i, mean) - mean) * scale + shift, w - i);
    return;
  }
  for (size_t i = 0; i < w; i++)
    set_number(kind, out, to + i * out_step, (number(kind, x, at + i * step) - mean) * scale + shift);
}

// One group. gain, bias: those of its first channel are at numbers `gain_at` and `bias_at`.
INLINE void norm_group(const int kind, const void *x, const void *gain, const void *bias, float eps, void *out, size_t at,
                       size_t to, size_t gain_at, size_t bias_at, size_t gain_c, size_t bias_c, steps sizes, steps by,
                       steps out_by) {
  if (by.h == sizes.w * by.w && out_by.h == sizes.w * out_by.w) sizes.w *= sizes.h, sizes.h = 1;
  if (sizes.h == 1 && by.d == sizes.w * by.w && out_by.d == sizes.w * out_by.w) sizes.w *= sizes.d, sizes.d = 1;
  const float n = (float)(sizes.c * sizes.d * sizes.h * sizes.w);
  const float mean = sum_of_group(kind, 1, x, at, 0.0f, sizes, by) / n;
  const float factor = 1.0f / __builtin_sqrtf(sum_of_group(kind, 2, x, at, mean, sizes, by) / n + eps);
  const int is_last = by.c == 1 && by.w != 1 && out_by.c == 1 && gain_at == bias_at;
  if (is_last && (!gain || gain_c == 1) && (!bias || bias_c == 1)) {
    for (size_t row = 0; row < sizes.d * sizes.h; row++)
      for (size_t i = 0; i < sizes.w; i++)
        norm_place(kind, x, gain, bias, mean, factor, out, at + row_at(row, sizes, by) + i * by.w,
                   to + row_at(row, sizes, out_by) + i * out_by.w, gain_at, sizes.c);
    return;
  }
  for (size_t channel = 0; channel < sizes.c; channel++) {
    const float scale = gain ? factor * number(kind, gain, gain_at + channel * gain_c) : factor;
    const float shift = bias ? number(kind, bias, bias_at + channel * bias_c) : 0.0f;
    for (size_t row = 0; row < sizes.d * sizes.h; row++)
      norm_columns(kind, x, mean, scale, shift, out, at + channel * by.c + row_at(row, sizes, by),
                   to + channel * out_by.c + row_at(row, sizes, out_by), by.w, out_by.w, sizes.w);
  }
}

#define OF_ROWS \
  const void *x, const void *gain, const void *bias, float eps, void *out, size_t m, size_t n, size_t workgroup_x
#define LAYERNORM(kind) norm(kind, 1, x, gain, bias, eps, out, m, n, workgroup_x)
void opsplice_layernorm_f32(OF_ROWS) { LAYERNORM(F32); }
void opsplice_layernorm_f16(OF_ROWS) { LAYERNORM(F16); }
void opsplice_layernorm_bf16(OF_ROWS) { LAYERNORM(BF16); }

// One row, with a gain and a bias for each element or one for all. Grid: (m).
INLINE void norm_one(const int kind, const void *x, const void *gain, const void *bias, float eps, void *out, size_t n,
                     size_t gain_n, size_t bias_n) {
  const float scale = gain && !gain_n ? number(kind, gain, 0) : 1.0f;
  const float shift = bias && !bias_n ? number(kind, bias, 0) : 0.0f;
  norm_row(kind, 1, x, gain_n ? gain : 0, bias_n ? bias : 0, scale, shift, eps, out, 0, n);
}

#define OF_ONE_ROW \
  const void *x, const void *gain, const void *bias, float eps, void *out, size_t m, size_t n, size_t x_n, size_t gain_n, \
      size_t bias_n, size_t out_n, size_t workgroup_x
#define ONE_ROW(kind) (void)m, (void)x_n, (void)out_n, (void)workgroup_x, norm_one(kind, x, gain, bias, eps, out, n, gain_n, bias_n)
void opsplice_norm_row_f32(OF_ONE_ROW) { ONE_ROW(F32); }
void opsplice_norm_row_f16(OF_ONE_ROW) { ONE_ROW(F16); }
void opsplice_norm_row_bf16(OF_ONE_ROW) { ONE_ROW(BF16); }

#define WITH_GAIN const void *x, const void *gain, float eps, void *out, size_t m, size_t n, size_t workgroup_x
#define RMSNORM(kind) norm(kind, 0, x, gain, 0, eps, out, m, n, workgroup_x)
void opsplice_rmsnorm_f32(WITH_GAIN) { RMSNORM(F32); }
void opsplice_rmsnorm_f16(WITH_GAIN) { RMSNORM(F16); }
void opsplice_rmsnorm_bf16(WITH_GAIN) { RMSNORM(BF16); }

// Grid: (ceildiv(g, ceildiv(4096, c * d * h * w)), b): a workgroup does as many groups as make 4096 numbers, at least one.
// gain and bias may be null.
#define OF_GROUPS \
  const void *x, const void *gain, const void *bias, float eps, void *out, size_t b, size_t g, size_t c, size_t d, size_t h, \
      size_t w, size_t x_b, size_t x_g, size_t x_c, size_t x_d, size_t x_h, size_t x_w, size_t gain_g, size_t gain_c, \
      size_t bias_g, size_t bias_c, size_t out_b, size_t out_g, size_t out_c, size_t out_d, size_t out_h, size_t out_w, \
      size_t workgroup_x, size_t workgroup_y
#define GROUPNORM(kind)                                                                                               \
  (void)b;                                                                                                            \
  const size_t n = c * d * h * w, several = parts_together(NUMBERS, n);                                               \
  const size_t end = least(g, (workgroup_x + 1) * several);                                                           \
  for (size_t at = workgroup_x * several; at < end; at++)                                                             \
    norm_group(kind, x, gain, bias, eps, out, workgroup_y * x_b + at * x_g, workgroup_y * out_b + at * out_g,         \
               at * gain_g, at * bias_g, gain_c, bias_c, (steps){c, d, h, w}, (steps){x_c, x_d, x_h, x_w},            \
               (steps){out_c, out_d, out_h, out_w})
void opsplice_groupnorm_f32(OF_GROUPS) { GROUPNORM(F32); }
void opsplice_groupnorm_f16(OF_GROUPS) { GROUPNORM(F16); }
void opsplice_groupnorm_bf16(OF_GROUPS) { GROUPNORM(BF16); }
