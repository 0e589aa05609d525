func.func public @linear_kn_bias(%arg0: tensor<2x8x32xf32>, %arg1: tensor<32x16xf32>, %arg2: tensor<16xf32>) -> (tensor<2x8x16xf32>) {
  %0 = stablehlo.dot_general %arg0, %arg1, contracting_dims = [2] x [0] : (tensor<2x8x32xf32>, tensor<32x16xf32>) -> tensor<2x8x16xf32>
  %1 = stablehlo.broadcast_in_dim %arg2, dims = [2] : (tensor<16xf32>) -> tensor<1x1x16xf32>
  %2 = stablehlo.broadcast_in_dim %1, dims = [0, 1, 2] : (tensor<1x1x16xf32>) -> tensor<2x8x16xf32>
  %3 = stablehlo.add %0, %2 : tensor<2x8x16xf32>
  return %3 : tensor<2x8x16xf32>
}

func.func public @linear_nk_bias(%arg0: tensor<2x8x32xf32>, %arg1: tensor<16x32xf32>, %arg2: tensor<16xf32>) -> (tensor<2x8x16xf32>) {
  %0 = stablehlo.transpose %arg1, dims = [1, 0] : (tensor<16x32xf32>) -> tensor<32x16xf32>
  %1 = stablehlo.dot_general %arg0, %0, contracting_dims = [2] x [0] : (tensor<2x8x32xf32>, tensor<32x16xf32>) -> tensor<2x8x16xf32>
  %2 = stablehlo.broadcast_in_dim %arg2, dims = [2] : (tensor<16xf32>) -> tensor<1x1x16xf32>
  %3 = stablehlo.broadcast_in_dim %2, dims = [0, 1, 2] : (tensor<1x1x16xf32>) -> tensor<2x8x16xf32>
  %4 = stablehlo.add %3, %1 : tensor<2x8x16xf32>
  return %4 : tensor<2x8x16xf32>
}

func.func public @linear_kn_bias_relu(%arg0: tensor<2x8x32xf32>, %arg1: tensor<32x16xf32>, %arg2: tensor<16xf32>) -> (tensor<2x8x16xf32>) {
  %0 = stablehlo.dot_general %arg0, %arg1, contracting_dims = [2] x [0] : (tensor<2x8x32xf32>, tensor<32x16xf32>) -> tensor<2x8x16xf32>
  %1 = stablehlo.broadcast_in_dim %arg2, dims = [2] : (tensor<16xf32>) -> tensor<1x1x16xf32>
  %2 = stablehlo.broadcast_in_dim %1, dims = [0, 1, 2] : (tensor<1x1x16xf32>) -> tensor<2x8x16xf32>
  %3 = stablehlo.add %0, %2 : tensor<2x8x16xf32>
  %4 = call @linear_kn_bias_relu_relu(%3) : (tensor<2x8x16xf32>) -> tensor<2x8x16xf32>
  return %4 : tensor<2x8x16xf32>
}
func.func private @linear_kn_bias_relu_relu(%arg0: tensor<2x8x16xf32>) -> tensor<2x8x16xf32> {
  %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<2x8x16xf32>
  %1 = stablehlo.maximum %arg0, %0 : tensor<2x8x16xf32>
  return %1 : tensor<2x8x16xf32>
}

func.func public @linear_nk_bias_relu(%arg0: tensor<2x8x32xf32>, %arg1: tensor<16x32xf32>, %arg2: tensor<16xf32>) -> (tensor<2x8x16xf32>) {
  %0 = stablehlo.transpose %arg1, dims = [1, 0] : (tensor<16x32xf32>) -> tensor<32x16xf32>
  %1 = stablehlo.dot_general %arg0, %0, contracting_dims = [2] x [0] : (tensor<2x8x32xf32>, tensor<32x16xf32>) -> tensor<2x8x16xf32>
  %2 = stablehlo.broadcast_in_dim %arg2, dims = [2] : (tensor<16xf32>) -> tensor<1x1x16xf32>
  %3 = stablehlo.broadcast_in_dim %2, dims = [0, 1, 2] : (tensor<1x1x16xf32>) -> tensor<2x8x16xf32>
  %4 = stablehlo.add %3, %1 : tensor<2x8x16xf32>
  %5 = call @linear_nk_bias_relu_relu(%4) : (tensor<2x8x16xf32>) -> tensor<2x8x16xf32>
  return %5 : tensor<2x8x16xf32>
}
func.func private @linear_nk_bias_relu_relu(%arg0: tensor<2x8x16xf32>) -> tensor<2x8x16xf32> {
  %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<2x8x16xf32>
  %1 = stablehlo.maximum %arg0, %0 : tensor<2x8x16xf32>
  return %1 : tensor<2x8x16xf32>
}

