// Rows of a table by their numbers. A number behind the last row is that row, one before the first is the first; where
// `from_end` says so, negative ones count from the end. Where `zeros` says so, there are zeros in place of both.
//
// Grid: (ceildiv(m, 16)); a workgroup copies 16 rows, of elements that are as wide as its name says.
#include "../vector.h"

// As many bytes as a vector, however they lie.
typedef uint8_t bytes __attribute__((vector_size(4 * LANES), aligned(1), may_alias));

INLINE void copy_row(uint8_t *to, const uint8_t *from, size_t count) {
  size_t i = 0;
  for (; i + sizeof(bytes) <= count; i += sizeof(bytes)) *(bytes *)(to + i) = *(const bytes *)(from + i);
  for (; i < count; i++) to[i] = from[i];
}

INLINE size_t row_of(int64_t id, int32_t from_end, size_t v) {
  if (from_end && id < 0) id += (int64_t)v;
  return id < 0 ? 0 : id < (int64_t)v ? (size_t)id : v - 1;
}

// The numbers are narrow or wide, and the other pointer is null.
INLINE void rows(const uint8_t *w, const int32_t *narrow, const int64_t *wide, int32_t from_end, int32_t zeros, uint8_t *out,
                 size_t v, size_t size, size_t m, size_t part) {
  for (size_t i = part * 16, end = least(m, i + 16); i < end; i++) {
    const int64_t id = narrow ? narrow[i] : wide[i];
    if (zeros && (id < 0 || id >= (int64_t)v)) __builtin_memset(out + i * size, 0, size);
    else copy_row(out + i * size, w + row_of(id, from_end, v) * size, size);
  }
}

#define GIVEN(index) \
  const void *w, const index *ids, int32_t from_end, int32_t zeros, void *out, size_t v, size_t n, size_t m, size_t part

void opsplice_embedding_f32_i32(GIVEN(int32_t)) { rows(w, ids, 0, from_end, zeros, out, v, n * 4, m, part); }
void opsplice_embedding_f32_i64(GIVEN(int64_t)) { rows(w, 0, ids, from_end, zeros, out, v, n * 4, m, part); }
void opsplice_embedding_f16_i32(GIVEN(int32_t)) { rows(w, ids, 0, from_end, zeros, out, v, n * 2, m, part); }
void opsplice_embedding_f16_i64(GIVEN(int64_t)) { rows(w, 0, ids, from_end, zeros, out, v, n * 2, m, part); }
void opsplice_embedding_bf16_i32(GIVEN(int32_t)) { rows(w, ids, 0, from_end, zeros, out, v, n * 2, m, part); }
void opsplice_embedding_bf16_i64(GIVEN(int64_t)) { rows(w, 0, ids, from_end, zeros, out, v, n * 2, m, part); }
