func.func public @embedding_jax(%arg0: tensor<50x12xf32>, %arg1: tensor<7xi32>) -> tensor<7x12xf32> {
  %c = stablehlo.constant dense<50> : tensor<7xi32>
  %c_0 = stablehlo.constant dense<0> : tensor<7xi32>
  %0 = stablehlo.compare LT, %arg1, %c_0, SIGNED : (tensor<7xi32>, tensor<7xi32>) -> tensor<7xi1>
  %1 = stablehlo.add %arg1, %c : tensor<7xi32>
  %2 = stablehlo.select %0, %1, %arg1 : tensor<7xi1>, tensor<7xi32>
  %3 = stablehlo.reshape %2 : (tensor<7xi32>) -> tensor<7x1xi32>
  %4 = "stablehlo.gather"(%arg0, %3) <{dimension_numbers = #stablehlo.gather<offset_dims = [1],
    collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 12>}>
    : (tensor<50x12xf32>, tensor<7x1xi32>) -> tensor<7x12xf32>
  return %4 : tensor<7x12xf32>
}
