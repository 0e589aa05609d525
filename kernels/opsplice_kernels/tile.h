// The tile of registers that products, attention and convolutions are made of: up to ROWS rows by VECTORS vectors of
// sums, next to VECTORS vectors of weights and one number of the input, which is broadcast. 14 x 32 sums with AVX-512,
// 6 x 16 with AVX2, 12 x 8 with NEON.
#ifndef OPSPLICE_KERNELS_TILE_H
#define OPSPLICE_KERNELS_TILE_H

#include "vector.h"

enum { VECTORS = 2, TILE = VECTORS * LANES, PANEL = 32 };
#if LANES == 16
enum { ROWS = 14 };
#elif defined(__aarch64__)
enum { ROWS = 12 };
#else
enum { ROWS = 6 };
#endif

// CALL(p) for p = `rows` <= ROWS as a constant.
#define CASE(p, CALL) case p: CALL(p); break;
#define FIRST_ROWS(CALL) CASE(1, CALL) CASE(2, CALL) CASE(3, CALL) CASE(4, CALL) CASE(5, CALL) CASE(6, CALL)
#if LANES == 16 || defined(__aarch64__)
#define FIRST_TWELVE(CALL) \
  FIRST_ROWS(CALL) CASE(7, CALL) CASE(8, CALL) CASE(9, CALL) CASE(10, CALL) CASE(11, CALL) CASE(12, CALL)
#endif
#if LANES == 16
#define EACH_ROW(CALL) FIRST_TWELVE(CALL) CASE(13, CALL) CASE(14, CALL)
#elif defined(__aarch64__)
#define EACH_ROW FIRST_TWELVE
#else
#define EACH_ROW FIRST_ROWS
#endif
#define FOR_ROWS(rows, CALL) switch (rows) { EACH_ROW(CALL) }

// Where rows of bytes begin, three by one address, and all `count` bytes on: clang would have an address for each row, and keep it in memory.
INLINE void begin_threes(const int rows, const void *x, size_t row, const uint8_t *from[(ROWS + 2) / 3]) {
  UNROLL for (int p = 0; p < rows; p += 3) {
    from[p / 3] = (const uint8_t *)x + (size_t)p * row;
    __asm__("" : "+r"(from[p / 3]));
  }
}
INLINE void advance_threes(const int rows, const uint8_t *from[], size_t count) {
  UNROLL for (int p = 0; p < rows; p += 3) from[p / 3] += count;
}

// Some places of k, where from[p / 2] is row p or the one before it. AVX2 has so few sums that advancing beside them takes time: four
// places are done at once, each pair of rows by one address.
enum { EACH_TIME = LANES == 8 ? 4 : 1 };
INLINE void multiply_some(const int count, const int rows, const int vectors, floats sums[][VECTORS], const float *const from[],
                           size_t row, size_t step, const float *w, size_t next, const int ahead, const int fetches,
                           const float *later, size_t part) {
  UNROLL for (int i = 0; i < count; i++, w += next) {
    floats weights[VECTORS];
    if (fetches) __builtin_prefetch(later + i * part, 0, 2);
    if (ahead) UNROLL for (int v = 0; v < vectors; v++) __builtin_prefetch(w + ahead + v * LANES);
    UNROLL for (int v = 0; v < vectors; v++) weights[v] = load(w + v * LANES);
    UNROLL for (int p = 0; p < rows; p++) {
      float value = from[p / 2][p % 2 * row + i * step];
      UNROLL for (int v = 0; v < vectors; v++) sums[p][v] += weights[v] * value;
    }
  }
}

// sums[p] += the sum over i < k of x[p * row + i * step] * w[i * next ...], of so many vectors. ahead: how many floats in front of w to fetch.
// later: what is needed after this, of which each i fetches `part` floats; or null.
INLINE void multiply_vectors(const int rows, const int vectors, floats sums[][VECTORS], const float *x, size_t row,
                             size_t step, const float *w, size_t next, size_t k, const int ahead, const float *later,
                             size_t part) {
  // Where `later` may be null there is no branch in each step, around which clang would keep numbers in memory.
  const int fetches = !(__builtin_constant_p(later == 0) && later == 0);
  if (!later) later = w, part = 0;
  const float *from[(ROWS + 1) / 2];
  UNROLL for (int p = 0; p < rows; p += 2) {
    from[p / 2] = x + (size_t)p * row;
    if (EACH_TIME > 1 && !__builtin_constant_p(row)) __asm__("" : "+r"(from[p / 2]));
  }
#define MULTIPLY_SOME(count) \
  { \
    multiply_some(count, rows, vectors, sums, from, row, step, w, next, ahead, fetches, later, part); \
    UNROLL for (int p = 0; p < rows; p += 2) from[p / 2] += (count) * step; \
    w += (count) * next; \
    later += (count) * part; \
  }
  size_t left = k;
  for (; left >= EACH_TIME; left -= EACH_TIME) MULTIPLY_SOME(EACH_TIME)
  if (EACH_TIME > 1) ROLLED for (; left; left--) MULTIPLY_SOME(1)
}

