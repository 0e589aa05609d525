#version 450
// A number of a product with weights of four bits in blocks of a scale each, by a workgroup.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_shader_8bit_storage : require
#include "group.glsl"

layout(binding = 0) readonly buffer X { float x[]; };
layout(binding = 1) readonly buffer W { uint8_t w[]; };
layout(binding = 2) readonly buffer Scale { float scale[]; };
layout(binding = 3) readonly buffer Zero { uint8_t zero[]; };
layout(binding = 4) readonly buffer Bias { float bias[]; };
layout(binding = 5) writeonly buffer Out { float result[]; };
layout(push_constant) uniform Words { uint m, b, j, n, has_zero, has_bias; };

float zero_of(uint block) { return has_zero != 0 ? float(int(uint(zero[block]) << 24) >> 24) : 8; }

void main() {
  uint column = gl_WorkGroupID.x, row = gl_WorkGroupID.y, k = b * j;
  float sum = 0;
  for (uint at = thread() * 2; at < k; at += THREADS * 2) {
    uint pair = uint(w[(column * k + at) / 2]), block = column * b + at / j;
    float from = zero_of(block), low = float(pair & 15) - from, high = float(pair >> 4) - from;
    sum += (x[row * k + at] * low + x[row * k + at + 1] * high) * scale[block];
  }
  sum = summed(sum);
  if (thread() == 0) result[row * n + column] = sum + (has_bias != 0 ? bias[column] : 0);
}
