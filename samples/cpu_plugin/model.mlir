// x * gain + offset, row by row, with the gain given at run time.

func.func @main(%x: tensor<?x8xf32>, %gain: f32, %offset: tensor<8xf32>) -> tensor<?x8xf32> {
  %c0 = arith.constant 0 : index
  %rows = tensor.dim %x, %c0 : tensor<?x8xf32>
  %empty = tensor.empty(%rows) : tensor<?x8xf32>
  %result = linalg.generic {
      indexing_maps = [affine_map<(m, n) -> (m, n)>, affine_map<(m, n) -> ()>, affine_map<(m, n) -> (n)>,
                       affine_map<(m, n) -> (m, n)>],
      iterator_types = ["parallel", "parallel"]}
      ins(%x, %gain, %offset : tensor<?x8xf32>, f32, tensor<8xf32>) outs(%empty : tensor<?x8xf32>) {
  ^bb0(%a: f32, %g: f32, %b: f32, %out: f32):
    %scaled = arith.mulf %a, %g : f32
    %sum = arith.addf %scaled, %b : f32
    linalg.yield %sum : f32
  } -> tensor<?x8xf32>
  return %result : tensor<?x8xf32>
}
