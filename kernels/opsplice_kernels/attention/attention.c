// softmax(scale * q @ k^T + mask ...) @ v in one pass over the keys: scores of a block of keys, their exponentials
// under the largest score so far, and the sum of values, which shrinks where a larger score comes.
//
// What a mask leaves out of a block of keys, rows from either end or all of them, is not computed: causal masks and
// sliding windows cost as much as they leave in. Blocks with NaN or infinity are computed, since 0 * NaN is NaN.
//
// A band says which keys count for a row by how far they are from it: from `low` to `high` places behind place `start` plus
// that of the row. Keys in the
// band are done first, so that it is known of the others that they do not count.
//
// Buffers that a match lacks are null; `scale` is 1, `cap` 0 and `lowest` minus infinity then. `factors` are for each score,
// such as one for each head. What `keep`, `drop` or a band leaves out has the score
// `fill`, or with `added` its own and `fill`. A row whose scores are all minus infinity is zero with `zeros`, and NaN without; with
// `zeros` 2 any row that were NaN is zero. Scores below `lowest` are that.
//
// The mask is added to the scores, with `mask_as` 1 subtracted from them, with 2 added before the scale, and with 3 added
// after `keep` and `drop`. The bias is added behind the mask, with `bias_as` 1 subtracted. With a band, it is the bias that
// `mask_as` 1 subtracts and 2 adds before the scale; with 3 `fill` is added there, too, and with 4 to scores without their bias.
//
// A sink is one more score of each row, whose value is zero.
//
// f16 and bf16 are widened as they are read, and all is computed in f32.
//
// Grid: (ceildiv(m, 84), b). A workgroup does up to 84 rows of one head, and the next one its next rows, so that keys stay in a
// cache. Where rows are long it does fewer at a time: IREE gives a worker 128 KiB of stack, and this takes 106. Sums that fit the
// result are taken in it, else in a part of that stack.
#include "../any_layout.h"
#include "../vector_math.h"

enum { SHARE = 84, KEYS = 64, DEPTH = 256, SUMS = SHARE * 64 };
#define NEVER -__builtin_inff()
// No score is larger without its mask, and an exponential of what lies this far below is zero.
#define MOST 1e29f
#define FAR 200.0f

typedef uint8_t flag_bytes __attribute__((vector_size(LANES)));

typedef struct {
  const void *mask, *bias, *sink, *factors;
  const uint8_t *keep, *drop;
  float scale, cap, fill, lowest, mask_by, bias_by;
  int32_t kind, zeros, is_banded, added, mask_is_last, fill_is_alone;
  int64_t low, high;
  size_t mask_m, mask_n, bias_m, bias_n, keep_m, keep_n, drop_m, drop_n, sink_m, factors_m, factors_n;
} scoring;

// `wanted` is 0 or 1.
INLINE floats only(floats value, const uint8_t *flags, size_t step, int wanted, float fill, size_t count) {
  if (step == 1 && count == LANES) {
    flag_bytes bytes;
    __builtin_memcpy(&bytes, flags, LANES);
    return choose((__builtin_convertvector(bytes, ints) != 0) == -wanted, value, splat(fill));
  }
  UNROLL for (size_t i = 0; i < LANES; i++) if (i < count && (flags[i * step] != 0) != wanted) value[i] = fill;
  return value;
}

// Whether `all` keys from key j on count for row i by the band, or any of them.
INLINE int is_in_band(const scoring *with, size_t i, size_t j, size_t count, int all) {
  int64_t first = (int64_t)j - (int64_t)i, last = first + (int64_t)count - 1;
  return all ? first >= with->low && last <= with->high : last >= with->low && first <= with->high;
}

INLINE int32_t among_lanes(int64_t lane) { return (int32_t)(lane < 0 ? -1 : lane < LANES ? lane : LANES); }

INLINE floats left_out(floats s, const scoring *with) { return with->added ? s + with->fill : splat(with->fill); }

