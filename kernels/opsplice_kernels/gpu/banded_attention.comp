#version 450
// Attention where a mask follows from where queries and keys are: those from `low` to `high` places behind a query count.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_shader_8bit_storage : require

layout(binding = 0) readonly buffer Q { float q[]; };
layout(binding = 1) readonly buffer K { float k[]; };
layout(binding = 2) readonly buffer V { float v[]; };
layout(binding = 3) readonly buffer Bias { float bias[]; };
layout(binding = 4) readonly buffer Keep { uint8_t keep[]; };
layout(binding = 5) readonly buffer First { uint first[]; };
layout(binding = 6) writeonly buffer Out { float result[]; };
layout(push_constant) uniform Words {
  float scale, cap, fill;
  int zeros, low, high, added;
  uint b, m, d, n, e, q_m, q_d, k_n, k_d, v_n, v_e;
  uint has_bias, bias_m, bias_n, has_keep, keep_m, keep_n, out_m, out_e;
};

const uint COLUMNS = 6;

float score_of(float product, uint row, uint key, uint at) {
  int apart = int(key) - int(row);
  uint kept = first[at + 4] + row * keep_m + key * keep_n;
  bool is_out = apart < low || apart > high || has_keep != 0 && uint(keep[kept]) == 0;
  if (is_out && added == 0) return fill;
  float score = product * scale;
  if (cap != 0) score = cap * tanh(score / cap);
  if (has_bias != 0) score += bias[first[at + 3] + row * bias_m + key * bias_n];
  return is_out ? score + fill : score;
}

#include "attention.glsl"
