// Convolutions of any filter, stride, dilation, padding and layout:
//   out[n, o, y, z] = f(bias[o] + rest[n, o, y, z] + sum of x[n, c, sh y + dh i - top, sw z + dw j - left] * w[o, c, i, j]),
// where x is zero outside of the image, and w is [o / 32][c][kh][kw][32], the last panel filled up with zeros. f is one of
// the activations of vector.h. bias and rest may be null. Weights are finite: rows of zeros are passed over.
//
// A tile is up to ROWS places of a row of the output by VECTORS vectors of channels: inputs are broadcast, so that a stride is
// only an address. A tile that reaches over the left or right edge reads from a copy of its
// piece of a row, with zeros. Where places lie next to each other in memory the sums are transposed.
//
// A 1x1 convolution of few channels and many places is a product with vectors of places instead, which leaves nothing to
// transpose. So is one of any filter with a stride of 1 or 2 and few channels of the output, such as a group's, which would
// leave half of a tile's channels empty, and with AVX-512 one of few products, as of an image's colours. Where a row is one
// vector, its vectors are of several rows. With AVX-512 a tile of one vector of channels takes less time where the channels
// fill it and its places divide a row.
//
// Filters of 3x3 with stride 1 take fewer products where the image is large enough (winograd.h). With AVX2 others of large images
// are products of places that are copied side by side (packed.h).
//
// Where a place has many products those of some channels are added up first, and are kept meanwhile: weights and places of all
// would come from a large cache for each tile.
//
// While a panel of weights is multiplied the next one is fetched, a few lines for each channel, and so are the places that
// a tile writes.
//
// Grid: (p, ceildiv(oh, 16), n); a workgroup does a panel of 32 channels by 16 rows.
#include "layer.h"
#include "packed.h"
#include "winograd.h"

enum { HEIGHT = 16, LENGTH = 448, DEPTH = 64, AHEAD = 8 * PANEL, STRIP = 112 };
// Of copies: the longest piece of a row with all taps, and floats in all, which do for a row of 2 * TAPS taps.
enum { SPAN = 64, TAPS = 128, PIECES = SPAN * TAPS };
// Of filters of at least 2 * STEPS taps and channels, STEPS are multiplied at a time, for so many places. With AVX-512 it pays for
// small images: fewer tiles share what comes from a large cache.
enum { STEPS = 128, PLACES = 224, SMALL = 64 };
// Of products: channels at most, and of large images; places at least, and of large images; and what a tile has: vectors of
// places, and channels, SOME where it has few registers. HELD: with a filter of one tap. AT_ONCE: channels of the image at most that
// are multiplied before the next ones: what all tiles of a panel read of them fits a small cache.
enum { FEW = 160, MORE = LANES == 8 ? 256 : 512, MANY = 128, LARGE = 512, WIDE = 3, LOW = 8, SOME = 4, AT_ONCE = 96 };
#if LANES == 16 || defined(__aarch64__)
enum { HELD = LOW };
#else
enum { HELD = SOME };
#endif
// Of convolutions that are computed so, too: channels of the output at most, or products of a sum, where what follows them takes
// long beside them; taps of a row at most, places of a row at least.
enum { NARROW = TILE / 2, SHALLOW = LANES == 16 ? 32 : 0, SHORT = 16, LONG = LANES == 4 ? 40 : LANES / 2 + 1 };
// Of filters of at least HALVES taps and channels, tiles of one vector of channels take few places, too. Rows of so many vectors that
// are nearly full take less time than these.
enum { HALVES = 64, MANY_VECTORS = 4 };
// How many elements an image has at least of which the next ones are fetched: smaller ones stay in a cache.
enum { UNHELD = 1 << 17 };

// Where the inputs of a tile lie: of channels, taps of the filter in y and x, and places of a row.
typedef struct {
  const float *x;
  size_t c, i, j, z;
} inputs;

// sums += what `channels` channels add, of the rows `from` to `to` of the filter and `taps` taps of each. is_cut: the first and the last place of a
// row may lie outside of the image, the first one's first tap at `first`; the others do not.
INLINE void add_taps(layer *of, const inputs in, const int is_spread, const int is_cut, const int vectors, const int wide,
                     floats sums[ROWS][VECTORS], const float *w, size_t channels, size_t from, size_t to, size_t taps,
                     ptrdiff_t first) {
  static const float zero = 0.0f;
  const ptrdiff_t across = (ptrdiff_t)((wide - 1) * of->sw);
  const float *plane = in.x + from * in.i;
  const float *next = of->next;
  const size_t lines = next < of->last ? of->lines : 0;
  const size_t w_j = is_spread ? of->w_j : PANEL, w_i = is_spread ? of->w_i : of->kw * PANEL;
  const size_t back = of->w_c - (to - from) * w_i;
  w += from * w_i;
  for (size_t c = 0; c < channels; c++, plane += in.c, w += back) {
    const float *row = plane;
    ROLLED for (size_t l = 0; l < lines; l++, next += LINE) __builtin_prefetch(next, 0, 2);
    for (size_t i = from; i < to; i++, row += in.i, w += w_i - taps * w_j) {
      const float *x = row;
      ptrdiff_t at = first;
      for (size_t j = 0; j < taps; j++, x += in.j, at += of->dw, w += w_j) {
        const int is_first = at >= 0, is_last = at + across < (ptrdiff_t)of->width;
        floats weights[VECTORS];
        UNROLL for (int v = 0; v < VECTORS; v++) if (v < vectors) __builtin_prefetch(w + AHEAD + v * LANES), weights[v] = load(w + v * LANES);
        UNROLL for (int p = 0; p < wide; p++) {
          const float *place = x + (size_t)p * in.z;
          if (is_cut && p == 0) place = is_first ? place : &zero;
          if (is_cut && p == wide - 1) place = is_last ? place : &zero;
          float value = *place;
          UNROLL for (int v = 0; v < VECTORS; v++) if (v < vectors) sums[p][v] += weights[v] * value;
        }
      }
    }
  }
  of->next = next;
}