// `bare` is the score that `fill` is added to.
INLINE floats banded(floats s, floats bare, const scoring *with, size_t i, size_t j, size_t count) {
  ints counts = {0}, lane = {0};
  UNROLL for (int l = 0; l < LANES; l++) lane[l] = l;
  int64_t apart = (int64_t)j - (int64_t)i, from = with->low - apart, to = with->high - apart;
  if (from <= 0 && to >= (int64_t)count - 1) counts = counts == 0;
  else counts = (lane >= among_lanes(from)) & (lane <= among_lanes(to));
  if (with->keep && with->added) {
    const uint8_t *flags = with->keep + i * with->keep_m + j * with->keep_n;
    counts &= only(splat(1.0f), flags, with->keep_n, 1, 0.0f, count) != 0.0f;
  }
  return choose(counts, s, left_out(bare, with));
}

INLINE floats with_mask(floats s, const scoring *with, size_t i, size_t j, size_t count) {
  return s + with->mask_by * load_at(with->kind, with->mask, i * with->mask_m + j * with->mask_n, with->mask_n, count);
}

// What the masks make of the scores of LANES keys from key j on, of which `count` there are, in row i.
INLINE floats masked(floats s, const scoring *with, size_t i, size_t j, size_t count) {
  if (with->mask && !with->mask_is_last) s = with_mask(s, with, i, j, count);
  floats bare = s;
  if (with->bias) s += with->bias_by * load_at(with->kind, with->bias, i * with->bias_m + j * with->bias_n, with->bias_n, count);
  if (with->is_banded) s = banded(s, with->fill_is_alone ? bare : s, with, i, j, count);
  if (with->keep && !with->added) s = only(s, with->keep + i * with->keep_m + j * with->keep_n, with->keep_n, 1, with->fill, count);
  if (with->drop) s = only(s, with->drop + i * with->drop_m + j * with->drop_n, with->drop_n, 0, with->fill, count);
  if (with->mask && with->mask_is_last) s = with_mask(s, with, i, j, count);
  s = larger(splat(with->lowest), s);
  if (count < LANES) {
    ints lane = {0};
    UNROLL for (int l = 0; l < LANES; l++) lane[l] = l;
    s = choose(lane < (int32_t)count, s, splat(NEVER));
  }
  return s;
}

INLINE floats scored(floats s, const scoring *with, size_t i, size_t j, size_t count) {
  s *= with->scale;
  if (with->factors)
    s *= load_at(with->kind, with->factors, i * with->factors_m + j * with->factors_n, with->factors_n, count);
  if (with->cap != 0.0f) {
    floats e = exponential_below(absolute(s) * (-2.0f / with->cap));
    floats t = (1.0f - e) / (1.0f + e) * with->cap;
    s = choose(s < 0.0f, -t, t);
  }
  return masked(s, with, i, j, count);
}

// Whether nothing but a scale is applied to scores, and none is left out.
INLINE int is_bare(const scoring *with) {
  return !with->mask && !with->bias && !with->keep && !with->drop && !with->is_banded && !with->factors && with->cap == 0.0f &&
         with->lowest == NEVER;
}

// Whether no key of a block counts in row i, whatever its score.
static int is_left_out(const scoring *with, size_t i, size_t j, size_t count, float peak) {
  if (with->is_banded && !is_in_band(with, i, j, count, 0)) {
    float most = larger(splat(with->lowest), left_out(splat(MOST), with))[0];
    return most == NEVER || most - peak <= -FAR;
  }
  if (with->is_banded && !with->bias && !with->keep && is_in_band(with, i, j, count, 1)) return 0;
  for (size_t l = 0; l < count; l += LANES) {
    floats most = masked(splat(MOST), with, i, j + l, least(LANES, count - l));
    ints is_low = (most == NEVER) | (most - peak <= -FAR);
    if (any_lane(~is_low)) return 0;
  }
  return 1;
}

static int is_finite(int kind, const void *x, size_t row, size_t step, size_t rows, size_t columns) {
  floats zeros = splat(0.0f);
  for (size_t i = 0; i < rows; i++)
    for (size_t c = 0; c < columns; c += LANES)
      zeros += load_at(kind, x, i * row + c * step, step, least(LANES, columns - c)) * 0.0f;
  return sum_of_lanes(zeros) == 0.0f;
}

static void widen(int kind, const void *x, size_t row, size_t step, size_t rows, size_t columns, float *to) {
  for (size_t i = 0; i < rows; i++)
    for (size_t c = 0; c < columns; c += LANES)
      store_up_to(to + i * columns + c, load_at(kind, x, i * row + c * step, step, least(LANES, columns - c)), columns - c);
}

