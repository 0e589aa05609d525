func.func public @layernorm_a(%arg0: tensor<8x32xf32>, %arg1: tensor<32xf32>, %arg2: tensor<32xf32>) -> (tensor<8x32xf32>) {
  %cst = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
  %cst_0 = stablehlo.constant dense<3.200000e+01> : tensor<f32>
  %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %0 = stablehlo.reduce(%arg0 init: %cst_1) applies stablehlo.add across dimensions = [1] : (tensor<8x32xf32>, tensor<f32>) -> tensor<8xf32>
  %1 = stablehlo.broadcast_in_dim %0, dims = [0] : (tensor<8xf32>) -> tensor<8x1xf32>
  %2 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<8x1xf32>
  %3 = stablehlo.divide %1, %2 : tensor<8x1xf32>
  %4 = stablehlo.broadcast_in_dim %3, dims = [0, 1] : (tensor<8x1xf32>) -> tensor<8x32xf32>
  %5 = stablehlo.subtract %arg0, %4 : tensor<8x32xf32>
  %6 = stablehlo.multiply %5, %5 : tensor<8x32xf32>
  %7 = stablehlo.reduce(%6 init: %cst_1) applies stablehlo.add across dimensions = [1] : (tensor<8x32xf32>, tensor<f32>) -> tensor<8xf32>
  %8 = stablehlo.broadcast_in_dim %7, dims = [0] : (tensor<8xf32>) -> tensor<8x1xf32>
  %9 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<8x1xf32>
  %10 = stablehlo.divide %8, %9 : tensor<8x1xf32>
  %11 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<8x1xf32>
  %12 = stablehlo.add %10, %11 : tensor<8x1xf32>
  %13 = stablehlo.rsqrt %12 : tensor<8x1xf32>
  %14 = stablehlo.broadcast_in_dim %3, dims = [0, 1] : (tensor<8x1xf32>) -> tensor<8x32xf32>
  %15 = stablehlo.subtract %arg0, %14 : tensor<8x32xf32>
  %16 = stablehlo.broadcast_in_dim %13, dims = [0, 1] : (tensor<8x1xf32>) -> tensor<8x32xf32>
  %17 = stablehlo.multiply %15, %16 : tensor<8x32xf32>
  %18 = stablehlo.broadcast_in_dim %arg1, dims = [1] : (tensor<32xf32>) -> tensor<1x32xf32>
  %19 = stablehlo.broadcast_in_dim %18, dims = [0, 1] : (tensor<1x32xf32>) -> tensor<8x32xf32>
  %20 = stablehlo.multiply %17, %19 : tensor<8x32xf32>
  %21 = stablehlo.broadcast_in_dim %arg2, dims = [1] : (tensor<32xf32>) -> tensor<1x32xf32>
  %22 = stablehlo.broadcast_in_dim %21, dims = [0, 1] : (tensor<1x32xf32>) -> tensor<8x32xf32>
  %23 = stablehlo.add %20, %22 : tensor<8x32xf32>
  return %23 : tensor<8x32xf32>
}

