// Numbers of any kind in any layout, and weights of them as tiles take these: in f32, [depth][PANEL].
#ifndef OPSPLICE_KERNELS_ANY_LAYOUT_H
#define OPSPLICE_KERNELS_ANY_LAYOUT_H

#include "halves.h"
#include "tile.h"

// Up to LANES numbers, `step` apart, from number `index` on, and 0 behind them.
INLINE floats load_at(int kind, const void *base, size_t index, size_t step, size_t count) {
  const void *from = element(kind, base, index);
  if (step == 1) return kind == F32 ? load_up_to(from, count, 0.0f) : load_halves(kind, from, count);
  const float *wide = from;
  const uint16_t *narrow = from;
  ints bits = {0};
  UNROLL for (size_t i = 0; i < LANES; i++)
    if (i < count) bits[i] = kind == F32 ? ((const int32_t *)wide)[i * step] : narrow[i * step];
  return kind == F32 ? (floats)bits : widened(kind, bits);
}

// As pack_columns of tile.h.
static inline void pack(int kind, const void *w, size_t column, size_t step, size_t columns, size_t depth, float *to) {
  if (kind == F32) {
    pack_columns(w, column, step, columns, columns, depth, to);
    return;
  }
  for (size_t c = 0; c < columns; c += LANES)
    for (size_t p = 0; p < depth; p += column == 1 ? 1 : LANES) {
      floats rows[LANES];
      UNROLL for (size_t i = 0; i < LANES; i++) rows[i] = splat(0.0f);
      if (column == 1) {
        if (c < columns) rows[0] = load_at(kind, w, p * step + c, 1, least(LANES, columns - c));
        store(to + p * PANEL + c, rows[0]);
        continue;
      }
      UNROLL for (size_t i = 0; i < LANES; i++)
        if (c + i < columns) rows[i] = load_at(kind, w, (c + i) * column + p * step, step, least(LANES, depth - p));
      transpose(rows);
      UNROLL for (size_t i = 0; i < LANES; i++) if (p + i < depth) store(to + (p + i) * PANEL + c, rows[i]);
    }
}
#endif