// What `channels` channels of a tile read: of `rows` rows of the image, as far apart as the filter's, `count` elements from
// `first` on, or (taps > 1) as many for each tap, because these lie far apart. Zeros stand for what is outside.
static __attribute__((noinline)) void gather(const layer *of, const float *plane, size_t channels, size_t rows,
                                             ptrdiff_t above, ptrdiff_t first, size_t taps, size_t count, size_t pitch,
                                             float *to) {
  const ptrdiff_t step = (ptrdiff_t)(of->dh * of->x_h);
  for (size_t j = 0; j < taps; j++)
    for (size_t at = 0; at < count; at += LANES, to += LANES) {
      const ptrdiff_t from = first + (ptrdiff_t)(j * of->dw + at);
      const ptrdiff_t low = -from, high = (ptrdiff_t)of->width - from;
      const lanes there = lanes_between(low, high);
      const float *image = plane + above * (ptrdiff_t)of->x_h + from * (ptrdiff_t)of->x_w;
      float *piece = to;
      for (size_t c = 0; c < channels; c++, image += of->x_c) {
        const float *row = image;
        ptrdiff_t line = above;
        for (size_t r = 0; r < rows; r++, line += of->dh, row += step, piece += taps * pitch) {
          if (line < 0 || line >= (ptrdiff_t)of->h) store(piece, splat(0.0f));
          else if (of->x_w == 1) store(piece, load_lanes(row, there, 0.0f));
          else
            for (ptrdiff_t i = 0; i < LANES; i++)
              piece[i] = i >= low && i < high ? row[i * (ptrdiff_t)of->x_w] : 0.0f;
        }
      }
    }
}

// Fetches what the end of a tile's rows lies in, for each channel: the tile in front had the rest.
static __attribute__((noinline)) void fetch_ends(const layer *of, size_t wide, size_t y, size_t z, size_t channel) {
  if (of->out_z != 1) return;
  const size_t end = least(channel + TILE, of->columns), last = z + wide - 1;
  for (size_t c = channel; c < end; c++) {
    __builtin_prefetch(of->out + c * of->out_c + y * of->out_y + last, 1);
    if (of->rest) __builtin_prefetch(of->rest + c * of->rest_c + y * of->rest_y + last * of->rest_z);
  }
}

// step: how far inputs of neighbouring places lie apart where that is known, else 0. is_point: of one tap, all inside. is_spread: the
// taps do not lie behind each other. vectors: of channels; clang has sums in registers only if loops over these are of VECTORS. pieces:
// room for PIECES.
INLINE void tile(layer *of, const int is_point, const int is_spread, const int step, const int vectors, const int wide, size_t y, size_t z,
                 size_t channel, float *pieces) {
  if (!of->has_more) fetch_ends(of, wide, y, z, channel);
  floats sums[ROWS][VECTORS];
  UNROLL for (int v = 0; v < VECTORS; v++) UNROLL for (int p = 0; p < wide; p++) sums[p][v] = splat(0.0f);
  const size_t reach = (wide - 1) * of->sw + 1;
  const ptrdiff_t above = (ptrdiff_t)(y * of->sh - of->top), rows = (ptrdiff_t)of->h, width = (ptrdiff_t)of->width;
  ptrdiff_t first = (ptrdiff_t)(z * of->sw - of->left);
  const float *w = of->w + channel;
  size_t kw = of->kw;
  if (!is_point) {  // taps that lie outside of the image for all places, as those of dilated filters do, are passed over
    while (kw > 0 && first + (ptrdiff_t)reach <= 0) first += (ptrdiff_t)of->dw, w += is_spread ? of->w_j : PANEL, kw--;
    while (kw > 0 && first + (ptrdiff_t)((kw - 1) * of->dw) >= width) kw--;
  }
  const size_t span = reach + (kw ? kw - 1 : 0) * of->dw;
  const ptrdiff_t room = width - first - (ptrdiff_t)span, one = (ptrdiff_t)of->sw;
  const int is_whole = first >= 0 && room >= 0;
  if (is_point) {
    const float *next = of->next < of->last ? of->next : 0;
    const float *x = of->x + above * (ptrdiff_t)of->x_h + first * (ptrdiff_t)of->x_w;
    multiply_fetching(wide, sums, x, step ? (size_t)step : of->sw * of->x_w, of->x_c, w, is_spread ? of->w_c : PANEL, of->c, AHEAD, next,
                      LINE);
    if (next) of->next += of->c * LINE;
  } else {
    size_t from = 0, to = kw ? of->kh : 0, channels = of->c;
    while (from < to && above + (ptrdiff_t)(from * of->dh) < 0) from++;
    while (from < to && above + (ptrdiff_t)((to - 1) * of->dh) >= rows) to--;
    inputs in = {of->x + above * (ptrdiff_t)of->x_h + first * (ptrdiff_t)of->x_w, of->x_c, of->dh * of->x_h,
                 of->dw * of->x_w, step ? (size_t)step : of->sw * of->x_w};
    if (wide > 1 && !is_whole && first + one >= 0 && room + one >= 0)
      add_taps(of, in, is_spread, 1, vectors, wide, sums, w, channels, from, to, kw, first);
    else {
      const size_t taps = span <= SPAN ? 1 : kw, count = taps == 1 ? span : reach;
      const size_t pitch = (count + LANES - 1) / LANES * LANES;
      const int is_copy = from < to && !is_whole;
      // How many rows of the filter are read from one copy: all, or, of one channel, as many as there is room for.
      const size_t some = is_copy ? least(to - from, PIECES / (taps * pitch)) : to - from;
      if (is_copy)
        in = (inputs){pieces, some * taps * pitch, taps * pitch, taps == 1 ? of->dw : pitch, step ? (size_t)step : of->sw};
      for (size_t c = 0; c < of->c; c += channels, w += channels * of->w_c) {
        if (is_copy) channels = least(of->c - c, PIECES / in.c);
        for (size_t i = from, rows_read; i < to; i += rows_read) {
          rows_read = least(some, to - i);
          if (is_copy)
            gather(of, of->x + c * of->x_c, channels, rows_read, above + (ptrdiff_t)(i * of->dh), first, taps, count, pitch, pieces);
          const size_t skipped = is_copy ? 0 : i;
          add_taps(of, in, is_spread, 0, vectors, wide, sums, w + (i - skipped) * of->w_i, channels, skipped, skipped + rows_read, kw, 0);
        }
      }
    }
  }
  float *held = of->held + ((y - of->held_y) * of->held_wide + z - of->held_z) * PANEL + channel;
  if (of->has_some)
    UNROLL for (int v = 0; v < VECTORS; v++) if (v < vectors)
      UNROLL for (int p = 0; p < wide; p++) sums[p][v] += load(held + p * PANEL + v * LANES);
  if (of->has_more) {
    UNROLL for (int v = 0; v < VECTORS; v++) if (v < vectors)
      UNROLL for (int p = 0; p < wide; p++) store(held + p * PANEL + v * LANES, sums[p][v]);
    return;
  }
  float kept[(ROWS + LANES - 1) / LANES * LANES][TILE] __attribute__((aligned(64)));
  UNROLL for (int v = 0; v < VECTORS; v++) if (v < vectors) {
    // Added last: products that are small next to it would each be rounded as it is.
    const size_t c = channel + v * LANES;
    const floats bias = of->bias && c < of->columns ? load_up_to(of->bias + c, of->columns - c, 0.0f) : splat(0.0f);
    UNROLL for (int p = 0; p < wide; p++) store(kept[p] + v * LANES, sums[p][v] + bias);
  }
  put(of, kept, wide, y, z, channel);
}