func.func public @layernorm_joined(%arg0: tensor<8x32xf32>, %arg1: tensor<32xf32>, %arg2: tensor<32xf32>) -> (tensor<8x32xf32>) {
  %cst = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
  %cst_0 = stablehlo.constant dense<3.200000e+01> : tensor<f32>
  %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %0 = stablehlo.reduce(%arg0 init: %cst_1) applies stablehlo.add across dimensions = [1] : (tensor<8x32xf32>, tensor<f32>) -> tensor<8xf32>
  %1 = stablehlo.broadcast_in_dim %0, dims = [0] : (tensor<8xf32>) -> tensor<8x1xf32>
  %2 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<8x1xf32>
  %3 = stablehlo.divide %1, %2 : tensor<8x1xf32>
  %4 = stablehlo.broadcast_in_dim %3, dims = [0, 1] : (tensor<8x1xf32>) -> tensor<8x32xf32>
  %5 = stablehlo.subtract %arg0, %4 : tensor<8x32xf32>
  %6 = stablehlo.multiply %5, %5 : tensor<8x32xf32>
  %7 = stablehlo.reduce(%6 init: %cst_1) applies stablehlo.add across dimensions = [1] : (tensor<8x32xf32>, tensor<f32>) -> tensor<8xf32>
  %8 = stablehlo.broadcast_in_dim %7, dims = [0] : (tensor<8xf32>) -> tensor<8x1xf32>
  %9 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<8x1xf32>
  %10 = stablehlo.divide %8, %9 : tensor<8x1xf32>
  %11 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<8x1xf32>
  %12 = stablehlo.add %10, %11 : tensor<8x1xf32>
  %13 = stablehlo.rsqrt %12 : tensor<8x1xf32>
  %14 = stablehlo.broadcast_in_dim %3, dims = [0, 1] : (tensor<8x1xf32>) -> tensor<8x32xf32>
  %15 = stablehlo.subtract %arg0, %14 : tensor<8x32xf32>
  %16 = stablehlo.broadcast_in_dim %arg1, dims = [1] : (tensor<32xf32>) -> tensor<1x32xf32>
  %17 = stablehlo.broadcast_in_dim %13, dims = [0, 1] : (tensor<8x1xf32>) -> tensor<8x32xf32>
  %18 = stablehlo.broadcast_in_dim %16, dims = [0, 1] : (tensor<1x32xf32>) -> tensor<8x32xf32>
  %19 = stablehlo.multiply %17, %18 : tensor<8x32xf32>
  %20 = stablehlo.multiply %15, %19 : tensor<8x32xf32>
  %21 = stablehlo.broadcast_in_dim %arg2, dims = [1] : (tensor<32xf32>) -> tensor<1x32xf32>
  %22 = stablehlo.broadcast_in_dim %21, dims = [0, 1] : (tensor<1x32xf32>) -> tensor<8x32xf32>
  %23 = stablehlo.add %20, %22 : tensor<8x32xf32>
  return %23 : tensor<8x32xf32>
}

func.func public @layernorm_var(%arg0: tensor<8x32xf32>, %arg1: tensor<32xf32>, %arg2: tensor<32xf32>) -> (tensor<8x32xf32>) {
  %cst = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
  %c = stablehlo.constant dense<0> : tensor<i32>
  %cst_0 = stablehlo.constant dense<3.200000e+01> : tensor<f32>
  %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %0 = stablehlo.reduce(%arg0 init: %cst_1) applies stablehlo.add across dimensions = [1] : (tensor<8x32xf32>, tensor<f32>) -> tensor<8xf32>
  %1 = stablehlo.broadcast_in_dim %0, dims = [0] : (tensor<8xf32>) -> tensor<8x1xf32>
  %2 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<8x1xf32>
  %3 = stablehlo.divide %1, %2 : tensor<8x1xf32>
  %4 = stablehlo.broadcast_in_dim %3, dims = [0, 1] : (tensor<8x1xf32>) -> tensor<8x32xf32>
  %5 = stablehlo.subtract %arg0, %4 : tensor<8x32xf32>
  %6 = call @layernorm_var__var(%arg0, %c) : (tensor<8x32xf32>, tensor<i32>) -> tensor<8x1xf32>
  %7 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<8x1xf32>
  %8 = stablehlo.add %6, %7 : tensor<8x1xf32>
  %9 = stablehlo.sqrt %8 : tensor<8x1xf32>
  %10 = stablehlo.broadcast_in_dim %9, dims = [0, 1] : (tensor<8x1xf32>) -> tensor<8x32xf32>
  %11 = stablehlo.divide %5, %10 : tensor<8x32xf32>
  %12 = stablehlo.broadcast_in_dim %arg1, dims = [1] : (tensor<32xf32>) -> tensor<1x32xf32>
  %13 = stablehlo.broadcast_in_dim %12, dims = [0, 1] : (tensor<1x32xf32>) -> tensor<8x32xf32>
  %14 = stablehlo.multiply %11, %13 : tensor<8x32xf32>
  %15 = stablehlo.broadcast_in_dim %arg2, dims = [1] : (tensor<32xf32>) -> tensor<1x32xf32>
  %16 = stablehlo.broadcast_in_dim %15, dims = [0, 1] : (tensor<1x32xf32>) -> tensor<8x32xf32>
  %17 = stablehlo.add %14, %16 : tensor<8x32xf32>
  return %17 : tensor<8x32xf32>
}
func.func private @layernorm_var__var(%arg0: tensor<8x32xf32>, %arg1: tensor<i32>) -> tensor<8x1xf32> {
  %cst = stablehlo.constant dense<0x7FC00000> : tensor<f32>
  %cst_0 = stablehlo.constant dense<3.200000e+01> : tensor<f32>
  %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %0 = stablehlo.reduce(%arg0 init: %cst_1) applies stablehlo.add across dimensions = [1] : (tensor<8x32xf32>, tensor<f32>) -> tensor<8xf32>
  %1 = stablehlo.broadcast_in_dim %0, dims = [0] : (tensor<8xf32>) -> tensor<8x1xf32>
  %2 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<8x1xf32>
  %3 = stablehlo.divide %1, %2 : tensor<8x1xf32>
  %4 = stablehlo.broadcast_in_dim %3, dims = [0, 1] : (tensor<8x1xf32>) -> tensor<8x32xf32>
  %5 = stablehlo.subtract %arg0, %4 : tensor<8x32xf32>
  %6 = stablehlo.multiply %5, %5 : tensor<8x32xf32>
  %7 = stablehlo.convert %arg1 : (tensor<i32>) -> tensor<f32>
  %8 = stablehlo.subtract %cst_0, %7 : tensor<f32>
  %9 = stablehlo.reduce(%6 init: %cst_1) applies stablehlo.add across dimensions = [1] : (tensor<8x32xf32>, tensor<f32>) -> tensor<8xf32>
  %10 = stablehlo.broadcast_in_dim %9, dims = [0] : (tensor<8xf32>) -> tensor<8x1xf32>
  %11 = stablehlo.broadcast_in_dim %8, dims = [] : (tensor<f32>) -> tensor<8x1xf32>
  %12 = stablehlo.divide %10, %11 : tensor<8x1xf32>
  %13 = stablehlo.compare GT, %8, %cst_1, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
  %14 = call @layernorm_var__where(%13, %12, %cst) : (tensor<i1>, tensor<8x1xf32>, tensor<f32>) -> tensor<8x1xf32>
  return %14 : tensor<8x1xf32>
}
func.func private @layernorm_var__where(%arg0: tensor<i1>, %arg1: tensor<8x1xf32>, %arg2: tensor<f32>) -> tensor<8x1xf32> {
  %0 = stablehlo.convert %arg2 : tensor<f32>
  %1 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<8x1xf32>
  %2 = stablehlo.select %arg0, %arg1, %1 : tensor<i1>, tensor<8x1xf32>
  return %2 : tensor<8x1xf32>
}

