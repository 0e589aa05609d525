// Filters of 3x3 with stride 1 by Winograd's products, as convolution/winograd.h has them for f32, here of integers: four places
// of the output, two by two, take 16 products of 16 bits for each channel in place of 36, whatever the weights are.
//
// G is doubled here, so that weights stay integers: sums are four times as large, and nothing is rounded. With up to MOST channels
// they fit 32 bits. A block is up to BLOCK_TILES tiles by a panel of channels. It takes the rows of Bt d B one after the other, and
// the channels in chunks of CHUNK words. Bytes of a word are two pairs, the even ones and the odd ones, as of_bytes has them.
#ifndef OPSPLICE_KERNELS_BYTE_WINOGRAD_H
#define OPSPLICE_KERNELS_BYTE_WINOGRAD_H

// IREE's workers have stacks of 128 KiB, of which the piece of the image takes half, and a block 44 KiB.
enum { BLOCK_TILES = LANES == 16 ? 14 : 28, CHUNK = LANES < 8 ? 8 : LANES, MOST = 1024 };

typedef int32_t pairs_of_inputs[4][BLOCK_TILES][2][CHUNK];
typedef ints pairs_of_weights[4][2][CHUNK][PANEL / LANES];

// Row i of Bt d B, of `words` words of channels: x is where the first tile begins in its piece.
static void inputs_of_row(const piece *of, size_t pixel, const uint8_t *x, size_t y, size_t z, size_t i, size_t words, size_t tiles_y,
                          size_t tiles_x, pairs_of_inputs to) {
  const size_t one = i == 0 ? 0 : i == 2 ? 2 : 1, other = i == 3 ? 3 : i == 2 ? 1 : 2, pitch = of->wide * pixel;
  const shorts sign = (int16_t)(i == 1 ? 1 : -1) - (shorts){0};
  for (size_t t = 0; t < tiles_y; t++) {
    // Of odd sizes what is behind the last place is computed from any bytes, and left out.
    const uint8_t *above = x + least(y + 2 * t + one, of->rows - 1) * pitch, *below = x + least(y + 2 * t + other, of->rows - 1) * pitch;
    for (size_t word = 0; word < words; word += LANES) {
      factors r[4];
      for (size_t k = 0; k < 2 * tiles_x + 2; k++) {
        const size_t at = least(z + k, of->wide - 1) * pixel + 4 * word;
        const factors a = of_bytes(load_whole(above + at)), b = of_bytes(load_whole(below + at));
        r[0] = r[1], r[1] = r[2], r[2] = r[3];
        r[3] = (factors){a.even + b.even * sign, a.odd + b.odd * sign};
        if (k < 3 || k % 2 == 0) continue;
        int32_t(*tile)[BLOCK_TILES][2][CHUNK] = (int32_t(*)[BLOCK_TILES][2][CHUNK])to[0][t * tiles_x + k / 2 - 1];
#define PUT_PAIRS(j, parity, value) *(ints_anywhere *)((int32_t *)tile[j] + (parity) * CHUNK + word) = (ints)(value)
        PUT_PAIRS(0, 0, r[0].even - r[2].even), PUT_PAIRS(0, 1, r[0].odd - r[2].odd);
        PUT_PAIRS(1, 0, r[1].even + r[2].even), PUT_PAIRS(1, 1, r[1].odd + r[2].odd);
        PUT_PAIRS(2, 0, r[2].even - r[1].even), PUT_PAIRS(2, 1, r[2].odd - r[1].odd);
        PUT_PAIRS(3, 0, r[1].even - r[3].even), PUT_PAIRS(3, 1, r[1].odd - r[3].odd);
      }
    }
  }
}

INLINE void transform_weights(const int i, const int8_t *w, size_t tap, size_t words, pairs_of_weights to) {
  for (size_t word = 0; word < words; word++, w += 4 * PANEL)
    UNROLL for (int v = 0; v < PANEL / LANES; v++) {
      factors g[3];
      UNROLL for (int j = 0; j < 3; j++) {
        const int8_t *at = w + (size_t)j * tap + 4 * v * LANES;
        const factors end = of_weights(load_whole(at + (i == 3 ? 6 * tap : 0)));
        g[j] = (factors){end.even + end.even, end.odd + end.odd};
        if (i == 0 || i == 3) continue;
        const factors middle = of_weights(load_whole(at + 3 * tap)), last = of_weights(load_whole(at + 6 * tap));
        const factors outer = {end.even + last.even, end.odd + last.odd};
        if (i == 1) g[j] = (factors){outer.even + middle.even, outer.odd + middle.odd};
        else g[j] = (factors){outer.even - middle.even, outer.odd - middle.odd};
      }
      const factors outer = {g[0].even + g[2].even, g[0].odd + g[2].odd};
      to[0][0][word][v] = (ints)(g[0].even + g[0].even), to[0][1][word][v] = (ints)(g[0].odd + g[0].odd);
      to[1][0][word][v] = (ints)(outer.even + g[1].even), to[1][1][word][v] = (ints)(outer.odd + g[1].odd);
      to[2][0][word][v] = (ints)(outer.even - g[1].even), to[2][1][word][v] = (ints)(outer.odd - g[1].odd);
      to[3][0][word][v] = (ints)(g[2].even + g[2].even), to[3][1][word][v] = (ints)(g[2].odd + g[2].odd);
    }
}

