// Windows of images and volumes whose channels lie side by side: a vector is neighbouring channels of a place, and several
// places of a row are done at once, which share the filter's weights. Taps outside of the image are passed over.
#ifndef OPSPLICE_KERNELS_CHANNELS_LAST_H
#define OPSPLICE_KERNELS_CHANNELS_LAST_H

#include "../tile.h"
#include "../vector_math.h"

// What pooling is told: 0 and 2.
enum { SUM, PRODUCTS, LARGEST };
// LONGEST: places of a row whose results are transposed.
enum { PLACES = 4, PAIR = 2, WIDE = 64, LONGEST = 128, MOST_WEIGHTS = 4096, MOST_TAPS = MOST_WEIGHTS / LANES };

// A dim: its size, that of the window, stride, dilation, how much lies in front of the image, the results; and in memory, how far
// neighbours lie apart.
typedef struct {
  ptrdiff_t size, window, step, apart, before, results, x, w, out;
} along;

// The dims are depth, height and width. w_c, out_c: how far channels lie apart. divisor, shares: of sums.
typedef struct {
  const float *x, *w, *bias, *shares;
  float *out, divisor;
  size_t activation;
  ptrdiff_t w_c, out_c;
  along dims[3];
} image_last;

// What of a window lies in the image: taps `from` up to `to`, the first tap at `first`.
typedef struct {
  ptrdiff_t first, from, to;
} taps;

INLINE taps taps_of(const along *of, ptrdiff_t place) {
  const ptrdiff_t first = place * of->step - of->before, last = of->size - first;
  const ptrdiff_t from = first < 0 ? (-first + of->apart - 1) / of->apart : 0;
  const ptrdiff_t to = last <= 0 ? 0 : (last + of->apart - 1) / of->apart;
  return (taps){first, from, to < of->window ? to : of->window};
}

INLINE floats joined(const int how, floats a, floats b) {
  return how == SUM ? a + b : choose(b != b, b, larger(b, a));
}

// What some taps of a row of the filter add to `places` of `vectors`. x: what the first of these reads.
INLINE void add_taps(const int how, const int places, const int vectors, const along *w, const float *x,
                     const float *weights, ptrdiff_t many, const size_t count, floats sums[][PAIR]) {
  const lanes there = lanes_between(0, (ptrdiff_t)count);
  const ptrdiff_t next = w->step * w->x;
  for (ptrdiff_t j = 0; j < many; j++, x += w->apart * w->x, weights += w->w) {
    floats factors[PAIR];
    if (how == PRODUCTS) UNROLL for (int v = 0; v < vectors; v++)
      factors[v] = count ? load_lanes(weights, there, 0.0f) : load(weights + v * LANES);
    UNROLL for (int p = 0; p < places; p++) UNROLL for (int v = 0; v < vectors; v++) {
      const float *from = x + p * next + v * LANES;
      const floats value = count ? load_lanes(from, there, 0.0f) : load(from);
      sums[p][v] = how == PRODUCTS ? sums[p][v] + value * factors[v] : joined(how, sums[p][v], value);
    }
  }
}

// `places` of a row, from z on, of `vectors` from channel c on; of only `count` channels, if that is not 0. place: the number
// of the first.
INLINE void channels_of(const int how, const int places, const int vectors, const image_last *of, const taps in[3],
                        ptrdiff_t place, ptrdiff_t z, ptrdiff_t c, const size_t count) {
  const along *d = &of->dims[0], *h = &of->dims[1], *w = &of->dims[2];
  const ptrdiff_t first = in[2].first + in[2].from * w->apart, many = in[2].to - in[2].from;
  const float *x = of->x + in[0].first * d->x + in[1].first * h->x + first * w->x + c;
  floats sums[PLACES][PAIR];
  UNROLL for (int p = 0; p < places; p++) UNROLL for (int v = 0; v < vectors; v++)
    sums[p][v] = splat(how == LARGEST ? -__builtin_inff() : 0.0f);
  for (ptrdiff_t a = in[0].from; a < in[0].to; a++)
    for (ptrdiff_t i = in[1].from; i < in[1].to; i++) {
      const float *row = x + a * d->apart * d->x + i * h->apart * h->x;
      const float *weights = of->w + a * d->w + i * h->w + in[2].from * w->w + c;
      add_taps(how, places, vectors, w, row, weights, many, count, sums);
    }
  float *to = of->out + z * w->out + c;
  UNROLL for (int p = 0; p < places; p++, to += w->out) UNROLL for (int v = 0; v < vectors; v++) {
    floats value = sums[p][v];
    if (how == SUM) value /= of->divisor;
    if (how == SUM && of->shares) value *= of->shares[place + p];
    if (how == PRODUCTS && of->bias) value += load_up_to(of->bias + c + v * LANES, count ? count : LANES, 0.0f);
    if (how == PRODUCTS) value = activated(of->activation, value);
    store_up_to(to + v * LANES, value, count ? count : LANES);
  }
}

// Channels c up to `end` of `places` of a row.
INLINE void channels_to(const int how, const int places, const image_last *of, const taps in[3], ptrdiff_t place,
                        ptrdiff_t z, ptrdiff_t c, ptrdiff_t end) {
  for (; c + PAIR * LANES <= end; c += PAIR * LANES) channels_of(how, places, PAIR, of, in, place, z, c, 0);
  for (; c + LANES <= end; c += LANES) channels_of(how, places, 1, of, in, place, z, c, 0);
  if (c < end) channels_of(how, places, 1, of, in, place, z, c, (size_t)(end - c));
}

