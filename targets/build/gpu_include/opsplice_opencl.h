// What an OpenCL kernel asks its place for, without ROCm's device libraries. It is included before the kernel.
#ifndef OPSPLICE_OPENCL_H
#define OPSPLICE_OPENCL_H

#define OPSPLICE_INDEX(function, name)                                                      \
  static inline __attribute__((always_inline)) size_t opsplice_##function(uint dimension) { \
    return dimension == 0   ? __builtin_amdgcn_##name##_x()                                 \
           : dimension == 1 ? __builtin_amdgcn_##name##_y()                                 \
                            : __builtin_amdgcn_##name##_z();                                \
  }
OPSPLICE_INDEX(get_local_id, workitem_id)
OPSPLICE_INDEX(get_group_id, workgroup_id)
OPSPLICE_INDEX(get_local_size, workgroup_size)
OPSPLICE_INDEX(get_global_size, grid_size)
#undef OPSPLICE_INDEX
#define get_local_id opsplice_get_local_id
#define get_group_id opsplice_get_group_id
#define get_local_size opsplice_get_local_size
#define get_global_size opsplice_get_global_size

static inline __attribute__((always_inline)) size_t opsplice_get_global_id(uint dimension) {
  return get_group_id(dimension) * get_local_size(dimension) + get_local_id(dimension);
}
static inline __attribute__((always_inline)) size_t opsplice_get_num_groups(uint dimension) {
  return get_global_size(dimension) / get_local_size(dimension);
}
static inline __attribute__((always_inline)) void opsplice_barrier(uint flags) {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
#define get_global_id opsplice_get_global_id
#define get_num_groups opsplice_get_num_groups
#define barrier opsplice_barrier

#endif
