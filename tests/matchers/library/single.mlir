// Layers of one row and of one place, where dims of size one make them look like others.

func.func @layernorm_alone_one_row(%x: tensor<1x32xf32>) -> tensor<1x32xf32> {
  %zero = arith.constant 0.0 : f32
  %size = arith.constant dense<32.0> : tensor<1xf32>
  %eps = arith.constant dense<1.0e-05> : tensor<1xf32>
  %e = tensor.empty() : tensor<1xf32>
  %w = tensor.empty() : tensor<1x32xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<1xf32>) -> tensor<1xf32>
  %sum = linalg.reduce {arith.addf} ins(%x : tensor<1x32xf32>) outs(%z : tensor<1xf32>) dimensions = [1]
  %mean = arith.divf %sum, %size : tensor<1xf32>
  %means = linalg.broadcast ins(%mean : tensor<1xf32>) outs(%w : tensor<1x32xf32>) dimensions = [1]
  %centered = arith.subf %x, %means : tensor<1x32xf32>
  %squares = arith.mulf %centered, %centered : tensor<1x32xf32>
  %total = linalg.reduce {arith.addf} ins(%squares : tensor<1x32xf32>) outs(%z : tensor<1xf32>) dimensions = [1]
  %variance = arith.divf %total, %size : tensor<1xf32>
  %above = arith.addf %variance, %eps : tensor<1xf32>
  %scale = math.rsqrt %above : tensor<1xf32>
  %scales = linalg.broadcast ins(%scale : tensor<1xf32>) outs(%w : tensor<1x32xf32>) dimensions = [1]
  %y = arith.mulf %centered, %scales : tensor<1x32xf32>
  return %y : tensor<1x32xf32>
}

func.func @conv2d_nchw_fchw_one_place(%x: tensor<2x16x1x1xf32>, %f: tensor<8x16x1x1xf32>) -> tensor<2x8x1x1xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x8x1x1xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<2x8x1x1xf32>) -> tensor<2x8x1x1xf32>
  %y = linalg.conv_2d_nchw_fchw {dilations = dense<1> : vector<2xi64>, strides = dense<1> : vector<2xi64>} ins(%x, %f : tensor<2x16x1x1xf32>, tensor<8x16x1x1xf32>) outs(%z : tensor<2x8x1x1xf32>) -> tensor<2x8x1x1xf32>
  return %y : tensor<2x8x1x1xf32>
}

func.func @depthwise_conv2d_nchw_chw_one_place(%x: tensor<2x16x8x8xf32>, %f: tensor<16x1x1xf32>) -> tensor<2x16x8x8xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x16x8x8xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<2x16x8x8xf32>) -> tensor<2x16x8x8xf32>
  %y = linalg.depthwise_conv_2d_nchw_chw {dilations = dense<1> : vector<2xi64>, strides = dense<1> : vector<2xi64>} ins(%x, %f : tensor<2x16x8x8xf32>, tensor<16x1x1xf32>) outs(%z : tensor<2x16x8x8xf32>) -> tensor<2x16x8x8xf32>
  return %y : tensor<2x16x8x8xf32>
}

func.func @depthwise_conv2d_nchw_chw_bias_one_place(%x: tensor<2x16x8x8xf32>, %f: tensor<16x1x1xf32>, %b: tensor<16xf32>) -> tensor<2x16x8x8xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x16x8x8xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<2x16x8x8xf32>) -> tensor<2x16x8x8xf32>
  %y = linalg.depthwise_conv_2d_nchw_chw {dilations = dense<1> : vector<2xi64>, strides = dense<1> : vector<2xi64>} ins(%x, %f : tensor<2x16x8x8xf32>, tensor<16x1x1xf32>) outs(%z : tensor<2x16x8x8xf32>) -> tensor<2x16x8x8xf32>
  %w = linalg.broadcast ins(%b : tensor<16xf32>) outs(%e : tensor<2x16x8x8xf32>) dimensions = [0, 2, 3]
  %r = arith.addf %y, %w : tensor<2x16x8x8xf32>
  return %r : tensor<2x16x8x8xf32>
}
