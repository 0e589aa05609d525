// Products of packed places: what up to PART taps find in the image for up to ACROSS vectors of places is copied side by side, and
// multiplied by the weights of up to GROUP panels of channels. The copy stays in the smallest cache, has zeros where a tap is
// outside of the image, and goes over the ends of rows. So one loop of products does filters of any kind, and nothing is left to
// transpose. Meanwhile the places of the next block are fetched.
//
// Sums of a part are added to those of the parts in front of it: sums of sums are more exact than long ones.
//
// The workgroups of GROUP panels share these: each does a part of their places for all of them, so that a copy is used more often.
#ifndef OPSPLICE_KERNELS_PACKED_H
#define OPSPLICE_KERNELS_PACKED_H

#include "layer.h"

// With AVX2 only: for others this was not measured.
enum { IS_PACKED = LANES == 8 };
// A tile is DOWN channels by ACROSS vectors. A filter of up to ROOM taps is one part. KEPT: sums of all panels between parts. LINE:
// floats of a line of the cache. REACH: taps of a row at most. REST: places at most that are no vector, but take vectors of channels.
enum { GROUP = 4, DOWN = 4, ACROSS = 3, BLOCK = ACROSS * LANES, PART = 128, ROOM = 160, KEPT = 14336, LINE = 16, REACH = 7, REST = 3 };
// Places at least, and of points channels at least. A workgroup has at most 16 rows, so these have at least SHORTEST places. READS:
// the vectors of the image that a block has then.
enum { ENOUGH = 40, POINTS = 64, SHORTEST = (ENOUGH + 15) / 16, READS = (BLOCK - 2) / SHORTEST + 2 };

// Places of the output that lie behind each other, and the vectors of the image that they are read by: where each begins for the first
// tap, in which row of the image, where it goes to, and which lanes of it and of the vector behind it tap j of a row finds.
typedef struct {
  size_t place, count, vectors, reads;
  ptrdiff_t from[READS], line[READS];
  size_t to[READS];
  lanes low[REACH][READS], high[REACH][READS];
} block;

// The block from `place` on. of_points: the places are those of the image itself, and need no reads.
static __attribute__((noinline)) void find_block(const layer *of, int of_points, size_t ow, size_t place, size_t end, block *made) {
  const size_t left = (end - place + LANES - 1 - REST) / LANES, blocks = (left + ACROSS - 1) / ACROSS;
  made->place = place, made->vectors = blocks ? left / blocks : place < end, made->reads = 0;
  made->count = least(end - place, made->vectors * LANES);
  for (size_t at = 0, some; at < made->count && !of_points; at += some) {
    const size_t y = (place + at) / ow, z = (place + at) % ow, l = made->reads++;
    const ptrdiff_t line = (ptrdiff_t)(y * of->sh - of->top), first = (ptrdiff_t)(z * of->sw - of->left);
    some = least(made->count - at, least(ow - z, LANES));
    made->to[l] = at, made->line[l] = line, made->from[l] = line * (ptrdiff_t)of->x_h + first;
    for (size_t j = 0; j < of->kw; j++) {
      const ptrdiff_t low = -first - (ptrdiff_t)(j * of->dw), high = low + (ptrdiff_t)of->width;
      made->low[j][l] = lanes_between(low, high);
      made->high[j][l] = lanes_between(low - LANES, high - LANES);
    }
  }
}

INLINE void pack_points(const int vectors, const float *x, size_t step, size_t channels, size_t count, float *to) {
  const lanes last = lanes_between(0, (ptrdiff_t)(count - (vectors - 1) * LANES));
  ROLLED for (size_t c = 0; c < channels; c++, x += step, to += vectors * LANES) {
    UNROLL for (int v = 0; v + 1 < vectors; v++) store(to + v * LANES, load(x + v * LANES));
    store(to + (vectors - 1) * LANES, load_lanes(x + (vectors - 1) * LANES, last, 0.0f));
  }
}

// What a read stores behind its places is overwritten by the next read, or by the next tap.
INLINE void pack_reads(const layer *of, const int step, const float *x, size_t channels, const block *at, float *to) {
  const lanes none = lanes_between(0, 0);
  const size_t kh = of->kh, kw = of->kw, reads = at->reads, h = of->h, dh = of->dh, dw = of->dw, x_c = of->x_c, x_h = of->x_h;
  for (size_t c = 0; c < channels; c++, x += x_c)
    for (size_t i = 0; i < kh; i++)
      for (size_t j = 0; j < kw; j++, to += at->vectors * LANES)
        ROLLED for (size_t l = 0; l < reads; l++) {
          const int is_row = (size_t)(at->line[l] + (ptrdiff_t)(i * dh)) < h;
          const lanes low = is_row ? at->low[j][l] : none, high = is_row ? at->high[j][l] : none;
          const float *from = x + (ptrdiff_t)(i * dh * x_h + j * dw) + at->from[l];
          floats value = load_lanes(from, low, 0.0f);
          if (step == 2) value = every_other(value, load_lanes(from + LANES, high, 0.0f), 0);
          store(to + at->to[l], value);
        }
}

