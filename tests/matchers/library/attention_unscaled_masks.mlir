func.func public @attention_masked_by_batch_unscaled(%arg0: tensor<2x3x8x4xf32>, %arg1: tensor<2x3x16x4xf32>, %arg2: tensor<2x3x16x5xf32>, %arg3: tensor<2x8x16xf32>) -> tensor<2x3x8x5xf32> {
  %zero = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %lowest = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %0 = stablehlo.dot_general %arg0, %arg1, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [3] : (tensor<2x3x8x4xf32>, tensor<2x3x16x4xf32>) -> tensor<2x3x8x16xf32>
  %1 = stablehlo.broadcast_in_dim %arg3, dims = [0, 2, 3] : (tensor<2x8x16xf32>) -> tensor<2x1x8x16xf32>
  %2 = stablehlo.broadcast_in_dim %1, dims = [0, 1, 2, 3] : (tensor<2x1x8x16xf32>) -> tensor<2x3x8x16xf32>
  %3 = stablehlo.add %0, %2 : tensor<2x3x8x16xf32>
  %4 = stablehlo.reduce(%3 init: %lowest) applies stablehlo.maximum across dimensions = [3] : (tensor<2x3x8x16xf32>, tensor<f32>) -> tensor<2x3x8xf32>
  %5 = stablehlo.broadcast_in_dim %4, dims = [0, 1, 2] : (tensor<2x3x8xf32>) -> tensor<2x3x8x1xf32>
  %6 = stablehlo.broadcast_in_dim %5, dims = [0, 1, 2, 3] : (tensor<2x3x8x1xf32>) -> tensor<2x3x8x16xf32>
  %7 = stablehlo.subtract %3, %6 : tensor<2x3x8x16xf32>
  %8 = stablehlo.exponential %7 : tensor<2x3x8x16xf32>
  %9 = stablehlo.reduce(%8 init: %zero) applies stablehlo.add across dimensions = [3] : (tensor<2x3x8x16xf32>, tensor<f32>) -> tensor<2x3x8xf32>
  %10 = stablehlo.broadcast_in_dim %9, dims = [0, 1, 2] : (tensor<2x3x8xf32>) -> tensor<2x3x8x1xf32>
  %11 = stablehlo.broadcast_in_dim %10, dims = [0, 1, 2, 3] : (tensor<2x3x8x1xf32>) -> tensor<2x3x8x16xf32>
  %12 = stablehlo.divide %8, %11 : tensor<2x3x8x16xf32>
  %13 = stablehlo.dot_general %12, %arg2, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2] : (tensor<2x3x8x16xf32>, tensor<2x3x16x5xf32>) -> tensor<2x3x8x5xf32>
  return %13 : tensor<2x3x8x5xf32>
}

