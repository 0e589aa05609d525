// What a CUDA kernel needs of the language when clang builds it without NVIDIA's headers. It is included before the
// kernel; nvcc and NVRTC bring all this along. Mathematics beyond what the hardware has (expf) needs these two.
#ifndef OPSPLICE_CUDA_H
#define OPSPLICE_CUDA_H

#include "opsplice_gpu.h"

#define OPSPLICE_EACH(reg) \
  __nvvm_read_ptx_sreg_##reg##_x(), __nvvm_read_ptx_sreg_##reg##_y(), __nvvm_read_ptx_sreg_##reg##_z()
OPSPLICE_INDEX_OF(threadIdx, OPSPLICE_EACH(tid));
OPSPLICE_INDEX_OF(blockIdx, OPSPLICE_EACH(ctaid));
OPSPLICE_INDEX_OF(blockDim, OPSPLICE_EACH(ntid));
OPSPLICE_INDEX_OF(gridDim, OPSPLICE_EACH(nctaid));

OPSPLICE_FUNCTION(float) sqrtf(float x) { return __nvvm_sqrt_rn_f(x); }
OPSPLICE_FUNCTION(float) rsqrtf(float x) { return __nvvm_rsqrt_approx_f(x); }
OPSPLICE_FUNCTION(float) __expf(float x) { return __nvvm_ex2_approx_f(x * 1.44269504f); }
OPSPLICE_FUNCTION(float) __logf(float x) { return __nvvm_lg2_approx_f(x) * 0.693147181f; }
OPSPLICE_FUNCTION(float) __int_as_float(int x) { return __builtin_bit_cast(float, x); }
OPSPLICE_FUNCTION(int) __float_as_int(float x) { return __builtin_bit_cast(int, x); }
#undef OPSPLICE_FUNCTION

#endif