func.func public @layernorm_alone(%arg0: tensor<8x32xf32>) -> (tensor<8x32xf32>) {
  %cst = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
  %cst_0 = stablehlo.constant dense<3.200000e+01> : tensor<f32>
  %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %0 = stablehlo.reduce(%arg0 init: %cst_1) applies stablehlo.add across dimensions = [1] : (tensor<8x32xf32>, tensor<f32>) -> tensor<8xf32>
  %1 = stablehlo.broadcast_in_dim %0, dims = [0] : (tensor<8xf32>) -> tensor<8x1xf32>
  %2 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<8x1xf32>
  %3 = stablehlo.divide %1, %2 : tensor<8x1xf32>
  %4 = stablehlo.broadcast_in_dim %3, dims = [0, 1] : (tensor<8x1xf32>) -> tensor<8x32xf32>
  %5 = stablehlo.subtract %arg0, %4 : tensor<8x32xf32>
  %6 = stablehlo.reduce(%arg0 init: %cst_1) applies stablehlo.add across dimensions = [1] : (tensor<8x32xf32>, tensor<f32>) -> tensor<8xf32>
  %7 = stablehlo.broadcast_in_dim %6, dims = [0] : (tensor<8xf32>) -> tensor<8x1xf32>
  %8 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<8x1xf32>
  %9 = stablehlo.divide %7, %8 : tensor<8x1xf32>
  %10 = stablehlo.broadcast_in_dim %9, dims = [0, 1] : (tensor<8x1xf32>) -> tensor<8x32xf32>
  %11 = stablehlo.subtract %arg0, %10 : tensor<8x32xf32>
  %12 = stablehlo.multiply %11, %11 : tensor<8x32xf32>
  %13 = stablehlo.reduce(%12 init: %cst_1) applies stablehlo.add across dimensions = [1] : (tensor<8x32xf32>, tensor<f32>) -> tensor<8xf32>
  %14 = stablehlo.broadcast_in_dim %13, dims = [0] : (tensor<8xf32>) -> tensor<8x1xf32>
  %15 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<8x1xf32>
  %16 = stablehlo.divide %14, %15 : tensor<8x1xf32>
  %17 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<8x1xf32>
  %18 = stablehlo.add %16, %17 : tensor<8x1xf32>
  %19 = stablehlo.sqrt %18 : tensor<8x1xf32>
  %20 = stablehlo.broadcast_in_dim %19, dims = [0, 1] : (tensor<8x1xf32>) -> tensor<8x32xf32>
  %21 = stablehlo.divide %5, %20 : tensor<8x32xf32>
  return %21 : tensor<8x32xf32>
}

