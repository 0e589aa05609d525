// Many rows of bytes by a panel of weights without dot(): bytes become numbers of 16 bits once, before they are multiplied.
// AVX2 also adds two products of bytes in 16 bits, in three quarters of the instructions. That is exact where two weights side by
// side have a sum from -128 to 128, as 255 times that fits. Four such weights of each column of a tile are a small word. A part of
// k is multiplied by small words first, by others then.
#ifndef OPSPLICE_KERNELS_BYTE_PAIRS_H
#define OPSPLICE_KERNELS_BYTE_PAIRS_H
#ifdef HAS_PAIRS

// Words of a part of k, and as many rows as pay for their preparation.
enum { DEPTH = 64, MANY_ROWS = 8, TILES = PANEL / TILE };

// A part's weights of a tile: where its small words are, and its other words with their weights, of even and odd bytes.
typedef struct {
  size_t small, large;
  uint8_t small_at[DEPTH], large_at[DEPTH];
  ints weights[DEPTH][2][VECTORS];
} split_words;

// A part of some rows: bytes, even ones and odd ones. What is behind DEPTH may be written, too.
typedef int32_t split_row[3][DEPTH + LANES];

#if LANES >= 8
INLINE shorts small_pairs(ints bytes, ints weights) {
#if LANES == 16
  return (shorts)_mm512_maddubs_epi16((__m512i)bytes, (__m512i)weights);
#else
  return (shorts)_mm256_maddubs_epi16((__m256i)bytes, (__m256i)weights);
#endif
}
INLINE int is_small(const int8_t *w) {
  shorts over = {0};
  UNROLL for (int v = 0; v < VECTORS; v++) {
    const shorts sum = small_pairs(0x01010101 - (ints){0}, load_whole(w + 4 * v * LANES));
    over |= (sum > 128) | (sum < -128);
  }
  return !any_lane((ints)over != 0);
}
INLINE ints small_dot(ints sum, ints bytes, ints weights, shorts ones) { return sum + pairs(small_pairs(bytes, weights), ones); }
// Ones that stay in a register: as a constant they are read from memory for each product.
INLINE shorts ones_at_hand(void) {
  shorts ones = (shorts){0} + 1;
  __asm__("" : "+v"(ones));
  return ones;
}
#else
INLINE int is_small(const int8_t *w) { return (void)w, 0; }
INLINE ints small_dot(ints sum, ints bytes, ints weights, shorts ones) { return (void)bytes, (void)weights, (void)ones, sum; }
INLINE shorts ones_at_hand(void) { return (shorts){0}; }
#endif

static void split_weights(split_words *to, const int8_t *w, size_t words) {
  to->small = to->large = 0;
  for (size_t i = 0; i < words; i++, w += 4 * PANEL) {
    if (is_small(w)) {
      to->small_at[to->small++] = (uint8_t)i;
      continue;
    }
    UNROLL for (int v = 0; v < VECTORS; v++) {
      const factors weights = of_weights(load_whole(w + 4 * v * LANES));
      to->weights[to->large][0][v] = (ints)weights.even, to->weights[to->large][1][v] = (ints)weights.odd;
    }
    to->large_at[to->large++] = (uint8_t)i;
  }
}

// A vector of bytes as the parts that are needed.
INLINE void split_vector(split_row to, size_t at, ints four, const int are_small, const int are_large) {
  if (are_small) *(ints_anywhere *)&to[0][at] = four;
  if (!are_large) return;
  const factors each = of_bytes(four);
  *(ints_anywhere *)&to[1][at] = (ints)each.even, *(ints_anywhere *)&to[2][at] = (ints)each.odd;
}

// `count` bytes, whose bits are turned where `flip` has them. What is behind them up to `end` may be read.
INLINE void split_bytes(split_row to, size_t at, const uint8_t *x, size_t count, const uint8_t *end, const int32_t flip,
                        const int are_small, const int are_large) {
  const ints turned = flip - (ints){0};
  const size_t there = (size_t)(end - x), all = (count + 4 * LANES - 1) / (4 * LANES), whole = least(all, there / (4 * LANES));
  for (size_t i = 0; i < whole; i++)
    split_vector(to, at + i * LANES, load_whole(x + 4 * LANES * i) ^ turned, are_small, are_large);
  if (whole == all) return;
  ints four = {0};
  ROLLED for (size_t b = 4 * LANES * whole; b < count; b++) ((uint8_t *)&four)[b - 4 * LANES * whole] = x[b];
  split_vector(to, at + whole * LANES, four ^ turned, are_small, are_large);
}

