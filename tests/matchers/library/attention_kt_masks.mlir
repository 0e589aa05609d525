func.func public @attention_kt_masked_by_key(%arg0: tensor<2x3x8x4xf32>, %arg1: tensor<2x3x4x16xf32>, %arg2: tensor<2x3x16x5xf32>, %arg3: tensor<2x16xf32>) -> (tensor<2x3x8x5xf32>) {
  %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %cst_0 = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %cst_1 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
  %0 = stablehlo.dot_general %arg0, %arg1, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2] : (tensor<2x3x8x4xf32>, tensor<2x3x4x16xf32>) -> tensor<2x3x8x16xf32>
  %1 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<2x3x8x16xf32>
  %2 = stablehlo.multiply %0, %1 : tensor<2x3x8x16xf32>
  %3 = stablehlo.broadcast_in_dim %arg3, dims = [0, 3] : (tensor<2x16xf32>) -> tensor<2x1x1x16xf32>
  %4 = stablehlo.broadcast_in_dim %3, dims = [0, 1, 2, 3] : (tensor<2x1x1x16xf32>) -> tensor<2x3x8x16xf32>
  %5 = stablehlo.add %2, %4 : tensor<2x3x8x16xf32>
  %6 = stablehlo.reduce(%5 init: %cst_0) applies stablehlo.maximum across dimensions = [3] : (tensor<2x3x8x16xf32>, tensor<f32>) -> tensor<2x3x8xf32>
  %7 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<2x3x8xf32>
  %8 = stablehlo.maximum %7, %6 : tensor<2x3x8xf32>
  %9 = stablehlo.broadcast_in_dim %8, dims = [0, 1, 2] : (tensor<2x3x8xf32>) -> tensor<2x3x8x1xf32>
  %10 = stablehlo.broadcast_in_dim %9, dims = [0, 1, 2, 3] : (tensor<2x3x8x1xf32>) -> tensor<2x3x8x16xf32>
  %11 = stablehlo.subtract %5, %10 : tensor<2x3x8x16xf32>
  %12 = stablehlo.exponential %11 : tensor<2x3x8x16xf32>
  %13 = stablehlo.reduce(%12 init: %cst) applies stablehlo.add across dimensions = [3] : (tensor<2x3x8x16xf32>, tensor<f32>) -> tensor<2x3x8xf32>
  %14 = stablehlo.broadcast_in_dim %13, dims = [0, 1, 2] : (tensor<2x3x8xf32>) -> tensor<2x3x8x1xf32>
  %15 = stablehlo.broadcast_in_dim %14, dims = [0, 1, 2, 3] : (tensor<2x3x8x1xf32>) -> tensor<2x3x8x16xf32>
  %16 = stablehlo.divide %12, %15 : tensor<2x3x8x16xf32>
  %17 = stablehlo.dot_general %16, %arg2, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2] : (tensor<2x3x8x16xf32>, tensor<2x3x16x5xf32>) -> tensor<2x3x8x5xf32>
  return %17 : tensor<2x3x8x5xf32>
}

