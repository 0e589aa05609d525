// Images resized linearly: result[b, i, j] is r[j] * row[left[j]] + s[j] * row[right[j]], of the numbers
// row[k] = p[i] * x[b, above[i], k] + q[i] * x[b, below[i], k]. A place outside of the image is the nearest one inside.
//
// Grid: (ceildiv(b * i, 16)); a workgroup computes 16 rows of the results, `AT_ONCE` columns of all of them and then the
// next. It keeps the part of a row that these columns are made of, if they are no further apart than `WIDEST`.
#include "../vector.h"

enum { ROWS = 16, AT_ONCE = 256, WIDEST = 2048 };

// Columns of the results: the first number of a row that they are made of, how many from there on, and how far behind it
// the two of each are.
typedef struct {
  int32_t left[AT_ONCE], right[AT_ONCE];
  size_t first, width;
} columns;

INLINE size_t place(const int32_t *narrow, const int64_t *wide, size_t i, size_t size) {
  const int64_t at = narrow ? narrow[i] : wide[i];
  return at < 0 ? 0 : at < (int64_t)size ? (size_t)at : size - 1;
}

INLINE void find(columns *of, const int32_t *left, const int32_t *right, const int64_t *left_wide,
                 const int64_t *right_wide, size_t w, size_t start, size_t count) {
  size_t first = w, last = 0;
  for (size_t c = 0; c < count; c++) {
    const size_t one = place(left, left_wide, start + c, w), other = place(right, right_wide, start + c, w);
    of->left[c] = (int32_t)one, of->right[c] = (int32_t)other;
    first = least(first, least(one, other));
    last = one > last ? one : last;
    last = other > last ? other : last;
  }
  for (size_t c = 0; c < count; c++) of->left[c] -= (int32_t)first, of->right[c] -= (int32_t)first;
  of->first = first;
  of->width = last - first + 1;
}

// Numbers of a row between two rows.
INLINE void between(float *row, const float *one, const float *other, float p, float q, size_t count) {
  size_t k = 0;
  for (; k + LANES <= count; k += LANES) store(row + k, p * load(one + k) + q * load(other + k));
  for (; k < count; k++) row[k] = p * one[k] + q * other[k];
}

// The places are narrow or wide, and the other pointers are null.
INLINE void bilinear(const float *x, const int32_t *above, const int32_t *below, const int32_t *left,
                     const int32_t *right, const int64_t *above_wide, const int64_t *below_wide,
                     const int64_t *left_wide, const int64_t *right_wide, const float *p, const float *q,
                     const float *r, const float *s, float *out, size_t b, size_t h, size_t w, size_t i, size_t j,
                     size_t part) {
  const size_t end = least(b * i, (part + 1) * ROWS);
  if (h == 0 || w == 0) return;  // there is no number to take
  columns of;
  float row[WIDEST];
  for (size_t start = 0; start < j; start += AT_ONCE) {
    const size_t count = least(AT_ONCE, j - start);
    find(&of, left, right, left_wide, right_wide, w, start, count);
    for (size_t n = part * ROWS; n < end; n++) {
      const float *image = x + n / i * h * w + of.first;
      const float *one = image + place(above, above_wide, n % i, h) * w;
      const float *other = image + place(below, below_wide, n % i, h) * w;
      const float up = p[n % i], down = q[n % i];
      const float *before = r + start, *behind = s + start;
      float *to = out + n * j + start;
      if (of.width <= WIDEST) {
        between(row, one, other, up, down, of.width);
        for (size_t c = 0; c < count; c++) to[c] = before[c] * row[of.left[c]] + behind[c] * row[of.right[c]];
      } else {
        for (size_t c = 0; c < count; c++)
          to[c] = before[c] * (up * one[of.left[c]] + down * other[of.left[c]]) +
                  behind[c] * (up * one[of.right[c]] + down * other[of.right[c]]);
      }
    }
  }
}

#define GIVEN(index)                                                                                                   \
  const float *x, const index *above, const index *below, const float *p, const float *q, const index *left,          \
      const index *right, const float *r, const float *s, float *out, size_t b, size_t h, size_t w, size_t i, size_t j, \
      size_t part

void opsplice_bilinear_i32(GIVEN(int32_t)) {
  bilinear(x, above, below, left, right, 0, 0, 0, 0, p, q, r, s, out, b, h, w, i, j, part);
}
void opsplice_bilinear_i64(GIVEN(int64_t)) {
  bilinear(x, 0, 0, 0, 0, above, below, left, right, p, q, r, s, out, b, h, w, i, j, part);
}
