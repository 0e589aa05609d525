func.func public @softmax(%arg0: tensor<8x32xf32>) -> (tensor<8x32xf32>) {
  %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %cst_0 = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %0 = stablehlo.reduce(%arg0 init: %cst_0) applies stablehlo.maximum across dimensions = [1] : (tensor<8x32xf32>, tensor<f32>) -> tensor<8xf32>
  %1 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<8xf32>
  %2 = stablehlo.maximum %1, %0 : tensor<8xf32>
  %3 = stablehlo.broadcast_in_dim %2, dims = [0] : (tensor<8xf32>) -> tensor<8x1xf32>
  %4 = stablehlo.broadcast_in_dim %3, dims = [0, 1] : (tensor<8x1xf32>) -> tensor<8x32xf32>
  %5 = stablehlo.subtract %arg0, %4 : tensor<8x32xf32>
  %6 = stablehlo.exponential %5 : tensor<8x32xf32>
  %7 = stablehlo.reduce(%6 init: %cst) applies stablehlo.add across dimensions = [1] : (tensor<8x32xf32>, tensor<f32>) -> tensor<8xf32>
  %8 = stablehlo.broadcast_in_dim %7, dims = [0] : (tensor<8xf32>) -> tensor<8x1xf32>
  %9 = stablehlo.broadcast_in_dim %8, dims = [0, 1] : (tensor<8x1xf32>) -> tensor<8x32xf32>
  %10 = stablehlo.divide %6, %9 : tensor<8x32xf32>
  return %10 : tensor<8x32xf32>
}

func.func public @softmax_times_reciprocal(%arg0: tensor<8x32xf32>) -> (tensor<8x32xf32>) {
  %cst = stablehlo.constant dense<1.000000e+00> : tensor<f32>
  %cst_0 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %cst_1 = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %0 = stablehlo.reduce(%arg0 init: %cst_1) applies stablehlo.maximum across dimensions = [1] : (tensor<8x32xf32>, tensor<f32>) -> tensor<8xf32>
  %1 = stablehlo.broadcast_in_dim %0, dims = [0] : (tensor<8xf32>) -> tensor<8x1xf32>
  %2 = stablehlo.broadcast_in_dim %1, dims = [0, 1] : (tensor<8x1xf32>) -> tensor<8x32xf32>
  %3 = stablehlo.subtract %arg0, %2 : tensor<8x32xf32>
  %4 = stablehlo.exponential %3 : tensor<8x32xf32>
  %5 = stablehlo.reduce(%4 init: %cst_0) applies stablehlo.add across dimensions = [1] : (tensor<8x32xf32>, tensor<f32>) -> tensor<8xf32>
  %6 = stablehlo.broadcast_in_dim %5, dims = [0] : (tensor<8xf32>) -> tensor<8x1xf32>
  %7 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<8x1xf32>
  %8 = stablehlo.divide %7, %6 : tensor<8x1xf32>
  %9 = stablehlo.broadcast_in_dim %8, dims = [0, 1] : (tensor<8x1xf32>) -> tensor<8x32xf32>
  %10 = stablehlo.multiply %4, %9 : tensor<8x32xf32>
  return %10 : tensor<8x32xf32>
}

func.func public @softmax_without_keepdims(%arg0: tensor<8x32xf32>) -> (tensor<8x32xf32>) {
  %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %cst_0 = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %0 = stablehlo.reduce(%arg0 init: %cst_0) applies stablehlo.maximum across dimensions = [1] : (tensor<8x32xf32>, tensor<f32>) -> tensor<8xf32>
  %1 = stablehlo.broadcast_in_dim %0, dims = [0] : (tensor<8xf32>) -> tensor<8x1xf32>
  %2 = stablehlo.broadcast_in_dim %1, dims = [0, 1] : (tensor<8x1xf32>) -> tensor<8x32xf32>
  %3 = stablehlo.subtract %arg0, %2 : tensor<8x32xf32>
  %4 = stablehlo.exponential %3 : tensor<8x32xf32>
  %5 = stablehlo.reduce(%4 init: %cst) applies stablehlo.add across dimensions = [1] : (tensor<8x32xf32>, tensor<f32>) -> tensor<8xf32>
  %6 = stablehlo.broadcast_in_dim %5, dims = [0] : (tensor<8xf32>) -> tensor<8x1xf32>
  %7 = stablehlo.broadcast_in_dim %6, dims = [0, 1] : (tensor<8x1xf32>) -> tensor<8x32xf32>
  %8 = stablehlo.divide %4, %7 : tensor<8x32xf32>
  return %8 : tensor<8x32xf32>
}

