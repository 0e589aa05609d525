func.func public @softmax(%arg0: tensor<8x32xf16>) -> (tensor<8x32xf16>) {
  %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %cst_0 = stablehlo.constant dense<0xFC00> : tensor<f16>
  %0 = stablehlo.reduce(%arg0 init: %cst_0) applies stablehlo.maximum across dimensions = [1] : (tensor<8x32xf16>, tensor<f16>) -> tensor<8xf16>
  %1 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f16>) -> tensor<8xf16>
  %2 = stablehlo.maximum %1, %0 : tensor<8xf16>
  %3 = stablehlo.broadcast_in_dim %2, dims = [0] : (tensor<8xf16>) -> tensor<8x1xf16>
  %4 = stablehlo.broadcast_in_dim %3, dims = [0, 1] : (tensor<8x1xf16>) -> tensor<8x32xf16>
  %5 = stablehlo.subtract %arg0, %4 : tensor<8x32xf16>
  %6 = stablehlo.exponential %5 : tensor<8x32xf16>
  %7 = stablehlo.convert %6 : (tensor<8x32xf16>) -> tensor<8x32xf32>
  %8 = stablehlo.reduce(%7 init: %cst) applies stablehlo.add across dimensions = [1] : (tensor<8x32xf32>, tensor<f32>) -> tensor<8xf32>
  %9 = stablehlo.broadcast_in_dim %8, dims = [0] : (tensor<8xf32>) -> tensor<8x1xf32>
  %10 = stablehlo.convert %9 : (tensor<8x1xf32>) -> tensor<8x1xf16>
  %11 = stablehlo.broadcast_in_dim %10, dims = [0, 1] : (tensor<8x1xf16>) -> tensor<8x32xf16>
  %12 = stablehlo.divide %6, %11 : tensor<8x32xf16>
  return %12 : tensor<8x32xf16>
}

func.func public @log_softmax(%arg0: tensor<8x32xf16>) -> (tensor<8x32xf16>) {
  %0 = call @log_softmax_log_softmax(%arg0) : (tensor<8x32xf16>) -> tensor<8x32xf16>
  return %0 : tensor<8x32xf16>
}
func.func private @log_softmax_log_softmax(%arg0: tensor<8x32xf16>) -> tensor<8x32xf16> {
  %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %cst_0 = stablehlo.constant dense<0xFC00> : tensor<f16>
  %0 = stablehlo.reduce(%arg0 init: %cst_0) applies stablehlo.maximum across dimensions = [1] : (tensor<8x32xf16>, tensor<f16>) -> tensor<8xf16>
  %1 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f16>) -> tensor<8xf16>
  %2 = stablehlo.maximum %1, %0 : tensor<8xf16>
  %3 = stablehlo.broadcast_in_dim %2, dims = [0] : (tensor<8xf16>) -> tensor<8x1xf16>
  %4 = stablehlo.broadcast_in_dim %3, dims = [0, 1] : (tensor<8x1xf16>) -> tensor<8x32xf16>
  %5 = stablehlo.subtract %arg0, %4 : tensor<8x32xf16>
  %6 = stablehlo.exponential %5 : tensor<8x32xf16>
  %7 = stablehlo.convert %6 : (tensor<8x32xf16>) -> tensor<8x32xf32>
  %8 = stablehlo.reduce(%7 init: %cst) applies stablehlo.add across dimensions = [1] : (tensor<8x32xf32>, tensor<f32>) -> tensor<8xf32>
  %9 = stablehlo.broadcast_in_dim %8, dims = [0] : (tensor<8xf32>) -> tensor<8x1xf32>
  %10 = stablehlo.convert %9 : (tensor<8x1xf32>) -> tensor<8x1xf16>
  %11 = stablehlo.log %10 : tensor<8x1xf16>
  %12 = stablehlo.broadcast_in_dim %11, dims = [0, 1] : (tensor<8x1xf16>) -> tensor<8x32xf16>
  %13 = stablehlo.subtract %5, %12 : tensor<8x32xf16>
  return %13 : tensor<8x32xf16>
}

