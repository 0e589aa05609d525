// Attention in windows: batches and windows are one dim but where the mask is added.

func.func @attention_biased_by_head_masked_by_window(%q: tensor<4x3x8x4xf32>, %k: tensor<4x3x16x4xf32>, %v: tensor<4x3x16x5xf32>, %bias: tensor<3x8x16xf32>, %mask: tensor<2x8x16xf32>) -> tensor<4x3x8x5xf32> {
  %zero = arith.constant 0.0 : f32
  %scale = arith.constant dense<5.0e-01> : tensor<4x3x8x16xf32>
  %e = tensor.empty() : tensor<4x3x8x16xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<4x3x8x16xf32>) -> tensor<4x3x8x16xf32>
  %scores = linalg.generic {indexing_maps = [affine_map<(b, h, s, t, d) -> (b, h, s, d)>, affine_map<(b, h, s, t, d) -> (b, h, t, d)>, affine_map<(b, h, s, t, d) -> (b, h, s, t)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]} ins(%q, %k : tensor<4x3x8x4xf32>, tensor<4x3x16x4xf32>) outs(%z : tensor<4x3x8x16xf32>) {
  ^bb0(%1: f32, %2: f32, %o: f32):
    %p = arith.mulf %1, %2 : f32
    %t = arith.addf %o, %p : f32
    linalg.yield %t : f32
  } -> tensor<4x3x8x16xf32>
  %scaled = arith.mulf %scores, %scale : tensor<4x3x8x16xf32>
  %heads = linalg.broadcast ins(%bias : tensor<3x8x16xf32>) outs(%e : tensor<4x3x8x16xf32>) dimensions = [0]
  %biased = arith.addf %scaled, %heads : tensor<4x3x8x16xf32>
  %windows = tensor.expand_shape %biased [[0, 1], [2], [3], [4]] output_shape [2, 2, 3, 8, 16] : tensor<4x3x8x16xf32> into tensor<2x2x3x8x16xf32>
  %w = tensor.empty() : tensor<2x2x3x8x16xf32>
  %wide = linalg.broadcast ins(%mask : tensor<2x8x16xf32>) outs(%w : tensor<2x2x3x8x16xf32>) dimensions = [0, 2]
  %masked = arith.addf %windows, %wide : tensor<2x2x3x8x16xf32>
  %merged = tensor.collapse_shape %masked [[0, 1], [2], [3], [4]] : tensor<2x2x3x8x16xf32> into tensor<4x3x8x16xf32>
  %weights = linalg.softmax dimension(3) ins(%merged : tensor<4x3x8x16xf32>) outs(%e : tensor<4x3x8x16xf32>) -> tensor<4x3x8x16xf32>
  %r = tensor.empty() : tensor<4x3x8x5xf32>
  %rz = linalg.fill ins(%zero : f32) outs(%r : tensor<4x3x8x5xf32>) -> tensor<4x3x8x5xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(b, h, s, e, t) -> (b, h, s, t)>, affine_map<(b, h, s, e, t) -> (b, h, t, e)>, affine_map<(b, h, s, e, t) -> (b, h, s, e)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]} ins(%weights, %v : tensor<4x3x8x16xf32>, tensor<4x3x16x5xf32>) outs(%rz : tensor<4x3x8x5xf32>) {
  ^bb0(%1: f32, %2: f32, %o: f32):
    %p = arith.mulf %1, %2 : f32
    %t = arith.addf %o, %p : f32
    linalg.yield %t : f32
  } -> tensor<4x3x8x5xf32>
  return %y : tensor<4x3x8x5xf32>
}

