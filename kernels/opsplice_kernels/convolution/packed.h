// Products of places that were copied: up to ACROSS vectors of places are multiplied by the weights of up to GROUP panels of
// channels, some taps at a time. Of a filter of one tap, what PART channels have at these places is copied side by side. Of others, whole
// lines of some channels are copied, with zeros around the image. With stride 2 every other place of a line goes to a plane of its own, and
// so do the lines, so that each tap finds its places side by side at some offset. Vectors go over the ends of lines: what they make
// of the places between two lines is left out.
//
// Sums of a part are added to those of the parts in front of it: sums of sums are more exact than long ones.
//
// The workgroups of GROUP panels share these: each does a part of their places for all of them, so that a copy is used more often.
#ifndef OPSPLICE_KERNELS_PACKED_H
#define OPSPLICE_KERNELS_PACKED_H

#include "layer.h"

// With AVX2 only: for others this was not measured.
enum { IS_PACKED = LANES == 8 };
// A tile is DOWN channels by ACROSS vectors. A filter of up to ROOM taps is one part. KEPT: sums of all panels between parts.
// REST: places at most that are no vector, but take vectors of channels.
enum { GROUP = 4, DOWN = 4, ACROSS = 3, BLOCK = ACROSS * LANES, PART = 128, ROOM = 160, KEPT = 15360, REST = 3 };
// Places at least. Of lines: floats that are copied at most, vectors of a line, and how far it reaches over the places that it is
// for. SHORT_PART: taps that a part has at least if rows are fewer for it.
enum { ENOUGH = 40, COPIED = 6144, SHORT_PART = 64, MOST_VECTORS = 64, BEHIND = MOST_VECTORS * LANES / 2 };

// Places of the output that lie behind each other.
typedef struct {
  size_t place, count, vectors;
} block;

static void find_block(size_t place, size_t end, block *made) {
  const size_t left = (end - place + LANES - 1 - REST) / LANES, blocks = (left + ACROSS - 1) / ACROSS;
  made->place = place, made->vectors = blocks ? left / blocks : place < end;
  made->count = least(end - place, made->vectors * LANES);
}

INLINE void pack_points(const int vectors, const float *x, size_t step, size_t channels, size_t count, float *to) {
  const lanes last = lanes_between(0, (ptrdiff_t)(count - (vectors - 1) * LANES));
  ROLLED for (size_t c = 0; c < channels; c++, x += step, to += vectors * LANES) {
    UNROLL for (int v = 0; v + 1 < vectors; v++) store(to + v * LANES, load(x + v * LANES));
    store(to + (vectors - 1) * LANES, load_lanes(x + (vectors - 1) * LANES, last, 0.0f));
  }
}

static __attribute__((noinline)) void pack(const layer *of, const float *x, size_t channels, const block *at, float *to) {
  if (at->vectors == 1) pack_points(1, x + at->place, of->x_c, channels, at->count, to);
  else if (at->vectors == 2) pack_points(2, x + at->place, of->x_c, channels, at->count, to);
  else pack_points(3, x + at->place, of->x_c, channels, at->count, to);
}

// What is copied next: of each channel `rows` rows of `count` floats.
typedef struct {
  const float *x;
  size_t channels, rows, count;
} coming;

// Fetches that of some channels, but for the line that a row begins in.
static void fetch(const layer *of, const coming *next, size_t from, size_t channels) {
  const float *x = next->x + from * of->x_c;
  for (size_t c = 0; c < channels; c++, x += of->x_c)
    for (size_t r = 0; r < next->rows; r++) {
      ROLLED for (size_t p = LINE - 1; p < next->count; p += LINE) __builtin_prefetch(x + r * of->x_h + p);
      __builtin_prefetch(x + r * of->x_h + next->count - 1);
    }
}

INLINE void add_column(const int vectors, const float *x, const float *w, floats sums[DOWN][ACROSS]) {
  floats values[ACROSS];
  UNROLL for (int v = 0; v < vectors; v++) values[v] = load(x + v * LANES);
  UNROLL for (int r = 0; r < DOWN; r++) UNROLL for (int v = 0; v < vectors; v++) sums[r][v] += values[v] * w[r];
}

