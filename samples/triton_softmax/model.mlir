// The softmax of the scores of four heads, over rows of 384 and of 1000 elements.

func.func @short(%x: tensor<4x128x384xf32>) -> tensor<4x128x384xf32> {
  %e = tensor.empty() : tensor<4x128x384xf32>
  %0 = linalg.softmax dimension(2) ins(%x : tensor<4x128x384xf32>) outs(%e : tensor<4x128x384xf32>) -> tensor<4x128x384xf32>
  return %0 : tensor<4x128x384xf32>
}

func.func @long(%x: tensor<4x?x1000xf32>) -> tensor<4x?x1000xf32> {
  %c1 = arith.constant 1 : index
  %m = tensor.dim %x, %c1 : tensor<4x?x1000xf32>
  %e = tensor.empty(%m) : tensor<4x?x1000xf32>
  %0 = linalg.softmax dimension(2) ins(%x : tensor<4x?x1000xf32>) outs(%e : tensor<4x?x1000xf32>) -> tensor<4x?x1000xf32>
  return %0 : tensor<4x?x1000xf32>
}
