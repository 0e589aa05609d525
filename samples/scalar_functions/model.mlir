// A linear layer with gelu and a residual connection: gelu(x W) + x, for any number of rows. Gelu is written out as its
// approximation by tanh, as frontends write it.

func.func @main(%x: tensor<?x64xf32>, %w: tensor<64x64xf32>) -> tensor<?x64xf32> {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %rows = tensor.dim %x, %c0 : tensor<?x64xf32>
  %empty = tensor.empty(%rows) : tensor<?x64xf32>
  %cleared = linalg.fill ins(%zero : f32) outs(%empty : tensor<?x64xf32>) -> tensor<?x64xf32>
  %y = linalg.matmul ins(%x, %w : tensor<?x64xf32>, tensor<64x64xf32>)
                     outs(%cleared : tensor<?x64xf32>) -> tensor<?x64xf32>

  %gelu = linalg.generic {
      indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>],
      iterator_types = ["parallel", "parallel"]}
      ins(%y : tensor<?x64xf32>) outs(%empty : tensor<?x64xf32>) {
  ^bb0(%e: f32, %out: f32):
    %half = arith.constant 0.5 : f32
    %one = arith.constant 1.0 : f32
    %cubic = arith.constant 0.044715 : f32
    %scale = arith.constant 0.797884583 : f32
    %square = arith.mulf %e, %e : f32
    %cube = arith.mulf %square, %e : f32
    %bent = arith.mulf %cube, %cubic : f32
    %sum = arith.addf %e, %bent : f32
    %inner = arith.mulf %sum, %scale : f32
    %tanh = math.tanh %inner : f32
    %shifted = arith.addf %tanh, %one : f32
    %halved = arith.mulf %e, %half : f32
    %result = arith.mulf %halved, %shifted : f32
    linalg.yield %result : f32
  } -> tensor<?x64xf32>

  %sum = arith.addf %gelu, %x : tensor<?x64xf32>
  return %sum : tensor<?x64xf32>
}
