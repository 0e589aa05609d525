// x / (1 + exp(-1.702 x)). From bitcode expf may be called: IREE brings it.
float expf(float);

float quick_gelu(float x) {
  return x / (1.0f + expf(-1.702f * x));
}
