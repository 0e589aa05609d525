// A block of 64 x 64 of the result. Columns of b are taken a few at a time and laid out densely first; then a few rows of a
// at a time meet them, with sums that fit into registers. Any sizes: what is cut off is filled with zeros.
#include <stddef.h>

// 12 registers of 8 numbers for the sums; with AVX-512, 4 x 64 is faster.
#ifndef ROWS
#define ROWS 6
#define COLUMNS 16
#endif
enum { BLOCK = 64, DEPTH = 256 };

static inline void panel(const float *restrict a, size_t lda, const float *restrict packed, size_t depth,
                         float *restrict out, size_t ldo, size_t rows, size_t columns, int first) {
  float sums[ROWS][COLUMNS] = {{0}};
  const float *row[ROWS];
  for (int i = 0; i < ROWS; ++i) row[i] = a + (i < rows ? i : rows - 1) * lda;
  for (size_t p = 0; p < depth; ++p)
#pragma clang loop unroll(full)
    for (int i = 0; i < ROWS; ++i) {
      float x = row[i][p];
#pragma clang loop vectorize(enable)
      for (int j = 0; j < COLUMNS; ++j) sums[i][j] += x * packed[p * COLUMNS + j];
    }
#pragma clang loop unroll(full)
  for (int i = 0; i < ROWS; ++i) {
    if (i >= rows) continue;
    if (columns == COLUMNS)
      for (int j = 0; j < COLUMNS; ++j) out[i * ldo + j] = sums[i][j] + (first ? 0 : out[i * ldo + j]);
    else
      for (int j = 0; j < COLUMNS; ++j)
        if (j < columns) out[i * ldo + j] = sums[i][j] + (first ? 0 : out[i * ldo + j]);
  }
}

void matmul(const float *restrict a, const float *restrict b, float *restrict out, size_t m, size_t k, size_t n,
            size_t block_column, size_t block_row) {
  float packed[DEPTH * COLUMNS];
  size_t top = block_row * BLOCK, bottom = top + BLOCK < m ? top + BLOCK : m;
  size_t left = block_column * BLOCK, right = left + BLOCK < n ? left + BLOCK : n;
  for (size_t start = 0; start < k || start == 0; start += DEPTH) {
    size_t depth = k - start < DEPTH ? k - start : DEPTH;
    for (size_t j = left; j < right; j += COLUMNS) {
      size_t columns = right - j < COLUMNS ? right - j : COLUMNS;
      for (size_t p = 0; p < depth; ++p)
        for (size_t c = 0; c < COLUMNS; ++c) packed[p * COLUMNS + c] = c < columns ? b[(start + p) * n + j + c] : 0;
      for (size_t i = top; i < bottom; i += ROWS)
        panel(a + i * k + start, k, packed, depth, out + i * n + j, n, bottom - i < ROWS ? bottom - i : ROWS, columns,
              start == 0);
    }
  }
}
