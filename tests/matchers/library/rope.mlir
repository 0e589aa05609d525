func.func public @rope(%x: tensor<3x6x2x8xf32>, %cos: tensor<6x2x8xf32>, %sin: tensor<6x2x8xf32>) -> tensor<3x6x2x8xf32> {
  %first = stablehlo.slice %x [0:3, 0:6, 0:1, 0:8] : (tensor<3x6x2x8xf32>) -> tensor<3x6x1x8xf32>
  %second = stablehlo.slice %x [0:3, 0:6, 1:2, 0:8] : (tensor<3x6x2x8xf32>) -> tensor<3x6x1x8xf32>
  %0 = stablehlo.negate %second : tensor<3x6x1x8xf32>
  %1 = stablehlo.concatenate %0, %first, dim = 2 : (tensor<3x6x1x8xf32>, tensor<3x6x1x8xf32>) -> tensor<3x6x2x8xf32>
  %2 = stablehlo.broadcast_in_dim %cos, dims = [1, 2, 3] : (tensor<6x2x8xf32>) -> tensor<3x6x2x8xf32>
  %3 = stablehlo.broadcast_in_dim %sin, dims = [1, 2, 3] : (tensor<6x2x8xf32>) -> tensor<3x6x2x8xf32>
  %4 = stablehlo.multiply %x, %2 : tensor<3x6x2x8xf32>
  %5 = stablehlo.multiply %1, %3 : tensor<3x6x2x8xf32>
  %6 = stablehlo.add %4, %5 : tensor<3x6x2x8xf32>
  return %6 : tensor<3x6x2x8xf32>
}
func.func public @rope_by_halves(%x: tensor<3x6x2x8xf32>, %cos: tensor<6x8xf32>, %sin: tensor<6x8xf32>) -> tensor<3x6x2x8xf32> {
  %first = stablehlo.slice %x [0:3, 0:6, 0:1, 0:8] : (tensor<3x6x2x8xf32>) -> tensor<3x6x1x8xf32>
  %second = stablehlo.slice %x [0:3, 0:6, 1:2, 0:8] : (tensor<3x6x2x8xf32>) -> tensor<3x6x1x8xf32>
  %c = stablehlo.broadcast_in_dim %cos, dims = [1, 3] : (tensor<6x8xf32>) -> tensor<3x6x1x8xf32>
  %s = stablehlo.broadcast_in_dim %sin, dims = [1, 3] : (tensor<6x8xf32>) -> tensor<3x6x1x8xf32>
  %0 = stablehlo.multiply %first, %c : tensor<3x6x1x8xf32>
  %1 = stablehlo.multiply %second, %s : tensor<3x6x1x8xf32>
  %2 = stablehlo.subtract %0, %1 : tensor<3x6x1x8xf32>
  %3 = stablehlo.multiply %second, %c : tensor<3x6x1x8xf32>
  %4 = stablehlo.multiply %first, %s : tensor<3x6x1x8xf32>
  %5 = stablehlo.add %3, %4 : tensor<3x6x1x8xf32>
  %6 = stablehlo.concatenate %2, %5, dim = 2 : (tensor<3x6x1x8xf32>, tensor<3x6x1x8xf32>) -> tensor<3x6x2x8xf32>
  return %6 : tensor<3x6x2x8xf32>
}
