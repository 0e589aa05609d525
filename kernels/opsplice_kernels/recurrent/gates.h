// What recurrent layers have in common.
#ifndef OPSPLICE_KERNELS_RECURRENT_GATES_H
#define OPSPLICE_KERNELS_RECURRENT_GATES_H

#include "../tile.h"
#include "../vector_math.h"

INLINE floats sigmoid(floats x) { return 1.0f / (1.0f + exponential_up_to(88.0f, -x)); }
#endif