INLINE void product_tile(const int rows, const int vectors, const float *x, size_t row, const float *w, size_t next, size_t k,
                         const float *shrink, float *out, size_t out_row) {
  floats sums[ROWS][VECTORS];
  UNROLL for (int p = 0; p < rows; p++) UNROLL for (int v = 0; v < vectors; v++)
    sums[p][v] = shrink ? load(out + (size_t)p * out_row + v * LANES) * shrink[p] : splat(0.0f);
  multiply_vectors(rows, vectors, sums, x, row, 1, w, next, k, 0, 0, 0);
  UNROLL for (int p = 0; p < rows; p++) UNROLL for (int v = 0; v < vectors; v++)
    store(out + (size_t)p * out_row + v * LANES, sums[p][v]);
}

// out[m, columns] = shrink * out + x[m, k] @ w[k, columns]; without `shrink` out is only written. columns: whole vectors.
// A few rows do all columns before the next rows begin, so that w stays in the nearest cache.
static void product(const float *x, size_t row, const float *w, size_t next, size_t columns, size_t k, const float *shrink,
                    float *out, size_t out_row, size_t m) {
  const size_t tiles = (m + ROWS - 1) / ROWS;
  for (size_t tile = 0, i = 0, rows; tile < tiles; tile++, i += rows) {
    rows = m / tiles + (tile < m % tiles);
    for (size_t c = 0; c < columns; c += TILE) {
#define TILE_OF(p, vectors) \
  product_tile(p, vectors, x + i * row, row, w + c, next, k, shrink ? shrink + i : 0, out + i * out_row + c, out_row)
#define WHOLE_TILE(p) TILE_OF(p, VECTORS)
#define LAST_TILE(p) TILE_OF(p, 1)
      if (columns - c > LANES) { FOR_ROWS(rows, WHOLE_TILE) }
      else { FOR_ROWS(rows, LAST_TILE) }
    }
  }
}

typedef struct {
  const void *q, *k, *v;
  void *out;
  size_t d, n, e, q_m, q_d, k_n, k_d, v_n, v_e, out_m, out_e;
} operands;

static size_t whole_vectors(size_t count) { return (count + LANES - 1) / LANES * LANES; }

static size_t width_of(const operands *of) { return whole_vectors(of->e); }

// Whether sums of values are taken where the result is to be.
static int sums_fit_result(const operands *of, int kind) {
  return kind == F32 && of->out_e == 1 && of->e == width_of(of);
}

// Whether queries are always copied.
static int is_copied(const operands *of, int kind) { return kind != F32 || of->q_d != 1; }

// The first block of keys in which some count for a row. Those behind it are done after it, then those before it.
static size_t first_near(const scoring *with, size_t row, size_t blocks) {
  int64_t key = (int64_t)row + with->low;
  return !with->is_banded || key <= 0 ? 0 : least((size_t)key / KEYS, blocks - 1);
}

// Scores of `some` rows from row i on, up to LANES, become their exponentials below the largest score so far, which is found for
// all rows at once. is_plain: all scores count as they are.
INLINE void weigh(const int is_plain, const scoring *with, float *scores, size_t i, size_t j, size_t count, size_t some,
                  float *peaks, float *shrink, floats *totals) {
  floats highest[LANES];
  float tops[LANES] __attribute__((aligned(4 * LANES)));
  for (size_t p = 0; p < LANES; p++) {
    highest[p] = splat(NEVER);
    if (p < some) for (size_t at = 0; at < count; at += LANES) {
      float *to = scores + p * KEYS + at;
      floats score = load(to) * with->scale;
      if (!is_plain) {
        score = scored(load(to), with, i + p, j + at, least(LANES, count - at));
        store(to, score);
      }
      highest[p] = larger(score, highest[p]);
    }
  }
  transpose(highest);
  floats before = load(peaks), top = before;
  UNROLL for (size_t p = 0; p < LANES; p++) top = larger(highest[p], top);
  floats under = choose(top == NEVER, splat(0.0f), top);
  store(peaks, top);
  store(shrink, choose(before == top, splat(1.0f), exponential_below(before - under)));
  store(tops, under);
  for (size_t p = 0; p < some; p++) {
    floats sum = totals[p] * shrink[p];
    for (size_t at = 0; at < count; at += LANES) {
      float *to = scores + p * KEYS + at;
      floats weight = exponential_below((is_plain ? load(to) * with->scale : load(to)) - tops[p]);
      sum += weight;
      if (with->zeros == 2) weight = choose(weight == weight, weight, splat(0.0f));
      store(to, weight);
    }
    totals[p] = sum;
  }
}