INLINE void row_of(layer *of, const int is_point, const int is_spread, const int step, size_t y, size_t z, size_t end, size_t channel) {
  // Copies of what lies at the edges hold few places that are far apart.
  const size_t span = of->kw > TAPS ? SPAN / 2 : SPAN;
  const int is_whole = z * of->sw >= of->left && (end - 1) * of->sw + (of->kw - 1) * of->dw < of->width + of->left;
  const size_t most = is_point || is_whole ? ROWS : least(ROWS, (span - 1) / of->sw + 1);
  float pieces[PIECES] __attribute__((aligned(64)));  // of all tiles: those of each would not fit the stack
  for (size_t left = end - z; left > 0;) {
    size_t places = left / ((left + most - 1) / most);
#define ROW_TILE(p) tile(of, is_point, is_spread, step, VECTORS, p, y, z, channel, pieces)
    FOR_ROWS(places, ROW_TILE)
    z += places, left -= places;
  }
}

// None of these has its copies of edges on the stack of another, nor on that of Winograd's blocks: workers of IREE have 128 KiB.
#define ROW_BY(name, is_point, is_spread, step) \
  static __attribute__((noinline)) void name(layer *of, size_t y, size_t z, size_t end, size_t channel) { \
    row_of(of, is_point, is_spread, step, y, z, end, channel); \
  }
ROW_BY(row_by_1, 0, 0, 1)
ROW_BY(row_by_2, 0, 0, 2)
ROW_BY(row_by_place, 0, 0, 0)
ROW_BY(row_by_any, 0, 1, 0)
ROW_BY(spread_by_1, 0, 1, 1)
ROW_BY(points_by_1, 1, 0, 1)
ROW_BY(points_by_any, 1, 1, 0)

// Rows of panels of which one vector has all channels.
#if LANES == 16
#define EACH_HALF(CALL) CALL(14) CALL(12) CALL(10) CALL(8) CALL(7)
// The places of a tile of a row that has as few tiles as can be, on average; and those of the next tile, of sizes as equal as
// can be, 0 where tiles do not fill the row.
static size_t mean_of(size_t places) { return places / ((places + ROWS - 1) / ROWS); }
static size_t half_of(size_t places) {
  if (places % 2) return places == 7 || places >= 7 + 8 ? 7 : 0;
  return places < 8 ? 0 : mean_of(places) / 2 * 2;
}

INLINE void half_row_of(layer *of, const int step, size_t y, size_t z, size_t end, size_t channel) {
  float pieces[PIECES] __attribute__((aligned(64)));
  for (size_t places; z < end; z += places) {
    places = half_of(end - z);
#define HALF_TILE(p) case p: tile(of, 0, 0, step, 1, p, y, z, channel, pieces); break;
    switch (places) { EACH_HALF(HALF_TILE) }
  }
}
static __attribute__((noinline)) void half_row_by_1(layer *of, size_t y, size_t z, size_t end, size_t channel) {
  half_row_of(of, 1, y, z, end, channel);
}
static __attribute__((noinline)) void half_row_by_2(layer *of, size_t y, size_t z, size_t end, size_t channel) {
  half_row_of(of, 2, y, z, end, channel);
}
#else
static size_t mean_of(size_t places) { return places; }
static size_t half_of(size_t places) { return 0 * places; }
#define half_row_by_1 row_by_1
#define half_row_by_2 row_by_2
#endif

static void row(layer *of, int is_point, size_t y, size_t z, size_t end, size_t channel) {
  const size_t step = of->x_w == 1 ? of->sw : 0;
  const int is_spread = is_point ? of->w_c != PANEL : of->w_j != PANEL || of->w_i != of->kw * PANEL;
  const int is_half = of->columns - channel <= LANES && (step == 1 || step == 2) && half_of(end - z);
  if (is_point) (step == 1 && !is_spread ? points_by_1 : points_by_any)(of, y, z, end, channel);
  else if (is_spread) (step == 1 ? spread_by_1 : row_by_any)(of, y, z, end, channel);
  else if (is_half) (step == 1 ? half_row_by_1 : half_row_by_2)(of, y, z, end, channel);
  else (step == 1 ? row_by_1 : step == 2 ? row_by_2 : row_by_place)(of, y, z, end, channel);
}

// Where the elements of two vectors that begin at the same place are inside of a row.
typedef struct {
  lanes low, high;
} inside;

// x[0], x[step] ..., zero where they are outside.
INLINE floats every(const int step, const float *x, const inside *there) {
  const floats low = load_lanes(x, there->low, 0.0f);
  return step == 1 ? low : every_other(low, load_lanes(x + LANES, there->high, 0.0f), 0);
}

// How far vectors of places lie apart in the image, in the output and in what is added; how many places all but the last have, and
// the last; and where they are of different rows, what row of the image the first tap of the first one reads, and how many further
// the next ones do, else 0.
typedef struct {
  size_t x, out, rest, most, last;
  ptrdiff_t line, lines;
} vectors_at;

