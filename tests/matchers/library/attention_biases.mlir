func.func public @attention_biased_by_head_masked(%arg0: tensor<2x3x8x4xf32>, %arg1: tensor<2x3x16x4xf32>, %arg2: tensor<2x3x16x5xf32>, %arg3: tensor<3x8x16xf32>, %arg4: tensor<8x16xf32>) -> tensor<2x3x8x5xf32> {
  %zero = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %lowest = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %scale = stablehlo.constant dense<5.000000e-01> : tensor<f32>
  %0 = stablehlo.dot_general %arg0, %arg1, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [3] : (tensor<2x3x8x4xf32>, tensor<2x3x16x4xf32>) -> tensor<2x3x8x16xf32>
  %1 = stablehlo.broadcast_in_dim %scale, dims = [] : (tensor<f32>) -> tensor<2x3x8x16xf32>
  %2 = stablehlo.multiply %0, %1 : tensor<2x3x8x16xf32>
  %3 = stablehlo.broadcast_in_dim %arg3, dims = [1, 2, 3] : (tensor<3x8x16xf32>) -> tensor<1x3x8x16xf32>
  %4 = stablehlo.broadcast_in_dim %3, dims = [0, 1, 2, 3] : (tensor<1x3x8x16xf32>) -> tensor<2x3x8x16xf32>
  %5 = stablehlo.add %2, %4 : tensor<2x3x8x16xf32>
  %6 = stablehlo.broadcast_in_dim %arg4, dims = [2, 3] : (tensor<8x16xf32>) -> tensor<1x1x8x16xf32>
  %7 = stablehlo.broadcast_in_dim %6, dims = [0, 1, 2, 3] : (tensor<1x1x8x16xf32>) -> tensor<2x3x8x16xf32>
  %8 = stablehlo.add %5, %7 : tensor<2x3x8x16xf32>
  %9 = stablehlo.reduce(%8 init: %lowest) applies stablehlo.maximum across dimensions = [3] : (tensor<2x3x8x16xf32>, tensor<f32>) -> tensor<2x3x8xf32>
  %10 = stablehlo.broadcast_in_dim %9, dims = [0, 1, 2] : (tensor<2x3x8xf32>) -> tensor<2x3x8x1xf32>
  %11 = stablehlo.broadcast_in_dim %10, dims = [0, 1, 2, 3] : (tensor<2x3x8x1xf32>) -> tensor<2x3x8x16xf32>
  %12 = stablehlo.subtract %8, %11 : tensor<2x3x8x16xf32>
  %13 = stablehlo.exponential %12 : tensor<2x3x8x16xf32>
  %14 = stablehlo.reduce(%13 init: %zero) applies stablehlo.add across dimensions = [3] : (tensor<2x3x8x16xf32>, tensor<f32>) -> tensor<2x3x8xf32>
  %15 = stablehlo.broadcast_in_dim %14, dims = [0, 1, 2] : (tensor<2x3x8xf32>) -> tensor<2x3x8x1xf32>
  %16 = stablehlo.broadcast_in_dim %15, dims = [0, 1, 2, 3] : (tensor<2x3x8x1xf32>) -> tensor<2x3x8x16xf32>
  %17 = stablehlo.divide %13, %16 : tensor<2x3x8x16xf32>
  %18 = stablehlo.dot_general %17, %arg2, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2] : (tensor<2x3x8x16xf32>, tensor<2x3x16x5xf32>) -> tensor<2x3x8x5xf32>
  return %18 : tensor<2x3x8x5xf32>
}

