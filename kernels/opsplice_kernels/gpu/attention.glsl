// Attention of one query by a workgroup, 64 keys at a time, with the softmax on the way: scores stay in the workgroup.
//
// Who includes it declares the buffers, how many of them have a first element (COLUMNS) and what becomes of a product of a
// query and a key: `score_of`.
#extension GL_GOOGLE_include_directive : require
#include "group.glsl"

const uint WIDEST = 256, EACH = WIDEST / THREADS;
const float INFINITE = 1.0 / 0.0;
shared float query[WIDEST], weights[THREADS];

void main() {
  uint row = gl_WorkGroupID.y, at = gl_WorkGroupID.x * COLUMNS;
  for (uint i = thread(); i < d; i += THREADS) query[i] = q[first[at] + row * q_m + i * q_d];
  float sums[EACH], total = 0, peak = -INFINITE;
  for (uint i = 0; i < EACH; ++i) sums[i] = 0;
  for (uint from = 0; from < n; from += THREADS) {
    barrier();
    uint key = from + thread();
    float score = -INFINITE;
    if (key < n) {
      score = 0;
      for (uint i = 0; i < d; ++i) score += query[i] * k[first[at + 1] + key * k_n + i * k_d];
      score = score_of(score, row, key, at);
    }
    float found = greatest(score), higher = found > peak || isnan(found) ? found : peak;
    float under = higher == -INFINITE ? 0 : higher, shrink = exp(peak - under);
    float weight = key < n ? exp(score - under) : 0;
    weights[thread()] = weight;
    total = total * shrink + summed(weight);
    uint keys = min(THREADS, n - from);
    for (uint i = 0; i < EACH; ++i) {
      uint column = i * THREADS + thread();
      if (column < e) {
        float sum = sums[i] * shrink;
        for (uint j = 0; j < keys; ++j) sum += weights[j] * v[first[at + 2] + (from + j) * v_n + column * v_e];
        sums[i] = sum;
      }
    }
    peak = higher;
  }
  // Of a row all of whose scores are minus infinity, or with `zeros` 2 of any that is no number.
  bool is_zero = zeros != 0 && peak == -INFINITE || zeros == 2 && isnan(total);
  for (uint i = 0; i < EACH; ++i) {
    uint column = i * THREADS + thread();
    float value = is_zero ? 0 : sums[i] / total;
    if (column < e) result[first[at + COLUMNS - 1] + row * out_m + column * out_e] = value;
  }
}
