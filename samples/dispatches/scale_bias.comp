#version 450
layout(local_size_x = 64) in;

// Buffers: the parameters in order, then the result.
layout(set = 0, binding = 0) readonly buffer X { float x[]; };
layout(set = 0, binding = 1) readonly buffer Bias { float bias[]; };
layout(set = 0, binding = 2) writeonly buffer Out { float result[]; };

// Words: the scalars in order, then the dims.
layout(push_constant) uniform Words {
  float gain;
  uint m;
  uint n;
};

void main() {
  uint i = gl_GlobalInvocationID.x, row = gl_WorkGroupID.y;
  if (i < n) result[row * n + i] = x[row * n + i] * gain + bias[i];
}
