// Two products with an activation in between, for any number of rows.

func.func @layers(%x: tensor<?x64xf32>, %w1: tensor<64x128xf32>, %w2: tensor<128x32xf32>) -> tensor<?x32xf32> {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %rows = tensor.dim %x, %c0 : tensor<?x64xf32>
  %empty1 = tensor.empty(%rows) : tensor<?x128xf32>
  %init1 = linalg.fill ins(%zero : f32) outs(%empty1 : tensor<?x128xf32>) -> tensor<?x128xf32>
  %hidden = linalg.matmul ins(%x, %w1 : tensor<?x64xf32>, tensor<64x128xf32>)
      outs(%init1 : tensor<?x128xf32>) -> tensor<?x128xf32>
  %active = math.tanh %hidden : tensor<?x128xf32>
  %empty2 = tensor.empty(%rows) : tensor<?x32xf32>
  %init2 = linalg.fill ins(%zero : f32) outs(%empty2 : tensor<?x32xf32>) -> tensor<?x32xf32>
  %result = linalg.matmul ins(%active, %w2 : tensor<?x128xf32>, tensor<128x32xf32>)
      outs(%init2 : tensor<?x32xf32>) -> tensor<?x32xf32>
  return %result : tensor<?x32xf32>
}