func.func public @layernorm_by_moments(%arg0: tensor<8x32xf32>, %arg1: tensor<32xf32>, %arg2: tensor<32xf32>) -> (tensor<8x32xf32>) {
  %cst = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
  %cst_0 = stablehlo.constant dense<3.200000e+01> : tensor<f32>
  %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %0 = stablehlo.multiply %arg0, %arg0 : tensor<8x32xf32>
  %1 = stablehlo.reduce(%arg0 init: %cst_1) applies stablehlo.add across dimensions = [1] : (tensor<8x32xf32>, tensor<f32>) -> tensor<8xf32>
  %2 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<8xf32>
  %3 = stablehlo.divide %1, %2 : tensor<8xf32>
  %4 = stablehlo.reduce(%0 init: %cst_1) applies stablehlo.add across dimensions = [1] : (tensor<8x32xf32>, tensor<f32>) -> tensor<8xf32>
  %5 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<8xf32>
  %6 = stablehlo.divide %4, %5 : tensor<8xf32>
  %7 = stablehlo.multiply %3, %3 : tensor<8xf32>
  %8 = stablehlo.subtract %6, %7 : tensor<8xf32>
  %9 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<8xf32>
  %10 = stablehlo.maximum %9, %8 : tensor<8xf32>
  %11 = stablehlo.broadcast_in_dim %3, dims = [0] : (tensor<8xf32>) -> tensor<8x1xf32>
  %12 = stablehlo.broadcast_in_dim %10, dims = [0] : (tensor<8xf32>) -> tensor<8x1xf32>
  %13 = stablehlo.broadcast_in_dim %11, dims = [0, 1] : (tensor<8x1xf32>) -> tensor<8x32xf32>
  %14 = stablehlo.subtract %arg0, %13 : tensor<8x32xf32>
  %15 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<8x1xf32>
  %16 = stablehlo.add %12, %15 : tensor<8x1xf32>
  %17 = stablehlo.rsqrt %16 : tensor<8x1xf32>
  %18 = stablehlo.reshape %arg1 : (tensor<32xf32>) -> tensor<1x32xf32>
  %19 = stablehlo.broadcast_in_dim %17, dims = [0, 1] : (tensor<8x1xf32>) -> tensor<8x32xf32>
  %20 = stablehlo.broadcast_in_dim %18, dims = [0, 1] : (tensor<1x32xf32>) -> tensor<8x32xf32>
  %21 = stablehlo.multiply %19, %20 : tensor<8x32xf32>
  %22 = stablehlo.multiply %14, %21 : tensor<8x32xf32>
  %23 = stablehlo.reshape %arg2 : (tensor<32xf32>) -> tensor<1x32xf32>
  %24 = stablehlo.broadcast_in_dim %23, dims = [0, 1] : (tensor<1x32xf32>) -> tensor<8x32xf32>
  %25 = stablehlo.add %22, %24 : tensor<8x32xf32>
  return %25 : tensor<8x32xf32>
}

func.func public @rmsnorm_rsqrt(%arg0: tensor<8x32xf32>, %arg1: tensor<32xf32>) -> (tensor<8x32xf32>) {
  %cst = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
  %cst_0 = stablehlo.constant dense<3.200000e+01> : tensor<f32>
  %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %0 = stablehlo.multiply %arg0, %arg0 : tensor<8x32xf32>
  %1 = stablehlo.reduce(%0 init: %cst_1) applies stablehlo.add across dimensions = [1] : (tensor<8x32xf32>, tensor<f32>) -> tensor<8xf32>
  %2 = stablehlo.broadcast_in_dim %1, dims = [0] : (tensor<8xf32>) -> tensor<8x1xf32>
  %3 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<8x1xf32>
  %4 = stablehlo.divide %2, %3 : tensor<8x1xf32>
  %5 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<8x1xf32>
  %6 = stablehlo.add %4, %5 : tensor<8x1xf32>
  %7 = stablehlo.rsqrt %6 : tensor<8x1xf32>
  %8 = stablehlo.broadcast_in_dim %7, dims = [0, 1] : (tensor<8x1xf32>) -> tensor<8x32xf32>
  %9 = stablehlo.multiply %arg0, %8 : tensor<8x32xf32>
  %10 = stablehlo.broadcast_in_dim %arg1, dims = [1] : (tensor<32xf32>) -> tensor<1x32xf32>
  %11 = stablehlo.broadcast_in_dim %10, dims = [0, 1] : (tensor<1x32xf32>) -> tensor<8x32xf32>
  %12 = stablehlo.multiply %9, %11 : tensor<8x32xf32>
  return %12 : tensor<8x32xf32>
}