func.func public @attention_masked_by_key_unscaled(%arg0: tensor<2x3x8x4xf32>, %arg1: tensor<2x3x16x4xf32>, %arg2: tensor<2x3x16x5xf32>, %arg3: tensor<2x16xf32>) -> tensor<2x3x8x5xf32> {
  %zero = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %lowest = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %0 = stablehlo.dot_general %arg0, %arg1, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [3] : (tensor<2x3x8x4xf32>, tensor<2x3x16x4xf32>) -> tensor<2x3x8x16xf32>
  %1 = stablehlo.broadcast_in_dim %arg3, dims = [0, 3] : (tensor<2x16xf32>) -> tensor<2x1x1x16xf32>
  %2 = stablehlo.broadcast_in_dim %1, dims = [0, 1, 2, 3] : (tensor<2x1x1x16xf32>) -> tensor<2x3x8x16xf32>
  %3 = stablehlo.add %0, %2 : tensor<2x3x8x16xf32>
  %4 = stablehlo.reduce(%3 init: %lowest) applies stablehlo.maximum across dimensions = [3] : (tensor<2x3x8x16xf32>, tensor<f32>) -> tensor<2x3x8xf32>
  %5 = stablehlo.broadcast_in_dim %4, dims = [0, 1, 2] : (tensor<2x3x8xf32>) -> tensor<2x3x8x1xf32>
  %6 = stablehlo.broadcast_in_dim %5, dims = [0, 1, 2, 3] : (tensor<2x3x8x1xf32>) -> tensor<2x3x8x16xf32>
  %7 = stablehlo.subtract %3, %6 : tensor<2x3x8x16xf32>
  %8 = stablehlo.exponential %7 : tensor<2x3x8x16xf32>
  %9 = stablehlo.reduce(%8 init: %zero) applies stablehlo.add across dimensions = [3] : (tensor<2x3x8x16xf32>, tensor<f32>) -> tensor<2x3x8xf32>
  %10 = stablehlo.broadcast_in_dim %9, dims = [0, 1, 2] : (tensor<2x3x8xf32>) -> tensor<2x3x8x1xf32>
  %11 = stablehlo.broadcast_in_dim %10, dims = [0, 1, 2, 3] : (tensor<2x3x8x1xf32>) -> tensor<2x3x8x16xf32>
  %12 = stablehlo.divide %8, %11 : tensor<2x3x8x16xf32>
  %13 = stablehlo.dot_general %12, %arg2, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2] : (tensor<2x3x8x16xf32>, tensor<2x3x16x5xf32>) -> tensor<2x3x8x5xf32>
  return %13 : tensor<2x3x8x5xf32>
}

func.func public @attention_biased_by_head_unscaled(%arg0: tensor<2x3x8x4xf32>, %arg1: tensor<2x3x16x4xf32>, %arg2: tensor<2x3x16x5xf32>, %arg3: tensor<3x8x16xf32>) -> tensor<2x3x8x5xf32> {
  %zero = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %lowest = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %0 = stablehlo.dot_general %arg0, %arg1, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [3] : (tensor<2x3x8x4xf32>, tensor<2x3x16x4xf32>) -> tensor<2x3x8x16xf32>
  %1 = stablehlo.broadcast_in_dim %arg3, dims = [1, 2, 3] : (tensor<3x8x16xf32>) -> tensor<1x3x8x16xf32>
  %2 = stablehlo.broadcast_in_dim %1, dims = [0, 1, 2, 3] : (tensor<1x3x8x16xf32>) -> tensor<2x3x8x16xf32>
  %3 = stablehlo.add %0, %2 : tensor<2x3x8x16xf32>
  %4 = stablehlo.reduce(%3 init: %lowest) applies stablehlo.maximum across dimensions = [3] : (tensor<2x3x8x16xf32>, tensor<f32>) -> tensor<2x3x8xf32>
  %5 = stablehlo.broadcast_in_dim %4, dims = [0, 1, 2] : (tensor<2x3x8xf32>) -> tensor<2x3x8x1xf32>
  %6 = stablehlo.broadcast_in_dim %5, dims = [0, 1, 2, 3] : (tensor<2x3x8x1xf32>) -> tensor<2x3x8x16xf32>
  %7 = stablehlo.subtract %3, %6 : tensor<2x3x8x16xf32>
  %8 = stablehlo.exponential %7 : tensor<2x3x8x16xf32>
  %9 = stablehlo.reduce(%8 init: %zero) applies stablehlo.add across dimensions = [3] : (tensor<2x3x8x16xf32>, tensor<f32>) -> tensor<2x3x8xf32>
  %10 = stablehlo.broadcast_in_dim %9, dims = [0, 1, 2] : (tensor<2x3x8xf32>) -> tensor<2x3x8x1xf32>
  %11 = stablehlo.broadcast_in_dim %10, dims = [0, 1, 2, 3] : (tensor<2x3x8x1xf32>) -> tensor<2x3x8x16xf32>
  %12 = stablehlo.divide %8, %11 : tensor<2x3x8x16xf32>
  %13 = stablehlo.dot_general %12, %arg2, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2] : (tensor<2x3x8x16xf32>, tensor<2x3x16x5xf32>) -> tensor<2x3x8x5xf32>
  return %13 : tensor<2x3x8x5xf32>
}