func.func public @attention_kt_biased_by_head(%arg0: tensor<2x3x8x4xf32>, %arg1: tensor<2x3x4x16xf32>, %arg2: tensor<2x3x16x5xf32>, %arg3: tensor<3x8x16xf32>) -> (tensor<2x3x8x5xf32>) {
  %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %cst_0 = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %cst_1 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
  %0 = stablehlo.dot_general %arg0, %arg1, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2] : (tensor<2x3x8x4xf32>, tensor<2x3x4x16xf32>) -> tensor<2x3x8x16xf32>
  %1 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<2x3x8x16xf32>
  %2 = stablehlo.multiply %0, %1 : tensor<2x3x8x16xf32>
  %3 = stablehlo.broadcast_in_dim %arg3, dims = [1, 2, 3] : (tensor<3x8x16xf32>) -> tensor<1x3x8x16xf32>
  %4 = stablehlo.broadcast_in_dim %3, dims = [0, 1, 2, 3] : (tensor<1x3x8x16xf32>) -> tensor<2x3x8x16xf32>
  %5 = stablehlo.add %2, %4 : tensor<2x3x8x16xf32>
  %6 = stablehlo.reduce(%5 init: %cst_0) applies stablehlo.maximum across dimensions = [3] : (tensor<2x3x8x16xf32>, tensor<f32>) -> tensor<2x3x8xf32>
  %7 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<2x3x8xf32>
  %8 = stablehlo.maximum %7, %6 : tensor<2x3x8xf32>
  %9 = stablehlo.broadcast_in_dim %8, dims = [0, 1, 2] : (tensor<2x3x8xf32>) -> tensor<2x3x8x1xf32>
  %10 = stablehlo.broadcast_in_dim %9, dims = [0, 1, 2, 3] : (tensor<2x3x8x1xf32>) -> tensor<2x3x8x16xf32>
  %11 = stablehlo.subtract %5, %10 : tensor<2x3x8x16xf32>
  %12 = stablehlo.exponential %11 : tensor<2x3x8x16xf32>
  %13 = stablehlo.reduce(%12 init: %cst) applies stablehlo.add across dimensions = [3] : (tensor<2x3x8x16xf32>, tensor<f32>) -> tensor<2x3x8xf32>
  %14 = stablehlo.broadcast_in_dim %13, dims = [0, 1, 2] : (tensor<2x3x8xf32>) -> tensor<2x3x8x1xf32>
  %15 = stablehlo.broadcast_in_dim %14, dims = [0, 1, 2, 3] : (tensor<2x3x8x1xf32>) -> tensor<2x3x8x16xf32>
  %16 = stablehlo.divide %12, %15 : tensor<2x3x8x16xf32>
  %17 = stablehlo.dot_general %16, %arg2, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2] : (tensor<2x3x8x16xf32>, tensor<2x3x16x5xf32>) -> tensor<2x3x8x5xf32>
  return %17 : tensor<2x3x8x5xf32>
}

func.func public @attention_kt_where_by_batch(%arg0: tensor<2x3x8x4xf32>, %arg1: tensor<2x3x4x16xf32>, %arg2: tensor<2x3x16x5xf32>, %arg3: tensor<2x8x16xi1>) -> (tensor<2x3x8x5xf32>) {
  %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %cst_0 = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %cst_1 = stablehlo.constant dense<-1.000000e+09> : tensor<f32>
  %cst_2 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
  %0 = stablehlo.dot_general %arg0, %arg1, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2] : (tensor<2x3x8x4xf32>, tensor<2x3x4x16xf32>) -> tensor<2x3x8x16xf32>
  %1 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<2x3x8x16xf32>
  %2 = stablehlo.multiply %0, %1 : tensor<2x3x8x16xf32>
  %3 = stablehlo.broadcast_in_dim %arg3, dims = [0, 2, 3] : (tensor<2x8x16xi1>) -> tensor<2x1x8x16xi1>
  %4 = stablehlo.broadcast_in_dim %3, dims = [0, 1, 2, 3] : (tensor<2x1x8x16xi1>) -> tensor<2x3x8x16xi1>
  %5 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<2x3x8x16xf32>
  %6 = stablehlo.select %4, %2, %5 : tensor<2x3x8x16xi1>, tensor<2x3x8x16xf32>
  %7 = stablehlo.reduce(%6 init: %cst_0) applies stablehlo.maximum across dimensions = [3] : (tensor<2x3x8x16xf32>, tensor<f32>) -> tensor<2x3x8xf32>
  %8 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<2x3x8xf32>
  %9 = stablehlo.maximum %8, %7 : tensor<2x3x8xf32>
  %10 = stablehlo.broadcast_in_dim %9, dims = [0, 1, 2] : (tensor<2x3x8xf32>) -> tensor<2x3x8x1xf32>
  %11 = stablehlo.broadcast_in_dim %10, dims = [0, 1, 2, 3] : (tensor<2x3x8x1xf32>) -> tensor<2x3x8x16xf32>
  %12 = stablehlo.subtract %6, %11 : tensor<2x3x8x16xf32>
  %13 = stablehlo.exponential %12 : tensor<2x3x8x16xf32>
  %14 = stablehlo.reduce(%13 init: %cst) applies stablehlo.add across dimensions = [3] : (tensor<2x3x8x16xf32>, tensor<f32>) -> tensor<2x3x8xf32>
  %15 = stablehlo.broadcast_in_dim %14, dims = [0, 1, 2] : (tensor<2x3x8xf32>) -> tensor<2x3x8x1xf32>
  %16 = stablehlo.broadcast_in_dim %15, dims = [0, 1, 2, 3] : (tensor<2x3x8x1xf32>) -> tensor<2x3x8x16xf32>
  %17 = stablehlo.divide %13, %16 : tensor<2x3x8x16xf32>
  %18 = stablehlo.dot_general %17, %arg2, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2] : (tensor<2x3x8x16xf32>, tensor<2x3x16x5xf32>) -> tensor<2x3x8x5xf32>
  return %18 : tensor<2x3x8x5xf32>
}

