func.func public @attention_grouped(%arg0: tensor<2x8x3x2x4xf32>, %arg1: tensor<2x16x3x4xf32>, %arg2: tensor<2x16x3x5xf32>) -> (tensor<2x8x3x2x5xf32>) {
  %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %cst_0 = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %cst_1 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
  %0 = stablehlo.dot_general %arg1, %arg0, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [4] : (tensor<2x16x3x4xf32>, tensor<2x8x3x2x4xf32>) -> tensor<2x3x16x8x2xf32>
  %1 = stablehlo.transpose %0, dims = [0, 1, 4, 3, 2] : (tensor<2x3x16x8x2xf32>) -> tensor<2x3x2x8x16xf32>
  %2 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<2x3x2x8x16xf32>
  %3 = stablehlo.multiply %1, %2 : tensor<2x3x2x8x16xf32>
  %4 = stablehlo.reduce(%3 init: %cst_0) applies stablehlo.maximum across dimensions = [4] : (tensor<2x3x2x8x16xf32>, tensor<f32>) -> tensor<2x3x2x8xf32>
  %5 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<2x3x2x8xf32>
  %6 = stablehlo.maximum %5, %4 : tensor<2x3x2x8xf32>
  %7 = stablehlo.broadcast_in_dim %6, dims = [0, 1, 2, 3] : (tensor<2x3x2x8xf32>) -> tensor<2x3x2x8x1xf32>
  %8 = stablehlo.broadcast_in_dim %7, dims = [0, 1, 2, 3, 4] : (tensor<2x3x2x8x1xf32>) -> tensor<2x3x2x8x16xf32>
  %9 = stablehlo.subtract %3, %8 : tensor<2x3x2x8x16xf32>
  %10 = stablehlo.exponential %9 : tensor<2x3x2x8x16xf32>
  %11 = stablehlo.reduce(%10 init: %cst) applies stablehlo.add across dimensions = [4] : (tensor<2x3x2x8x16xf32>, tensor<f32>) -> tensor<2x3x2x8xf32>
  %12 = stablehlo.broadcast_in_dim %11, dims = [0, 1, 2, 3] : (tensor<2x3x2x8xf32>) -> tensor<2x3x2x8x1xf32>
  %13 = stablehlo.broadcast_in_dim %12, dims = [0, 1, 2, 3, 4] : (tensor<2x3x2x8x1xf32>) -> tensor<2x3x2x8x16xf32>
  %14 = stablehlo.divide %10, %13 : tensor<2x3x2x8x16xf32>
  %15 = stablehlo.dot_general %arg2, %14, batching_dims = [0, 2] x [0, 1], contracting_dims = [1] x [4] : (tensor<2x16x3x5xf32>, tensor<2x3x2x8x16xf32>) -> tensor<2x3x5x2x8xf32>
  %16 = stablehlo.transpose %15, dims = [0, 4, 1, 3, 2] : (tensor<2x3x5x2x8xf32>) -> tensor<2x8x3x2x5xf32>
  return %16 : tensor<2x8x3x2x5xf32>
}

func.func public @attention_grouped_masked(%arg0: tensor<2x8x3x2x4xf32>, %arg1: tensor<2x16x3x4xf32>, %arg2: tensor<2x16x3x5xf32>, %arg3: tensor<8x16xf32>) -> (tensor<2x8x3x2x5xf32>) {
  %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %cst_0 = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %cst_1 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
  %0 = stablehlo.dot_general %arg1, %arg0, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [4] : (tensor<2x16x3x4xf32>, tensor<2x8x3x2x4xf32>) -> tensor<2x3x16x8x2xf32>
  %1 = stablehlo.transpose %0, dims = [0, 1, 4, 3, 2] : (tensor<2x3x16x8x2xf32>) -> tensor<2x3x2x8x16xf32>
  %2 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<2x3x2x8x16xf32>
  %3 = stablehlo.multiply %1, %2 : tensor<2x3x2x8x16xf32>
  %4 = stablehlo.broadcast_in_dim %arg3, dims = [3, 4] : (tensor<8x16xf32>) -> tensor<1x1x1x8x16xf32>
  %5 = stablehlo.broadcast_in_dim %4, dims = [0, 1, 2, 3, 4] : (tensor<1x1x1x8x16xf32>) -> tensor<2x3x2x8x16xf32>
  %6 = stablehlo.add %3, %5 : tensor<2x3x2x8x16xf32>
  %7 = stablehlo.reduce(%6 init: %cst_0) applies stablehlo.maximum across dimensions = [4] : (tensor<2x3x2x8x16xf32>, tensor<f32>) -> tensor<2x3x2x8xf32>
  %8 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<2x3x2x8xf32>
  %9 = stablehlo.maximum %8, %7 : tensor<2x3x2x8xf32>
  %10 = stablehlo.broadcast_in_dim %9, dims = [0, 1, 2, 3] : (tensor<2x3x2x8xf32>) -> tensor<2x3x2x8x1xf32>
  %11 = stablehlo.broadcast_in_dim %10, dims = [0, 1, 2, 3, 4] : (tensor<2x3x2x8x1xf32>) -> tensor<2x3x2x8x16xf32>
  %12 = stablehlo.subtract %6, %11 : tensor<2x3x2x8x16xf32>
  %13 = stablehlo.exponential %12 : tensor<2x3x2x8x16xf32>
  %14 = stablehlo.reduce(%13 init: %cst) applies stablehlo.add across dimensions = [4] : (tensor<2x3x2x8x16xf32>, tensor<f32>) -> tensor<2x3x2x8xf32>
  %15 = stablehlo.broadcast_in_dim %14, dims = [0, 1, 2, 3] : (tensor<2x3x2x8xf32>) -> tensor<2x3x2x8x1xf32>
  %16 = stablehlo.broadcast_in_dim %15, dims = [0, 1, 2, 3, 4] : (tensor<2x3x2x8x1xf32>) -> tensor<2x3x2x8x16xf32>
  %17 = stablehlo.divide %13, %16 : tensor<2x3x2x8x16xf32>
  %18 = stablehlo.dot_general %arg2, %17, batching_dims = [0, 2] x [0, 1], contracting_dims = [1] x [4] : (tensor<2x16x3x5xf32>, tensor<2x3x2x8x16xf32>) -> tensor<2x3x5x2x8xf32>
  %19 = stablehlo.transpose %18, dims = [0, 4, 1, 3, 2] : (tensor<2x3x5x2x8xf32>) -> tensor<2x8x3x2x5xf32>
  return %19 : tensor<2x8x3x2x5xf32>
}

