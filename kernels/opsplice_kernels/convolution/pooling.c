// Max pooling in NCHW of any window, stride, dilation and padding:
//   out[n, c, y, z] = the largest x[n, c, sh y + dh i - top, sw z + dw j - left] of those in the image; NaN where one is.
//
// Rows are taken together first, then places of what came out.
//
// Grid: (ceildiv(c, 4), n); a workgroup does 4 channels.
#include "../tile.h"

enum { CHANNELS = 4, SPAN = 512 };

INLINE floats largest(floats a, floats b) { return choose(b != b, b, larger(b, a)); }

// `count` places: of `rows` rows, the largest elements from `first` on go to `line`.
static void join(const float *x, ptrdiff_t rows, size_t step, ptrdiff_t first, ptrdiff_t width, ptrdiff_t span,
                 float *line) {
  for (ptrdiff_t at = 0; at < span; at += LANES) {
    const ptrdiff_t from = first + at;
    const lanes there = lanes_between(-from, width - from);
    floats best = splat(-__builtin_inff());
    for (ptrdiff_t i = 0; i < rows; i++)
      best = largest(best, load_lanes(x + i * (ptrdiff_t)step + from, there, -__builtin_inff()));
    store(line + at, best);
  }
}

void opsplice_max_pooling(const float *x, size_t kh, size_t kw, size_t sh, size_t sw, size_t dh, size_t dw, size_t top,
                          size_t left, float *out, size_t n, size_t c, size_t h, size_t width, size_t oh, size_t ow,
                          size_t workgroup_x, size_t workgroup_y) {
  (void)n;
  float line[SPAN + 2 * LANES] __attribute__((aligned(64)));
  const size_t end = least(c, (workgroup_x + 1) * CHANNELS), window = (kw - 1) * dw + 1;
  const size_t most = window >= SPAN ? 1 : (SPAN - window) / sw + 1;
  for (size_t at = workgroup_y * c + workgroup_x * CHANNELS; at < workgroup_y * c + end; at++)
    for (size_t y = 0; y < oh; y++) {
      ptrdiff_t from = 0, to = (ptrdiff_t)kh, above = (ptrdiff_t)(y * sh - top);
      while (from < to && above + from * (ptrdiff_t)dh < 0) from++;
      while (from < to && above + (to - 1) * (ptrdiff_t)dh >= (ptrdiff_t)h) to--;
      const float *image = x + at * h * width + (above + from * (ptrdiff_t)dh) * (ptrdiff_t)width;
      for (size_t z = 0, places; z < ow; z += places) {
        places = least(most, ow - z);
        const size_t span = (places - 1) * sw + window;
        float *to_z = out + (at * oh + y) * ow + z;
        join(image, to - from, dh * width, (ptrdiff_t)(z * sw - left), (ptrdiff_t)width, (ptrdiff_t)span, line);
        for (size_t p = 0; p < places; p += LANES) {
          floats best = splat(-__builtin_inff());
          for (size_t j = 0; j < kw; j++) {
            const float *taps = line + p * sw + j * dw;
            floats value = best;
            if (sw == 1) value = load(taps);
            else if (sw == 2) value = every_other(load(taps), load(taps + LANES), 0);
            else
              for (size_t l = 0; l < LANES && p + l < places; l++) value[l] = taps[l * sw];
            best = largest(best, value);
          }
          store_up_to(to_z + p, best, places - p);
        }
      }
    }
}