func.func public @gelu_tanh(%arg0: tensor<8x32xf16>) -> (tensor<8x32xf16>) {
  %cst = stablehlo.constant dense<5.000000e-01> : tensor<f16>
  %cst_0 = stablehlo.constant dense<1.000000e+00> : tensor<f16>
  %cst_1 = stablehlo.constant dense<7.978520e-01> : tensor<f16>
  %cst_2 = stablehlo.constant dense<4.470830e-02> : tensor<f16>
  %0 = stablehlo.multiply %arg0, %arg0 : tensor<8x32xf16>
  %1 = stablehlo.multiply %0, %arg0 : tensor<8x32xf16>
  %2 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f16>) -> tensor<8x32xf16>
  %3 = stablehlo.multiply %2, %1 : tensor<8x32xf16>
  %4 = stablehlo.add %arg0, %3 : tensor<8x32xf16>
  %5 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f16>) -> tensor<8x32xf16>
  %6 = stablehlo.multiply %5, %4 : tensor<8x32xf16>
  %7 = stablehlo.tanh %6 : tensor<8x32xf16>
  %8 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f16>) -> tensor<8x32xf16>
  %9 = stablehlo.add %8, %7 : tensor<8x32xf16>
  %10 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f16>) -> tensor<8x32xf16>
  %11 = stablehlo.multiply %10, %9 : tensor<8x32xf16>
  %12 = stablehlo.multiply %arg0, %11 : tensor<8x32xf16>
  return %12 : tensor<8x32xf16>
}

func.func public @silu(%arg0: tensor<8x32xf16>) -> (tensor<8x32xf16>) {
  %0 = call @silu_silu(%arg0) : (tensor<8x32xf16>) -> tensor<8x32xf16>
  return %0 : tensor<8x32xf16>
}
func.func private @silu_silu(%arg0: tensor<8x32xf16>) -> tensor<8x32xf16> {
  %cst = stablehlo.constant dense<1.000000e+00> : tensor<f16>
  %0 = stablehlo.negate %arg0 : tensor<8x32xf16>
  %1 = stablehlo.exponential %0 : tensor<8x32xf16>
  %2 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f16>) -> tensor<8x32xf16>
  %3 = stablehlo.add %2, %1 : tensor<8x32xf16>
  %4 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f16>) -> tensor<8x32xf16>
  %5 = stablehlo.divide %4, %3 : tensor<8x32xf16>
  %6 = stablehlo.multiply %arg0, %5 : tensor<8x32xf16>
  return %6 : tensor<8x32xf16>
}

func.func public @relu(%arg0: tensor<8x32xf16>) -> (tensor<8x32xf16>) {
  %0 = call @relu_relu(%arg0) : (tensor<8x32xf16>) -> tensor<8x32xf16>
  return %0 : tensor<8x32xf16>
}
func.func private @relu_relu(%arg0: tensor<8x32xf16>) -> tensor<8x32xf16> {
  %cst = stablehlo.constant dense<0.000000e+00> : tensor<f16>
  %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f16>) -> tensor<8x32xf16>
  %1 = stablehlo.maximum %arg0, %0 : tensor<8x32xf16>
  return %1 : tensor<8x32xf16>
}

