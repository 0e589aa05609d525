// What CUDA and HIP share, for clang without the headers of either.
#ifndef OPSPLICE_GPU_H
#define OPSPLICE_GPU_H

#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __host__ __attribute__((host))
#define __shared__ __attribute__((shared))
#define __constant__ __attribute__((constant))
#define __forceinline__ __inline__ __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))

// A place in the grid, `threadIdx` and its like, whose x, y and z are read from the hardware.
#define OPSPLICE_INDEX(variable, x_, y_, z_)              \
  struct opsplice_##variable {                            \
    __declspec(property(get = read_x)) unsigned x;        \
    __declspec(property(get = read_y)) unsigned y;        \
    __declspec(property(get = read_z)) unsigned z;        \
    __device__ unsigned read_x() const { return x_; }     \
    __device__ unsigned read_y() const { return y_; }     \
    __device__ unsigned read_z() const { return z_; }     \
  };                                                      \
  extern const __device__ __attribute__((weak)) opsplice_##variable variable
#define OPSPLICE_INDEX_OF(variable, ...) OPSPLICE_INDEX(variable, __VA_ARGS__)

#define OPSPLICE_FUNCTION(type) static __inline__ __device__ __attribute__((always_inline)) type
OPSPLICE_FUNCTION(float) fabsf(float x) { return __builtin_fabsf(x); }
OPSPLICE_FUNCTION(float) floorf(float x) { return __builtin_floorf(x); }
OPSPLICE_FUNCTION(float) ceilf(float x) { return __builtin_ceilf(x); }
OPSPLICE_FUNCTION(float) truncf(float x) { return __builtin_truncf(x); }
OPSPLICE_FUNCTION(float) rintf(float x) { return __builtin_rintf(x); }
OPSPLICE_FUNCTION(float) fmaf(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
OPSPLICE_FUNCTION(float) fminf(float x, float y) { return __builtin_fminf(x, y); }
OPSPLICE_FUNCTION(float) fmaxf(float x, float y) { return __builtin_fmaxf(x, y); }

#endif