func.func public @softmax_columns(%arg0: tensor<2x8x32xf32>) -> (tensor<2x8x32xf32>) {
  %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %cst_0 = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %0 = stablehlo.reduce(%arg0 init: %cst_0) applies stablehlo.maximum across dimensions = [1] : (tensor<2x8x32xf32>, tensor<f32>) -> tensor<2x32xf32>
  %1 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<2x32xf32>
  %2 = stablehlo.maximum %1, %0 : tensor<2x32xf32>
  %3 = stablehlo.broadcast_in_dim %2, dims = [0, 2] : (tensor<2x32xf32>) -> tensor<2x1x32xf32>
  %4 = stablehlo.broadcast_in_dim %3, dims = [0, 1, 2] : (tensor<2x1x32xf32>) -> tensor<2x8x32xf32>
  %5 = stablehlo.subtract %arg0, %4 : tensor<2x8x32xf32>
  %6 = stablehlo.exponential %5 : tensor<2x8x32xf32>
  %7 = stablehlo.reduce(%6 init: %cst) applies stablehlo.add across dimensions = [1] : (tensor<2x8x32xf32>, tensor<f32>) -> tensor<2x32xf32>
  %8 = stablehlo.broadcast_in_dim %7, dims = [0, 2] : (tensor<2x32xf32>) -> tensor<2x1x32xf32>
  %9 = stablehlo.broadcast_in_dim %8, dims = [0, 1, 2] : (tensor<2x1x32xf32>) -> tensor<2x8x32xf32>
  %10 = stablehlo.divide %6, %9 : tensor<2x8x32xf32>
  return %10 : tensor<2x8x32xf32>
}

func.func public @log_softmax(%arg0: tensor<8x32xf32>) -> (tensor<8x32xf32>) {
  %0 = call @log_softmax_log_softmax(%arg0) : (tensor<8x32xf32>) -> tensor<8x32xf32>
  return %0 : tensor<8x32xf32>
}
func.func private @log_softmax_log_softmax(%arg0: tensor<8x32xf32>) -> tensor<8x32xf32> {
  %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %cst_0 = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %0 = stablehlo.reduce(%arg0 init: %cst_0) applies stablehlo.maximum across dimensions = [1] : (tensor<8x32xf32>, tensor<f32>) -> tensor<8xf32>
  %1 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<8xf32>
  %2 = stablehlo.maximum %1, %0 : tensor<8xf32>
  %3 = stablehlo.broadcast_in_dim %2, dims = [0] : (tensor<8xf32>) -> tensor<8x1xf32>
  %4 = stablehlo.broadcast_in_dim %3, dims = [0, 1] : (tensor<8x1xf32>) -> tensor<8x32xf32>
  %5 = stablehlo.subtract %arg0, %4 : tensor<8x32xf32>
  %6 = stablehlo.exponential %5 : tensor<8x32xf32>
  %7 = stablehlo.reduce(%6 init: %cst) applies stablehlo.add across dimensions = [1] : (tensor<8x32xf32>, tensor<f32>) -> tensor<8xf32>
  %8 = stablehlo.broadcast_in_dim %7, dims = [0] : (tensor<8xf32>) -> tensor<8x1xf32>
  %9 = stablehlo.log %8 : tensor<8x1xf32>
  %10 = stablehlo.broadcast_in_dim %9, dims = [0, 1] : (tensor<8x1xf32>) -> tensor<8x32xf32>
  %11 = stablehlo.subtract %5, %10 : tensor<8x32xf32>
  return %11 : tensor<8x32xf32>
}