func.func public @attention_kt_where_by_key(%arg0: tensor<2x3x8x4xf32>, %arg1: tensor<2x3x4x16xf32>, %arg2: tensor<2x3x16x5xf32>, %arg3: tensor<2x16xi1>) -> (tensor<2x3x8x5xf32>) {
  %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %cst_0 = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %cst_1 = stablehlo.constant dense<-1.000000e+09> : tensor<f32>
  %cst_2 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
  %0 = stablehlo.dot_general %arg0, %arg1, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2] : (tensor<2x3x8x4xf32>, tensor<2x3x4x16xf32>) -> tensor<2x3x8x16xf32>
  %1 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<2x3x8x16xf32>
  %2 = stablehlo.multiply %0, %1 : tensor<2x3x8x16xf32>
  %3 = stablehlo.broadcast_in_dim %arg3, dims = [0, 3] : (tensor<2x16xi1>) -> tensor<2x1x1x16xi1>
  %4 = stablehlo.broadcast_in_dim %3, dims = [0, 1, 2, 3] : (tensor<2x1x1x16xi1>) -> tensor<2x3x8x16xi1>
  %5 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<2x3x8x16xf32>
  %6 = stablehlo.select %4, %2, %5 : tensor<2x3x8x16xi1>, tensor<2x3x8x16xf32>
  %7 = stablehlo.reduce(%6 init: %cst_0) applies stablehlo.maximum across dimensions = [3] : (tensor<2x3x8x16xf32>, tensor<f32>) -> tensor<2x3x8xf32>
  %8 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<2x3x8xf32>
  %9 = stablehlo.maximum %8, %7 : tensor<2x3x8xf32>
  %10 = stablehlo.broadcast_in_dim %9, dims = [0, 1, 2] : (tensor<2x3x8xf32>) -> tensor<2x3x8x1xf32>
  %11 = stablehlo.broadcast_in_dim %10, dims = [0, 1, 2, 3] : (tensor<2x3x8x1xf32>) -> tensor<2x3x8x16xf32>
  %12 = stablehlo.subtract %6, %11 : tensor<2x3x8x16xf32>
  %13 = stablehlo.exponential %12 : tensor<2x3x8x16xf32>
  %14 = stablehlo.reduce(%13 init: %cst) applies stablehlo.add across dimensions = [3] : (tensor<2x3x8x16xf32>, tensor<f32>) -> tensor<2x3x8xf32>
  %15 = stablehlo.broadcast_in_dim %14, dims = [0, 1, 2] : (tensor<2x3x8xf32>) -> tensor<2x3x8x1xf32>
  %16 = stablehlo.broadcast_in_dim %15, dims = [0, 1, 2, 3] : (tensor<2x3x8x1xf32>) -> tensor<2x3x8x16xf32>
  %17 = stablehlo.divide %13, %16 : tensor<2x3x8x16xf32>
  %18 = stablehlo.dot_general %17, %arg2, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2] : (tensor<2x3x8x16xf32>, tensor<2x3x16x5xf32>) -> tensor<2x3x8x5xf32>
  return %18 : tensor<2x3x8x5xf32>
}

