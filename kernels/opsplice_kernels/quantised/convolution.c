// Convolutions of bytes that stand for numbers, of up to three dims, in groups of channels, with any filter, stride, dilation,
// padding and layout:
//   out[n, g, o, y, z] = scale * columns[g, o] * (the sum of (x[n, g c + c, sh y + dh i - top, sw z + dw j - left] - zero)
//                        * w[g, o, c, i, j]) + bias[g, o],
// where x is `zero` outside of the image, w is [g][o / 32][kd][kh][kw][c / 4][32][4], the last panel and the last four channels
// filled up with zeros, and sums[g, o] the sum of all w of o. columns and bias may be null. With `positive` what is
// below 0 is 0. Or the same as bytes again; or the sums themselves, which wrap around.
//
// A workgroup does 8 rows by 8 panels of 32 channels, strip by strip: it copies the piece of the image that a strip needs,
// with its zeros around, channels last, so that four of them are a word and a stride is only an address. Of a volume it copies
// what a row needs of all planes, whose taps are then so many more rows of one filter. Bytes
// become such as dot() takes, greater or less by 128. Sums are transposed at the end where the result has its channels first. Without dot()
// filters of 3x3 with stride 1 take fewer products (winograd.h). AMX multiplies
// 16 places and more, where 64 divides the bytes of a row of the filter and the system gives its registers.
//
// Grid: (ceildiv(p, 8), ceildiv(oh, 8), n * g * od).
#include "../byte_tile.h"
#include "../matrix_tiles.h"

// Many places at once pay for the preparation of weights (byte_pairs.h).
#ifdef HAS_PAIRS
enum { PLACES = 112 };
#else
enum { PLACES = 64 };
#endif
enum { HEIGHT = 8, PANELS = 8, ROOM = 64 * 1024, BLOCK = 16 };

typedef uint8_t block __attribute__((vector_size(BLOCK)));
typedef uint8_t block_anywhere __attribute__((vector_size(BLOCK), aligned(1), may_alias));

typedef struct {
  const uint8_t *x, *end;  // channels of an image, and where all images end
  const int8_t *w;
  const int32_t *sums;
  const float *columns, *bias;
  float *out;
  uint8_t *bytes;  // instead of `out`
  int32_t is_sum;  // what `out` points to are the sums
  rounding by;
  float scale;
  int32_t zero, moved, flip, positive;  // flip: what bytes are moved by, as bits
  int has_matrices;
  size_t c, h, width, kh, kw, c4, o, oh, ow, sh, sw, dh, dw, top, left;
  size_t x_c, x_d, x_h, x_w, out_c, out_h, out_w;
  // Of a volume: the plane of the filter's first tap, how far the next ones lie apart, and how many rows of a piece each has, 0 where
  // the filter has one.
  ptrdiff_t first;
  size_t d, dd, lines;
} layer;

// A piece of the image, channels last: `rows` by `wide` places of `of->c4` words.
typedef struct {
  uint8_t *bytes;
  ptrdiff_t top, left;  // where it begins in the image, which may lie outside
  size_t rows, wide;
} piece;

#define EACH_OF_BLOCK(F) \
  F(0), F(1), F(2), F(3), F(4), F(5), F(6), F(7)
#define LOW_BYTES(i) i, BLOCK + i
#define HIGH_BYTES(i) BLOCK / 2 + i, BLOCK + BLOCK / 2 + i
INLINE void transpose_block(block rows[BLOCK]) {
  UNROLL for (int round = 0; round < 4; round++) {
    block next[BLOCK];
    UNROLL for (int i = 0; i < BLOCK / 2; i++) {
      next[2 * i] = __builtin_shufflevector(rows[i], rows[i + BLOCK / 2], EACH_OF_BLOCK(LOW_BYTES));
      next[2 * i + 1] = __builtin_shufflevector(rows[i], rows[i + BLOCK / 2], EACH_OF_BLOCK(HIGH_BYTES));
    }
    UNROLL for (int i = 0; i < BLOCK; i++) rows[i] = next[i];
  }
}