func.func public @attention_where_unscaled(%arg0: tensor<2x3x8x4xf32>, %arg1: tensor<2x3x16x4xf32>, %arg2: tensor<2x3x16x5xf32>, %arg3: tensor<8x16xi1>) -> tensor<2x3x8x5xf32> {
  %zero = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %lowest = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %hidden = stablehlo.constant dense<-1.000000e+09> : tensor<f32>
  %0 = stablehlo.dot_general %arg0, %arg1, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [3] : (tensor<2x3x8x4xf32>, tensor<2x3x16x4xf32>) -> tensor<2x3x8x16xf32>
  %1 = stablehlo.broadcast_in_dim %arg3, dims = [2, 3] : (tensor<8x16xi1>) -> tensor<1x1x8x16xi1>
  %2 = stablehlo.broadcast_in_dim %1, dims = [0, 1, 2, 3] : (tensor<1x1x8x16xi1>) -> tensor<2x3x8x16xi1>
  %3 = stablehlo.broadcast_in_dim %hidden, dims = [] : (tensor<f32>) -> tensor<2x3x8x16xf32>
  %4 = stablehlo.select %2, %0, %3 : tensor<2x3x8x16xi1>, tensor<2x3x8x16xf32>
  %5 = stablehlo.reduce(%4 init: %lowest) applies stablehlo.maximum across dimensions = [3] : (tensor<2x3x8x16xf32>, tensor<f32>) -> tensor<2x3x8xf32>
  %6 = stablehlo.broadcast_in_dim %5, dims = [0, 1, 2] : (tensor<2x3x8xf32>) -> tensor<2x3x8x1xf32>
  %7 = stablehlo.broadcast_in_dim %6, dims = [0, 1, 2, 3] : (tensor<2x3x8x1xf32>) -> tensor<2x3x8x16xf32>
  %8 = stablehlo.subtract %4, %7 : tensor<2x3x8x16xf32>
  %9 = stablehlo.exponential %8 : tensor<2x3x8x16xf32>
  %10 = stablehlo.reduce(%9 init: %zero) applies stablehlo.add across dimensions = [3] : (tensor<2x3x8x16xf32>, tensor<f32>) -> tensor<2x3x8xf32>
  %11 = stablehlo.broadcast_in_dim %10, dims = [0, 1, 2] : (tensor<2x3x8xf32>) -> tensor<2x3x8x1xf32>
  %12 = stablehlo.broadcast_in_dim %11, dims = [0, 1, 2, 3] : (tensor<2x3x8x1xf32>) -> tensor<2x3x8x16xf32>
  %13 = stablehlo.divide %9, %12 : tensor<2x3x8x16xf32>
  %14 = stablehlo.dot_general %13, %arg2, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2] : (tensor<2x3x8x16xf32>, tensor<2x3x16x5xf32>) -> tensor<2x3x8x5xf32>
  return %14 : tensor<2x3x8x5xf32>
}

