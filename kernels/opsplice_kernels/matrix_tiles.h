// Products in the matrix registers of AMX: 32 rows by a panel of 32 columns, with 64 bytes of each row at a step.
//
// Linux gives these registers to processes that ask for them, and ends those that use them without. The call is made in
// each workgroup: it takes 0.1 us where the answer is known, and holds for whatever process runs the program.
#ifndef OPSPLICE_KERNELS_MATRIX_TILES_H
#define OPSPLICE_KERNELS_MATRIX_TILES_H
#if defined(__AMX_INT8__) || defined(__AMXINT8__)
#define HAS_MATRICES_OF_BYTES
#endif
#if defined(__AMX_BF16__) || defined(__AMXBF16__)
#define HAS_MATRICES_OF_BF16
#endif
#if defined(HAS_MATRICES_OF_BYTES) || defined(HAS_MATRICES_OF_BF16)

#include "tile.h"

enum { MATRIX_ROWS = 16, MATRIX_BYTES = 64 };
enum { U8_BY_S8, S8_BY_S8, BF16_BY_BF16 };

typedef struct {
  uint8_t palette, start_row, reserved[14];
  uint16_t row_bytes[16];
  uint8_t rows[16];
} matrix_shapes;

// Whether this process may use the registers from here on, which end with end_matrices.
static inline int begin_matrices(void) {
  enum { ARCH_PRCTL = 158, REQUEST_PERMISSION = 0x1023, TILE_DATA = 18 };
  long refused;
  __asm__ volatile("syscall"
                   : "=a"(refused)
                   : "a"((long)ARCH_PRCTL), "D"((long)REQUEST_PERMISSION), "S"((long)TILE_DATA)
                   : "rcx", "r11", "memory");
  if (refused) return 0;
  matrix_shapes shapes = {.palette = 1};
  for (int i = 0; i < 8; i++) shapes.row_bytes[i] = MATRIX_BYTES, shapes.rows[i] = MATRIX_ROWS;
  _tile_loadconfig(&shapes);
  return 1;
}

static inline void end_matrices(void) { _tile_release(); }

// sums[i * PANEL + c] = start[c] + the products of `bytes` of x's row i, from `first` on for i < 16 and from `second` on for
// the others, with w, as [bytes / 4][PANEL][4 bytes]; in `runs`, each of which is `apart` bytes behind the one before in x,
// and next to it in w. Words of sums and start are i32 or f32, as `kind` says.
INLINE void multiply_matrices(const int kind, const void *first, const void *second, size_t row_bytes, const void *w,
                              size_t bytes, size_t runs, size_t apart, const void *start, void *sums) {
  const char *above = first, *below = second, *weights = w;
  _tile_loadd(0, start, 0);
  _tile_loadd(1, (const char *)start + MATRIX_BYTES, 0);
  _tile_loadd(2, start, 0);
  _tile_loadd(3, (const char *)start + MATRIX_BYTES, 0);
#define MATRIX_STEPS(multiply) \
  for (size_t run = 0; run < runs; run++, above += apart, below += apart) \
  for (size_t i = 0; i < bytes; i += MATRIX_BYTES, weights += MATRIX_ROWS * 4 * PANEL) { \
    _tile_loadd(4, above + i, row_bytes); \
    _tile_loadd(6, weights, 4 * PANEL); \
    _tile_loadd(7, weights + MATRIX_BYTES, 4 * PANEL); \
    multiply(0, 4, 6); \
    multiply(1, 4, 7); \
    _tile_loadd(5, below + i, row_bytes); \
    multiply(2, 5, 6); \
    multiply(3, 5, 7); \
  }
#ifdef HAS_MATRICES_OF_BYTES
  if (kind == U8_BY_S8) MATRIX_STEPS(_tile_dpbusd)
  if (kind == S8_BY_S8) MATRIX_STEPS(_tile_dpbssd)
#endif
#ifdef HAS_MATRICES_OF_BF16
  if (kind == BF16_BY_BF16) MATRIX_STEPS(_tile_dpbf16ps)
#endif
  char *to = sums;
  _tile_stored(0, to, 4 * PANEL);
  _tile_stored(1, to + MATRIX_BYTES, 4 * PANEL);
  _tile_stored(2, to + MATRIX_ROWS * 4 * PANEL, 4 * PANEL);
  _tile_stored(3, to + MATRIX_ROWS * 4 * PANEL + MATRIX_BYTES, 4 * PANEL);
}
#endif
#endif
