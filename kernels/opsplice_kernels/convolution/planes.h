// Depthwise convolutions of planes: of each channel alone, with any filter, stride, dilation and padding,
//   out[c, y, z] = f(bias[c] + sum of x[c, sh y + dh i - top, sw z + dw j - left] * w[c, i, j]),
// where x is zero outside of the image. f is one of the activations of vector.h.
//
// A vector is neighbouring places of a row; zeros are multiplied, too, so that a filter with infinities or NaN gives what it should.
// For filters of 3x3, 5x5 and 7x7 with stride 1 and 2, or dilated, blocks of the image are copied with the zeros around them, and
// several rows that are as far apart as the filter's are done at once, which share what they read. Where rows or places do not come
// out even the last ones are done again. With stride 1 images of at most a vector of places a row are read where they are, with AVX2
// those for 3x3: reads of small copies wait for what was just stored. Of small images, of short rows or of other filters, a vector of
// channels is transposed, and the results back.
#ifndef OPSPLICE_KERNELS_PLANES_H
#define OPSPLICE_KERNELS_PLANES_H

#include "../tile.h"
#include "channels_last.h"

enum { CHANNELS = 4, HIGH = 4, WIDEST = 256, BLOCK = 4096, MOST_SIZE = 7 };
// Places of an image whose channels are side by side; the largest results for which they are; places of a row at once.
enum { ASIDE = 324, SMALL = 256, MOST_PLACES = 8 };
// Rows that are done at once: seven, of which images have multiples, or four, whichever does fewer again.
enum { MOST_ROWS = LANES >= 8 ? 7 : HIGH };

typedef struct {
  const float *x, *w;
  float *out, bias;
  size_t activation;
  ptrdiff_t h, width, oh, ow, kh, kw, sh, sw, dh, dw, top, left;
  // How far rows and places of x, the filter and the result lie apart.
  ptrdiff_t x_h, x_w, w_i, w_j, out_h, out_w;
} plane;

static ptrdiff_t rows_at_once(ptrdiff_t rows) {
  const ptrdiff_t by_most = (rows + MOST_ROWS - 1) / MOST_ROWS * MOST_ROWS, by_four = (rows + HIGH - 1) / HIGH * HIGH;
  return rows >= MOST_ROWS && by_most <= by_four ? MOST_ROWS : rows >= HIGH ? HIGH : 1;
}

// The sums of places z ... of row y.
INLINE void put(const plane *of, floats sums, ptrdiff_t y, ptrdiff_t z) {
  float *out = of->out + y * of->out_h + z * of->out_w;
  sums = activated(of->activation, sums);
  if (of->out_w == 1) store_up_to(out, sums, (size_t)(of->ow - z));
  else
    for (ptrdiff_t l = 0; l < LANES && z + l < of->ow; l++) out[l * of->out_w] = sums[l];
}

// The results of some vectors of sums.
INLINE void finish(const plane *of, const int count, floats *sums, floats bias) {
  UNROLL for (int r = 0; r < count; r++) sums[r] += bias;
  if (is_long(of->activation)) {
    floats kept[MOST_PLACES];
    UNROLL for (int r = 0; r < count; r++) kept[r] = sums[r];
    activate_many(of->activation, kept, (size_t)count);
    UNROLL for (int r = 0; r < count; r++) sums[r] = kept[r];
  } else if (of->activation != NOTHING) UNROLL for (int r = 0; r < count; r++) sums[r] = activated(of->activation, sums[r]);
}

