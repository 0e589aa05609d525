extern "C" __global__ void scale_bias(const float *x, const float *bias, float *out, float gain, unsigned m, unsigned n) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y;
  if (i < n) out[row * n + i] = x[row * n + i] * gain + bias[i];
}
