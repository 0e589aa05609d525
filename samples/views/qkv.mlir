// Attention of 4 heads. Queries, keys and values are columns of one projection; the heads are side by side in a row.
func.func @attention(%qkv: tensor<16x96xf32>) -> tensor<16x32xf32> {
  %scale = stablehlo.constant dense<0.25> : tensor<4x16x16xf32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %lowest = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %q0 = stablehlo.slice %qkv [0:16, 0:32] : (tensor<16x96xf32>) -> tensor<16x32xf32>
  %q1 = stablehlo.reshape %q0 : (tensor<16x32xf32>) -> tensor<16x4x8xf32>
  %q = stablehlo.transpose %q1, dims = [1, 0, 2] : (tensor<16x4x8xf32>) -> tensor<4x16x8xf32>
  %k0 = stablehlo.slice %qkv [0:16, 32:64] : (tensor<16x96xf32>) -> tensor<16x32xf32>
  %k1 = stablehlo.reshape %k0 : (tensor<16x32xf32>) -> tensor<16x4x8xf32>
  %k = stablehlo.transpose %k1, dims = [1, 0, 2] : (tensor<16x4x8xf32>) -> tensor<4x16x8xf32>
  %v0 = stablehlo.slice %qkv [0:16, 64:96] : (tensor<16x96xf32>) -> tensor<16x32xf32>
  %v1 = stablehlo.reshape %v0 : (tensor<16x32xf32>) -> tensor<16x4x8xf32>
  %v = stablehlo.transpose %v1, dims = [1, 0, 2] : (tensor<16x4x8xf32>) -> tensor<4x16x8xf32>
  %dots = stablehlo.dot_general %q, %k, batching_dims = [0] x [0], contracting_dims = [2] x [2] : (tensor<4x16x8xf32>, tensor<4x16x8xf32>) -> tensor<4x16x16xf32>
  %scores = stablehlo.multiply %dots, %scale : tensor<4x16x16xf32>
  %peak = stablehlo.reduce(%scores init: %lowest) applies stablehlo.maximum across dimensions = [2] : (tensor<4x16x16xf32>, tensor<f32>) -> tensor<4x16xf32>
  %peaks = stablehlo.broadcast_in_dim %peak, dims = [0, 1] : (tensor<4x16xf32>) -> tensor<4x16x16xf32>
  %below = stablehlo.subtract %scores, %peaks : tensor<4x16x16xf32>
  %e = stablehlo.exponential %below : tensor<4x16x16xf32>
  %total = stablehlo.reduce(%e init: %zero) applies stablehlo.add across dimensions = [2] : (tensor<4x16x16xf32>, tensor<f32>) -> tensor<4x16xf32>
  %totals = stablehlo.broadcast_in_dim %total, dims = [0, 1] : (tensor<4x16xf32>) -> tensor<4x16x16xf32>
  %weights = stablehlo.divide %e, %totals : tensor<4x16x16xf32>
  %heads = stablehlo.dot_general %weights, %v, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<4x16x16xf32>, tensor<4x16x8xf32>) -> tensor<4x16x8xf32>
  %rows = stablehlo.transpose %heads, dims = [1, 0, 2] : (tensor<4x16x8xf32>) -> tensor<16x4x8xf32>
  %r = stablehlo.reshape %rows : (tensor<16x4x8xf32>) -> tensor<16x32xf32>
  return %r : tensor<16x32xf32>
}
