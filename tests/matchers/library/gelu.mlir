func.func @linear_kn_bias_gelu(%x: tensor<8x32xf32>, %w: tensor<32x16xf32>, %bias: tensor<16xf32>) -> tensor<8x16xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x16xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<8x16xf32>) -> tensor<8x16xf32>
  %mm = linalg.matmul ins(%x, %w : tensor<8x32xf32>, tensor<32x16xf32>) outs(%z : tensor<8x16xf32>) -> tensor<8x16xf32>
  %wide = linalg.broadcast ins(%bias : tensor<16xf32>) outs(%e : tensor<8x16xf32>) dimensions = [0]
  %y = arith.addf %mm, %wide : tensor<8x16xf32>
  %root2 = arith.constant dense<1.41421354> : tensor<8x16xf32>
  %one = arith.constant dense<1.0> : tensor<8x16xf32>
  %half = arith.constant dense<0.5> : tensor<8x16xf32>
  %scaled = arith.divf %y, %root2 : tensor<8x16xf32>
  %erf = math.erf %scaled : tensor<8x16xf32>
  %cdf = arith.addf %erf, %one : tensor<8x16xf32>
  %halved = arith.mulf %cdf, %half : tensor<8x16xf32>
  %r = arith.mulf %y, %halved : tensor<8x16xf32>
  return %r : tensor<8x16xf32>
}

func.func @linear_nk_bias_gelu(%x: tensor<8x32xf32>, %w: tensor<16x32xf32>, %bias: tensor<16xf32>) -> tensor<8x16xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x16xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<8x16xf32>) -> tensor<8x16xf32>
  %te = tensor.empty() : tensor<32x16xf32>
  %t = linalg.transpose ins(%w : tensor<16x32xf32>) outs(%te : tensor<32x16xf32>) permutation = [1, 0]
  %mm = linalg.matmul ins(%x, %t : tensor<8x32xf32>, tensor<32x16xf32>) outs(%z : tensor<8x16xf32>) -> tensor<8x16xf32>
  %wide = linalg.broadcast ins(%bias : tensor<16xf32>) outs(%e : tensor<8x16xf32>) dimensions = [0]
  %y = arith.addf %mm, %wide : tensor<8x16xf32>
  %root2 = arith.constant dense<1.41421354> : tensor<8x16xf32>
  %one = arith.constant dense<1.0> : tensor<8x16xf32>
  %half = arith.constant dense<0.5> : tensor<8x16xf32>
  %scaled = arith.divf %y, %root2 : tensor<8x16xf32>
  %erf = math.erf %scaled : tensor<8x16xf32>
  %cdf = arith.addf %erf, %one : tensor<8x16xf32>
  %halved = arith.mulf %cdf, %half : tensor<8x16xf32>
  %r = arith.mulf %y, %halved : tensor<8x16xf32>
  return %r : tensor<8x16xf32>
}

func.func @gelu(%y: tensor<8x16xf32>) -> tensor<8x16xf32> {
  %root2 = arith.constant dense<1.41421354> : tensor<8x16xf32>
  %one = arith.constant dense<1.0> : tensor<8x16xf32>
  %half = arith.constant dense<0.5> : tensor<8x16xf32>
  %scaled = arith.divf %y, %root2 : tensor<8x16xf32>
  %erf = math.erf %scaled : tensor<8x16xf32>
  %cdf = arith.addf %erf, %one : tensor<8x16xf32>
  %halved = arith.mulf %cdf, %half : tensor<8x16xf32>
  %r = arith.mulf %y, %halved : tensor<8x16xf32>
  return %r : tensor<8x16xf32>
}
