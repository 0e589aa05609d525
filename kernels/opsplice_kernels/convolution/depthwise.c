// Depthwise convolutions in NCHW of any filter, stride, dilation and padding:
//   out[n, c, y, z] = f(bias[c] + sum of x[n, c, sh y + dh i - top, sw z + dw j - left] * w[c, i, j]),
// where x is zero outside of the image: zeros are multiplied, too, so that a filter with infinities or NaN gives what it
// should. f is one of the activations of vector.h. bias may be null.
//
// A vector is neighbouring places of a row. Filters of 3x3, 5x5 and 7x7 with stride 1 and 2 do four rows at once, which
// share what they read. Where rows or places do not come out even the last ones are done again. Images of at most half a
// vector, as wide as the output, are read as one row: what a tap reads beyond an edge is masked.
//
// Grid: (ceildiv(c, 4), n); a workgroup does 4 channels.
#include "../tile.h"
#include "../vector_math.h"

enum { CHANNELS = 4, HIGH = 4, SIZES = 7 };

typedef struct {
  const float *x, *w;
  float *out, bias;
  size_t activation;
  ptrdiff_t h, width, oh, ow, kh, kw, sh, sw, dh, dw, top, left;
} plane;

// The sums of places z ... of row y.
INLINE void put(const plane *of, floats sums, ptrdiff_t y, ptrdiff_t z) {
  store_up_to(of->out + y * of->ow + z, activated(of->activation, sums), (size_t)(of->ow - z));
}

// Where the elements of two vectors that begin at `at` of a row are inside of it.
typedef struct {
  lanes low, high;
} inside;

// x[0], x[stride] ... Taps 2k and 2k + 1 with stride 2 share their loads. there: null where all is inside.
INLINE floats every(const int stride, const int is_odd, const float *x, const inside *there) {
  floats low = there ? load_lanes(x, there->low, 0.0f) : load(x);
  if (stride == 1) return low;
  floats high = there ? load_lanes(x + LANES, there->high, 0.0f) : load(x + LANES);
  return every_other(low, high, is_odd);
}

INLINE void places(const plane *of, const int rows, const int size, const int stride, const int is_inside, ptrdiff_t y,
                   ptrdiff_t z) {
  const ptrdiff_t above = y * stride - of->top, first = z * stride - of->left;
  floats sums[HIGH];
  inside there[SIZES];
  if (!is_inside) UNROLL for (int j = 0; j < size; j++) {
    const ptrdiff_t at = first + (stride == 1 ? j : j & ~1);
    there[j].low = lanes_between(-at, of->width - at);
    there[j].high = lanes_between(-at - LANES, of->width - at - LANES);
  }
  UNROLL for (int r = 0; r < rows; r++) sums[r] = splat(of->bias);
  UNROLL for (int i = 0; i < (rows - 1) * stride + size; i++) {
    ptrdiff_t line = above + i;
    const int is_row = line >= 0 && line < of->h;
    const float *x = of->x + line * of->width + first;
    UNROLL for (int j = 0; j < size; j++) {
      floats value = !is_row ? splat(0.0f) : every(stride, j & 1, x + (stride == 1 ? j : j & ~1), is_inside ? 0 : &there[j]);
      UNROLL for (int r = 0; r < rows; r++) {
        const int tap = i - r * stride;
        if (tap >= 0 && tap < size) sums[r] += value * of->w[tap * size + j];
      }
    }
  }
  UNROLL for (int r = 0; r < rows; r++) put(of, sums[r], y + r, z);
}

INLINE void rows_of(const plane *of, const int rows, const int size, const int stride, ptrdiff_t y) {
  for (ptrdiff_t at = 0; at < of->ow; at += LANES) {
    ptrdiff_t z = at + LANES <= of->ow || of->ow < LANES ? at : of->ow - LANES, first = z * stride - of->left;
    if (first >= 0 && first + stride * LANES + size <= of->width) places(of, rows, size, stride, 1, y, z);
    else places(of, rows, size, stride, 0, y, z);
  }
}

INLINE void all(const plane *of, const int size, const int stride) {
  if (of->oh < HIGH)
    for (ptrdiff_t y = 0; y < of->oh; y++) rows_of(of, 1, size, stride, y);
  else
    for (ptrdiff_t y = 0; y < of->oh; y += HIGH)
      rows_of(of, HIGH, size, stride, y + HIGH <= of->oh ? y : of->oh - HIGH);
}

// Images of at most half a vector, with stride 1: of `channels` from `of` on.
INLINE void narrow(const plane *of, const float *bias, ptrdiff_t channels, const int size) {
  const ptrdiff_t total = of->oh * of->ow;
  for (ptrdiff_t start = 0; start < total; start += LANES) {
    const ptrdiff_t p = total < LANES || start + LANES <= total ? start : total - LANES;
    ints z, y = (int32_t)(p / of->ow) - (ints){0};
    UNROLL for (int l = 0; l < LANES; l++) z[l] = (int32_t)(p % of->ow) + l;
    for (ptrdiff_t row = 0; row < LANES; row += of->ow) {
      const ints beyond = z >= (int32_t)of->ow;
      z -= beyond & (int32_t)of->ow, y -= beyond;
    }
    lanes rows[SIZES], columns[SIZES];
    UNROLL for (int i = 0; i < size; i++) {
      const ints line = y + (int32_t)(i - of->top), at = z + (int32_t)(i - of->left);
      rows[i] = lanes_where((line >= 0) & (line < (int32_t)of->h));
      columns[i] = lanes_where((at >= 0) & (at < (int32_t)of->width));
    }
    const float *x = of->x + p - of->top * of->width - of->left, *w = of->w;
    float *out = of->out + p;
    for (ptrdiff_t c = 0; c < channels; c++, x += of->h * of->width, w += size * size, out += total) {
      floats sums = splat(bias ? bias[c] : 0.0f);
      UNROLL for (int i = 0; i < size; i++) UNROLL for (int j = 0; j < size; j++)
        sums += load_lanes(x + i * of->width + j, rows[i] & columns[j], 0.0f) * w[i * size + j];
      store_up_to(out, activated(of->activation, sums), (size_t)(total - p));
    }
  }
}

