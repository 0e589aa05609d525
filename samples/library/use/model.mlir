// RMSNorm over the rows of a tensor, and swish, as frontends write them: one op on elements for each step.
#rows = affine_map<(d0, d1) -> (d0)>
#columns = affine_map<(d0, d1) -> (d1)>
#all = affine_map<(d0, d1) -> (d0, d1)>

func.func @main(%x: tensor<?x64xf32>, %gain: tensor<64xf32>) -> tensor<?x64xf32> {
  %zero = arith.constant 0 : index
  %m = tensor.dim %x, %zero : tensor<?x64xf32>
  %0 = arith.constant 0.0 : f32
  %n = arith.constant 64.0 : f32
  %eps = arith.constant 1.0e-05 : f32
  %one = arith.constant 1.0 : f32
  %row = tensor.empty(%m) : tensor<?xf32>
  %empty = tensor.empty(%m) : tensor<?x64xf32>
  %start = linalg.fill ins(%0 : f32) outs(%row : tensor<?xf32>) -> tensor<?xf32>
  %sum = linalg.generic {indexing_maps = [#all, #rows], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<?x64xf32>) outs(%start : tensor<?xf32>) {
  ^bb0(%a: f32, %running: f32):
    %square = arith.mulf %a, %a : f32
    %next = arith.addf %square, %running : f32
    linalg.yield %next : f32
  } -> tensor<?xf32>
  %normed = linalg.generic {indexing_maps = [#all, #rows, #columns, #all], iterator_types = ["parallel", "parallel"]}
      ins(%x, %sum, %gain : tensor<?x64xf32>, tensor<?xf32>, tensor<64xf32>) outs(%empty : tensor<?x64xf32>) {
  ^bb0(%a: f32, %s: f32, %g: f32, %unused: f32):
    %mean = arith.divf %s, %n : f32
    %shifted = arith.addf %mean, %eps : f32
    %scale = math.rsqrt %shifted : f32
    %scaled = arith.mulf %a, %scale : f32
    %y = arith.mulf %scaled, %g : f32
    linalg.yield %y : f32
  } -> tensor<?x64xf32>
  %swish = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]}
      ins(%normed : tensor<?x64xf32>) outs(%empty : tensor<?x64xf32>) {
  ^bb0(%a: f32, %unused: f32):
    %negated = arith.negf %a : f32
    %e = math.exp %negated : f32
    %below = arith.addf %e, %one : f32
    %y = arith.divf %a, %below : f32
    linalg.yield %y : f32
  } -> tensor<?x64xf32>
  return %swish : tensor<?x64xf32>
}
