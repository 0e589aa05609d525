// The functions of vector.h, for each number of an array.
#include "../../kernels/opsplice_kernels/vector.h"

#define FOR_EACH(function) \
  for (size_t i = 0; i < n; i += LANES) store_up_to(out + i, function(load_up_to(x + i, n - i, 0.0f)), n - i)

void opsplice_exponential(const float *x, float *out, size_t n) { FOR_EACH(exponential); }

void opsplice_exponential_below(const float *x, float *out, size_t n) { FOR_EACH(exponential_below); }

void opsplice_error_function(const float *x, float *out, size_t n) { FOR_EACH(error_function); }