// What the weights of rows are multiplied with, a row a lane.
INLINE floats shares_of(const scoring *with, floats peaks, floats totals) {
  ints is_number = totals == totals, is_low = is_number & (peaks == NEVER);
  floats zero = splat(0.0f), shares = choose(is_low, with->zeros ? zero : splat(__builtin_nanf("")), 1.0f / totals);
  return with->zeros == 2 ? choose(is_number, shares, zero) : shares;
}

static void find_shares(const scoring *with, const float *peaks, const floats *totals, size_t rows, float *shares) {
  for (size_t i = 0; i < rows; i += LANES) {
    floats all[LANES];
    UNROLL for (size_t p = 0; p < LANES; p++) all[p] = totals[i + p];
    store(shares + i, shares_of(with, load(peaks + i), sums_of_rows(all)));
  }
}

// All of `some` rows, up to LANES, for up to LANES keys, which are packed as [d, PANEL]. Half of the rows are multiplied at
// once, and all are weighed together, a row a lane. start: the place of the first row in the masks.
enum { HALF = LANES / 2 };
INLINE void attend_to_few(const scoring *with, size_t start, size_t some, const float *q, size_t q_m, size_t d,
                          const float *keys, size_t n, const float *values, size_t v_n, size_t width, const float *sinks,
                          float *out, size_t out_m) {
  const int is_plain = n == LANES && is_bare(with);
  floats scores[LANES], sink = load(sinks), top = sink;
  float weights[LANES * LANES] __attribute__((aligned(4 * LANES)));
  if (some <= HALF) UNROLL for (int p = HALF; p < LANES; p++) scores[p] = splat(0.0f);
  for (size_t h = 0; h < some; h += HALF) {
    floats sums[HALF], others[HALF];  // of every other place, since half of the sums would wait for each other
    const float *from[HALF];
    UNROLL for (size_t p = 0; p < HALF; p++)
      from[p] = q + least(h + p, some - 1) * q_m, sums[p] = others[p] = splat(0.0f);
    size_t c = 0;
    for (; c + 2 <= d; c += 2) {
      floats key = load(keys + c * PANEL), next = load(keys + (c + 1) * PANEL);
      UNROLL for (int p = 0; p < HALF; p++) sums[p] += key * from[p][c], others[p] += next * from[p][c + 1];
    }
    if (c < d) UNROLL for (int p = 0; p < HALF; p++) sums[p] += load(keys + c * PANEL) * from[p][c];
    UNROLL for (size_t p = 0; p < HALF; p++) {
      floats score = sums[p] + others[p];
      scores[h + p] = is_plain || h + p >= some ? score * with->scale : scored(score, with, start + h + p, 0, n);
    }
  }
  transpose(scores);
  UNROLL for (int j = 0; j < LANES; j++) top = larger(scores[j], top);
  floats under = choose(top == NEVER, splat(0.0f), top);
  floats total = choose(sink == NEVER, splat(0.0f), exponential_below(sink - under) + (sink - sink));
  UNROLL for (int j = 0; j < LANES; j++) {
    floats weight = exponential_below(scores[j] - under);
    total += weight;
    scores[j] = with->zeros == 2 ? choose(weight == weight, weight, splat(0.0f)) : weight;
  }
  floats shares = shares_of(with, top, total);
  UNROLL for (int j = 0; j < LANES; j++) store(weights + j * LANES, scores[j] * shares);
  for (size_t h = 0; h < some; h += HALF)
    for (size_t c = 0; c < width; c += TILE) {
      floats sums[HALF][VECTORS];
      UNROLL for (int p = 0; p < HALF; p++) UNROLL for (int v = 0; v < VECTORS; v++) sums[p][v] = splat(0.0f);
#define VALUES_OF(vectors) multiply_vectors(HALF, vectors, sums, weights + h, 1, LANES, values + c, v_n, n, 0, 0, 0)
      if (width - c > LANES) VALUES_OF(VECTORS);
      else VALUES_OF(1);
      UNROLL for (size_t p = 0; p < HALF; p++) UNROLL for (int v = 0; v < VECTORS; v++)
        if (h + p < some && c + v * LANES < width) store(out + (h + p) * out_m + c + v * LANES, sums[p][v]);
    }
}

