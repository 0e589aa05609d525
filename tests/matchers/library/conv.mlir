func.func public @conv2d_nhwc_hwcf_1(%arg0: tensor<1x16x16x3xf32>, %arg1: tensor<3x3x3x8xf32>) -> (tensor<1x16x16x8xf32>) {
  %0 = stablehlo.convolution(%arg0, %arg1) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {pad = [[1, 1], [1, 1]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x16x16x3xf32>, tensor<3x3x3x8xf32>) -> tensor<1x16x16x8xf32>
  return %0 : tensor<1x16x16x8xf32>
}

func.func public @conv2d_nhwc_hwcf_2(%arg0: tensor<1x16x16x3xf32>, %arg1: tensor<3x3x3x8xf32>) -> (tensor<1x8x8x8xf32>) {
  %0 = stablehlo.convolution(%arg0, %arg1) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [2, 2], pad = [[0, 1], [0, 1]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x16x16x3xf32>, tensor<3x3x3x8xf32>) -> tensor<1x8x8x8xf32>
  return %0 : tensor<1x8x8x8xf32>
}

func.func public @conv2d_nhwc_hwcf_dilated(%arg0: tensor<1x16x16x3xf32>, %arg1: tensor<3x3x3x8xf32>) -> (tensor<1x12x10x8xf32>) {
  %0 = stablehlo.convolution(%arg0, %arg1) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {rhs_dilate = [2, 3]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x16x16x3xf32>, tensor<3x3x3x8xf32>) -> tensor<1x12x10x8xf32>
  return %0 : tensor<1x12x10x8xf32>
}

func.func public @linear_kn_as_conv2d_pointwise(%arg0: tensor<1x16x16x3xf32>, %arg1: tensor<1x1x3x8xf32>) -> (tensor<1x16x16x8xf32>) {
  %0 = stablehlo.convolution(%arg0, %arg1) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x16x16x3xf32>, tensor<1x1x3x8xf32>) -> tensor<1x16x16x8xf32>
  return %0 : tensor<1x16x16x8xf32>
}

func.func public @conv2d_nhwc_hwcf_bias(%arg0: tensor<1x16x16x3xf32>, %arg1: tensor<3x3x3x8xf32>, %arg2: tensor<8xf32>) -> (tensor<1x7x7x8xf32>) {
  %0 = stablehlo.convolution(%arg0, %arg1) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [2, 2]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x16x16x3xf32>, tensor<3x3x3x8xf32>) -> tensor<1x7x7x8xf32>
  %1 = stablehlo.broadcast_in_dim %arg2, dims = [3] : (tensor<8xf32>) -> tensor<1x1x1x8xf32>
  %2 = stablehlo.broadcast_in_dim %1, dims = [0, 1, 2, 3] : (tensor<1x1x1x8xf32>) -> tensor<1x7x7x8xf32>
  %3 = stablehlo.add %0, %2 : tensor<1x7x7x8xf32>
  return %3 : tensor<1x7x7x8xf32>
}

func.func public @depthwise_conv2d_nhwc_hwc(%arg0: tensor<1x16x16x8xf32>, %arg1: tensor<3x3x1x8xf32>) -> (tensor<1x14x14x8xf32>) {
  %0 = stablehlo.convolution(%arg0, %arg1) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {} {batch_group_count = 1 : i64, feature_group_count = 8 : i64} : (tensor<1x16x16x8xf32>, tensor<3x3x1x8xf32>) -> tensor<1x14x14x8xf32>
  return %0 : tensor<1x14x14x8xf32>
}

func.func public @depthwise_conv2d_nhwc_hwc_bias(%arg0: tensor<1x16x16x8xf32>, %arg1: tensor<3x3x1x8xf32>, %arg2: tensor<8xf32>) -> (tensor<1x14x14x8xf32>) {
  %0 = stablehlo.convolution(%arg0, %arg1) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {} {batch_group_count = 1 : i64, feature_group_count = 8 : i64} : (tensor<1x16x16x8xf32>, tensor<3x3x1x8xf32>) -> tensor<1x14x14x8xf32>
  %1 = stablehlo.broadcast_in_dim %arg2, dims = [3] : (tensor<8xf32>) -> tensor<1x1x1x8xf32>
  %2 = stablehlo.broadcast_in_dim %1, dims = [0, 1, 2, 3] : (tensor<1x1x1x8xf32>) -> tensor<1x14x14x8xf32>
  %3 = stablehlo.add %0, %2 : tensor<1x14x14x8xf32>
  return %3 : tensor<1x14x14x8xf32>
}

func.func public @conv1d_nwc_wcf(%arg0: tensor<1x16x3xf32>, %arg1: tensor<3x3x8xf32>) -> (tensor<1x7x8xf32>) {
  %0 = stablehlo.convolution(%arg0, %arg1) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {stride = [2]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x16x3xf32>, tensor<3x3x8xf32>) -> tensor<1x7x8xf32>
  return %0 : tensor<1x7x8xf32>
}

func.func public @conv1d_nwc_wcf_bias(%arg0: tensor<1x16x3xf32>, %arg1: tensor<3x3x8xf32>, %arg2: tensor<8xf32>) -> (tensor<1x7x8xf32>) {
  %0 = stablehlo.convolution(%arg0, %arg1) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {stride = [2]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x16x3xf32>, tensor<3x3x8xf32>) -> tensor<1x7x8xf32>
  %1 = stablehlo.broadcast_in_dim %arg2, dims = [2] : (tensor<8xf32>) -> tensor<1x1x8xf32>
  %2 = stablehlo.broadcast_in_dim %1, dims = [0, 1, 2] : (tensor<1x1x8xf32>) -> tensor<1x7x8xf32>
  %3 = stablehlo.add %0, %2 : tensor<1x7x8xf32>
  return %3 : tensor<1x7x8xf32>
}