func.func public @attention_biased_by_head_masked_by_batch(%arg0: tensor<2x3x8x4xf32>, %arg1: tensor<2x3x16x4xf32>, %arg2: tensor<2x3x16x5xf32>, %arg3: tensor<3x8x16xf32>, %arg4: tensor<2x8x16xf32>) -> tensor<2x3x8x5xf32> {
  %zero = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %lowest = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %scale = stablehlo.constant dense<5.000000e-01> : tensor<f32>
  %0 = stablehlo.dot_general %arg0, %arg1, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [3] : (tensor<2x3x8x4xf32>, tensor<2x3x16x4xf32>) -> tensor<2x3x8x16xf32>
  %1 = stablehlo.broadcast_in_dim %scale, dims = [] : (tensor<f32>) -> tensor<2x3x8x16xf32>
  %2 = stablehlo.multiply %0, %1 : tensor<2x3x8x16xf32>
  %3 = stablehlo.broadcast_in_dim %arg3, dims = [1, 2, 3] : (tensor<3x8x16xf32>) -> tensor<1x3x8x16xf32>
  %4 = stablehlo.broadcast_in_dim %3, dims = [0, 1, 2, 3] : (tensor<1x3x8x16xf32>) -> tensor<2x3x8x16xf32>
  %5 = stablehlo.add %2, %4 : tensor<2x3x8x16xf32>
  %6 = stablehlo.broadcast_in_dim %arg4, dims = [0, 2, 3] : (tensor<2x8x16xf32>) -> tensor<2x1x8x16xf32>
  %7 = stablehlo.broadcast_in_dim %6, dims = [0, 1, 2, 3] : (tensor<2x1x8x16xf32>) -> tensor<2x3x8x16xf32>
  %8 = stablehlo.add %5, %7 : tensor<2x3x8x16xf32>
  %9 = stablehlo.reduce(%8 init: %lowest) applies stablehlo.maximum across dimensions = [3] : (tensor<2x3x8x16xf32>, tensor<f32>) -> tensor<2x3x8xf32>
  %10 = stablehlo.broadcast_in_dim %9, dims = [0, 1, 2] : (tensor<2x3x8xf32>) -> tensor<2x3x8x1xf32>
  %11 = stablehlo.broadcast_in_dim %10, dims = [0, 1, 2, 3] : (tensor<2x3x8x1xf32>) -> tensor<2x3x8x16xf32>
  %12 = stablehlo.subtract %8, %11 : tensor<2x3x8x16xf32>
  %13 = stablehlo.exponential %12 : tensor<2x3x8x16xf32>
  %14 = stablehlo.reduce(%13 init: %zero) applies stablehlo.add across dimensions = [3] : (tensor<2x3x8x16xf32>, tensor<f32>) -> tensor<2x3x8xf32>
  %15 = stablehlo.broadcast_in_dim %14, dims = [0, 1, 2] : (tensor<2x3x8xf32>) -> tensor<2x3x8x1xf32>
  %16 = stablehlo.broadcast_in_dim %15, dims = [0, 1, 2, 3] : (tensor<2x3x8x1xf32>) -> tensor<2x3x8x16xf32>
  %17 = stablehlo.divide %13, %16 : tensor<2x3x8x16xf32>
  %18 = stablehlo.dot_general %17, %arg2, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2] : (tensor<2x3x8x16xf32>, tensor<2x3x16x5xf32>) -> tensor<2x3x8x5xf32>
  return %18 : tensor<2x3x8x5xf32>
}