// DOWN channels by `vectors` vectors of places. kept: their sums of other parts, `apart` from channel to channel. later: weights
// that are needed after these: as many tiles as read the same lines of weights each fetch their share of the next ones.
INLINE void multiply_packed(const layer *of, const int vectors, const float *x, const float *w, size_t taps, const float *later, float *kept,
                            size_t apart, const block *at, size_t channel) {
  floats sums[DOWN][ACROSS];
  UNROLL for (int r = 0; r < DOWN; r++) UNROLL for (int v = 0; v < vectors; v++) sums[r][v] = splat(0.0f);
  const float *rest = of->rest ? of->rest + channel * of->rest_c + at->place : 0;
  float *out = of->out + channel * of->out_c + at->place;
  if (!of->has_more) UNROLL for (int r = 0; r < DOWN; r++) {
    __builtin_prefetch(out + r * of->out_c, 1), __builtin_prefetch(out + r * of->out_c + at->count - 1, 1);
    if (rest) __builtin_prefetch(rest + r * of->rest_c), __builtin_prefetch(rest + r * of->rest_c + at->count - 1);
  }
  ROLLED for (size_t k = DOWN; k <= taps; k += DOWN, later += PANEL) {
    __builtin_prefetch(later);
    UNROLL for (int i = 0; i < DOWN; i++, x += vectors * LANES, w += PANEL) add_column(vectors, x, w, sums);
  }
  ROLLED for (size_t k = taps % DOWN; k; k--, x += vectors * LANES, w += PANEL) add_column(vectors, x, w, sums);
  if (of->has_some) UNROLL for (int r = 0; r < DOWN; r++) UNROLL for (int v = 0; v < vectors; v++)
    sums[r][v] += load(kept + r * apart + v * LANES);
  if (of->has_more) {
    UNROLL for (int r = 0; r < DOWN; r++) UNROLL for (int v = 0; v < vectors; v++) store(kept + r * apart + v * LANES, sums[r][v]);
    return;
  }
  const size_t last = at->count - (vectors - 1) * LANES, which = of->activation;
  UNROLL for (int r = 0; r < DOWN; r++) {
    if (channel + r >= of->columns) return;
    const floats bias = splat(of->bias ? of->bias[channel + r] : 0.0f);
    UNROLL for (int v = 0; v < vectors; v++) {
      sums[r][v] += bias;
      if (rest) sums[r][v] += load_up_to(rest + r * of->rest_c + v * LANES, v + 1 < vectors ? LANES : last, 0.0f);
    }
    if (which == RELU) UNROLL for (int v = 0; v < vectors; v++) sums[r][v] = activate(RELU, sums[r][v]);
    else if (which != NOTHING) UNROLL for (int v = 0; v < vectors; v++) sums[r][v] = activated(which, sums[r][v]);
    UNROLL for (int v = 0; v < vectors; v++) store_up_to(out + r * of->out_c + v * LANES, sums[r][v], v + 1 < vectors ? LANES : last);
  }
}

// Functions of their own, so that all sums are in registers.
#define MULTIPLY_PACKED(vectors) \
  static __attribute__((noinline)) void multiply_packed_##vectors( \
      const layer *of, const float *x, const float *w, size_t taps, const float *later, float *kept, size_t apart, const block *at, \
      size_t channel) { \
    multiply_packed(of, vectors, x, w, taps, later, kept, apart, at, channel); \
  }
MULTIPLY_PACKED(1)
MULTIPLY_PACKED(2)
MULTIPLY_PACKED(3)

