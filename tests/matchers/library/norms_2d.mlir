func.func public @softmax_first(%arg0: tensor<6x3x5xf32>) -> (tensor<6x3x5xf32>) {
  %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %cst_0 = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %0 = stablehlo.reduce(%arg0 init: %cst_0) applies stablehlo.maximum across dimensions = [0] : (tensor<6x3x5xf32>, tensor<f32>) -> tensor<3x5xf32>
  %1 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<3x5xf32>
  %2 = stablehlo.maximum %1, %0 : tensor<3x5xf32>
  %3 = stablehlo.broadcast_in_dim %2, dims = [1, 2] : (tensor<3x5xf32>) -> tensor<1x3x5xf32>
  %4 = stablehlo.broadcast_in_dim %3, dims = [0, 1, 2] : (tensor<1x3x5xf32>) -> tensor<6x3x5xf32>
  %5 = stablehlo.subtract %arg0, %4 : tensor<6x3x5xf32>
  %6 = stablehlo.exponential %5 : tensor<6x3x5xf32>
  %7 = stablehlo.reduce(%6 init: %cst) applies stablehlo.add across dimensions = [0] : (tensor<6x3x5xf32>, tensor<f32>) -> tensor<3x5xf32>
  %8 = stablehlo.broadcast_in_dim %7, dims = [1, 2] : (tensor<3x5xf32>) -> tensor<1x3x5xf32>
  %9 = stablehlo.broadcast_in_dim %8, dims = [0, 1, 2] : (tensor<1x3x5xf32>) -> tensor<6x3x5xf32>
  %10 = stablehlo.divide %6, %9 : tensor<6x3x5xf32>
  return %10 : tensor<6x3x5xf32>
}

func.func public @layernorm_2d(%arg0: tensor<2x3x5x4xf32>, %arg1: tensor<5x4xf32>, %arg2: tensor<5x4xf32>) -> (tensor<2x3x5x4xf32>) {
  %cst = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
  %cst_0 = stablehlo.constant dense<2.000000e+01> : tensor<f32>
  %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %0 = stablehlo.reduce(%arg0 init: %cst_1) applies stablehlo.add across dimensions = [2, 3] : (tensor<2x3x5x4xf32>, tensor<f32>) -> tensor<2x3xf32>
  %1 = stablehlo.broadcast_in_dim %0, dims = [0, 1] : (tensor<2x3xf32>) -> tensor<2x3x1x1xf32>
  %2 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<2x3x1x1xf32>
  %3 = stablehlo.divide %1, %2 : tensor<2x3x1x1xf32>
  %4 = stablehlo.broadcast_in_dim %3, dims = [0, 1, 2, 3] : (tensor<2x3x1x1xf32>) -> tensor<2x3x5x4xf32>
  %5 = stablehlo.subtract %arg0, %4 : tensor<2x3x5x4xf32>
  %6 = stablehlo.multiply %5, %5 : tensor<2x3x5x4xf32>
  %7 = stablehlo.reduce(%6 init: %cst_1) applies stablehlo.add across dimensions = [2, 3] : (tensor<2x3x5x4xf32>, tensor<f32>) -> tensor<2x3xf32>
  %8 = stablehlo.broadcast_in_dim %7, dims = [0, 1] : (tensor<2x3xf32>) -> tensor<2x3x1x1xf32>
  %9 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<2x3x1x1xf32>
  %10 = stablehlo.divide %8, %9 : tensor<2x3x1x1xf32>
  %11 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<2x3x1x1xf32>
  %12 = stablehlo.add %10, %11 : tensor<2x3x1x1xf32>
  %13 = stablehlo.rsqrt %12 : tensor<2x3x1x1xf32>
  %14 = stablehlo.broadcast_in_dim %13, dims = [0, 1, 2, 3] : (tensor<2x3x1x1xf32>) -> tensor<2x3x5x4xf32>
  %15 = stablehlo.multiply %5, %14 : tensor<2x3x5x4xf32>
  %16 = stablehlo.broadcast_in_dim %arg1, dims = [2, 3] : (tensor<5x4xf32>) -> tensor<1x1x5x4xf32>
  %17 = stablehlo.broadcast_in_dim %16, dims = [0, 1, 2, 3] : (tensor<1x1x5x4xf32>) -> tensor<2x3x5x4xf32>
  %18 = stablehlo.multiply %15, %17 : tensor<2x3x5x4xf32>
  %19 = stablehlo.broadcast_in_dim %arg2, dims = [2, 3] : (tensor<5x4xf32>) -> tensor<1x1x5x4xf32>
  %20 = stablehlo.broadcast_in_dim %19, dims = [0, 1, 2, 3] : (tensor<1x1x5x4xf32>) -> tensor<2x3x5x4xf32>
  %21 = stablehlo.add %18, %20 : tensor<2x3x5x4xf32>
  return %21 : tensor<2x3x5x4xf32>
}