// A vector of places of each of some rows, which are dh apart. x: what the first tap of the first one reads. A column of
// the filter is in registers for all rows: the barrier keeps the compiler from having all of a large one in others, and in
// memory. is_cut: of stride 1, from the image itself. With stride 2 every other place of a line stands in its second half.
INLINE void places(const plane *of, const int rows, const int size, const int stride, const int is_cut, const float *x,
                   ptrdiff_t pitch, ptrdiff_t y, ptrdiff_t z) {
  floats sums[MOST_ROWS];
  UNROLL for (int r = 0; r < rows; r++) sums[r] = splat(0.0f);
  UNROLL for (int j = 0; j < size; j++) {
    if (size > 3) __asm__ volatile("" ::: "memory");
    floats weights[MOST_SIZE];
    UNROLL for (int i = 0; i < size; i++) weights[i] = splat(of->w[i * size + j]);
    const float *from = x + (stride == 1 ? j * of->dw : j % 2 * (pitch / 2) + j / 2);
    const ptrdiff_t column = z + j - of->left, line = y - of->top;
    const lanes there = is_cut ? lanes_between(-column, of->width - column) : (lanes){0};
    UNROLL for (int i = 0; i < (rows - 1) * stride + size; i++, from += of->dh * pitch) {
      const int is_outside = is_cut && (line + i < 0 || line + i >= of->h);
      const floats value = is_outside ? splat(0.0f) : is_cut ? load_lanes(from, there, 0.0f) : load(from);
      UNROLL for (int r = 0; r < rows; r++) {
        const int tap = i - r * stride;
        if (tap >= 0 && tap < size) sums[r] += value * weights[tap];
      }
    }
  }
  finish(of, rows, sums, splat(of->bias));
  float *out = of->out + y * of->out_h + z;
  if (of->ow - z >= LANES) UNROLL for (int r = 0; r < rows; r++) store(out + r * of->dh * of->out_h, sums[r]);
  else UNROLL for (int r = 0; r < rows; r++) store_some(out + r * of->dh * of->out_h, sums[r], (size_t)(of->ow - z));
}

// A function of its own for each filter and stride: with the loops around it the compiler would keep all of a large one.
#define TILE_OF(how, size, stride, name, is_cut) \
  how void tile_##size##_##stride##name(const plane *of, ptrdiff_t rows, const float *x, ptrdiff_t pitch, ptrdiff_t y, \
                                        ptrdiff_t z) { \
    if (rows == HIGH) places(of, HIGH, size, stride, is_cut, x, pitch, y, z); \
    else if (rows == MOST_ROWS) places(of, MOST_ROWS, size, stride, is_cut, x, pitch, y, z); \
    else places(of, 1, size, stride, is_cut, x, pitch, y, z); \
  }
TILE_OF(INLINE, 3, 1, , 0)
TILE_OF(INLINE, 3, 2, , 0)
TILE_OF(static __attribute__((noinline)), 5, 1, , 0)
TILE_OF(static __attribute__((noinline)), 5, 2, , 0)
TILE_OF(static __attribute__((noinline)), 7, 1, , 0)
TILE_OF(static __attribute__((noinline)), 7, 2, , 0)

#if LANES >= 8
TILE_OF(static __attribute__((noinline)), 3, 1, _cut, 1)
#if LANES == 16
TILE_OF(static __attribute__((noinline)), 5, 1, _cut, 1)
TILE_OF(static __attribute__((noinline)), 7, 1, _cut, 1)
#endif

// A plane of at most a vector of places a row, with stride 1, from the image itself.
static void narrow(const plane *of) {
  const ptrdiff_t some = rows_at_once(of->oh);
  for (ptrdiff_t row = 0; row < of->oh; row += some) {
    const ptrdiff_t y = row + some <= of->oh ? row : of->oh - some;
    const float *x = of->x + (y - of->top) * of->x_h - of->left;
#if LANES == 16
    if (of->kh > 3) (of->kh == 5 ? tile_5_1_cut : tile_7_1_cut)(of, some, x, of->x_h, y, 0);
    else
#endif
      tile_3_1_cut(of, some, x, of->x_h, y, 0);
  }
}
#endif

// Whether a filter has code of its own.
static int is_known(const plane *of) {
  return of->kh == of->kw && (of->kh == 3 || of->kh == 5 || of->kh == 7) && of->sh == of->sw &&
         (of->sh == 1 || (of->sh == 2 && of->dh == 1 && of->dw == 1));
}

// How many rows of the result are computed from a part of the image with zeros around it, of lines of `wide` places; or 0.
static ptrdiff_t rows_aside(const plane *of, ptrdiff_t wide) {
  const ptrdiff_t window = (of->kh - 1) * of->dh + 1, lines = ASIDE / wide;
  const ptrdiff_t most = lines < window ? 0 : (lines - window) / of->sh + 1;
  return most < of->oh ? most : of->oh;
}

static ptrdiff_t line_aside(const plane *of) {
  const ptrdiff_t read = (of->ow - 1) * of->sw + (of->kw - 1) * of->dw + 1, all = of->left + of->width;
  return read > all ? read : all;
}