static void attend(const operands *of, const scoring *with, size_t start, size_t rows) {
  float panel[PANEL * DEPTH] __attribute__((aligned(64))), scores[SHARE * KEYS] __attribute__((aligned(64)));
  float own_sums[SUMS] __attribute__((aligned(64))), wide[SUMS] __attribute__((aligned(64)));
  float peaks[SHARE + LANES], shrink[SHARE + LANES], shares[SHARE + LANES];
  floats totals[SHARE + LANES];
  const int kind = with->kind;
  const int is_whole = of->n <= KEYS;  // all keys are one block, so no sum shrinks, and weights are shares of their total
  size_t width = width_of(of);
  float *sums = sums_fit_result(of, kind) ? (float *)of->out + start * of->out_m : own_sums;
  size_t sums_m = sums == own_sums ? width : of->out_m;
  for (size_t i = 0; i < rows; i++) {
    float sink = with->sink ? load_at(with->kind, with->sink, (start + i) * with->sink_m, 1, 1)[0] : NEVER;
    totals[i] = splat(0.0f), peaks[i] = sink;
    if (sink != NEVER) totals[i][0] = 1.0f + (sink - sink);  // NaN where the sink is NaN or infinity
    if (!is_whole) for (size_t c = 0; c < width; c += LANES) store(sums + i * sums_m + c, splat(0.0f));
  }
  store(peaks + rows, splat(NEVER));  // those behind the last row are read with it
  for (size_t i = rows; i < whole_vectors(rows); i++) totals[i] = splat(1.0f);

  const float *q = element(kind, of->q, start * of->q_m);
  size_t q_m = of->q_m;
  int may_skip = !is_whole && (with->mask || with->keep || with->drop || with->is_banded) && !with->factors &&
                 with->scale - with->scale == 0.0f && is_finite(kind, q, q_m, of->q_d, rows, of->d);
  if (is_copied(of, kind) || (of->n > PANEL && q_m != of->d && rows > ROWS && rows * of->d <= SUMS)) {
    widen(kind, q, q_m, of->q_d, rows, of->d, wide);
    q = wide, q_m = of->d;
  }
  const int is_few = rows <= 4 && of->k_d == 1;
  // Rows of values that are apart may all lie in the same few sets of a cache.
  const int is_apart = of->v_n != width && rows > ROWS && of->n > LANES;
  const int is_in_place = kind == F32 && of->v_e == 1 && of->e == width && !is_apart;
  size_t blocks = (of->n + KEYS - 1) / KEYS, near = first_near(with, start, blocks);
  if (of->n <= LANES && rows > 4) {
    pack(kind, of->k, of->k_n, of->k_d, of->n, of->d, panel);
    if (!is_in_place) widen(kind, of->v, of->v_n, of->v_e, of->n, of->e, scores);
    for (size_t i = 0; i < rows; i += LANES)
      attend_to_few(with, start + i, least(LANES, rows - i), q + i * q_m, q_m, of->d, panel, of->n,
                    is_in_place ? of->v : scores, is_in_place ? of->v_n : of->e, width, peaks + i, sums + i * sums_m, sums_m);
    blocks = 0;
  }
  for (size_t number = 0; number < blocks; number++) {
    size_t j = (number < blocks - near ? near + number : blocks - 1 - number) * KEYS, count = least(KEYS, of->n - j);
    const void *k = element(kind, of->k, j * of->k_n), *v = element(kind, of->v, j * of->v_n);
    size_t first = 0, end = rows;
    if (may_skip) {
      while (first < end && is_left_out(with, start + first, j, count, peaks[first])) first++;
      while (first < end && is_left_out(with, start + end - 1, j, count, peaks[end - 1])) end--;
      if (end - first < rows &&
          !(is_finite(kind, k, of->k_n, of->k_d, count, of->d) && is_finite(kind, v, of->v_n, of->v_e, count, of->e)))
        first = 0, end = rows;
      if (first == end) continue;
    }
    for (size_t c = 0; c < count; c += PANEL) {
      const void *keys = element(kind, k, c * of->k_n);
      size_t some = least(PANEL, count - c);
      if (is_few) {
        if (kind != F32) widen(kind, keys, of->k_n, 1, some, of->d, panel);
        dots(q + first * q_m, q_m, end - first, kind == F32 ? keys : panel, kind == F32 ? of->k_n : of->d, of->d, some,
             scores + first * KEYS + c, KEYS);
      } else {
        pack(kind, keys, of->k_n, of->k_d, some, of->d, panel);
        product(q + first * q_m, q_m, panel, PANEL, whole_vectors(some), of->d, 0, scores + first * KEYS + c, KEYS,
                end - first);
      }
    }

    const int is_plain = count % LANES == 0 && is_bare(with);
    for (size_t i = first; i < end; i += LANES) {
#define WEIGH(is_plain) \
  weigh(is_plain, with, scores + i * KEYS, start + i, j, count, least(LANES, end - i), peaks + i, shrink + i, totals + i)
      if (is_plain) WEIGH(1);
      else WEIGH(0);
    }
    if (is_whole) {
      find_shares(with, peaks, totals, rows, shares);
      for (size_t i = 0; i < rows; i++)
        for (size_t c = 0; c < count; c += LANES) store(scores + i * KEYS + c, load(scores + i * KEYS + c) * shares[i]);
    }

    for (size_t c = 0; c < width; c += PANEL) {
      const void *values = element(kind, v, c * of->v_e);
      if (!is_in_place) pack(kind, values, of->v_e, of->v_n, least(PANEL, of->e - c), count, panel);
      product(scores + first * KEYS, KEYS, is_in_place ? values : panel, is_in_place ? of->v_n : PANEL,
              least(PANEL, width - c), count, is_whole ? 0 : shrink + first, sums + first * sums_m + c, sums_m, end - first);
    }
  }

  if (is_whole && sums != own_sums) return;
  if (!is_whole) find_shares(with, peaks, totals, rows, shares);
  for (size_t i = 0; i < rows; i++) {
    char *to = (char *)of->out + (kind == F32 ? 4 : 2) * (start + i) * of->out_m;
    float factor = is_whole ? 1.0f : shares[i];
    for (size_t c = 0; c < of->e; c += LANES) {
      floats value = load(sums + i * sums_m + c) * factor;
      size_t count = least(LANES, of->e - c);
      if (kind != F32) {
        uint16_t narrow[LANES];
        store_halves(kind, narrow, value, LANES);
        for (size_t l = 0; l < count; l++) ((uint16_t *)to)[(c + l) * of->out_e] = narrow[l];
      } else if (of->out_e == 1) store_up_to((float *)to + c, value, count);
      else UNROLL for (size_t l = 0; l < LANES; l++) if (l < count) ((float *)to)[(c + l) * of->out_e] = value[l];
    }
  }
}