// A panel of channels by `places` <= REST. kept: as above.
INLINE void multiply_rest(const layer *of, const int places, const float *x, const float *w, size_t taps, float *kept, size_t apart,
                          const block *at, size_t channel) {
  floats sums[REST][PANEL / LANES];
  UNROLL for (int p = 0; p < places; p++) UNROLL for (int v = 0; v < PANEL / LANES; v++) sums[p][v] = splat(0.0f);
  ROLLED for (size_t k = 0; k < taps; k++, x += LANES, w += PANEL)
    UNROLL for (int v = 0; v < PANEL / LANES; v++) {
      const floats weights = load(w + v * LANES);
      UNROLL for (int p = 0; p < places; p++) sums[p][v] += weights * x[p];
    }
  const size_t columns = least(PANEL, of->columns - channel);
  UNROLL for (int p = 0; p < places; p++) {
    float made[PANEL] __attribute__((aligned(64)));
    float *out = of->out + channel * of->out_c + at->place + p;
    const float *rest = of->rest ? of->rest + channel * of->rest_c + at->place + p : 0;
    UNROLL for (int v = 0; v < PANEL / LANES; v++) store(made + v * LANES, sums[p][v]);
    for (size_t c = 0; c < columns; c++) {
      float *sum = kept + c * apart + p;
      if (of->has_some) made[c] += *sum;
      if (of->has_more) *sum = made[c];
    }
    if (of->has_more) continue;
    for (size_t c = 0; c < columns; c++) {
      if (of->bias) made[c] += of->bias[channel + c];
      if (rest) made[c] += rest[c * of->rest_c];
    }
    for (size_t c = 0; c < columns; c += LANES) store(made + c, activated(of->activation, load(made + c)));
    for (size_t c = 0; c < columns; c++) out[c * of->out_c] = made[c];
  }
}

static __attribute__((noinline)) void multiply_rests(const layer *of, const float *x, const float *w, size_t taps, float *kept,
                                                     size_t apart, const block *at, size_t channel) {
  if (at->count == 1) multiply_rest(of, 1, x, w, taps, kept, apart, at, channel);
  else if (at->count == 2) multiply_rest(of, 2, x, w, taps, kept, apart, at, channel);
  else multiply_rest(of, REST, x, w, taps, kept, apart, at, channel);
}

// All columns of a block, as above. Meanwhile some channels of what is next are fetched.
INLINE void multiply_columns(const layer *of, const float *x, size_t from, size_t channels, float *held, size_t apart,
                             const block *at, const coming *next, size_t begin, size_t end) {
  const size_t taps = of->kh * of->kw, share = ((end - begin) * DOWN + of->columns - 1) / of->columns;
  for (size_t channel = 0; channel < of->columns; channel += DOWN, begin += share) {
    if (begin < end) fetch(of, next, begin, least(end - begin, share));
    const float *w = of->w + channel / PANEL * of->panel + from * taps * PANEL + channel % PANEL;
    const size_t after = channel / LINE * LINE + LINE;
    const float *later = after < of->columns ? of->w + after / PANEL * of->panel + from * taps * PANEL + after % PANEL
                                             : of->w + (from + channels) * taps * PANEL;
    later += channel % LINE / DOWN * (channels * taps / DOWN) * PANEL;
    (at->vectors == 1 ? multiply_packed_1 : at->vectors == 2 ? multiply_packed_2 : multiply_packed_3)(
        of, x, w, channels * taps, later, held + channel * apart, apart, at, channel);
  }
}

// Places `place` to `end` of an image that is one row, by a filter of one tap, of all columns of up to GROUP panels.
static __attribute__((noinline)) void convolve_points(layer of, size_t place, size_t end) {
  float held[KEPT] __attribute__((aligned(64))), packed[ROOM * BLOCK + LANES] __attribute__((aligned(64)));
  const size_t depth = of.c, most = KEPT / (GROUP * PANEL) / BLOCK * BLOCK, parts = depth <= ROOM ? 1 : (depth + PART - 1) / PART;
  block blocks[2];
  for (size_t first = place, last; first < end; first = last) {
    last = least(end, first + most);
    for (size_t part = 0; part < parts; part++) {
      const size_t from = part * depth / parts, channels = (part + 1) * depth / parts - from;
      of.has_some = part > 0, of.has_more = part + 1 < parts;
      block *at = &blocks[0], *next = &blocks[1], *other;
      for (find_block(first, last, at); at->count; other = at, at = next, next = other) {
        float *kept = held + at->place - first;
        pack(&of, of.x + from * of.x_c, channels, at, packed);
        find_block(at->place + at->count, last, next);
        if (at->count > REST) {
          const coming after = {of.x + from * of.x_c + next->place, next->count ? channels : 0, 1, next->count};
          multiply_columns(&of, packed, from, channels, kept, most, at, &after, 0, after.channels);
          continue;
        }
        for (size_t channel = 0; channel < of.columns; channel += PANEL)
          multiply_rests(&of, packed, of.w + channel / PANEL * of.panel + from * PANEL, channels, kept + channel * most, most, at, channel);
      }
    }
  }
}

