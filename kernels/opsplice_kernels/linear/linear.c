// Products: out[m, n] = activation(x[m, k] @ w + bias) * factor + rest, where bias, factor and rest may be null. A packed w
// is [n / 32][k][32], the last panel filled up with zeros; of others each workgroup packs a part at a time.
//
// Grid: (ceildiv(n, 32), ceildiv(m, 252)), of batches (ceildiv(n, 32), b, ceildiv(m, 252)); a workgroup does a panel of 32 columns by up
// to 252 rows.
#include "../tile.h"
#include "../vector_math.h"

// FETCHES: whether weights of the next part or panel are fetched; where it is not, it was not measured. FEW: rows that are multiplied with
// columns where these lie.
enum { SHARE = 252, DEPTH = 128, FETCHES = LANES >= 8, FEW = 16 };
// A part of k whose weights for a tile stay in the nearest cache, while all rows are multiplied. With AVX-512 the next cache
// is near enough, if what is needed later is fetched; k is not cut then. Of other CPUs a Zen 3 reads a row's weights faster
// where nothing fetches them before.
#if LANES == 16
enum { BLOCK = 1 << 30, FETCH = 2048, APART = 2 };
#else
enum { BLOCK = 256, FETCH = 0, APART = LANES == 8 ? 3 : 2 };
#endif

typedef struct {
  const float *bias, *factor, *rest;  // bias: where it is not added yet
  int32_t which;
  size_t n, columns;  // of out, and of this panel
} epilogue;

static void finish(const epilogue *by, size_t at, float *out, size_t rows, size_t columns) {
  for (size_t i = 0; i < rows; i++, at += by->n, out += by->n)
    for (size_t c = 0; c < columns; c += LANES) {
      floats value = load_up_to(out + c, columns - c, 0.0f);
      if (by->bias) value += load_up_to(by->bias + c, columns - c, 0.0f);
      switch (by->which) {
        case RELU: value = activate(RELU, value); break;
        case GELU: value = activate(GELU, value); break;
        case GELU_TANH: value = activate(GELU_TANH, value); break;
        case SILU: value = activate(SILU, value); break;
      }
      if (by->factor) value *= load_up_to(by->factor + at + c, columns - c, 0.0f);
      if (by->rest) value += load_up_to(by->rest + at + c, columns - c, 0.0f);
      store_up_to(out + c, value, columns - c);
    }
}

// One row, by a panel whose rows are `next` apart. Sums of some k apart, so that no sum waits for the one before it. Where nothing is
// fetched these k are parts, each of which is read from its beginning: memory gives more from several places at once.
INLINE void row_of(const float *x, size_t k, const float *w, size_t next, const int ahead, const float *bias, float *out,
                   size_t columns) {
  floats sums[APART][PANEL / LANES];
  UNROLL for (int j = 0; j < APART; j++) UNROLL for (int v = 0; v < PANEL / LANES; v++) sums[j][v] = splat(0.0f);
  const size_t part = k / APART, apart = FETCH ? 1 : part, step = FETCH ? APART : 1, rest = k - APART * part;
  for (size_t i = 0; i < part; i++, x += step, w += step * next)
    UNROLL for (int j = 0; j < APART; j++) UNROLL for (int v = 0; v < PANEL / LANES; v++) {
      if (ahead) __builtin_prefetch(w + ahead + j * next + v * LANES);
      sums[j][v] += load(w + j * apart * next + v * LANES) * x[j * apart];
    }
  if (!FETCH) x += (APART - 1) * part, w += (APART - 1) * part * next;
  for (size_t i = 0; i < rest; i++, w += next) UNROLL for (int v = 0; v < PANEL / LANES; v++) sums[0][v] += load(w + v * LANES) * x[i];
  UNROLL for (int j = 2; j < APART; j++) UNROLL for (int v = 0; v < PANEL / LANES; v++) sums[0][v] += sums[j][v];
  UNROLL for (int v = 0; v < PANEL / LANES; v++) {
    size_t c = v * LANES;
    if (c >= columns) continue;
    floats value = sums[0][v] + sums[1][v];
    if (bias) value += load_up_to(bias + c, columns - c, 0.0f);
    store_up_to(out + c, value, columns - c);
  }
}

static void linear_row(const float *x, size_t k, const float *w, const float *bias, float *out, size_t columns) {
  row_of(x, k, w, PANEL, FETCH, bias, out, columns);
}

