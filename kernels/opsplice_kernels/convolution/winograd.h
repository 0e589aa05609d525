// Filters of 3x3 with stride 1 by Winograd's products: four places of the output, two by two, take 16 products for each
// channel of the input in place of 36.
//
// A tile is those four places. Its inputs d are 4x4, and with g the filter its outputs are
//   At [(G g Gt) * (Bt d B)] A,  Bt d = (d0 - d2, d1 + d2, d2 - d1, d1 - d3),  G g = (g0, (g0 + g1 + g2) / 2, (g0 - g1 + g2) / 2, g2),
//   At m = (m0 + m1 + m2, m1 - m2 - m3),
// where * multiplies each element by its partner and sums over channels: 16 products of matrices, which are tiles of
// registers. A block is up to TILES tiles by a panel of channels. It takes the rows i of Bt d B one after the other, or where tiles are
// few several at once, which read the weights once; and the channels in chunks, so that sums and inputs stay in the cache.
//
// Each output is made of its own inputs only, but an infinite one would be NaN, since the two products that an input is in
// may have different signs. So a block with a result that is not finite is left to the caller. Weights are transformed
// for each block: they would be 16 / 9 of their size in memory.
#ifndef OPSPLICE_KERNELS_WINOGRAD_H
#define OPSPLICE_KERNELS_WINOGRAD_H

#include "layer.h"

// Tiles are as many as leave stack: IREE's workers have 128 KiB, and a block takes 110. SUMS: tiles times the rows
// that are taken at once. CHUNK: with AVX-512 half as many channels where all rows are. FAR: with so many channels the weights of the next chunk are
// fetched meanwhile. PITCH: between channels of inputs, of which the last vector of a row may write as much more than there is.
enum { TILES = 56, SUMS = 64, CHUNK = LANES == 16 ? 16 : 32, FAR = 256, PITCH = 2 * TILES + LANES };

// With r a row of Bt d, of all places: r[k] - r[k + 2], and r[k + 1] + r[k + 2] for even k and r[k + 1] - r[k] for odd ones. The row of
// Bt d B of tile t is the first at 2 t, the second at 2 t and 2 t + 1, and the first at 2 t + 1.
typedef float transformed_inputs[2][CHUNK][PITCH];
typedef float transformed_weights[4][CHUNK][PANEL];

// A vector of places: x and `below` x are two rows of the image, whose lanes from each of the next places on are `there`.
INLINE void transform_inputs(const int is_inside, const float *x, ptrdiff_t below, const lanes there[3], const lanes there_below[3],
                             float sign, size_t step, size_t channels, float *to) {
  ints is_odd;
  floats in_turn;
  UNROLL for (int l = 0; l < LANES; l++) is_odd[l] = -(l % 2), in_turn[l] = l % 2 ? -1.0f : 1.0f;
  for (size_t c = 0; c < channels; c++, x += step, to += PITCH) {
    floats r[3];
    UNROLL for (int k = 0; k < 3; k++) {
      if (is_inside) r[k] = load(x + k) + load(x + below + k) * sign;
      else r[k] = load_lanes(x + k, there[k], 0.0f) + load_lanes(x + below + k, there_below[k], 0.0f) * sign;
    }
    store(to, r[0] - r[2]);
    store(to + CHUNK * PITCH, r[1] + choose(is_odd, r[0], r[2]) * in_turn);
  }
}

