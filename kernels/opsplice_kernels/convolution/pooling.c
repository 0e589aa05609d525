// Pooling of images and volumes, channels second, of any window, stride, dilation and padding: out[n, c, y, z] is the largest
// of, or the sum divided by `divisor` of, those x[n, c, sh y + dh i - top, sw z + dw j - left] that are in the image; NaN where
// one is. With `shares` each result is multiplied by the one of its place, such as more where a part of the window lies
// outside and does not count. A volume is likewise, an image has one slice.
//
// Rows are taken together first, then places of what came out, a few rows at a time: what was just stored is read later.
//
// Grid: (ceildiv(c, 4), n); a workgroup does 4 channels.
#include "../tile.h"

enum { CHANNELS = 4, SPAN = 512, LINES = 8, LENGTH = SPAN + 2 * LANES };
enum { SUM, LARGEST = 2 };

INLINE floats nothing(const int which) { return splat(which == SUM ? 0.0f : -__builtin_inff()); }

INLINE floats joined(const int which, floats a, floats b) {
  return which == SUM ? a + b : choose(b != b, b, larger(b, a));
}

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
                    const float *shares, float *out, size_t places) {
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
    store_up_to(out + p, best, places - p);
  }
}

typedef struct {
  size_t kh, kw, sh, sw, dh, dw, top, left, h, width, oh, ow;
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
        join(which, x + (above + from * step) * (ptrdiff_t)of->width, in, to - from, of->dh * of->width,
             (ptrdiff_t)(z * of->sw - of->left), (ptrdiff_t)of->width, (ptrdiff_t)((places - 1) * of->sw + window),
             lines + (y - start) * LENGTH);
      }
      for (size_t y = start; y < end; y++)
        windows(which, lines + (y - start) * LENGTH, of->kw, of->sw, of->dw, divisor,
                shares ? shares + y * of->ow + z : 0, out + y * of->ow + z, places);
    }
}

void opsplice_pooling_volume(const float *x, const float *shares, int32_t which, float divisor, size_t kd, size_t kh,
                             size_t kw, size_t sd, size_t sh, size_t sw, size_t dd, size_t dh, size_t dw, size_t front,
                             size_t top, size_t left, float *out, size_t n, size_t c, size_t d, size_t h, size_t width, size_t od,
                             size_t oh, size_t ow, size_t workgroup_x, size_t workgroup_y) {
  (void)n;
  const size_t start = workgroup_y * c + workgroup_x * CHANNELS, end = workgroup_y * c + least(c, (workgroup_x + 1) * CHANNELS);
  const shape of = {kh, kw, sh, sw, dh, dw, top, left, h, width, oh, ow};
  const ptrdiff_t slice = (ptrdiff_t)(h * width), step = (ptrdiff_t)dd;
  for (size_t at = start; at < end; at++)
    for (size_t t = 0; t < od; t++) {
      const ptrdiff_t first = (ptrdiff_t)(t * sd - front);
      ptrdiff_t from = 0, to = (ptrdiff_t)kd;
      while (from < to && first + from * step < 0) from++;
      while (from < to && first + (to - 1) * step >= (ptrdiff_t)d) to--;
      const depth in = {to - from, step * slice};
      const float *image = x + ((ptrdiff_t)(at * d) + first + from * step) * slice;
      const float *slices = shares ? shares + t * oh * ow : 0;
      float *made = out + (at * od + t) * oh * ow;
      if (which == SUM) pool(SUM, image, in, &of, divisor, slices, made);
      else pool(LARGEST, image, in, &of, divisor, 0, made);
    }
}

void opsplice_pooling(const float *x, const float *shares, int32_t which, float divisor, size_t kh, size_t kw, size_t sh,
                      size_t sw, size_t dh, size_t dw, size_t top, size_t left, float *out, size_t n, size_t c, size_t h,
                      size_t width, size_t oh, size_t ow, size_t workgroup_x, size_t workgroup_y) {
  opsplice_pooling_volume(x, shares, which, divisor, 1, kh, kw, 1, sh, sw, 1, dh, dw, 0, top, left, out, n, c, 1, h, width, 1, oh,
                          ow, workgroup_x, workgroup_y);
}