// What is before in memory is read before what follows: a row's bytes need no register while others are multiplied.
#define IN_ORDER __asm__ volatile("" ::: "memory")

INLINE void multiply_split(const int rows, ints (*kept)[PANEL / LANES], split_row *x, const int8_t *w, const split_words *of) {
  ints sums[ROWS][VECTORS];
  UNROLL for (int p = 0; p < rows; p++) UNROLL for (int v = 0; v < VECTORS; v++) sums[p][v] = kept[p][v];
  const shorts ones = ones_at_hand();
  for (size_t n = 0; n < of->small; n++) {
    const size_t i = of->small_at[n];
    const int8_t *at = w + 4 * i * PANEL;
    const ints weights = load_whole(at);
    UNROLL for (int p = 0; p < rows; p++) {
      const ints bytes = x[p][0][i] - (ints){0};
      UNROLL for (int v = 0; v < VECTORS; v++)
        sums[p][v] = small_dot(sums[p][v], bytes, v ? load_whole(at + 4 * v * LANES) : weights, ones);
      IN_ORDER;
    }
  }
  for (size_t n = 0; n < of->large; n++) {
    const size_t i = of->large_at[n];
    UNROLL for (int odd = 0; odd < 2; odd++) {
      ints weights[VECTORS];
      UNROLL for (int v = 0; v < VECTORS; v++) weights[v] = of->weights[n][odd][v];
      UNROLL for (int p = 0; p < rows; p++) {
        const ints bytes = x[p][1 + odd][i] - (ints){0};
        UNROLL for (int v = 0; v < VECTORS; v++) sums[p][v] += pairs((shorts)bytes, (shorts)weights[v]);
        IN_ORDER;
      }
    }
  }
  UNROLL for (int p = 0; p < rows; p++) UNROLL for (int v = 0; v < VECTORS; v++) kept[p][v] = sums[p][v];
}

// sums[p] += the products of `bytes` bytes of row p of x, `row` bytes apart, in `runs`, each of which is `apart` bytes behind the
// one before in x, and next to it in w, with the first `tiles` tiles of a panel. `finish`, if it is not null, gets rows whose sums
// are complete.
typedef void each_rows(const void *of, ints (*sums)[PANEL / LANES], size_t row, size_t rows);
INLINE void multiply_panel(size_t rows, size_t tiles, ints (*sums)[PANEL / LANES], const uint8_t *x, size_t row, size_t bytes,
                           size_t runs, size_t apart, const int8_t *w, const uint8_t *end, const int32_t flip,
                           each_rows *finish, const void *of) {
  split_words weights[TILES];
  split_row part[ROWS];
  const size_t most = bytes <= 4 * DEPTH ? 4 * DEPTH / bytes : 1;
  for (size_t run = 0; run < runs; run += most)
    for (size_t begin = 0; begin < bytes; begin += 4 * DEPTH) {
      const size_t count = least(4 * DEPTH, bytes - begin), taps = least(most, runs - run), words = (count + 3) / 4;
      size_t small = 0, large = 0, tile = 0;
      do {
        split_weights(weights + tile, w + tile * 4 * TILE, taps * words);
        small += weights[tile].small, large += weights[tile].large;
      } while (++tile < tiles);
      const int8_t *next = w + taps * words * 4 * PANEL;
      const size_t share = taps * words * 4 * PANEL * ROWS / rows;
      for (size_t r = 0, each; r < rows; r += each) {
        each = (rows - r) / ((rows - r + ROWS - 1) / ROWS);
        // Each tile fetches its part of the next weights.
        for (size_t b = 0; b < share; b += 64) __builtin_prefetch(next + r / ROWS * share + b, 0, 2);
        for (size_t p = 0; p < each; p++) {
          const uint8_t *from = x + (r + p) * row + run * apart + begin;
          for (size_t tap = 0; tap < taps; tap++, from += apart) {
            if (!large) split_bytes(part[p], tap * words, from, count, end, flip, 1, 0);
            else if (!small) split_bytes(part[p], tap * words, from, count, end, flip, 0, 1);
            else split_bytes(part[p], tap * words, from, count, end, flip, 1, 1);
          }
        }
        for (size_t t = 0; t < tiles; t++) {
#define SPLIT_TILE(p) \
  multiply_split(p, (ints (*)[PANEL / LANES])&sums[r][t * VECTORS], part, w + t * 4 * TILE, weights + t)
          FOR_ROWS(each, SPLIT_TILE)
        }
        if (finish && run + most >= runs && begin + 4 * DEPTH >= bytes) finish(of, sums + r, r, each);
      }
      w = next;
    }
}
#endif
#endif