// Copies of lines: planes of every `across`-th place of every `down`-th line, `lines` of `pitch` places, `plane` floats from one to the
// next and `all` for a channel. A line has `reach` places, of which those behind `pitch` are zeros, as the first ones of the next line.
typedef struct {
  size_t down, across, lines, pitch, reach, plane, all;
} copies;

static copies copies_of(const layer *of, size_t rows, size_t wide) {
  copies made;
  const size_t high = (of->kh - 1) * of->dh, behind = (of->kw - 1) * of->dw / of->sw;
  made.down = least(of->sh, high + 1), made.across = least(of->sw, (of->kw - 1) * of->dw + 1);
  made.lines = rows + high / of->sh, made.pitch = made.reach = wide + behind;
  const ptrdiff_t left = (ptrdiff_t)of->left, right = (ptrdiff_t)(made.reach - of->width) - left;
  if (of->sw == 1 && left > 0 && right > 0) made.pitch -= least(least((size_t)left, (size_t)right), LANES);
  made.plane = made.lines * made.pitch + 2 * LANES, made.all = made.down * made.across * made.plane;
  return made;
}

// Which lanes of a pair of vectors of the image are inside of it; and whether all are.
typedef struct {
  lanes low, high;
  int is_whole;
} insides;

INLINE void copy_line(const int step, const float *x, const insides *there, size_t vectors, float *even, float *odd) {
  ROLLED for (size_t v = 0; v < vectors; v++, x += step * LANES, even += LANES, odd += LANES, there++) {
    floats one, other;
    if (there->is_whole) {
      one = load(x);
      if (step == 2) other = load(x + LANES);
    } else {
      one = load_lanes(x, there->low, 0.0f);
      if (step == 2) other = load_lanes(x + LANES, there->high, 0.0f);
    }
    if (step == 2) store(odd, every_other(one, other, 1)), store(even, every_other(one, other, 0));
    else store(even, one);
  }
}

// What `channels` channels need for the places of the output from row y and place z on.
static __attribute__((noinline)) void copy_lines(const layer *of, const float *x, size_t channels, copies by, size_t y, size_t z,
                                                 float *to) {
  insides there[MOST_VECTORS];
  const ptrdiff_t first = (ptrdiff_t)(z * of->sw - of->left), above = (ptrdiff_t)(y * of->sh - of->top), width = (ptrdiff_t)of->width;
  const size_t vectors = (by.reach + LANES - 1) / LANES;
  for (size_t v = 0; v < vectors; v++) {
    const ptrdiff_t at = first + (ptrdiff_t)(v * of->sw * LANES);
    there[v].low = lanes_between(-at, width - at), there[v].high = lanes_between(-at - LANES, width - at - LANES);
    there[v].is_whole = at >= 0 && at + (ptrdiff_t)(of->sw * LANES) <= width;
  }
  for (size_t c = 0; c < channels; c++, x += of->x_c)
    for (size_t a = 0; a < by.down; a++, to += by.across * by.plane)
      for (size_t l = 0; l < by.lines; l++) {
        const ptrdiff_t line = above + (ptrdiff_t)(l * of->sh + a);
        const float *from = x + line * (ptrdiff_t)of->x_h + first * (ptrdiff_t)of->x_w;
        float *even = to + l * by.pitch, *odd = even + (by.across - 1) * by.plane;
        if (line < 0 || line >= (ptrdiff_t)of->h)
          for (size_t v = 0; v < vectors; v++) store(even + v * LANES, splat(0.0f)), store(odd + v * LANES, splat(0.0f));
        else if (of->x_w != 1)
          for (size_t p = 0; p < by.reach * by.across; p++) {
            const size_t at = p / by.across * of->sw + p % by.across;
            (p % by.across ? odd : even)[p / by.across] = (size_t)(first + (ptrdiff_t)at) < of->width ? from[at * of->x_w] : 0.0f;
          }
        else if (of->sw == 1) copy_line(1, from, there, vectors, even, odd);
        else copy_line(2, from, there, vectors, even, odd);
      }
}

