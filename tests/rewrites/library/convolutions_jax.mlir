func.func public @alone_nwc(%arg0: tensor<2x10x8xf32>, %arg1: tensor<3x1x8xf32>) -> (tensor<2x8x8xf32>) {
  %0 = stablehlo.convolution(%arg0, %arg1) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {stride = [1], pad = [[0, 0]], lhs_dilate = [1], rhs_dilate = [1], reverse = [false]} {batch_group_count = 1 : i64, feature_group_count = 8 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x10x8xf32>, tensor<3x1x8xf32>) -> tensor<2x8x8xf32>
  return %0 : tensor<2x8x8xf32>
}
func.func public @alone_ncw_bias(%arg0: tensor<2x8x11xf32>, %arg1: tensor<8x1x3xf32>, %arg2: tensor<8xf32>) -> (tensor<2x8x5xf32>) {
  %0 = stablehlo.convolution(%arg0, %arg1) dim_numbers = [b, f, 0]x[o, i, 0]->[b, f, 0], window = {stride = [2], pad = [[0, 0]], lhs_dilate = [1], rhs_dilate = [1], reverse = [false]} {batch_group_count = 1 : i64, feature_group_count = 8 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x8x11xf32>, tensor<8x1x3xf32>) -> tensor<2x8x5xf32>
  %1 = stablehlo.broadcast_in_dim %arg2, dims = [1] : (tensor<8xf32>) -> tensor<1x8x1xf32>
  %2 = stablehlo.broadcast_in_dim %1, dims = [0, 1, 2] : (tensor<1x8x1xf32>) -> tensor<2x8x5xf32>
  %3 = stablehlo.add %0, %2 : tensor<2x8x5xf32>
  return %3 : tensor<2x8x5xf32>
}
func.func public @alone_ndhwc(%arg0: tensor<2x7x8x9x8xf32>, %arg1: tensor<3x2x3x1x8xf32>) -> (tensor<2x5x7x7x8xf32>) {
  %0 = stablehlo.convolution(%arg0, %arg1) dim_numbers = [b, 0, 1, 2, f]x[0, 1, 2, i, o]->[b, 0, 1, 2, f], window = {stride = [1, 1, 1], pad = [[0, 0], [0, 0], [0, 0]], lhs_dilate = [1, 1, 1], rhs_dilate = [1, 1, 1], reverse = [false, false, false]} {batch_group_count = 1 : i64, feature_group_count = 8 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x7x8x9x8xf32>, tensor<3x2x3x1x8xf32>) -> tensor<2x5x7x7x8xf32>
  return %0 : tensor<2x5x7x7x8xf32>
}
func.func public @grouped_nwc(%arg0: tensor<2x10x8xf32>, %arg1: tensor<3x4x6xf32>) -> (tensor<2x8x6xf32>) {
  %0 = stablehlo.convolution(%arg0, %arg1) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {stride = [1], pad = [[0, 0]], lhs_dilate = [1], rhs_dilate = [1], reverse = [false]} {batch_group_count = 1 : i64, feature_group_count = 2 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x10x8xf32>, tensor<3x4x6xf32>) -> tensor<2x8x6xf32>
  return %0 : tensor<2x8x6xf32>
}
func.func public @grouped_ncw_bias(%arg0: tensor<2x8x11xf32>, %arg1: tensor<6x4x3xf32>, %arg2: tensor<6xf32>) -> (tensor<2x6x9xf32>) {
  %0 = stablehlo.convolution(%arg0, %arg1) dim_numbers = [b, f, 0]x[o, i, 0]->[b, f, 0], window = {stride = [1], pad = [[0, 0]], lhs_dilate = [1], rhs_dilate = [1], reverse = [false]} {batch_group_count = 1 : i64, feature_group_count = 2 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x8x11xf32>, tensor<6x4x3xf32>) -> tensor<2x6x9xf32>
  %1 = stablehlo.broadcast_in_dim %arg2, dims = [1] : (tensor<6xf32>) -> tensor<1x6x1xf32>
  %2 = stablehlo.broadcast_in_dim %1, dims = [0, 1, 2] : (tensor<1x6x1xf32>) -> tensor<2x6x9xf32>
  %3 = stablehlo.add %0, %2 : tensor<2x6x9xf32>
  return %3 : tensor<2x6x9xf32>
}
func.func public @several_each_nwc(%arg0: tensor<2x9x4xf32>, %arg1: tensor<3x1x8xf32>) -> (tensor<2x7x8xf32>) {
  %0 = stablehlo.convolution(%arg0, %arg1) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {} {batch_group_count = 1 : i64, feature_group_count = 4 : i64} : (tensor<2x9x4xf32>, tensor<3x1x8xf32>) -> tensor<2x7x8xf32>
  return %0 : tensor<2x7x8xf32>
}
func.func public @several_each_nhwc_bias(%arg0: tensor<2x6x5x4xf32>, %arg1: tensor<3x2x1x8xf32>, %arg2: tensor<8xf32>) -> (tensor<2x4x4x8xf32>) {
  %0 = stablehlo.convolution(%arg0, %arg1) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {} {batch_group_count = 1 : i64, feature_group_count = 4 : i64} : (tensor<2x6x5x4xf32>, tensor<3x2x1x8xf32>) -> tensor<2x4x4x8xf32>
  %1 = stablehlo.broadcast_in_dim %arg2, dims = [3] : (tensor<8xf32>) -> tensor<1x1x1x8xf32>
  %2 = stablehlo.broadcast_in_dim %1, dims = [0, 1, 2, 3] : (tensor<1x1x1x8xf32>) -> tensor<2x4x4x8xf32>
  %3 = stablehlo.add %0, %2 : tensor<2x4x4x8xf32>
  return %3 : tensor<2x4x4x8xf32>
}
func.func public @several_each_nchw(%arg0: tensor<2x4x9x8xf32>, %arg1: tensor<8x1x3x3xf32>) -> (tensor<2x8x4x3xf32>) {
  %0 = stablehlo.convolution(%arg0, %arg1) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {stride = [2, 2]} {batch_group_count = 1 : i64, feature_group_count = 4 : i64} : (tensor<2x4x9x8xf32>, tensor<8x1x3x3xf32>) -> tensor<2x8x4x3xf32>
  return %0 : tensor<2x8x4x3xf32>
}
func.func public @several_each_ndhwc(%arg0: tensor<2x5x6x4x4xf32>, %arg1: tensor<2x3x2x1x8xf32>) -> (tensor<2x4x4x3x8xf32>) {
  %0 = stablehlo.convolution(%arg0, %arg1) dim_numbers = [b, 0, 1, 2, f]x[0, 1, 2, i, o]->[b, 0, 1, 2, f], window = {} {batch_group_count = 1 : i64, feature_group_count = 4 : i64} : (tensor<2x5x6x4x4xf32>, tensor<2x3x2x1x8xf32>) -> tensor<2x4x4x3x8xf32>
  return %0 : tensor<2x4x4x3x8xf32>
}
func.func public @grouped_ndhwc(%arg0: tensor<2x5x6x4x4xf32>, %arg1: tensor<2x3x2x2x6xf32>) -> (tensor<2x4x4x3x6xf32>) {
  %0 = stablehlo.convolution(%arg0, %arg1) dim_numbers = [b, 0, 1, 2, f]x[0, 1, 2, i, o]->[b, 0, 1, 2, f], window = {} {batch_group_count = 1 : i64, feature_group_count = 2 : i64} : (tensor<2x5x6x4x4xf32>, tensor<2x3x2x2x6xf32>) -> tensor<2x4x4x3x6xf32>
  return %0 : tensor<2x4x4x3x6xf32>
}
func.func public @grouped_ncdhw_bias(%arg0: tensor<2x4x5x6x4xf32>, %arg1: tensor<6x2x2x3x2xf32>, %arg2: tensor<6xf32>) -> (tensor<2x6x4x4x3xf32>) {
  %0 = stablehlo.convolution(%arg0, %arg1) dim_numbers = [b, f, 0, 1, 2]x[o, i, 0, 1, 2]->[b, f, 0, 1, 2], window = {} {batch_group_count = 1 : i64, feature_group_count = 2 : i64} : (tensor<2x4x5x6x4xf32>, tensor<6x2x2x3x2xf32>) -> tensor<2x6x4x4x3xf32>
  %1 = stablehlo.broadcast_in_dim %arg2, dims = [0] : (tensor<6xf32>) -> tensor<6x1x1x1xf32>
  %2 = stablehlo.broadcast_in_dim %1, dims = [1, 2, 3, 4] : (tensor<6x1x1x1xf32>) -> tensor<1x6x1x1x1xf32>
  %3 = stablehlo.broadcast_in_dim %2, dims = [0, 1, 2, 3, 4] : (tensor<1x6x1x1x1xf32>) -> tensor<2x6x4x4x3xf32>
  %4 = stablehlo.add %0, %3 : tensor<2x6x4x4x3xf32>
  return %4 : tensor<2x6x4x4x3xf32>
}
func.func public @without_a_batch(%arg0: tensor<6x5x4xf32>, %arg1: tensor<3x2x4x8xf32>) -> (tensor<4x4x8xf32>) {
  %0 = stablehlo.broadcast_in_dim %arg0, dims = [1, 2, 3] : (tensor<6x5x4xf32>) -> tensor<1x6x5x4xf32>
  %1 = stablehlo.convolution(%0, %arg1) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x6x5x4xf32>, tensor<3x2x4x8xf32>) -> tensor<1x4x4x8xf32>
  %2 = stablehlo.reshape %1 : (tensor<1x4x4x8xf32>) -> tensor<4x4x8xf32>
  return %2 : tensor<4x4x8xf32>
}
func.func public @without_columns_nhwc(%arg0: tensor<2x6x5x4xf32>, %arg1: tensor<3x1x4x8xf32>) -> (tensor<2x4x5x8xf32>) {
  %0 = stablehlo.convolution(%arg0, %arg1) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<2x6x5x4xf32>, tensor<3x1x4x8xf32>) -> tensor<2x4x5x8xf32>
  return %0 : tensor<2x4x5x8xf32>
}
