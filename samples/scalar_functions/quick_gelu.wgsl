// x / (1 + exp(-1.702 x)).
fn quick_gelu(x: f32) -> f32 {
  if (x < -50.0) {
    return 0.0;
  }
  return x / (1.0 + exp(-1.702 * x));
}