// A panel of `columns` of a packed weight, by parts of k; `bias` is added to the first of them. Each tile fetches its share of the
// weights that are next: in each step, or before its steps where that is less than a number a step.
static void multiply_packed(const float *x, size_t k, const float *w, const float *bias, float *out, size_t n, size_t rows,
                            size_t columns) {
  const size_t tiles = (rows + ROWS - 1) / ROWS, part = FETCHES ? TILE / tiles : 0;
  size_t i = 0;
  do {
    const size_t depth = least(BLOCK, k - i), next = i ? n : 0, before = FETCHES && !part ? depth * TILE / tiles : 0;
    const float *start = i ? out : bias, *later = FETCHES ? w + (i + depth) * PANEL : 0;
    for (size_t c = 0; c < columns; c += TILE)
      for (size_t r = 0, count; r < rows; r += count) {
        const size_t below = rows - r;
        count = below / ((below + ROWS - 1) / ROWS);
        for (size_t l = 0; l < before; l += LINE) __builtin_prefetch(later + l, 0, 2);
#define LINEAR_TILE(p) \
  panel_tile(p, x + r * k + i, k, 1, depth, w + i * PANEL + c, FETCH, later, part, start ? start + r * next + c : 0, \
             next, out + r * n + c, n, least(TILE, columns - c))
        FOR_ROWS(count, LINEAR_TILE)
        if (FETCHES) later += before ? before : depth * part;
      }
  } while ((i += BLOCK) < k);
}

void opsplice_linear(const float *x, const float *w, const float *bias, const float *factor, const float *rest,
                     int32_t which, float *out, size_t m, size_t k, size_t p, size_t n, size_t workgroup_x,
                     size_t workgroup_y) {
  (void)p;
  size_t column = workgroup_x * PANEL, columns = least(PANEL, n - column);
  size_t row = share_from(m, SHARE, workgroup_y), left = share_from(m, SHARE, workgroup_y + 1) - row;
  if (bias) bias += column;
  w += workgroup_x * k * PANEL;
  // What is large beside the products is added last.
  const size_t at = row * n + column;
  const int is_whole = left == 1 || k <= BLOCK;
  epilogue by = {is_whole ? 0 : bias, factor, rest, which, n, columns};
  if (left == 1) linear_row(x + row * k, k, w, bias, out + at, columns);
  else multiply_packed(x + row * k, k, w, is_whole ? bias : 0, out + at, n, left, columns);
  if (by.bias || which != NOTHING || factor || rest) finish(&by, at, out + at, left, columns);
}

// The same with the weights of each row's group: w is [g][n / 32][k][32], and member[g, m] says whether a row is of a group.
// A row of several has the sum of their products, and a row of none zeros.
void opsplice_grouped(const float *x, const float *w, const uint8_t *member, float *out, size_t m, size_t k, size_t g,
                      size_t p, size_t n, size_t workgroup_x, size_t workgroup_y) {
  size_t column = workgroup_x * PANEL, columns = least(PANEL, n - column);
  size_t row = share_from(m, SHARE, workgroup_y), rows = share_from(m, SHARE, workgroup_y + 1) - row;
  uint8_t done[SHARE] = {0};
  x += row * k, out += row * n + column, member += row;
  for (size_t group = 0; group < g; group++, member += m) {
    const float *panel = w + (group * p + workgroup_x) * k * PANEL;
    for (size_t r = 0, end; r < rows; r = end) {
      end = r + 1;
      if (!member[r]) continue;
      float *to = out + r * n;
      if (done[r]) {
        linear_row(x + r * k, k, panel, to, to, columns);
        continue;
      }
      while (end < rows && member[end] && !done[end]) end++;
      if (end - r == 1) linear_row(x + r * k, k, panel, 0, to, columns);
      else multiply_packed(x + r * k, k, panel, 0, to, n, end - r, columns);
      for (size_t i = r; i < end; i++) done[i] = 1;
    }
  }
  for (size_t r = 0; r < rows; r++)
    if (!done[r])
      for (size_t c = 0; c < columns; c++) out[r * n + c] = 0.0f;
}

