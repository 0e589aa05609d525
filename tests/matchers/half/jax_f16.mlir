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

func.func public @linear_kn_bias(%arg0: tensor<8x32xf16>, %arg1: tensor<32x16xf16>, %arg2: tensor<16xf16>) -> (tensor<8x16xf16>) {
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

func.func public @attention_biased(%arg0: tensor<2x8x4x16xf16>, %arg1: tensor<2x8x4x16xf16>, %arg2: tensor<2x8x4x16xf16>, %arg3: tensor<1x4x8x8xf16>) -> (tensor<2x8x4x16xf16>) {
  %0 = stablehlo.dot_general %arg0, %arg1, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3], precision = [DEFAULT, DEFAULT] : (tensor<2x8x4x16xf16>, tensor<2x8x4x16xf16>) -> tensor<2x4x8x8xf32>
  %cst = stablehlo.constant dense<2.500000e-01> : tensor<f32>
  %1 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<2x4x8x8xf32>
  %2 = stablehlo.multiply %0, %1 : tensor<2x4x8x8xf32>
  %3 = stablehlo.convert %arg3 : (tensor<1x4x8x8xf16>) -> tensor<1x4x8x8xf32>
  %4 = stablehlo.broadcast_in_dim %3, dims = [0, 1, 2, 3] : (tensor<1x4x8x8xf32>) -> tensor<2x4x8x8xf32>
  %5 = stablehlo.add %2, %4 : tensor<2x4x8x8xf32>
  %cst_0 = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %6 = stablehlo.reduce(%5 init: %cst_0) applies stablehlo.maximum across dimensions = [3] : (tensor<2x4x8x8xf32>, tensor<f32>) -> tensor<2x4x8xf32>
  %cst_1 = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %7 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<2x4x8xf32>
  %8 = stablehlo.maximum %7, %6 : tensor<2x4x8xf32>
  %9 = stablehlo.broadcast_in_dim %8, dims = [0, 1, 2] : (tensor<2x4x8xf32>) -> tensor<2x4x8x1xf32>
  %10 = stablehlo.broadcast_in_dim %9, dims = [0, 1, 2, 3] : (tensor<2x4x8x1xf32>) -> tensor<2x4x8x8xf32>
  %11 = stablehlo.subtract %5, %10 : tensor<2x4x8x8xf32>
  %12 = stablehlo.exponential %11 : tensor<2x4x8x8xf32>
  %cst_2 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %13 = stablehlo.reduce(%12 init: %cst_2) applies stablehlo.add across dimensions = [3] : (tensor<2x4x8x8xf32>, tensor<f32>) -> tensor<2x4x8xf32>
  %14 = stablehlo.broadcast_in_dim %13, dims = [0, 1, 2] : (tensor<2x4x8xf32>) -> tensor<2x4x8x1xf32>
  %15 = stablehlo.broadcast_in_dim %14, dims = [0, 1, 2, 3] : (tensor<2x4x8x1xf32>) -> tensor<2x4x8x8xf32>
  %16 = stablehlo.divide %12, %15 : tensor<2x4x8x8xf32>
  %17 = stablehlo.convert %16 : (tensor<2x4x8x8xf32>) -> tensor<2x4x8x8xf16>
  %18 = stablehlo.dot_general %arg2, %17, batching_dims = [0, 2] x [0, 1], contracting_dims = [1] x [3], precision = [DEFAULT, DEFAULT] : (tensor<2x8x4x16xf16>, tensor<2x4x8x8xf16>) -> tensor<2x4x16x8xf16>
  %19 = stablehlo.transpose %18, dims = [0, 3, 1, 2] : (tensor<2x4x16x8xf16>) -> tensor<2x8x4x16xf16>
  return %19 : tensor<2x8x4x16xf16>
}