static __attribute__((noinline)) void pack(const layer *of, int of_points, const float *x, size_t channels, const block *at, float *to) {
  if (!of_points && of->sw == 1) pack_reads(of, 1, x, channels, at, to);
  else if (!of_points) pack_reads(of, 2, x, channels, at, to);
  else if (at->vectors == 1) pack_points(1, x + at->place, of->x_c, channels, at->count, to);
  else if (at->vectors == 2) pack_points(2, x + at->place, of->x_c, channels, at->count, to);
  else pack_points(3, x + at->place, of->x_c, channels, at->count, to);
}

// Fetches what is packed next. The block in front of it had the line that it begins in.
static __attribute__((noinline)) void fetch(const layer *of, int of_points, const float *x, size_t channels, const block *at) {
  const size_t line = 64 / sizeof *x;
  for (size_t c = 0; c < channels; c++, x += of->x_c) {
    if (of_points) {
      __builtin_prefetch(x + at->place + least(line, at->count) - 1);
      __builtin_prefetch(x + at->place + at->count - 1);
      continue;
    }
    for (size_t i = 0; i < of->kh; i++)
      ROLLED for (size_t l = 0; l < at->reads; l++) {
        const float *from = x + (ptrdiff_t)(i * of->dh * of->x_h) + at->from[l];
        __builtin_prefetch(from);
        if (of->sw == 2) __builtin_prefetch(from + 2 * LANES - 1);
      }
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

// Places `place` to `end` of the output, whose rows of `ow` lie behind each other, of all columns of up to GROUP panels.
static __attribute__((noinline)) void convolve_packed(layer of, int of_points, size_t ow, size_t place, size_t end) {
  float held[KEPT] __attribute__((aligned(64))), packed[ROOM * BLOCK + LANES] __attribute__((aligned(64)));
  const size_t depth = of.c, taps = of.kh * of.kw, some = PART / taps, most = KEPT / (GROUP * PANEL) / BLOCK * BLOCK;
  const size_t parts = depth * taps <= ROOM ? 1 : (depth + some - 1) / some;
  block blocks[2];
  for (size_t first = place, last; first < end; first = last) {
    last = least(end, first + most);
    for (size_t part = 0; part < parts; part++) {
      const size_t from = part * depth / parts, channels = (part + 1) * depth / parts - from;
      const float *x = of.x + from * of.x_c;
      of.has_some = part > 0, of.has_more = part + 1 < parts;
      block *at = &blocks[0], *next = &blocks[1], *other;
      for (find_block(&of, of_points, ow, first, last, at); at->count; other = at, at = next, next = other) {
        pack(&of, of_points, x, channels, at, packed);
        find_block(&of, of_points, ow, at->place + at->count, last, next);
        const size_t share = next->count ? (channels * DOWN + of.columns - 1) / of.columns : 0;
        if (at->count <= REST) {
          for (size_t channel = 0; channel < of.columns; channel += PANEL)
            multiply_rests(&of, packed, of.w + channel / PANEL * of.panel + from * taps * PANEL, channels * taps,
                           held + channel * most + at->place - first, most, at, channel);
          continue;
        }
        for (size_t channel = 0, done = 0; channel < of.columns; channel += DOWN, done += share) {
          if (done < channels) fetch(&of, of_points, x + done * of.x_c, least(channels - done, share), next);
          const float *w = of.w + channel / PANEL * of.panel + from * taps * PANEL + channel % PANEL;
          const size_t after = channel / LINE * LINE + LINE;
          const float *later = after < of.columns ? of.w + after / PANEL * of.panel + from * taps * PANEL + after % PANEL
                                                  : of.w + (from + channels) * taps * PANEL;
          later += channel % LINE / DOWN * (channels * taps / DOWN) * PANEL;
          float *kept = held + channel * most + at->place - first;
          (at->vectors == 1 ? multiply_packed_1 : at->vectors == 2 ? multiply_packed_2 : multiply_packed_3)(
              &of, packed, w, channels * taps, later, kept, most, at, channel);
        }
      }
    }
  }
}

// The same of `from` to `to` by a group of panels, of which each workgroup does a part of the places.
static void convolve_group(layer of, int of_points, size_t ow, size_t from, size_t to) {
  const size_t blocks = (to - from + BLOCK - 1 - REST) / BLOCK, back = of.number * PANEL;
  if (of.bias) of.bias -= back;
  if (of.rest) of.rest -= back * of.rest_c;
  of.out -= back * of.out_c, of.w -= of.number * of.panel, of.columns = of.group;
  convolve_packed(of, of_points, ow, from + of.number * blocks / of.panels * BLOCK,
                  of.number + 1 < of.panels ? from + (of.number + 1) * blocks / of.panels * BLOCK : to);
}

// Whether it pays for `rows` of `oh` rows of `ow` places: not where places are few, nor where copies are used too seldom. All panels
// of a group get the same answer.
static int pays_packed(const layer *of, int is_flat, size_t rows, size_t oh, size_t ow) {
  const int of_points = is_flat && of->sh == 1 && of->sw == 1, is_dense = of->w_i == of->kw * PANEL && of->w_j == PANEL;
  return IS_PACKED && is_dense && of->x_w == 1 && of->out_z == 1 && (oh == 1 || of->out_y == ow) &&
         (!of->rest || (of->rest_z == 1 && (oh == 1 || of->rest_y == ow))) &&
         (!of_points || of->c >= POINTS) && rows * ow >= ENOUGH && of->sw <= 2 && of->kw <= REACH &&
         of->kh * of->kw <= PART && 2 * of->dh * (of->kh - 1) <= of->h;
}
#endif
