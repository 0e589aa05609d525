// A layer or RMS norm of a row by a workgroup. A row's elements may lie apart.
#extension GL_GOOGLE_include_directive : require
#include "group.glsl"

layout(binding = 0) readonly buffer X { float x[]; };
layout(binding = 1) readonly buffer Gain { float gain[]; };
#ifdef CENTERED
layout(binding = 2) readonly buffer Bias { float bias[]; };
layout(binding = 3) readonly buffer First { uint first[]; };
layout(binding = 4) writeonly buffer Out { float result[]; };
layout(push_constant) uniform Words { float eps; uint m, n, x_n, has_gain, has_bias, out_n; };
#else
layout(binding = 2) readonly buffer First { uint first[]; };
layout(binding = 3) writeonly buffer Out { float result[]; };
layout(push_constant) uniform Words { float eps; uint m, n, x_n, out_n; };
const uint has_gain = 1;
#endif

void main() {
  uint from = first[gl_WorkGroupID.x * 2], to = first[gl_WorkGroupID.x * 2 + 1];
  float mean = 0, squares = 0;
#ifdef CENTERED
  for (uint i = thread(); i < n; i += THREADS) mean += x[from + i * x_n];
  mean = summed(mean) / float(n);
#endif
  for (uint i = thread(); i < n; i += THREADS) {
    float off = x[from + i * x_n] - mean;
    squares += off * off;
  }
  float scale = 1.0 / sqrt(summed(squares) / float(n) + eps);
  for (uint i = thread(); i < n; i += THREADS) {
    float value = (x[from + i * x_n] - mean) * scale;
    if (has_gain != 0) value *= gain[i];
#ifdef CENTERED
    if (has_bias != 0) value += bias[i];
#endif
    result[to + i * out_n] = value;
  }
}
