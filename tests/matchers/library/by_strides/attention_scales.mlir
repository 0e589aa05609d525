// Attention as ONNX exports of PyTorch's scaled_dot_product_attention have it: with a scale for queries and one for keys, and
// with one for the scores that a tensor holds.
#id = affine_map<(b, h, s, t) -> (b, h, s, t)>
#mask = affine_map<(b, h, s, t) -> (h, s, t)>
#one = affine_map<(b, h, s, t) -> ()>

func.func @scaled_apart(%x: tensor<?x4x3x6xf32>, %mask: tensor<3x4x4xf32>) -> tensor<?x4x2xf32> {
  %c0 = arith.constant 0 : index
  %c3 = arith.constant 3 : index
  %half = arith.constant 0.5 : f32
  %zero = arith.constant 0.0 : f32
  %low = arith.constant 0xFF800000 : f32
  %b = tensor.dim %x, %c0 : tensor<?x4x3x6xf32>
  %bh = arith.muli %b, %c3 : index
  %et = tensor.empty(%b) : tensor<?x3x4x6xf32>
  %t = linalg.transpose ins(%x : tensor<?x4x3x6xf32>) outs(%et : tensor<?x3x4x6xf32>) permutation = [0, 2, 1, 3]
  %q = tensor.extract_slice %t[0, 0, 0, 0] [%b, 3, 4, 2] [1, 1, 1, 1] : tensor<?x3x4x6xf32> to tensor<?x3x4x2xf32>
  %k = tensor.extract_slice %t[0, 0, 0, 2] [%b, 3, 4, 2] [1, 1, 1, 1] : tensor<?x3x4x6xf32> to tensor<?x3x4x2xf32>
  %v = tensor.extract_slice %t[0, 0, 0, 4] [%b, 3, 4, 2] [1, 1, 1, 1] : tensor<?x3x4x6xf32> to tensor<?x3x4x2xf32>
  %kr = tensor.collapse_shape %k [[0, 1], [2], [3]] : tensor<?x3x4x2xf32> into tensor<?x4x2xf32>
  %ek = tensor.empty(%bh) : tensor<?x2x4xf32>
  %kt = linalg.transpose ins(%kr : tensor<?x4x2xf32>) outs(%ek : tensor<?x2x4xf32>) permutation = [0, 2, 1]
  %ke = tensor.expand_shape %kt [[0, 1], [2], [3]] output_shape [%b, 3, 2, 4] : tensor<?x2x4xf32> into tensor<?x3x2x4xf32>
  %eq = tensor.empty(%b) : tensor<?x3x4x2xf32>
  %qs = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    ins(%q : tensor<?x3x4x2xf32>) outs(%eq : tensor<?x3x4x2xf32>) {
  ^bb0(%a: f32, %o: f32):
    %m = arith.mulf %a, %half : f32
    linalg.yield %m : f32 } -> tensor<?x3x4x2xf32>
  %eks = tensor.empty(%b) : tensor<?x3x2x4xf32>
  %ks = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    ins(%ke : tensor<?x3x2x4xf32>) outs(%eks : tensor<?x3x2x4xf32>) {
  ^bb0(%a: f32, %o: f32):
    %m = arith.mulf %a, %half : f32
    linalg.yield %m : f32 } -> tensor<?x3x2x4xf32>
  %qc = tensor.collapse_shape %qs [[0, 1], [2], [3]] : tensor<?x3x4x2xf32> into tensor<?x4x2xf32>
  %kc = tensor.collapse_shape %ks [[0, 1], [2], [3]] : tensor<?x3x2x4xf32> into tensor<?x2x4xf32>
  %es = tensor.empty(%bh) : tensor<?x4x4xf32>
  %fs = linalg.fill ins(%zero : f32) outs(%es : tensor<?x4x4xf32>) -> tensor<?x4x4xf32>
  %sc = linalg.batch_matmul ins(%qc, %kc : tensor<?x4x2xf32>, tensor<?x2x4xf32>) outs(%fs : tensor<?x4x4xf32>) -> tensor<?x4x4xf32>
  %s = tensor.expand_shape %sc [[0, 1], [2], [3]] output_shape [%b, 3, 4, 4] : tensor<?x4x4xf32> into tensor<?x3x4x4xf32>
  %em = tensor.empty(%b) : tensor<?x3x4x4xf32>
  %sm = linalg.generic {indexing_maps = [#id, #mask, #id], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    ins(%s, %mask : tensor<?x3x4x4xf32>, tensor<3x4x4xf32>) outs(%em : tensor<?x3x4x4xf32>) {
  ^bb0(%a: f32, %c: f32, %o: f32):
    %m = arith.addf %a, %c : f32
    linalg.yield %m : f32 } -> tensor<?x3x4x4xf32>
  %ep = tensor.empty(%b) : tensor<?x3x4x4xf32>
  %p = linalg.softmax dimension(3) ins(%sm : tensor<?x3x4x4xf32>) outs(%ep : tensor<?x3x4x4xf32>) -> tensor<?x3x4x4xf32>
  %pc = tensor.collapse_shape %p [[0, 1], [2], [3]] : tensor<?x3x4x4xf32> into tensor<?x4x4xf32>
  %vc = tensor.collapse_shape %v [[0, 1], [2], [3]] : tensor<?x3x4x2xf32> into tensor<?x4x2xf32>
  %er = tensor.empty(%bh) : tensor<?x4x2xf32>
  %fr = linalg.fill ins(%zero : f32) outs(%er : tensor<?x4x2xf32>) -> tensor<?x4x2xf32>
  %r = linalg.batch_matmul ins(%pc, %vc : tensor<?x4x4xf32>, tensor<?x4x2xf32>) outs(%fr : tensor<?x4x2xf32>) -> tensor<?x4x2xf32>
  return %r : tensor<?x4x2xf32>
}

func.func @scaled_by_a_tensor(%x: tensor<?x4x3x6xf32>, %mask: tensor<3x4x4xf32>) -> tensor<?x4x2xf32> {
  %c0 = arith.constant 0 : index
  %c3 = arith.constant 3 : index
  %half = arith.constant dense<0.5> : tensor<f32>
  %zero = arith.constant 0.0 : f32
  %low = arith.constant 0xFF800000 : f32
  %b = tensor.dim %x, %c0 : tensor<?x4x3x6xf32>
  %bh = arith.muli %b, %c3 : index
  %et = tensor.empty(%b) : tensor<?x3x4x6xf32>
  %t = linalg.transpose ins(%x : tensor<?x4x3x6xf32>) outs(%et : tensor<?x3x4x6xf32>) permutation = [0, 2, 1, 3]
  %q = tensor.extract_slice %t[0, 0, 0, 0] [%b, 3, 4, 2] [1, 1, 1, 1] : tensor<?x3x4x6xf32> to tensor<?x3x4x2xf32>
  %k = tensor.extract_slice %t[0, 0, 0, 2] [%b, 3, 4, 2] [1, 1, 1, 1] : tensor<?x3x4x6xf32> to tensor<?x3x4x2xf32>
  %v = tensor.extract_slice %t[0, 0, 0, 4] [%b, 3, 4, 2] [1, 1, 1, 1] : tensor<?x3x4x6xf32> to tensor<?x3x4x2xf32>
  %kr = tensor.collapse_shape %k [[0, 1], [2], [3]] : tensor<?x3x4x2xf32> into tensor<?x4x2xf32>
  %ek = tensor.empty(%bh) : tensor<?x2x4xf32>
  %kt = linalg.transpose ins(%kr : tensor<?x4x2xf32>) outs(%ek : tensor<?x2x4xf32>) permutation = [0, 2, 1]
  %ke = tensor.expand_shape %kt [[0, 1], [2], [3]] output_shape [%b, 3, 2, 4] : tensor<?x2x4xf32> into tensor<?x3x2x4xf32>
  %qc = tensor.collapse_shape %q [[0, 1], [2], [3]] : tensor<?x3x4x2xf32> into tensor<?x4x2xf32>
  %kc = tensor.collapse_shape %ke [[0, 1], [2], [3]] : tensor<?x3x2x4xf32> into tensor<?x2x4xf32>
  %es = tensor.empty(%bh) : tensor<?x4x4xf32>
  %fs = linalg.fill ins(%zero : f32) outs(%es : tensor<?x4x4xf32>) -> tensor<?x4x4xf32>
  %sc = linalg.batch_matmul ins(%qc, %kc : tensor<?x4x2xf32>, tensor<?x2x4xf32>) outs(%fs : tensor<?x4x4xf32>) -> tensor<?x4x4xf32>
  %s = tensor.expand_shape %sc [[0, 1], [2], [3]] output_shape [%b, 3, 4, 4] : tensor<?x4x4xf32> into tensor<?x3x4x4xf32>
  %em = tensor.empty(%b) : tensor<?x3x4x4xf32>
  %sm = linalg.generic {indexing_maps = [#id, #one, #mask, #id], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    ins(%s, %half, %mask : tensor<?x3x4x4xf32>, tensor<f32>, tensor<3x4x4xf32>) outs(%em : tensor<?x3x4x4xf32>) {
  ^bb0(%a: f32, %f: f32, %c: f32, %o: f32):
    %n = arith.mulf %a, %f : f32
    %m = arith.addf %n, %c : f32
    linalg.yield %m : f32 } -> tensor<?x3x4x4xf32>
  %ep = tensor.empty(%b) : tensor<?x3x4x4xf32>
  %p = linalg.softmax dimension(3) ins(%sm : tensor<?x3x4x4xf32>) outs(%ep : tensor<?x3x4x4xf32>) -> tensor<?x3x4x4xf32>
  %pc = tensor.collapse_shape %p [[0, 1], [2], [3]] : tensor<?x3x4x4xf32> into tensor<?x4x4xf32>
  %vc = tensor.collapse_shape %v [[0, 1], [2], [3]] : tensor<?x3x4x2xf32> into tensor<?x4x2xf32>
  %er = tensor.empty(%bh) : tensor<?x4x2xf32>
  %fr = linalg.fill ins(%zero : f32) outs(%er : tensor<?x4x2xf32>) -> tensor<?x4x2xf32>
  %r = linalg.batch_matmul ins(%pc, %vc : tensor<?x4x4xf32>, tensor<?x4x2xf32>) outs(%fr : tensor<?x4x2xf32>) -> tensor<?x4x2xf32>
  return %r : tensor<?x4x2xf32>
}