func.func public @attention_kt_unless(%arg0: tensor<2x3x8x4xf32>, %arg1: tensor<2x3x4x16xf32>, %arg2: tensor<2x3x16x5xf32>, %arg3: tensor<8x16xi1>) -> (tensor<2x3x8x5xf32>) {
  %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %cst_0 = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %cst_1 = stablehlo.constant dense<-1.000000e+09> : tensor<f32>
  %cst_2 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
  %0 = stablehlo.dot_general %arg0, %arg1, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2] : (tensor<2x3x8x4xf32>, tensor<2x3x4x16xf32>) -> tensor<2x3x8x16xf32>
  %1 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<2x3x8x16xf32>
  %2 = stablehlo.multiply %0, %1 : tensor<2x3x8x16xf32>
  %3 = stablehlo.broadcast_in_dim %arg3, dims = [2, 3] : (tensor<8x16xi1>) -> tensor<1x1x8x16xi1>
  %4 = stablehlo.broadcast_in_dim %3, dims = [0, 1, 2, 3] : (tensor<1x1x8x16xi1>) -> tensor<2x3x8x16xi1>
  %5 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<2x3x8x16xf32>
  %6 = stablehlo.select %4, %5, %2 : tensor<2x3x8x16xi1>, tensor<2x3x8x16xf32>
  %7 = stablehlo.reduce(%6 init: %cst_0) applies stablehlo.maximum across dimensions = [3] : (tensor<2x3x8x16xf32>, tensor<f32>) -> tensor<2x3x8xf32>
  %8 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<2x3x8xf32>
  %9 = stablehlo.maximum %8, %7 : tensor<2x3x8xf32>
  %10 = stablehlo.broadcast_in_dim %9, dims = [0, 1, 2] : (tensor<2x3x8xf32>) -> tensor<2x3x8x1xf32>
  %11 = stablehlo.broadcast_in_dim %10, dims = [0, 1, 2, 3] : (tensor<2x3x8x1xf32>) -> tensor<2x3x8x16xf32>
  %12 = stablehlo.subtract %6, %11 : tensor<2x3x8x16xf32>
  %13 = stablehlo.exponential %12 : tensor<2x3x8x16xf32>
  %14 = stablehlo.reduce(%13 init: %cst) applies stablehlo.add across dimensions = [3] : (tensor<2x3x8x16xf32>, tensor<f32>) -> tensor<2x3x8xf32>
  %15 = stablehlo.broadcast_in_dim %14, dims = [0, 1, 2] : (tensor<2x3x8xf32>) -> tensor<2x3x8x1xf32>
  %16 = stablehlo.broadcast_in_dim %15, dims = [0, 1, 2, 3] : (tensor<2x3x8x1xf32>) -> tensor<2x3x8x16xf32>
  %17 = stablehlo.divide %13, %16 : tensor<2x3x8x16xf32>
  %18 = stablehlo.dot_general %17, %arg2, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2] : (tensor<2x3x8x16xf32>, tensor<2x3x16x5xf32>) -> tensor<2x3x8x5xf32>
  return %18 : tensor<2x3x8x5xf32>
}