func.func public @rmsnorm_sqrt(%arg0: tensor<8x32xf32>, %arg1: tensor<32xf32>) -> (tensor<8x32xf32>) {
  %cst = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
  %cst_0 = stablehlo.constant dense<3.200000e+01> : tensor<f32>
  %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %0 = stablehlo.multiply %arg0, %arg0 : tensor<8x32xf32>
  %1 = stablehlo.reduce(%0 init: %cst_1) applies stablehlo.add across dimensions = [1] : (tensor<8x32xf32>, tensor<f32>) -> tensor<8xf32>
  %2 = stablehlo.broadcast_in_dim %1, dims = [0] : (tensor<8xf32>) -> tensor<8x1xf32>
  %3 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<8x1xf32>
  %4 = stablehlo.divide %2, %3 : tensor<8x1xf32>
  %5 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<8x1xf32>
  %6 = stablehlo.add %4, %5 : tensor<8x1xf32>
  %7 = stablehlo.sqrt %6 : tensor<8x1xf32>
  %8 = stablehlo.broadcast_in_dim %7, dims = [0, 1] : (tensor<8x1xf32>) -> tensor<8x32xf32>
  %9 = stablehlo.divide %arg0, %8 : tensor<8x32xf32>
  %10 = stablehlo.broadcast_in_dim %arg1, dims = [1] : (tensor<32xf32>) -> tensor<1x32xf32>
  %11 = stablehlo.broadcast_in_dim %10, dims = [0, 1] : (tensor<1x32xf32>) -> tensor<8x32xf32>
  %12 = stablehlo.multiply %11, %9 : tensor<8x32xf32>
  return %12 : tensor<8x32xf32>
}

func.func public @rmsnorm_joined(%arg0: tensor<8x32xf32>, %arg1: tensor<32xf32>) -> (tensor<8x32xf32>) {
  %cst = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
  %cst_0 = stablehlo.constant dense<3.200000e+01> : tensor<f32>
  %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %0 = stablehlo.multiply %arg0, %arg0 : tensor<8x32xf32>
  %1 = stablehlo.reduce(%0 init: %cst_1) applies stablehlo.add across dimensions = [1] : (tensor<8x32xf32>, tensor<f32>) -> tensor<8xf32>
  %2 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<8xf32>
  %3 = stablehlo.divide %1, %2 : tensor<8xf32>
  %4 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<8xf32>
  %5 = stablehlo.broadcast_in_dim %4, dims = [0] : (tensor<8xf32>) -> tensor<8x1xf32>
  %6 = stablehlo.broadcast_in_dim %3, dims = [0] : (tensor<8xf32>) -> tensor<8x1xf32>
  %7 = stablehlo.broadcast_in_dim %5, dims = [0, 1] : (tensor<8x1xf32>) -> tensor<8x32xf32>
  %8 = stablehlo.subtract %arg0, %7 : tensor<8x32xf32>
  %9 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<8x1xf32>
  %10 = stablehlo.add %6, %9 : tensor<8x1xf32>
  %11 = stablehlo.rsqrt %10 : tensor<8x1xf32>
  %12 = stablehlo.reshape %arg1 : (tensor<32xf32>) -> tensor<1x32xf32>
  %13 = stablehlo.broadcast_in_dim %11, dims = [0, 1] : (tensor<8x1xf32>) -> tensor<8x32xf32>
  %14 = stablehlo.broadcast_in_dim %12, dims = [0, 1] : (tensor<1x32xf32>) -> tensor<8x32xf32>
  %15 = stablehlo.multiply %13, %14 : tensor<8x32xf32>
  %16 = stablehlo.multiply %8, %15 : tensor<8x32xf32>
  return %16 : tensor<8x32xf32>
}