func.func public @attention_where_each_unscaled(%arg0: tensor<2x3x8x4xf32>, %arg1: tensor<2x3x16x4xf32>, %arg2: tensor<2x3x16x5xf32>, %arg3: tensor<2x3x8x16xi1>) -> tensor<2x3x8x5xf32> {
  %zero = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %lowest = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %hidden = stablehlo.constant dense<-1.000000e+09> : tensor<f32>
  %0 = stablehlo.dot_general %arg0, %arg1, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [3] : (tensor<2x3x8x4xf32>, tensor<2x3x16x4xf32>) -> tensor<2x3x8x16xf32>
  %1 = stablehlo.broadcast_in_dim %hidden, dims = [] : (tensor<f32>) -> tensor<2x3x8x16xf32>
  %2 = stablehlo.select %arg3, %0, %1 : tensor<2x3x8x16xi1>, tensor<2x3x8x16xf32>
  %3 = stablehlo.reduce(%2 init: %lowest) applies stablehlo.maximum across dimensions = [3] : (tensor<2x3x8x16xf32>, tensor<f32>) -> tensor<2x3x8xf32>
  %4 = stablehlo.broadcast_in_dim %3, dims = [0, 1, 2] : (tensor<2x3x8xf32>) -> tensor<2x3x8x1xf32>
  %5 = stablehlo.broadcast_in_dim %4, dims = [0, 1, 2, 3] : (tensor<2x3x8x1xf32>) -> tensor<2x3x8x16xf32>
  %6 = stablehlo.subtract %2, %5 : tensor<2x3x8x16xf32>
  %7 = stablehlo.exponential %6 : tensor<2x3x8x16xf32>
  %8 = stablehlo.reduce(%7 init: %zero) applies stablehlo.add across dimensions = [3] : (tensor<2x3x8x16xf32>, tensor<f32>) -> tensor<2x3x8xf32>
  %9 = stablehlo.broadcast_in_dim %8, dims = [0, 1, 2] : (tensor<2x3x8xf32>) -> tensor<2x3x8x1xf32>
  %10 = stablehlo.broadcast_in_dim %9, dims = [0, 1, 2, 3] : (tensor<2x3x8x1xf32>) -> tensor<2x3x8x16xf32>
  %11 = stablehlo.divide %7, %10 : tensor<2x3x8x16xf32>
  %12 = stablehlo.dot_general %11, %arg2, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2] : (tensor<2x3x8x16xf32>, tensor<2x3x16x5xf32>) -> tensor<2x3x8x5xf32>
  return %12 : tensor<2x3x8x5xf32>
}

func.func public @attention_where_by_batch_unscaled(%arg0: tensor<2x3x8x4xf32>, %arg1: tensor<2x3x16x4xf32>, %arg2: tensor<2x3x16x5xf32>, %arg3: tensor<2x8x16xi1>) -> tensor<2x3x8x5xf32> {
  %zero = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %lowest = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %hidden = stablehlo.constant dense<-1.000000e+09> : tensor<f32>
  %0 = stablehlo.dot_general %arg0, %arg1, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [3] : (tensor<2x3x8x4xf32>, tensor<2x3x16x4xf32>) -> tensor<2x3x8x16xf32>
  %1 = stablehlo.broadcast_in_dim %arg3, dims = [0, 2, 3] : (tensor<2x8x16xi1>) -> tensor<2x1x8x16xi1>
  %2 = stablehlo.broadcast_in_dim %1, dims = [0, 1, 2, 3] : (tensor<2x1x8x16xi1>) -> tensor<2x3x8x16xi1>
  %3 = stablehlo.broadcast_in_dim %hidden, dims = [] : (tensor<f32>) -> tensor<2x3x8x16xf32>
  %4 = stablehlo.select %2, %0, %3 : tensor<2x3x8x16xi1>, tensor<2x3x8x16xf32>
  %5 = stablehlo.reduce(%4 init: %lowest) applies stablehlo.maximum across dimensions = [3] : (tensor<2x3x8x16xf32>, tensor<f32>) -> tensor<2x3x8xf32>
  %6 = stablehlo.broadcast_in_dim %5, dims = [0, 1, 2] : (tensor<2x3x8xf32>) -> tensor<2x3x8x1xf32>
  %7 = stablehlo.broadcast_in_dim %6, dims = [0, 1, 2, 3] : (tensor<2x3x8x1xf32>) -> tensor<2x3x8x16xf32>
  %8 = stablehlo.subtract %4, %7 : tensor<2x3x8x16xf32>
  %9 = stablehlo.exponential %8 : tensor<2x3x8x16xf32>
  %10 = stablehlo.reduce(%9 init: %zero) applies stablehlo.add across dimensions = [3] : (tensor<2x3x8x16xf32>, tensor<f32>) -> tensor<2x3x8xf32>
  %11 = stablehlo.broadcast_in_dim %10, dims = [0, 1, 2] : (tensor<2x3x8xf32>) -> tensor<2x3x8x1xf32>
  %12 = stablehlo.broadcast_in_dim %11, dims = [0, 1, 2, 3] : (tensor<2x3x8x1xf32>) -> tensor<2x3x8x16xf32>
  %13 = stablehlo.divide %9, %12 : tensor<2x3x8x16xf32>
  %14 = stablehlo.dot_general %13, %arg2, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2] : (tensor<2x3x8x16xf32>, tensor<2x3x16x5xf32>) -> tensor<2x3x8x5xf32>
  return %14 : tensor<2x3x8x5xf32>
}

