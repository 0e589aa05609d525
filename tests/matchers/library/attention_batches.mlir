func.func public @attention_masked_by_batch_transposed(%arg0: tensor<2x4x16x8xf32>, %arg1: tensor<2x4x16x8xf32>, %arg2: tensor<2x4x16x8xf32>, %arg3: tensor<2x16x16xf32>) -> (tensor<2x4x16x8xf32>) {
  %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %cst_0 = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %cst_1 = stablehlo.constant dense<0.353553385> : tensor<f32>
  %0 = stablehlo.dot_general %arg0, %arg1, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [3] : (tensor<2x4x16x8xf32>, tensor<2x4x16x8xf32>) -> tensor<2x4x16x16xf32>
  %1 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<2x4x16x16xf32>
  %2 = stablehlo.multiply %0, %1 : tensor<2x4x16x16xf32>
  %3 = stablehlo.broadcast_in_dim %arg3, dims = [0, 2, 3] : (tensor<2x16x16xf32>) -> tensor<2x1x16x16xf32>
  %4 = stablehlo.broadcast_in_dim %3, dims = [0, 1, 2, 3] : (tensor<2x1x16x16xf32>) -> tensor<2x4x16x16xf32>
  %5 = stablehlo.add %2, %4 : tensor<2x4x16x16xf32>
  %6 = stablehlo.reduce(%5 init: %cst_0) applies stablehlo.maximum across dimensions = [3] : (tensor<2x4x16x16xf32>, tensor<f32>) -> tensor<2x4x16xf32>
  %7 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<2x4x16xf32>
  %8 = stablehlo.maximum %7, %6 : tensor<2x4x16xf32>
  %9 = stablehlo.broadcast_in_dim %8, dims = [0, 1, 2] : (tensor<2x4x16xf32>) -> tensor<2x4x16x1xf32>
  %10 = stablehlo.broadcast_in_dim %9, dims = [0, 1, 2, 3] : (tensor<2x4x16x1xf32>) -> tensor<2x4x16x16xf32>
  %11 = stablehlo.subtract %5, %10 : tensor<2x4x16x16xf32>
  %12 = stablehlo.exponential %11 : tensor<2x4x16x16xf32>
  %13 = stablehlo.reduce(%12 init: %cst) applies stablehlo.add across dimensions = [3] : (tensor<2x4x16x16xf32>, tensor<f32>) -> tensor<2x4x16xf32>
  %14 = stablehlo.broadcast_in_dim %13, dims = [0, 1, 2] : (tensor<2x4x16xf32>) -> tensor<2x4x16x1xf32>
  %15 = stablehlo.broadcast_in_dim %14, dims = [0, 1, 2, 3] : (tensor<2x4x16x1xf32>) -> tensor<2x4x16x16xf32>
  %16 = stablehlo.divide %12, %15 : tensor<2x4x16x16xf32>
  %17 = stablehlo.dot_general %16, %arg2, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2] : (tensor<2x4x16x16xf32>, tensor<2x4x16x8xf32>) -> tensor<2x4x16x8xf32>
  return %17 : tensor<2x4x16x8xf32>
}

func.func public @attention_kt_masked_by_batch(%arg0: tensor<2x4x16x8xf32>, %arg1: tensor<2x4x8x16xf32>, %arg2: tensor<2x4x16x8xf32>, %arg3: tensor<2x16x16xf32>) -> (tensor<2x4x16x8xf32>) {
  %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %cst_0 = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %cst_1 = stablehlo.constant dense<0.353553385> : tensor<f32>
  %0 = stablehlo.dot_general %arg0, %arg1, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2] : (tensor<2x4x16x8xf32>, tensor<2x4x8x16xf32>) -> tensor<2x4x16x16xf32>
  %1 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<2x4x16x16xf32>
  %2 = stablehlo.multiply %0, %1 : tensor<2x4x16x16xf32>
  %3 = stablehlo.broadcast_in_dim %arg3, dims = [0, 2, 3] : (tensor<2x16x16xf32>) -> tensor<2x1x16x16xf32>
  %4 = stablehlo.broadcast_in_dim %3, dims = [0, 1, 2, 3] : (tensor<2x1x16x16xf32>) -> tensor<2x4x16x16xf32>
  %5 = stablehlo.add %2, %4 : tensor<2x4x16x16xf32>
  %6 = stablehlo.reduce(%5 init: %cst_0) applies stablehlo.maximum across dimensions = [3] : (tensor<2x4x16x16xf32>, tensor<f32>) -> tensor<2x4x16xf32>
  %7 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<2x4x16xf32>
  %8 = stablehlo.maximum %7, %6 : tensor<2x4x16xf32>
  %9 = stablehlo.broadcast_in_dim %8, dims = [0, 1, 2] : (tensor<2x4x16xf32>) -> tensor<2x4x16x1xf32>
  %10 = stablehlo.broadcast_in_dim %9, dims = [0, 1, 2, 3] : (tensor<2x4x16x1xf32>) -> tensor<2x4x16x16xf32>
  %11 = stablehlo.subtract %5, %10 : tensor<2x4x16x16xf32>
  %12 = stablehlo.exponential %11 : tensor<2x4x16x16xf32>
  %13 = stablehlo.reduce(%12 init: %cst) applies stablehlo.add across dimensions = [3] : (tensor<2x4x16x16xf32>, tensor<f32>) -> tensor<2x4x16xf32>
  %14 = stablehlo.broadcast_in_dim %13, dims = [0, 1, 2] : (tensor<2x4x16xf32>) -> tensor<2x4x16x1xf32>
  %15 = stablehlo.broadcast_in_dim %14, dims = [0, 1, 2, 3] : (tensor<2x4x16x1xf32>) -> tensor<2x4x16x16xf32>
  %16 = stablehlo.divide %12, %15 : tensor<2x4x16x16xf32>
  %17 = stablehlo.dot_general %16, %arg2, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2] : (tensor<2x4x16x16xf32>, tensor<2x4x16x8xf32>) -> tensor<2x4x16x8xf32>
  return %17 : tensor<2x4x16x8xf32>
}
