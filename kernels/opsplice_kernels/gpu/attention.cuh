// What the scores of attention go through before the softmax, and where a program's buffers lie.
#pragma once
#include "parts.cuh"

// Threads of a workgroup; queries and keys of a tile, and how many of their elements are taken at a time.
constexpr unsigned ROW_THREADS = 512, TILE_THREADS = 128, TILE = 64, DEEP = 16;

// What they share.
struct __align__(16) RowMemory {
  static constexpr unsigned WIDEST = 256, WARPS = ROW_THREADS / WARP;
  float query[WIDEST], peaks[WARPS], totals[WARPS], parts[WARPS][WIDEST];
};
struct __align__(16) TileMemory {
  static constexpr unsigned WIDEST = 128;
  float queries[DEEP][TILE + PAD], keys[DEEP][TILE + PAD], values[DEEP][WIDEST], weights[TILE][TILE + PAD],
      peaks[TILE], totals[TILE], shrinks[TILE];
};

// Apart, for it is long, and a tile has 32 places for it.
__device__ __noinline__ inline float capped(float score, float cap) { return cap * tanhf(score / cap); }

struct Scores {
  const float *mask, *bias;           // null if there is none, as below
  const unsigned char *keep, *drop;
  unsigned mask_m, mask_n, bias_m, bias_n, keep_m, keep_n, drop_m, drop_n;
  float scale, cap, fill;
  int low, high;                      // which keys count, by how far they are behind the query
  bool is_added;                      // whether `fill` is added to what does not count, and does not replace it

  __device__ bool is_filled(unsigned row, unsigned key) const {
    int apart = (int)key - (int)row;
    return apart < low || apart > high || keep && !keep[row * keep_m + key * keep_n] ||
           drop && drop[row * drop_m + key * drop_n];
  }

  __device__ float added(unsigned row, unsigned key) const {
    return (mask ? mask[row * mask_m + key * mask_n] : 0) + (bias ? bias[row * bias_m + key * bias_n] : 0);
  }

  // Whether the score is minus infinity whatever the product is, if that is finite.
  __device__ bool is_out(unsigned row, unsigned key) const {
    if (!is_filled(row, key)) return added(row, key) == -infinity();
    return fill == -infinity() && (!is_added || added(row, key) < infinity());
  }

  __device__ float of(float product, unsigned row, unsigned key) const {
    bool is_out = is_filled(row, key);
    if (is_out && !is_added) return fill;
    float score = product * scale;
    if (cap != 0) score = capped(score, cap);
    score += added(row, key);
    return is_out ? score + fill : score;
  }
};

// Of a row all of whose scores are minus infinity, or with `zeros` 2 of any that is no number, the result is zero.
__device__ inline bool is_zero(int zeros, float peak, float total) {
  return zeros != 0 && peak == -infinity() || zeros == 2 && total != total;
}

// One batch and head: where its buffers lie, and what becomes of its scores.
struct Attention {
  const float *q, *k, *v;
  float *out;
  Scores scores;
  int zeros;
  unsigned m, d, n, e, q_m, q_d, k_n, k_d, v_n, v_e, out_m, out_e;

  // One query by a workgroup, or a tile of them.
  template <unsigned COLUMNS>
  __device__ void row(RowMemory &held) const;
  template <unsigned COLUMNS>
  __device__ void tile(TileMemory &held) const;
  __device__ void by_rows() const;
  __device__ void by_tiles() const;
};

// What a kernel for attention is passed, in order, and what it makes of that for the workgroup's batch and head.
#define ATTENTION                                                                                                     \
  const float *q, const float *k, const float *v, const float *mask, const float *bias, const unsigned char *keep,    \
      const unsigned char *drop, const unsigned *first, float *out, float scale, float cap, float fill, int zeros,    \
      unsigned b, unsigned m, unsigned d, unsigned n, unsigned e, unsigned q_m, unsigned q_d, unsigned k_n,           \
      unsigned k_d, unsigned v_n, unsigned v_e, unsigned has_mask, unsigned mask_m, unsigned mask_n,                  \
      unsigned has_bias, unsigned bias_m, unsigned bias_n, unsigned has_keep, unsigned keep_m, unsigned keep_n,       \
      unsigned has_drop, unsigned drop_m, unsigned drop_n, unsigned out_m, unsigned out_e
#define ATTENTION_GIVEN                                                                                               \
  const unsigned *start = first + blockIdx.x * 8;                                                                     \
  Attention given = {q + start[0], k + start[1], v + start[2], out + start[7],                                        \
                     {has_mask ? mask + start[3] : nullptr, has_bias ? bias + start[4] : nullptr,                     \
                      has_keep ? keep + start[5] : nullptr, has_drop ? drop + start[6] : nullptr,                     \
                      mask_m, mask_n, bias_m, bias_n, keep_m, keep_n, drop_m, drop_n, scale, cap, fill,               \
                      -2147483647, 2147483647, false},                                                                \
                     zeros, m, d, n, e, q_m, q_d, k_n, k_d, v_n, v_e, out_m, out_e}

// The same where a mask follows from where queries and keys are.
#define BANDED                                                                                                        \
  const float *q, const float *k, const float *v, const float *bias, const unsigned char *keep, const unsigned *first,\
      float *out, float scale, float cap, float fill, int zeros, int low, int high, int added, unsigned b, unsigned m,\
      unsigned d, unsigned n, unsigned e, unsigned q_m, unsigned q_d, unsigned k_n, unsigned k_d, unsigned v_n,       \
      unsigned v_e, unsigned has_bias, unsigned bias_m, unsigned bias_n, unsigned has_keep, unsigned keep_m,          \
      unsigned keep_n, unsigned out_m, unsigned out_e
#define BANDED_GIVEN                                                                                                  \
  const unsigned *start = first + blockIdx.x * 6;                                                                     \
  Attention given = {q + start[0], k + start[1], v + start[2], out + start[5],                                        \
                     {nullptr, has_bias ? bias + start[3] : nullptr, has_keep ? keep + start[4] : nullptr, nullptr,   \
                      0, 0, bias_m, bias_n, keep_m, keep_n, 0, 0, scale, cap, fill, low, high, added != 0},           \
                     zeros, m, d, n, e, q_m, q_d, k_n, k_d, v_n, v_e, out_m, out_e}