func.func @attention_kt_biased_by_head_masked_by_window(%q: tensor<4x3x8x4xf32>, %k: tensor<4x3x4x16xf32>, %v: tensor<4x3x16x5xf32>, %bias: tensor<3x8x16xf32>, %mask: tensor<2x8x16xf32>) -> tensor<4x3x8x5xf32> {
  %zero = arith.constant 0.0 : f32
  %scale = arith.constant dense<5.0e-01> : tensor<4x3x8x16xf32>
  %e = tensor.empty() : tensor<4x3x8x16xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<4x3x8x16xf32>) -> tensor<4x3x8x16xf32>
  %scores = linalg.generic {indexing_maps = [affine_map<(b, h, s, t, d) -> (b, h, s, d)>, affine_map<(b, h, s, t, d) -> (b, h, d, t)>, affine_map<(b, h, s, t, d) -> (b, h, s, t)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]} ins(%q, %k : tensor<4x3x8x4xf32>, tensor<4x3x4x16xf32>) outs(%z : tensor<4x3x8x16xf32>) {
  ^bb0(%1: f32, %2: f32, %o: f32):
    %p = arith.mulf %1, %2 : f32
    %t = arith.addf %o, %p : f32
    linalg.yield %t : f32
  } -> tensor<4x3x8x16xf32>
  %scaled = arith.mulf %scores, %scale : tensor<4x3x8x16xf32>
  %heads = linalg.broadcast ins(%bias : tensor<3x8x16xf32>) outs(%e : tensor<4x3x8x16xf32>) dimensions = [0]
  %biased = arith.addf %scaled, %heads : tensor<4x3x8x16xf32>
  %windows = tensor.expand_shape %biased [[0, 1], [2], [3], [4]] output_shape [2, 2, 3, 8, 16] : tensor<4x3x8x16xf32> into tensor<2x2x3x8x16xf32>
  %w = tensor.empty() : tensor<2x2x3x8x16xf32>
  %wide = linalg.broadcast ins(%mask : tensor<2x8x16xf32>) outs(%w : tensor<2x2x3x8x16xf32>) dimensions = [0, 2]
  %masked = arith.addf %windows, %wide : tensor<2x2x3x8x16xf32>
  %merged = tensor.collapse_shape %masked [[0, 1], [2], [3], [4]] : tensor<2x2x3x8x16xf32> into tensor<4x3x8x16xf32>
  %weights = linalg.softmax dimension(3) ins(%merged : tensor<4x3x8x16xf32>) outs(%e : tensor<4x3x8x16xf32>) -> tensor<4x3x8x16xf32>
  %r = tensor.empty() : tensor<4x3x8x5xf32>
  %rz = linalg.fill ins(%zero : f32) outs(%r : tensor<4x3x8x5xf32>) -> tensor<4x3x8x5xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(b, h, s, e, t) -> (b, h, s, t)>, affine_map<(b, h, s, e, t) -> (b, h, t, e)>, affine_map<(b, h, s, e, t) -> (b, h, s, e)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]} ins(%weights, %v : tensor<4x3x8x16xf32>, tensor<4x3x16x5xf32>) outs(%rz : tensor<4x3x8x5xf32>) {
  ^bb0(%1: f32, %2: f32, %o: f32):
    %p = arith.mulf %1, %2 : f32
    %t = arith.addf %o, %p : f32
    linalg.yield %t : f32
  } -> tensor<4x3x8x5xf32>
  return %y : tensor<4x3x8x5xf32>
}

func.func @attention_scaled_biased_by_head_masked_by_window(%q: tensor<4x3x8x4xf32>, %k: tensor<4x3x16x4xf32>, %v: tensor<4x3x16x5xf32>, %bias: tensor<3x8x16xf32>, %mask: tensor<2x8x16xf32>, %scale: tensor<3xf32>) -> tensor<4x3x8x5xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x3x8x16xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<4x3x8x16xf32>) -> tensor<4x3x8x16xf32>
  %scores = linalg.generic {indexing_maps = [affine_map<(b, h, s, t, d) -> (b, h, s, d)>, affine_map<(b, h, s, t, d) -> (b, h, t, d)>, affine_map<(b, h, s, t, d) -> (b, h, s, t)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]} ins(%q, %k : tensor<4x3x8x4xf32>, tensor<4x3x16x4xf32>) outs(%z : tensor<4x3x8x16xf32>) {
  ^bb0(%1: f32, %2: f32, %o: f32):
    %p = arith.mulf %1, %2 : f32
    %t = arith.addf %o, %p : f32
    linalg.yield %t : f32
  } -> tensor<4x3x8x16xf32>
  %of_heads = linalg.broadcast ins(%scale : tensor<3xf32>) outs(%e : tensor<4x3x8x16xf32>) dimensions = [0, 2, 3]
  %scaled = arith.mulf %scores, %of_heads : tensor<4x3x8x16xf32>
  %heads = linalg.broadcast ins(%bias : tensor<3x8x16xf32>) outs(%e : tensor<4x3x8x16xf32>) dimensions = [0]
  %biased = arith.addf %scaled, %heads : tensor<4x3x8x16xf32>
  %windows = tensor.expand_shape %biased [[0, 1], [2], [3], [4]] output_shape [2, 2, 3, 8, 16] : tensor<4x3x8x16xf32> into tensor<2x2x3x8x16xf32>
  %w = tensor.empty() : tensor<2x2x3x8x16xf32>
  %wide = linalg.broadcast ins(%mask : tensor<2x8x16xf32>) outs(%w : tensor<2x2x3x8x16xf32>) dimensions = [0, 2]
  %masked = arith.addf %windows, %wide : tensor<2x2x3x8x16xf32>
  %merged = tensor.collapse_shape %masked [[0, 1], [2], [3], [4]] : tensor<2x2x3x8x16xf32> into tensor<4x3x8x16xf32>
  %weights = linalg.softmax dimension(3) ins(%merged : tensor<4x3x8x16xf32>) outs(%e : tensor<4x3x8x16xf32>) -> tensor<4x3x8x16xf32>
  %r = tensor.empty() : tensor<4x3x8x5xf32>
  %rz = linalg.fill ins(%zero : f32) outs(%r : tensor<4x3x8x5xf32>) -> tensor<4x3x8x5xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(b, h, s, e, t) -> (b, h, s, t)>, affine_map<(b, h, s, e, t) -> (b, h, t, e)>, affine_map<(b, h, s, e, t) -> (b, h, s, e)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]} ins(%weights, %v : tensor<4x3x8x16xf32>, tensor<4x3x16x5xf32>) outs(%rz : tensor<4x3x8x5xf32>) {
  ^bb0(%1: f32, %2: f32, %o: f32):
    %p = arith.mulf %1, %2 : f32
    %t = arith.addf %o, %p : f32
    linalg.yield %t : f32
  } -> tensor<4x3x8x5xf32>
  return %y : tensor<4x3x8x5xf32>
}