// Channels c ... of results `first` to `last` of a row, whose windows have the taps `in` along depth and height. place: the number
// of the row's first result. Where places do not come out even the last ones are done again.
INLINE void row_last(const int how, const image_last *of, taps in[3], ptrdiff_t place, ptrdiff_t first, ptrdiff_t last, ptrdiff_t c,
                     ptrdiff_t end) {
  const along *w = &of->dims[2];
  const ptrdiff_t room = w->size + w->before - 1 - (w->window - 1) * w->apart;
  const ptrdiff_t within = room < 0 ? 0 : room / w->step + 1, right = within < last ? within : last;
  const ptrdiff_t before = (w->before + w->step - 1) / w->step, left = before > first ? before : first;
  // Windows of places left up to right are inside.
  for (ptrdiff_t z = first, many; z < last; z += many) {
    many = z >= left && z < right && right - left >= PLACES ? PLACES : 1;
    if (many > 1 && z + many > right) z = right - many;
    in[2] = taps_of(w, z);
    if (many > 1) channels_to(how, PLACES, of, in, place + z, z, c, end);
    else channels_to(how, 1, of, in, place + z, z, c, end);
  }
}

// Weights of channels c ... in `to`, side by side.
static __attribute__((unused)) void copy_weights(image_last *of, ptrdiff_t c, ptrdiff_t end, float *to) {
  along *d = &of->dims[0], *h = &of->dims[1], *w = &of->dims[2];
  float *at = to;
  for (ptrdiff_t a = 0; a < d->window; a++)
    for (ptrdiff_t i = 0; i < h->window; i++)
      for (ptrdiff_t j = 0; j < w->window; j++, at += end - c)
        for (ptrdiff_t l = c; l < end; l++) at[l - c] = of->w[a * d->w + i * h->w + j * w->w + l * of->w_c];
  of->w = to - c, of->w_c = 1;
  w->w = end - c, h->w = w->window * w->w, d->w = h->window * h->w;
}

// Some rows of `columns` floats, `pitch` apart, to where the columns lie `out_c` apart and what is in one `out_r`. What is read of
// a row ends at a multiple of LANES.
INLINE void turn(const float *from, ptrdiff_t pitch, ptrdiff_t columns, ptrdiff_t rows, float *out, ptrdiff_t out_c, ptrdiff_t out_r) {
  for (ptrdiff_t c = 0; c < columns; c += LANES)
    for (ptrdiff_t r = 0; r < rows; r += LANES) {
      const ptrdiff_t some = rows - r < LANES ? rows - r : LANES;
      floats turned[LANES];
      UNROLL for (ptrdiff_t i = 0; i < LANES; i++) turned[i] = i < some ? load(from + (r + i) * pitch + c) : splat(0.0f);
      transpose(turned);
      float *to = out + c * out_c + r * out_r;
      UNROLL for (ptrdiff_t l = 0; l < LANES; l++, to += out_c) if (c + l < columns) {
        if (out_r == 1) store_up_to(to, turned[l], (size_t)some);
        else for (ptrdiff_t i = 0; i < some; i++) to[i * out_r] = turned[l][i];
      }
    }
}

// Of `count` <= LONGEST places, WIDE apart. A function of its own: what is around it needs the registers.
static __attribute__((noinline)) void turn_places(const float *from, ptrdiff_t channels, ptrdiff_t count, float *out, ptrdiff_t out_c,
                                                  ptrdiff_t out_w) {
  turn(from, WIDE, channels, count, out, out_c, out_w);
}

// A share of an image: rows of blocks of channels. Where w_c is not 1 a filter has up to MOST_TAPS.
INLINE void image_with_channels_last(const int how, const image_last *given, ptrdiff_t c, ptrdiff_t share,
                                     ptrdiff_t shares) {
  float weights[MOST_WEIGHTS], kept[LONGEST * WIDE];
  const ptrdiff_t taps_in_all = given->dims[0].window * given->dims[1].window * given->dims[2].window;
  const int is_copied = how == PRODUCTS && given->w_c != 1;
  const ptrdiff_t wide = is_copied && taps_in_all > MOST_WEIGHTS / WIDE ? MOST_WEIGHTS / taps_in_all / LANES * LANES : WIDE;
  const int is_turned = given->out_c != 1;
  const ptrdiff_t results = given->dims[2].results, longest = is_turned && results > LONGEST ? LONGEST : results;
  const ptrdiff_t vectors = (c + LANES - 1) / LANES, blocks = (c + wide - 1) / wide, high = given->dims[1].results;
  const ptrdiff_t rows = given->dims[0].results * high, count = rows * blocks, end = (share + 1) * count / shares;
  for (ptrdiff_t at = share * count / shares; at < end;) {
    const ptrdiff_t block = at / rows, from = vectors * block / blocks * LANES;
    const ptrdiff_t to = vectors * (block + 1) / blocks * LANES, stop = to < c ? to : c;
    image_last of = *given;  // what is stored cannot be a part of it
    if (is_copied) copy_weights(&of, from, stop, weights);
    if (is_turned) of.dims[2].out = WIDE;
    for (; at < end && at / rows == block; at++) {
      const ptrdiff_t row = at % rows;
      taps in[3] = {taps_of(&of.dims[0], row / high), taps_of(&of.dims[1], row % high)};
      float *out = given->out + row / high * of.dims[0].out + row % high * of.dims[1].out;
      for (ptrdiff_t z = 0, next; z < results; z = next) {
        next = results - z < longest ? results : z + longest;
        of.out = is_turned ? kept - from - z * WIDE : out;
        row_last(how, &of, in, row * results, z, next, from, stop);
        float *to = out + from * given->out_c + z * given->dims[2].out;
        if (is_turned) turn_places(kept, stop - from, next - z, to, given->out_c, given->dims[2].out);
      }
    }
  }
}
#endif