INLINE vectors_at in_a_row(const layer *of, const int step, const int vectors, size_t count) {
  return (vectors_at){step * LANES, LANES * of->out_z, LANES * of->rest_z, LANES, count - (vectors - 1) * LANES, 0, 0};
}

// What is added to `count` places and where they go: next to each other, or apart.
INLINE floats load_places(const float *from, size_t step, size_t count) {
  if (step == 1) return load_up_to(from, count, 0.0f);
  floats value = splat(0.0f);
  ROLLED for (size_t i = 0; i < count; i++) value[i] = from[i * step];
  return value;
}

INLINE void store_places(float *to, size_t step, floats value, size_t count) {
  if (step == 1) store_up_to(to, value, count);
  else ROLLED for (size_t i = 0; i < count; i++) to[i * step] = value[i];
}

// sums += what a tap adds to `rows` channels and `vectors` vectors of places. there: what each of them finds in the image.
INLINE void add_tap(const int rows, const int vectors, const int step, const int is_cut, const float *x, const vectors_at at,
                    const inside *const there[WIDE], size_t tap, const float *w, floats sums[LOW][WIDE]) {
  floats values[WIDE];
  UNROLL for (int v = 0; v < vectors; v++) {
    if (is_cut) values[v] = every(step, x + v * at.x, there[v] + tap * WIDE);
    else values[v] = v + 1 < vectors ? load(x + v * at.x) : load_up_to(x + v * at.x, at.last, 0.0f);
  }
  UNROLL for (int r = 0; r < rows; r++) UNROLL for (int v = 0; v < vectors; v++) sums[r][v] += values[v] * w[r];
}

// `rows` channels by `vectors` vectors of places from row y and place z on. Of a filter of more than one tap, the rows `from` to `to`;
// there[j]: the places of each vector that tap j of a row finds in the image. A step of 2 is always cut. later: of one tap, what is
// fetched of each channel.
INLINE void product(const layer *of, const int rows, const int vectors, const int step, const int is_point,
                    const int is_cut, const float *x, const vectors_at at, size_t from, size_t to,
                    const inside there[SHORT][WIDE], size_t y, size_t z, size_t channel, const float *later) {
  static const inside none[SHORT][WIDE];
  floats sums[LOW][WIDE];
  UNROLL for (int r = 0; r < rows; r++) UNROLL for (int v = 0; v < vectors; v++) sums[r][v] = splat(0.0f);
  const float *w = of->w + channel;
  if (is_point && of->rest && !of->has_more)
    UNROLL for (int r = 0; r < rows; r++) UNROLL for (int v = 0; v < vectors; v++) {
      __builtin_prefetch(of->out + (channel + r) * of->out_c + z + v * LANES, 1);
      __builtin_prefetch(of->rest + (channel + r) * of->rest_c + z + v * LANES);
    }
  for (size_t c = 0; c < of->c; c++, x += of->x_c, w += of->w_c) {
    if (is_point) {
      __builtin_prefetch(later, 0, 2), later += of->x_c;
      add_tap(rows, vectors, 1, 0, x, at, 0, 0, w, sums);
      continue;
    }
    if (later) {
      UNROLL for (int v = 0; v < vectors * step; v++) __builtin_prefetch(later + v * LINE, 0, 2);
      later += of->x_c;
    }
    for (size_t i = from; i < to; i++) {
      const inside *found[WIDE];
      UNROLL for (int v = 0; v < vectors; v++)
        found[v] = !at.lines || (size_t)(at.line + (ptrdiff_t)(i * of->dh) + v * at.lines) < of->h ? &there[0][v] : &none[0][v];
      for (size_t j = 0; j < of->kw; j++)
        add_tap(rows, vectors, step, is_cut, x + i * of->dh * of->x_h + j * of->dw, at, found, j, w + i * of->w_i + j * of->w_j, sums);
    }
  }
  if (is_point && of->has_some)
    UNROLL for (int r = 0; r < rows; r++) UNROLL for (int v = 0; v < vectors; v++) sums[r][v] += load(of->held + (r * WIDE + v) * LANES);
  if (is_point && of->has_more) {
    UNROLL for (int r = 0; r < rows; r++) UNROLL for (int v = 0; v < vectors; v++) store(of->held + (r * WIDE + v) * LANES, sums[r][v]);
    return;
  }
  floats kept[LOW][WIDE];
  UNROLL for (int r = 0; r < rows; r++) UNROLL for (int v = 0; v < vectors; v++) kept[r][v] = sums[r][v];
  ROLLED for (int r = 0; r < rows && channel + r < of->columns; r++) {
    const float *rest = of->rest ? of->rest + (channel + r) * of->rest_c + y * of->rest_y + z * of->rest_z : 0;
    float *out = of->out + (channel + r) * of->out_c + y * of->out_y + z * of->out_z;
    const floats bias = splat(of->bias ? of->bias[channel + r] : 0.0f);
    UNROLL for (int v = 0; v < vectors; v++) {
      size_t left = v + 1 < vectors ? at.most : at.last;
      floats value = kept[r][v] + bias;
      if (rest) value += load_places(rest + v * at.rest, of->rest_z, left);
      store_places(out + v * at.out, of->out_z, activated(of->activation, value), left);
    }
  }
}

#define PRODUCT(count, CALL) \
  switch (count) { case 1: CALL(1); break; case 2: CALL(2); break; default: CALL(3); break; }

// Places z to `end` of an image that is one row, by a filter of one tap. Channels of large images share few lines of the
// cache and no page, so the places of the next block are fetched while those of this one are multiplied.
static __attribute__((noinline)) void point_products(layer of, size_t z, size_t end) {
  float held[PANEL * WIDE * LANES] __attribute__((aligned(64)));
  const size_t depth = of.c, parts = depth <= AT_ONCE ? 1 : (depth + AT_ONCE - 1) / AT_ONCE;
  const float *x = of.x, *w = of.w;
  for (size_t count; z < end; z += count) {
    const size_t left = (end - z + LANES - 1) / LANES, vectors = left / ((left + WIDE - 1) / WIDE);
    count = least(end - z, vectors * LANES);
    for (size_t part = 0; part < parts; part++) {
      const size_t from = part * depth / parts, to = (part + 1) * depth / parts;
      of.x = x + from * of.x_c, of.w = w + from * of.w_c, of.c = to - from;
      of.has_some = part > 0, of.has_more = part + 1 < parts;
      for (size_t channel = 0; channel < of.columns; channel += HELD) {
        const float *later = of.x + least(z + count + channel / HELD * LINE, end - 1);
        of.held = held + channel * WIDE * LANES;
#define OF_POINTS(v) product(&of, HELD, v, 1, 1, 0, of.x + z, in_a_row(&of, 1, v, count), 0, 1, 0, 0, z, channel, later)
        PRODUCT(vectors, OF_POINTS)
      }
    }
  }
}

