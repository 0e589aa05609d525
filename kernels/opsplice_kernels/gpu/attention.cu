// Attention with the softmax on the way: scores stay in the workgroup.
#include "attention.cuh"

// One query by a workgroup, 64 keys at a time: for few queries, such as one token behind a cache.
__device__ void Attention::row() const {
  constexpr unsigned WIDEST = 256, EACH = WIDEST / THREADS, LANES = 8;
  __shared__ float query[WIDEST], weights[THREADS];
  unsigned row = blockIdx.y, thread = threadIdx.x;
  for (unsigned i = thread; i < d; i += THREADS) query[i] = q[row * q_m + i * q_d];
  float sums[EACH] = {}, total = 0, peak = -infinity();
  for (unsigned from = 0; from < n; from += THREADS) {
    __syncthreads();
    // Eight threads to a key, so that they read neighbours in memory.
    for (unsigned own = thread / LANES; own < THREADS; own += THREADS / LANES) {
      float product = 0;
      if (from + own < n)
        for (unsigned i = thread % LANES; i < d; i += LANES) product += query[i] * k[(from + own) * k_n + i * k_d];
      for (unsigned step = LANES / 2; step; step /= 2) product += __shfl_xor_sync(ALL, product, step);
      if (thread % LANES == 0) weights[own] = product;
    }
    __syncthreads();
    unsigned key = from + thread;
    float score = key < n ? scores.of(weights[thread], row, key) : -infinity();
    float higher = Greatest()(peak, combined(score, Greatest()));
    float under = higher == -infinity() ? 0 : higher, shrink = expf(peak - under);
    float weight = key < n ? expf(score - under) : 0;
    weights[thread] = weight;
    total = total * shrink + combined(weight, Sum());
    unsigned keys = min(THREADS, n - from);
    for (unsigned i = 0; i < EACH; ++i) {
      unsigned column = i * THREADS + thread;
      if (column < e) {
        float sum = sums[i] * shrink;
        for (unsigned j = 0; j < keys; ++j) sum += weights[j] * v[(from + j) * v_n + column * v_e];
        sums[i] = sum;
      }
    }
    peak = higher;
  }
  bool none = is_zero(zeros, peak, total);
  for (unsigned i = 0; i < EACH; ++i) {
    unsigned column = i * THREADS + thread;
    if (column < e) out[row * out_m + column * out_e] = none ? 0 : sums[i] / total;
  }
}

