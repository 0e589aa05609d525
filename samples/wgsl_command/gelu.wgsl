@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> result: array<f32>;

@compute @workgroup_size(64)
fn quick_gelu(@builtin(global_invocation_id) thread: vec3<u32>) {
  let i = thread.x;
  if (i < arrayLength(&x)) { result[i] = x[i] / (1.0 + exp(-1.702 * x[i])); }
}