INLINE void multiply_fetching(const int rows, floats sums[][VECTORS], const float *x, size_t row, size_t step,
                              const float *w, size_t next, size_t k, const int ahead, const float *later, size_t part) {
  multiply_vectors(rows, VECTORS, sums, x, row, step, w, next, k, ahead, later, part);
}

INLINE void multiply(const int rows, floats sums[][VECTORS], const float *x, size_t row, size_t step, const float *w,
                     size_t next, size_t k, const int ahead) {
  multiply_fetching(rows, sums, x, row, step, w, next, k, ahead, 0, 0);
}

// out[p * n + c] = start[p * start_row + c] + the product of `k` numbers of row p and column c < columns, where w has rows that are `next`
// apart. start may be null. It is added last: products that are small next to it would each be rounded as it is.
INLINE void columns_tile(const int rows, const float *x, size_t row, size_t step, size_t k, const float *w, size_t next, const int ahead,
                         const float *later, size_t part, const float *start, size_t start_row, float *out, size_t n,
                         size_t columns) {
  floats sums[ROWS][VECTORS];
  UNROLL for (int v = 0; v < VECTORS; v++) UNROLL for (int p = 0; p < rows; p++) sums[p][v] = splat(0.0f);
  multiply_fetching(rows, sums, x, row, step, w, next, k, ahead, later, part);
  UNROLL for (int p = 0; p < rows; p++) UNROLL for (int v = 0; v < VECTORS; v++) {
    size_t c = v * LANES;
    if (c >= columns) continue;
    if (start) sums[p][v] += load_up_to(start + p * start_row + c, columns - c, 0.0f);
    store_up_to(out + (size_t)p * n + c, sums[p][v], columns - c);
  }
}

// The same of a panel.
INLINE void panel_tile(const int rows, const float *x, size_t row, size_t step, size_t k, const float *w, const int ahead,
                       const float *later, size_t part, const float *start, size_t start_row, float *out, size_t n, size_t columns) {
  columns_tile(rows, x, row, step, k, w, PANEL, ahead, later, part, start, start_row, out, n, columns);
}

// The lanes of a row and of the row `bit` behind it change places where their numbers differ in that bit.
#define LOW_LANE(l, bit) ((l) & (bit) ? LANES + ((l) & ~(bit)) : (l))
#define HIGH_LANE(l, bit) ((l) & (bit) ? LANES + (l) : (l) | (bit))
#if LANES == 16
#define EACH_LANE(F, bit) \
  F(0, bit), F(1, bit), F(2, bit), F(3, bit), F(4, bit), F(5, bit), F(6, bit), F(7, bit), F(8, bit), F(9, bit), \
      F(10, bit), F(11, bit), F(12, bit), F(13, bit), F(14, bit), F(15, bit)
#elif LANES == 8
#define EACH_LANE(F, bit) F(0, bit), F(1, bit), F(2, bit), F(3, bit), F(4, bit), F(5, bit), F(6, bit), F(7, bit)
#else
#define EACH_LANE(F, bit) F(0, bit), F(1, bit), F(2, bit), F(3, bit)
#endif
#define EXCHANGE(count, rows, bit) \
  UNROLL for (int i = 0; i < (count); i++) if (!(i & (bit))) { \
    floats low = rows[i], high = rows[i + (bit)]; \
    rows[i] = __builtin_shufflevector(low, high, EACH_LANE(LOW_LANE, bit)); \
    rows[i + (bit)] = __builtin_shufflevector(low, high, EACH_LANE(HIGH_LANE, bit)); \
  }
INLINE void transpose(floats rows[LANES]) {
  EXCHANGE(LANES, rows, 1)
  EXCHANGE(LANES, rows, 2)
#if LANES >= 8
  EXCHANGE(LANES, rows, 4)
#endif
#if LANES == 16
  EXCHANGE(LANES, rows, 8)
#endif
}

// Lane l is the sum of the lanes of rows[l].
INLINE floats sums_of_rows(floats rows[LANES]) {
#define ADD_PAIRS(bit) \
  EXCHANGE(LANES, rows, bit) \
  UNROLL for (int i = 0; i < LANES; i++) if (!(i & (bit))) rows[i] += rows[i + (bit)];
  ADD_PAIRS(1)
  ADD_PAIRS(2)
#if LANES >= 8
  ADD_PAIRS(4)
#endif
#if LANES == 16
  ADD_PAIRS(8)
#endif
  return rows[0];
}

