func.func @conv2d_nchw_fchw(%x: tensor<2x3x17x17xf32>, %f: tensor<8x3x3x3xf32>) -> tensor<2x8x8x8xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x8x8x8xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<2x8x8x8xf32>) -> tensor<2x8x8x8xf32>
  %y = linalg.conv_2d_nchw_fchw {dilations = dense<1> : vector<2xi64>, strides = dense<2> : vector<2xi64>} ins(%x, %f : tensor<2x3x17x17xf32>, tensor<8x3x3x3xf32>) outs(%z : tensor<2x8x8x8xf32>) -> tensor<2x8x8x8xf32>
  return %y : tensor<2x8x8x8xf32>
}

func.func @conv2d_nchw_fchw_dilated(%x: tensor<2x3x17x17xf32>, %f: tensor<8x3x3x3xf32>) -> tensor<2x8x13x13xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x8x13x13xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<2x8x13x13xf32>) -> tensor<2x8x13x13xf32>
  %y = linalg.conv_2d_nchw_fchw {dilations = dense<2> : vector<2xi64>, strides = dense<1> : vector<2xi64>} ins(%x, %f : tensor<2x3x17x17xf32>, tensor<8x3x3x3xf32>) outs(%z : tensor<2x8x13x13xf32>) -> tensor<2x8x13x13xf32>
  return %y : tensor<2x8x13x13xf32>
}

func.func @conv2d_nchw_fchw_bias_first(%x: tensor<2x3x17x17xf32>, %f: tensor<8x3x3x3xf32>, %bias: tensor<8xf32>) -> tensor<2x8x8x8xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x8x8x8xf32>
  %wide = linalg.broadcast ins(%bias : tensor<8xf32>) outs(%e : tensor<2x8x8x8xf32>) dimensions = [0, 2, 3]
  %y = linalg.conv_2d_nchw_fchw {dilations = dense<1> : vector<2xi64>, strides = dense<2> : vector<2xi64>} ins(%x, %f : tensor<2x3x17x17xf32>, tensor<8x3x3x3xf32>) outs(%wide : tensor<2x8x8x8xf32>) -> tensor<2x8x8x8xf32>
  return %y : tensor<2x8x8x8xf32>
}

func.func @conv2d_nchw_fchw_bias_last(%x: tensor<2x3x17x17xf32>, %f: tensor<8x3x3x3xf32>, %bias: tensor<8xf32>) -> tensor<2x8x8x8xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x8x8x8xf32>
  %wide = linalg.broadcast ins(%bias : tensor<8xf32>) outs(%e : tensor<2x8x8x8xf32>) dimensions = [0, 2, 3]
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<2x8x8x8xf32>) -> tensor<2x8x8x8xf32>
  %y = linalg.conv_2d_nchw_fchw {dilations = dense<1> : vector<2xi64>, strides = dense<2> : vector<2xi64>} ins(%x, %f : tensor<2x3x17x17xf32>, tensor<8x3x3x3xf32>) outs(%z : tensor<2x8x8x8xf32>) -> tensor<2x8x8x8xf32>
  %s = arith.addf %y, %wide : tensor<2x8x8x8xf32>
  return %s : tensor<2x8x8x8xf32>
}

func.func @depthwise_conv2d_nchw_chw(%x: tensor<2x8x17x17xf32>, %f: tensor<8x3x3xf32>) -> tensor<2x8x8x8xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x8x8x8xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<2x8x8x8xf32>) -> tensor<2x8x8x8xf32>
  %y = linalg.depthwise_conv_2d_nchw_chw {dilations = dense<1> : vector<2xi64>, strides = dense<2> : vector<2xi64>} ins(%x, %f : tensor<2x8x17x17xf32>, tensor<8x3x3xf32>) outs(%z : tensor<2x8x8x8xf32>) -> tensor<2x8x8x8xf32>
  return %y : tensor<2x8x8x8xf32>
}

