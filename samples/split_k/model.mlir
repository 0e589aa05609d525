// The last layer of a classifier. Its weights are a parameter of the program.
util.global private @weights = dense<0.5> : tensor<4096x10xf32>

func.func @classify(%x: tensor<4x4096xf32>) -> tensor<4x10xf32> {
  %none = arith.constant 0.0 : f32
  %w = util.global.load @weights : tensor<4096x10xf32>
  %empty = tensor.empty() : tensor<4x10xf32>
  %start = linalg.fill ins(%none : f32) outs(%empty : tensor<4x10xf32>) -> tensor<4x10xf32>
  %y = linalg.matmul ins(%x, %w : tensor<4x4096xf32>, tensor<4096x10xf32>) outs(%start : tensor<4x10xf32>) -> tensor<4x10xf32>
  return %y : tensor<4x10xf32>
}
