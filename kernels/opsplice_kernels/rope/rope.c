// Rotary embeddings: each pair of numbers turned by the angle of its place, first * cos - second * sin and
// second * cos + first * sin. The numbers of a pair lie h apart, as in llama, or side by side, as in GPT-J.
// f16 and bf16 are widened as they are read.
//
// Grid: (b); a workgroup does the m places of one head.
#include "../halves.h"

// Where a place and the second of each pair are, and how far numbers of a row are from each other.
typedef struct {
  size_t m, p, h;
} strides;

// As where they are, one number at a time.
INLINE void turn(const int kind, const void *x, const void *cos, const void *sin, void *out, size_t m, size_t h,
                 strides of_x, strides of_cos, strides of_sin, strides of_out) {
  for (size_t i = 0; i < m; i++)
    for (size_t j = 0; j < h; j++) {
      const size_t at = i * of_x.m + j * of_x.h, c = i * of_cos.m + j * of_cos.h, s = i * of_sin.m + j * of_sin.h;
      const size_t to = i * of_out.m + j * of_out.h;
      float first = number(kind, x, at), second = number(kind, x, at + of_x.p);
      set_number(kind, out, to, first * number(kind, cos, c) - second * number(kind, sin, s));
      set_number(kind, out, to + of_out.p,
                 second * number(kind, cos, c + of_cos.p) + first * number(kind, sin, s + of_sin.p));
    }
}

// The same where the numbers of each half lie one behind another.
INLINE void turn_halves(const int kind, const void *x, const void *cos, const void *sin, void *out, size_t m, size_t h,
                        strides of_x, strides of_cos, strides of_sin, strides of_out) {
  for (size_t i = 0; i < m; i++)
    for (size_t j = 0; j < h; j += LANES) {
#define PART(name, half) load_numbers(kind, name, i * of_##name.m + half * of_##name.p + j, h - j, 0.0f)
      const floats first = PART(x, 0), second = PART(x, 1);
      const floats turned = first * PART(cos, 0) - second * PART(sin, 0);
      const floats other = second * PART(cos, 1) + first * PART(sin, 1);
      store_numbers(kind, out, i * of_out.m + j, turned, h - j);
      store_numbers(kind, out, i * of_out.m + of_out.p + j, other, h - j);
    }
}

INLINE strides other_way(strides s) { return (strides){s.h, s.p, s.m}; }

// Places and pairs change parts where a match has them so: numbers that lie closest together are the inner ones.
INLINE void rope(const int kind, const void *restrict x, const void *restrict cos, const void *restrict sin,
                 void *restrict out, size_t m, size_t h, strides of_x, strides of_cos, strides of_sin, strides of_out) {
  if (m > 1 && of_x.m < of_x.h) {
    const size_t places = h;
    h = m, m = places;
    of_x = other_way(of_x), of_cos = other_way(of_cos), of_sin = other_way(of_sin), of_out = other_way(of_out);
  }
  if (of_x.h == 1 && of_cos.h == 1 && of_sin.h == 1 && of_out.h == 1)
    turn_halves(kind, x, cos, sin, out, m, h, of_x, of_cos, of_sin, of_out);
  else if (of_x.h == 2 && of_out.h == 2 && of_cos.h == 2 && of_sin.h == 2 && of_x.p == 1 && of_out.p == 1 &&
           of_cos.p == of_sin.p && of_cos.p <= 1) {
    const strides from = {of_x.m, 1, 2}, to = {of_out.m, 1, 2};
#define ONE_FOR(p) turn(kind, x, cos, sin, out, m, h, from, (strides){of_cos.m, p, 2}, (strides){of_sin.m, p, 2}, to)
    if (of_cos.p) ONE_FOR(1);
    else ONE_FOR(0);
  }
  else turn(kind, x, cos, sin, out, m, h, of_x, of_cos, of_sin, of_out);
}

#define X \
  const void *x, const void *cos, const void *sin, void *out, size_t b, size_t m, size_t p, size_t h, size_t x_m, \
      size_t x_p, size_t x_h
#define OUT size_t out_m, size_t out_p, size_t out_h, size_t head
#define TURNED(kind, cos_p, sin_p) \
  (void)b, (void)p, (void)head, \
      rope(kind, x, cos, sin, out, m, h, (strides){x_m, x_p, x_h}, (strides){cos_m, cos_p, cos_h}, \
           (strides){sin_m, sin_p, sin_h}, (strides){out_m, out_p, out_h})

#define EACH X, size_t cos_m, size_t cos_p, size_t cos_h, size_t sin_m, size_t sin_p, size_t sin_h, OUT
void opsplice_rope_f32(EACH) { TURNED(F32, cos_p, sin_p); }
void opsplice_rope_f16(EACH) { TURNED(F16, cos_p, sin_p); }
void opsplice_rope_bf16(EACH) { TURNED(BF16, cos_p, sin_p); }

// With one cosine and one sine for both of a pair.
#define ONE X, size_t cos_m, size_t cos_h, size_t sin_m, size_t sin_h, OUT
void opsplice_rope_by_halves_f32(ONE) { TURNED(F32, 0, 0); }
void opsplice_rope_by_halves_f16(ONE) { TURNED(F16, 0, 0); }
void opsplice_rope_by_halves_bf16(ONE) { TURNED(BF16, 0, 0); }
