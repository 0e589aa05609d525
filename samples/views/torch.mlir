// nn.Linear: the weight lies as [n, k], and is transposed before it is multiplied.
func.func @layer(%x: tensor<8x32xf32>, %w: tensor<16x32xf32>, %bias: tensor<16xf32>) -> tensor<8x16xf32> {
  %zero = arith.constant 0.0 : f32
  %turned = tensor.empty() : tensor<32x16xf32>
  %empty = tensor.empty() : tensor<8x16xf32>
  %t = linalg.transpose ins(%w : tensor<16x32xf32>) outs(%turned : tensor<32x16xf32>) permutation = [1, 0]
  %start = linalg.fill ins(%zero : f32) outs(%empty : tensor<8x16xf32>) -> tensor<8x16xf32>
  %y = linalg.matmul ins(%x, %t : tensor<8x32xf32>, tensor<32x16xf32>) outs(%start : tensor<8x16xf32>) -> tensor<8x16xf32>
  %b = linalg.broadcast ins(%bias : tensor<16xf32>) outs(%empty : tensor<8x16xf32>) dimensions = [0]
  %r = arith.addf %y, %b : tensor<8x16xf32>
  return %r : tensor<8x16xf32>
}
