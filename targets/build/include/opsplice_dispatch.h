// What a kernel `as dispatch` for a CPU is called with: the ABI of IREE's executables for CPUs, version 6.
//
//   int name(const void *environment, const opsplice_dispatch *dispatch, const opsplice_workgroup *workgroup);
//
// It is called once for each workgroup, at once on any threads, and returns 0. The layout is that of IREE's
// runtime/src/iree/hal/local/executable_library.h.
#pragma once
#include <stddef.h>
#include <stdint.h>

typedef struct {
  uint32_t workgroup_size_x, workgroup_size_y;
  uint16_t workgroup_size_z;
  uint16_t constant_count;
  uint32_t workgroup_count_x, workgroup_count_y;
  uint16_t workgroup_count_z;
  uint8_t max_concurrency;
  uint8_t binding_count;
  const uint32_t *constants;      // scalars in the order of the parameters, then dims
  void *const *bindings;          // buffers in the order of the parameters, then results
  const size_t *binding_lengths;  // in bytes
} opsplice_dispatch;

typedef struct {
  uint32_t x, y;
  uint16_t z;
  uint16_t reserved;
  uint32_t processor;
  void *local_memory;
  uint32_t local_memory_size;
} opsplice_workgroup;
