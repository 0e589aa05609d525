// Attention with the softmax on the way: scores stay in the workgroup.
#include "attention.cuh"

// What eight threads each have of the products of a query with four keys at a time, all 32 of a warp. A key's elements
// are neighbours, and read one at a time or four.
constexpr unsigned KEY_LANES = 8;

template <class Number>
__device__ void add_products(float (&parts)[KEY_LANES], const float *query, const float *k, unsigned d, unsigned k_n,
                             unsigned k_d, unsigned count) {
  constexpr unsigned WIDE = sizeof(Number) / 4;
  unsigned lane = threadIdx.x % WARP;
  for (unsigned i = lane % KEY_LANES * WIDE; i < d; i += KEY_LANES * WIDE) {
    Number own = *(const Number *)(query + i), each[KEY_LANES] = {};
#pragma unroll
    for (unsigned turn = 0; turn < KEY_LANES; ++turn) {
      unsigned key = turn * (WARP / KEY_LANES) + lane / KEY_LANES;
      if (key < count) each[turn] = *(const Number *)(k + key * k_n + i * k_d);
    }
#pragma unroll
    for (unsigned turn = 0; turn < KEY_LANES; ++turn) parts[turn] += product(own, each[turn]);
  }
}

// One query by a workgroup of 16 warps, for few queries, such as one token behind a cache. Each warp goes through keys of
// its own, 32 at a time, with a peak and sums of its own. COLUMNS: how many of the result a thread has.
template <unsigned COLUMNS>
__device__ void Attention::row(RowMemory &held) const {
  constexpr unsigned KEYS = 32 / COLUMNS;  // whose values are read before they are needed
  auto &[query, peaks, totals, parts] = held;
  unsigned row = blockIdx.y, lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
  bool fours = in_fours(k, k_d, k_n) && d % 4 == 0;
  for (unsigned i = threadIdx.x; i < d; i += ROW_THREADS) query[i] = q[row * q_m + i * q_d];
  __syncthreads();
  float sums[COLUMNS] = {}, total = 0, peak = -infinity();
  for (unsigned from = warp * WARP; from < n; from += ROW_THREADS) {
    unsigned key = from + lane, count = min(WARP, n - from);
    float product = 0;
    if (k_d <= k_n) {
      float own[KEY_LANES] = {};
      if (fours)
        add_products<Four>(own, query, k + from * k_n, d, k_n, k_d, count);
      else
        add_products<float>(own, query, k + from * k_n, d, k_n, k_d, count);
#pragma unroll
      for (unsigned turn = 0; turn < KEY_LANES; ++turn) {
        float whole = __shfl_sync(ALL, in_warp<KEY_LANES>(own[turn], Sum()), lane % (WARP / KEY_LANES) * KEY_LANES);
        if (lane / (WARP / KEY_LANES) == turn) product = whole;
      }
    } else if (key < n) {
#pragma unroll 16
      for (unsigned i = 0; i < d; ++i) product += query[i] * k[key * k_n + i * k_d];
    }
    float score = key < n ? scores.of(product, row, key) : -infinity();
    float higher = Greatest()(peak, in_warp(score, Greatest()));
    float under = higher == -infinity() ? 0 : higher, shrink = expf(peak - under);
    float weight = key < n ? expf(score - under) : 0;
    total = total * shrink + weight;
    peak = higher;
#pragma unroll
    for (unsigned c = 0; c < COLUMNS; ++c) sums[c] *= shrink;
    for (unsigned some = 0; some < count; some += KEYS) {
      float values[KEYS][COLUMNS];
#pragma unroll
      for (unsigned j = 0; j < KEYS; ++j)
#pragma unroll
        for (unsigned c = 0; c < COLUMNS; ++c) {
          unsigned column = c * WARP + lane;
          bool is_in = some + j < count && column < e;
          values[j][c] = is_in ? v[(from + some + j) * v_n + column * v_e] : 0;
        }
#pragma unroll
      for (unsigned j = 0; j < KEYS; ++j) {
        float each = __shfl_sync(ALL, weight, some + j);
#pragma unroll
        for (unsigned c = 0; c < COLUMNS; ++c) sums[c] += each * values[j][c];
      }
    }
  }
#pragma unroll
  for (unsigned c = 0; c < COLUMNS; ++c) parts[warp][c * WARP + lane] = sums[c];
  total = in_warp(total, Sum());
  if (lane == 0) peaks[warp] = peak, totals[warp] = total;
  __syncthreads();
  unsigned column = threadIdx.x;
  if (column >= e) return;
  float highest = peaks[0];
  for (unsigned w = 1; w < RowMemory::WARPS; ++w) highest = Greatest()(highest, peaks[w]);
  float under = highest == -infinity() ? 0 : highest, sum = 0, whole = 0;
  for (unsigned w = 0; w < RowMemory::WARPS; ++w) {
    float shrink = expf(peaks[w] - under);
    sum += parts[w][column] * shrink, whole += totals[w] * shrink;
  }
  out[row * out_m + column * out_e] = is_zero(zeros, highest, whole) ? 0 : sum / whole;
}

