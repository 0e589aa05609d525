// The softmax of a row by a workgroup. A row's elements may lie apart.
#include "group.cuh"

constexpr unsigned THREADS = 256;

extern "C" __global__ void softmax_row(const float *x, const unsigned *first, float *out, unsigned m, unsigned n,
                                       unsigned x_n, unsigned out_n) {
  x += first[blockIdx.x * 2], out += first[blockIdx.x * 2 + 1];
  float peak = -infinity(), sum = 0;
  for (unsigned i = threadIdx.x; i < n; i += THREADS) peak = Greatest()(peak, x[i * x_n]);
  peak = combined<THREADS>(peak, Greatest());
  for (unsigned i = threadIdx.x; i < n; i += THREADS) sum += expf(x[i * x_n] - peak);
  sum = combined<THREADS>(sum, Sum());
  for (unsigned i = threadIdx.x; i < n; i += THREADS) out[i * out_n] = expf(x[i * x_n] - peak) / sum;
}