func.func public @attention_biased_by_head_where(%arg0: tensor<2x3x8x4xf32>, %arg1: tensor<2x3x16x4xf32>, %arg2: tensor<2x3x16x5xf32>, %arg3: tensor<3x8x16xf32>, %arg4: tensor<8x16xi1>) -> tensor<2x3x8x5xf32> {
  %zero = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %lowest = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %hidden = stablehlo.constant dense<-1.000000e+09> : tensor<f32>
  %scale = stablehlo.constant dense<5.000000e-01> : tensor<f32>
  %0 = stablehlo.dot_general %arg0, %arg1, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [3] : (tensor<2x3x8x4xf32>, tensor<2x3x16x4xf32>) -> tensor<2x3x8x16xf32>
  %1 = stablehlo.broadcast_in_dim %scale, dims = [] : (tensor<f32>) -> tensor<2x3x8x16xf32>
  %2 = stablehlo.multiply %0, %1 : tensor<2x3x8x16xf32>
  %3 = stablehlo.broadcast_in_dim %arg3, dims = [1, 2, 3] : (tensor<3x8x16xf32>) -> tensor<1x3x8x16xf32>
  %4 = stablehlo.broadcast_in_dim %3, dims = [0, 1, 2, 3] : (tensor<1x3x8x16xf32>) -> tensor<2x3x8x16xf32>
  %5 = stablehlo.add %2, %4 : tensor<2x3x8x16xf32>
  %6 = stablehlo.broadcast_in_dim %arg4, dims = [2, 3] : (tensor<8x16xi1>) -> tensor<1x1x8x16xi1>
  %7 = stablehlo.broadcast_in_dim %6, dims = [0, 1, 2, 3] : (tensor<1x1x8x16xi1>) -> tensor<2x3x8x16xi1>
  %8 = stablehlo.broadcast_in_dim %hidden, dims = [] : (tensor<f32>) -> tensor<2x3x8x16xf32>
  %9 = stablehlo.select %7, %5, %8 : tensor<2x3x8x16xi1>, tensor<2x3x8x16xf32>
  %10 = stablehlo.reduce(%9 init: %lowest) applies stablehlo.maximum across dimensions = [3] : (tensor<2x3x8x16xf32>, tensor<f32>) -> tensor<2x3x8xf32>
  %11 = stablehlo.broadcast_in_dim %10, dims = [0, 1, 2] : (tensor<2x3x8xf32>) -> tensor<2x3x8x1xf32>
  %12 = stablehlo.broadcast_in_dim %11, dims = [0, 1, 2, 3] : (tensor<2x3x8x1xf32>) -> tensor<2x3x8x16xf32>
  %13 = stablehlo.subtract %9, %12 : tensor<2x3x8x16xf32>
  %14 = stablehlo.exponential %13 : tensor<2x3x8x16xf32>
  %15 = stablehlo.reduce(%14 init: %zero) applies stablehlo.add across dimensions = [3] : (tensor<2x3x8x16xf32>, tensor<f32>) -> tensor<2x3x8xf32>
  %16 = stablehlo.broadcast_in_dim %15, dims = [0, 1, 2] : (tensor<2x3x8xf32>) -> tensor<2x3x8x1xf32>
  %17 = stablehlo.broadcast_in_dim %16, dims = [0, 1, 2, 3] : (tensor<2x3x8x1xf32>) -> tensor<2x3x8x16xf32>
  %18 = stablehlo.divide %14, %17 : tensor<2x3x8x16xf32>
  %19 = stablehlo.dot_general %18, %arg2, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2] : (tensor<2x3x8x16xf32>, tensor<2x3x16x5xf32>) -> tensor<2x3x8x5xf32>
  return %19 : tensor<2x3x8x5xf32>
}

