func.func @relu_filled(%x: tensor<8xf32>) -> tensor<8xf32> {
  %zero = arith.constant 0.0 : f32
  %zeros = arith.constant dense<0.0> : tensor<8xf32>
  %e = tensor.empty() : tensor<8xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<8xf32>) -> tensor<8xf32>
  %c = arith.cmpf ogt, %x, %zeros : tensor<8xf32>
  %r = arith.select %c, %x, %f : tensor<8xi1>, tensor<8xf32>
  return %r : tensor<8xf32>
}

func.func @relu_threshold(%x: tensor<8xf32>) -> tensor<8xf32> {
  %zero = arith.constant 0.0 : f32
  %zeros = arith.constant dense<0.0> : tensor<8xf32>
  %e = tensor.empty() : tensor<8xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<8xf32>) -> tensor<8xf32>
  %c = arith.cmpf ole, %x, %f : tensor<8xf32>
  %r = arith.select %c, %zeros, %x : tensor<8xi1>, tensor<8xf32>
  return %r : tensor<8xf32>
}
