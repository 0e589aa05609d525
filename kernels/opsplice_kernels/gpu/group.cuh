// What the threads of a workgroup compute together.
#pragma once

constexpr unsigned WARP = 32, ALL = 0xffffffff;

struct Sum {
  template <class Number>
  __device__ Number operator()(Number a, Number b) const { return a + b; }
};

// NaN if one of them is.
struct Greatest {
  __device__ float operator()(float a, float b) const { return b > a || b != b ? b : a; }
};

__device__ inline float infinity() { return __int_as_float(0x7f800000); }

__device__ inline bool is_finite(float x) { return x - x == 0; }

// The numbers of as many neighbours of a warp combined, for each of them.
template <unsigned LANES = WARP, class Number, class Combine>
__device__ Number in_warp(Number own, Combine combine) {
#pragma unroll
  for (unsigned step = LANES / 2; step; step /= 2) own = combine(own, __shfl_xor_sync(ALL, own, step));
  return own;
}

// All threads' numbers combined, for each of them.
template <unsigned THREADS, class Number, class Combine>
__device__ Number combined(Number own, Combine combine) {
  __shared__ Number parts[THREADS / WARP];
  own = in_warp(own, combine);
  if (threadIdx.x % WARP == 0) parts[threadIdx.x / WARP] = own;
  __syncthreads();
  own = parts[0];
  for (unsigned i = 1; i < THREADS / WARP; ++i) own = combine(own, parts[i]);
  __syncthreads();
  return own;
}