// Places z to `end` of row y, where filters have rows of at most SHORT taps; of `high` rows, where each is a vector.
static __attribute__((noinline)) void row_products(const layer *of, size_t y, size_t high, size_t z, size_t end) {
  const ptrdiff_t above = (ptrdiff_t)(y * of->sh - of->top), width = (ptrdiff_t)of->width;
  size_t from = 0, to = of->kh;
  while (from < to && above + (ptrdiff_t)((high - 1) * of->sh + from * of->dh) < 0) from++;
  while (from < to && above + (ptrdiff_t)((to - 1) * of->dh) >= (ptrdiff_t)of->h) to--;
  for (size_t count; z < end; z += count) {
    const size_t left = (end - z + LANES - 1) / LANES, vectors = high > 1 ? high : left / ((left + WIDE - 1) / WIDE);
    count = least(end - z, high > 1 ? LANES : vectors * LANES);
    const vectors_at of_rows = {of->sh * of->x_h, of->out_y, of->rest_y, count, count, above, (ptrdiff_t)of->sh};
    const ptrdiff_t first = (ptrdiff_t)(z * of->sw - of->left);
    const float *x = of->x + above * (ptrdiff_t)of->x_h + first;
    inside there[SHORT][WIDE];
    for (size_t j = 0; j < of->kw; j++)
      for (size_t v = 0; v < vectors; v++) {
        const ptrdiff_t place = first + (ptrdiff_t)(j * of->dw + (high > 1 ? 0 : v * of->sw * LANES));
        there[j][v].low = lanes_between(-place, width - place);
        there[j][v].high = lanes_between(-place - LANES, width - place - LANES);
      }
    // Vectors of 16 lanes are read with a mask in the same time.
    const int is_cut = LANES == 16 || high > 1 || first < 0 || first + (ptrdiff_t)(vectors * LANES + (of->kw - 1) * of->dw) > width;
    // What the next places read of the last row: those above it were read for places above these.
    const int is_last = z + count == end, is_far = of->c * of->h * of->width >= UNHELD;
    const float *next = is_far && above + (ptrdiff_t)((to - 1 + is_last * of->sh) * of->dh) < (ptrdiff_t)of->h
                            ? x + (to - 1) * of->dh * of->x_h + (is_last ? of->sh * of->x_h - z * of->sw : vectors * LANES * of->sw)
                            : 0;
    for (size_t channel = 0, rows; channel < of->columns; channel += rows) {
      const float *later = channel || high > 1 ? 0 : next;
      rows = LANES == 16 && of->columns - channel > SOME ? LOW : SOME;
#define OF_VECTORS(rows, vectors, step, is_cut) \
  if (is_cut && vectors > 1 && high > 1) product(of, rows, vectors, step, 0, is_cut, x, of_rows, from, to, there, y, z, channel, later); \
  else product(of, rows, vectors, step, 0, is_cut, x, in_a_row(of, step, vectors, count), from, to, there, y, z, channel, later)
#define OF_ROWS(rows, step, is_cut) \
  if (vectors == 1) { OF_VECTORS(rows, 1, step, is_cut); } \
  else if (vectors == 2) { OF_VECTORS(rows, 2, step, is_cut); } \
  else { OF_VECTORS(rows, 3, step, is_cut); }
#define OF_CHANNELS(rows) \
  if (of->sw == 2) { OF_ROWS(rows, 2, 1); } \
  else if (is_cut) { OF_ROWS(rows, 1, 1); } \
  else { OF_ROWS(rows, 1, 0); }
      if (LANES == 16 && rows == LOW) { OF_CHANNELS(LOW) }
      else { OF_CHANNELS(SOME) }
    }
  }
}

// Whether rows of `ow` places are computed by row_products: not those that tiles of half a panel fill, if the sums are long enough
// to be worth a tile and rows are short or have a stride; and short sums, unless tiles are large.
static int is_narrow(const layer *of, size_t ow) {
  const size_t places = half_of(ow) ? mean_of(ow) : 0, taps = of->c * of->kh * of->kw;
  const size_t vectors = (ow + LANES - 1) / LANES;
  const int is_long = of->sw == 1 && vectors >= MANY_VECTORS && 8 * ow > 7 * LANES * vectors;
  const int is_half = of->columns > LOW + SOME && places && !is_long && (places >= 12 || taps >= HALVES);
  const int is_shallow = taps <= (places < 12 ? SHALLOW : SHALLOW / 2) && of->sw == 1 && of->out_z == 1;
  if (!is_shallow && (is_half || of->columns > NARROW)) return 0;
  return of->kw <= SHORT && of->sw <= (LANES == 4 ? 1 : 2) && of->x_w == 1 && ow >= LONG;
}

// Pieces of rows `y` to `end` by the products of winograd.h; what is not finite there, or does not fit, as always.
static void convolve_winograd(layer *of, size_t ow, size_t y, size_t end) {
  for (size_t z = 0, wide; z < ow; z += wide) {
    wide = least(ow - z, 2 * TILES);
    const size_t most = TILES / ((wide + 1) / 2) * 2, blocks = (end - y + most - 1) / most;
    for (size_t at = y, high, rows = ((end - y + blocks - 1) / blocks + 1) / 2 * 2; at < end; at += high) {
      high = least(rows, end - at);
      if (winograd(of, at, high, z, wide)) continue;
      for (size_t channel = 0; channel < of->columns; channel += TILE)
        for (size_t r = at; r < at + high; r++) row(of, 0, r, z, z + wide, channel);
    }
  }
}

