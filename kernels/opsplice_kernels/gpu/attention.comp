#version 450
// Attention with masks that are tensors, or without one.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_shader_8bit_storage : require

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

const uint COLUMNS = 8;

float score_of(float product, uint row, uint key, uint at) {
  uint kept = first[at + 5] + row * keep_m + key * keep_n, dropped = first[at + 6] + row * drop_m + key * drop_n;
  if (has_keep != 0 && uint(keep[kept]) == 0 || has_drop != 0 && uint(drop[dropped]) != 0) return fill;
  float score = product * scale;
  if (cap != 0) score = cap * tanh(score / cap);
  if (has_mask != 0) score += mask[first[at + 3] + row * mask_m + key * mask_n];
  if (has_bias != 0) score += bias[first[at + 4] + row * bias_m + key * bias_n];
  return score;
}

#include "attention.glsl"