func.func public @layernorm(%arg0: tensor<8x32xf16>, %arg1: tensor<32xf16>, %arg2: tensor<32xf16>) -> (tensor<8x32xf16>) {
  %cst = stablehlo.constant dense<1.001360e-05> : tensor<f16>
  %c = stablehlo.constant dense<0> : tensor<i32>
  %cst_0 = stablehlo.constant dense<3.200000e+01> : tensor<f32>
  %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %0 = stablehlo.convert %arg0 : (tensor<8x32xf16>) -> tensor<8x32xf32>
  %1 = stablehlo.reduce(%0 init: %cst_1) applies stablehlo.add across dimensions = [1] : (tensor<8x32xf32>, tensor<f32>) -> tensor<8xf32>
  %2 = stablehlo.broadcast_in_dim %1, dims = [0] : (tensor<8xf32>) -> tensor<8x1xf32>
  %3 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<8x1xf32>
  %4 = stablehlo.divide %2, %3 : tensor<8x1xf32>
  %5 = stablehlo.convert %4 : (tensor<8x1xf32>) -> tensor<8x1xf16>
  %6 = stablehlo.broadcast_in_dim %5, dims = [0, 1] : (tensor<8x1xf16>) -> tensor<8x32xf16>
  %7 = stablehlo.subtract %arg0, %6 : tensor<8x32xf16>
  %8 = call @layernorm_var(%arg0, %c) : (tensor<8x32xf16>, tensor<i32>) -> tensor<8x1xf16>
  %9 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f16>) -> tensor<8x1xf16>
  %10 = stablehlo.add %8, %9 : tensor<8x1xf16>
  %11 = stablehlo.rsqrt %10 : tensor<8x1xf16>
  %12 = stablehlo.broadcast_in_dim %11, dims = [0, 1] : (tensor<8x1xf16>) -> tensor<8x32xf16>
  %13 = stablehlo.multiply %7, %12 : tensor<8x32xf16>
  %14 = stablehlo.broadcast_in_dim %arg1, dims = [1] : (tensor<32xf16>) -> tensor<1x32xf16>
  %15 = stablehlo.broadcast_in_dim %14, dims = [0, 1] : (tensor<1x32xf16>) -> tensor<8x32xf16>
  %16 = stablehlo.multiply %13, %15 : tensor<8x32xf16>
  %17 = stablehlo.broadcast_in_dim %arg2, dims = [1] : (tensor<32xf16>) -> tensor<1x32xf16>
  %18 = stablehlo.broadcast_in_dim %17, dims = [0, 1] : (tensor<1x32xf16>) -> tensor<8x32xf16>
  %19 = stablehlo.add %16, %18 : tensor<8x32xf16>
  return %19 : tensor<8x32xf16>
}
func.func private @layernorm_var(%arg0: tensor<8x32xf16>, %arg1: tensor<i32>) -> tensor<8x1xf16> {
  %cst = stablehlo.constant dense<0x7FC00000> : tensor<f32>
  %cst_0 = stablehlo.constant dense<3.200000e+01> : tensor<f32>
  %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %0 = stablehlo.convert %arg0 : (tensor<8x32xf16>) -> tensor<8x32xf32>
  %1 = stablehlo.reduce(%0 init: %cst_1) applies stablehlo.add across dimensions = [1] : (tensor<8x32xf32>, tensor<f32>) -> tensor<8xf32>
  %2 = stablehlo.broadcast_in_dim %1, dims = [0] : (tensor<8xf32>) -> tensor<8x1xf32>
  %3 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<8x1xf32>
  %4 = stablehlo.divide %2, %3 : tensor<8x1xf32>
  %5 = stablehlo.broadcast_in_dim %4, dims = [0, 1] : (tensor<8x1xf32>) -> tensor<8x32xf32>
  %6 = stablehlo.subtract %0, %5 : tensor<8x32xf32>
  %7 = stablehlo.multiply %6, %6 : tensor<8x32xf32>
  %8 = stablehlo.convert %arg1 : (tensor<i32>) -> tensor<f32>
  %9 = stablehlo.subtract %cst_0, %8 : tensor<f32>
  %10 = stablehlo.reduce(%7 init: %cst_1) applies stablehlo.add across dimensions = [1] : (tensor<8x32xf32>, tensor<f32>) -> tensor<8xf32>
  %11 = stablehlo.broadcast_in_dim %10, dims = [0] : (tensor<8xf32>) -> tensor<8x1xf32>
  %12 = stablehlo.broadcast_in_dim %9, dims = [] : (tensor<f32>) -> tensor<8x1xf32>
  %13 = stablehlo.divide %11, %12 : tensor<8x1xf32>
  %14 = stablehlo.convert %13 : (tensor<8x1xf32>) -> tensor<8x1xf16>
  %15 = stablehlo.compare GT, %9, %cst_1, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
  %16 = call @layernorm_where(%15, %14, %cst) : (tensor<i1>, tensor<8x1xf16>, tensor<f32>) -> tensor<8x1xf16>
  return %16 : tensor<8x1xf16>
}
func.func private @layernorm_where(%arg0: tensor<i1>, %arg1: tensor<8x1xf16>, %arg2: tensor<f32>) -> tensor<8x1xf16> {
  %0 = stablehlo.convert %arg2 : (tensor<f32>) -> tensor<f16>
  %1 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f16>) -> tensor<8x1xf16>
  %2 = stablehlo.select %arg0, %arg1, %1 : tensor<i1>, tensor<8x1xf16>
  return %2 : tensor<8x1xf16>
}

