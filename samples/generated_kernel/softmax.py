"""Writes the softmax of a row: in straight lines where the row's length is known and short, else in loops."""

from __future__ import annotations

from opsplice.generating import Request

SHORT = 16

C = """\
#include <stddef.h>

static float power(float x) {{
  if (x < -87.0f) return 0.0f;
  int k = (int)(x * 1.44269504f - 0.5f);
  float r = x - (float)k * 0.693359375f - (float)k * -2.12194440e-4f;
  float p = 1 + r * (1 + r * (1 / 2.f + r * (1 / 6.f + r * (1 / 24.f + r * (1 / 120.f + r / 720.f)))));
  union {{ unsigned bits; float value; }} scale = {{(unsigned)(k + 127) << 23}};
  return p * scale.value;
}}

void {name}(const float *restrict x, float *restrict out, size_t m, size_t n, size_t row) {{
  x += row * {n};
  out += row * {n};
  float peak = x[0], sum = 0;
{body}}}
"""

GLSL = """\
#version 450
layout(local_size_x = 1) in;
layout(set = 0, binding = 0) readonly buffer X {{ float values[]; }};
layout(set = 0, binding = 1) buffer Out {{ float results[]; }};
layout(push_constant) uniform P {{ uint m, n; }};
void main() {{
  uint at = gl_WorkGroupID.x * {n};
  float peak = values[at], sum = 0;
  for (uint i = 0; i < {n}; ++i) peak = max(peak, values[at + i]);
  for (uint i = 0; i < {n}; ++i) sum += exp(values[at + i] - peak);
  for (uint i = 0; i < {n}; ++i) results[at + i] = exp(values[at + i] - peak) / sum;
}}
"""


def row_softmax(request: Request) -> tuple[str, str]:
    n = request.dims["n"]
    if request.target == "vulkan":
        return GLSL.format(n="n" if n is None else n), ".comp"
    if n is not None and n <= SHORT:
        steps = [f"if (x[{i}] > peak) peak = x[{i}];" for i in range(1, n)]
        steps += [f"float e{i} = power(x[{i}] - peak);" for i in range(n)]
        steps += [f"sum = {' + '.join(f'e{i}' for i in range(n))};"]
        steps += [f"out[{i}] = e{i} / sum;" for i in range(n)]
    else:
        loop = f"for (size_t i = 0; i < {'n' if n is None else n}; ++i)"
        steps = [f"{loop} if (x[i] > peak) peak = x[i];"]
        steps += [f"{loop} sum += out[i] = power(x[i] - peak);"]
        steps += [f"{loop} out[i] /= sum;"]
    body = "".join(f"  {step}\n" for step in steps)
    return C.format(name=request.name, n="n" if n is None else n, body=body), ".c"