// to[p * to_row + j] = x[p] . w[j] for j < count, where x has rows that are `row` apart and w such that are `column` apart: LANES at once,
// of 1, 2 or 4 rows, for which packing w costs more than it saves. What is behind `count`, up to LANES, is written, too.
INLINE void dots_of(const int rows, const float *x, size_t row, const float *w, size_t column, size_t k, size_t count, float *to,
                    size_t to_row) {
  const int each = LANES / rows;
  for (size_t j = 0; j < count; j += each) {
    floats sums[LANES];
    const float *from[LANES];
    UNROLL for (int i = 0; i < each; i++) from[i] = w + least(j + i, count - 1) * column;
    UNROLL for (int i = 0; i < LANES; i++) sums[i] = splat(0.0f);
#define DOTS_AT(load_from) \
  UNROLL for (int p = 0; p < rows; p++) UNROLL for (int i = 0; i < each; i++) \
    sums[p * each + i] += load_from(x + p * row + c) * load_from(from[i] + c);
#define LOAD_REST(x) load_up_to(x, k - c, 0.0f)
    size_t c = 0;
    for (; c + LANES <= k; c += LANES) DOTS_AT(load)
    if (c < k) DOTS_AT(LOAD_REST)
    float found[LANES] __attribute__((aligned(4 * LANES)));
    store(found, sums_of_rows(sums));
    UNROLL for (int p = 0; p < rows; p++) __builtin_memcpy(to + p * to_row + j, found + p * each, 4 * each);
  }
}

static inline void dots(const float *x, size_t row, size_t rows, const float *w, size_t column, size_t k, size_t count, float *to,
                        size_t to_row) {
  for (size_t i = 0, some; i < rows; i += some) {
    some = rows - i >= 4 ? 4 : rows - i >= 2 ? 2 : 1;
#define DOTS_OF(p) dots_of(p, x + i * row, row, w, column, k, count, to + i * to_row, to_row)
    switch (some) { CASE(1, DOTS_OF) CASE(2, DOTS_OF) CASE(4, DOTS_OF) }
  }
}

// to[p * PANEL + c] = w[c * column + p * step] for c < columns <= PANEL and p < depth; 0 for the columns behind, up to `width`.
static inline void pack_columns(const float *w, size_t column, size_t step, size_t columns, size_t width, size_t depth,
                                float *to) {
  if (column == 1) {
    for (size_t p = 0; p < depth; p++)
      UNROLL for (size_t c = 0; c < PANEL; c += LANES)
        if (c < width) store(to + p * PANEL + c, c < columns ? load_up_to(w + p * step + c, columns - c, 0.0f) : splat(0.0f));
    return;
  }
  for (size_t c = 0; c < width; c += LANES) {
    size_t p = 0;
    if (step == 1)
      for (; p + LANES <= depth; p += LANES) {
        floats rows[LANES];
        UNROLL for (size_t i = 0; i < LANES; i++) rows[i] = c + i < columns ? load(w + (c + i) * column + p) : splat(0.0f);
        transpose(rows);
        UNROLL for (int i = 0; i < LANES; i++) store(to + (p + i) * PANEL + c, rows[i]);
      }
    for (; p < depth; p++)
      for (size_t i = 0; i < LANES; i++) to[p * PANEL + c + i] = c + i < columns ? w[(c + i) * column + p * step] : 0.0f;
  }
}

// The same for a whole panel.
static inline void pack_panel(const float *w, size_t column, size_t step, size_t columns, size_t depth, float *to) {
  pack_columns(w, column, step, columns, PANEL, depth, to);
}

// As panel_tile, for any number of rows and a panel of `columns`.
static inline void product_with_panel(const float *x, size_t row, size_t step, size_t k, const float *panel,
                                      const float *start, size_t start_row, float *out, size_t n, size_t rows,
                                      size_t columns) {
  for (size_t i = 0, count; i < rows; i += count) {
    size_t left = rows - i;
    count = left / ((left + ROWS - 1) / ROWS);
    for (size_t c = 0; c < columns; c += TILE) {
#define PANEL_TILE(p) \
  panel_tile(p, x + i * row, row, step, k, panel + c, 0, 0, 0, start ? start + i * start_row + c : 0, start_row, \
               out + i * n + c, n, least(TILE, columns - c))
      FOR_ROWS(count, PANEL_TILE)
    }
  }
}
#endif