func.func public @attention_where_by_key_unscaled(%arg0: tensor<2x3x8x4xf32>, %arg1: tensor<2x3x16x4xf32>, %arg2: tensor<2x3x16x5xf32>, %arg3: tensor<2x16xi1>) -> tensor<2x3x8x5xf32> {
  %zero = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %lowest = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %hidden = stablehlo.constant dense<-1.000000e+09> : tensor<f32>
  %0 = stablehlo.dot_general %arg0, %arg1, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [3] : (tensor<2x3x8x4xf32>, tensor<2x3x16x4xf32>) -> tensor<2x3x8x16xf32>
  %1 = stablehlo.broadcast_in_dim %arg3, dims = [0, 3] : (tensor<2x16xi1>) -> tensor<2x1x1x16xi1>
  %2 = stablehlo.broadcast_in_dim %1, dims = [0, 1, 2, 3] : (tensor<2x1x1x16xi1>) -> tensor<2x3x8x16xi1>
  %3 = stablehlo.broadcast_in_dim %hidden, dims = [] : (tensor<f32>) -> tensor<2x3x8x16xf32>
  %4 = stablehlo.select %2, %0, %3 : tensor<2x3x8x16xi1>, tensor<2x3x8x16xf32>
  %5 = stablehlo.reduce(%4 init: %lowest) applies stablehlo.maximum across dimensions = [3] : (tensor<2x3x8x16xf32>, tensor<f32>) -> tensor<2x3x8xf32>
  %6 = stablehlo.broadcast_in_dim %5, dims = [0, 1, 2] : (tensor<2x3x8xf32>) -> tensor<2x3x8x1xf32>
  %7 = stablehlo.broadcast_in_dim %6, dims = [0, 1, 2, 3] : (tensor<2x3x8x1xf32>) -> tensor<2x3x8x16xf32>
  %8 = stablehlo.subtract %4, %7 : tensor<2x3x8x16xf32>
  %9 = stablehlo.exponential %8 : tensor<2x3x8x16xf32>
  %10 = stablehlo.reduce(%9 init: %zero) applies stablehlo.add across dimensions = [3] : (tensor<2x3x8x16xf32>, tensor<f32>) -> tensor<2x3x8xf32>
  %11 = stablehlo.broadcast_in_dim %10, dims = [0, 1, 2] : (tensor<2x3x8xf32>) -> tensor<2x3x8x1xf32>
  %12 = stablehlo.broadcast_in_dim %11, dims = [0, 1, 2, 3] : (tensor<2x3x8x1xf32>) -> tensor<2x3x8x16xf32>
  %13 = stablehlo.divide %9, %12 : tensor<2x3x8x16xf32>
  %14 = stablehlo.dot_general %13, %arg2, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2] : (tensor<2x3x8x16xf32>, tensor<2x3x16x5xf32>) -> tensor<2x3x8x5xf32>
  return %14 : tensor<2x3x8x5xf32>
}
