#version 450
// Rows of a table by their numbers of 32 bits: a row by a workgroup.
#extension GL_GOOGLE_include_directive : require

layout(binding = 1) readonly buffer Ids { int ids[]; };

// The number of a row, which is near the ends of the table where it is far outside of it.
int id_of(uint at) {
  return ids[at];
}

#include "embedding.glsl"
