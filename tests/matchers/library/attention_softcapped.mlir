func.func public @attention_softcapped_masked(%arg0: tensor<2x3x8x4xf32>, %arg1: tensor<2x3x16x4xf32>, %arg2: tensor<2x3x16x5xf32>, %arg3: tensor<8x16xf32>) -> (tensor<2x3x8x5xf32>) {
  %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %cst_0 = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %cst_1 = stablehlo.constant dense<2.000000e+01> : tensor<f32>
  %cst_2 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
  %0 = stablehlo.dot_general %arg0, %arg1, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [3] : (tensor<2x3x8x4xf32>, tensor<2x3x16x4xf32>) -> tensor<2x3x8x16xf32>
  %1 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<2x3x8x16xf32>
  %2 = stablehlo.multiply %0, %1 : tensor<2x3x8x16xf32>
  %3 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<2x3x8x16xf32>
  %4 = stablehlo.divide %2, %3 : tensor<2x3x8x16xf32>
  %5 = stablehlo.tanh %4 : tensor<2x3x8x16xf32>
  %6 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<2x3x8x16xf32>
  %7 = stablehlo.multiply %5, %6 : tensor<2x3x8x16xf32>
  %8 = stablehlo.broadcast_in_dim %arg3, dims = [2, 3] : (tensor<8x16xf32>) -> tensor<1x1x8x16xf32>
  %9 = stablehlo.broadcast_in_dim %8, dims = [0, 1, 2, 3] : (tensor<1x1x8x16xf32>) -> tensor<2x3x8x16xf32>
  %10 = stablehlo.add %7, %9 : tensor<2x3x8x16xf32>
  %11 = stablehlo.reduce(%10 init: %cst_0) applies stablehlo.maximum across dimensions = [3] : (tensor<2x3x8x16xf32>, tensor<f32>) -> tensor<2x3x8xf32>
  %12 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<2x3x8xf32>
  %13 = stablehlo.maximum %12, %11 : tensor<2x3x8xf32>
  %14 = stablehlo.broadcast_in_dim %13, dims = [0, 1, 2] : (tensor<2x3x8xf32>) -> tensor<2x3x8x1xf32>
  %15 = stablehlo.broadcast_in_dim %14, dims = [0, 1, 2, 3] : (tensor<2x3x8x1xf32>) -> tensor<2x3x8x16xf32>
  %16 = stablehlo.subtract %10, %15 : tensor<2x3x8x16xf32>
  %17 = stablehlo.exponential %16 : tensor<2x3x8x16xf32>
  %18 = stablehlo.reduce(%17 init: %cst) applies stablehlo.add across dimensions = [3] : (tensor<2x3x8x16xf32>, tensor<f32>) -> tensor<2x3x8xf32>
  %19 = stablehlo.broadcast_in_dim %18, dims = [0, 1, 2] : (tensor<2x3x8xf32>) -> tensor<2x3x8x1xf32>
  %20 = stablehlo.broadcast_in_dim %19, dims = [0, 1, 2, 3] : (tensor<2x3x8x1xf32>) -> tensor<2x3x8x16xf32>
  %21 = stablehlo.divide %17, %20 : tensor<2x3x8x16xf32>
  %22 = stablehlo.dot_general %21, %arg2, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2] : (tensor<2x3x8x16xf32>, tensor<2x3x16x5xf32>) -> tensor<2x3x8x5xf32>
  return %22 : tensor<2x3x8x5xf32>
}

func.func public @attention_kt_softcapped_masked(%arg0: tensor<2x3x8x4xf32>, %arg1: tensor<2x3x4x16xf32>, %arg2: tensor<2x3x16x5xf32>, %arg3: tensor<8x16xf32>) -> (tensor<2x3x8x5xf32>) {
  %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %cst_0 = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %cst_1 = stablehlo.constant dense<2.000000e+01> : tensor<f32>
  %cst_2 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
  %0 = stablehlo.dot_general %arg0, %arg1, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2] : (tensor<2x3x8x4xf32>, tensor<2x3x4x16xf32>) -> tensor<2x3x8x16xf32>
  %1 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<2x3x8x16xf32>
  %2 = stablehlo.multiply %0, %1 : tensor<2x3x8x16xf32>
  %3 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<2x3x8x16xf32>
  %4 = stablehlo.divide %2, %3 : tensor<2x3x8x16xf32>
  %5 = stablehlo.tanh %4 : tensor<2x3x8x16xf32>
  %6 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<2x3x8x16xf32>
  %7 = stablehlo.multiply %5, %6 : tensor<2x3x8x16xf32>
  %8 = stablehlo.broadcast_in_dim %arg3, dims = [2, 3] : (tensor<8x16xf32>) -> tensor<1x1x8x16xf32>
  %9 = stablehlo.broadcast_in_dim %8, dims = [0, 1, 2, 3] : (tensor<1x1x8x16xf32>) -> tensor<2x3x8x16xf32>
  %10 = stablehlo.add %7, %9 : tensor<2x3x8x16xf32>
  %11 = stablehlo.reduce(%10 init: %cst_0) applies stablehlo.maximum across dimensions = [3] : (tensor<2x3x8x16xf32>, tensor<f32>) -> tensor<2x3x8xf32>
  %12 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<2x3x8xf32>
  %13 = stablehlo.maximum %12, %11 : tensor<2x3x8xf32>
  %14 = stablehlo.broadcast_in_dim %13, dims = [0, 1, 2] : (tensor<2x3x8xf32>) -> tensor<2x3x8x1xf32>
  %15 = stablehlo.broadcast_in_dim %14, dims = [0, 1, 2, 3] : (tensor<2x3x8x1xf32>) -> tensor<2x3x8x16xf32>
  %16 = stablehlo.subtract %10, %15 : tensor<2x3x8x16xf32>
  %17 = stablehlo.exponential %16 : tensor<2x3x8x16xf32>
  %18 = stablehlo.reduce(%17 init: %cst) applies stablehlo.add across dimensions = [3] : (tensor<2x3x8x16xf32>, tensor<f32>) -> tensor<2x3x8xf32>
  %19 = stablehlo.broadcast_in_dim %18, dims = [0, 1, 2] : (tensor<2x3x8xf32>) -> tensor<2x3x8x1xf32>
  %20 = stablehlo.broadcast_in_dim %19, dims = [0, 1, 2, 3] : (tensor<2x3x8x1xf32>) -> tensor<2x3x8x16xf32>
  %21 = stablehlo.divide %17, %20 : tensor<2x3x8x16xf32>
  %22 = stablehlo.dot_general %21, %arg2, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2] : (tensor<2x3x8x16xf32>, tensor<2x3x16x5xf32>) -> tensor<2x3x8x5xf32>
  return %22 : tensor<2x3x8x5xf32>
}
