// Rotary embeddings: each pair of numbers turned by the angle of its place, first * cos - second * sin and
// second * cos + first * sin. The numbers of a pair lie h apart, as in llama, or side by side, as in GPT-J.
//
// Grid: (b); a workgroup does the m places of one head.
#include "../vector.h"

// Where a place and the second of each pair are, and how far numbers of a row are from each other.
typedef struct {
  size_t m, p, h;
} strides;

INLINE void turn(const float *x, const float *cos, const float *sin, float *out, size_t m, size_t h, strides of_x,
                 strides of_cos, strides of_sin, strides of_out) {
  for (size_t i = 0; i < m; i++)
    for (size_t j = 0; j < h; j++) {
      const float *c = cos + i * of_cos.m + j * of_cos.h, *s = sin + i * of_sin.m + j * of_sin.h;
      float first = x[i * of_x.m + j * of_x.h], second = x[i * of_x.m + of_x.p + j * of_x.h];
      out[i * of_out.m + j * of_out.h] = first * c[0] - second * s[0];
      out[i * of_out.m + of_out.p + j * of_out.h] = second * c[of_cos.p] + first * s[of_sin.p];
    }
}

// The same for one place where the numbers of each half lie one behind another.
INLINE void turn_halves(const float *first, const float *second, const float *cos, const float *cos2, const float *sin,
                        const float *sin2, float *out, float *out2, size_t h) {
  size_t j = 0;
  for (; j + LANES <= h; j += LANES) {
    floats a = load(first + j), b = load(second + j);
    store(out + j, a * load(cos + j) - b * load(sin + j));
    store(out2 + j, b * load(cos2 + j) + a * load(sin2 + j));
  }
  for (; j < h; j++) {
    float a = first[j], b = second[j];
    out[j] = a * cos[j] - b * sin[j];
    out2[j] = b * cos2[j] + a * sin2[j];
  }
}

void opsplice_rope(const float *restrict x, const float *restrict cos, const float *restrict sin, float *restrict out,
                   size_t b, size_t m, size_t p, size_t h, size_t x_m, size_t x_p, size_t x_h, size_t cos_m,
                   size_t cos_p, size_t cos_h, size_t sin_m, size_t sin_p, size_t sin_h, size_t out_m, size_t out_p,
                   size_t out_h, size_t head) {
  (void)b, (void)p, (void)head;
  if (x_h == 1 && cos_h == 1 && sin_h == 1 && out_h == 1)
    for (size_t i = 0; i < m; i++)
      turn_halves(x + i * x_m, x + i * x_m + x_p, cos + i * cos_m, cos + i * cos_m + cos_p, sin + i * sin_m,
                  sin + i * sin_m + sin_p, out + i * out_m, out + i * out_m + out_p, h);
  else if (x_h == 2 && out_h == 2 && cos_h == 2 && sin_h == 2 && x_p == 1 && out_p == 1 && cos_p == 1 && sin_p == 1)
    turn(x, cos, sin, out, m, h, (strides){x_m, 1, 2}, (strides){cos_m, 1, 2}, (strides){sin_m, 1, 2},
         (strides){out_m, 1, 2});
  else
    turn(x, cos, sin, out, m, h, (strides){x_m, x_p, x_h}, (strides){cos_m, cos_p, cos_h},
         (strides){sin_m, sin_p, sin_h}, (strides){out_m, out_p, out_h});
}

// With one cosine and one sine for both of a pair.
void opsplice_rope_by_halves(const float *restrict x, const float *restrict cos, const float *restrict sin,
                             float *restrict out, size_t b, size_t m, size_t p, size_t h, size_t x_m, size_t x_p,
                             size_t x_h, size_t cos_m, size_t cos_h, size_t sin_m, size_t sin_h, size_t out_m,
                             size_t out_p, size_t out_h, size_t head) {
  opsplice_rope(x, cos, sin, out, b, m, p, h, x_m, x_p, x_h, cos_m, 0, cos_h, sin_m, 0, sin_h, out_m, out_p, out_h,
                head);
}
