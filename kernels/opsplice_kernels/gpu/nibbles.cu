// A number of a product with weights of four bits in blocks of a scale each, by a workgroup.
#include "group.cuh"

constexpr unsigned THREADS = 64;

// Without zeros they are eight in all blocks.
extern "C" __global__ void nibble_row(const float *x, const unsigned char *w, const float *scale,
                                      const signed char *zero, const float *bias, float *out, unsigned m, unsigned b,
                                      unsigned j, unsigned n, unsigned has_zero, unsigned has_bias) {
  unsigned column = blockIdx.x, row = blockIdx.y, k = b * j;
  x += (size_t)row * k, w += (size_t)column * k / 2, scale += (size_t)column * b;
  if (has_zero) zero += (size_t)column * b;
  float sum = 0;
  if (j % 8 == 0) {  // eight numbers are a word
    for (unsigned at = threadIdx.x * 8; at < k; at += THREADS * 8) {
      unsigned word = *(const unsigned *)(w + at / 2), block = at / j;
      float from = has_zero ? zero[block] : 8, part = 0;
#pragma unroll
      for (unsigned i = 0; i < 8; ++i) part += x[at + i] * ((float)(word >> 4 * i & 15) - from);
      sum += part * scale[block];
    }
  } else {
    for (unsigned at = threadIdx.x * 2; at < k; at += THREADS * 2) {
      unsigned pair = w[at / 2], block = at / j;
      float from = has_zero ? zero[block] : 8;
      sum += (x[at] * ((float)(pair & 15) - from) + x[at + 1] * ((float)(pair >> 4) - from)) * scale[block];
    }
  }
  sum = combined<THREADS>(sum, Sum());
  if (threadIdx.x == 0) out[(size_t)row * n + column] = sum + (has_bias ? bias[column] : 0.0f);
}