// 64 queries by a workgroup of 128 threads, 64 keys at a time; while a part is multiplied, the next one is read. 16 threads
// share 8 queries: each has the scores of 4 keys and COLUMNS of the result. Blocks of keys that a mask leaves out for all
// these queries are not computed, unless a number there is infinite or NaN.
template <unsigned COLUMNS>
__device__ void Attention::tile(TileMemory &held) const {
  constexpr unsigned LANES = 16, ROWS = 8, KEYS = 4, WIDE = LANES * COLUMNS;
  auto &[queries, keys, values, weights, peaks, totals, shrinks] = held;
  unsigned top = blockIdx.y * TILE, lane = threadIdx.x % LANES, own = threadIdx.x / LANES * ROWS;
  bool is_strange = false;
  for (unsigned i = threadIdx.x; i < TILE * d; i += TILE_THREADS)
    is_strange = is_strange || top + i / d < m && !is_finite(q[(top + i / d) * q_m + i % d * q_d]);
  float sums[ROWS][COLUMNS] = {};
  if (threadIdx.x < TILE) peaks[threadIdx.x] = -infinity(), totals[threadIdx.x] = 0;
  for (unsigned from = 0; from < n; from += TILE) {
    bool counts = false;
#pragma unroll 1
    for (unsigned r = 0; r < ROWS && !counts; ++r)
#pragma unroll 1
      for (unsigned s = 0; s < KEYS && !counts; ++s) {
        unsigned row = top + own + r, key = from + lane + s * LANES;
        counts = row < m && key < n && !scores.is_out(row, key);
      }
    unsigned count = min(TILE, n - from);
    if (!__syncthreads_or(counts)) {
      bool must = is_strange;
      for (unsigned i = threadIdx.x; i < count * d; i += TILE_THREADS)
        must = must || !is_finite(k[(from + i / d) * k_n + i % d * k_d]);
      for (unsigned i = threadIdx.x; i < count * e; i += TILE_THREADS)
        must = must || !is_finite(v[(from + i / e) * v_n + i % e * v_e]);
      if (!__syncthreads_or(must)) continue;
    }
    float products[ROWS][KEYS] = {};
    Part<TILE, DEEP, TILE_THREADS> own_queries(q, top, m, d, q_m, q_d), own_keys(k, from, n, d, k_n, k_d);
    own_queries.read(0), own_keys.read(0);
    for (unsigned deep = 0; deep < d; deep += DEEP) {
      own_queries.write(queries), own_keys.write(keys);
      __syncthreads();
      if (deep + DEEP < d) own_queries.read(deep + DEEP), own_keys.read(deep + DEEP);
#pragma unroll 4
      for (unsigned l = 0; l < DEEP; ++l)
#pragma unroll
        for (unsigned r = 0; r < ROWS; ++r)
#pragma unroll
          for (unsigned s = 0; s < KEYS; ++s) products[r][s] += queries[l][own + r] * keys[l][lane + s * LANES];
      __syncthreads();
    }
#pragma unroll
    for (unsigned r = 0; r < ROWS; ++r)
#pragma unroll
      for (unsigned s = 0; s < KEYS; ++s) weights[lane + s * LANES][own + r] = products[r][s];
#pragma unroll 1
    for (unsigned at = own; at < own + ROWS; ++at) {
      unsigned row = top + at;
      float score[KEYS], higher = -infinity(), sum = 0, peak = peaks[at];
#pragma unroll
      for (unsigned s = 0; s < KEYS; ++s) {
        unsigned key = from + lane + s * LANES;
        score[s] = row < m && key < n ? scores.of(weights[lane + s * LANES][at], row, key) : -infinity();
        higher = Greatest()(higher, score[s]);
      }
      higher = Greatest()(peak, in_warp<LANES>(higher, Greatest()));
      float under = higher == -infinity() ? 0 : higher, shrink = expf(peak - under);
#pragma unroll
      for (unsigned s = 0; s < KEYS; ++s) {
        float each = from + lane + s * LANES < n ? expf(score[s] - under) : 0;
        weights[lane + s * LANES][at] = each;
        sum += each;
      }
      sum = in_warp<LANES>(sum, Sum());
      if (lane == 0) peaks[at] = higher, shrinks[at] = shrink, totals[at] = totals[at] * shrink + sum;
    }
    __syncthreads();
#pragma unroll
    for (unsigned r = 0; r < ROWS; ++r)
#pragma unroll
      for (unsigned c = 0; c < COLUMNS; ++c) sums[r][c] *= shrinks[own + r];
    Part<WIDE, DEEP, TILE_THREADS> own_values(v, 0, e, n, v_e, v_n);
    own_values.read(from);
    for (unsigned deep = 0; deep < count; deep += DEEP) {
      own_values.write(values);
      __syncthreads();
      if (deep + DEEP < count) own_values.read(from + deep + DEEP);
#pragma unroll 4
      for (unsigned j = 0; j < DEEP; ++j)
#pragma unroll
        for (unsigned r = 0; r < ROWS; ++r)
#pragma unroll
          for (unsigned c = 0; c < COLUMNS; ++c)
            sums[r][c] += weights[deep + j][own + r] * values[j][lane * COLUMNS + c];
      __syncthreads();
    }
  }
#pragma unroll
  for (unsigned r = 0; r < ROWS; ++r) {
    unsigned row = top + own + r;
    float whole = totals[own + r];
    bool none = is_zero(zeros, peaks[own + r], whole);
#pragma unroll
    for (unsigned c = 0; c < COLUMNS; ++c) {
      unsigned column = lane * COLUMNS + c;
      if (row < m && column < e) out[row * out_m + column * out_e] = none ? 0 : sums[r][c] / whole;
    }
  }
}

__device__ void Attention::by_rows() const {
  __shared__ RowMemory held;
  if (e <= 64)
    row<2>(held);
  else if (e <= 128)
    row<4>(held);
  else
    row<8>(held);
}

__device__ void Attention::by_tiles() const {
  __shared__ TileMemory held;
  if (e <= 64)
    tile<4>(held);
  else
    tile<8>(held);
}

extern "C" __global__ void attention_row(ATTENTION) {
  ATTENTION_GIVEN;
  given.by_rows();
}

extern "C" __global__ void attention_tile(ATTENTION) {
  ATTENTION_GIVEN;
  given.by_tiles();
}

extern "C" __global__ void banded_attention_row(BANDED) {
  BANDED_GIVEN;
  given.by_rows();
}

extern "C" __global__ void banded_attention_tile(BANDED) {
  BANDED_GIVEN;
  given.by_tiles();
}
