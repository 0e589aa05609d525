// What the 64 threads of a workgroup compute together.
#pragma once

constexpr unsigned THREADS = 64, WARP = 32, ALL = 0xffffffff;

struct Sum {
  __device__ float operator()(float a, float b) const { return a + b; }
};

// NaN if one of them is.
struct Greatest {
  __device__ float operator()(float a, float b) const { return b > a || b != b ? b : a; }
};

__device__ inline float infinity() { return __int_as_float(0x7f800000); }

__device__ inline bool is_finite(float x) { return x - x == 0; }

// All threads' numbers combined, for each of them.
template <class Combine>
__device__ float combined(float own, Combine combine) {
  __shared__ float parts[THREADS / WARP];
  for (unsigned step = WARP / 2; step; step /= 2) own = combine(own, __shfl_xor_sync(ALL, own, step));
  if (threadIdx.x % WARP == 0) parts[threadIdx.x / WARP] = own;
  __syncthreads();
  own = combine(parts[0], parts[1]);
  __syncthreads();
  return own;
}