func.func @attention_kt_scaled_biased_by_head_masked_by_window(%q: tensor<4x3x8x4xf32>, %k: tensor<4x3x4x16xf32>, %v: tensor<4x3x16x5xf32>, %bias: tensor<3x8x16xf32>, %mask: tensor<2x8x16xf32>, %scale: tensor<3xf32>) -> tensor<4x3x8x5xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x3x8x16xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<4x3x8x16xf32>) -> tensor<4x3x8x16xf32>
  %scores = linalg.generic {indexing_maps = [affine_map<(b, h, s, t, d) -> (b, h, s, d)>, affine_map<(b, h, s, t, d) -> (b, h, d, t)>, affine_map<(b, h, s, t, d) -> (b, h, s, t)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]} ins(%q, %k : tensor<4x3x8x4xf32>, tensor<4x3x4x16xf32>) outs(%z : tensor<4x3x8x16xf32>) {
  ^bb0(%1: f32, %2: f32, %o: f32):
    %p = arith.mulf %1, %2 : f32
    %t = arith.addf %o, %p : f32
    linalg.yield %t : f32
  } -> tensor<4x3x8x16xf32>
  %of_heads = linalg.broadcast ins(%scale : tensor<3xf32>) outs(%e : tensor<4x3x8x16xf32>) dimensions = [0, 2, 3]
  %scaled = arith.mulf %scores, %of_heads : tensor<4x3x8x16xf32>
  %heads = linalg.broadcast ins(%bias : tensor<3x8x16xf32>) outs(%e : tensor<4x3x8x16xf32>) dimensions = [0]
  %biased = arith.addf %scaled, %heads : tensor<4x3x8x16xf32>
  %windows = tensor.expand_shape %biased [[0, 1], [2], [3], [4]] output_shape [2, 2, 3, 8, 16] : tensor<4x3x8x16xf32> into tensor<2x2x3x8x16xf32>
  %w = tensor.empty() : tensor<2x2x3x8x16xf32>
  %wide = linalg.broadcast ins(%mask : tensor<2x8x16xf32>) outs(%w : tensor<2x2x3x8x16xf32>) dimensions = [0, 2]
  %masked = arith.addf %windows, %wide : tensor<2x2x3x8x16xf32>
  %merged = tensor.collapse_shape %masked [[0, 1], [2], [3], [4]] : tensor<2x2x3x8x16xf32> into tensor<4x3x8x16xf32>
  %weights = linalg.softmax dimension(3) ins(%merged : tensor<4x3x8x16xf32>) outs(%e : tensor<4x3x8x16xf32>) -> tensor<4x3x8x16xf32>
  %r = tensor.empty() : tensor<4x3x8x5xf32>
  %rz = linalg.fill ins(%zero : f32) outs(%r : tensor<4x3x8x5xf32>) -> tensor<4x3x8x5xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(b, h, s, e, t) -> (b, h, s, t)>, affine_map<(b, h, s, e, t) -> (b, h, t, e)>, affine_map<(b, h, s, e, t) -> (b, h, s, e)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]} ins(%weights, %v : tensor<4x3x8x16xf32>, tensor<4x3x16x5xf32>) outs(%rz : tensor<4x3x8x5xf32>) {
  ^bb0(%1: f32, %2: f32, %o: f32):
    %p = arith.mulf %1, %2 : f32
    %t = arith.addf %o, %p : f32
    linalg.yield %t : f32
  } -> tensor<4x3x8x5xf32>
  return %y : tensor<4x3x8x5xf32>
}