// LANES floats of each of some planes, side by side; up to `left` of them where `is_whole` is 0. where: places that they have.
INLINE void turn_aside(const int is_whole, const float *x, size_t x_c, size_t channels, size_t left, const int32_t *where, float *to) {
  floats turned[LANES];
  UNROLL for (size_t c = 0; c < LANES; c++)
    turned[c] = is_whole ? load(x + c * x_c) : c < channels ? load_up_to(x + c * x_c, left, 0.0f) : splat(0.0f);
  transpose(turned);
  UNROLL for (size_t i = 0; i < LANES; i++) if (is_whole || i < left) store(to + where[i], turned[i]);
}

INLINE void copy_aside(const float *x, size_t x_c, size_t channels, ptrdiff_t count, const int32_t *where, float *to) {
  ptrdiff_t p = 0;
  if (channels == LANES) for (; p + LANES <= count; p += LANES) turn_aside(1, x + p, x_c, LANES, LANES, where + p, to);
  for (; p < count; p += LANES) turn_aside(0, x + p, x_c, channels, (size_t)(count - p), where + p, to);
}

INLINE void zeros(float *to, ptrdiff_t places) {
  for (ptrdiff_t p = 0; p < places; p++) store(to + p * LANES, splat(0.0f));
}

// `count` places of a row, from the first that the window at x is for.
INLINE void places_aside(const plane *of, const int count, const float *x, ptrdiff_t wide, const float *w, floats bias, float *to) {
  floats sums[MOST_PLACES];
  UNROLL for (int p = 0; p < count; p++) sums[p] = splat(0.0f);
  for (ptrdiff_t i = 0; i < of->kh; i++) {
    const float *from = x + i * of->dh * wide * LANES;
    for (ptrdiff_t j = 0; j < of->kw; j++, from += of->dw * LANES, w += LANES) {
      const floats weight = load(w);
      UNROLL for (int p = 0; p < count; p++) sums[p] += load(from + p * of->sw * LANES) * weight;
    }
  }
  finish(of, count, sums, bias);
  UNROLL for (int p = 0; p < count; p++) store(to + p * LANES, sums[p]);
}

// Channels side by side, LANES at a time, of which a part of the image after the other is transposed. A function of its own:
// workers of IREE have stacks of 128 KiB, and this one's arrays are not to be under those of others.
static __attribute__((noinline)) void aside(const plane *first, const float *bias, size_t x_c, size_t w_c, size_t out_c,
                                            size_t channels) {
  float image[ASIDE * LANES] __attribute__((aligned(64))), kept[ASIDE * LANES] __attribute__((aligned(64)));
  float filter[MOST_SIZE * MOST_SIZE * LANES] __attribute__((aligned(64)));
  int32_t where[ASIDE + LANES], each[MOST_SIZE * MOST_SIZE + LANES];
  plane of = *first;
  const ptrdiff_t wide = line_aside(&of), most = rows_aside(&of, wide), taps = of.kh * of.kw;
  for (ptrdiff_t t = 0; t < taps; t++) each[t] = (int32_t)t * LANES;
  for (ptrdiff_t y = 0; y < of.oh; y += most) {
    const ptrdiff_t rows = (ptrdiff_t)least((size_t)most, (size_t)(of.oh - y)), line = y * of.sh - of.top;
    const ptrdiff_t lines = (rows - 1) * of.sh + (of.kh - 1) * of.dh + 1;
    const ptrdiff_t before = line < 0 ? (-line < lines ? -line : lines) : 0;
    const ptrdiff_t room = of.h - line, after = room < before ? before : room < lines ? room : lines;
    zeros(image, before * wide);
    zeros(image + after * wide * LANES, (lines - after) * wide);
    for (ptrdiff_t l = before, p = 0; l < after; l++) {
      zeros(image + l * wide * LANES, of.left);
      zeros(image + (l * wide + of.left + of.width) * LANES, wide - of.left - of.width);
      for (ptrdiff_t z = 0; z < of.width; z++) where[p++] = (int32_t)(l * wide + of.left + z) * LANES;
    }
    for (size_t c = 0; c < channels; c += LANES) {
      const size_t some = least(LANES, channels - c);
      const floats added = bias ? load_up_to(bias + c, some, 0.0f) : splat(0.0f);
      copy_aside(first->w + c * w_c, w_c, some, taps, each, filter);
      copy_aside(first->x + c * x_c + (line + before) * of.width, x_c, some, (after - before) * of.width, where, image);
      for (ptrdiff_t r = 0; r < rows; r++)
        for (ptrdiff_t z = 0, count; z < of.ow; z += count) {
          const ptrdiff_t left = of.ow - z;
          count = left / ((left + MOST_PLACES - 1) / MOST_PLACES);
          const float *x = image + (r * of.sh * wide + z * of.sw) * LANES;
          float *to = kept + (r * of.ow + z) * LANES;
#define ASIDE_OF(count) case count: places_aside(&of, count, x, wide, filter, added, to); break
          switch (count) {
            ASIDE_OF(1);
            ASIDE_OF(2);
            ASIDE_OF(3);
            ASIDE_OF(4);
            ASIDE_OF(5);
            ASIDE_OF(6);
            ASIDE_OF(7);
            ASIDE_OF(8);
          }
        }
      turn(kept, LANES, (ptrdiff_t)some, rows * of.ow, of.out + c * out_c + y * of.ow, (ptrdiff_t)out_c, 1);
    }
  }
}

