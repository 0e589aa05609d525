// Layer and RMS norms of a row by a workgroup. A row's elements may lie apart.
#include "group.cuh"

constexpr unsigned THREADS = 256;

// gain, bias: null if there is none.
template <bool CENTERED>
__device__ void norm(const float *x, const float *gain, const float *bias, float *out, float eps, unsigned n,
                     unsigned x_n, unsigned out_n) {
  float mean = 0, squares = 0;
  if (CENTERED) {
    for (unsigned i = threadIdx.x; i < n; i += THREADS) mean += x[i * x_n];
    mean = combined<THREADS>(mean, Sum()) / n;
  }
  for (unsigned i = threadIdx.x; i < n; i += THREADS) {
    float off = x[i * x_n] - mean;
    squares += off * off;
  }
  float scale = 1.0f / sqrtf(combined<THREADS>(squares, Sum()) / n + eps);
  for (unsigned i = threadIdx.x; i < n; i += THREADS) {
    float value = (x[i * x_n] - mean) * scale;
    if (gain) value *= gain[i];
    if (bias) value += bias[i];
    out[i * out_n] = value;
  }
}

extern "C" __global__ void layernorm_row(const float *x, const float *gain, const float *bias, const unsigned *first,
                                         float *out, float eps, unsigned m, unsigned n, unsigned x_n,
                                         unsigned has_gain, unsigned has_bias, unsigned out_n) {
  x += first[blockIdx.x * 2], out += first[blockIdx.x * 2 + 1];
  norm<true>(x, has_gain ? gain : nullptr, has_bias ? bias : nullptr, out, eps, n, x_n, out_n);
}

extern "C" __global__ void rmsnorm_row(const float *x, const float *gain, const unsigned *first, float *out, float eps,
                                       unsigned m, unsigned n, unsigned x_n, unsigned out_n) {
  x += first[blockIdx.x * 2], out += first[blockIdx.x * 2 + 1];
  norm<false>(x, gain, nullptr, out, eps, n, x_n, out_n);
}