func.func public @gelu(%arg0: tensor<8x32xf16>) -> (tensor<8x32xf16>) {
  %cst = stablehlo.constant dense<1.12837911> : tensor<8x32xf32>
  %cst_0 = stablehlo.constant dense<-0.37612626> : tensor<8x32xf32>
  %cst_1 = stablehlo.constant dense<0.112835854> : tensor<8x32xf32>
  %cst_2 = stablehlo.constant dense<-0.0268538129> : tensor<8x32xf32>
  %cst_3 = stablehlo.constant dense<0.00518832775> : tensor<8x32xf32>
  %cst_4 = stablehlo.constant dense<-8.0101937E-4> : tensor<8x32xf32>
  %cst_5 = stablehlo.constant dense<7.85386146E-5> : tensor<8x32xf32>
  %cst_6 = stablehlo.constant dense<0.000000e+00> : tensor<8x32xf32>
  %cst_7 = stablehlo.constant dense<-88.7228394> : tensor<8x32xf32>
  %cst_8 = stablehlo.constant dense<0.564189494> : tensor<8x32xf32>
  %cst_9 = stablehlo.constant dense<-0.282076746> : tensor<8x32xf32>
  %cst_10 = stablehlo.constant dense<0.42184633> : tensor<8x32xf32>
  %cst_11 = stablehlo.constant dense<-1.01526523> : tensor<8x32xf32>
  %cst_12 = stablehlo.constant dense<2.92101908> : tensor<8x32xf32>
  %cst_13 = stablehlo.constant dense<-7.49551868> : tensor<8x32xf32>
  %cst_14 = stablehlo.constant dense<1.297720e+01> : tensor<8x32xf32>
  %cst_15 = stablehlo.constant dense<-10.477664> : tensor<8x32xf32>
  %cst_16 = stablehlo.constant dense<0.563825965> : tensor<8x32xf32>
  %cst_17 = stablehlo.constant dense<-0.274112701> : tensor<8x32xf32>
  %cst_18 = stablehlo.constant dense<3.404880e-01> : tensor<8x32xf32>
  %cst_19 = stablehlo.constant dense<-0.494451523> : tensor<8x32xf32>
  %cst_20 = stablehlo.constant dense<0.621000468> : tensor<8x32xf32>
  %cst_21 = stablehlo.constant dense<-0.582473278> : tensor<8x32xf32>
  %cst_22 = stablehlo.constant dense<0.368742466> : tensor<8x32xf32>
  %cst_23 = stablehlo.constant dense<-0.138703942> : tensor<8x32xf32>
  %cst_24 = stablehlo.constant dense<2.326820e-02> : tensor<8x32xf32>
  %cst_25 = stablehlo.constant dense<2.000000e+00> : tensor<8x32xf32>
  %cst_26 = stablehlo.constant dense<1.000000e+00> : tensor<8x32xf32>
  %cst_27 = stablehlo.constant dense<7.070310e-01> : tensor<f16>
  %cst_28 = stablehlo.constant dense<5.000000e-01> : tensor<f16>
  %0 = stablehlo.broadcast_in_dim %cst_28, dims = [] : (tensor<f16>) -> tensor<8x32xf16>
  %1 = stablehlo.multiply %0, %arg0 : tensor<8x32xf16>
  %2 = stablehlo.negate %arg0 : tensor<8x32xf16>
  %3 = stablehlo.broadcast_in_dim %cst_27, dims = [] : (tensor<f16>) -> tensor<8x32xf16>
  %4 = stablehlo.multiply %2, %3 : tensor<8x32xf16>
  %5 = stablehlo.convert %4 : (tensor<8x32xf16>) -> tensor<8x32xf32>
  %6 = stablehlo.multiply %5, %5 : tensor<8x32xf32>
  %7 = stablehlo.negate %6 : tensor<8x32xf32>
  %8 = stablehlo.abs %5 : tensor<8x32xf32>
  %9 = stablehlo.divide %cst_26, %6 : tensor<8x32xf32>
  %10 = stablehlo.exponential %7 : tensor<8x32xf32>
  %11 = stablehlo.divide %cst_26, %8 : tensor<8x32xf32>
  %12 = stablehlo.multiply %10, %11 : tensor<8x32xf32>
  %13 = stablehlo.compare LT, %8, %cst_25 : (tensor<8x32xf32>, tensor<8x32xf32>) -> tensor<8x32xi1>
  %14 = stablehlo.multiply %cst_24, %9 : tensor<8x32xf32>
  %15 = stablehlo.add %14, %cst_23 : tensor<8x32xf32>
  %16 = stablehlo.multiply %15, %9 : tensor<8x32xf32>
  %17 = stablehlo.add %16, %cst_22 : tensor<8x32xf32>
  %18 = stablehlo.multiply %17, %9 : tensor<8x32xf32>
  %19 = stablehlo.add %18, %cst_21 : tensor<8x32xf32>
  %20 = stablehlo.multiply %19, %9 : tensor<8x32xf32>
  %21 = stablehlo.add %20, %cst_20 : tensor<8x32xf32>
  %22 = stablehlo.multiply %21, %9 : tensor<8x32xf32>
  %23 = stablehlo.add %22, %cst_19 : tensor<8x32xf32>
  %24 = stablehlo.multiply %23, %9 : tensor<8x32xf32>
  %25 = stablehlo.add %24, %cst_18 : tensor<8x32xf32>
  %26 = stablehlo.multiply %25, %9 : tensor<8x32xf32>
  %27 = stablehlo.add %26, %cst_17 : tensor<8x32xf32>
  %28 = stablehlo.multiply %27, %9 : tensor<8x32xf32>
  %29 = stablehlo.add %28, %cst_16 : tensor<8x32xf32>
  %30 = stablehlo.multiply %cst_15, %9 : tensor<8x32xf32>
  %31 = stablehlo.add %30, %cst_14 : tensor<8x32xf32>
  %32 = stablehlo.multiply %31, %9 : tensor<8x32xf32>
  %33 = stablehlo.add %32, %cst_13 : tensor<8x32xf32>
  %34 = stablehlo.multiply %33, %9 : tensor<8x32xf32>
  %35 = stablehlo.add %34, %cst_12 : tensor<8x32xf32>
  %36 = stablehlo.multiply %35, %9 : tensor<8x32xf32>
  %37 = stablehlo.add %36, %cst_11 : tensor<8x32xf32>
  %38 = stablehlo.multiply %37, %9 : tensor<8x32xf32>
  %39 = stablehlo.add %38, %cst_10 : tensor<8x32xf32>
  %40 = stablehlo.multiply %39, %9 : tensor<8x32xf32>
  %41 = stablehlo.add %40, %cst_9 : tensor<8x32xf32>
  %42 = stablehlo.multiply %41, %9 : tensor<8x32xf32>
  %43 = stablehlo.add %42, %cst_8 : tensor<8x32xf32>
  %44 = stablehlo.select %13, %29, %43 : tensor<8x32xi1>, tensor<8x32xf32>
  %45 = stablehlo.multiply %12, %44 : tensor<8x32xf32>
  %46 = stablehlo.compare LT, %7, %cst_7 : (tensor<8x32xf32>, tensor<8x32xf32>) -> tensor<8x32xi1>
  %47 = stablehlo.select %46, %cst_6, %45 : tensor<8x32xi1>, tensor<8x32xf32>
  %48 = stablehlo.compare LT, %5, %cst_6 : (tensor<8x32xf32>, tensor<8x32xf32>) -> tensor<8x32xi1>
  %49 = stablehlo.subtract %cst_25, %47 : tensor<8x32xf32>
  %50 = stablehlo.select %48, %49, %47 : tensor<8x32xi1>, tensor<8x32xf32>
  %51 = stablehlo.multiply %5, %5 : tensor<8x32xf32>
  %52 = stablehlo.multiply %cst_5, %51 : tensor<8x32xf32>
  %53 = stablehlo.add %52, %cst_4 : tensor<8x32xf32>
  %54 = stablehlo.multiply %53, %51 : tensor<8x32xf32>
  %55 = stablehlo.add %54, %cst_3 : tensor<8x32xf32>
  %56 = stablehlo.multiply %55, %51 : tensor<8x32xf32>
  %57 = stablehlo.add %56, %cst_2 : tensor<8x32xf32>
  %58 = stablehlo.multiply %57, %51 : tensor<8x32xf32>
  %59 = stablehlo.add %58, %cst_1 : tensor<8x32xf32>
  %60 = stablehlo.multiply %59, %51 : tensor<8x32xf32>
  %61 = stablehlo.add %60, %cst_0 : tensor<8x32xf32>
  %62 = stablehlo.multiply %61, %51 : tensor<8x32xf32>
  %63 = stablehlo.add %62, %cst : tensor<8x32xf32>
  %64 = stablehlo.multiply %5, %63 : tensor<8x32xf32>
  %65 = stablehlo.subtract %cst_26, %64 : tensor<8x32xf32>
  %66 = stablehlo.abs %5 : tensor<8x32xf32>
  %67 = stablehlo.compare LT, %66, %cst_26 : (tensor<8x32xf32>, tensor<8x32xf32>) -> tensor<8x32xi1>
  %68 = stablehlo.select %67, %65, %50 : tensor<8x32xi1>, tensor<8x32xf32>
  %69 = stablehlo.convert %68 : (tensor<8x32xf32>) -> tensor<8x32xf16>
  %70 = stablehlo.multiply %1, %69 : tensor<8x32xf16>
  return %70 : tensor<8x32xf16>
}
