// Depthwise convolutions of any filter, stride, dilation and padding, with channels second or last:
//   out[n, c, y, z] = f(bias[c] + sum of x[n, c, sh y + dh i - top, sw z + dw j - left] * w[c, i, j]),
// where x is zero outside of the image. f is one of the activations of vector.h. bias may be null.
//
// Where channels lie side by side a vector is neighbouring channels (channels_last.h). Else each is a plane (planes.h). Where they
// lie side by side in the result alone, rows of some of them are computed one channel after the other, and transposed.
//
// Grid: (ceildiv(c, max(4, 16 * floordiv(256, oh * ow))), n); a workgroup does so many channels, or so large a part of the rows
// of all.
#include "planes.h"

// Places of a channel that are computed before they are transposed.
enum { TURNED = 392 };

// `channels` of the planes of a result whose channels lie side by side: rows y to `end` are computed as planes, and transposed.
static __attribute__((noinline)) void turned(const plane *first, const float *bias, size_t x_c, size_t w_c, size_t channels, ptrdiff_t y,
                                             ptrdiff_t end) {
  float kept[LANES][TURNED + LANES] __attribute__((aligned(64)));
  plane of = *first;
  of.top -= y * of.sh, of.oh = end - y, of.out_h = of.ow, of.out_w = 1;
  for (size_t c = 0; c < channels; c++, of.x += x_c, of.w += w_c) {
    of.out = kept[c], of.bias = bias ? bias[c] : 0.0f;
    convolve(&of);
  }
  for (ptrdiff_t row = y; row < end; row++)
    turn(kept[0] + (row - y) * of.ow, TURNED + LANES, of.ow, (ptrdiff_t)channels, first->out + row * first->out_h, first->out_w, 1);
}

// A function of its own: workers of IREE have stacks of 128 KiB, and this one's arrays are not to be under those of others.
static __attribute__((noinline)) void share(const image_last *image, ptrdiff_t c, ptrdiff_t number, ptrdiff_t shares) {
  image_with_channels_last(PRODUCTS, image, c, number, shares);
}

void opsplice_depthwise(const float *x, const float *w, const float *bias, size_t activation, size_t sh, size_t sw,
                        size_t dh, size_t dw, size_t top, size_t left, float *out, size_t n, size_t c, size_t d,
                        size_t h, size_t width, size_t g, size_t o, size_t of_each, size_t kd, size_t kh, size_t kw,
                        size_t od, size_t oh, size_t ow, size_t x_n, size_t x_c, size_t x_d, size_t x_h, size_t x_w,
                        size_t w_c, size_t w_o, size_t w_of_each, size_t w_d, size_t w_i, size_t w_j, size_t out_n,
                        size_t out_c, size_t out_o, size_t out_d, size_t out_h, size_t out_w, size_t workgroup_x,
                        size_t workgroup_y) {
  (void)n, (void)d, (void)g, (void)o, (void)of_each, (void)kd, (void)od, (void)x_d, (void)w_o, (void)w_of_each, (void)w_d;
  (void)out_o, (void)out_d;
  plane of = {x + workgroup_y * x_n, w, out + workgroup_y * out_n, 0.0f, activation,
              (ptrdiff_t)h, (ptrdiff_t)width, (ptrdiff_t)oh, (ptrdiff_t)ow, (ptrdiff_t)kh, (ptrdiff_t)kw,
              (ptrdiff_t)sh, (ptrdiff_t)sw, (ptrdiff_t)dh, (ptrdiff_t)dw, (ptrdiff_t)top, (ptrdiff_t)left,
              (ptrdiff_t)x_h, (ptrdiff_t)x_w, (ptrdiff_t)w_i, (ptrdiff_t)w_j, (ptrdiff_t)out_h, (ptrdiff_t)out_w};
  const size_t small = SMALL / (oh * ow ? oh * ow : 1), each = small ? small * 16 : CHANNELS;
  if (c > 1 && x_c == 1 && (w_c == 1 || kh * kw <= MOST_TAPS)) {
    const image_last image = {of.x, w, bias, 0, of.out, 1.0f, activation, (ptrdiff_t)w_c, (ptrdiff_t)out_c,
                              {{1, 1, 1, 1, 0, 1, 0, 0, 0},
                               {of.h, of.kh, of.sh, of.dh, of.top, of.oh, of.x_h, of.w_i, of.out_h},
                               {of.width, of.kw, of.sw, of.dw, of.left, of.ow, of.x_w, of.w_j, of.out_w}}};
    share(&image, (ptrdiff_t)c, (ptrdiff_t)workgroup_x, (ptrdiff_t)((c + each - 1) / each));
    return;
  }
  if (width == 1 && ow == 1 && kw == 1 && left == 0) {  // a column, which is a row
    of.h = of.oh = of.kh = of.sh = of.dh = 1, of.top = 0;
    of.width = (ptrdiff_t)h, of.ow = (ptrdiff_t)oh, of.kw = (ptrdiff_t)kh, of.sw = (ptrdiff_t)sh, of.dw = (ptrdiff_t)dh;
    of.left = (ptrdiff_t)top, of.x_w = of.x_h, of.w_j = of.w_i, of.out_w = of.out_h;
  }
  if (c > 1 && out_c == 1 && of.x_w == 1 && of.out_w != 1 && of.ow <= TURNED) {
    const ptrdiff_t most = TURNED / of.ow, high = most >= MOST_ROWS ? most / MOST_ROWS * MOST_ROWS : most;
    const size_t strips = (size_t)((of.oh + high - 1) / high), groups = (c + LANES - 1) / LANES;
    for (size_t i = workgroup_x; i < strips * groups; i += (c + each - 1) / each) {
      const size_t at = i / strips * LANES;
      const ptrdiff_t y = (ptrdiff_t)(i % strips) * high;
      plane part = of;
      part.x += at * x_c, part.w += at * w_c, part.out += at;
      turned(&part, bias ? bias + at : 0, x_c, w_c, least(LANES, c - at), y, y + high < of.oh ? y + high : of.oh);
    }
    return;
  }
  const size_t at = workgroup_x * each;
  of.x += at * x_c, of.w += at * w_c, of.out += at * out_c;
  convolve_planes(of, bias ? bias + at : 0, x_c, w_c, out_c, least(c - at, each));
}