INLINE void rows_of(const operands *of, scoring *with, size_t m, size_t workgroup) {
  if (with->factors && with->factors_m == 0 && with->factors_n == 0) {
    with->scale *= load_at(with->kind, with->factors, 0, 1, 1)[0];
    with->factors = 0;
  }
  size_t at = share_from(m, SHARE, workgroup), end = share_from(m, SHARE, workgroup + 1);
  size_t width = width_of(of);
  size_t share = SHARE;
  if (!sums_fit_result(of, with->kind)) share = least(share, SUMS / width);
  if (is_copied(of, with->kind) && of->d) share = least(share, SUMS / of->d);
  for (size_t rows; at < end; at += rows) {
    rows = least(share, end - at);
    attend(of, with, at, rows);
  }
}

#define BETWEEN \
  void *out, size_t b, size_t m, size_t d, size_t n, size_t e, size_t q_m, size_t q_d, size_t k_n, size_t k_d, size_t v_n, \
      size_t v_e
#define BEHIND size_t out_m, size_t out_e, size_t workgroup_x, size_t workgroup_y
#define PARAMETERS \
  const void *q, const void *k, const void *v, const void *mask, const void *bias, const uint8_t *keep, \
      const uint8_t *drop, const void *factors, const void *sink, float scale, float cap, float fill, int32_t zeros, \
      int32_t mask_as, int32_t bias_as, float lowest, BETWEEN, size_t mask_m, size_t mask_n, size_t bias_m, size_t bias_n, \
      size_t keep_m, size_t keep_n, size_t drop_m, size_t drop_n, size_t factors_m, size_t factors_n, size_t sink_m, BEHIND