func.func public @batchnorm_nhwc(%arg0: tensor<2x8x8x16xf32>, %arg1: tensor<16xf32>, %arg2: tensor<16xf32>, %arg3: tensor<16xf32>, %arg4: tensor<16xf32>) -> (tensor<2x8x8x16xf32>) {
  %cst = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
  %0 = stablehlo.broadcast_in_dim %arg1, dims = [3] : (tensor<16xf32>) -> tensor<1x1x1x16xf32>
  %1 = stablehlo.broadcast_in_dim %0, dims = [0, 1, 2, 3] : (tensor<1x1x1x16xf32>) -> tensor<2x8x8x16xf32>
  %2 = stablehlo.subtract %arg0, %1 : tensor<2x8x8x16xf32>
  %3 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<16xf32>
  %4 = stablehlo.add %arg2, %3 : tensor<16xf32>
  %5 = stablehlo.sqrt %4 : tensor<16xf32>
  %6 = stablehlo.broadcast_in_dim %5, dims = [3] : (tensor<16xf32>) -> tensor<1x1x1x16xf32>
  %7 = stablehlo.broadcast_in_dim %6, dims = [0, 1, 2, 3] : (tensor<1x1x1x16xf32>) -> tensor<2x8x8x16xf32>
  %8 = stablehlo.divide %2, %7 : tensor<2x8x8x16xf32>
  %9 = stablehlo.broadcast_in_dim %arg3, dims = [3] : (tensor<16xf32>) -> tensor<1x1x1x16xf32>
  %10 = stablehlo.broadcast_in_dim %9, dims = [0, 1, 2, 3] : (tensor<1x1x1x16xf32>) -> tensor<2x8x8x16xf32>
  %11 = stablehlo.multiply %8, %10 : tensor<2x8x8x16xf32>
  %12 = stablehlo.broadcast_in_dim %arg4, dims = [3] : (tensor<16xf32>) -> tensor<1x1x1x16xf32>
  %13 = stablehlo.broadcast_in_dim %12, dims = [0, 1, 2, 3] : (tensor<1x1x1x16xf32>) -> tensor<2x8x8x16xf32>
  %14 = stablehlo.add %11, %13 : tensor<2x8x8x16xf32>
  return %14 : tensor<2x8x8x16xf32>
}

func.func public @batchnorm_nchw(%arg0: tensor<2x16x8x8xf32>, %arg1: tensor<16xf32>, %arg2: tensor<16xf32>, %arg3: tensor<16xf32>, %arg4: tensor<16xf32>) -> (tensor<2x16x8x8xf32>) {
  %cst = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
  %0 = stablehlo.broadcast_in_dim %arg1, dims = [1] : (tensor<16xf32>) -> tensor<1x16x1x1xf32>
  %1 = stablehlo.broadcast_in_dim %0, dims = [0, 1, 2, 3] : (tensor<1x16x1x1xf32>) -> tensor<2x16x8x8xf32>
  %2 = stablehlo.subtract %arg0, %1 : tensor<2x16x8x8xf32>
  %3 = stablehlo.broadcast_in_dim %arg2, dims = [1] : (tensor<16xf32>) -> tensor<1x16x1x1xf32>
  %4 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<1x16x1x1xf32>
  %5 = stablehlo.add %3, %4 : tensor<1x16x1x1xf32>
  %6 = stablehlo.rsqrt %5 : tensor<1x16x1x1xf32>
  %7 = stablehlo.broadcast_in_dim %6, dims = [0, 1, 2, 3] : (tensor<1x16x1x1xf32>) -> tensor<2x16x8x8xf32>
  %8 = stablehlo.multiply %2, %7 : tensor<2x16x8x8xf32>
  %9 = stablehlo.broadcast_in_dim %arg3, dims = [1] : (tensor<16xf32>) -> tensor<1x16x1x1xf32>
  %10 = stablehlo.broadcast_in_dim %9, dims = [0, 1, 2, 3] : (tensor<1x16x1x1xf32>) -> tensor<2x16x8x8xf32>
  %11 = stablehlo.multiply %8, %10 : tensor<2x16x8x8xf32>
  %12 = stablehlo.broadcast_in_dim %arg4, dims = [1] : (tensor<16xf32>) -> tensor<1x16x1x1xf32>
  %13 = stablehlo.broadcast_in_dim %12, dims = [0, 1, 2, 3] : (tensor<1x16x1x1xf32>) -> tensor<2x16x8x8xf32>
  %14 = stablehlo.add %11, %13 : tensor<2x16x8x8xf32>
  return %14 : tensor<2x16x8x8xf32>
}
