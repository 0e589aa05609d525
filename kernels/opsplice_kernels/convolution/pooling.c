// Pooling of images and volumes, with channels second or last, of any window, stride, dilation and padding: out[n, c, y, z] is the largest
// of, or the sum divided by `divisor` of, those x[n, c, sh y + dh i - top, sw z + dw j - left] that are in the image; NaN where
// one is. With `shares` each result is multiplied by the one of its place, such as more where a part of the window lies
// outside and does not count. A volume is likewise, an image has one slice.
//
// Where channels lie side by side a vector is neighbouring channels (channels_last.h). Else rows are taken together first, then
// places of what came out, a few rows at a time: what was just stored is read later.
//
// Grid: (ceildiv(c, 4), n); a workgroup does 4 channels, or so large a part of the rows of all.
#include "../tile.h"
#include "channels_last.h"

enum { CHANNELS = 4, SPAN = 512, LINES = 8, LENGTH = SPAN + 2 * LANES };
INLINE floats nothing(const int which) { return splat(which == SUM ? 0.0f : -__builtin_inff()); }

// What of the windows lies in an image: so many slices, `apart` from each other.
typedef struct {
  ptrdiff_t slices, apart;
} depth;

// `span` elements of `rows` rows of each slice, from `first` on, come together in `line`.
INLINE void join(const int which, const float *x, depth in, ptrdiff_t rows, size_t step, ptrdiff_t first, ptrdiff_t width,
                 ptrdiff_t span, float *line) {
  for (ptrdiff_t at = 0; at < span; at += LANES) {
    const ptrdiff_t from = first + at;
    const lanes there = lanes_between(-from, width - from);
    floats best = nothing(which);
    if (from >= 0 && from + LANES <= width)
      for (ptrdiff_t a = 0; a < in.slices; a++)
        for (ptrdiff_t i = 0; i < rows; i++) best = joined(which, best, load(x + a * in.apart + i * (ptrdiff_t)step + from));
    else
      for (ptrdiff_t a = 0; a < in.slices; a++)
        for (ptrdiff_t i = 0; i < rows; i++)
          best = joined(which, best, load_lanes(x + a * in.apart + i * (ptrdiff_t)step + from, there, nothing(which)[0]));
    store(line + at, best);
  }
}

INLINE void windows(const int which, const float *line, size_t kw, size_t sw, size_t dw, float divisor,
                    const float *shares, float *out, size_t apart, size_t places) {
  for (size_t p = 0; p < places; p += LANES) {
    floats best = nothing(which);
    for (size_t j = 0; j < kw; j++) {
      const float *taps = line + p * sw + j * dw;
      floats value = best;
      if (sw == 1) value = load(taps);
      else if (sw == 2) value = every_other(load(taps), load(taps + LANES), 0);
      else
        for (size_t l = 0; l < LANES && p + l < places; l++) value[l] = taps[l * sw];
      best = joined(which, best, value);
    }
    if (which == SUM) best /= divisor;
    if (shares) best *= load_up_to(shares + p, places - p, 0.0f);
    if (apart == 1) store_up_to(out + p, best, places - p);
    else
      for (size_t l = 0; l < LANES && p + l < places; l++) out[(p + l) * apart] = best[l];
  }
}

typedef struct {
  size_t kh, kw, sh, sw, dh, dw, top, left, h, width, oh, ow, x_h, out_h, out_w;
} shape;

