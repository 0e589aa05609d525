func.func public @conv2d_nhwc_hwcf_to_nchw_bias(%arg0: tensor<2x3x9x10xf32>, %arg1: tensor<8x3x3x3xf32>, %arg2: tensor<8xf32>) -> (tensor<2x8x9x10xf32>) {
  %0 = stablehlo.convolution(%arg0, %arg1) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {pad = [[1, 1], [1, 1]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<2x3x9x10xf32>, tensor<8x3x3x3xf32>) -> tensor<2x8x9x10xf32>
  %1 = stablehlo.broadcast_in_dim %arg2, dims = [1] : (tensor<8xf32>) -> tensor<1x8x1x1xf32>
  %2 = stablehlo.broadcast_in_dim %1, dims = [0, 1, 2, 3] : (tensor<1x8x1x1xf32>) -> tensor<2x8x9x10xf32>
  %3 = stablehlo.add %0, %2 : tensor<2x8x9x10xf32>
  return %3 : tensor<2x8x9x10xf32>
}

func.func public @conv2d_nhwc_hwcf_to_nchw_bias_strided(%arg0: tensor<2x3x9x10xf32>, %arg1: tensor<8x3x3x3xf32>, %arg2: tensor<8xf32>) -> (tensor<2x8x5x5xf32>) {
  %0 = stablehlo.convolution(%arg0, %arg1) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {stride = [2, 2], pad = [[1, 1], [1, 1]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<2x3x9x10xf32>, tensor<8x3x3x3xf32>) -> tensor<2x8x5x5xf32>
  %1 = stablehlo.broadcast_in_dim %arg2, dims = [1] : (tensor<8xf32>) -> tensor<1x8x1x1xf32>
  %2 = stablehlo.broadcast_in_dim %1, dims = [0, 1, 2, 3] : (tensor<1x8x1x1xf32>) -> tensor<2x8x5x5xf32>
  %3 = stablehlo.add %0, %2 : tensor<2x8x5x5xf32>
  return %3 : tensor<2x8x5x5xf32>
}

func.func public @depthwise_conv2d_nhwc_hwc_to_nchw_bias(%arg0: tensor<2x8x9x10xf32>, %arg1: tensor<8x1x3x3xf32>, %arg2: tensor<8xf32>) -> (tensor<2x8x9x10xf32>) {
  %0 = stablehlo.convolution(%arg0, %arg1) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {pad = [[1, 1], [1, 1]]} {batch_group_count = 1 : i64, feature_group_count = 8 : i64} : (tensor<2x8x9x10xf32>, tensor<8x1x3x3xf32>) -> tensor<2x8x9x10xf32>
  %1 = stablehlo.broadcast_in_dim %arg2, dims = [1] : (tensor<8xf32>) -> tensor<1x8x1x1xf32>
  %2 = stablehlo.broadcast_in_dim %1, dims = [0, 1, 2, 3] : (tensor<1x8x1x1xf32>) -> tensor<2x8x9x10xf32>
  %3 = stablehlo.add %0, %2 : tensor<2x8x9x10xf32>
  return %3 : tensor<2x8x9x10xf32>
}

func.func public @conv1d_nwc_wcf_to_ncw_bias(%arg0: tensor<2x3x16xf32>, %arg1: tensor<8x3x3xf32>, %arg2: tensor<8xf32>) -> (tensor<2x8x16xf32>) {
  %0 = stablehlo.convolution(%arg0, %arg1) dim_numbers = [b, f, 0]x[o, i, 0]->[b, f, 0], window = {pad = [[1, 1]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<2x3x16xf32>, tensor<8x3x3xf32>) -> tensor<2x8x16xf32>
  %1 = stablehlo.broadcast_in_dim %arg2, dims = [1] : (tensor<8xf32>) -> tensor<1x8x1xf32>
  %2 = stablehlo.broadcast_in_dim %1, dims = [0, 1, 2] : (tensor<1x8x1xf32>) -> tensor<2x8x16xf32>
  %3 = stablehlo.add %0, %2 : tensor<2x8x16xf32>
  return %3 : tensor<2x8x16xf32>
}