func.func public @linear_kn_bias_gelu_tanh(%arg0: tensor<2x8x32xf32>, %arg1: tensor<32x16xf32>, %arg2: tensor<16xf32>) -> (tensor<2x8x16xf32>) {
  %cst = stablehlo.constant dense<5.000000e-01> : tensor<f32>
  %cst_0 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
  %cst_1 = stablehlo.constant dense<0.797884583> : tensor<f32>
  %cst_2 = stablehlo.constant dense<4.471500e-02> : tensor<f32>
  %0 = stablehlo.dot_general %arg0, %arg1, contracting_dims = [2] x [0] : (tensor<2x8x32xf32>, tensor<32x16xf32>) -> tensor<2x8x16xf32>
  %1 = stablehlo.broadcast_in_dim %arg2, dims = [2] : (tensor<16xf32>) -> tensor<1x1x16xf32>
  %2 = stablehlo.broadcast_in_dim %1, dims = [0, 1, 2] : (tensor<1x1x16xf32>) -> tensor<2x8x16xf32>
  %3 = stablehlo.add %0, %2 : tensor<2x8x16xf32>
  %4 = stablehlo.multiply %3, %3 : tensor<2x8x16xf32>
  %5 = stablehlo.multiply %4, %3 : tensor<2x8x16xf32>
  %6 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<2x8x16xf32>
  %7 = stablehlo.multiply %6, %5 : tensor<2x8x16xf32>
  %8 = stablehlo.add %3, %7 : tensor<2x8x16xf32>
  %9 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<2x8x16xf32>
  %10 = stablehlo.multiply %9, %8 : tensor<2x8x16xf32>
  %11 = stablehlo.tanh %10 : tensor<2x8x16xf32>
  %12 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<2x8x16xf32>
  %13 = stablehlo.add %12, %11 : tensor<2x8x16xf32>
  %14 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<2x8x16xf32>
  %15 = stablehlo.multiply %14, %13 : tensor<2x8x16xf32>
  %16 = stablehlo.multiply %3, %15 : tensor<2x8x16xf32>
  return %16 : tensor<2x8x16xf32>
}

func.func public @linear_nk_bias_gelu_tanh(%arg0: tensor<2x8x32xf32>, %arg1: tensor<16x32xf32>, %arg2: tensor<16xf32>) -> (tensor<2x8x16xf32>) {
  %cst = stablehlo.constant dense<5.000000e-01> : tensor<f32>
  %cst_0 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
  %cst_1 = stablehlo.constant dense<0.797884583> : tensor<f32>
  %cst_2 = stablehlo.constant dense<4.471500e-02> : tensor<f32>
  %0 = stablehlo.transpose %arg1, dims = [1, 0] : (tensor<16x32xf32>) -> tensor<32x16xf32>
  %1 = stablehlo.dot_general %arg0, %0, contracting_dims = [2] x [0] : (tensor<2x8x32xf32>, tensor<32x16xf32>) -> tensor<2x8x16xf32>
  %2 = stablehlo.broadcast_in_dim %arg2, dims = [2] : (tensor<16xf32>) -> tensor<1x1x16xf32>
  %3 = stablehlo.broadcast_in_dim %2, dims = [0, 1, 2] : (tensor<1x1x16xf32>) -> tensor<2x8x16xf32>
  %4 = stablehlo.add %3, %1 : tensor<2x8x16xf32>
  %5 = stablehlo.multiply %4, %4 : tensor<2x8x16xf32>
  %6 = stablehlo.multiply %5, %4 : tensor<2x8x16xf32>
  %7 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<2x8x16xf32>
  %8 = stablehlo.multiply %7, %6 : tensor<2x8x16xf32>
  %9 = stablehlo.add %4, %8 : tensor<2x8x16xf32>
  %10 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<2x8x16xf32>
  %11 = stablehlo.multiply %10, %9 : tensor<2x8x16xf32>
  %12 = stablehlo.tanh %11 : tensor<2x8x16xf32>
  %13 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<2x8x16xf32>
  %14 = stablehlo.add %13, %12 : tensor<2x8x16xf32>
  %15 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<2x8x16xf32>
  %16 = stablehlo.multiply %15, %14 : tensor<2x8x16xf32>
  %17 = stablehlo.multiply %4, %16 : tensor<2x8x16xf32>
  return %17 : tensor<2x8x16xf32>
}

