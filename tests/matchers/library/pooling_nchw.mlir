// As PyTorch's and ONNX's importers write them.
func.func @max_pool_nchw_dilated(%x: tensor<2x3x12x12xf32>) -> tensor<2x3x8x5xf32> {
  %low = arith.constant 0xFF800000 : f32
  %0 = tensor.empty() : tensor<2x3x8x5xf32>
  %1 = linalg.fill ins(%low : f32) outs(%0 : tensor<2x3x8x5xf32>) -> tensor<2x3x8x5xf32>
  %2 = tensor.empty() : tensor<3x3xf32>
  %3 = linalg.pooling_nchw_max {dilations = dense<[2, 1]> : vector<2xi64>, strides = dense<[1, 2]> : vector<2xi64>} ins(%x, %2 : tensor<2x3x12x12xf32>, tensor<3x3xf32>) outs(%1 : tensor<2x3x8x5xf32>) -> tensor<2x3x8x5xf32>
  return %3 : tensor<2x3x8x5xf32>
}

func.func @average_pool_nchw_padded(%x: tensor<2x3x12x12xf32>) -> tensor<2x3x6x13xf32> {
  %zero = arith.constant 0.0 : f32
  %six = arith.constant 6.0 : f32
  %padded = tensor.pad %x low[0, 0, 1, 1] high[0, 0, 1, 1] {
  ^bb0(%n: index, %c: index, %h: index, %w: index):
    tensor.yield %zero : f32
  } : tensor<2x3x12x12xf32> to tensor<2x3x14x14xf32>
  %0 = tensor.empty() : tensor<2x3x6x13xf32>
  %1 = linalg.fill ins(%zero : f32) outs(%0 : tensor<2x3x6x13xf32>) -> tensor<2x3x6x13xf32>
  %2 = tensor.empty() : tensor<3x2xf32>
  %3 = linalg.pooling_nchw_sum {dilations = dense<1> : vector<2xi64>, strides = dense<[2, 1]> : vector<2xi64>} ins(%padded, %2 : tensor<2x3x14x14xf32>, tensor<3x2xf32>) outs(%1 : tensor<2x3x6x13xf32>) -> tensor<2x3x6x13xf32>
  %4 = linalg.generic {
    indexing_maps = [affine_map<(n, c, h, w) -> (n, c, h, w)>, affine_map<(n, c, h, w) -> (n, c, h, w)>],
    iterator_types = ["parallel", "parallel", "parallel", "parallel"]
  } ins(%3 : tensor<2x3x6x13xf32>) outs(%0 : tensor<2x3x6x13xf32>) {
  ^bb0(%in: f32, %out: f32):
    %5 = arith.divf %in, %six : f32
    linalg.yield %5 : f32
  } -> tensor<2x3x6x13xf32>
  return %4 : tensor<2x3x6x13xf32>
}
