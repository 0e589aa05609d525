// Softmax of one row by 256 threads.
__device__ float combined(float value, bool largest) {
  __shared__ float parts[256];
  parts[threadIdx.x] = value;
  __syncthreads();
  for (unsigned half = 128; half; half /= 2) {
    if (threadIdx.x < half) {
      float other = parts[threadIdx.x + half], own = parts[threadIdx.x];
      parts[threadIdx.x] = !largest ? own + other : own > other ? own : other;
    }
    __syncthreads();
  }
  float result = parts[0];
  __syncthreads();
  return result;
}

extern "C" __global__ void softmax_rows(const float *x, float *out, unsigned m, unsigned n) {
  x += (size_t)blockIdx.x * n;
  out += (size_t)blockIdx.x * n;
  float peak = x[0], sum = 0.0f;
  for (unsigned i = threadIdx.x; i < n; i += 256) peak = x[i] > peak ? x[i] : peak;
  peak = combined(peak, true);
  for (unsigned i = threadIdx.x; i < n; i += 256) sum += expf(x[i] - peak);
  sum = combined(sum, false);
  for (unsigned i = threadIdx.x; i < n; i += 256) out[i] = expf(x[i] - peak) / sum;
}