func.func public @linear_kn_bias_silu(%arg0: tensor<2x8x32xf32>, %arg1: tensor<32x16xf32>, %arg2: tensor<16xf32>) -> (tensor<2x8x16xf32>) {
  %0 = stablehlo.dot_general %arg0, %arg1, contracting_dims = [2] x [0] : (tensor<2x8x32xf32>, tensor<32x16xf32>) -> tensor<2x8x16xf32>
  %1 = stablehlo.broadcast_in_dim %arg2, dims = [2] : (tensor<16xf32>) -> tensor<1x1x16xf32>
  %2 = stablehlo.broadcast_in_dim %1, dims = [0, 1, 2] : (tensor<1x1x16xf32>) -> tensor<2x8x16xf32>
  %3 = stablehlo.add %0, %2 : tensor<2x8x16xf32>
  %4 = call @linear_kn_bias_silu_silu(%3) : (tensor<2x8x16xf32>) -> tensor<2x8x16xf32>
  return %4 : tensor<2x8x16xf32>
}
func.func private @linear_kn_bias_silu_silu(%arg0: tensor<2x8x16xf32>) -> tensor<2x8x16xf32> {
  %cst = stablehlo.constant dense<1.000000e+00> : tensor<f32>
  %0 = stablehlo.negate %arg0 : tensor<2x8x16xf32>
  %1 = stablehlo.exponential %0 : tensor<2x8x16xf32>
  %2 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<2x8x16xf32>
  %3 = stablehlo.add %2, %1 : tensor<2x8x16xf32>
  %4 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<2x8x16xf32>
  %5 = stablehlo.divide %4, %3 : tensor<2x8x16xf32>
  %6 = stablehlo.multiply %arg0, %5 : tensor<2x8x16xf32>
  return %6 : tensor<2x8x16xf32>
}

func.func public @linear_nk_bias_silu(%arg0: tensor<2x8x32xf32>, %arg1: tensor<16x32xf32>, %arg2: tensor<16xf32>) -> (tensor<2x8x16xf32>) {
  %0 = stablehlo.transpose %arg1, dims = [1, 0] : (tensor<16x32xf32>) -> tensor<32x16xf32>
  %1 = stablehlo.dot_general %arg0, %0, contracting_dims = [2] x [0] : (tensor<2x8x32xf32>, tensor<32x16xf32>) -> tensor<2x8x16xf32>
  %2 = stablehlo.broadcast_in_dim %arg2, dims = [2] : (tensor<16xf32>) -> tensor<1x1x16xf32>
  %3 = stablehlo.broadcast_in_dim %2, dims = [0, 1, 2] : (tensor<1x1x16xf32>) -> tensor<2x8x16xf32>
  %4 = stablehlo.add %3, %1 : tensor<2x8x16xf32>
  %5 = call @linear_nk_bias_silu_silu(%4) : (tensor<2x8x16xf32>) -> tensor<2x8x16xf32>
  return %5 : tensor<2x8x16xf32>
}
func.func private @linear_nk_bias_silu_silu(%arg0: tensor<2x8x16xf32>) -> tensor<2x8x16xf32> {
  %cst = stablehlo.constant dense<1.000000e+00> : tensor<f32>
  %0 = stablehlo.negate %arg0 : tensor<2x8x16xf32>
  %1 = stablehlo.exponential %0 : tensor<2x8x16xf32>
  %2 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<2x8x16xf32>
  %3 = stablehlo.add %2, %1 : tensor<2x8x16xf32>
  %4 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<2x8x16xf32>
  %5 = stablehlo.divide %4, %3 : tensor<2x8x16xf32>
  %6 = stablehlo.multiply %arg0, %5 : tensor<2x8x16xf32>
  return %6 : tensor<2x8x16xf32>
}

func.func public @linear_kn(%arg0: tensor<8x32xf32>, %arg1: tensor<32x16xf32>) -> (tensor<8x16xf32>) {
  %0 = stablehlo.dot_general %arg0, %arg1, contracting_dims = [1] x [0] : (tensor<8x32xf32>, tensor<32x16xf32>) -> tensor<8x16xf32>
  return %0 : tensor<8x16xf32>
}

func.func public @linear_nk(%arg0: tensor<8x32xf32>, %arg1: tensor<16x32xf32>) -> (tensor<8x16xf32>) {
  %0 = stablehlo.dot_general %arg0, %arg1, contracting_dims = [1] x [1] : (tensor<8x32xf32>, tensor<16x32xf32>) -> tensor<8x16xf32>
  return %0 : tensor<8x16xf32>
}

