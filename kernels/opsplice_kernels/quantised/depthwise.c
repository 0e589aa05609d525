// Depthwise convolutions of bytes that stand for numbers, with any filter, stride, dilation and padding:
//   out[n, c, y, z] = scale * columns[c] * (the sum of (x[n, c, sh y + dh i - top, sw z + dw j - left] - zero) * w[c, i, j]) + bias[c],
// where x is `zero` outside of the image. columns and bias may be null. With `positive` what is below 0 is 0. Or the same as bytes
// again; or the sums themselves.
//
// Bytes become floats, a strip of a plane after the other or some small planes at once, which are convolved as floats are (planes.h):
// sums of up to MOST_BYTES products of bytes are whole numbers that floats have.
//
// Grid: (ceildiv(c, max(4, 16 * floordiv(256, oh * ow))), n); a workgroup does so many channels.
#include "../byte_tile.h"
#include "../convolution/planes.h"

// Floats of the image and of results that are there at once, and taps of a filter: 512 * 255 * 128 is less than 2 to the 24.
enum { ROOM = 6144, RESULTS = 3136, MOST_BYTES = 512 };

typedef struct {
  float scale;
  const float *columns, *bias;
  int32_t zero, is_signed, positive;
  rounding by;
} meaning;

// x - zero of `count` bytes that are `step` apart.
static void centre(const uint8_t *x, size_t step, size_t count, const meaning *of, float *to) {
  size_t i = 0;
  if (step == 1) for (; i + LANES <= count; i += LANES)
    store(to + i, __builtin_convertvector(integers_of(x + i, LANES, of->is_signed) - of->zero, floats));
  ROLLED for (; i < count; i++) to[i] = (float)((of->is_signed ? (int8_t)x[i * step] : x[i * step]) - of->zero);
}

// Of channel `c`, `count` sums to places that are `step` apart: as floats, as bytes or as they are, whichever there is.
static void put_sums(const meaning *of, size_t c, const float *sums, size_t count, size_t step, float *out, uint8_t *bytes,
                     int32_t *whole) {
  const floats scale = splat(of->scale * (of->columns ? of->columns[c] : 1.0f)), bias = splat(of->bias ? of->bias[c] : 0.0f);
  for (size_t i = 0; i < count; i += LANES) {
    const size_t some = least(LANES, count - i);
    const floats sum = load_up_to(sums + i, some, 0.0f);
    floats value = sum * scale + bias;
    if (of->positive) value = larger(value, splat(0.0f));
    if (bytes && step == 1) store_as_bytes(bytes + i, value, of->by, some);
    else if (bytes) {
      const ints each = as_bytes(value, of->by);
      for (size_t l = 0; l < some; l++) bytes[(i + l) * step] = (uint8_t)each[l];
    } else if (whole) for (size_t l = 0; l < some; l++) whole[(i + l) * step] = (int32_t)sum[l];
    else if (step == 1) store_up_to(out + i, value, some);
    else for (size_t l = 0; l < some; l++) out[(i + l) * step] = value[l];
  }
}

typedef struct {
  const uint8_t *x;
  const int8_t *w;
  meaning as;
  float *out;
  uint8_t *bytes;
  int32_t *whole;
  size_t x_c, x_h, x_w, out_c, out_h, out_w, h, width, kh, kw, oh, ow, sh, sw, dh, dw, top, left;
} layer;