func.func public @attention_biased_by_head_unless(%arg0: tensor<2x3x8x4xf32>, %arg1: tensor<2x3x16x4xf32>, %arg2: tensor<2x3x16x5xf32>, %arg3: tensor<3x8x16xf32>, %arg4: tensor<8x16xi1>) -> tensor<2x3x8x5xf32> {
  %zero = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %lowest = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %hidden = stablehlo.constant dense<-1.000000e+09> : tensor<f32>
  %scale = stablehlo.constant dense<5.000000e-01> : tensor<f32>
  %0 = stablehlo.dot_general %arg0, %arg1, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [3] : (tensor<2x3x8x4xf32>, tensor<2x3x16x4xf32>) -> tensor<2x3x8x16xf32>
  %1 = stablehlo.broadcast_in_dim %scale, dims = [] : (tensor<f32>) -> tensor<2x3x8x16xf32>
  %2 = stablehlo.multiply %0, %1 : tensor<2x3x8x16xf32>
  %3 = stablehlo.broadcast_in_dim %arg3, dims = [1, 2, 3] : (tensor<3x8x16xf32>) -> tensor<1x3x8x16xf32>
  %4 = stablehlo.broadcast_in_dim %3, dims = [0, 1, 2, 3] : (tensor<1x3x8x16xf32>) -> tensor<2x3x8x16xf32>
  %5 = stablehlo.add %2, %4 : tensor<2x3x8x16xf32>
  %6 = stablehlo.broadcast_in_dim %arg4, dims = [2, 3] : (tensor<8x16xi1>) -> tensor<1x1x8x16xi1>
  %7 = stablehlo.broadcast_in_dim %6, dims = [0, 1, 2, 3] : (tensor<1x1x8x16xi1>) -> tensor<2x3x8x16xi1>
  %8 = stablehlo.broadcast_in_dim %hidden, dims = [] : (tensor<f32>) -> tensor<2x3x8x16xf32>
  %9 = stablehlo.select %7, %8, %5 : tensor<2x3x8x16xi1>, tensor<2x3x8x16xf32>
  %10 = stablehlo.reduce(%9 init: %lowest) applies stablehlo.maximum across dimensions = [3] : (tensor<2x3x8x16xf32>, tensor<f32>) -> tensor<2x3x8xf32>
  %11 = stablehlo.broadcast_in_dim %10, dims = [0, 1, 2] : (tensor<2x3x8xf32>) -> tensor<2x3x8x1xf32>
  %12 = stablehlo.broadcast_in_dim %11, dims = [0, 1, 2, 3] : (tensor<2x3x8x1xf32>) -> tensor<2x3x8x16xf32>
  %13 = stablehlo.subtract %9, %12 : tensor<2x3x8x16xf32>
  %14 = stablehlo.exponential %13 : tensor<2x3x8x16xf32>
  %15 = stablehlo.reduce(%14 init: %zero) applies stablehlo.add across dimensions = [3] : (tensor<2x3x8x16xf32>, tensor<f32>) -> tensor<2x3x8xf32>
  %16 = stablehlo.broadcast_in_dim %15, dims = [0, 1, 2] : (tensor<2x3x8xf32>) -> tensor<2x3x8x1xf32>
  %17 = stablehlo.broadcast_in_dim %16, dims = [0, 1, 2, 3] : (tensor<2x3x8x1xf32>) -> tensor<2x3x8x16xf32>
  %18 = stablehlo.divide %14, %17 : tensor<2x3x8x16xf32>
  %19 = stablehlo.dot_general %18, %arg2, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2] : (tensor<2x3x8x16xf32>, tensor<2x3x16x5xf32>) -> tensor<2x3x8x5xf32>
  return %19 : tensor<2x3x8x5xf32>
}

func.func public @attention_kt_biased_by_head_masked(%arg0: tensor<2x3x8x4xf32>, %arg1: tensor<2x3x4x16xf32>, %arg2: tensor<2x3x16x5xf32>, %arg3: tensor<3x8x16xf32>, %arg4: tensor<8x16xf32>) -> tensor<2x3x8x5xf32> {
  %zero = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %lowest = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %scale = stablehlo.constant dense<5.000000e-01> : tensor<f32>
  %0 = stablehlo.dot_general %arg0, %arg1, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2] : (tensor<2x3x8x4xf32>, tensor<2x3x4x16xf32>) -> tensor<2x3x8x16xf32>
  %1 = stablehlo.broadcast_in_dim %scale, dims = [] : (tensor<f32>) -> tensor<2x3x8x16xf32>
  %2 = stablehlo.multiply %0, %1 : tensor<2x3x8x16xf32>
  %3 = stablehlo.broadcast_in_dim %arg3, dims = [1, 2, 3] : (tensor<3x8x16xf32>) -> tensor<1x3x8x16xf32>
  %4 = stablehlo.broadcast_in_dim %3, dims = [0, 1, 2, 3] : (tensor<1x3x8x16xf32>) -> tensor<2x3x8x16xf32>
  %5 = stablehlo.add %2, %4 : tensor<2x3x8x16xf32>
  %6 = stablehlo.broadcast_in_dim %arg4, dims = [2, 3] : (tensor<8x16xf32>) -> tensor<1x1x8x16xf32>
  %7 = stablehlo.broadcast_in_dim %6, dims = [0, 1, 2, 3] : (tensor<1x1x8x16xf32>) -> tensor<2x3x8x16xf32>
  %8 = stablehlo.add %5, %7 : tensor<2x3x8x16xf32>
  %9 = stablehlo.reduce(%8 init: %lowest) applies stablehlo.maximum across dimensions = [3] : (tensor<2x3x8x16xf32>, tensor<f32>) -> tensor<2x3x8xf32>
  %10 = stablehlo.broadcast_in_dim %9, dims = [0, 1, 2] : (tensor<2x3x8xf32>) -> tensor<2x3x8x1xf32>
  %11 = stablehlo.broadcast_in_dim %10, dims = [0, 1, 2, 3] : (tensor<2x3x8x1xf32>) -> tensor<2x3x8x16xf32>
  %12 = stablehlo.subtract %8, %11 : tensor<2x3x8x16xf32>
  %13 = stablehlo.exponential %12 : tensor<2x3x8x16xf32>
  %14 = stablehlo.reduce(%13 init: %zero) applies stablehlo.add across dimensions = [3] : (tensor<2x3x8x16xf32>, tensor<f32>) -> tensor<2x3x8xf32>
  %15 = stablehlo.broadcast_in_dim %14, dims = [0, 1, 2] : (tensor<2x3x8xf32>) -> tensor<2x3x8x1xf32>
  %16 = stablehlo.broadcast_in_dim %15, dims = [0, 1, 2, 3] : (tensor<2x3x8x1xf32>) -> tensor<2x3x8x16xf32>
  %17 = stablehlo.divide %13, %16 : tensor<2x3x8x16xf32>
  %18 = stablehlo.dot_general %17, %arg2, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2] : (tensor<2x3x8x16xf32>, tensor<2x3x16x5xf32>) -> tensor<2x3x8x5xf32>
  return %18 : tensor<2x3x8x5xf32>
}

