func.func public @attention_scaled_by_head(%q: tensor<2x3x5x4xf32>, %k: tensor<2x3x7x4xf32>, %v: tensor<2x3x7x6xf32>, %scale: tensor<3xf32>) -> tensor<2x3x5x6xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %lowest = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %0 = stablehlo.dot_general %q, %k, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [3] : (tensor<2x3x5x4xf32>, tensor<2x3x7x4xf32>) -> tensor<2x3x5x7xf32>
  %factor = stablehlo.broadcast_in_dim %scale, dims = [1] : (tensor<3xf32>) -> tensor<2x3x5x7xf32>
  %scaled = stablehlo.multiply %0, %factor : tensor<2x3x5x7xf32>
  %peak = stablehlo.reduce(%scaled init: %lowest) applies stablehlo.maximum across dimensions = [3] : (tensor<2x3x5x7xf32>, tensor<f32>) -> tensor<2x3x5xf32>
  %peaks = stablehlo.broadcast_in_dim %peak, dims = [0, 1, 2] : (tensor<2x3x5xf32>) -> tensor<2x3x5x7xf32>
  %off = stablehlo.subtract %scaled, %peaks : tensor<2x3x5x7xf32>
  %e = stablehlo.exponential %off : tensor<2x3x5x7xf32>
  %total = stablehlo.reduce(%e init: %zero) applies stablehlo.add across dimensions = [3] : (tensor<2x3x5x7xf32>, tensor<f32>) -> tensor<2x3x5xf32>
  %totals = stablehlo.broadcast_in_dim %total, dims = [0, 1, 2] : (tensor<2x3x5xf32>) -> tensor<2x3x5x7xf32>
  %p = stablehlo.divide %e, %totals : tensor<2x3x5x7xf32>
  %r = stablehlo.dot_general %p, %v, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2] : (tensor<2x3x5x7xf32>, tensor<2x3x7x6xf32>) -> tensor<2x3x5x6xf32>
  return %r : tensor<2x3x5x6xf32>
}

func.func public @attention_vt_scaled_biased_by_head(%q: tensor<2x3x5x4xf32>, %k: tensor<2x3x4x7xf32>, %v: tensor<2x3x6x7xf32>, %scale: tensor<3xf32>, %bias: tensor<3x5x7xf32>) -> tensor<2x3x6x5xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %lowest = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %0 = stablehlo.dot_general %q, %k, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2] : (tensor<2x3x5x4xf32>, tensor<2x3x4x7xf32>) -> tensor<2x3x5x7xf32>
  %factor = stablehlo.broadcast_in_dim %scale, dims = [1] : (tensor<3xf32>) -> tensor<2x3x5x7xf32>
  %scaled = stablehlo.multiply %0, %factor : tensor<2x3x5x7xf32>
  %wide_bias = stablehlo.broadcast_in_dim %bias, dims = [1, 2, 3] : (tensor<3x5x7xf32>) -> tensor<2x3x5x7xf32>
  %after_bias = stablehlo.add %scaled, %wide_bias : tensor<2x3x5x7xf32>
  %peak = stablehlo.reduce(%after_bias init: %lowest) applies stablehlo.maximum across dimensions = [3] : (tensor<2x3x5x7xf32>, tensor<f32>) -> tensor<2x3x5xf32>
  %peaks = stablehlo.broadcast_in_dim %peak, dims = [0, 1, 2] : (tensor<2x3x5xf32>) -> tensor<2x3x5x7xf32>
  %off = stablehlo.subtract %after_bias, %peaks : tensor<2x3x5x7xf32>
  %e = stablehlo.exponential %off : tensor<2x3x5x7xf32>
  %total = stablehlo.reduce(%e init: %zero) applies stablehlo.add across dimensions = [3] : (tensor<2x3x5x7xf32>, tensor<f32>) -> tensor<2x3x5xf32>
  %totals = stablehlo.broadcast_in_dim %total, dims = [0, 1, 2] : (tensor<2x3x5xf32>) -> tensor<2x3x5x7xf32>
  %p = stablehlo.divide %e, %totals : tensor<2x3x5x7xf32>
  %r = stablehlo.dot_general %v, %p, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [3] : (tensor<2x3x6x7xf32>, tensor<2x3x5x7xf32>) -> tensor<2x3x6x5xf32>
  return %r : tensor<2x3x6x5xf32>
}

func.func public @attention_vt_biased_by_head_masked_by_key_unscaled(%q: tensor<2x3x5x4xf32>, %k: tensor<2x3x4x7xf32>, %v: tensor<2x3x6x7xf32>, %bias: tensor<3x5x7xf32>, %mask: tensor<2x7xf32>) -> tensor<2x3x6x5xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %lowest = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %0 = stablehlo.dot_general %q, %k, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2] : (tensor<2x3x5x4xf32>, tensor<2x3x4x7xf32>) -> tensor<2x3x5x7xf32>
  %wide_bias = stablehlo.broadcast_in_dim %bias, dims = [1, 2, 3] : (tensor<3x5x7xf32>) -> tensor<2x3x5x7xf32>
  %after_bias = stablehlo.add %0, %wide_bias : tensor<2x3x5x7xf32>
  %wide_mask = stablehlo.broadcast_in_dim %mask, dims = [0, 3] : (tensor<2x7xf32>) -> tensor<2x3x5x7xf32>
  %after_mask = stablehlo.add %after_bias, %wide_mask : tensor<2x3x5x7xf32>
  %peak = stablehlo.reduce(%after_mask init: %lowest) applies stablehlo.maximum across dimensions = [3] : (tensor<2x3x5x7xf32>, tensor<f32>) -> tensor<2x3x5xf32>
  %peaks = stablehlo.broadcast_in_dim %peak, dims = [0, 1, 2] : (tensor<2x3x5xf32>) -> tensor<2x3x5x7xf32>
  %off = stablehlo.subtract %after_mask, %peaks : tensor<2x3x5x7xf32>
  %e = stablehlo.exponential %off : tensor<2x3x5x7xf32>
  %total = stablehlo.reduce(%e init: %zero) applies stablehlo.add across dimensions = [3] : (tensor<2x3x5x7xf32>, tensor<f32>) -> tensor<2x3x5xf32>
  %totals = stablehlo.broadcast_in_dim %total, dims = [0, 1, 2] : (tensor<2x3x5xf32>) -> tensor<2x3x5x7xf32>
  %p = stablehlo.divide %e, %totals : tensor<2x3x5x7xf32>
  %r = stablehlo.dot_general %v, %p, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [3] : (tensor<2x3x6x7xf32>, tensor<2x3x5x7xf32>) -> tensor<2x3x6x5xf32>
  return %r : tensor<2x3x6x5xf32>
}