// 32 queries by a workgroup of 128 threads, 32 keys at a time. 16 threads share 4 queries: each has the scores of
// 2 keys and up to 8 columns of the result. Blocks of keys
// that a mask leaves out for all these queries are not computed, unless a number there is infinite or NaN.
__device__ void Attention::tile() const {
  constexpr unsigned TILE = 32, WIDEST = 128, WORKERS = 128, LANES = 16, ROWS = 4, KEYS = 2, COLUMNS = WIDEST / LANES;
  __shared__ float queries[TILE][WIDEST + 1], keys[TILE][WIDEST + 1], weights[TILE][TILE + 1];
  unsigned top = blockIdx.y * TILE, lane = threadIdx.x % LANES, own = threadIdx.x / LANES * ROWS;
  bool is_strange = false;
  for (unsigned i = threadIdx.x; i < TILE * d; i += WORKERS) {
    unsigned row = q_d <= q_m ? i / d : i % TILE, at = q_d <= q_m ? i % d : i / TILE;
    queries[row][at] = top + row < m ? q[(top + row) * q_m + at * q_d] : 0;
    is_strange = is_strange || !is_finite(queries[row][at]);
  }
  float sums[ROWS][COLUMNS] = {}, total[ROWS] = {}, peak[ROWS];
  for (unsigned r = 0; r < ROWS; ++r) peak[r] = -infinity();
  for (unsigned from = 0; from < n; from += TILE) {
    bool counts = false;
    for (unsigned r = 0; r < ROWS; ++r)
      for (unsigned s = 0; s < KEYS; ++s) {
        unsigned row = top + own + r, key = from + lane + s * LANES;
        counts = counts || row < m && key < n && !scores.is_out(row, key);
      }
    unsigned count = min(TILE, n - from);
    if (!__syncthreads_or(counts)) {
      bool must = is_strange;
      for (unsigned i = threadIdx.x; i < count * d; i += WORKERS)
        must = must || !is_finite(k[(from + i / d) * k_n + i % d * k_d]);
      for (unsigned i = threadIdx.x; i < count * e; i += WORKERS)
        must = must || !is_finite(v[(from + i / e) * v_n + i % e * v_e]);
      if (!__syncthreads_or(must)) continue;
    }
    for (unsigned i = threadIdx.x; i < TILE * d; i += WORKERS) {
      unsigned key = k_d <= k_n ? i / d : i % TILE, at = k_d <= k_n ? i % d : i / TILE;
      keys[key][at] = from + key < n ? k[(from + key) * k_n + at * k_d] : 0;
    }
    __syncthreads();
    float products[ROWS][KEYS] = {};
    for (unsigned i = 0; i < d; ++i)
#pragma unroll
      for (unsigned r = 0; r < ROWS; ++r)
#pragma unroll
        for (unsigned s = 0; s < KEYS; ++s) products[r][s] += queries[own + r][i] * keys[lane + s * LANES][i];
#pragma unroll
    for (unsigned r = 0; r < ROWS; ++r) {
      unsigned row = top + own + r;
      float score[KEYS], higher = peak[r], weight = 0;
      for (unsigned s = 0; s < KEYS; ++s) {
        unsigned key = from + lane + s * LANES;
        score[s] = row < m && key < n ? scores.of(products[r][s], row, key) : -infinity();
        higher = Greatest()(higher, score[s]);
      }
      for (unsigned step = LANES / 2; step; step /= 2)
        higher = Greatest()(higher, __shfl_xor_sync(ALL, higher, step));
      float under = higher == -infinity() ? 0 : higher, shrink = expf(peak[r] - under);
      for (unsigned s = 0; s < KEYS; ++s) {
        float each = from + lane + s * LANES < n ? expf(score[s] - under) : 0;
        weights[own + r][lane + s * LANES] = each;
        weight += each;
      }
      for (unsigned step = LANES / 2; step; step /= 2) weight += __shfl_xor_sync(ALL, weight, step);
      total[r] = total[r] * shrink + weight;
      peak[r] = higher;
      for (unsigned c = 0; c < COLUMNS; ++c) sums[r][c] *= shrink;
    }
    __syncthreads();
    // The keys have been read: values take their place.
    for (unsigned i = threadIdx.x; i < TILE * e; i += WORKERS) {
      unsigned key = v_e <= v_n ? i / e : i % TILE, at = v_e <= v_n ? i % e : i / TILE;
      keys[key][at] = from + key < n ? v[(from + key) * v_n + at * v_e] : 0;
    }
    __syncthreads();
    for (unsigned j = 0; j < TILE; ++j)
#pragma unroll
      for (unsigned c = 0; c < COLUMNS; ++c) {
        float value = lane + c * LANES < e ? keys[j][lane + c * LANES] : 0;
#pragma unroll
        for (unsigned r = 0; r < ROWS; ++r) sums[r][c] += weights[own + r][j] * value;
      }
    __syncthreads();
  }
  for (unsigned r = 0; r < ROWS; ++r) {
    unsigned row = top + own + r;
    bool none = is_zero(zeros, peak[r], total[r]);
    for (unsigned c = 0; c < COLUMNS; ++c) {
      unsigned column = lane + c * LANES;
      if (row < m && column < e) out[row * out_m + column * out_e] = none ? 0 : sums[r][c] / total[r];
    }
  }
}

extern "C" __global__ void attention_row(ATTENTION) {
  ATTENTION_GIVEN;
  given.row();
}

extern "C" __global__ void attention_tile(ATTENTION) {
  ATTENTION_GIVEN;
  given.tile();
}

extern "C" __global__ void banded_attention_row(BANDED) {
  BANDED_GIVEN;
  given.row();
}

extern "C" __global__ void banded_attention_tile(BANDED) {
  BANDED_GIVEN;
  given.tile();
}