// Whether rows lie behind each other. How far places of a dim of one lie apart says nothing.
static int lies_dense(ptrdiff_t rows, ptrdiff_t places, ptrdiff_t row, ptrdiff_t place) {
  return (places == 1 || place == 1) && (rows == 1 || row == places);
}

// Whether this pays: of small images, but not where a filter has code of its own, whose vectors rows fill well.
static int is_aside(const plane *of, size_t channels) {
  const int is_dense = lies_dense(of->h, of->width, of->x_h, of->x_w) && lies_dense(of->oh, of->ow, of->out_h, of->out_w) &&
                       lies_dense(of->kh, of->kw, of->w_i, of->w_j);
  const int is_small = of->kh <= MOST_SIZE && of->kw <= MOST_SIZE && channels >= LANES / 2 && of->oh * of->ow <= SMALL;
  const int is_filled = is_known(of) && of->ow > (of->sh == 1 ? LANES / 2 : MOST_PLACES);
  return is_dense && is_small && !is_filled && rows_aside(of, line_aside(of)) > 0;
}

// `lines` of the image from (line, column) on, zero outside of it. With stride 2 each has its even places in front of the odd ones.
// Meanwhile what lies `ahead` is fetched: the next block, or that of the next channel.
INLINE void copy_lines(const plane *of, const int stride, ptrdiff_t ahead, ptrdiff_t line, ptrdiff_t column, ptrdiff_t lines,
                       ptrdiff_t pitch, float *to) {
  lanes inside[BLOCK / 3 / LANES];
  for (ptrdiff_t c = 0; c < pitch; c += LANES) inside[c / LANES] = lanes_between(-column - c, of->width - column - c);
  for (ptrdiff_t l = line; l < line + lines; l++, to += pitch) {
    const float *x = of->x + l * of->x_h + column;
    if (l < 0 || l >= of->h)
      for (ptrdiff_t c = 0; c < pitch; c += LANES) store(to + c, splat(0.0f));
    else
      for (ptrdiff_t c = 0; c < pitch; c += stride * LANES) {
        floats values[2];
        if (stride == 2 || c % (2 * LANES) == 0) __builtin_prefetch(x + c + ahead);
        UNROLL for (int v = 0; v < stride; v++) {
          const ptrdiff_t at = column + c + v * LANES;
          const int is_whole = LANES == 4 && at >= 0 && at + LANES <= of->width;  // masks of longer vectors cost nothing
          values[v] = is_whole ? load(x + c + v * LANES) : load_lanes(x + c + v * LANES, inside[c / LANES + v], 0.0f);
        }
        if (stride == 1) store(to + c, values[0]);
        else UNROLL for (int v = 0; v < stride; v++) store(to + v * (pitch / 2) + c / 2, every_other(values[0], values[1], v));
      }
  }
}

static void copy_block(const plane *of, ptrdiff_t ahead, ptrdiff_t line, ptrdiff_t column, ptrdiff_t lines, ptrdiff_t pitch,
                       float *to) {
  if (of->sw == 1) copy_lines(of, 1, ahead, line, column, lines, pitch, to);
  else copy_lines(of, 2, ahead, line, column, lines, pitch, to);
}

