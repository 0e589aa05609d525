// Buffers: the parameters in order, then the result.
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read> bias: array<f32>;
@group(0) @binding(2) var<storage, read_write> result: array<f32>;

// Words: the scalars in order, then the dims.
struct Words {
  gain: f32,
  m: u32,
  n: u32,
}
var<immediate> words: Words;

@compute @workgroup_size(64)
fn scale_bias(@builtin(global_invocation_id) thread: vec3<u32>) {
  let i = thread.x;
  let at = thread.y * words.n + i;
  if (i < words.n) { result[at] = x[at] * words.gain + bias[i]; }
}