func.func public @attention_kt_unless_each(%arg0: tensor<2x3x8x4xf32>, %arg1: tensor<2x3x4x16xf32>, %arg2: tensor<2x3x16x5xf32>, %arg3: tensor<2x3x8x16xi1>) -> (tensor<2x3x8x5xf32>) {
  %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %cst_0 = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %cst_1 = stablehlo.constant dense<-1.000000e+09> : tensor<f32>
  %cst_2 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
  %0 = stablehlo.dot_general %arg0, %arg1, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2] : (tensor<2x3x8x4xf32>, tensor<2x3x4x16xf32>) -> tensor<2x3x8x16xf32>
  %1 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<2x3x8x16xf32>
  %2 = stablehlo.multiply %0, %1 : tensor<2x3x8x16xf32>
  %3 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<2x3x8x16xf32>
  %4 = stablehlo.select %arg3, %3, %2 : tensor<2x3x8x16xi1>, tensor<2x3x8x16xf32>
  %5 = stablehlo.reduce(%4 init: %cst_0) applies stablehlo.maximum across dimensions = [3] : (tensor<2x3x8x16xf32>, tensor<f32>) -> tensor<2x3x8xf32>
  %6 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<2x3x8xf32>
  %7 = stablehlo.maximum %6, %5 : tensor<2x3x8xf32>
  %8 = stablehlo.broadcast_in_dim %7, dims = [0, 1, 2] : (tensor<2x3x8xf32>) -> tensor<2x3x8x1xf32>
  %9 = stablehlo.broadcast_in_dim %8, dims = [0, 1, 2, 3] : (tensor<2x3x8x1xf32>) -> tensor<2x3x8x16xf32>
  %10 = stablehlo.subtract %4, %9 : tensor<2x3x8x16xf32>
  %11 = stablehlo.exponential %10 : tensor<2x3x8x16xf32>
  %12 = stablehlo.reduce(%11 init: %cst) applies stablehlo.add across dimensions = [3] : (tensor<2x3x8x16xf32>, tensor<f32>) -> tensor<2x3x8xf32>
  %13 = stablehlo.broadcast_in_dim %12, dims = [0, 1, 2] : (tensor<2x3x8xf32>) -> tensor<2x3x8x1xf32>
  %14 = stablehlo.broadcast_in_dim %13, dims = [0, 1, 2, 3] : (tensor<2x3x8x1xf32>) -> tensor<2x3x8x16xf32>
  %15 = stablehlo.divide %11, %14 : tensor<2x3x8x16xf32>
  %16 = stablehlo.dot_general %15, %arg2, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2] : (tensor<2x3x8x16xf32>, tensor<2x3x16x5xf32>) -> tensor<2x3x8x5xf32>
  return %16 : tensor<2x3x8x5xf32>
}

func.func public @attention_kt_unless_by_batch(%arg0: tensor<2x3x8x4xf32>, %arg1: tensor<2x3x4x16xf32>, %arg2: tensor<2x3x16x5xf32>, %arg3: tensor<2x8x16xi1>) -> (tensor<2x3x8x5xf32>) {
  %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %cst_0 = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %cst_1 = stablehlo.constant dense<-1.000000e+09> : tensor<f32>
  %cst_2 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
  %0 = stablehlo.dot_general %arg0, %arg1, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2] : (tensor<2x3x8x4xf32>, tensor<2x3x4x16xf32>) -> tensor<2x3x8x16xf32>
  %1 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<2x3x8x16xf32>
  %2 = stablehlo.multiply %0, %1 : tensor<2x3x8x16xf32>
  %3 = stablehlo.broadcast_in_dim %arg3, dims = [0, 2, 3] : (tensor<2x8x16xi1>) -> tensor<2x1x8x16xi1>
  %4 = stablehlo.broadcast_in_dim %3, dims = [0, 1, 2, 3] : (tensor<2x1x8x16xi1>) -> tensor<2x3x8x16xi1>
  %5 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<2x3x8x16xf32>
  %6 = stablehlo.select %4, %5, %2 : tensor<2x3x8x16xi1>, tensor<2x3x8x16xf32>
  %7 = stablehlo.reduce(%6 init: %cst_0) applies stablehlo.maximum across dimensions = [3] : (tensor<2x3x8x16xf32>, tensor<f32>) -> tensor<2x3x8xf32>
  %8 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<2x3x8xf32>
  %9 = stablehlo.maximum %8, %7 : tensor<2x3x8xf32>
  %10 = stablehlo.broadcast_in_dim %9, dims = [0, 1, 2] : (tensor<2x3x8xf32>) -> tensor<2x3x8x1xf32>
  %11 = stablehlo.broadcast_in_dim %10, dims = [0, 1, 2, 3] : (tensor<2x3x8x1xf32>) -> tensor<2x3x8x16xf32>
  %12 = stablehlo.subtract %6, %11 : tensor<2x3x8x16xf32>
  %13 = stablehlo.exponential %12 : tensor<2x3x8x16xf32>
  %14 = stablehlo.reduce(%13 init: %cst) applies stablehlo.add across dimensions = [3] : (tensor<2x3x8x16xf32>, tensor<f32>) -> tensor<2x3x8xf32>
  %15 = stablehlo.broadcast_in_dim %14, dims = [0, 1, 2] : (tensor<2x3x8xf32>) -> tensor<2x3x8x1xf32>
  %16 = stablehlo.broadcast_in_dim %15, dims = [0, 1, 2, 3] : (tensor<2x3x8x1xf32>) -> tensor<2x3x8x16xf32>
  %17 = stablehlo.divide %13, %16 : tensor<2x3x8x16xf32>
  %18 = stablehlo.dot_general %17, %arg2, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2] : (tensor<2x3x8x16xf32>, tensor<2x3x16x5xf32>) -> tensor<2x3x8x5xf32>
  return %18 : tensor<2x3x8x5xf32>
}

