// What a HIP kernel needs of the language when clang builds it without ROCm. It is included before the kernel.
// Mathematics beyond what the hardware has (expf) needs ROCm's device libraries.
#ifndef OPSPLICE_HIP_H
#define OPSPLICE_HIP_H

#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __host__ __attribute__((host))
#define __shared__ __attribute__((shared))
#define __constant__ __attribute__((constant))
#define __forceinline__ __inline__ __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))

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
#define OPSPLICE_EACH(name) \
  __builtin_amdgcn_##name##_x(), __builtin_amdgcn_##name##_y(), __builtin_amdgcn_##name##_z()
#define OPSPLICE_INDEX_OF(variable, ...) OPSPLICE_INDEX(variable, __VA_ARGS__)
OPSPLICE_INDEX_OF(threadIdx, OPSPLICE_EACH(workitem_id));
OPSPLICE_INDEX_OF(blockIdx, OPSPLICE_EACH(workgroup_id));
OPSPLICE_INDEX_OF(blockDim, OPSPLICE_EACH(workgroup_size));
OPSPLICE_INDEX(gridDim, __builtin_amdgcn_grid_size_x() / __builtin_amdgcn_workgroup_size_x(),
               __builtin_amdgcn_grid_size_y() / __builtin_amdgcn_workgroup_size_y(),
               __builtin_amdgcn_grid_size_z() / __builtin_amdgcn_workgroup_size_z());

#define OPSPLICE_FUNCTION(type) static __inline__ __device__ __attribute__((always_inline)) type
OPSPLICE_FUNCTION(void) __syncthreads() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
OPSPLICE_FUNCTION(float) sqrtf(float x) { return __builtin_sqrtf(x); }
OPSPLICE_FUNCTION(float) fabsf(float x) { return __builtin_fabsf(x); }
OPSPLICE_FUNCTION(float) floorf(float x) { return __builtin_floorf(x); }
OPSPLICE_FUNCTION(float) ceilf(float x) { return __builtin_ceilf(x); }
OPSPLICE_FUNCTION(float) truncf(float x) { return __builtin_truncf(x); }
OPSPLICE_FUNCTION(float) rintf(float x) { return __builtin_rintf(x); }
OPSPLICE_FUNCTION(float) fmaf(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
OPSPLICE_FUNCTION(float) fminf(float x, float y) { return __builtin_fminf(x, y); }
OPSPLICE_FUNCTION(float) fmaxf(float x, float y) { return __builtin_fmaxf(x, y); }
#undef OPSPLICE_FUNCTION

#endif
