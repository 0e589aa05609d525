#version 450
// Rotary embeddings, with one cosine and one sine for both numbers of a pair.
#extension GL_GOOGLE_include_directive : require

layout(push_constant) uniform Words {
  uint b, m, p, h, x_m, x_p, x_h, cos_m, cos_h, sin_m, sin_h, out_m, out_p, out_h;
};
const uint cos_p = 0, sin_p = 0;

#include "rope.glsl"
