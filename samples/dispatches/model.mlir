// Rows times a gain, plus a bias for each column; and what comes of it, once more.
func.func @main(%x: tensor<?x?xf32>, %gain: tensor<f32>, %bias: tensor<?xf32>) -> tensor<?x?xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %m = tensor.dim %x, %c0 : tensor<?x?xf32>
  %n = tensor.dim %x, %c1 : tensor<?x?xf32>
  %empty = tensor.empty(%m, %n) : tensor<?x?xf32>
  %scaled = linalg.generic {
      indexing_maps = [affine_map<(m, n) -> (m, n)>, affine_map<(m, n) -> ()>, affine_map<(m, n) -> (n)>,
                       affine_map<(m, n) -> (m, n)>],
      iterator_types = ["parallel", "parallel"]}
      ins(%x, %gain, %bias : tensor<?x?xf32>, tensor<f32>, tensor<?xf32>) outs(%empty : tensor<?x?xf32>) {
  ^bb0(%a: f32, %g: f32, %b: f32, %out: f32):
    %0 = arith.mulf %a, %g : f32
    %1 = arith.addf %0, %b : f32
    linalg.yield %1 : f32
  } -> tensor<?x?xf32>
  %result = math.exp %scaled : tensor<?x?xf32>
  return %result : tensor<?x?xf32>
}
