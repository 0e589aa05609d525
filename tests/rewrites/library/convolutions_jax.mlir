func.func public @depthwise_conv1d_nwc(%arg0: tensor<2x10x8xf32>, %arg1: tensor<3x1x8xf32>) -> (tensor<2x8x8xf32>) {
  %0 = stablehlo.convolution(%arg0, %arg1) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {stride = [1], pad = [[0, 0]], lhs_dilate = [1], rhs_dilate = [1], reverse = [false]} {batch_group_count = 1 : i64, feature_group_count = 8 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x10x8xf32>, tensor<3x1x8xf32>) -> tensor<2x8x8xf32>
  return %0 : tensor<2x8x8xf32>
}
func.func public @depthwise_conv1d_ncw_bias(%arg0: tensor<2x8x11xf32>, %arg1: tensor<8x1x3xf32>, %arg2: tensor<8xf32>) -> (tensor<2x8x5xf32>) {
  %0 = stablehlo.convolution(%arg0, %arg1) dim_numbers = [b, f, 0]x[o, i, 0]->[b, f, 0], window = {stride = [2], pad = [[0, 0]], lhs_dilate = [1], rhs_dilate = [1], reverse = [false]} {batch_group_count = 1 : i64, feature_group_count = 8 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x8x11xf32>, tensor<8x1x3xf32>) -> tensor<2x8x5xf32>
  %1 = stablehlo.broadcast_in_dim %arg2, dims = [1] : (tensor<8xf32>) -> tensor<1x8x1xf32>
  %2 = stablehlo.broadcast_in_dim %1, dims = [0, 1, 2] : (tensor<1x8x1xf32>) -> tensor<2x8x5xf32>
  %3 = stablehlo.add %0, %2 : tensor<2x8x5xf32>
  return %3 : tensor<2x8x5xf32>
}
func.func public @depthwise_conv3d_ndhwc(%arg0: tensor<2x7x8x9x8xf32>, %arg1: tensor<3x2x3x1x8xf32>) -> (tensor<2x5x7x7x8xf32>) {
  %0 = stablehlo.convolution(%arg0, %arg1) dim_numbers = [b, 0, 1, 2, f]x[0, 1, 2, i, o]->[b, 0, 1, 2, f], window = {stride = [1, 1, 1], pad = [[0, 0], [0, 0], [0, 0]], lhs_dilate = [1, 1, 1], rhs_dilate = [1, 1, 1], reverse = [false, false, false]} {batch_group_count = 1 : i64, feature_group_count = 8 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x7x8x9x8xf32>, tensor<3x2x3x1x8xf32>) -> tensor<2x5x7x7x8xf32>
  return %0 : tensor<2x5x7x7x8xf32>
}
func.func public @grouped_conv1d_nwc(%arg0: tensor<2x10x8xf32>, %arg1: tensor<3x4x6xf32>) -> (tensor<2x8x6xf32>) {
  %0 = stablehlo.convolution(%arg0, %arg1) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {stride = [1], pad = [[0, 0]], lhs_dilate = [1], rhs_dilate = [1], reverse = [false]} {batch_group_count = 1 : i64, feature_group_count = 2 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x10x8xf32>, tensor<3x4x6xf32>) -> tensor<2x8x6xf32>
  return %0 : tensor<2x8x6xf32>
}
func.func public @grouped_conv1d_ncw_bias(%arg0: tensor<2x8x11xf32>, %arg1: tensor<6x4x3xf32>, %arg2: tensor<6xf32>) -> (tensor<2x6x9xf32>) {
  %0 = stablehlo.convolution(%arg0, %arg1) dim_numbers = [b, f, 0]x[o, i, 0]->[b, f, 0], window = {stride = [1], pad = [[0, 0]], lhs_dilate = [1], rhs_dilate = [1], reverse = [false]} {batch_group_count = 1 : i64, feature_group_count = 2 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x8x11xf32>, tensor<6x4x3xf32>) -> tensor<2x6x9xf32>
  %1 = stablehlo.broadcast_in_dim %arg2, dims = [1] : (tensor<6xf32>) -> tensor<1x6x1xf32>
  %2 = stablehlo.broadcast_in_dim %1, dims = [0, 1, 2] : (tensor<1x6x1xf32>) -> tensor<2x6x9xf32>
  %3 = stablehlo.add %0, %2 : tensor<2x6x9xf32>
  return %3 : tensor<2x6x9xf32>
}