INLINE void pool(const int which, const float *x, depth in, const shape *of, float divisor, const float *shares,
                 float *out) {
  float lines[LINES * LENGTH] __attribute__((aligned(64)));
  const size_t window = (of->kw - 1) * of->dw + 1, most = window >= SPAN ? 1 : (SPAN - window) / of->sw + 1;
  for (size_t start = 0; start < of->oh; start += LINES)
    for (size_t z = 0, places; z < of->ow; z += places) {
      const size_t end = least(of->oh, start + LINES);
      places = least(most, of->ow - z);
      for (size_t y = start; y < end; y++) {
        ptrdiff_t from = 0, to = (ptrdiff_t)of->kh, above = (ptrdiff_t)(y * of->sh - of->top), step = (ptrdiff_t)of->dh;
        while (from < to && above + from * step < 0) from++;
        while (from < to && above + (to - 1) * step >= (ptrdiff_t)of->h) to--;
        join(which, x + (above + from * step) * (ptrdiff_t)of->x_h, in, to - from, of->dh * of->x_h,
             (ptrdiff_t)(z * of->sw - of->left), (ptrdiff_t)of->width, (ptrdiff_t)((places - 1) * of->sw + window),
             lines + (y - start) * LENGTH);
      }
      for (size_t y = start; y < end; y++)
        windows(which, lines + (y - start) * LENGTH, of->kw, of->sw, of->dw, divisor,
                shares ? shares + y * of->ow + z : 0, out + y * of->out_h + z * of->out_w, of->out_w, places);
    }
}

void opsplice_pooling(const float *x, const float *shares, int32_t which, float divisor, size_t kd, size_t kh,
                      size_t kw, size_t sd, size_t sh, size_t sw, size_t dd, size_t dh, size_t dw, size_t front,
                      size_t top, size_t left, float *out, size_t n, size_t c, size_t d, size_t h, size_t width, size_t od,
                      size_t oh, size_t ow, size_t x_n, size_t x_c, size_t x_d, size_t x_h, size_t x_w, size_t out_n,
                      size_t out_c, size_t out_d, size_t out_h, size_t out_w, size_t workgroup_x, size_t workgroup_y) {
  (void)n;
  x += workgroup_y * x_n, out += workgroup_y * out_n;
  const along dims[3] = {
    {(ptrdiff_t)d, (ptrdiff_t)kd, (ptrdiff_t)sd, (ptrdiff_t)dd, (ptrdiff_t)front, (ptrdiff_t)od, (ptrdiff_t)x_d, 0, (ptrdiff_t)out_d},
    {(ptrdiff_t)h, (ptrdiff_t)kh, (ptrdiff_t)sh, (ptrdiff_t)dh, (ptrdiff_t)top, (ptrdiff_t)oh, (ptrdiff_t)x_h, 0, (ptrdiff_t)out_h},
    {(ptrdiff_t)width, (ptrdiff_t)kw, (ptrdiff_t)sw, (ptrdiff_t)dw, (ptrdiff_t)left, (ptrdiff_t)ow, (ptrdiff_t)x_w, 0, (ptrdiff_t)out_w},
  };
  if (x_c == 1 && (c > 1 || x_w != 1)) {  // an open number of channels may be 1 of several that lie side by side
    const image_last image = {x, 0, 0, shares, out, divisor, 0, 0, (ptrdiff_t)out_c, {dims[0], dims[1], dims[2]}};
    const ptrdiff_t share = (ptrdiff_t)workgroup_x, all = (ptrdiff_t)(c + CHANNELS - 1) / CHANNELS;
    if (which == SUM) image_with_channels_last(SUM, &image, (ptrdiff_t)c, share, all);
    else image_with_channels_last(LARGEST, &image, (ptrdiff_t)c, share, all);
    return;
  }
  const shape of = {kh, kw, sh, sw, dh, dw, top, left, h, width, oh, ow, x_h, out_h, out_w};
  const size_t end = least(c, (workgroup_x + 1) * CHANNELS);
  for (size_t at = workgroup_x * CHANNELS; at < end; at++)
    for (size_t t = 0; t < od; t++) {
      const taps slices = taps_of(&dims[0], (ptrdiff_t)t);
      const depth in = {slices.to - slices.from, (ptrdiff_t)(dd * x_d)};
      const float *image = x + at * x_c + (slices.first + slices.from * (ptrdiff_t)dd) * (ptrdiff_t)x_d;
      const float *of_slice = shares ? shares + t * oh * ow : 0;
      float *made = out + at * out_c + t * out_d;
      if (which == SUM) pool(SUM, image, in, &of, divisor, of_slice, made);
      else pool(LARGEST, image, in, &of, divisor, 0, made);
    }
}
