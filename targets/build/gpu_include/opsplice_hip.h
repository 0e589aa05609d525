// What a HIP kernel needs of the language when clang builds it without ROCm. It is included before the kernel.
// Mathematics beyond what the hardware has (expf) needs ROCm's device libraries.
#ifndef OPSPLICE_HIP_H
#define OPSPLICE_HIP_H

#include "opsplice_gpu.h"

#define OPSPLICE_EACH(name) \
  __builtin_amdgcn_##name##_x(), __builtin_amdgcn_##name##_y(), __builtin_amdgcn_##name##_z()
OPSPLICE_INDEX_OF(threadIdx, OPSPLICE_EACH(workitem_id));
OPSPLICE_INDEX_OF(blockIdx, OPSPLICE_EACH(workgroup_id));
OPSPLICE_INDEX_OF(blockDim, OPSPLICE_EACH(workgroup_size));
OPSPLICE_INDEX(gridDim, __builtin_amdgcn_grid_size_x() / __builtin_amdgcn_workgroup_size_x(),
               __builtin_amdgcn_grid_size_y() / __builtin_amdgcn_workgroup_size_y(),
               __builtin_amdgcn_grid_size_z() / __builtin_amdgcn_workgroup_size_z());

OPSPLICE_FUNCTION(void) __syncthreads() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
OPSPLICE_FUNCTION(float) sqrtf(float x) { return __builtin_sqrtf(x); }
#undef OPSPLICE_FUNCTION

#endif