func.func public @linear_heads_kn(%arg0: tensor<2x8x32xf32>, %arg1: tensor<32x4x4xf32>, %arg2: tensor<4x4xf32>) -> (tensor<2x8x4x4xf32>) {
  %0 = stablehlo.dot_general %arg0, %arg1, contracting_dims = [2] x [0] : (tensor<2x8x32xf32>, tensor<32x4x4xf32>) -> tensor<2x8x4x4xf32>
  %1 = stablehlo.broadcast_in_dim %arg2, dims = [2, 3] : (tensor<4x4xf32>) -> tensor<1x1x4x4xf32>
  %2 = stablehlo.broadcast_in_dim %1, dims = [0, 1, 2, 3] : (tensor<1x1x4x4xf32>) -> tensor<2x8x4x4xf32>
  %3 = stablehlo.add %0, %2 : tensor<2x8x4x4xf32>
  return %3 : tensor<2x8x4x4xf32>
}

func.func public @swiglu_kn(%arg0: tensor<8x32xf32>, %arg1: tensor<32x16xf32>, %arg2: tensor<32x16xf32>) -> (tensor<8x16xf32>) {
  %0 = stablehlo.dot_general %arg0, %arg1, contracting_dims = [1] x [0] : (tensor<8x32xf32>, tensor<32x16xf32>) -> tensor<8x16xf32>
  %1 = call @swiglu_kn_silu(%0) : (tensor<8x16xf32>) -> tensor<8x16xf32>
  %2 = stablehlo.dot_general %arg0, %arg2, contracting_dims = [1] x [0] : (tensor<8x32xf32>, tensor<32x16xf32>) -> tensor<8x16xf32>
  %3 = stablehlo.multiply %1, %2 : tensor<8x16xf32>
  return %3 : tensor<8x16xf32>
}
func.func private @swiglu_kn_silu(%arg0: tensor<8x16xf32>) -> tensor<8x16xf32> {
  %cst = stablehlo.constant dense<1.000000e+00> : tensor<f32>
  %0 = stablehlo.negate %arg0 : tensor<8x16xf32>
  %1 = stablehlo.exponential %0 : tensor<8x16xf32>
  %2 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<8x16xf32>
  %3 = stablehlo.add %2, %1 : tensor<8x16xf32>
  %4 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<8x16xf32>
  %5 = stablehlo.divide %4, %3 : tensor<8x16xf32>
  %6 = stablehlo.multiply %arg0, %5 : tensor<8x16xf32>
  return %6 : tensor<8x16xf32>
}

func.func public @swiglu_nk(%arg0: tensor<8x32xf32>, %arg1: tensor<16x32xf32>, %arg2: tensor<16x32xf32>) -> (tensor<8x16xf32>) {
  %0 = stablehlo.transpose %arg1, dims = [1, 0] : (tensor<16x32xf32>) -> tensor<32x16xf32>
  %1 = stablehlo.dot_general %arg0, %0, contracting_dims = [1] x [0] : (tensor<8x32xf32>, tensor<32x16xf32>) -> tensor<8x16xf32>
  %2 = call @swiglu_nk_silu(%1) : (tensor<8x16xf32>) -> tensor<8x16xf32>
  %3 = stablehlo.transpose %arg2, dims = [1, 0] : (tensor<16x32xf32>) -> tensor<32x16xf32>
  %4 = stablehlo.dot_general %arg0, %3, contracting_dims = [1] x [0] : (tensor<8x32xf32>, tensor<32x16xf32>) -> tensor<8x16xf32>
  %5 = stablehlo.multiply %2, %4 : tensor<8x16xf32>
  return %5 : tensor<8x16xf32>
}
func.func private @swiglu_nk_silu(%arg0: tensor<8x16xf32>) -> tensor<8x16xf32> {
  %cst = stablehlo.constant dense<1.000000e+00> : tensor<f32>
  %0 = stablehlo.negate %arg0 : tensor<8x16xf32>
  %1 = stablehlo.exponential %0 : tensor<8x16xf32>
  %2 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<8x16xf32>
  %3 = stablehlo.add %2, %1 : tensor<8x16xf32>
  %4 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<8x16xf32>
  %5 = stablehlo.divide %4, %3 : tensor<8x16xf32>
  %6 = stablehlo.multiply %arg0, %5 : tensor<8x16xf32>
  return %6 : tensor<8x16xf32>
}