// Channels `c` to c + `channels`, rows `y` to y + `rows` of the result.
static __attribute__((noinline)) void strip(const layer *by, size_t c, size_t channels, size_t y, size_t rows) {
  float image[ROOM + LANES] __attribute__((aligned(64))), sums[RESULTS + LANES] __attribute__((aligned(64)));
  float filter[LANES * MOST_SIZE * MOST_SIZE + MOST_BYTES] __attribute__((aligned(64)));
  const size_t taps = by->kh * by->kw, end = (y + rows - 1) * by->sh + (by->kh - 1) * by->dh + 1;
  const size_t first = least(y * by->sh > by->top ? y * by->sh - by->top : 0, by->h), last = least(end > by->top ? end - by->top : 0, by->h);
  const size_t lines = last > first ? last - first : 0, apart = lines * by->width;
  for (size_t i = 0; i < channels; i++) {
    const uint8_t *from = by->x + (c + i) * by->x_c + first * by->x_h;
    if (by->x_w == 1 && by->x_h == by->width) centre(from, 1, apart, &by->as, image + i * apart);
    else for (size_t l = 0; l < lines; l++)
      centre(from + l * by->x_h, by->x_w, by->width, &by->as, image + i * apart + l * by->width);
    for (size_t t = 0; t < taps; t++) filter[i * taps + t] = (float)by->w[(c + i) * taps + t];
  }
  const plane of = {.x = image, .w = filter, .out = sums, .activation = NOTHING, .h = (ptrdiff_t)lines, .width = (ptrdiff_t)by->width,
                    .oh = (ptrdiff_t)rows, .ow = (ptrdiff_t)by->ow, .kh = (ptrdiff_t)by->kh, .kw = (ptrdiff_t)by->kw,
                    .sh = (ptrdiff_t)by->sh, .sw = (ptrdiff_t)by->sw, .dh = (ptrdiff_t)by->dh, .dw = (ptrdiff_t)by->dw,
                    .top = (ptrdiff_t)(by->top + first) - (ptrdiff_t)(y * by->sh), .left = (ptrdiff_t)by->left,
                    .x_h = (ptrdiff_t)by->width, .x_w = 1, .w_i = (ptrdiff_t)by->kw, .w_j = 1, .out_h = (ptrdiff_t)by->ow, .out_w = 1};
  convolve_planes(of, 0, apart, taps, rows * by->ow, channels);
  const int is_row = by->out_h == by->ow * by->out_w;
  const size_t parts = is_row ? 1 : rows, count = rows * by->ow / parts;
  for (size_t i = 0; i < channels; i++)
    for (size_t r = 0; r < parts; r++) {
      const size_t at = (c + i) * by->out_c + (y + r) * by->out_h;
      put_sums(&by->as, c + i, sums + i * rows * by->ow + r * by->ow, count, by->out_w, by->out ? by->out + at : 0,
               by->bytes ? by->bytes + at : 0, by->whole ? by->whole + at : 0);
    }
}

// Channels `c` to `end`: as many whole planes at once as there is room for, or a plane in strips.
static void planes_of(const layer *by, size_t c, size_t end) {
  const size_t image = by->h * by->width, result = by->oh * by->ow, window = (by->kh - 1) * by->dh + 1;
  if (result == 0) return;
  const size_t is_small = by->kh <= MOST_SIZE && by->kw <= MOST_SIZE;
  const size_t some = least(is_small ? LANES : 1, least(image ? ROOM / image : LANES, RESULTS / result));
  const size_t lines = by->width ? ROOM / by->width : window, fitting = lines > window ? (lines - window) / by->sh + 1 : 1;
  const size_t most = some ? by->oh : least(fitting, RESULTS / by->ow), strips = (by->oh + most - 1) / most;
  for (size_t channels; c < end; c += channels) {
    channels = least(some ? some : 1, end - c);
    for (size_t s = 0, y = 0, next; s < strips; s++, y = next) {
      next = (s + 1) * by->oh / strips;
      strip(by, c, channels, y, next - y);
    }
  }
}

// An entry for each type of results: `to` is where a layer has these.
#define BYTE_DEPTHWISE(name, type, to) \
  void name(const uint8_t *x, const int8_t *w, const float *columns, const float *bias, float x_scale, float w_scale, int32_t zero, \
            int32_t is_signed, int32_t positive, float step, float middle, int32_t is_out_signed, size_t sh, size_t sw, size_t dh, \
            size_t dw, size_t top, size_t left, type *result, size_t n, size_t c, size_t d, size_t h, size_t width, size_t g, size_t o, \
            size_t of_each, size_t kd, size_t kh, size_t kw, size_t od, size_t oh, size_t ow, size_t x_n, size_t x_c, size_t x_d, \
            size_t x_h, size_t x_w, size_t out_n, size_t out_c, size_t out_o, size_t out_d, size_t out_h, size_t out_w, \
            size_t workgroup_x, size_t workgroup_y) { \
    (void)n, (void)d, (void)g, (void)o, (void)of_each, (void)kd, (void)od, (void)x_d, (void)out_o, (void)out_d; \
    const layer by = {.x = x + workgroup_y * x_n, .w = w, .to = result + workgroup_y * out_n, \
                      .as = {x_scale * w_scale, columns, bias, zero, is_signed, positive, rounding_by(step, middle, is_out_signed)}, \
                      .x_c = x_c, .x_h = x_h, .x_w = x_w, .out_c = out_c, .out_h = out_h, .out_w = out_w, .h = h, .width = width, \
                      .kh = kh, .kw = kw, .oh = oh, .ow = ow, .sh = sh, .sw = sw, .dh = dh, .dw = dw, .top = top, .left = left}; \
    const size_t small = SMALL / (oh * ow ? oh * ow : 1), each = small ? small * 16 : CHANNELS; \
    planes_of(&by, workgroup_x * each, least(c, (workgroup_x + 1) * each)); \
  }
BYTE_DEPTHWISE(opsplice_byte_depthwise_f32, float, out)
BYTE_DEPTHWISE(opsplice_byte_depthwise_i8, uint8_t, bytes)
BYTE_DEPTHWISE(opsplice_byte_depthwise_i32, int32_t, whole)
