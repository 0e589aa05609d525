// The functions of vector_math.h, for each number of an array.
#include "../../kernels/opsplice_kernels/vector_math.h"

#define FOR_EACH(function) \
  for (size_t i = 0; i < n; i += LANES) store_up_to(out + i, function(load_up_to(x + i, n - i, 0.0f)), n - i)

void opsplice_exponential(const float *x, float *out, size_t n) { FOR_EACH(exponential); }

void opsplice_exponential_below(const float *x, float *out, size_t n) { FOR_EACH(exponential_below); }

void opsplice_hyperbolic_tangent(const float *x, float *out, size_t n) { FOR_EACH(hyperbolic_tangent); }

void opsplice_logarithm(const float *x, float *out, size_t n) { FOR_EACH(logarithm); }

void opsplice_logarithm_above_one(const float *x, float *out, size_t n) { FOR_EACH(logarithm_above_one); }

void opsplice_error_function(const float *x, float *out, size_t n) { FOR_EACH(error_function); }

void opsplice_error_function_roughly(const float *x, float *out, size_t n) { FOR_EACH(error_function_roughly); }

void opsplice_sine(const float *x, float *out, size_t n) { FOR_EACH(sine); }

void opsplice_cosine(const float *x, float *out, size_t n) { FOR_EACH(cosine); }