func.func public @attention_kt_biased_by_head_masked_by_batch(%arg0: tensor<2x3x8x4xf32>, %arg1: tensor<2x3x4x16xf32>, %arg2: tensor<2x3x16x5xf32>, %arg3: tensor<3x8x16xf32>, %arg4: tensor<2x8x16xf32>) -> tensor<2x3x8x5xf32> {
  %zero = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %lowest = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %scale = stablehlo.constant dense<5.000000e-01> : tensor<f32>
  %0 = stablehlo.dot_general %arg0, %arg1, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2] : (tensor<2x3x8x4xf32>, tensor<2x3x4x16xf32>) -> tensor<2x3x8x16xf32>
  %1 = stablehlo.broadcast_in_dim %scale, dims = [] : (tensor<f32>) -> tensor<2x3x8x16xf32>
  %2 = stablehlo.multiply %0, %1 : tensor<2x3x8x16xf32>
  %3 = stablehlo.broadcast_in_dim %arg3, dims = [1, 2, 3] : (tensor<3x8x16xf32>) -> tensor<1x3x8x16xf32>
  %4 = stablehlo.broadcast_in_dim %3, dims = [0, 1, 2, 3] : (tensor<1x3x8x16xf32>) -> tensor<2x3x8x16xf32>
  %5 = stablehlo.add %2, %4 : tensor<2x3x8x16xf32>
  %6 = stablehlo.broadcast_in_dim %arg4, dims = [0, 2, 3] : (tensor<2x8x16xf32>) -> tensor<2x1x8x16xf32>
  %7 = stablehlo.broadcast_in_dim %6, dims = [0, 1, 2, 3] : (tensor<2x1x8x16xf32>) -> tensor<2x3x8x16xf32>
  %8 = stablehlo.add %5, %7 : tensor<2x3x8x16xf32>
  %9 = stablehlo.reduce(%8 init: %lowest) applies stablehlo.maximum across dimensions = [3] : (tensor<2x3x8x16xf32>, tensor<f32>) -> tensor<2x3x8xf32>
  %10 = stablehlo.broadcast_in_dim %9, dims = [0, 1, 2] : (tensor<2x3x8xf32>) -> tensor<2x3x8x1xf32>
  %11 = stablehlo.broadcast_in_dim %10, dims = [0, 1, 2, 3] : (tensor<2x3x8x1xf32>) -> tensor<2x3x8x16xf32>
  %12 = stablehlo.subtract %8, %11 : tensor<2x3x8x16xf32>
  %13 = stablehlo.exponential %12 : tensor<2x3x8x16xf32>
  %14 = stablehlo.reduce(%13 init: %zero) applies stablehlo.add across dimensions = [3] : (tensor<2x3x8x16xf32>, tensor<f32>) -> tensor<2x3x8xf32>
  %15 = stablehlo.broadcast_in_dim %14, dims = [0, 1, 2] : (tensor<2x3x8xf32>) -> tensor<2x3x8x1xf32>
  %16 = stablehlo.broadcast_in_dim %15, dims = [0, 1, 2, 3] : (tensor<2x3x8x1xf32>) -> tensor<2x3x8x16xf32>
  %17 = stablehlo.divide %13, %16 : tensor<2x3x8x16xf32>
  %18 = stablehlo.dot_general %17, %arg2, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2] : (tensor<2x3x8x16xf32>, tensor<2x3x16x5xf32>) -> tensor<2x3x8x5xf32>
  return %18 : tensor<2x3x8x5xf32>
}