// Places `z` to `end_z` of rows `y` to `end`, a piece after the other, some channels at a time: the places and weights of these
// stay in a small cache, and sums of sums are more exact than long ones.
static __attribute__((noinline)) void convolve_deep(layer of, int is_point, size_t z, size_t end_z, size_t y, size_t end) {
  float held[PLACES * PANEL] __attribute__((aligned(64)));
  const size_t depth = of.c, some = STEPS / (of.kh * of.kw), parts = some > 1 ? (depth + some - 1) / some : depth;
  const float *x = of.x, *w = of.w;
  of.held = held;
  for (size_t at_z = z; at_z < end_z; at_z += of.held_wide) {
    of.held_z = at_z, of.held_wide = least(PLACES, end_z - at_z);
    for (size_t at = y, high; at < end; at += high) {
      high = least(PLACES / of.held_wide, end - at), of.held_y = at;
      for (size_t part = 0; part < parts; part++) {
        const size_t from = part * depth / parts, to = (part + 1) * depth / parts;
        of.x = x + from * of.x_c, of.w = w + from * of.w_c, of.c = to - from;
        of.has_some = part > 0, of.has_more = part + 1 < parts;
        for (size_t channel = 0; channel < of.columns; channel += TILE)
          for (size_t r = at; r < at + high; r++) row(&of, is_point, r, at_z, at_z + of.held_wide, channel);
      }
    }
  }
}

// Rows `y` to `end` of `oh` rows of `ow` places.
static void convolve(layer of, size_t oh, size_t ow, size_t y, size_t end) {
  const int is_point = of.kh == 1 && of.kw == 1 && of.top == 0 && of.left == 0 && (oh - 1) * of.sh < of.h &&
                       (ow - 1) * of.sw < of.width;
  // Rows end where the next ones begin: they are one.
  int is_flat = is_point && ow * of.sw == of.width &&
                of.sh * of.x_h == ow * of.sw * of.x_w && of.out_y == ow * of.out_z &&
                (!of.rest || of.rest_y == ow * of.rest_z);
  const int is_winograd = pays_winograd(&of, end - y, ow);
  const int of_points = is_flat && of.sh == 1 && of.sw == 1;
  if (!is_winograd && of.group > NARROW && pays_packed(&of, of_points, end - y, ow)) {
    convolve_group(of, of_points, ow, y, end);
    return;
  }
  if (is_flat) {
    of.width *= of.h;
    if ((oh * ow >= LARGE ? of.c <= MORE : of.c <= FEW && oh * ow >= MANY) && of.sw == 1 && of.x_w == 1 && of.out_z == 1 && (!of.rest || of.rest_z == 1)) {
      point_products(of, y * ow, end * ow);
      return;
    }
  }
  if (!is_point && is_narrow(&of, ow)) {
    const size_t most = ow <= LANES ? WIDE : 1;
    for (size_t high; y < end; y += high) {
      high = (end - y) / ((end - y + most - 1) / most);
      row_products(&of, y, high, 0, ow);
    }
    return;
  }
  if (is_winograd && of.columns == PANEL) {
    convolve_winograd(&of, ow, y, end);
    return;
  }
  if (of.c * of.kh * of.kw >= 2 * STEPS && (LANES != 16 || (!is_flat && (end - y) * ow <= SMALL))) {
    convolve_deep(of, is_point, is_flat ? y * ow : 0, is_flat ? end * ow : ow, is_flat ? 0 : y, is_flat ? 1 : end);
    return;
  }
  for (size_t channel = 0; channel < of.columns; channel += TILE) {
    if (is_flat) {
      row(&of, is_point, 0, y * ow, end * ow, channel);
      continue;
    }
    for (size_t at = y; at < end; at++) row(&of, is_point, at, 0, ow, channel);
  }
}

// The first tap that meets a row of an image which lies spread `step` apart, for output `at`; *before: how many such rows
// lie in front of the image there, which becomes how many of the image itself.
static size_t first_tap(size_t step, size_t at, size_t *before) {
  const ptrdiff_t room = (ptrdiff_t)(*before - at), rest = room % (ptrdiff_t)step;
  const ptrdiff_t tap = rest < 0 ? rest + (ptrdiff_t)step : rest;
  *before = (size_t)((room - tap) / (ptrdiff_t)step);
  return (size_t)tap;
}

// Of an image with uh - 1 and uw - 1 zeros between its rows and places: every uh-th row and uw-th place of the output, from
// (a, b) on, is a convolution of the image itself with every uh-th and uw-th tap. Strides and dilations are 1.
static layer spread_part(const layer *whole, size_t uh, size_t uw, size_t a, size_t b) {
  layer of = *whole;
  const size_t i = first_tap(uh, a, &of.top), j = first_tap(uw, b, &of.left);
  of.w += i * of.w_i + j * of.w_j, of.w_i *= uh, of.w_j *= uw;
  of.out += a * of.out_y + b * of.out_z, of.out_y *= uh, of.out_z *= uw;
  if (of.rest) of.rest += a * of.rest_y + b * of.rest_z;
  of.rest_y *= uh, of.rest_z *= uw;
  if (i < of.kh && j < of.kw) of.kh = (of.kh - i + uh - 1) / uh, of.kw = (of.kw - j + uw - 1) / uw;
  else of.c = 0, of.kh = of.kw = 1;  // no tap meets the image
  return of;
}

// Places 2 z to 2 z + `count` of a row, of which `even` and `odd` have every other one.
static __attribute__((noinline)) void put_pairs(const layer *of, const float *even, const float *odd, size_t y, size_t z,
                                                size_t count) {
  for (size_t c = 0; c < of->columns; c++, even += STRIP, odd += STRIP) {
    float *out = of->out + c * of->out_c + y * of->out_y + 2 * z;
    const float *rest = of->rest ? of->rest + c * of->rest_c + y * of->rest_y + 2 * z : 0;
    for (size_t p = 0; p < count; p += LANES) {
      const floats a = load(even + p / 2), b = load(odd + p / 2);
      floats value = in_turn(a, b);
      if (rest) value += load_up_to(rest + p, count - p, 0.0f);
      store_up_to(out + p, activated(of->activation, value), count - p);
    }
  }
}

