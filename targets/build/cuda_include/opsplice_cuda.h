// What a CUDA kernel needs of the language when clang builds it without NVIDIA's headers. It is included before the
// kernel; nvcc and NVRTC bring all this along. Mathematics beyond what the hardware has (expf) needs these two.
#ifndef OPSPLICE_CUDA_H
#define OPSPLICE_CUDA_H

#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __host__ __attribute__((host))
#define __shared__ __attribute__((shared))
#define __constant__ __attribute__((constant))
#define __forceinline__ __inline__ __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))

#define OPSPLICE_INDEX(variable, reg)                                                 \
  struct opsplice_##variable {                                                        \
    __declspec(property(get = read_x)) unsigned x;                                    \
    __declspec(property(get = read_y)) unsigned y;                                    \
    __declspec(property(get = read_z)) unsigned z;                                    \
    __device__ unsigned read_x() const { return __nvvm_read_ptx_sreg_##reg##_x(); }   \
    __device__ unsigned read_y() const { return __nvvm_read_ptx_sreg_##reg##_y(); }   \
    __device__ unsigned read_z() const { return __nvvm_read_ptx_sreg_##reg##_z(); }   \
  };                                                                                  \
  extern const __device__ __attribute__((weak)) opsplice_##variable variable
OPSPLICE_INDEX(threadIdx, tid);
OPSPLICE_INDEX(blockIdx, ctaid);
OPSPLICE_INDEX(blockDim, ntid);
OPSPLICE_INDEX(gridDim, nctaid);
#undef OPSPLICE_INDEX

#define OPSPLICE_FUNCTION(type) static __inline__ __device__ __attribute__((always_inline)) type
OPSPLICE_FUNCTION(float) sqrtf(float x) { return __nvvm_sqrt_rn_f(x); }
OPSPLICE_FUNCTION(float) rsqrtf(float x) { return __nvvm_rsqrt_approx_f(x); }
OPSPLICE_FUNCTION(float) fabsf(float x) { return __builtin_fabsf(x); }
OPSPLICE_FUNCTION(float) floorf(float x) { return __builtin_floorf(x); }
OPSPLICE_FUNCTION(float) ceilf(float x) { return __builtin_ceilf(x); }
OPSPLICE_FUNCTION(float) truncf(float x) { return __builtin_truncf(x); }
OPSPLICE_FUNCTION(float) rintf(float x) { return __builtin_rintf(x); }
OPSPLICE_FUNCTION(float) fmaf(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
OPSPLICE_FUNCTION(float) fminf(float x, float y) { return __builtin_fminf(x, y); }
OPSPLICE_FUNCTION(float) fmaxf(float x, float y) { return __builtin_fmaxf(x, y); }
OPSPLICE_FUNCTION(float) __expf(float x) { return __nvvm_ex2_approx_f(x * 1.44269504f); }
OPSPLICE_FUNCTION(float) __logf(float x) { return __nvvm_lg2_approx_f(x) * 0.693147181f; }
OPSPLICE_FUNCTION(float) __int_as_float(int x) { return __builtin_bit_cast(float, x); }
OPSPLICE_FUNCTION(int) __float_as_int(float x) { return __builtin_bit_cast(int, x); }
#undef OPSPLICE_FUNCTION

#endif
