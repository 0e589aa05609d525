// Convolutions in groups of channels, and in three dims, as Torch and JAX leave them; written by hand.

func.func @grouped_conv2d_nchw(%x: tensor<2x8x9x11xf32>, %f: tensor<12x2x3x3xf32>) -> tensor<2x12x4x5xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x12x4x5xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<2x12x4x5xf32>) -> tensor<2x12x4x5xf32>
  %gx = tensor.expand_shape %x [[0], [1, 2], [3], [4]] output_shape [2, 4, 2, 9, 11] : tensor<2x8x9x11xf32> into tensor<2x4x2x9x11xf32>
  %gf = tensor.expand_shape %f [[0, 1], [2], [3], [4]] output_shape [4, 3, 2, 3, 3] : tensor<12x2x3x3xf32> into tensor<4x3x2x3x3xf32>
  %gz = tensor.expand_shape %z [[0], [1, 2], [3], [4]] output_shape [2, 4, 3, 4, 5] : tensor<2x12x4x5xf32> into tensor<2x4x3x4x5xf32>
  %y = linalg.conv_2d_ngchw_gfchw {dilations = dense<1> : vector<2xi64>, strides = dense<2> : vector<2xi64>}
    ins(%gx, %gf : tensor<2x4x2x9x11xf32>, tensor<4x3x2x3x3xf32>) outs(%gz : tensor<2x4x3x4x5xf32>) -> tensor<2x4x3x4x5xf32>
  %r = tensor.collapse_shape %y [[0], [1, 2], [3], [4]] : tensor<2x4x3x4x5xf32> into tensor<2x12x4x5xf32>
  return %r : tensor<2x12x4x5xf32>
}

func.func @grouped_conv2d_nchw_bias(%x: tensor<2x8x9x11xf32>, %f: tensor<12x2x3x3xf32>, %bias: tensor<12xf32>) -> tensor<2x12x7x9xf32> {
  %e = tensor.empty() : tensor<2x12x7x9xf32>
  %z = linalg.broadcast ins(%bias : tensor<12xf32>) outs(%e : tensor<2x12x7x9xf32>) dimensions = [0, 2, 3]
  %gx = tensor.expand_shape %x [[0], [1, 2], [3], [4]] output_shape [2, 4, 2, 9, 11] : tensor<2x8x9x11xf32> into tensor<2x4x2x9x11xf32>
  %gf = tensor.expand_shape %f [[0, 1], [2], [3], [4]] output_shape [4, 3, 2, 3, 3] : tensor<12x2x3x3xf32> into tensor<4x3x2x3x3xf32>
  %gz = tensor.expand_shape %z [[0], [1, 2], [3], [4]] output_shape [2, 4, 3, 7, 9] : tensor<2x12x7x9xf32> into tensor<2x4x3x7x9xf32>
  %y = linalg.conv_2d_ngchw_gfchw {dilations = dense<1> : vector<2xi64>, strides = dense<1> : vector<2xi64>}
    ins(%gx, %gf : tensor<2x4x2x9x11xf32>, tensor<4x3x2x3x3xf32>) outs(%gz : tensor<2x4x3x7x9xf32>) -> tensor<2x4x3x7x9xf32>
  %r = tensor.collapse_shape %y [[0], [1, 2], [3], [4]] : tensor<2x4x3x7x9xf32> into tensor<2x12x7x9xf32>
  return %r : tensor<2x12x7x9xf32>
}

func.func @grouped_conv2d_nchw_bias_several_of_each(%x: tensor<2x4x7x9xf32>, %f: tensor<8x1x3x3xf32>, %bias: tensor<8xf32>) -> tensor<2x8x5x7xf32> {
  %e = tensor.empty() : tensor<2x8x5x7xf32>
  %z = linalg.broadcast ins(%bias : tensor<8xf32>) outs(%e : tensor<2x8x5x7xf32>) dimensions = [0, 2, 3]
  %gx = tensor.expand_shape %x [[0], [1, 2], [3], [4]] output_shape [2, 4, 1, 7, 9] : tensor<2x4x7x9xf32> into tensor<2x4x1x7x9xf32>
  %gf = tensor.expand_shape %f [[0, 1], [2], [3], [4]] output_shape [4, 2, 1, 3, 3] : tensor<8x1x3x3xf32> into tensor<4x2x1x3x3xf32>
  %gz = tensor.expand_shape %z [[0], [1, 2], [3], [4]] output_shape [2, 4, 2, 5, 7] : tensor<2x8x5x7xf32> into tensor<2x4x2x5x7xf32>
  %y = linalg.conv_2d_ngchw_gfchw {dilations = dense<1> : vector<2xi64>, strides = dense<1> : vector<2xi64>}
    ins(%gx, %gf : tensor<2x4x1x7x9xf32>, tensor<4x2x1x3x3xf32>) outs(%gz : tensor<2x4x2x5x7xf32>) -> tensor<2x4x2x5x7xf32>
  %r = tensor.collapse_shape %y [[0], [1, 2], [3], [4]] : tensor<2x4x2x5x7xf32> into tensor<2x8x5x7xf32>
  return %r : tensor<2x8x5x7xf32>
}

