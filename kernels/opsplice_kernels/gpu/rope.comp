#version 450
// Rotary embeddings, with cosines and sines for both numbers of a pair.
#extension GL_GOOGLE_include_directive : require

layout(push_constant) uniform Words {
  uint b, m, p, h, x_m, x_p, x_h, cos_m, cos_p, cos_h, sin_m, sin_p, sin_h, out_m, out_p, out_h;
};

#include "rope.glsl"