func.func public @attention_kt_biased_by_head_where(%arg0: tensor<2x3x8x4xf32>, %arg1: tensor<2x3x4x16xf32>, %arg2: tensor<2x3x16x5xf32>, %arg3: tensor<3x8x16xf32>, %arg4: tensor<8x16xi1>) -> tensor<2x3x8x5xf32> {
  %zero = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %lowest = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %hidden = stablehlo.constant dense<-1.000000e+09> : tensor<f32>
  %scale = stablehlo.constant dense<5.000000e-01> : tensor<f32>
  %0 = stablehlo.dot_general %arg0, %arg1, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2] : (tensor<2x3x8x4xf32>, tensor<2x3x4x16xf32>) -> tensor<2x3x8x16xf32>
  %1 = stablehlo.broadcast_in_dim %scale, dims = [] : (tensor<f32>) -> tensor<2x3x8x16xf32>
  %2 = stablehlo.multiply %0, %1 : tensor<2x3x8x16xf32>
  %3 = stablehlo.broadcast_in_dim %arg3, dims = [1, 2, 3] : (tensor<3x8x16xf32>) -> tensor<1x3x8x16xf32>
  %4 = stablehlo.broadcast_in_dim %3, dims = [0, 1, 2, 3] : (tensor<1x3x8x16xf32>) -> tensor<2x3x8x16xf32>
  %5 = stablehlo.add %2, %4 : tensor<2x3x8x16xf32>
  %6 = stablehlo.broadcast_in_dim %arg4, dims = [2, 3] : (tensor<8x16xi1>) -> tensor<1x1x8x16xi1>
  %7 = stablehlo.broadcast_in_dim %6, dims = [0, 1, 2, 3] : (tensor<1x1x8x16xi1>) -> tensor<2x3x8x16xi1>
  %8 = stablehlo.broadcast_in_dim %hidden, dims = [] : (tensor<f32>) -> tensor<2x3x8x16xf32>
  %9 = stablehlo.select %7, %5, %8 : tensor<2x3x8x16xi1>, tensor<2x3x8x16xf32>
  %10 = stablehlo.reduce(%9 init: %lowest) applies stablehlo.maximum across dimensions = [3] : (tensor<2x3x8x16xf32>, tensor<f32>) -> tensor<2x3x8xf32>
  %11 = stablehlo.broadcast_in_dim %10, dims = [0, 1, 2] : (tensor<2x3x8xf32>) -> tensor<2x3x8x1xf32>
  %12 = stablehlo.broadcast_in_dim %11, dims = [0, 1, 2, 3] : (tensor<2x3x8x1xf32>) -> tensor<2x3x8x16xf32>
  %13 = stablehlo.subtract %9, %12 : tensor<2x3x8x16xf32>
  %14 = stablehlo.exponential %13 : tensor<2x3x8x16xf32>
  %15 = stablehlo.reduce(%14 init: %zero) applies stablehlo.add across dimensions = [3] : (tensor<2x3x8x16xf32>, tensor<f32>) -> tensor<2x3x8xf32>
  %16 = stablehlo.broadcast_in_dim %15, dims = [0, 1, 2] : (tensor<2x3x8xf32>) -> tensor<2x3x8x1xf32>
  %17 = stablehlo.broadcast_in_dim %16, dims = [0, 1, 2, 3] : (tensor<2x3x8x1xf32>) -> tensor<2x3x8x16xf32>
  %18 = stablehlo.divide %14, %17 : tensor<2x3x8x16xf32>
  %19 = stablehlo.dot_general %18, %arg2, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2] : (tensor<2x3x8x16xf32>, tensor<2x3x16x5xf32>) -> tensor<2x3x8x5xf32>
  return %19 : tensor<2x3x8x5xf32>
}

