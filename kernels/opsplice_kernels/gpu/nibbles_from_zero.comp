#version 450
#define ZEROS
#extension GL_GOOGLE_include_directive : require
#include "nibbles.glsl"
