#include <math.h>
#include <stddef.h>

// w[j, l] is w_n * j + w_k * l floats behind w[0, 0].
void product(const float *x, const float *w, const float *bias, float *out, size_t m, size_t k, size_t n, size_t w_n,
             size_t w_k, size_t row) {
  (void)m;
  for (size_t j = 0; j < n; ++j) {
    float sum = bias[j];
    for (size_t l = 0; l < k; ++l) sum += x[row * k + l] * w[j * w_n + l * w_k];
    out[row * n + j] = sum;
  }
}

// One query of one head: the pointers are those of the head already.
void attend(const float *q, const float *k, const float *v, float scale, float *out, size_t b, size_t m, size_t d,
            size_t n, size_t e, size_t q_m, size_t q_d, size_t k_n, size_t k_d, size_t v_n, size_t v_e, size_t out_m,
            size_t out_e, size_t head, size_t row) {
  float weights[512], sums[128] = {0}, peak = -INFINITY, total = 0;
  (void)b, (void)m, (void)head;
  for (size_t j = 0; j < n; ++j) {
    float score = 0;
    for (size_t c = 0; c < d; ++c) score += q[row * q_m + c * q_d] * k[j * k_n + c * k_d];
    weights[j] = score * scale;
    peak = fmaxf(peak, weights[j]);
  }
  for (size_t j = 0; j < n; ++j) {
    float weight = expf(weights[j] - peak);
    total += weight;
    for (size_t c = 0; c < e; ++c) sums[c] += weight * v[j * v_n + c * v_e];
  }
  for (size_t c = 0; c < e; ++c) out[row * out_m + c * out_e] = sums[c] / total;
}
