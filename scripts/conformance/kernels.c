// Kernels in plain C, easy to read and slow. Each is one workgroup.
#include <math.h>
#include <stddef.h>

static float peak(const float *x, size_t n) {
  float found = -INFINITY;
  for (size_t i = 0; i < n; i++) found = x[i] > found || x[i] != x[i] ? x[i] : found;
  return found;
}

static float sum_exp(const float *x, size_t n, float shift) {
  float sum = 0.0f;
  for (size_t i = 0; i < n; i++) sum += expf(x[i] - shift);
  return sum;
}

static float mean(const float *x, size_t n) {
  float sum = 0.0f;
  for (size_t i = 0; i < n; i++) sum += x[i];
  return sum / n;
}

static float squares(const float *x, size_t n, float middle) {
  float sum = 0.0f;
  for (size_t i = 0; i < n; i++) sum += (x[i] - middle) * (x[i] - middle);
  return sum / n;
}

static float dot(const float *x, const float *y, size_t n, size_t stride) {
  float sum = 0.0f;
  for (size_t i = 0; i < n; i++) sum += x[i] * y[i * stride];
  return sum;
}

static float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }

void softmax_rows(const float *x, float *out, size_t m, size_t n) {
  for (size_t row = 0; row < m; row++, x += n, out += n) {
    float shift = peak(x, n), sum = sum_exp(x, n, shift);
    for (size_t i = 0; i < n; i++) out[i] = expf(x[i] - shift) / sum;
  }
}

void log_softmax_rows(const float *x, float *out, size_t m, size_t n) {
  for (size_t row = 0; row < m; row++, x += n, out += n) {
    float shift = peak(x, n), size = (float)log(sum_exp(x, n, shift));
    for (size_t i = 0; i < n; i++) out[i] = x[i] - shift - size;
  }
}

void standardize_rows(const float *x, float eps, float *out, size_t m, size_t n) {
  for (size_t row = 0; row < m; row++, x += n, out += n) {
    float middle = mean(x, n), scale = 1.0f / sqrtf(squares(x, n, middle) + eps);
    for (size_t i = 0; i < n; i++) out[i] = (x[i] - middle) * scale;
  }
}

void layernorm_rows(const float *x, const float *gain, const float *bias, float eps, float *out, size_t m, size_t n) {
  for (size_t row = 0; row < m; row++, x += n, out += n) {
    float middle = mean(x, n), scale = 1.0f / sqrtf(squares(x, n, middle) + eps);
    for (size_t i = 0; i < n; i++) out[i] = (x[i] - middle) * scale * gain[i] + bias[i];
  }
}

void rmsnorm_rows(const float *x, const float *gain, float eps, float *out, size_t m, size_t n) {
  for (size_t row = 0; row < m; row++, x += n, out += n) {
    float scale = 1.0f / sqrtf(squares(x, n, 0.0f) + eps);
    for (size_t i = 0; i < n; i++) out[i] = x[i] * scale * gain[i];
  }
}

void linear_rows(const float *x, const float *w, float *out, size_t m, size_t k, size_t n) {
  for (size_t row = 0; row < m; row++)
    for (size_t i = 0; i < n; i++) out[row * n + i] = dot(x + row * k, w + i * k, k, 1);
}

void linear_columns(const float *x, const float *w, float *out, size_t m, size_t k, size_t n) {
  for (size_t row = 0; row < m; row++)
    for (size_t i = 0; i < n; i++) out[row * n + i] = dot(x + row * k, w + i, k, n);
}

void linear_bias(const float *x, const float *w, const float *bias, float *out, size_t m, size_t k, size_t n) {
  for (size_t row = 0; row < m; row++)
    for (size_t i = 0; i < n; i++) out[row * n + i] = dot(x + row * k, w + i * k, k, 1) + bias[i];
}

// Two passes over the keys, so that no row of scores has to be kept.
void attention_plain(
    const float *q, const float *k, const float *v, float scale, float *out,
    size_t b, size_t s, size_t d, size_t t, size_t e
) {
  for (size_t batch = 0; batch < b; batch++)
    for (size_t row = 0; row < s; row++) {
      const float *query = q + (batch * s + row) * d;
      float *result = out + (batch * s + row) * e;
      float shift = -INFINITY, sum = 0.0f;
      for (size_t j = 0; j < t; j++) {
        float score = dot(query, k + (batch * t + j) * d, d, 1) * scale;
        shift = score > shift || score != score ? score : shift;
      }
      for (size_t i = 0; i < e; i++) result[i] = 0.0f;
      for (size_t j = 0; j < t; j++) {
        float weight = expf(dot(query, k + (batch * t + j) * d, d, 1) * scale - shift);
        sum += weight;
        for (size_t i = 0; i < e; i++) result[i] += weight * v[(batch * t + j) * e + i];
      }
      for (size_t i = 0; i < e; i++) result[i] /= sum;
    }
}

void silu_all(const float *x, float *out, size_t m) {
  for (size_t i = 0; i < m; i++) out[i] = x[i] * sigmoid(x[i]);
}

void sigmoid_all(const float *x, float *out, size_t m) {
  for (size_t i = 0; i < m; i++) out[i] = sigmoid(x[i]);
}

void relu_all(const float *x, float *out, size_t m) {
  for (size_t i = 0; i < m; i++) out[i] = x[i] > 0.0f || x[i] != x[i] ? x[i] : 0.0f;
}
