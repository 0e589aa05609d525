#version 450
// Attention of one query by a workgroup, 64 keys at a time, with the softmax on the way: scores stay in the workgroup.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_shader_8bit_storage : require
#include "group.glsl"

layout(binding = 0) readonly buffer Q { float q[]; };
layout(binding = 1) readonly buffer K { float k[]; };
layout(binding = 2) readonly buffer V { float v[]; };
layout(binding = 3) readonly buffer Mask { float mask[]; };
layout(binding = 4) readonly buffer Bias { float bias[]; };
layout(binding = 5) readonly buffer Keep { uint8_t keep[]; };
layout(binding = 6) readonly buffer Drop { uint8_t drop[]; };
layout(binding = 7) readonly buffer First { uint first[]; };
layout(binding = 8) writeonly buffer Out { float result[]; };
layout(push_constant) uniform Words {
  float scale, cap, fill;
  int zeros;
  uint b, m, d, n, e, q_m, q_d, k_n, k_d, v_n, v_e;
  uint has_mask, mask_m, mask_n, has_bias, bias_m, bias_n;
  uint has_keep, keep_m, keep_n, has_drop, drop_m, drop_n, out_m, out_e;
};

const uint WIDEST = 256, EACH = WIDEST / THREADS;
const float INFINITE = 1.0 / 0.0;
shared float query[WIDEST], weights[THREADS];

void main() {
  uint row = gl_WorkGroupID.y, at = gl_WorkGroupID.x * 8;
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
      score *= scale;
      if (cap != 0) score = cap * tanh(score / cap);
      if (has_mask != 0) score += mask[first[at + 3] + row * mask_m + key * mask_n];
      if (has_bias != 0) score += bias[first[at + 4] + row * bias_m + key * bias_n];
      uint kept = first[at + 5] + row * keep_m + key * keep_n, dropped = first[at + 6] + row * drop_m + key * drop_n;
      if (has_keep != 0 && uint(keep[kept]) == 0) score = fill;
      if (has_drop != 0 && uint(drop[dropped]) != 0) score = fill;
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
    if (column < e) result[first[at + 7] + row * out_m + column * out_e] = value;
  }
}