func.func @conv3d_ncdhw_fcdhw(%x: tensor<2x3x6x7x8xf32>, %f: tensor<5x3x1x3x2xf32>) -> tensor<2x5x6x5x7xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x5x6x5x7xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<2x5x6x5x7xf32>) -> tensor<2x5x6x5x7xf32>
  %y = linalg.conv_3d_ncdhw_fcdhw {dilations = dense<1> : vector<3xi64>, strides = dense<1> : vector<3xi64>}
    ins(%x, %f : tensor<2x3x6x7x8xf32>, tensor<5x3x1x3x2xf32>) outs(%z : tensor<2x5x6x5x7xf32>) -> tensor<2x5x6x5x7xf32>
  return %y : tensor<2x5x6x5x7xf32>
}

func.func @conv3d_ncdhw_fcdhw_bias(%x: tensor<2x3x8x9x10xf32>, %f: tensor<5x3x3x3x3xf32>, %bias: tensor<5xf32>) -> tensor<2x5x6x7x8xf32> {
  %e = tensor.empty() : tensor<2x5x6x7x8xf32>
  %z = linalg.broadcast ins(%bias : tensor<5xf32>) outs(%e : tensor<2x5x6x7x8xf32>) dimensions = [0, 2, 3, 4]
  %y = linalg.conv_3d_ncdhw_fcdhw {dilations = dense<1> : vector<3xi64>, strides = dense<1> : vector<3xi64>}
    ins(%x, %f : tensor<2x3x8x9x10xf32>, tensor<5x3x3x3x3xf32>) outs(%z : tensor<2x5x6x7x8xf32>) -> tensor<2x5x6x7x8xf32>
  return %y : tensor<2x5x6x7x8xf32>
}

func.func @conv3d_ndhwc_dhwcf(%x: tensor<2x8x9x10x3xf32>, %f: tensor<3x3x3x3x5xf32>) -> tensor<2x6x7x8x5xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x6x7x8x5xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<2x6x7x8x5xf32>) -> tensor<2x6x7x8x5xf32>
  %y = linalg.conv_3d_ndhwc_dhwcf {dilations = dense<1> : vector<3xi64>, strides = dense<1> : vector<3xi64>}
    ins(%x, %f : tensor<2x8x9x10x3xf32>, tensor<3x3x3x3x5xf32>) outs(%z : tensor<2x6x7x8x5xf32>) -> tensor<2x6x7x8x5xf32>
  return %y : tensor<2x6x7x8x5xf32>
}

func.func @conv3d_ndhwc_dhwcf_bias(%x: tensor<2x8x9x10x3xf32>, %f: tensor<3x3x3x3x5xf32>, %bias: tensor<5xf32>) -> tensor<2x6x7x8x5xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x6x7x8x5xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<2x6x7x8x5xf32>) -> tensor<2x6x7x8x5xf32>
  %y = linalg.conv_3d_ndhwc_dhwcf {dilations = dense<1> : vector<3xi64>, strides = dense<1> : vector<3xi64>}
    ins(%x, %f : tensor<2x8x9x10x3xf32>, tensor<3x3x3x3x5xf32>) outs(%z : tensor<2x6x7x8x5xf32>) -> tensor<2x6x7x8x5xf32>
  %wide = linalg.broadcast ins(%bias : tensor<5xf32>) outs(%e : tensor<2x6x7x8x5xf32>) dimensions = [0, 1, 2, 3]
  %r = arith.addf %y, %wide : tensor<2x6x7x8x5xf32>
  return %r : tensor<2x6x7x8x5xf32>
}

func.func @grouped_conv2d_nhwc(%x: tensor<2x9x11x8xf32>, %f: tensor<3x3x2x12xf32>) -> tensor<2x7x9x12xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x7x9x4x3xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<2x7x9x4x3xf32>) -> tensor<2x7x9x4x3xf32>
  %gx = tensor.expand_shape %x [[0], [1], [2], [3, 4]] output_shape [2, 9, 11, 4, 2] : tensor<2x9x11x8xf32> into tensor<2x9x11x4x2xf32>
  %gf = tensor.expand_shape %f [[0], [1], [2], [3, 4]] output_shape [3, 3, 2, 4, 3] : tensor<3x3x2x12xf32> into tensor<3x3x2x4x3xf32>
  %y = linalg.generic {
    indexing_maps = [affine_map<(g, c, f, y, i, z, j, n) -> (n, y + i, z + j, g, c)>,
                     affine_map<(g, c, f, y, i, z, j, n) -> (i, j, c, g, f)>,
                     affine_map<(g, c, f, y, i, z, j, n) -> (n, y, z, g, f)>],
    iterator_types = ["parallel", "reduction", "parallel", "parallel", "reduction", "parallel", "reduction", "parallel"]
  } ins(%gx, %gf : tensor<2x9x11x4x2xf32>, tensor<3x3x2x4x3xf32>) outs(%z : tensor<2x7x9x4x3xf32>) {
  ^bb0(%a: f32, %b: f32, %s: f32):
    %p = arith.mulf %a, %b : f32
    %q = arith.addf %s, %p : f32
    linalg.yield %q : f32
  } -> tensor<2x7x9x4x3xf32>
  %r = tensor.collapse_shape %y [[0], [1], [2], [3, 4]] : tensor<2x7x9x4x3xf32> into tensor<2x7x9x12xf32>
  return %r : tensor<2x7x9x12xf32>
}