// The places of a block, from row y and place z on.
static void block(const plane *of, const float *x, ptrdiff_t pitch, ptrdiff_t y, ptrdiff_t high, ptrdiff_t z,
                  ptrdiff_t wide) {
  for (ptrdiff_t first = 0; first < of->dh && first < high; first++) {
    const ptrdiff_t rows = of->dh == 1 ? high : (high - first + of->dh - 1) / of->dh;
    const ptrdiff_t some = rows_at_once(rows);
    for (ptrdiff_t row = 0; row < rows; row += some) {
      const ptrdiff_t r = first + of->dh * (row + some <= rows ? row : rows - some);
#define EACH_TILE(tile) \
  for (ptrdiff_t at = 0; at < wide; at += LANES) { \
    const ptrdiff_t p = at + LANES <= wide || wide < LANES ? at : wide - LANES; \
    tile(of, some, x + r * of->sh * pitch + p, pitch, y + r, z + p); \
  } \
  break
      switch (of->kh * 2 + of->sh) {
        case 7: EACH_TILE(tile_3_1);
        case 8: EACH_TILE(tile_3_2);
        case 11: EACH_TILE(tile_5_1);
        case 12: EACH_TILE(tile_5_2);
        case 15: EACH_TILE(tile_7_1);
        case 16: EACH_TILE(tile_7_2);
      }
    }
  }
}

typedef struct {
  ptrdiff_t high, wide, pitch;
} shape;

// How much of the output a block has, and how long its lines are; no height where not even a row fits.
static shape block_shape(const plane *of) {
  shape found = {of->oh, of->ow > WIDEST ? WIDEST : of->ow, 0};
  found.pitch = (found.wide + (of->kw - 1) * of->dw / of->sw + LANES - 1) / LANES * LANES * of->sw;
  const ptrdiff_t lines = (BLOCK - 4 * LANES) / found.pitch, window = (of->kh - 1) * of->dh + 1;
  const ptrdiff_t most = lines < window ? 0 : (lines - window) / of->sh + 1, even = MOST_ROWS * of->dh;
  if (most < found.high) found.high = most > even ? most / even * even : most;
  return found;
}

static __attribute__((noinline)) void all(const plane *of, const shape by) {
  float x[BLOCK] __attribute__((aligned(64)));
  for (ptrdiff_t y = 0; y < of->oh; y += by.high)
    for (ptrdiff_t z = 0; z < of->ow; z += by.wide) {
      const ptrdiff_t high = y + by.high <= of->oh ? by.high : of->oh - y;
      const ptrdiff_t wide = z + by.wide <= of->ow ? by.wide : of->ow - z;
      const ptrdiff_t lines = (high - 1) * of->sh + (of->kh - 1) * of->dh + 1;
      copy_block(of, by.high * of->sh * of->x_h, y * of->sh - of->top, z * of->sw - of->left, lines, by.pitch, x);
      block(of, x, by.pitch, y, high, z, wide);
    }
}

// `vectors` of places from z on, of any filter, with any stride and dilation.
INLINE void any_places(const plane *of, const int vectors, const int is_inside, ptrdiff_t y, ptrdiff_t z) {
  floats sums[HIGH];
  UNROLL for (int v = 0; v < vectors; v++) sums[v] = splat(0.0f);
  for (ptrdiff_t j = 0; j < of->kw; j++) {
    const ptrdiff_t first = z * of->sw - of->left + j * of->dw;
    lanes there[HIGH];
    if (!is_inside) UNROLL for (int v = 0; v < vectors; v++)
      there[v] = lanes_between(-first - v * LANES, of->width - first - v * LANES);
    for (ptrdiff_t i = 0; i < of->kh; i++) {
      const ptrdiff_t line = y * of->sh - of->top + i * of->dh;
      const int is_row = line >= 0 && line < of->h;
      const float *row = of->x + line * of->x_h;
      const float weight = of->w[i * of->w_i + j * of->w_j];
      if (is_inside && is_row) {
        UNROLL for (int v = 0; v < vectors; v++) sums[v] += load(row + first + v * LANES) * weight;
        continue;
      }
      UNROLL for (int v = 0; v < vectors; v++) {
        floats value = splat(0.0f);
        if (is_row && of->sw * of->x_w == 1) value = load_lanes(row + first + v * LANES, there[v], 0.0f);
        else if (is_row)
          for (ptrdiff_t l = 0; l < LANES; l++) {
            const ptrdiff_t at = first + (v * LANES + l) * of->sw;
            if (at >= 0 && at < of->width) value[l] = row[at * of->x_w];
          }
        sums[v] += value * weight;
      }
    }
  }
  UNROLL for (int v = 0; v < vectors; v++) put(of, sums[v] + of->bias, y, z + v * LANES);
}