func.func public @rmsnorm(%arg0: tensor<8x32xf16>, %arg1: tensor<32xf16>) -> (tensor<8x32xf16>) {
  %cst = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
  %cst_0 = stablehlo.constant dense<3.200000e+01> : tensor<f32>
  %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %0 = stablehlo.convert %arg0 : (tensor<8x32xf16>) -> tensor<8x32xf32>
  %1 = stablehlo.multiply %0, %0 : tensor<8x32xf32>
  %2 = stablehlo.reduce(%1 init: %cst_1) applies stablehlo.add across dimensions = [1] : (tensor<8x32xf32>, tensor<f32>) -> tensor<8xf32>
  %3 = stablehlo.broadcast_in_dim %2, dims = [0] : (tensor<8xf32>) -> tensor<8x1xf32>
  %4 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<8x1xf32>
  %5 = stablehlo.divide %3, %4 : tensor<8x1xf32>
  %6 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<8x1xf32>
  %7 = stablehlo.add %5, %6 : tensor<8x1xf32>
  %8 = stablehlo.rsqrt %7 : tensor<8x1xf32>
  %9 = stablehlo.broadcast_in_dim %8, dims = [0, 1] : (tensor<8x1xf32>) -> tensor<8x32xf32>
  %10 = stablehlo.multiply %0, %9 : tensor<8x32xf32>
  %11 = stablehlo.convert %10 : (tensor<8x32xf32>) -> tensor<8x32xf16>
  %12 = stablehlo.broadcast_in_dim %arg1, dims = [1] : (tensor<32xf16>) -> tensor<1x32xf16>
  %13 = stablehlo.broadcast_in_dim %12, dims = [0, 1] : (tensor<1x32xf16>) -> tensor<8x32xf16>
  %14 = stablehlo.multiply %11, %13 : tensor<8x32xf16>
  return %14 : tensor<8x32xf16>
}

func.func public @linear_kn(%arg0: tensor<8x32xf16>, %arg1: tensor<32x16xf16>) -> (tensor<8x16xf16>) {
  %0 = stablehlo.dot_general %arg0, %arg1, contracting_dims = [1] x [0] : (tensor<8x32xf16>, tensor<32x16xf16>) -> tensor<8x16xf16>
  return %0 : tensor<8x16xf16>
}

func.func public @linear_bias_kn(%arg0: tensor<8x32xf16>, %arg1: tensor<32x16xf16>, %arg2: tensor<16xf16>) -> (tensor<8x16xf16>) {
  %0 = stablehlo.dot_general %arg0, %arg1, contracting_dims = [1] x [0] : (tensor<8x32xf16>, tensor<32x16xf16>) -> tensor<8x16xf16>
  %1 = stablehlo.broadcast_in_dim %arg2, dims = [1] : (tensor<16xf16>) -> tensor<1x16xf16>
  %2 = stablehlo.broadcast_in_dim %1, dims = [0, 1] : (tensor<1x16xf16>) -> tensor<8x16xf16>
  %3 = stablehlo.add %0, %2 : tensor<8x16xf16>
  return %3 : tensor<8x16xf16>
}