// Where every other place of the output is a part of its own, two parts are computed for a piece of a row, and stored together:
// single elements would take longer to store than to compute.
static __attribute__((noinline)) void convolve_pairs(const layer *whole, size_t uh, size_t ow, size_t y, size_t end) {
  float kept[2][PANEL * STRIP + LANES] __attribute__((aligned(64)));
  for (; y < end; y++)
    for (size_t z = 0, wide; z < (ow + 1) / 2; z += wide) {
      wide = least(STRIP, (ow + 1) / 2 - z);
      for (size_t b = 0; b < 2; b++) {
        layer of = spread_part(whole, uh, 2, y % uh, b);
        const int is_point = of.kh == 1 && of.kw == 1 && of.top == 0 && of.left == 0 && y / uh < of.h && z + wide <= of.width;
        of.out = kept[b] - z, of.out_c = STRIP, of.out_y = 0, of.out_z = 1, of.rest = 0, of.activation = NOTHING;
        if (is_narrow(&of, wide)) row_products(&of, y / uh, 1, z, z + wide);
        else
          for (size_t channel = 0; channel < of.columns; channel += TILE) row(&of, is_point, y / uh, z, z + wide, channel);
      }
      put_pairs(whole, kept[0], kept[1], y, z, least(2 * wide, ow - 2 * z));
    }
}

static void convolve_spread(const layer *whole, size_t uh, size_t uw, size_t oh, size_t ow, size_t y, size_t end) {
  if (uw == 2 && ow >= LANES && whole->out_z == 1 && (!whole->rest || whole->rest_z == 1)) {
    convolve_pairs(whole, uh, ow, y, end);
    return;
  }
  for (size_t a = 0; a < uh && a < oh; a++)
    for (size_t b = 0; b < uw && b < ow; b++)
      convolve(spread_part(whole, uh, uw, a, b), (oh - a + uh - 1) / uh, (ow - b + uw - 1) / uw, (y + uh - 1 - a) / uh,
               (end + uh - 1 - a) / uh);
}

void opsplice_convolution(const float *x, const float *w, const float *bias, const float *rest, size_t activation,
                          size_t sh, size_t sw, size_t dh, size_t dw, size_t uh, size_t uw, size_t top, size_t left,
                          float *out, size_t n, size_t c, size_t h, size_t width, size_t p, size_t kh, size_t kw, size_t o, size_t oh,
                          size_t ow, size_t x_n, size_t x_c, size_t x_h, size_t x_w, size_t rest_n, size_t rest_c,
                          size_t rest_h, size_t rest_w, size_t out_n, size_t out_c, size_t out_h, size_t out_w,
                          size_t workgroup_x, size_t workgroup_y, size_t workgroup_z) {
  (void)n;
  const size_t first = workgroup_x * PANEL, y = workgroup_y * HEIGHT, end = least(oh, y + HEIGHT), taps = c * kh * kw;
  const size_t tiles = ((end - y) * ow + ROWS - 1) / ROWS * (PANEL / TILE), group = workgroup_x / GROUP * GROUP;
  const float *panel = w + workgroup_x * taps * PANEL, *next = panel + taps * PANEL;
  if (rest && !bias && rest_c == 1 && rest_h == 0 && rest_w == 0) bias = rest + workgroup_z * rest_n, rest = 0;
  layer of = {
      x + workgroup_z * x_n,
      panel,
      bias ? bias + first : 0,
      rest ? rest + workgroup_z * rest_n + first * rest_c : 0,
      out + workgroup_z * out_n + first * out_c,
      activation, c, h, width, kh, kw, least(PANEL, o - first),
      sh, sw, dh, dw, top, left,
      kh * kw * PANEL, kw * PANEL, PANEL,
      x_c, x_h, x_w, rest_c, rest_h, rest_w, out_c, out_h, out_w,
      next, workgroup_x + 1 < p ? next + taps * PANEL : next, (kh * kw * PANEL / LINE + tiles - 1) / tiles, 0, 0, 0, 0, 0, 0,
      workgroup_x - group, least(GROUP, p - group), taps * PANEL, least(GROUP * PANEL, o - group * PANEL),
  };
  if (uh == 1 && uw == 1) convolve(of, oh, ow, y, end);
  else convolve_spread(&of, uh, uw, oh, ow, y, end);
}

// `depth` rows of a panel, times the factors of its columns.
static void scale_rows(const float *f, size_t column, size_t step, const float *factor, size_t columns, size_t depth,
                       float *out) {
  for (size_t at = 0, count; at < depth; at += count, f += count * step, out += count * PANEL) {
    count = least(DEPTH, depth - at);
    pack_panel(f, column, step, columns, count, out);
    for (size_t v = 0; factor && v < columns; v += LANES) {
      const floats by = load_up_to(factor + v, columns - v, 0.0f);
      for (size_t i = v; i < count * PANEL; i += PANEL) store(out + i, load(out + i) * by);
    }
  }
}

// Packs a slice of a panel of a filter [g, o, c, kd, kh, kw], times factor[g, o]. Where its channels and taps do not lie one
// behind the other, as in HWIO, each row of taps is packed by itself. Grid: (ceildiv(o, 32), kd, g).
void opsplice_pack_filter(const float *f, const float *factor, float *out, size_t g, size_t o, size_t c, size_t kd,
                          size_t kh, size_t kw, size_t f_g, size_t f_o, size_t f_c, size_t f_d, size_t f_h, size_t f_w,
                          size_t workgroup_x, size_t workgroup_y, size_t workgroup_z) {
  (void)g;
  const size_t first = workgroup_x * PANEL, columns = least(PANEL, o - first), taps = kh * kw;
  const size_t step = kw > 1 ? f_w : kh > 1 ? f_h : f_c, panels = (o + PANEL - 1) / PANEL;
  f += workgroup_z * f_g + first * f_o + workgroup_y * f_d;
  out += ((workgroup_z * panels + workgroup_x) * kd + workgroup_y) * c * taps * PANEL;
  factor = factor ? factor + workgroup_z * o + first : 0;
  if (f_c == taps * step && (kh == 1 || f_h == kw * step)) {
    scale_rows(f, f_o, step, factor, columns, c * taps, out);
    return;
  }
  for (size_t at = 0; at < c * kh; at++, out += kw * PANEL)
    scale_rows(f + at / kh * f_c + at % kh * f_h, f_o, step, factor, columns, kw, out);
}

