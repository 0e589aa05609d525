// -|lhs * rhs| twice, once on tensors of any size and once on ten elements, in two spellings.

func.func @mixed_invocation(
    %lhs: tensor<?xf32>, %rhs: tensor<?xf32>, %lhs_static: tensor<10xf32>, %rhs_static: tensor<10xf32>)
    -> (tensor<?xf32>, tensor<10xf32>) {
  %product = arith.mulf %lhs, %rhs : tensor<?xf32>
  %magnitude = math.absf %product : tensor<?xf32>
  %result = arith.negf %magnitude : tensor<?xf32>

  %empty = tensor.empty() : tensor<10xf32>
  %product_static = linalg.generic {
      indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>],
      iterator_types = ["parallel"]}
      ins(%lhs_static, %rhs_static : tensor<10xf32>, tensor<10xf32>) outs(%empty : tensor<10xf32>) {
  ^bb0(%a: f32, %b: f32, %out: f32):
    %mul = arith.mulf %a, %b : f32
    %abs = math.absf %mul : f32
    %neg = arith.negf %abs : f32
    linalg.yield %neg : f32
  } -> tensor<10xf32>

  return %result, %product_static : tensor<?xf32>, tensor<10xf32>
}
