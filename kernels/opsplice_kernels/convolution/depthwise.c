// Depthwise convolutions in NCHW, of 3x3 and 5x5 with stride 1 and 2, of an input that is padded already:
//   out[n, c, y, z] = clamp(bias[c] + sum of x[n, c, s y + i, s z + j] * w[c, i, j]). bias may be null.
//
// A vector is neighbouring places of a row, and four rows are done at once, which share what they read. Where rows or places
// do not come out even the last ones are done again.
//
// Grid: (ceildiv(c, 4), n); a workgroup does 4 channels.
#include "../tile.h"

enum { CHANNELS = 4, HIGH = 4 };

typedef struct {
  const float *x, *w;
  float *out, bias, lo, hi;
  size_t width, oh, ow;
} plane;

#if LANES == 16
#define EVERY_OTHER(a, b, at) \
  __builtin_shufflevector(a, b, at, at + 2, at + 4, at + 6, at + 8, at + 10, at + 12, at + 14, at + 16, at + 18, \
                          at + 20, at + 22, at + 24, at + 26, at + 28, at + 30)
#elif LANES == 8
#define EVERY_OTHER(a, b, at) \
  __builtin_shufflevector(a, b, at, at + 2, at + 4, at + 6, at + 8, at + 10, at + 12, at + 14)
#else
#define EVERY_OTHER(a, b, at) __builtin_shufflevector(a, b, at, at + 2, at + 4, at + 6)
#endif

// x[j], x[j + stride] ... for `count` places; nothing behind the last of them is read but for j = 0 and stride 2, where the
// next tap reads one more.
INLINE floats taps(const int stride, const int j, const float *x, const int is_whole, size_t count) {
  if (stride == 1) return is_whole ? load(x + j) : load_some(x + j, count, 0.0f);
  const float *from = j ? x + j - 1 : x;
  size_t most = 2 * count;
  floats low = is_whole ? load(from) : load_up_to(from, most, 0.0f);
  floats high = is_whole ? load(from + LANES)
                         : most > LANES ? load_some(from + LANES, most - LANES, 0.0f) : splat(0.0f);
  return j ? EVERY_OTHER(low, high, 1) : EVERY_OTHER(low, high, 0);
}

INLINE void places(const plane *of, const int rows, const int size, const int stride, const int is_whole, size_t y,
                   size_t z, size_t count) {
  const float *x = of->x + y * stride * of->width + z * stride;
  floats sums[HIGH];
  UNROLL for (int r = 0; r < rows; r++) sums[r] = splat(of->bias);
  UNROLL for (int i = 0; i < (rows - 1) * stride + size; i++) UNROLL for (int j = 0; j < size; j++) {
    floats value = taps(stride, j, x + i * of->width, is_whole, count);
    UNROLL for (int r = 0; r < rows; r++) {
      const int tap = i - r * stride;
      if (tap >= 0 && tap < size) sums[r] += value * of->w[tap * size + j];
    }
  }
  UNROLL for (int r = 0; r < rows; r++) {
    floats value = smaller(splat(of->hi), larger(splat(of->lo), sums[r]));
    float *to = of->out + (y + r) * of->ow + z;
    if (is_whole) store(to, value);
    else store_some(to, value, count);
  }
}

INLINE void rows_of(const plane *of, const int rows, const int size, const int stride, size_t y) {
  if (of->ow < LANES) {
    places(of, rows, size, stride, 0, y, 0, of->ow);
    return;
  }
  for (size_t z = 0; z < of->ow; z += LANES)
    places(of, rows, size, stride, 1, y, z + LANES <= of->ow ? z : of->ow - LANES, LANES);
}

INLINE void all(const plane *of, const int size, const int stride) {
  if (of->oh < HIGH)
    for (size_t y = 0; y < of->oh; y++) rows_of(of, 1, size, stride, y);
  else
    for (size_t y = 0; y < of->oh; y += HIGH)
      rows_of(of, HIGH, size, stride, y + HIGH <= of->oh ? y : of->oh - HIGH);
}

void opsplice_depthwise(const float *x, const float *w, const float *bias, float lo, float hi, size_t stride,
                        float *out, size_t n, size_t c, size_t h, size_t width, size_t size, size_t wide, size_t oh,
                        size_t ow, size_t workgroup_x, size_t workgroup_y) {
  (void)n, (void)wide;
  size_t end = least(c, (workgroup_x + 1) * CHANNELS);
  for (size_t at = workgroup_x * CHANNELS; at < end; at++) {
    size_t image = workgroup_y * c + at;
    plane of = {x + image * h * width, w + at * size * size, out + image * oh * ow, bias ? bias[at] : 0.0f, lo, hi,
                width, oh, ow};
    if (size == 3 && stride == 1) all(&of, 3, 1);
    else if (size == 3) all(&of, 3, 2);
    else if (stride == 1) all(&of, 5, 1);
    else all(&of, 5, 2);
  }
}
