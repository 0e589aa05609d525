#version 450
// The softmax of a row by a workgroup. A row's elements may lie apart.
#extension GL_GOOGLE_include_directive : require
#include "group.glsl"

layout(binding = 0) readonly buffer X { float x[]; };
layout(binding = 1) readonly buffer First { uint first[]; };
layout(binding = 2) writeonly buffer Out { float result[]; };
layout(push_constant) uniform Words { uint m, n, x_n, out_n; };

void main() {
  uint from = first[gl_WorkGroupID.x * 2], to = first[gl_WorkGroupID.x * 2 + 1];
  float peak = -1.0 / 0.0, sum = 0;
  for (uint i = thread(); i < n; i += THREADS) {
    float value = x[from + i * x_n];
    if (value > peak || isnan(value)) peak = value;
  }
  peak = greatest(peak);
  for (uint i = thread(); i < n; i += THREADS) sum += exp(x[from + i * x_n] - peak);
  sum = summed(sum);
  for (uint i = thread(); i < n; i += THREADS) result[to + i * out_n] = exp(x[from + i * x_n] - peak) / sum;
}