// A whole panel of columns that lie side by side, where they lie.
static void multiply_in_place(const float *x, size_t x_m, size_t x_k, const float *w, size_t w_k, size_t depth, const float *start,
                              size_t start_row, float *out, size_t n, size_t rows) {
  if (rows == 1 && x_k == 1) {
    row_of(x, depth, w, w_k, 0, start, out, PANEL);
    return;
  }
  for (size_t c = 0; c < PANEL; c += TILE) {
#define TILE_IN_PLACE(p) \
  columns_tile(p, x, x_m, x_k, depth, w + c, w_k, 0, 0, 0, start ? start + c : 0, start_row, out + c, n, TILE)
    FOR_ROWS(rows, TILE_IN_PLACE)
  }
}

// Few rows by a panel of `columns` whose k lie side by side, where they lie.
static void multiply_dots(const float *x, size_t x_m, const float *w, size_t w_n, size_t k, const float *bias, float *out, size_t n,
                          size_t rows, size_t columns) {
  float sums[FEW * PANEL] __attribute__((aligned(64)));
  dots(x, x_m, rows, w, w_n, k, columns, sums, PANEL);
  for (size_t p = 0; p < rows; p++, out += n)
    for (size_t c = 0; c < columns; c += LANES) {
      const floats value = load(sums + p * PANEL + c);
      store_up_to(out + c, bias ? value + load_up_to(bias + c, columns - c, 0.0f) : value, columns - c);
    }
}

// A panel of `columns` of a weight in any layout. For few rows packing it would take longer than their products.
static void multiply_unpacked(const float *x, size_t x_m, size_t x_k, const float *w, size_t w_k, size_t w_n, size_t k,
                              const float *bias, float *out, size_t n, size_t rows, size_t columns) {
  float panel[DEPTH * PANEL] __attribute__((aligned(64)));
  if (w_k == 1 && x_k == 1 && rows <= FEW) {
    multiply_dots(x, x_m, w, w_n, k, bias, out, n, rows, columns);
    return;
  }
  const int is_in_place = w_n == 1 && rows <= ROWS && columns == PANEL;
  size_t at = 0;
  do {
    size_t depth = least(DEPTH, k - at);
    const float *start = at ? out : bias;
    if (is_in_place) {
      multiply_in_place(x + at * x_k, x_m, x_k, w + at * w_k, w_k, depth, start, at ? n : 0, out, n, rows);
      at += depth;
      continue;
    }
    pack_panel(w + at * w_k, w_n, w_k, columns, depth, panel);
    if (rows == 1 && x_k == 1) linear_row(x + at, depth, panel, start, out, columns);
    else product_with_panel(x + at * x_k, x_m, x_k, depth, panel, start, at ? n : 0, out, n, rows, columns);
    at += depth;
  } while (at < k);
}

void opsplice_linear_unpacked(const float *x, const float *w, const float *bias, const float *factor, const float *rest,
                              int32_t which, float *out, size_t m, size_t k, size_t n, size_t w_k, size_t w_n,
                              size_t workgroup_x, size_t workgroup_y) {
  size_t column = workgroup_x * PANEL, columns = least(PANEL, n - column);
  size_t row = share_from(m, SHARE, workgroup_y), rows = share_from(m, SHARE, workgroup_y + 1) - row;
  size_t at = row * n + column;
  if (bias) bias += column;
  const int is_whole = k <= DEPTH;
  epilogue by = {is_whole ? 0 : bias, factor, rest, which, n, columns};
  multiply_unpacked(x + row * k, k, 1, w + column * w_n, w_k, w_n, k, is_whole ? bias : 0, out + at, n, rows, columns);
  if (by.bias || which != NOTHING || factor || rest) finish(&by, at, out + at, rows, columns);
}

void opsplice_product(const float *x, const float *w, float *out, size_t b, size_t m, size_t k, size_t n, size_t x_m,
                      size_t x_k, size_t w_k, size_t w_n, size_t out_m, size_t out_n, size_t workgroup_x,
                      size_t workgroup_y, size_t workgroup_z) {
  (void)b, (void)out_n, (void)workgroup_y;
  size_t column = workgroup_x * PANEL, columns = least(PANEL, n - column);
  size_t row = share_from(m, SHARE, workgroup_z), end = share_from(m, SHARE, workgroup_z + 1);
  multiply_unpacked(x + row * x_m, x_m, x_k, w + column * w_n, w_k, w_n, k, 0, out + row * out_m + column, out_m,
                    end - row, columns);
}