// Row i of Bt d B, of `channels` channels from x on and `tiles_y` rows of `tiles_x` tiles, the first of which begins in row
// `above` and column `first` of the image.
static __attribute__((noinline)) void inputs_of_row(const layer *of, const float *x, size_t channels, size_t i,
                                                    ptrdiff_t above, ptrdiff_t first, size_t tiles_y, size_t tiles_x,
                                                    transformed_inputs to) {
  const ptrdiff_t one = i == 0 ? 0 : i == 2 ? 2 : 1, other = i == 3 ? 3 : i == 2 ? 1 : 2;
  const ptrdiff_t width = (ptrdiff_t)of->width, height = (ptrdiff_t)of->h, below = (other - one) * (ptrdiff_t)of->x_h;
  const float sign = i == 1 ? 1.0f : -1.0f;
  for (size_t t = 0; t < tiles_y; t++)
    for (size_t v = 0; v < 2 * tiles_x; v += LANES) {
      const ptrdiff_t row = above + 2 * (ptrdiff_t)t + one, next = row + other - one, from = first + (ptrdiff_t)v;
      const int is_row = row >= 0 && row < height, is_next = next >= 0 && next < height;
      const float *image = x + row * (ptrdiff_t)of->x_h + from;
      float *out = &to[0][0][2 * t * tiles_x + v];
      lanes there[3], there_below[3];
      UNROLL for (int k = 0; k < 3; k++) {
        const ptrdiff_t low = -from - k, high = width - from - k;
        there[k] = lanes_between(low, is_row ? high : low), there_below[k] = lanes_between(low, is_next ? high : low);
      }
      if (is_row && is_next && from >= 0 && from + LANES + 2 <= width)
        transform_inputs(1, image, below, there, there_below, sign, of->x_c, channels, out);
      else transform_inputs(0, image, below, there, there_below, sign, of->x_c, channels, out);
    }
}

INLINE void transform_weights(const float *w, size_t step, size_t channels, const int i, transformed_weights to) {
  for (size_t c = 0; c < channels; c++, w += step)
    UNROLL for (size_t v = 0; v < PANEL; v += LANES) {
      floats g[3];
      UNROLL for (int j = 0; j < 3; j++) {
        const float *at = w + j * PANEL + v;
        if (i == 0) g[j] = load(at);
        else if (i == 3) g[j] = load(at + 6 * PANEL);
        else {
          const floats outer = load(at) + load(at + 6 * PANEL), inner = load(at + 3 * PANEL);
          g[j] = (i == 1 ? outer + inner : outer - inner) * 0.5f;
        }
      }
      const floats outer = (g[0] + g[2]) * 0.5f, inner = g[1] * 0.5f;
      store(&to[0][c][v], g[0]);
      store(&to[1][c][v], outer + inner);
      store(&to[2][c][v], outer - inner);
      store(&to[3][c][v], g[2]);
    }
}

// Row i of G g Gt.
static __attribute__((noinline)) void weights_of_row(const float *w, size_t step, size_t channels, size_t i,
                                                     transformed_weights to) {
  switch (i) {
    case 0: transform_weights(w, step, channels, 0, to); break;
    case 1: transform_weights(w, step, channels, 1, to); break;
    case 2: transform_weights(w, step, channels, 2, to); break;
    default: transform_weights(w, step, channels, 3, to); break;
  }
}

// sums[p][c] += what `channels` channels add to tile p and channel c < TILE; the first ones begin with zero. later: what is fetched
// meanwhile, a line for each channel; or null.
INLINE void add_products(const int rows, float sums[][PANEL], const float *x, const float *w, size_t channels,
                         int is_first, const float *later) {
  floats kept[ROWS][VECTORS];
  UNROLL for (int p = 0; p < rows; p++) UNROLL for (int v = 0; v < VECTORS; v++)
    kept[p][v] = is_first ? splat(0.0f) : load(sums[p] + v * LANES);
  multiply_fetching(rows, kept, x, 2, PITCH, w, PANEL, channels, 0, later, LINE);
  UNROLL for (int p = 0; p < rows; p++) UNROLL for (int v = 0; v < VECTORS; v++) store(sums[p] + v * LANES, kept[p][v]);
}

