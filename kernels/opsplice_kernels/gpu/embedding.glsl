// A row by a workgroup. A number behind the last row is that row, one before the first is the first; where `from_end` says so,
// negative ones count from the end. Who includes it declares the numbers, and `id_of`.
layout(local_size_x = 64) in;
layout(binding = 0) readonly buffer Table { float w[]; };
layout(binding = 2) writeonly buffer Out { float result[]; };
layout(push_constant) uniform Words {
  int from_end;
  uint v, n, m;
};

void main() {
  int id = id_of(gl_WorkGroupID.x);
  if (from_end != 0 && id < 0) id += int(v);
  uint row = uint(clamp(id, 0, int(v) - 1));
  for (uint i = gl_LocalInvocationID.x; i < n; i += 64) result[gl_WorkGroupID.x * n + i] = w[row * n + i];
}