// The first `count` of BLOCK bytes that are `step` apart, those behind them if they are there.
INLINE block load_block(const int step, const uint8_t *from, size_t count, const uint8_t *end) {
  if (from + step * BLOCK <= end) {
    const block_anywhere *there = (const block_anywhere *)from;
    return step == 1 ? there[0] : __builtin_shufflevector(there[0], there[1], 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
  }
  block value = {0};
  for (size_t i = 0; i < count; i++) value[i] = from[i * step];
  return value;
}

// `count` places of a row of the image from x on, channels last.
static __attribute__((noinline)) void copy_places(const layer *of, const uint8_t *x, size_t count, uint8_t *to) {
  const size_t pixel = 4 * of->c4, channels = of->x_c == 1 ? of->c : 0;
  const block flip = (uint8_t)of->flip - (block){0};
  for (size_t z = 0; z < count; z++, x += of->x_w, to += pixel) {
    size_t c = 0;
    for (; c + BLOCK <= channels; c += BLOCK) *(block_anywhere *)(to + c) = *(const block_anywhere *)(x + c) ^ flip;
    ROLLED for (; c < of->c; c++) to[c] = x[c * of->x_c] ^ (uint8_t)of->flip;
    ROLLED for (; c < pixel; c++) to[c] = 0;
  }
}

INLINE void turn_by(const int step, const layer *of, const uint8_t *x, size_t count, uint8_t *to) {
  const size_t pixel = 4 * of->c4;
  const block flip = (uint8_t)of->flip - (block){0};
  for (size_t c = 0; c < of->c; c += BLOCK)
    for (size_t z = 0; z < count; z += BLOCK) {
      const size_t places = least(BLOCK, count - z), channels = least(BLOCK, of->c - c), room = pixel - c;
      block rows[BLOCK];
      UNROLL for (size_t i = 0; i < BLOCK; i++)
        rows[i] = i < channels ? load_block(step, x + (c + i) * of->x_c + step * z, places, of->end) ^ flip : (block){0};
      transpose_block(rows);
      uint8_t *at = to + z * pixel + c;
      if (room >= BLOCK && places == BLOCK) {
        UNROLL for (size_t i = 0; i < BLOCK; i++) *(block_anywhere *)(at + i * pixel) = rows[i];
        continue;
      }
      block kept[BLOCK];
      UNROLL for (int i = 0; i < BLOCK; i++) kept[i] = rows[i];
      for (size_t i = 0; i < places; i++, at += pixel) {
        if (room >= BLOCK) *(block_anywhere *)at = kept[i];
        else
          for (size_t word = 0; word < room; word += 4) __builtin_memcpy(at + word, (uint8_t *)&kept[i] + word, 4);
      }
    }
}

static __attribute__((noinline)) void turn(const layer *of, const uint8_t *x, size_t count, uint8_t *to) {
  if (of->x_c == 1 && of->c > 1) copy_places(of, x, count, to);
  else if (of->x_w == 1) turn_by(1, of, x, count, to);
  else if (of->x_w == 2) turn_by(2, of, x, count, to);
  else copy_places(of, x, count, to);
}

static void fill(uint8_t *to, size_t count, uint8_t value) {
  for (size_t i = 0; i < count; i++) to[i] = value;
}

static void copy(const layer *of, const piece *at) {
  const size_t pixel = 4 * of->c4, pitch = at->wide * pixel;
  const uint8_t zero = (uint8_t)(of->zero ^ of->flip);
  const size_t before = at->left < 0 ? least(at->wide, (size_t)-at->left) : 0;
  const ptrdiff_t there = (ptrdiff_t)of->width - at->left;
  const size_t until = there < (ptrdiff_t)before ? before : least(at->wide, (size_t)there);
  uint8_t *to = at->bytes;
  for (size_t i = 0; i < at->rows; i++, to += pitch) {
    const size_t tap = of->lines ? i / of->lines : 0;
    const ptrdiff_t y = at->top + (ptrdiff_t)(i - tap * of->lines), plane = of->first + (ptrdiff_t)(tap * of->dd);
    if (y < 0 || y >= (ptrdiff_t)of->h || plane < 0 || plane >= (ptrdiff_t)of->d) {
      fill(to, pitch, zero);
      continue;
    }
    fill(to, before * pixel, zero);
    fill(to + until * pixel, pitch - until * pixel, zero);
    const uint8_t *from = of->x + (size_t)plane * of->x_d + (size_t)y * of->x_h + (size_t)(at->left + (ptrdiff_t)before) * of->x_w;
    if (until > before) turn(of, from, until - before, to + before * pixel);
  }
}

// The next panel's weights, of which each step of a tile of this one fetches `part` bytes.
typedef struct {
  const int8_t *next;
  size_t part;
} fetching;

// vectors: of channels.
INLINE void place_tile(const int rows, const int vectors, const layer *of, const uint8_t *x, size_t pitch,
                       const int8_t *w, const int32_t *start, fetching *also, ints (*to)[PANEL / LANES]) {
  ints sums[ROWS][VECTORS];
  UNROLL for (int p = 0; p < rows; p++) UNROLL for (int v = 0; v < VECTORS; v++) if (v < vectors)
    sums[p][v] = load_whole(start + v * LANES);
  const size_t pixel = 4 * of->c4, taps = of->dw == 1 ? 1 : of->kw, run = of->dw == 1 ? of->kw * pixel : pixel;
  for (size_t i = 0; i < of->kh; i++, x += of->dh * pitch)
    for (size_t j = 0; j < taps; j++, w += run * PANEL, also->next += run / 4 * also->part)
      multiply_bytes(rows, vectors, 0, sums, x + j * of->dw * pixel, of->sw * pixel, w, run, also->next, also->part);
  UNROLL for (int p = 0; p < rows; p++) UNROLL for (int v = 0; v < VECTORS; v++) if (v < vectors) to[p][v] = sums[p][v];
}

// The first `count` < LANES bytes, some of them twice.
INLINE void copy_some(uint8_t *to, const uint8_t *from, size_t count) {
#define COPY_ENDS(size) \
  if (count >= size) { \
    __builtin_memcpy(to, from, size); \
    __builtin_memcpy(to + count - size, from + count - size, size); \
    return; \
  }
  COPY_ENDS(8)
  COPY_ENDS(4)
  ROLLED for (size_t i = 0; i < count; i++) to[i] = from[i];
}

// Bytes of LANES places by `channels` channels. Four places are a word of each channel, whose words come side by side then:
// vector r has those of the channels r, WORDS + r, 2 * WORDS + r ...
INLINE void put_bytes(const layer *of, const floats *values, size_t channels, size_t places, uint8_t *to) {
  enum { WORDS = LANES / 4 };
  floats words[WORDS], kept[WORDS];
  UNROLL for (int q = 0; q < WORDS; q++) {
    ints word = {0};
    UNROLL for (int i = 0; i < 4; i++) word |= (as_bytes(values[4 * q + i], of->by) & 255) << 8 * i;
    words[q] = (floats)word;
  }
  if (WORDS > 1) EXCHANGE(WORDS, words, 1)
  if (WORDS > 2) EXCHANGE(WORDS, words, 2)
  UNROLL for (int q = 0; q < WORDS; q++) kept[q] = words[q];
  for (size_t l = 0; l < channels; l++, to += of->out_c) {
    const uint8_t *from = (const uint8_t *)&kept[l % WORDS] + l / WORDS * LANES;
    if (places >= LANES) __builtin_memcpy(to, from, LANES);
    else copy_some(to, from, places);
  }
}

// `count` channels of a place.
INLINE void put_place(const layer *of, floats value, size_t count, size_t at) {
  if (of->out_c == 1) {
    if (of->bytes) store_as_bytes(of->bytes + at, value, of->by, count);
    else store_up_to(of->out + at, value, count);
    return;
  }
  const ints whole = of->bytes ? as_bytes(value, of->by) : (ints)value;
  ROLLED for (size_t l = 0; l < count; l++, at += of->out_c) {
    if (of->bytes) of->bytes[at] = (uint8_t)whole[l];
    else of->out[at] = ((floats)whole)[l];
  }
}

// Sums of `places` places of a row, PANEL channels each, to the output at y and z.
static __attribute__((noinline)) void put(const layer *of, ints (*sums)[PANEL / LANES], size_t places, size_t channel,
                                          size_t y, size_t z) {
  for (size_t v = 0; v < PANEL && channel + v < of->o; v += LANES) {
    const size_t lanes = least(LANES, of->o - channel - v);
    floats scale = splat(of->scale), bias = splat(0.0f);
    if (of->columns) scale *= load_up_to(of->columns + channel + v, lanes, 0.0f);
    if (of->bias) bias = load_up_to(of->bias + channel + v, lanes, 0.0f);
    for (size_t p = 0; p < places; p += LANES) {
      const size_t at = (channel + v) * of->out_c + y * of->out_h + (z + p) * of->out_w, count = least(LANES, places - p);
      floats values[LANES], kept[LANES];
      UNROLL for (int i = 0; i < LANES; i++) {
        const ints sum = sums[p + i][v / LANES];
        values[i] = of->is_sum ? (floats)sum : __builtin_convertvector(sum, floats) * scale + bias;
        if (of->positive) values[i] = larger(splat(0.0f), values[i]);
      }
      if (of->out_w != 1 || (of->out_c == 1 && of->o > 1)) {
        UNROLL for (int i = 0; i < LANES; i++) kept[i] = values[i];
        for (size_t i = 0; i < count; i++) put_place(of, kept[i], lanes, at + i * of->out_w);
        continue;
      }
      if (of->bytes) {
        put_bytes(of, values, lanes, count, of->bytes + at);
        continue;
      }
      transpose(values);
      UNROLL for (int i = 0; i < LANES; i++) kept[i] = values[i];
      for (size_t l = 0; l < lanes; l++) store_up_to(of->out + at + l * of->out_c, kept[l], count);
    }
  }
}

#ifdef HAS_MATRICES_OF_BYTES
// PLACES places at most, and MATRIX_ROWS at least.
static void place_matrices(const layer *of, const uint8_t *x, size_t pitch, const int8_t *w, const int32_t *start,
                           size_t places, ints (*to)[PANEL / LANES]) {
  const size_t step = of->sw * 4 * of->c4, run = of->kw * 4 * of->c4;
  ints sums[2 * MATRIX_ROWS][PANEL / LANES];
  for (size_t i = 0; i < places; i += 2 * MATRIX_ROWS) {
    // The last ones again, where fewer are left.
    size_t at[] = {least(i, places - MATRIX_ROWS), least(i + MATRIX_ROWS, places - MATRIX_ROWS)};
    multiply_matrices(U8_BY_S8, x + at[0] * step, x + at[1] * step, step, w, run, of->kh, of->dh * pitch, start, sums);
    for (size_t p = 0; p < 2 * MATRIX_ROWS; p++) UNROLL for (size_t v = 0; v < PANEL / LANES; v++)
      to[at[p / MATRIX_ROWS] + p % MATRIX_ROWS][v] = sums[p][v];
  }
}
#endif

#ifdef HAS_PAIRS
#include "winograd.h"

static void many_places(const layer *of, const uint8_t *x, const uint8_t *end, size_t pitch, const int8_t *w,
                        const int32_t *start, size_t count, ints (*sums)[PANEL / LANES]) {
  const size_t pixel = 4 * of->c4, tiles = PANEL / TILE;
  // Taps side by side are one run; else each is one.
  const int is_dense = of->dw == 1;
  const size_t bytes = is_dense ? of->kw * pixel : pixel, runs = is_dense ? of->kh : of->kw, times = is_dense ? 1 : of->kh;
  for (size_t p = 0; p < count; p++) UNROLL for (int v = 0; v < PANEL / LANES; v++) sums[p][v] = load_whole(start + v * LANES);
  for (size_t i = 0; i < times; i++, x += of->dh * pitch, w += runs * bytes * PANEL)
    multiply_panel(count, tiles, sums, x, of->sw * pixel, bytes, runs, is_dense ? of->dh * pitch : of->dw * pixel, w, end, 0, 0, 0);
}
#endif

// Sums of `count` places of the output, whose inputs begin at x, in memory that ends at `end`; of the first `channels` of a panel
// at least.
static void sum_up(const layer *of, const uint8_t *x, const uint8_t *end, size_t pitch, const int8_t *w, const int32_t *start,
                   size_t channels, size_t count, fetching *also, ints (*sums)[PANEL / LANES]) {
  (void)end;
#ifdef HAS_MATRICES_OF_BYTES
  if (of->has_matrices && count >= MATRIX_ROWS) {
    place_matrices(of, x, pitch, w, start, count, sums);
    return;
  }
#endif
#ifdef HAS_PAIRS
  if (count >= MANY_ROWS) {
    many_places(of, x, end, pitch, w, start, count, sums);
    return;
  }
#endif
  for (size_t p = 0, tile; p < count; p += tile) {
    size_t left = count - p;
    tile = left / ((left + BYTE_ROWS - 1) / BYTE_ROWS);
    for (size_t c = 0; c < PANEL && c < channels; c += TILE) {
#define PLACE_TILE_OF(n, vectors) \
  place_tile(n, vectors, of, x + p * of->sw * 4 * of->c4, pitch, w + 4 * c, start + c, also, (ints (*)[PANEL / LANES])&sums[p][c / LANES])
#define PLACE_TILE(n) if (n <= BYTE_ROWS) PLACE_TILE_OF(n, VECTORS)
#define HALF_TILE(n) if (n <= BYTE_ROWS) PLACE_TILE_OF(n, 1)
      if (LANES == 16 && channels <= LANES) FOR_ROWS(tile, HALF_TILE)
      else FOR_ROWS(tile, PLACE_TILE)
    }
  }
}

// What the sums of a panel begin with.
static void begin_sums(const layer *of, size_t channel, int32_t start[PANEL]) {
  for (size_t c = 0; c < PANEL; c++)
    start[c] = channel + c < of->o ? -(of->zero + of->moved) * of->sums[channel + c] : 0;
}

// Whether rows of `wide` places are one line, in which some places lie between two rows and are left out. What multiplies many
// places at once wants that; small tiles want it for rows of a few.
static int is_one_line(const layer *of, const piece *at, size_t wide) {
#ifdef HAS_PAIRS
  const int takes_many = 1;
#else
  const int takes_many = of->has_matrices;
#endif
  return of->sh == 1 && of->sw == 1 && (takes_many || wide < 4 || at->wide == wide);
}

// `rows` rows of `wide` places of the output, from y and z on, of the piece that was copied for them.
static __attribute__((noinline)) void panel_of(const layer *of, const piece *at, size_t panel, size_t y, size_t rows, size_t z,
                                               size_t wide) {
  const size_t channel = panel * PANEL, pixel = 4 * of->c4, pitch = at->wide * pixel;
  const int8_t *w = of->w + channel * of->kh * of->kw * pixel;
  int32_t start[PANEL];
  begin_sums(of, channel, start);
  ints sums[PLACES + LANES][PANEL / LANES];
  const size_t lines = is_one_line(of, at, wide) ? 1 : rows, each = rows / lines;
  const size_t count = (each - 1) * at->wide + wide;
  const int is_dense = at->wide == wide && wide == of->ow && of->out_h == wide * of->out_w;  // all of these places are side by side in the output, too
  const size_t tiles = lines * ((count + ROWS - 1) / ROWS) * (PANEL / TILE);
  fetching also = {w + of->kh * of->kw * pixel * PANEL, (4 * PANEL + tiles - 1) / tiles};
  for (size_t line = 0; line < lines; line++)
    for (size_t p = 0; p < count; p += PLACES) {
      const size_t places = least(PLACES, count - p);
      sum_up(of, at->bytes + line * of->sh * pitch + p * of->sw * pixel, at->bytes + ROOM, pitch, w, start, of->o - channel,
             places, &also, sums);
      if (is_dense) {
        put(of, sums, places, channel, y + line, z + p);
        continue;
      }
      for (size_t r = p / at->wide; r < each && r * at->wide < p + places; r++) {
        const size_t begin = r * at->wide < p ? p : r * at->wide, end = least(p + places, r * at->wide + wide);
        if (begin < end) put(of, sums + (begin - p), end - begin, channel, y + line + r, z + begin - r * at->wide);
      }
    }
}

#ifdef HAS_PAIRS
// The same by the products of winograd.h.
static __attribute__((noinline)) void tiles_of(const layer *of, const piece *at, size_t panel, size_t y, size_t rows, size_t z,
                                               size_t wide) {
  const size_t channel = panel * PANEL, across = least(BLOCK_TILES, (wide + 1) / 2), down = BLOCK_TILES / across;
  int32_t start[PANEL];
  begin_sums(of, channel, start);
  ints made[2][2 * BLOCK_TILES + LANES][PANEL / LANES];
  for (size_t r = 0; r < rows; r += 2 * down)
    for (size_t p = 0; p < wide; p += 2 * across) {
      const size_t high = least(2 * down, rows - r), places = least(2 * across, wide - p);
      byte_winograd(of, at, of->w + channel * 9 * 4 * of->c4, start, r, p, high, places, made);
      for (size_t i = 0; i < high; i++)
        put(of, made[i % 2] + i / 2 * 2 * ((places + 1) / 2), places, channel, y + r + i, z + p);
    }
}
#endif

// How many bytes of the image `high` rows of `wide` places take.
static size_t room_for(const layer *of, size_t high, size_t wide) {
  return ((high - 1) * of->sh + (of->kh - 1) * of->dh + 1) * ((wide - 1) * of->sw + (of->kw - 1) * of->dw + 1) * 4 *
         of->c4;
}

// Rows `y` to `end` of the panels from `panel` to `panels`.
static void convolve(layer of, size_t panel, size_t panels, size_t y, size_t end) {
  uint8_t copied[ROOM + 4 * LANES] __attribute__((aligned(64)));  // the last vector may be read beyond
  size_t z = 0, edge = of.ow;
  // Of what a filter of one tap passes over nothing is copied.
  if (of.kh == 1 && of.kw == 1 && of.top == 0 && of.left == 0 && (of.x_c == 1 || of.x_w * of.sw <= 2) && (of.oh - 1) * of.sh < of.h && (of.ow - 1) * of.sw < of.width) {
    of.x_h *= of.sh, of.x_w *= of.sw, of.h = of.oh, of.width = of.ow, of.sh = of.sw = 1;
    // Rows end where the next ones begin: they are one.
    if (of.x_h == of.width * of.x_w && of.out_h == of.ow * of.out_w) {
      z = y * of.ow, edge = end * of.ow, y = 0, end = 1;
      of.width *= of.h, of.ow *= of.oh, of.h = of.oh = 1;
    }
  }
  size_t high = of.lines ? 1 : end - y, wide = edge - z;
  while (high > 1 && room_for(&of, high, wide) > ROOM) high = (high + 1) / 2;
  while (wide > 1 && room_for(&of, high, wide) > ROOM) wide = (wide + 1) / 2;
  for (; y < end; y += high)
    for (size_t q = z; q < edge; q += wide) {
      const size_t rows = least(high, end - y), places = least(wide, edge - q);
      piece at = {copied, (ptrdiff_t)(y * of.sh - of.top), (ptrdiff_t)(q * of.sw - of.left),
                  (rows - 1) * of.sh + (of.kh - 1) * of.dh + 1, (places - 1) * of.sw + (of.kw - 1) * of.dw + 1};
      copy(&of, &at);
#ifdef HAS_PAIRS
      if (pays_winograd(&of, rows, places)) {
        for (size_t p = panel; p < panels; p++) tiles_of(&of, &at, p, y, rows, q, places);
        continue;
      }
#endif
      for (size_t p = panel; p < panels; p++) panel_of(&of, &at, p, y, rows, q, places);
    }
}

static void byte_convolution(layer of, float x_scale, float w_scale, int32_t is_signed, size_t kd, size_t p, size_t y,
                             size_t workgroup_x) {
  of.scale = x_scale * w_scale, of.moved = moved(is_signed), of.flip = of.moved ? 0x80 : 0;
  if (kd > 1) of.lines = of.kh * of.dh, of.kh *= kd;
  const size_t panel = workgroup_x * PANELS;
#ifdef HAS_MATRICES_OF_BYTES
  of.has_matrices = of.dw == 1 && of.kw * of.c4 * 4 % MATRIX_BYTES == 0 && begin_matrices();
#endif
  convolve(of, panel, least(p, panel + PANELS), y, least(of.oh, y + HEIGHT));
#ifdef HAS_MATRICES_OF_BYTES
  if (of.has_matrices) end_matrices();
#endif
}

// An entry for each type of results: `to` is where a layer has these.
#define BYTE_CONVOLUTION(name, type, to, ...) \
  void name(const uint8_t *x, const int8_t *w, const int32_t *sums, const float *columns, const float *bias, \
            float x_scale, float w_scale, int32_t zero, int32_t is_signed, int32_t positive, float step, float middle, \
            int32_t is_out_signed, size_t sd, size_t sh, size_t sw, size_t dd, size_t dh, size_t dw, size_t front, size_t top, \
            size_t left, type *result, size_t n, size_t gc, size_t d, size_t h, size_t width, size_t g, size_t p, size_t kd, \
            size_t kh, size_t kw, size_t c4, size_t o, size_t od, size_t oh, size_t ow, size_t x_n, size_t x_c, size_t x_d, \
            size_t x_h, size_t x_w, size_t out_n, size_t out_g, size_t out_c, size_t out_d, size_t out_h, size_t out_w, \
            size_t workgroup_x, size_t workgroup_y, size_t workgroup_z) { \
    const size_t image = workgroup_z / od / g, group = workgroup_z / od % g, slice = workgroup_z % od, c = gc / g; \
    layer of = {.x = x + image * x_n + group * c * x_c, .w = w + group * p * PANEL * kd * kh * kw * 4 * c4, .sums = sums + group * o, \
                .columns = columns ? columns + group * o : 0, .bias = bias ? bias + group * o : 0, \
                .to = (__typeof__(((layer *)0)->to))(result + image * out_n + group * out_g + slice * out_d), __VA_ARGS__ \
                .by = rounding_by(step, middle, is_out_signed), .zero = zero, .positive = positive, .c = c, \
                .h = h, .width = width, .kh = kh, .kw = kw, .c4 = c4, .o = o, .oh = oh, .ow = ow, .sh = sh, .sw = sw, \
                .dh = dh, .dw = dw, .top = top, .left = left, .d = d, .dd = dd, .x_c = x_c, .x_d = x_d, .x_h = x_h, .x_w = x_w, \
                .out_c = out_c, .out_h = out_h, .out_w = out_w, .first = (ptrdiff_t)(slice * sd) - (ptrdiff_t)front}; \
    of.end = x + (n - 1) * x_n + (gc - 1) * x_c + (d - 1) * x_d + (h - 1) * x_h + (width - 1) * x_w + 1; \
    byte_convolution(of, x_scale, w_scale, is_signed, kd, p, workgroup_y * HEIGHT, workgroup_x); \
  }
BYTE_CONVOLUTION(opsplice_byte_convolution_f32, float, out, )
BYTE_CONVOLUTION(opsplice_byte_convolution_i8, uint8_t, bytes, )
BYTE_CONVOLUTION(opsplice_byte_convolution_i32, int32_t, out, .is_sum = 1, )