func.func public @swiglu_kn(%arg0: tensor<8x32xf16>, %arg1: tensor<32x16xf16>, %arg2: tensor<32x16xf16>) -> (tensor<8x16xf16>) {
  %0 = stablehlo.dot_general %arg0, %arg1, contracting_dims = [1] x [0] : (tensor<8x32xf16>, tensor<32x16xf16>) -> tensor<8x16xf16>
  %1 = call @swiglu_kn_silu(%0) : (tensor<8x16xf16>) -> tensor<8x16xf16>
  %2 = stablehlo.dot_general %arg0, %arg2, contracting_dims = [1] x [0] : (tensor<8x32xf16>, tensor<32x16xf16>) -> tensor<8x16xf16>
  %3 = stablehlo.multiply %1, %2 : tensor<8x16xf16>
  return %3 : tensor<8x16xf16>
}
func.func private @swiglu_kn_silu(%arg0: tensor<8x16xf16>) -> tensor<8x16xf16> {
  %cst = stablehlo.constant dense<1.000000e+00> : tensor<f16>
  %0 = stablehlo.negate %arg0 : tensor<8x16xf16>
  %1 = stablehlo.exponential %0 : tensor<8x16xf16>
  %2 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f16>) -> tensor<8x16xf16>
  %3 = stablehlo.add %2, %1 : tensor<8x16xf16>
  %4 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f16>) -> tensor<8x16xf16>
  %5 = stablehlo.divide %4, %3 : tensor<8x16xf16>
  %6 = stablehlo.multiply %arg0, %5 : tensor<8x16xf16>
  return %6 : tensor<8x16xf16>
}

func.func public @attention_kt(%arg0: tensor<2x4x8x16xf16>, %arg1: tensor<2x4x8x16xf16>, %arg2: tensor<2x4x8x16xf16>) -> (tensor<2x4x8x16xf16>) {
  %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %cst_0 = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %cst_1 = stablehlo.constant dense<2.500000e-01> : tensor<f16>
  %0 = stablehlo.dot_general %arg0, %arg1, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [3] : (tensor<2x4x8x16xf16>, tensor<2x4x8x16xf16>) -> tensor<2x4x8x8xf16>
  %1 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f16>) -> tensor<2x4x8x8xf16>
  %2 = stablehlo.multiply %0, %1 : tensor<2x4x8x8xf16>
  %3 = stablehlo.convert %2 : (tensor<2x4x8x8xf16>) -> tensor<2x4x8x8xf32>
  %4 = stablehlo.reduce(%3 init: %cst_0) applies stablehlo.maximum across dimensions = [3] : (tensor<2x4x8x8xf32>, tensor<f32>) -> tensor<2x4x8xf32>
  %5 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<2x4x8xf32>
  %6 = stablehlo.maximum %5, %4 : tensor<2x4x8xf32>
  %7 = stablehlo.broadcast_in_dim %6, dims = [0, 1, 2] : (tensor<2x4x8xf32>) -> tensor<2x4x8x1xf32>
  %8 = stablehlo.broadcast_in_dim %7, dims = [0, 1, 2, 3] : (tensor<2x4x8x1xf32>) -> tensor<2x4x8x8xf32>
  %9 = stablehlo.subtract %3, %8 : tensor<2x4x8x8xf32>
  %10 = stablehlo.exponential %9 : tensor<2x4x8x8xf32>
  %11 = stablehlo.reduce(%10 init: %cst) applies stablehlo.add across dimensions = [3] : (tensor<2x4x8x8xf32>, tensor<f32>) -> tensor<2x4x8xf32>
  %12 = stablehlo.broadcast_in_dim %11, dims = [0, 1, 2] : (tensor<2x4x8xf32>) -> tensor<2x4x8x1xf32>
  %13 = stablehlo.broadcast_in_dim %12, dims = [0, 1, 2, 3] : (tensor<2x4x8x1xf32>) -> tensor<2x4x8x8xf32>
  %14 = stablehlo.divide %10, %13 : tensor<2x4x8x8xf32>
  %15 = stablehlo.convert %14 : (tensor<2x4x8x8xf32>) -> tensor<2x4x8x8xf16>
  %16 = stablehlo.dot_general %15, %arg2, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2] : (tensor<2x4x8x8xf16>, tensor<2x4x8x16xf16>) -> tensor<2x4x8x16xf16>
  return %16 : tensor<2x4x8x16xf16>
}