// Of one dim. Grid: (p, ceildiv(ow, 448), n); a workgroup does a panel of 32 channels by 448 places.
void opsplice_convolution_row(const float *x, const float *w, const float *bias, const float *rest, size_t activation,
                              size_t sw, size_t dw, size_t uw, size_t left, float *out, size_t n, size_t c, size_t width,
                              size_t p, size_t kw, size_t o, size_t ow, size_t x_n, size_t x_c, size_t x_w,
                              size_t rest_n, size_t rest_c, size_t rest_w, size_t out_n, size_t out_c, size_t out_w,
                              size_t workgroup_x, size_t workgroup_y, size_t workgroup_z) {
  size_t z = workgroup_y * LENGTH;
  opsplice_convolution(x, w, bias, rest ? rest + z * rest_w : 0, activation, 1, sw, 1, dw, 1, uw, 0, left - z * sw,
                       out + z * out_w, n, c, 1, width, p, 1, kw, o, 1, least(LENGTH, ow - z), x_n, x_c, 0, x_w, rest_n,
                       rest_c, 0, rest_w, out_n, out_c, 0, out_w, workgroup_x, 0, workgroup_z);
}

// Of one image and group: an only row is done in parts, and so is an only column, of which fewer workgroups do more.
static void plane(const float *x, const float *w, const float *bias, const float *rest, size_t activation, size_t sh,
                  size_t sw, size_t dh, size_t dw, size_t uh, size_t uw, size_t top, size_t left, float *out, size_t c,
                  size_t h, size_t width, size_t p, size_t kh, size_t kw, size_t o, size_t oh, size_t ow, size_t x_c,
                  size_t x_h, size_t x_w, size_t rest_c, size_t rest_h, size_t rest_w, size_t out_c, size_t out_h,
                  size_t out_w, size_t panel, size_t part) {
  if (oh == 1 && kh == 1 && top == 0)
    opsplice_convolution_row(x, w, bias, rest, activation, sw, dw, uw, left, out, 1, c, width, p, kw, o, ow, 0, x_c, x_w,
                             0, rest_c, rest_w, 0, out_c, out_w, panel, part, 0);
  else if (!IS_PACKED || width != 1 || kw != 1 || ow != 1 || left != 0 || uh != 1 || oh < ENOUGH)
    opsplice_convolution(x, w, bias, rest, activation, sh, sw, dh, dw, uh, uw, top, left, out, 1, c, h, width, p, kh, kw,
                         o, oh, ow, 0, x_c, x_h, x_w, 0, rest_c, rest_h, rest_w, 0, out_c, out_h, out_w, panel, part, 0);
  else if (part * HEIGHT % LENGTH == 0)
    opsplice_convolution_row(x, w, bias, rest, activation, sh, dh, 1, top, out, 1, c, h, p, kh, o, oh, 0, x_c, x_h, 0,
                             rest_c, rest_h, 0, out_c, out_h, panel, part * HEIGHT / LENGTH, 0);
}

// Of any number of dims, and in groups of channels, each with a filter of its own. In three dims a slice of the filter after
// the other, those that meet the image: w is [g][o / 32][kd][c][kh][kw][32], and the output holds the sums between slices.
// Grid: (p, oh == 1 ? ceildiv(ow, 448) : ceildiv(oh, 16), n * g * od).
void opsplice_convolution_any(const float *x, const float *w, const float *bias, const float *rest, size_t activation,
                              size_t sd, size_t sh, size_t sw, size_t dd, size_t dh, size_t dw, size_t ud, size_t uh,
                              size_t uw, size_t front, size_t top, size_t left, float *out, size_t n, size_t gc,
                              size_t d, size_t h, size_t width, size_t g, size_t p, size_t kd, size_t c, size_t kh,
                              size_t kw, size_t o, size_t od, size_t oh, size_t ow, size_t x_n, size_t x_c, size_t x_d,
                              size_t x_h, size_t x_w, size_t rest_n, size_t rest_g, size_t rest_c, size_t rest_d,
                              size_t rest_h, size_t rest_w, size_t out_n, size_t out_g, size_t out_c, size_t out_d,
                              size_t out_h, size_t out_w, size_t workgroup_x, size_t workgroup_y, size_t workgroup_z) {
  (void)n, (void)gc;
  const size_t image = workgroup_z / od / g, group = workgroup_z / od % g, slice = workgroup_z % od;
  const size_t taps = c * kh * kw * PANEL;
  size_t tap = first_tap(ud, slice * sd, &front), count = 0;
  ptrdiff_t at = -(ptrdiff_t)front;
  for (; tap < kd && at < 0; tap += ud) at += dd;
  if (tap < kd && at < (ptrdiff_t)d) count = least((kd - tap + ud - 1) / ud, (d - (size_t)at + dd - 1) / dd);
  x += image * x_n + group * c * x_c, w += group * p * kd * taps, out += image * out_n + group * out_g + slice * out_d;
  if (rest) rest += image * rest_n + group * rest_g + slice * rest_d;
  if (bias) bias += group * o;
  if (count == 0) c = 0, tap = 0, at = 0, count = 1;  // no slice of the filter meets the image
  if (kd > 1) {
    // Weights of other panels do not lie behind those of this one: it is all that a convolution is told of.
    const size_t first = workgroup_x * PANEL;
    w += workgroup_x * kd * taps, out += first * out_c, o = least(PANEL, o - first), p = 1, workgroup_x = 0;
    if (rest) rest += first * rest_c;
    if (bias) bias += first;
  }
  for (; count > 0; count--, tap += ud, at += dd) {
    plane(x + (size_t)at * x_d, w + tap * taps, bias, rest, count == 1 ? activation : NOTHING, sh, sw, dh, dw, uh, uw, top, left,
          out, c, h, width, p, kh, kw, o, oh, ow, x_c, x_h, x_w, rest_c, rest_h, rest_w, out_c, out_h, out_w, workgroup_x,
          workgroup_y);
    bias = 0, rest = out, rest_c = out_c, rest_h = out_h, rest_w = out_w;
  }
}
