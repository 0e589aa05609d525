// Pairs of numbers turned by the angle of their place: a pair by a thread. Who includes it declares the strides.
layout(local_size_x = 64) in;
layout(binding = 0) readonly buffer X { float x[]; };
layout(binding = 1) readonly buffer Cosines { float cosines[]; };
layout(binding = 2) readonly buffer Sines { float sines[]; };
layout(binding = 3) readonly buffer First { uint first[]; };
layout(binding = 4) writeonly buffer Out { float result[]; };

void main() {
  uint at = gl_WorkGroupID.x * 4, own = gl_GlobalInvocationID.y * 64 + gl_LocalInvocationID.x;
  if (own >= m * h) return;
  uint i = own / h, j = own % h;
  uint from = first[at] + i * x_m + j * x_h, to = first[at + 3] + i * out_m + j * out_h;
  uint c = first[at + 1] + i * cos_m + j * cos_h, s = first[at + 2] + i * sin_m + j * sin_h;
  float one = x[from], other = x[from + x_p];
  result[to] = one * cosines[c] - other * sines[s];
  result[to + out_p] = other * cosines[c + cos_p] + one * sines[s + sin_p];
}
