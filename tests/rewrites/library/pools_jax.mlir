func.func public @max_nwc(%arg0: tensor<2x9x4xf32>) -> (tensor<2x4x4xf32>) {
  %cst = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<f32>
  %1 = "stablehlo.reduce_window"(%arg0, %0) <{window_dimensions = array<i64: 1, 3, 1>, window_strides = array<i64: 1, 2, 1>}> ({
  ^bb0(%arg1: tensor<f32>, %arg2: tensor<f32>):
    %2 = stablehlo.maximum %arg1, %arg2 : tensor<f32>
    stablehlo.return %2 : tensor<f32>
  }) : (tensor<2x9x4xf32>, tensor<f32>) -> tensor<2x4x4xf32>
  return %1 : tensor<2x4x4xf32>
}
func.func public @max_ndhwc(%arg0: tensor<2x6x5x4x3xf32>) -> (tensor<2x3x3x2x3xf32>) {
  %cst = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<f32>
  %1 = "stablehlo.reduce_window"(%arg0, %0) <{window_dimensions = array<i64: 1, 2, 3, 2, 1>, window_strides = array<i64: 1, 2, 1, 2, 1>}> ({
  ^bb0(%arg1: tensor<f32>, %arg2: tensor<f32>):
    %2 = stablehlo.maximum %arg1, %arg2 : tensor<f32>
    stablehlo.return %2 : tensor<f32>
  }) : (tensor<2x6x5x4x3xf32>, tensor<f32>) -> tensor<2x3x3x2x3xf32>
  return %1 : tensor<2x3x3x2x3xf32>
}
func.func public @mean_nwc_padded(%arg0: tensor<2x9x4xf32>) -> (tensor<2x5x4xf32>) {
  %cst = stablehlo.constant dense<3.000000e+00> : tensor<f32>
  %cst_0 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %0 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<f32>
  %1 = "stablehlo.reduce_window"(%arg0, %0) <{padding = dense<[[0, 0], [1, 1], [0, 0]]> : tensor<3x2xi64>, window_dimensions = array<i64: 1, 3, 1>, window_strides = array<i64: 1, 2, 1>}> ({
  ^bb0(%arg1: tensor<f32>, %arg2: tensor<f32>):
    %4 = stablehlo.add %arg1, %arg2 : tensor<f32>
    stablehlo.return %4 : tensor<f32>
  }) : (tensor<2x9x4xf32>, tensor<f32>) -> tensor<2x5x4xf32>
  %2 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<2x5x4xf32>
  %3 = stablehlo.divide %1, %2 : tensor<2x5x4xf32>
  return %3 : tensor<2x5x4xf32>
}
func.func public @mean_nwc_of_counts(%arg0: tensor<2x9x4xf32>) -> (tensor<2x5x4xf32>) {
  %cst = stablehlo.constant dense<1.000000e+00> : tensor<f32>
  %cst_0 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %0 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<f32>
  %1 = "stablehlo.reduce_window"(%arg0, %0) <{padding = dense<[[0, 0], [1, 1], [0, 0]]> : tensor<3x2xi64>, window_dimensions = array<i64: 1, 3, 1>, window_strides = array<i64: 1, 2, 1>}> ({
  ^bb0(%arg1: tensor<f32>, %arg2: tensor<f32>):
    %7 = stablehlo.add %arg1, %arg2 : tensor<f32>
    stablehlo.return %7 : tensor<f32>
  }) : (tensor<2x9x4xf32>, tensor<f32>) -> tensor<2x5x4xf32>
  %2 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<1x9x1xf32>
  %3 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<f32>
  %4 = "stablehlo.reduce_window"(%2, %3) <{padding = dense<[[0, 0], [1, 1], [0, 0]]> : tensor<3x2xi64>, window_dimensions = array<i64: 1, 3, 1>, window_strides = array<i64: 1, 2, 1>}> ({
  ^bb0(%arg1: tensor<f32>, %arg2: tensor<f32>):
    %7 = stablehlo.add %arg1, %arg2 : tensor<f32>
    stablehlo.return %7 : tensor<f32>
  }) : (tensor<1x9x1xf32>, tensor<f32>) -> tensor<1x5x1xf32>
  %5 = stablehlo.broadcast_in_dim %4, dims = [0, 1, 2] : (tensor<1x5x1xf32>) -> tensor<2x5x4xf32>
  %6 = stablehlo.divide %1, %5 : tensor<2x5x4xf32>
  return %6 : tensor<2x5x4xf32>
}
func.func public @mean_ndhwc_of_counts(%arg0: tensor<2x6x5x4x3xf32>) -> (tensor<2x3x5x2x3xf32>) {
  %cst = stablehlo.constant dense<1.000000e+00> : tensor<f32>
  %cst_0 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %0 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<f32>
  %1 = "stablehlo.reduce_window"(%arg0, %0) <{padding = dense<[[0, 0], [0, 0], [1, 1], [0, 0], [0, 0]]> : tensor<5x2xi64>, window_dimensions = array<i64: 1, 2, 3, 2, 1>, window_strides = array<i64: 1, 2, 1, 2, 1>}> ({
  ^bb0(%arg1: tensor<f32>, %arg2: tensor<f32>):
    %7 = stablehlo.add %arg1, %arg2 : tensor<f32>
    stablehlo.return %7 : tensor<f32>
  }) : (tensor<2x6x5x4x3xf32>, tensor<f32>) -> tensor<2x3x5x2x3xf32>
  %2 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<1x6x5x4x1xf32>
  %3 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<f32>
  %4 = "stablehlo.reduce_window"(%2, %3) <{padding = dense<[[0, 0], [0, 0], [1, 1], [0, 0], [0, 0]]> : tensor<5x2xi64>, window_dimensions = array<i64: 1, 2, 3, 2, 1>, window_strides = array<i64: 1, 2, 1, 2, 1>}> ({
  ^bb0(%arg1: tensor<f32>, %arg2: tensor<f32>):
    %7 = stablehlo.add %arg1, %arg2 : tensor<f32>
    stablehlo.return %7 : tensor<f32>
  }) : (tensor<1x6x5x4x1xf32>, tensor<f32>) -> tensor<1x3x5x2x1xf32>
  %5 = stablehlo.broadcast_in_dim %4, dims = [0, 1, 2, 3, 4] : (tensor<1x3x5x2x1xf32>) -> tensor<2x3x5x2x3xf32>
  %6 = stablehlo.divide %1, %5 : tensor<2x3x5x2x3xf32>
  return %6 : tensor<2x3x5x2x3xf32>
}
