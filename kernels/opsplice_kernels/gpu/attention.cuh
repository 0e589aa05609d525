// What the scores of attention go through before the softmax, and where a program's buffers lie.
#pragma once
#include "group.cuh"

struct Scores {
  const float *mask, *bias;           // null if there is none, as below
  const unsigned char *keep, *drop;
  unsigned mask_m, mask_n, bias_m, bias_n, keep_m, keep_n, drop_m, drop_n;
  float scale, cap, fill;

  __device__ bool is_filled(unsigned row, unsigned key) const {
    return keep && !keep[row * keep_m + key * keep_n] || drop && drop[row * drop_m + key * drop_n];
  }

  __device__ float added(unsigned row, unsigned key) const {
    return (mask ? mask[row * mask_m + key * mask_n] : 0) + (bias ? bias[row * bias_m + key * bias_n] : 0);
  }

  // Whether the score is minus infinity whatever the product is, if that is finite.
  __device__ bool is_out(unsigned row, unsigned key) const {
    return is_filled(row, key) ? fill == -infinity() : added(row, key) == -infinity();
  }

  __device__ float of(float product, unsigned row, unsigned key) const {
    if (is_filled(row, key)) return fill;
    float score = product * scale;
    if (cap != 0) score = cap * tanhf(score / cap);
    return score + added(row, key);
  }
};

// Of a row all of whose scores are minus infinity, or with `zeros` 2 of any that is no number, the result is zero.
__device__ inline bool is_zero(int zeros, float peak, float total) {
  return zeros != 0 && peak == -infinity() || zeros == 2 && total != total;
}

// What a kernel for attention is passed, in order.
#define ATTENTION                                                                                                     \
  const float *q, const float *k, const float *v, const float *mask, const float *bias, const unsigned char *keep,    \
      const unsigned char *drop, const unsigned *first, float *out, float scale, float cap, float fill, int zeros,    \
      unsigned b, unsigned m, unsigned d, unsigned n, unsigned e, unsigned q_m, unsigned q_d, unsigned k_n,           \
      unsigned k_d, unsigned v_n, unsigned v_e, unsigned has_mask, unsigned mask_m, unsigned mask_n,                  \
      unsigned has_bias, unsigned bias_m, unsigned bias_n, unsigned has_keep, unsigned keep_m, unsigned keep_n,       \
      unsigned has_drop, unsigned drop_m, unsigned drop_n, unsigned out_m, unsigned out_e

// Moves these to the first elements of the workgroup's batch and head, and gathers what is for scores.
#define ATTENTION_BEGINS                                                                                              \
  const unsigned *start = first + blockIdx.x * 8;                                                                     \
  q += start[0], k += start[1], v += start[2], out += start[7];                                                       \
  Scores scores = {has_mask ? mask + start[3] : nullptr, has_bias ? bias + start[4] : nullptr,                        \
                   has_keep ? keep + start[5] : nullptr, has_drop ? drop + start[6] : nullptr,                        \
                   mask_m, mask_n, bias_m, bias_n, keep_m, keep_n, drop_m, drop_n, scale, cap, fill}