// Where the taps of `channels` channels find the first place of the output in the copies.
static __attribute__((noinline)) void find_taps(const layer *of, copies by, size_t channels, int32_t *offsets) {
  const size_t taps = of->kh * of->kw;
  for (size_t i = 0; i < of->kh; i++)
    for (size_t j = 0; j < of->kw; j++) {
      const size_t line = i * of->dh, place = j * of->dw;
      offsets[i * of->kw + j] =
          (int32_t)((line % of->sh * by.across + place % of->sw) * by.plane + line / of->sh * by.pitch + place / of->sw);
    }
  for (size_t k = taps; k < channels * taps; k++) offsets[k] = offsets[k - taps] + (int32_t)by.all;
}

// What the taps find in the copies for a block.
INLINE void pack_taps(const int vectors, const float *x, const int32_t *offsets, size_t taps, float *to) {
  ROLLED for (size_t k = 0; k < taps; k++, to += vectors * LANES)
    UNROLL for (int v = 0; v < vectors; v++) store(to + v * LANES, load(x + offsets[k] + v * LANES));
}

// Sums of all columns of `rows` rows of `wide` places, `pitch` from row to row, to the output at row y and place z.
static __attribute__((noinline)) void put_lines(const layer *of, const float *held, size_t apart, size_t pitch, size_t rows, size_t wide,
                                                size_t y, size_t z) {
  for (size_t c = 0; c < of->columns; c++, held += apart) {
    const floats bias = splat(of->bias ? of->bias[c] : 0.0f);
    for (size_t r = 0; r < rows; r++) {
      const float *rest = of->rest ? of->rest + c * of->rest_c + (y + r) * of->rest_y + z : 0;
      float *out = of->out + c * of->out_c + (y + r) * of->out_y + z;
      ROLLED for (size_t p = 0; p < wide; p += LANES) {
        floats value = load(held + r * pitch + p) + bias;
        if (rest) value += load_up_to(rest + p, wide - p, 0.0f);
        store_up_to(out + p, activated(of->activation, value), wide - p);
      }
    }
  }
}

INLINE size_t above_zero(size_t number) { return (ptrdiff_t)number > 0 ? number : 0; }

// What of `channels` channels from x on is copied for `rows` rows of the output from row y on, as far as it is in the image.
static coming rows_of(const layer *of, const float *x, size_t channels, copies by, size_t y, size_t rows, size_t z) {
  const size_t behind = (y + rows - 1) * of->sh + (of->kh - 1) * of->dh + 1;
  const size_t begin = above_zero(y * of->sh - of->top), end = least(of->h, above_zero(behind - of->top));
  const size_t first = above_zero(z * of->sw - of->left), is_there = begin < end && first < of->width && of->x_w == 1;
  return (coming){x + begin * of->x_h + first, is_there ? channels : 0, end - begin, least(of->width - first, by.reach * of->sw)};
}