// Row i of 4 G g Gt.
static void weights_of_row(size_t i, const int8_t *w, size_t tap, size_t words, pairs_of_weights to) {
  switch (i) {
    case 0: transform_weights(0, w, tap, words, to); break;
    case 1: transform_weights(1, w, tap, words, to); break;
    case 2: transform_weights(2, w, tap, words, to); break;
    default: transform_weights(3, w, tap, words, to); break;
  }
}

// sums[p] += what `words` words of channels add to tile p in TILE columns; the first ones begin with zero.
INLINE void add_pairs(const int rows, ints (*sums)[PANEL / LANES], int32_t (*x)[2][CHUNK], ints (*w)[CHUNK][PANEL / LANES],
                      size_t words, int is_first) {
  ints kept[ROWS][VECTORS];
  UNROLL for (int p = 0; p < rows; p++) UNROLL for (int v = 0; v < VECTORS; v++) kept[p][v] = is_first ? (ints){0} : sums[p][v];
  for (size_t parity = 0; parity < 2; parity++)
    for (size_t i = 0; i < words; i++) {
      ints weights[VECTORS];
      UNROLL for (int v = 0; v < VECTORS; v++) weights[v] = w[parity][i][v];
      UNROLL for (int p = 0; p < rows; p++) {
        const ints two = x[p][parity][i] - (ints){0};
        UNROLL for (int v = 0; v < VECTORS; v++) kept[p][v] += pairs((shorts)two, (shorts)weights[v]);
        IN_ORDER;
      }
    }
  UNROLL for (int p = 0; p < rows; p++) UNROLL for (int v = 0; v < VECTORS; v++) sums[p][v] = kept[p][v];
}

// Row i of the products m becomes a part of the places of each tile: rows and places of tiles.
INLINE void add_row(const int i, ints (*m)[BLOCK_TILES][PANEL / LANES], size_t tiles, ints (*upper)[PANEL / LANES],
                    ints (*lower)[PANEL / LANES]) {
  for (size_t t = 0; t < tiles; t++)
    UNROLL for (int v = 0; v < PANEL / LANES; v++) {
      const ints inner = m[1][t][v], outer = m[2][t][v];
      const ints each[2] = {m[0][t][v] + inner + outer, inner - outer - m[3][t][v]};
      UNROLL for (int s = 0; s < 2; s++) {
        if (i < 3) upper[2 * t + s][v] = (i == 0 ? (ints){0} : upper[2 * t + s][v]) + each[s];
        if (i == 1) lower[2 * t + s][v] = each[s];
        else if (i > 1) lower[2 * t + s][v] -= each[s];
      }
    }
}

// `high` by `wide` places of the output in a piece, from its row y and place z on, of the panel whose weights are w: at most BLOCK_TILES
// tiles. made[r % 2][r / 2 * 2 * tiles in a row + p] is place p of row r.
static __attribute__((noinline)) void byte_winograd(const layer *of, const piece *at, const int8_t *w, const int32_t *start, size_t y,
                                                    size_t z, size_t high, size_t wide,
                                                    ints (*made)[2 * BLOCK_TILES + LANES][PANEL / LANES]) {
  pairs_of_inputs x __attribute__((aligned(64)));
  pairs_of_weights weights;
  ints m[4][BLOCK_TILES][PANEL / LANES];
  const size_t tiles_y = (high + 1) / 2, tiles_x = (wide + 1) / 2, tiles = tiles_y * tiles_x, pixel = 4 * of->c4;
  for (size_t i = 0; i < 4; i++) {
    for (size_t word = 0, words; word < of->c4; word += words) {
      words = least(CHUNK, of->c4 - word);
      inputs_of_row(at, pixel, at->bytes + 4 * word, y, z, i, words, tiles_y, tiles_x, x);
      weights_of_row(i, w + 4 * PANEL * word, pixel * PANEL, words, weights);
      for (size_t j = 0; j < 4; j++)
        for (size_t c = 0; c < PANEL / LANES; c += VECTORS)
          for (size_t t = 0, rows; t < tiles; t += rows) {
            rows = (tiles - t) / ((tiles - t + ROWS - 1) / ROWS);
#define ADD_PAIRS_OF(p) \
  add_pairs(p, (ints(*)[PANEL / LANES])(m[j][t] + c), x[j] + t, (ints(*)[CHUNK][PANEL / LANES])(weights[j][0][0] + c), words, word == 0)
            FOR_ROWS(rows, ADD_PAIRS_OF)
          }
    }
    switch (i) {
      case 0: add_row(0, m, tiles, made[0], made[1]); break;
      case 1: add_row(1, m, tiles, made[0], made[1]); break;
      case 2: add_row(2, m, tiles, made[0], made[1]); break;
      default: add_row(3, m, tiles, made[0], made[1]); break;
    }
  }
  for (size_t r = 0; r < 2; r++)
    for (size_t p = 0; p < 2 * tiles; p++)
      UNROLL for (int v = 0; v < PANEL / LANES; v++) made[r][p][v] = (made[r][p][v] >> 2) + load_whole(start + v * LANES);
}

// Whether the products that it saves are more than what it adds.
static int pays_winograd(const layer *of, size_t high, size_t wide) {
  return of->kh == 3 && of->kw == 3 && of->sh == 1 && of->sw == 1 && of->dh == 1 && of->dw == 1 && of->c >= 32 && of->c <= MOST &&
         high * wide >= 36;
}
#endif