// `vectors` of places from z on, of any filter, with any stride and dilation.
INLINE void any_places(const plane *of, const int vectors, const int is_inside, ptrdiff_t y, ptrdiff_t z) {
  floats sums[HIGH];
  UNROLL for (int v = 0; v < vectors; v++) sums[v] = splat(of->bias);
  for (ptrdiff_t j = 0; j < of->kw; j++) {
    const ptrdiff_t first = z * of->sw - of->left + j * of->dw;
    lanes there[HIGH];
    if (!is_inside) UNROLL for (int v = 0; v < vectors; v++)
      there[v] = lanes_between(-first - v * LANES, of->width - first - v * LANES);
    for (ptrdiff_t i = 0; i < of->kh; i++) {
      const ptrdiff_t line = y * of->sh - of->top + i * of->dh;
      const int is_row = line >= 0 && line < of->h;
      const float *row = of->x + line * of->width;
      const float weight = of->w[i * of->kw + j];
      UNROLL for (int v = 0; v < vectors; v++) {
        const float *from = row + first + v * LANES;
        floats value = splat(0.0f);
        if (!is_row) value = splat(0.0f);
        else if (is_inside) value = load(from);
        else if (of->sw == 1) value = load_lanes(from, there[v], 0.0f);
        else
          for (ptrdiff_t l = 0; l < LANES; l++) {
            const ptrdiff_t at = first + l * of->sw;
            if (at >= 0 && at < of->width) value[l] = row[at];
          }
        sums[v] += value * weight;
      }
    }
  }
  UNROLL for (int v = 0; v < vectors; v++) put(of, sums[v], y, z + v * LANES);
}

static void any(const plane *of) {
  for (ptrdiff_t y = 0; y < of->oh; y++)
    for (ptrdiff_t z = 0, vectors; z < of->ow; z += vectors * LANES) {
      vectors = of->sw > 1 ? 1 : (ptrdiff_t)least(HIGH, (size_t)(of->ow - z + LANES - 1) / LANES);
      const ptrdiff_t end = z - of->left + (of->kw - 1) * of->dw + vectors * LANES;
      const int is_inside = of->sw == 1 && z >= of->left && end <= of->width;
#define ANY(vectors) is_inside ? any_places(of, vectors, 1, y, z) : any_places(of, vectors, 0, y, z)
      if (vectors == 1) ANY(1);
      else if (vectors == 2) ANY(2);
      else if (vectors == 3) ANY(3);
      else ANY(4);
    }
}

#define BY_SIZE(CALL) \
  if (of.kh == 3) CALL(3); \
  else if (of.kh == 5) CALL(5); \
  else CALL(7)
#define BY_1(size) all(&of, size, 1)
#define BY_2(size) all(&of, size, 2)
#define NARROW(size) narrow(&of, bias ? bias + at : 0, (ptrdiff_t)(end - at), size)

void opsplice_depthwise(const float *x, const float *w, const float *bias, size_t activation, size_t sh, size_t sw,
                        size_t dh, size_t dw, size_t top, size_t left, float *out, size_t n, size_t c, size_t h,
                        size_t width, size_t kh, size_t kw, size_t oh, size_t ow, size_t workgroup_x,
                        size_t workgroup_y) {
  (void)n;
  const size_t end = least(c, (workgroup_x + 1) * CHANNELS);
  const int is_known = kh == kw && (kh == 3 || kh == 5 || kh == 7) && sh == sw && sh <= 2 && dh == 1 && dw == 1;
  for (size_t at = workgroup_x * CHANNELS; at < end; at++) {
    const size_t image = workgroup_y * c + at;
    plane of = {x + image * h * width, w + at * kh * kw, out + image * oh * ow, bias ? bias[at] : 0.0f, activation,
                (ptrdiff_t)h, (ptrdiff_t)width, (ptrdiff_t)oh, (ptrdiff_t)ow, (ptrdiff_t)kh, (ptrdiff_t)kw,
                (ptrdiff_t)sh, (ptrdiff_t)sw, (ptrdiff_t)dh, (ptrdiff_t)dw, (ptrdiff_t)top, (ptrdiff_t)left};
    if (width == 1 && ow == 1 && kw == 1 && left == 0) {  // a column, which is a row
      of.h = of.oh = of.kh = of.sh = of.dh = 1, of.top = 0;
      of.width = (ptrdiff_t)h, of.ow = (ptrdiff_t)oh, of.kw = (ptrdiff_t)kh, of.sw = (ptrdiff_t)sh, of.dw = (ptrdiff_t)dh;
      of.left = (ptrdiff_t)top;
    }
    if (is_known && sh == 1 && 2 * ow <= LANES && ow == width) {
      BY_SIZE(NARROW);
      return;
    }
    if (!is_known) any(&of);
    else if (sh == 1) { BY_SIZE(BY_1); }
    else { BY_SIZE(BY_2); }
  }
}