// Rows `y` to `end` by places `z` to `end_z`, of all columns of up to GROUP panels.
static __attribute__((noinline)) void convolve_lines(layer of, size_t z, size_t end_z, size_t y, size_t end) {
  float held[KEPT] __attribute__((aligned(64))), copied[COPIED + BLOCK] __attribute__((aligned(64)));
  float packed[ROOM * BLOCK] __attribute__((aligned(64)));
  int32_t offsets[ROOM];
  const size_t depth = of.c, taps = of.kh * of.kw, some = depth * taps <= ROOM ? depth : PART / taps ? PART / taps : 1;
  const size_t few = least(some, (SHORT_PART + taps - 1) / taps);
  const size_t most = KEPT / ((of.columns + DOWN - 1) / DOWN * DOWN) / LANES * LANES, widest = least(most, BEHIND);
  const size_t pieces = (end_z - z + widest - 1) / widest;
  for (size_t piece = 0; piece < pieces; piece++) {
    const size_t at_z = z + piece * (end_z - z) / pieces, places = z + (piece + 1) * (end_z - z) / pieces - at_z;
    size_t high = end - y;
    copies by = copies_of(&of, high, places);
    while (high > 1 && ((high - 1) * by.pitch + places > most || few * by.all > COPIED)) by = copies_of(&of, --high, places);
    const size_t strips = (end - y + high - 1) / high, room = least(some, COPIED / by.all), parts = (depth + room - 1) / room;
    for (size_t strip = 0, at_y = y, rows; strip < strips; strip++, at_y += rows) {
      rows = y + (strip + 1) * (end - y) / strips - at_y;
      const size_t next_y = at_y + rows, next_rows = y + (strip + 2) * (end - y) / strips - next_y;
      by = copies_of(&of, rows, places);
      find_taps(&of, by, room, offsets);
      const size_t all = (rows - 1) * by.pitch + places;
      // Where nothing lies between two rows they are finished in registers.
      const int is_dense = rows == 1 || (by.pitch == places && of.out_y == places && (!of.rest || of.rest_y == places));
      layer dense = of;
      dense.out += at_y * of.out_y + at_z;
      if (of.rest) dense.rest += at_y * of.rest_y + at_z;
      for (size_t part = 0, from = 0, channels; part < parts; part++, from += channels) {
        channels = (part + 1) * depth / parts - from;
        const int is_last = part + 1 == parts;
        const size_t after = is_last ? 0 : from + channels, others = is_last && strip + 1 == strips ? 0 : depth / parts;
        const coming next = rows_of(&of, of.x + after * of.x_c, others, by, is_last ? next_y : at_y, is_last ? next_rows : rows, at_z);
        dense.has_some = part > 0, dense.has_more = !is_dense || !is_last;
        copy_lines(&of, of.x + from * of.x_c, channels, by, at_y, at_z, copied);
        block at = {0, 0, 0};
        for (; at.place < all; at.place += at.count) {
          const size_t left = (all - at.place + LANES - 1) / LANES;
          at.vectors = left / ((left + ACROSS - 1) / ACROSS), at.count = least(all - at.place, at.vectors * LANES);
          const float *x = copied + at.place;
          if (at.vectors == 1) pack_taps(1, x, offsets, channels * taps, packed);
          else if (at.vectors == 2) pack_taps(2, x, offsets, channels * taps, packed);
          else pack_taps(3, x, offsets, channels * taps, packed);
          multiply_columns(&dense, packed, from, channels, held + at.place, most, &at, &next, at.place * next.channels / all,
                           (at.place + at.count) * next.channels / all);
        }
      }
      if (!is_dense) put_lines(&of, held, most, by.pitch, rows, places, at_y, at_z);
    }
  }
}

// Rows `y` to `end` of `ow` places by a group of panels, of which each workgroup does a part of the places or rows.
static void convolve_group(layer of, int of_points, size_t ow, size_t y, size_t end) {
  const size_t number = of.number, panels = of.panels, from = y * ow, blocks = ((end - y) * ow + BLOCK - 1 - REST) / BLOCK;
  const size_t back = number * PANEL;
  if (of.bias) of.bias -= back;
  if (of.rest) of.rest -= back * of.rest_c;
  of.out -= back * of.out_c, of.w -= number * of.panel, of.columns = of.group;
  if (of_points) {
    convolve_points(of, from + number * blocks / panels * BLOCK,
                    number + 1 < panels ? from + (number + 1) * blocks / panels * BLOCK : end * ow);
    return;
  }
  const size_t shares = least(panels, blocks / 2 ? blocks / 2 : 1);
  if (number >= shares) return;
  if (y + 1 == end) convolve_lines(of, number * ow / shares, (number + 1) * ow / shares, y, end);
  else if (number < end - y) convolve_lines(of, 0, ow, y + number * (end - y) / shares, y + (number + 1) * (end - y) / shares);
}

// Whether it pays for `rows` rows of `ow` places: not where places are few, nor where copies are used too seldom. All panels
// of a group get the same answer.
static int pays_packed(const layer *of, int of_points, size_t rows, size_t ow) {
  const int is_dense = of->w_i == of->kw * PANEL && of->w_j == PANEL;
  if (!IS_PACKED || !is_dense || of->out_z != 1 || (of->rest && of->rest_z != 1) || rows * ow < ENOUGH) return 0;
  if (of_points) return of->x_w == 1;
  return of->sw <= 2 && of->kh * of->kw <= ROOM && (of->kw - 1) * of->dw / of->sw < BEHIND && 2 * of->dh * (of->kh - 1) <= of->h &&
         copies_of(of, 1, least(ow, BEHIND)).all <= COPIED;
}
#endif