func.func public @attention_kt_biased_by_head_unless(%arg0: tensor<2x3x8x4xf32>, %arg1: tensor<2x3x4x16xf32>, %arg2: tensor<2x3x16x5xf32>, %arg3: tensor<3x8x16xf32>, %arg4: tensor<8x16xi1>) -> tensor<2x3x8x5xf32> {
  %zero = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %lowest = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %hidden = stablehlo.constant dense<-1.000000e+09> : tensor<f32>
  %scale = stablehlo.constant dense<5.000000e-01> : tensor<f32>
  %0 = stablehlo.dot_general %arg0, %arg1, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2] : (tensor<2x3x8x4xf32>, tensor<2x3x4x16xf32>) -> tensor<2x3x8x16xf32>
  %1 = stablehlo.broadcast_in_dim %scale, dims = [] : (tensor<f32>) -> tensor<2x3x8x16xf32>
  %2 = stablehlo.multiply %0, %1 : tensor<2x3x8x16xf32>
  %3 = stablehlo.broadcast_in_dim %arg3, dims = [1, 2, 3] : (tensor<3x8x16xf32>) -> tensor<1x3x8x16xf32>
  %4 = stablehlo.broadcast_in_dim %3, dims = [0, 1, 2, 3] : (tensor<1x3x8x16xf32>) -> tensor<2x3x8x16xf32>
  %5 = stablehlo.add %2, %4 : tensor<2x3x8x16xf32>
  %6 = stablehlo.broadcast_in_dim %arg4, dims = [2, 3] : (tensor<8x16xi1>) -> tensor<1x1x8x16xi1>
  %7 = stablehlo.broadcast_in_dim %6, dims = [0, 1, 2, 3] : (tensor<1x1x8x16xi1>) -> tensor<2x3x8x16xi1>
  %8 = stablehlo.broadcast_in_dim %hidden, dims = [] : (tensor<f32>) -> tensor<2x3x8x16xf32>
  %9 = stablehlo.select %7, %8, %5 : tensor<2x3x8x16xi1>, tensor<2x3x8x16xf32>
  %10 = stablehlo.reduce(%9 init: %lowest) applies stablehlo.maximum across dimensions = [3] : (tensor<2x3x8x16xf32>, tensor<f32>) -> tensor<2x3x8xf32>
  %11 = stablehlo.broadcast_in_dim %10, dims = [0, 1, 2] : (tensor<2x3x8xf32>) -> tensor<2x3x8x1xf32>
  %12 = stablehlo.broadcast_in_dim %11, dims = [0, 1, 2, 3] : (tensor<2x3x8x1xf32>) -> tensor<2x3x8x16xf32>
  %13 = stablehlo.subtract %9, %12 : tensor<2x3x8x16xf32>
  %14 = stablehlo.exponential %13 : tensor<2x3x8x16xf32>
  %15 = stablehlo.reduce(%14 init: %zero) applies stablehlo.add across dimensions = [3] : (tensor<2x3x8x16xf32>, tensor<f32>) -> tensor<2x3x8xf32>
  %16 = stablehlo.broadcast_in_dim %15, dims = [0, 1, 2] : (tensor<2x3x8xf32>) -> tensor<2x3x8x1xf32>
  %17 = stablehlo.broadcast_in_dim %16, dims = [0, 1, 2, 3] : (tensor<2x3x8x1xf32>) -> tensor<2x3x8x16xf32>
  %18 = stablehlo.divide %14, %17 : tensor<2x3x8x16xf32>
  %19 = stablehlo.dot_general %18, %arg2, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2] : (tensor<2x3x8x16xf32>, tensor<2x3x16x5xf32>) -> tensor<2x3x8x5xf32>
  return %19 : tensor<2x3x8x5xf32>
}
