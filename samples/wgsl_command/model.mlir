// Two layers with quick_gelu, x / (1 + exp(-1.702 x)), between them.
func.func @layers(%x: tensor<?x64xf32>, %w1: tensor<64x128xf32>, %w2: tensor<128x2xf32>) -> tensor<?x2xf32> {
  %c0 = arith.constant 0 : index
  %m = tensor.dim %x, %c0 : tensor<?x64xf32>
  %zero = arith.constant 0.0 : f32
  %e1 = tensor.empty(%m) : tensor<?x128xf32>
  %f1 = linalg.fill ins(%zero : f32) outs(%e1 : tensor<?x128xf32>) -> tensor<?x128xf32>
  %h = linalg.matmul ins(%x, %w1 : tensor<?x64xf32>, tensor<64x128xf32>) outs(%f1 : tensor<?x128xf32>) -> tensor<?x128xf32>
  %a = linalg.generic {
    indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]
  } ins(%h : tensor<?x128xf32>) outs(%e1 : tensor<?x128xf32>) {
  ^bb0(%in: f32, %out: f32):
    %slope = arith.constant 1.702 : f32
    %one = arith.constant 1.0 : f32
    %s = arith.mulf %in, %slope : f32
    %n = arith.negf %s : f32
    %p = math.exp %n : f32
    %d = arith.addf %p, %one : f32
    %q = arith.divf %in, %d : f32
    linalg.yield %q : f32
  } -> tensor<?x128xf32>
  %e2 = tensor.empty(%m) : tensor<?x2xf32>
  %f2 = linalg.fill ins(%zero : f32) outs(%e2 : tensor<?x2xf32>) -> tensor<?x2xf32>
  %y = linalg.matmul ins(%a, %w2 : tensor<?x128xf32>, tensor<128x2xf32>) outs(%f2 : tensor<?x2xf32>) -> tensor<?x2xf32>
  return %y : tensor<?x2xf32>
}