func.func public @any_groupnorm_instances(%arg0: tensor<2x3x5x4xf32>, %arg1: tensor<3xf32>, %arg2: tensor<3xf32>) -> (tensor<2x3x5x4xf32>) {
  %cst = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
  %cst_0 = stablehlo.constant dense<2.000000e+01> : tensor<f32>
  %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %0 = stablehlo.reduce(%arg0 init: %cst_1) applies stablehlo.add across dimensions = [2, 3] : (tensor<2x3x5x4xf32>, tensor<f32>) -> tensor<2x3xf32>
  %1 = stablehlo.broadcast_in_dim %0, dims = [0, 1] : (tensor<2x3xf32>) -> tensor<2x3x1x1xf32>
  %2 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<2x3x1x1xf32>
  %3 = stablehlo.divide %1, %2 : tensor<2x3x1x1xf32>
  %4 = stablehlo.broadcast_in_dim %3, dims = [0, 1, 2, 3] : (tensor<2x3x1x1xf32>) -> tensor<2x3x5x4xf32>
  %5 = stablehlo.subtract %arg0, %4 : tensor<2x3x5x4xf32>
  %6 = stablehlo.multiply %5, %5 : tensor<2x3x5x4xf32>
  %7 = stablehlo.reduce(%6 init: %cst_1) applies stablehlo.add across dimensions = [2, 3] : (tensor<2x3x5x4xf32>, tensor<f32>) -> tensor<2x3xf32>
  %8 = stablehlo.broadcast_in_dim %7, dims = [0, 1] : (tensor<2x3xf32>) -> tensor<2x3x1x1xf32>
  %9 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<2x3x1x1xf32>
  %10 = stablehlo.divide %8, %9 : tensor<2x3x1x1xf32>
  %11 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<2x3x1x1xf32>
  %12 = stablehlo.add %10, %11 : tensor<2x3x1x1xf32>
  %13 = stablehlo.rsqrt %12 : tensor<2x3x1x1xf32>
  %14 = stablehlo.broadcast_in_dim %13, dims = [0, 1, 2, 3] : (tensor<2x3x1x1xf32>) -> tensor<2x3x5x4xf32>
  %15 = stablehlo.multiply %5, %14 : tensor<2x3x5x4xf32>
  %16 = stablehlo.broadcast_in_dim %arg1, dims = [1] : (tensor<3xf32>) -> tensor<1x3x1x1xf32>
  %17 = stablehlo.broadcast_in_dim %16, dims = [0, 1, 2, 3] : (tensor<1x3x1x1xf32>) -> tensor<2x3x5x4xf32>
  %18 = stablehlo.multiply %15, %17 : tensor<2x3x5x4xf32>
  %19 = stablehlo.broadcast_in_dim %arg2, dims = [1] : (tensor<3xf32>) -> tensor<1x3x1x1xf32>
  %20 = stablehlo.broadcast_in_dim %19, dims = [0, 1, 2, 3] : (tensor<1x3x1x1xf32>) -> tensor<2x3x5x4xf32>
  %21 = stablehlo.add %18, %20 : tensor<2x3x5x4xf32>
  return %21 : tensor<2x3x5x4xf32>
}

func.func public @batchnorm_nchw_row(%arg0: tensor<2x3x7xf32>, %arg1: tensor<3xf32>, %arg2: tensor<3xf32>, %arg3: tensor<3xf32>, %arg4: tensor<3xf32>) -> (tensor<2x3x7xf32>) {
  %cst = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
  %0 = stablehlo.broadcast_in_dim %arg1, dims = [1] : (tensor<3xf32>) -> tensor<1x3x1xf32>
  %1 = stablehlo.broadcast_in_dim %0, dims = [0, 1, 2] : (tensor<1x3x1xf32>) -> tensor<2x3x7xf32>
  %2 = stablehlo.subtract %arg0, %1 : tensor<2x3x7xf32>
  %3 = stablehlo.broadcast_in_dim %arg2, dims = [1] : (tensor<3xf32>) -> tensor<1x3x1xf32>
  %4 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<1x3x1xf32>
  %5 = stablehlo.add %3, %4 : tensor<1x3x1xf32>
  %6 = stablehlo.rsqrt %5 : tensor<1x3x1xf32>
  %7 = stablehlo.broadcast_in_dim %6, dims = [0, 1, 2] : (tensor<1x3x1xf32>) -> tensor<2x3x7xf32>
  %8 = stablehlo.multiply %2, %7 : tensor<2x3x7xf32>
  %9 = stablehlo.broadcast_in_dim %arg3, dims = [1] : (tensor<3xf32>) -> tensor<1x3x1xf32>
  %10 = stablehlo.broadcast_in_dim %9, dims = [0, 1, 2] : (tensor<1x3x1xf32>) -> tensor<2x3x7xf32>
  %11 = stablehlo.multiply %8, %10 : tensor<2x3x7xf32>
  %12 = stablehlo.broadcast_in_dim %arg4, dims = [1] : (tensor<3xf32>) -> tensor<1x3x1xf32>
  %13 = stablehlo.broadcast_in_dim %12, dims = [0, 1, 2] : (tensor<1x3x1xf32>) -> tensor<2x3x7xf32>
  %14 = stablehlo.add %11, %13 : tensor<2x3x7xf32>
  return %14 : tensor<2x3x7xf32>
}
