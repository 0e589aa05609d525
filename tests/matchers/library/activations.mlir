func.func public @relu(%arg0: tensor<8x32xf32>) -> (tensor<8x32xf32>) {
  %0 = call @relu_relu(%arg0) : (tensor<8x32xf32>) -> tensor<8x32xf32>
  return %0 : tensor<8x32xf32>
}
func.func private @relu_relu(%arg0: tensor<8x32xf32>) -> tensor<8x32xf32> {
  %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<8x32xf32>
  %1 = stablehlo.maximum %arg0, %0 : tensor<8x32xf32>
  return %1 : tensor<8x32xf32>
}

func.func public @relu_where(%arg0: tensor<8x32xf32>) -> (tensor<8x32xf32>) {
  %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<8x32xf32>
  %1 = stablehlo.compare GT, %arg0, %0, FLOAT : (tensor<8x32xf32>, tensor<8x32xf32>) -> tensor<8x32xi1>
  %2 = call @relu_where__where(%1, %arg0, %cst) : (tensor<8x32xi1>, tensor<8x32xf32>, tensor<f32>) -> tensor<8x32xf32>
  return %2 : tensor<8x32xf32>
}
func.func private @relu_where__where(%arg0: tensor<8x32xi1>, %arg1: tensor<8x32xf32>, %arg2: tensor<f32>) -> tensor<8x32xf32> {
  %0 = stablehlo.convert %arg2 : tensor<f32>
  %1 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<8x32xf32>
  %2 = stablehlo.select %arg0, %arg1, %1 : tensor<8x32xi1>, tensor<8x32xf32>
  return %2 : tensor<8x32xf32>
}

func.func public @sigmoid(%arg0: tensor<8x32xf32>) -> (tensor<8x32xf32>) {
  %cst = stablehlo.constant dense<1.000000e+00> : tensor<f32>
  %0 = stablehlo.negate %arg0 : tensor<8x32xf32>
  %1 = stablehlo.exponential %0 : tensor<8x32xf32>
  %2 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<8x32xf32>
  %3 = stablehlo.add %2, %1 : tensor<8x32xf32>
  %4 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<8x32xf32>
  %5 = stablehlo.divide %4, %3 : tensor<8x32xf32>
  return %5 : tensor<8x32xf32>
}

func.func public @silu(%arg0: tensor<8x32xf32>) -> (tensor<8x32xf32>) {
  %0 = call @silu_silu(%arg0) : (tensor<8x32xf32>) -> tensor<8x32xf32>
  return %0 : tensor<8x32xf32>
}
func.func private @silu_silu(%arg0: tensor<8x32xf32>) -> tensor<8x32xf32> {
  %cst = stablehlo.constant dense<1.000000e+00> : tensor<f32>
  %0 = stablehlo.negate %arg0 : tensor<8x32xf32>
  %1 = stablehlo.exponential %0 : tensor<8x32xf32>
  %2 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<8x32xf32>
  %3 = stablehlo.add %2, %1 : tensor<8x32xf32>
  %4 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<8x32xf32>
  %5 = stablehlo.divide %4, %3 : tensor<8x32xf32>
  %6 = stablehlo.multiply %arg0, %5 : tensor<8x32xf32>
  return %6 : tensor<8x32xf32>
}

func.func public @silu_quotient(%arg0: tensor<8x32xf32>) -> (tensor<8x32xf32>) {
  %cst = stablehlo.constant dense<1.000000e+00> : tensor<f32>
  %0 = stablehlo.negate %arg0 : tensor<8x32xf32>
  %1 = stablehlo.exponential %0 : tensor<8x32xf32>
  %2 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<8x32xf32>
  %3 = stablehlo.add %2, %1 : tensor<8x32xf32>
  %4 = stablehlo.divide %arg0, %3 : tensor<8x32xf32>
  return %4 : tensor<8x32xf32>
}

func.func public @gelu_tanh(%arg0: tensor<8x32xf32>) -> (tensor<8x32xf32>) {
  %cst = stablehlo.constant dense<5.000000e-01> : tensor<f32>
  %cst_0 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
  %cst_1 = stablehlo.constant dense<0.797884583> : tensor<f32>
  %cst_2 = stablehlo.constant dense<4.471500e-02> : tensor<f32>
  %0 = stablehlo.multiply %arg0, %arg0 : tensor<8x32xf32>
  %1 = stablehlo.multiply %0, %arg0 : tensor<8x32xf32>
  %2 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<8x32xf32>
  %3 = stablehlo.multiply %2, %1 : tensor<8x32xf32>
  %4 = stablehlo.add %arg0, %3 : tensor<8x32xf32>
  %5 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<8x32xf32>
  %6 = stablehlo.multiply %5, %4 : tensor<8x32xf32>
  %7 = stablehlo.tanh %6 : tensor<8x32xf32>
  %8 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<8x32xf32>
  %9 = stablehlo.add %8, %7 : tensor<8x32xf32>
  %10 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<8x32xf32>
  %11 = stablehlo.multiply %10, %9 : tensor<8x32xf32>
  %12 = stablehlo.multiply %arg0, %11 : tensor<8x32xf32>
  return %12 : tensor<8x32xf32>
}

func.func public @gelu_tanh_pow(%arg0: tensor<8x32xf32>) -> (tensor<8x32xf32>) {
  %cst = stablehlo.constant dense<1.000000e+00> : tensor<f32>
  %cst_0 = stablehlo.constant dense<4.471500e-02> : tensor<f32>
  %cst_1 = stablehlo.constant dense<0.636619746> : tensor<f32>
  %cst_2 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
  %0 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<8x32xf32>
  %1 = stablehlo.multiply %0, %arg0 : tensor<8x32xf32>
  %2 = stablehlo.sqrt %cst_1 : tensor<f32>
  %3 = stablehlo.multiply %arg0, %arg0 : tensor<8x32xf32>
  %4 = stablehlo.multiply %3, %arg0 : tensor<8x32xf32>
  %5 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<8x32xf32>
  %6 = stablehlo.multiply %5, %4 : tensor<8x32xf32>
  %7 = stablehlo.add %arg0, %6 : tensor<8x32xf32>
  %8 = stablehlo.convert %2 : tensor<f32>
  %9 = stablehlo.broadcast_in_dim %8, dims = [] : (tensor<f32>) -> tensor<8x32xf32>
  %10 = stablehlo.multiply %9, %7 : tensor<8x32xf32>
  %11 = stablehlo.tanh %10 : tensor<8x32xf32>
  %12 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<8x32xf32>
  %13 = stablehlo.add %12, %11 : tensor<8x32xf32>
  %14 = stablehlo.multiply %1, %13 : tensor<8x32xf32>
  return %14 : tensor<8x32xf32>
}
