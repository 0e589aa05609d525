#include <cblas.h>
#include <stddef.h>

void sgemm(const float *a, const float *b, float *out, size_t m, size_t k, size_t n) {
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, m, n, k, 1, a, k, b, n, 0, out, n);
}
