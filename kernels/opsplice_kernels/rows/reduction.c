// What the elements of rows or columns come to, times a factor and by a divisor.
//
// Rows are taken LANES at a time, so that one transpose ends all of them; of columns each lane is one. Columns that are
// few lie in vectors like one row, and of these every m-th begins with the same column.
//
// Grid: (ceildiv(m, 64)) for rows: a workgroup does 64 of them. (ceildiv(b, ceildiv(4096, max(n * m, 1))), ceildiv(m, 256)) for
// columns: a workgroup does up to 256 of one image, or all columns of images that have 4096 elements together.
#include "../tile.h"

enum { ROWS_EACH = 64, COLUMNS_EACH = 256, ELEMENTS_EACH = 4096, WIDE = 4, MOST = 8 };
enum { SUM, SQUARES, LARGEST, SMALLEST };

INLINE floats nothing(const int which) {
  return splat(which == LARGEST ? -__builtin_inff() : which == SMALLEST ? __builtin_inff() : 0.0f);
}

// NaN where either is.
INLINE floats joined(const int which, floats a, floats b) {
  if (which == LARGEST) return choose(b != b, b, larger(b, a));
  if (which == SMALLEST) return choose(b != b, b, smaller(b, a));
  return a + b;
}

INLINE floats with(const int which, floats so_far, floats x) {
  return which == SQUARES ? so_far + x * x : joined(which, so_far, x);
}

INLINE floats row(const int which, const float *x, size_t n) {
  floats parts[WIDE];
  UNROLL for (int v = 0; v < WIDE; v++) parts[v] = nothing(which);
  size_t i = 0;
  for (; i + WIDE * LANES <= n; i += WIDE * LANES)
    UNROLL for (int v = 0; v < WIDE; v++) parts[v] = with(which, parts[v], load(x + i + v * LANES));
  for (; i + LANES <= n; i += LANES) parts[0] = with(which, parts[0], load(x + i));
  // A lane that has no element joins as it is.
  if (i < n) parts[1] = with(which, parts[1], load_some(x + i, n - i, nothing(which)[0]));
  return joined(which, joined(which, parts[0], parts[1]), joined(which, parts[2], parts[3]));
}

// `wide` vectors of columns.
INLINE void columns(const int which, const int wide, const float *x, size_t n, size_t m, floats *sums) {
  UNROLL for (int v = 0; v < wide; v++) sums[v] = nothing(which);
  for (size_t i = 0; i < n; i++, x += m)
    UNROLL for (int v = 0; v < wide; v++) sums[v] = with(which, sums[v], load(x + v * LANES));
}

// Up to LANES columns, of which every fourth element goes to a sum of its own.
INLINE floats some_columns(const int which, const float *x, size_t count, size_t n, size_t m) {
  floats parts[WIDE];
  UNROLL for (int v = 0; v < WIDE; v++) parts[v] = nothing(which);
  size_t i = 0;
  for (; i + WIDE <= n; i += WIDE)
    UNROLL for (int v = 0; v < WIDE; v++) parts[v] = with(which, parts[v], load_up_to(x + (i + v) * m, count, 0.0f));
  for (; i < n; i++) parts[0] = with(which, parts[0], load_up_to(x + i * m, count, 0.0f));
  return joined(which, joined(which, parts[0], parts[1]), joined(which, parts[2], parts[3]));
}

INLINE void few_columns(const int which, const float *x, float factor, float divisor, float *out, size_t n, size_t m) {
  floats sums[WIDE * LANES];
  size_t wide = m * ((MOST + m - 1) / m), i = 0, v = 0;
  for (size_t each = 0; each < wide; each++) sums[each] = nothing(which);
  for (; i + LANES <= n * m; i += LANES, v = v + 1 < wide ? v + 1 : 0) sums[v] = with(which, sums[v], load(x + i));
  if (i < n * m) sums[v] = with(which, sums[v], load_some(x + i, n * m - i, nothing(which)[0]));
  for (size_t each = m; each < wide; each++) sums[each % m] = joined(which, sums[each % m], sums[each]);
  // The first m vectors are LANES rows.
  const float *parts = (const float *)sums;
  for (size_t c = 0; c < m; c += LANES) {
    floats sum = nothing(which);
    for (size_t r = 0; r < LANES; r++) sum = joined(which, sum, load_up_to(parts + r * m + c, m - c, 0.0f));
    store_up_to(out + c, sum * factor / divisor, m - c);
  }
}

INLINE void each_row(const int which, const float *x, float factor, float divisor, float *out, size_t count, size_t n) {
  for (size_t i = 0; i < count; i += LANES) {
    size_t some = least(LANES, count - i);
    floats rows[LANES];
    UNROLL for (int r = 0; r < LANES; r++) rows[r] = nothing(which);
    for (size_t r = 0; r < some; r++) rows[r] = row(which, x + (i + r) * n, n);
    transpose(rows);
    UNROLL for (int half = LANES / 2; half > 0; half /= 2)
      UNROLL for (int r = 0; r < half; r++) rows[r] = joined(which, rows[r], rows[r + half]);
    store_up_to(out + i, rows[0] * factor / divisor, some);
  }
}

INLINE void each_column(const int which, const float *x, float factor, float divisor, float *out, size_t count,
                        size_t n, size_t m) {
  if (m < WIDE * LANES && m % LANES != 0 && n >= 2 * LANES) {
    few_columns(which, x, factor, divisor, out, n, m);
    return;
  }
  for (size_t i = 0, some; i < count; i += some) {
    floats sums[MOST];
    some = least(LANES, count - i);
    if (count - i >= MOST * LANES) columns(which, MOST, x + i, n, m, sums), some = MOST * LANES;
    else if (count - i >= WIDE * LANES) columns(which, WIDE, x + i, n, m, sums), some = WIDE * LANES;
    else sums[0] = some_columns(which, x + i, some, n, m);
    for (size_t c = 0; c < some; c += LANES) store_up_to(out + i + c, sums[c / LANES] * factor / divisor, some - c);
  }
}

#define OF_EACH(CALL) \
  switch (which) { \
    case SUM: CALL(SUM); break; \
    case SQUARES: CALL(SQUARES); break; \
    case LARGEST: CALL(LARGEST); break; \
    case SMALLEST: CALL(SMALLEST); break; \
  }

void opsplice_reduced_rows(const float *x, int32_t which, float factor, float divisor, float *out, size_t m, size_t n,
                           size_t workgroup_x) {
  size_t at = workgroup_x * ROWS_EACH, count = least(ROWS_EACH, m - at);
#define ROWS_OF(kind) each_row(kind, x + at * n, factor, divisor, out + at, count, n)
  OF_EACH(ROWS_OF)
}

void opsplice_reduced_columns(const float *x, int32_t which, float factor, float divisor, float *out, size_t b,
                              size_t n, size_t m, size_t workgroup_x, size_t workgroup_y) {
  size_t at = workgroup_y * COLUMNS_EACH, count = least(COLUMNS_EACH, m - at);
  size_t images = parts_together(ELEMENTS_EACH, n * m), first = workgroup_x * images, end = least(b, first + images);
#define COLUMNS_OF(kind) \
  for (size_t i = first; i < end; i++) \
    each_column(kind, x + i * n * m + at, factor, divisor, out + i * m + at, count, n, m)
  OF_EACH(COLUMNS_OF)
}