func.func @depthwise_conv2d_nchw_chw_bias(%x: tensor<2x8x17x17xf32>, %f: tensor<8x3x3xf32>, %bias: tensor<8xf32>) -> tensor<2x8x8x8xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x8x8x8xf32>
  %wide = linalg.broadcast ins(%bias : tensor<8xf32>) outs(%e : tensor<2x8x8x8xf32>) dimensions = [0, 2, 3]
  %y = linalg.depthwise_conv_2d_nchw_chw {dilations = dense<1> : vector<2xi64>, strides = dense<2> : vector<2xi64>} ins(%x, %f : tensor<2x8x17x17xf32>, tensor<8x3x3xf32>) outs(%wide : tensor<2x8x8x8xf32>) -> tensor<2x8x8x8xf32>
  return %y : tensor<2x8x8x8xf32>
}

func.func @conv1d_ncw_fcw(%x: tensor<2x3x17xf32>, %f: tensor<8x3x3xf32>) -> tensor<2x8x8xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x8x8xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  %y = linalg.conv_1d_ncw_fcw {dilations = dense<1> : vector<1xi64>, strides = dense<2> : vector<1xi64>} ins(%x, %f : tensor<2x3x17xf32>, tensor<8x3x3xf32>) outs(%z : tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  return %y : tensor<2x8x8xf32>
}

func.func @conv1d_ncw_fcw_bias(%x: tensor<2x3x17xf32>, %f: tensor<8x3x3xf32>, %bias: tensor<8xf32>) -> tensor<2x8x8xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x8x8xf32>
  %wide = linalg.broadcast ins(%bias : tensor<8xf32>) outs(%e : tensor<2x8x8xf32>) dimensions = [0, 2]
  %y = linalg.conv_1d_ncw_fcw {dilations = dense<1> : vector<1xi64>, strides = dense<2> : vector<1xi64>} ins(%x, %f : tensor<2x3x17xf32>, tensor<8x3x3xf32>) outs(%wide : tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  return %y : tensor<2x8x8xf32>
}

func.func @conv2d_nchw_fchw_bias_dilated(%x: tensor<2x3x17x17xf32>, %f: tensor<8x3x3x3xf32>, %bias: tensor<8xf32>) -> tensor<2x8x13x13xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x8x13x13xf32>
  %wide = linalg.broadcast ins(%bias : tensor<8xf32>) outs(%e : tensor<2x8x13x13xf32>) dimensions = [0, 2, 3]
  %y = linalg.conv_2d_nchw_fchw {dilations = dense<2> : vector<2xi64>, strides = dense<1> : vector<2xi64>} ins(%x, %f : tensor<2x3x17x17xf32>, tensor<8x3x3x3xf32>) outs(%wide : tensor<2x8x13x13xf32>) -> tensor<2x8x13x13xf32>
  return %y : tensor<2x8x13x13xf32>
}

func.func @conv1d_ncw_fcw_bias_pointwise(%x: tensor<2x3x17xf32>, %f: tensor<8x3x1xf32>, %bias: tensor<8xf32>) -> tensor<2x8x17xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x8x17xf32>
  %wide = linalg.broadcast ins(%bias : tensor<8xf32>) outs(%e : tensor<2x8x17xf32>) dimensions = [0, 2]
  %y = linalg.conv_1d_ncw_fcw {dilations = dense<1> : vector<1xi64>, strides = dense<1> : vector<1xi64>} ins(%x, %f : tensor<2x3x17xf32>, tensor<8x3x1xf32>) outs(%wide : tensor<2x8x17xf32>) -> tensor<2x8x17xf32>
  return %y : tensor<2x8x17xf32>
}

func.func @conv2d_nchw_fchw_bias_squeezed(%x: tensor<2x3x1x1xf32>, %f: tensor<8x3x1x1xf32>, %bias: tensor<8xf32>) -> tensor<2x8x1x1xf32> {
  %e = tensor.empty() : tensor<2x8x1x1xf32>
  %wide = linalg.broadcast ins(%bias : tensor<8xf32>) outs(%e : tensor<2x8x1x1xf32>) dimensions = [0, 2, 3]
  %y = linalg.conv_2d_nchw_fchw {dilations = dense<1> : vector<2xi64>, strides = dense<1> : vector<2xi64>} ins(%x, %f : tensor<2x3x1x1xf32>, tensor<8x3x1x1xf32>) outs(%wide : tensor<2x8x1x1xf32>) -> tensor<2x8x1x1xf32>
  return %y : tensor<2x8x1x1xf32>
}
