func.func public @max_pool_nhwc_padded(%arg0: tensor<2x12x12x4xf32>) -> (tensor<2x6x6x4xf32>) {
  %cst = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<f32>
  %1 = "stablehlo.reduce_window"(%arg0, %0) <{padding = dense<[[0, 0], [1, 1], [1, 1], [0, 0]]> : tensor<4x2xi64>, window_dimensions = array<i64: 1, 3, 3, 1>, window_strides = array<i64: 1, 2, 2, 1>}> ({
  ^bb0(%arg1: tensor<f32>, %arg2: tensor<f32>):
    %2 = stablehlo.maximum %arg1, %arg2 : tensor<f32>
    stablehlo.return %2 : tensor<f32>
  }) : (tensor<2x12x12x4xf32>, tensor<f32>) -> tensor<2x6x6x4xf32>
  return %1 : tensor<2x6x6x4xf32>
}

func.func public @max_pool_nhwc_flax(%arg0: tensor<2x12x12x4xf32>) -> (tensor<2x6x6x4xf32>) {
  %cst = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<f32>
  %1 = "stablehlo.reduce_window"(%arg0, %0) <{window_dimensions = array<i64: 1, 2, 2, 1>, window_strides = array<i64: 1, 2, 2, 1>}> ({
  ^bb0(%arg1: tensor<f32>, %arg2: tensor<f32>):
    %2 = stablehlo.maximum %arg1, %arg2 : tensor<f32>
    stablehlo.return %2 : tensor<f32>
  }) : (tensor<2x12x12x4xf32>, tensor<f32>) -> tensor<2x6x6x4xf32>
  return %1 : tensor<2x6x6x4xf32>
}

func.func public @average_pool_nhwc_padded(%arg0: tensor<2x12x12x4xf32>) -> (tensor<2x6x6x4xf32>) {
  %cst = stablehlo.constant dense<9.000000e+00> : tensor<f32>
  %cst_0 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %0 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<f32>
  %1 = "stablehlo.reduce_window"(%arg0, %0) <{padding = dense<[[0, 0], [0, 1], [0, 1], [0, 0]]> : tensor<4x2xi64>, window_dimensions = array<i64: 1, 3, 3, 1>, window_strides = array<i64: 1, 2, 2, 1>}> ({
  ^bb0(%arg1: tensor<f32>, %arg2: tensor<f32>):
    %4 = stablehlo.add %arg1, %arg2 : tensor<f32>
    stablehlo.return %4 : tensor<f32>
  }) : (tensor<2x12x12x4xf32>, tensor<f32>) -> tensor<2x6x6x4xf32>
  %2 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<2x6x6x4xf32>
  %3 = stablehlo.divide %1, %2 : tensor<2x6x6x4xf32>
  return %3 : tensor<2x6x6x4xf32>
}

func.func public @average_pool_nhwc_flax(%arg0: tensor<2x12x12x4xf32>) -> (tensor<2x11x5x4xf32>) {
  %cst = stablehlo.constant dense<6.000000e+00> : tensor<f32>
  %cst_0 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %0 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<f32>
  %1 = "stablehlo.reduce_window"(%arg0, %0) <{window_dimensions = array<i64: 1, 2, 3, 1>, window_strides = array<i64: 1, 1, 2, 1>}> ({
  ^bb0(%arg1: tensor<f32>, %arg2: tensor<f32>):
    %4 = stablehlo.add %arg1, %arg2 : tensor<f32>
    stablehlo.return %4 : tensor<f32>
  }) : (tensor<2x12x12x4xf32>, tensor<f32>) -> tensor<2x11x5x4xf32>
  %2 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<2x11x5x4xf32>
  %3 = stablehlo.divide %1, %2 : tensor<2x11x5x4xf32>
  return %3 : tensor<2x11x5x4xf32>
}

func.func public @global_average_pool_jax(%arg0: tensor<2x12x12x4xf32>) -> (tensor<2x12xf32>) {
  %cst = stablehlo.constant dense<4.800000e+01> : tensor<f32>
  %cst_0 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %0 = stablehlo.reduce(%arg0 init: %cst_0) applies stablehlo.add across dimensions = [2, 3] : (tensor<2x12x12x4xf32>, tensor<f32>) -> tensor<2x12xf32>
  %1 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<2x12xf32>
  %2 = stablehlo.divide %0, %1 : tensor<2x12xf32>
  return %2 : tensor<2x12xf32>
}

func.func public @max_pool_nchw_jax(%arg0: tensor<2x12x12x4xf32>) -> (tensor<2x12x6x2xf32>) {
  %cst = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<f32>
  %1 = "stablehlo.reduce_window"(%arg0, %0) <{window_dimensions = array<i64: 1, 1, 2, 2>, window_strides = array<i64: 1, 1, 2, 2>}> ({
  ^bb0(%arg1: tensor<f32>, %arg2: tensor<f32>):
    %2 = stablehlo.maximum %arg1, %arg2 : tensor<f32>
    stablehlo.return %2 : tensor<f32>
  }) : (tensor<2x12x12x4xf32>, tensor<f32>) -> tensor<2x12x6x2xf32>
  return %1 : tensor<2x12x6x2xf32>
}