#define BAND(number) \
  const void *q, const void *k, const void *v, const void *bias, const uint8_t *keep, const void *sink, float scale, \
      float cap, float fill, int32_t zeros, int32_t low, int32_t high, number start, int32_t added, int32_t mask_as, \
      float lowest, BETWEEN, size_t bias_m, size_t bias_n, size_t keep_m, size_t keep_n, size_t sink_m, BEHIND
#define ROWS_WITH(...) \
  (void)b, (void)workgroup_y; \
  operands of = {q, k, v, out, d, n, e, q_m, q_d, k_n, k_d, v_n, v_e, out_m, out_e}; \
  scoring with = {.bias = bias, .keep = keep, .sink = sink, .scale = scale, .cap = cap, .lowest = lowest, .zeros = zeros, \
                  .bias_m = bias_m, .bias_n = bias_n, .keep_m = keep_m, .keep_n = keep_n, .sink_m = sink_m, __VA_ARGS__}; \
  rows_of(&of, &with, m, workgroup_x);
#define ROWS_OF(number) \
  ROWS_WITH(.kind = number, .fill = fill, .bias_by = bias_as == 1 ? -1.0f : 1.0f, .mask = mask, .mask_m = mask_m, \
            .mask_n = mask_n, .drop = drop, .drop_m = drop_m, .drop_n = drop_n, .factors = factors, .factors_m = factors_m, \
            .factors_n = factors_n, \
            .mask_by = mask_as == 1 ? -1.0f : mask_as == 2 ? scale : 1.0f, .mask_is_last = mask_as == 3)
#define ROWS_IN_BAND(number) \
  ROWS_WITH(.kind = number, .fill = mask_as == 3 ? fill * scale : fill, \
            .bias_by = mask_as == 1 ? -1.0f : mask_as == 2 || mask_as == 3 ? scale : 1.0f, .is_banded = 1, \
            .low = low + (int64_t)start, .high = high + (int64_t)start, .added = added, .fill_is_alone = mask_as == 4)
#define SCORES \
  const void *scores, const void *v, const void *sink, int32_t zeros, void *out, size_t b, size_t m, size_t n, size_t e, \
      size_t scores_m, size_t scores_n, size_t v_n, size_t v_e, size_t sink_m, BEHIND
// Queries and keys of no elements, whose products are zeros that the scores are added to.
#define ROWS_OF_SCORES(number) \
  (void)b, (void)workgroup_y; \
  operands of = {.q_d = 1, .k_d = 1, .v = v, .out = out, .n = n, .e = e, .v_n = v_n, .v_e = v_e, .out_m = out_m, \
                 .out_e = out_e}; \
  scoring with = {.kind = number, .mask = scores, .mask_m = scores_m, .mask_n = scores_n, .mask_by = 1.0f, .scale = 1.0f, \
                  .lowest = NEVER, .zeros = zeros, .sink = sink, .sink_m = sink_m}; \
  rows_of(&of, &with, m, workgroup_x);

void opsplice_attention_f32(PARAMETERS) { ROWS_OF(F32) }
void opsplice_attention_f16(PARAMETERS) { ROWS_OF(F16) }
void opsplice_attention_bf16(PARAMETERS) { ROWS_OF(BF16) }
void opsplice_attention_of_scores_f32(SCORES) { ROWS_OF_SCORES(F32) }
void opsplice_attention_of_scores_f16(SCORES) { ROWS_OF_SCORES(F16) }
void opsplice_attention_of_scores_bf16(SCORES) { ROWS_OF_SCORES(BF16) }
void opsplice_banded_attention_f32_i32(BAND(int32_t)) { ROWS_IN_BAND(F32) }
void opsplice_banded_attention_f32_i64(BAND(int64_t)) { ROWS_IN_BAND(F32) }
void opsplice_banded_attention_f16_i32(BAND(int32_t)) { ROWS_IN_BAND(F16) }
void opsplice_banded_attention_f16_i64(BAND(int64_t)) { ROWS_IN_BAND(F16) }
void opsplice_banded_attention_bf16_i32(BAND(int32_t)) { ROWS_IN_BAND(BF16) }
void opsplice_banded_attention_bf16_i64(BAND(int64_t)) { ROWS_IN_BAND(BF16) }