// Rows `y` to `y + high` by places `z` to `z + wide` of a panel: at most TILES tiles. 0 if a result is not finite, where
// nothing is written.
static __attribute__((noinline)) int winograd(const layer *of, size_t y, size_t high, size_t z, size_t wide) {
  float m[4 * SUMS][PANEL] __attribute__((aligned(64)));
  float made[PANEL / TILE][2][2 * TILES + LANES][TILE] __attribute__((aligned(64)));  // rows and places of tiles
  transformed_inputs x __attribute__((aligned(64)));
  transformed_weights w __attribute__((aligned(64)));
  const size_t tiles_y = (high + 1) / 2, tiles_x = (wide + 1) / 2, tiles = tiles_y * tiles_x;
  const ptrdiff_t above = (ptrdiff_t)(y - of->top), first = (ptrdiff_t)(z - of->left);
  const size_t together = tiles <= SUMS / 4 ? 4 : tiles <= SUMS / 2 ? 2 : 1;
  ints is_finite = (ints){0} - 1;
  for (size_t from = 0; from < 4; from += together) {
    for (size_t c = 0, count; c < of->c; c += count) {
      const size_t left = of->c - c, most = LANES == 16 && together == 4 ? CHUNK / 2 : CHUNK;
      count = left / ((left + most - 1) / most);
      const float *next = of->w + (c + count) * of->w_c, *last = of->c >= FAR ? next + count * of->w_c : next;
      for (size_t i = from; i < from + together; i++) {
        inputs_of_row(of, of->x + c * of->x_c, count, i, above, first, tiles_y, tiles_x, x);
        weights_of_row(of->w + c * of->w_c, of->w_c, count, i, w);
        for (size_t j = 0; j < 4; j++) {
          float(*sums)[PANEL] = m + ((i - from) * 4 + j) * tiles;
          const float *inputs = x[j % 3 != 0][0] + j / 2;
          for (size_t part = 0; part < of->columns; part += TILE)
            for (size_t t = 0, rows; t < tiles; t += rows, next += next < last ? count * LINE : 0) {
              rows = (tiles - t) / ((tiles - t + ROWS - 1) / ROWS);
#define PRODUCTS(p) \
  add_products(p, (float(*)[PANEL])(sums[t] + part), inputs + 2 * t, w[j][0] + part, count, c == 0, next < last ? next : 0)
              FOR_ROWS(rows, PRODUCTS)
            }
        }
      }
    }
    for (size_t i = from; i < from + together; i++)
      for (size_t part = 0; part < of->columns; part += LANES) {
        const floats bias = of->bias ? load_up_to(of->bias + part, of->columns - part, 0.0f) : splat(0.0f);
        for (size_t t = 0; t < tiles; t++) {
          const float *sum = m[(i - from) * 4 * tiles + t] + part;
          const size_t next = tiles * PANEL;
          const floats inner = load(sum + next), outer = load(sum + 2 * next);
          const floats sums[2] = {load(sum) + inner + outer, inner - outer - load(sum + 3 * next)};
          UNROLL for (int s = 0; s < 2; s++) {
            float *upper = made[part / TILE][0][2 * t + s] + part % TILE, *lower = made[part / TILE][1][2 * t + s] + part % TILE;
            if (i < 3) store(upper, (i == 0 ? bias : load(upper)) + sums[s]);
            if (i == 1) store(lower, bias + sums[s]);
            else if (i > 1) store(lower, load(lower) - sums[s]);
            if (i == 3) is_finite &= (absolute(load(upper)) < __builtin_inff()) & (absolute(load(lower)) < __builtin_inff());
          }
        }
      }
  }
  if (any_lane(~is_finite)) return 0;
  for (size_t part = 0; part < of->columns; part += TILE)
    for (size_t r = 0; r < high; r++)
      put(of, &made[part / TILE][r % 2][r / 2 * 2 * tiles_x], wide, y + r, z, part);
  return 1;
}

// Whether the products that it saves are more than what it adds. With vectors of 8 and 4 lanes it is 0.5 to 0.8 of the time of
// direct ones for 7x7 places, too. That a panel is full is for the caller to say.
static int pays_winograd(const layer *of, size_t high, size_t wide) {
  return of->kh == 3 && of->kw == 3 && of->sh == 1 && of->sw == 1 && of->dh == 1 && of->dw == 1 && of->x_w == 1 &&
         of->w_i == 3 * PANEL && of->w_j == PANEL && of->c >= 24 && high * wide >= (LANES == 16 ? 100 : 36);
}
#endif