// The places from `first` to `end` of row y of the result.
INLINE void any_row(const plane *of, ptrdiff_t y, ptrdiff_t first, ptrdiff_t end) {
  for (ptrdiff_t z = first, vectors; z < end; z += vectors * LANES) {
    vectors = of->sw * of->x_w != 1 ? 1 : (ptrdiff_t)least(HIGH, (size_t)(end - z + LANES - 1) / LANES);
    const ptrdiff_t from = z * of->sw - of->left, last = from + (of->kw - 1) * of->dw + vectors * LANES;
    const int is_inside = of->sw * of->x_w == 1 && from >= 0 && last <= of->width;
#define ANY(vectors) is_inside ? any_places(of, vectors, 1, y, z) : any_places(of, vectors, 0, y, z)
    if (vectors == 1) ANY(1);
    else if (vectors == 2) ANY(2);
    else if (vectors == 3) ANY(3);
    else ANY(4);
  }
}

// A filter with a single row of many taps has a copy of the lines that it meets, with the zeros around them.
static void any(const plane *given) {
  const plane own = *given, *of = &own;  // what is stored cannot be a part of it, so all of it stays in registers
  const ptrdiff_t wide = of->ow > WIDEST ? WIDEST : of->ow, reach = wide + LANES + (of->kw - 1) * of->dw;
  const ptrdiff_t pitch = (reach + LANES - 1) / LANES * LANES;
  float line[BLOCK / 3] __attribute__((aligned(64)));
  const int is_copied = of->kh == 1 && of->kw >= HIGH && of->sw == 1 && of->x_w == 1 && pitch <= BLOCK / 3 - LANES;
  for (ptrdiff_t y = 0; y < of->oh; y++) {
    if (!is_copied) any_row(of, y, 0, of->ow);
    else
      for (ptrdiff_t z = 0; z < of->ow; z += wide) {
        copy_lines(of, 1, 0, y * of->sh - of->top, z - of->left, 1, pitch, line);
        plane copied = own;
        copied.x = line, copied.h = 1, copied.width = pitch, copied.sh = copied.top = 0, copied.left = z;
        any_row(&copied, y, z, z + wide < of->ow ? z + wide : of->ow);
      }
  }
}

// The plane of one channel.
static void convolve(const plane *of) {
  const int is_dense = (of->x_w == 1 || of->width == 1) && (of->out_w == 1 || of->ow == 1);
  plane own;
  float taps_in_order[MOST_SIZE * MOST_SIZE];
  if (is_known(of) && (of->w_j != 1 || of->w_i != of->kw)) {
    for (ptrdiff_t i = 0; i < of->kh * of->kw; i++) taps_in_order[i] = of->w[i / of->kw * of->w_i + i % of->kw * of->w_j];
    own = *of, own.w = taps_in_order, own.w_i = of->kw, own.w_j = 1, of = &own;
  }
#if LANES >= 8
  if (is_known(of) && is_dense && of->sh == 1 && of->dh == 1 && of->dw == 1 && of->ow <= LANES && (LANES == 16 || of->kh == 3)) {
    narrow(of);
    return;
  }
#endif
  const shape by = is_known(of) && is_dense ? block_shape(of) : (shape){0, 0, 0};
  if (by.high) all(of, by);
  else any(of);
}

// `channels` planes, `x_c`, `w_c` and `out_c` floats from one to the next. bias may be null.
static void convolve_planes(plane of, const float *bias, size_t x_c, size_t w_c, size_t out_c, size_t channels) {
  if (is_aside(&of, channels)) {
    aside(&of, bias, x_c, w_c, out_c, channels);
    return;
  }
  for (size_t c = 0; c < channels; c++, of.x += x_c, of.w += w_c, of.out += out_c) {
    of.bias = bias ? bias[c] : 0.0f;
    convolve(&of);
  }
}
#endif
