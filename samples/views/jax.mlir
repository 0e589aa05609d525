// x @ w + bias: the weight lies as [k, n].
func.func @layer(%x: tensor<8x32xf32>, %w: tensor<32x16xf32>, %bias: tensor<16xf32>) -> tensor<8x16xf32> {
  %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<8x32xf32>, tensor<32x16xf32>) -> tensor<8x16xf32>
  %b = stablehlo.broadcast_in_dim %bias, dims = [1] : (tensor<16xf32>) -> tensor<8x16xf32>
  %r = stablehlo.add %y, %b : tensor<8x16xf32>
  return %r : tensor<8x16xf32>
}