func.func public @attention_kt_unless_by_key(%arg0: tensor<2x3x8x4xf32>, %arg1: tensor<2x3x4x16xf32>, %arg2: tensor<2x3x16x5xf32>, %arg3: tensor<2x16xi1>) -> (tensor<2x3x8x5xf32>) {
  %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %cst_0 = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %cst_1 = stablehlo.constant dense<-1.000000e+09> : tensor<f32>
  %cst_2 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
  %0 = stablehlo.dot_general %arg0, %arg1, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2] : (tensor<2x3x8x4xf32>, tensor<2x3x4x16xf32>) -> tensor<2x3x8x16xf32>
  %1 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<2x3x8x16xf32>
  %2 = stablehlo.multiply %0, %1 : tensor<2x3x8x16xf32>
  %3 = stablehlo.broadcast_in_dim %arg3, dims = [0, 3] : (tensor<2x16xi1>) -> tensor<2x1x1x16xi1>
  %4 = stablehlo.broadcast_in_dim %3, dims = [0, 1, 2, 3] : (tensor<2x1x1x16xi1>) -> tensor<2x3x8x16xi1>
  %5 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<2x3x8x16xf32>
  %6 = stablehlo.select %4, %5, %2 : tensor<2x3x8x16xi1>, tensor<2x3x8x16xf32>
  %7 = stablehlo.reduce(%6 init: %cst_0) applies stablehlo.maximum across dimensions = [3] : (tensor<2x3x8x16xf32>, tensor<f32>) -> tensor<2x3x8xf32>
  %8 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<2x3x8xf32>
  %9 = stablehlo.maximum %8, %7 : tensor<2x3x8xf32>
  %10 = stablehlo.broadcast_in_dim %9, dims = [0, 1, 2] : (tensor<2x3x8xf32>) -> tensor<2x3x8x1xf32>
  %11 = stablehlo.broadcast_in_dim %10, dims = [0, 1, 2, 3] : (tensor<2x3x8x1xf32>) -> tensor<2x3x8x16xf32>
  %12 = stablehlo.subtract %6, %11 : tensor<2x3x8x16xf32>
  %13 = stablehlo.exponential %12 : tensor<2x3x8x16xf32>
  %14 = stablehlo.reduce(%13 init: %cst) applies stablehlo.add across dimensions = [3] : (tensor<2x3x8x16xf32>, tensor<f32>) -> tensor<2x3x8xf32>
  %15 = stablehlo.broadcast_in_dim %14, dims = [0, 1, 2] : (tensor<2x3x8xf32>) -> tensor<2x3x8x1xf32>
  %16 = stablehlo.broadcast_in_dim %15, dims = [0, 1, 2, 3] : (tensor<2x3x8x1xf32>) -> tensor<2x3x8x16xf32>
  %17 = stablehlo.divide %13, %16 : tensor<2x3x8x16xf32>
  %18 = stablehlo.dot_general %17, %arg2, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2] : (tensor<2x3x8x16xf32>, tensor<2x3x16x5xf32>) -> tensor<2x3x8x5xf32>
  return %18 : tensor<2x3x8x5xf32>
}
