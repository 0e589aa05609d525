// Convolutions of any filter, stride, dilation and layout, of an input that is padded already:
//   out[n, o, y, z] = clamp(bias[o] + rest[n, o, y, z] + sum of x[n, c, sh y + dh i, sw z + dw j] * w[o, c, i, j]),
// with w as [o / 32][c][kh][kw][32], the last panel filled up with zeros. bias and rest may be null.
//
// A tile is up to ROWS places of the output, of one row or of two short ones, by VECTORS vectors of channels: inputs are
// broadcast, so that a stride is only an address. Where places lie next to each other in memory the sums are transposed.
//
// Grid: (p, ceildiv(oh, 8), n); a workgroup does a panel of 32 channels by 8 rows.
#include "../tile.h"

enum { HEIGHT = 8, PLACES = (ROWS + LANES - 1) / LANES * LANES };

typedef struct {
  const float *x, *w, *bias, *rest;
  float *out, lo, hi;
  size_t c, kh, kw, columns;      // columns: channels of this panel
  size_t x_c, x_i, x_j, x_y, x_z;  // steps of the input by dilation and by stride
  size_t rest_c, rest_y, rest_z, out_c, out_y, out_z;
} layer;

INLINE floats clamped(const layer *of, floats value) {
  return smaller(splat(of->hi), larger(splat(of->lo), value));
}

// Sums of places, TILE channels each, to the output: `wide` places of each of a few rows.
static void put(const layer *of, float sums[PLACES][TILE], size_t places, size_t wide, size_t y, size_t z,
                size_t channel) {
  const float *rest = of->rest ? of->rest + y * of->rest_y + z * of->rest_z : 0;
  float *out = of->out + y * of->out_y + z * of->out_z;
  if (of->out_c == 1 && (!rest || of->rest_c == 1)) {
    for (size_t p = 0; p < places; p++)
      for (size_t v = 0; v < TILE && channel + v < of->columns; v += LANES) {
        size_t y = p / wide, z = p % wide, c = channel + v, count = of->columns - c;
        floats value = load(sums[p] + v);
        if (rest) value += load_up_to(rest + y * of->rest_y + z * of->rest_z + c, count, 0.0f);
        store_up_to(out + y * of->out_y + z * of->out_z + c, clamped(of, value), count);
      }
    return;
  }
  int is_row = places == wide && of->out_z == 1 && (!rest || of->rest_z == 1);
  for (size_t v = 0; v < TILE && channel + v < of->columns; v += LANES)
    for (size_t start = 0; start < places; start += LANES) {
      floats turned[LANES];
      UNROLL for (int i = 0; i < LANES; i++) turned[i] = load(sums[start + i] + v);
      transpose(turned);
      float kept[LANES][LANES] __attribute__((aligned(64)));
      UNROLL for (int l = 0; l < LANES; l++) store(kept[l], turned[l]);
      size_t count = least(LANES, places - start), lanes = least(LANES, of->columns - channel - v);
      for (size_t l = 0; l < lanes; l++) {
        const float *more = rest ? rest + (channel + v + l) * of->rest_c : 0;
        float *to = out + (channel + v + l) * of->out_c;
        if (is_row) {
          floats value = load(kept[l]);
          if (rest) value += load_up_to(more + start, count, 0.0f);
          store_up_to(to + start, clamped(of, value), count);
          continue;
        }
        for (size_t i = 0; i < count; i++) {
          size_t y = (start + i) / wide, z = (start + i) % wide;
          float value = kept[l][i] + (rest ? more[y * of->rest_y + z * of->rest_z] : 0.0f);
          to[y * of->out_y + z * of->out_z] = clamped(of, splat(value))[0];
        }
      }
    }
}

INLINE void tile(const layer *of, const int high, const int wide, size_t y, size_t z, size_t channel) {
  const int places = high * wide;
  floats sums[ROWS][VECTORS];
  UNROLL for (int v = 0; v < VECTORS; v++) {
    size_t c = channel + v * LANES;
    floats start = of->bias && c < of->columns ? load_up_to(of->bias + c, of->columns - c, 0.0f) : splat(0.0f);
    UNROLL for (int p = 0; p < places; p++) sums[p][v] = start;
  }
  const float *plane = of->x + y * of->x_y + z * of->x_z, *w = of->w + channel;
  const size_t x_y = of->x_y, x_z = of->x_z;
  for (size_t c = 0; c < of->c; c++, plane += of->x_c)
    for (size_t i = 0; i < of->kh; i++) {
      const float *x = plane + i * of->x_i;
      for (size_t j = 0; j < of->kw; j++, x += of->x_j, w += PANEL) {
        floats weights[VECTORS];
        UNROLL for (int v = 0; v < VECTORS; v++) weights[v] = load(w + v * LANES);
        UNROLL for (int p = 0; p < places; p++) {
          float value = x[(size_t)(p / wide) * x_y + (size_t)(p % wide) * x_z];
          UNROLL for (int v = 0; v < VECTORS; v++) sums[p][v] += weights[v] * value;
        }
      }
    }
  float kept[PLACES][TILE] __attribute__((aligned(64)));
  UNROLL for (int p = 0; p < places; p++) UNROLL for (int v = 0; v < VECTORS; v++)
    store(kept[p] + v * LANES, sums[p][v]);
  put(of, kept, places, wide, y, z, channel);
}

static void row(const layer *of, size_t y, size_t z, size_t end, size_t channel) {
  for (size_t left = end - z; left > 0;) {
    size_t places = left / ((left + ROWS - 1) / ROWS);
#define ROW_TILE(p) tile(of, 1, p, y, z, channel)
    FOR_ROWS(places, ROW_TILE)
    z += places, left -= places;
  }
}

void opsplice_convolution(const float *x, const float *w, const float *bias, const float *rest, float lo, float hi,
                          size_t sh, size_t sw, size_t dh, size_t dw, float *out, size_t n, size_t c, size_t h,
                          size_t width, size_t p, size_t kh, size_t kw, size_t o, size_t oh, size_t ow, size_t x_n,
                          size_t x_c, size_t x_h, size_t x_w, size_t rest_n, size_t rest_c, size_t rest_h,
                          size_t rest_w, size_t out_n, size_t out_c, size_t out_h, size_t out_w, size_t workgroup_x,
                          size_t workgroup_y, size_t workgroup_z) {
  (void)n, (void)h, (void)width, (void)p;
  size_t first = workgroup_x * PANEL, y = workgroup_y * HEIGHT, end = least(oh, y + HEIGHT);
  layer of = {
      x + workgroup_z * x_n,
      w + workgroup_x * c * kh * kw * PANEL,
      bias ? bias + first : 0,
      rest ? rest + workgroup_z * rest_n + first * rest_c : 0,
      out + workgroup_z * out_n + first * out_c,
      lo, hi, c, kh, kw, least(PANEL, o - first),
      x_c, dh * x_h, dw * x_w, sh * x_h, sw * x_w,
      rest_c, rest_h, rest_w, out_c, out_h, out_w,
  };
  int is_flat = of.x_y == ow * of.x_z && out_h == ow * out_w && (!rest || rest_h == ow * rest_w);
  for (size_t channel = 0; channel < of.columns; channel += TILE) {
    if (is_flat) {  // rows end where the next ones begin, as in a 1x1 convolution
      row(&of, 0, y * ow, end * ow, channel);
      continue;
    }
    size_t at = y;
#if LANES == 16
    if (ow == 7)
      for (; at + 2 <= end; at += 2) tile(&of, 2, 7, at, 0, channel);
#endif
    for (; at < end; at++) row(&of, at, 0, ow, channel);
  }
}