func.func public @attention_grouped_where(%arg0: tensor<2x8x3x2x4xf32>, %arg1: tensor<2x16x3x4xf32>, %arg2: tensor<2x16x3x5xf32>, %arg3: tensor<8x16xi1>) -> (tensor<2x8x3x2x5xf32>) {
  %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %cst_0 = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %cst_1 = stablehlo.constant dense<-1.000000e+09> : tensor<f32>
  %cst_2 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
  %0 = stablehlo.dot_general %arg1, %arg0, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [4] : (tensor<2x16x3x4xf32>, tensor<2x8x3x2x4xf32>) -> tensor<2x3x16x8x2xf32>
  %1 = stablehlo.transpose %0, dims = [0, 1, 4, 3, 2] : (tensor<2x3x16x8x2xf32>) -> tensor<2x3x2x8x16xf32>
  %2 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<2x3x2x8x16xf32>
  %3 = stablehlo.multiply %1, %2 : tensor<2x3x2x8x16xf32>
  %4 = stablehlo.broadcast_in_dim %arg3, dims = [3, 4] : (tensor<8x16xi1>) -> tensor<2x3x2x8x16xi1>
  %5 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<2x3x2x8x16xf32>
  %6 = stablehlo.select %4, %3, %5 : tensor<2x3x2x8x16xi1>, tensor<2x3x2x8x16xf32>
  %7 = stablehlo.reduce(%6 init: %cst_0) applies stablehlo.maximum across dimensions = [4] : (tensor<2x3x2x8x16xf32>, tensor<f32>) -> tensor<2x3x2x8xf32>
  %8 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<2x3x2x8xf32>
  %9 = stablehlo.maximum %8, %7 : tensor<2x3x2x8xf32>
  %10 = stablehlo.broadcast_in_dim %9, dims = [0, 1, 2, 3] : (tensor<2x3x2x8xf32>) -> tensor<2x3x2x8x1xf32>
  %11 = stablehlo.broadcast_in_dim %10, dims = [0, 1, 2, 3, 4] : (tensor<2x3x2x8x1xf32>) -> tensor<2x3x2x8x16xf32>
  %12 = stablehlo.subtract %6, %11 : tensor<2x3x2x8x16xf32>
  %13 = stablehlo.exponential %12 : tensor<2x3x2x8x16xf32>
  %14 = stablehlo.reduce(%13 init: %cst) applies stablehlo.add across dimensions = [4] : (tensor<2x3x2x8x16xf32>, tensor<f32>) -> tensor<2x3x2x8xf32>
  %15 = stablehlo.broadcast_in_dim %14, dims = [0, 1, 2, 3] : (tensor<2x3x2x8xf32>) -> tensor<2x3x2x8x1xf32>
  %16 = stablehlo.broadcast_in_dim %15, dims = [0, 1, 2, 3, 4] : (tensor<2x3x2x8x1xf32>) -> tensor<2x3x2x8x16xf32>
  %17 = stablehlo.divide %13, %16 : tensor<2x3x2x8x16xf32>
  %18 = stablehlo.dot_general %arg2, %17, batching_dims = [0, 2] x [0, 1], contracting_dims = [1] x [4] : (tensor<2x16x3x5xf32>, tensor<2x3x2x8x16xf32>) -> tensor<2x3x5x2x8xf32>
  %19 = stablehlo.transpose %18, dims = [0, 4, 1, 3, 2] : (tensor<2x3x5x2x8xf32>) -> tensor<2x8x3x2x5xf32>
  return %19 : tensor<2x8x3x2x5xf32>
}
