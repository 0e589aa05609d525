#version 450
#define CENTERED
#extension GL_GOOGLE_include_directive : require
#include "norm.glsl"
