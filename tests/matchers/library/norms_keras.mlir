func.func public @layernorm_keras(%x: tensor<2x4x8xf32>, %gain: tensor<8xf32>, %bias: tensor<8xf32>) -> tensor<2x4x8xf32> {
  %zero = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %0 = stablehlo.constant dense<8.000000e+00> : tensor<2x4x1xf32>
  %1 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [2] : (tensor<2x4x8xf32>, tensor<f32>) -> tensor<2x4xf32>
  %2 = stablehlo.broadcast_in_dim %1, dims = [0, 1] : (tensor<2x4xf32>) -> tensor<2x4x1xf32>
  %3 = stablehlo.divide %2, %0 : tensor<2x4x1xf32>
  %4 = stablehlo.broadcast_in_dim %3, dims = [0, 1, 2] : (tensor<2x4x1xf32>) -> tensor<2x4x8xf32>
  %5 = stablehlo.subtract %x, %4 : tensor<2x4x8xf32>
  %6 = stablehlo.multiply %5, %5 : tensor<2x4x8xf32>
  %7 = stablehlo.reduce(%6 init: %zero) applies stablehlo.add across dimensions = [2] : (tensor<2x4x8xf32>, tensor<f32>) -> tensor<2x4xf32>
  %8 = stablehlo.broadcast_in_dim %7, dims = [0, 1] : (tensor<2x4xf32>) -> tensor<2x4x1xf32>
  %9 = stablehlo.divide %8, %0 : tensor<2x4x1xf32>
  %10 = stablehlo.constant dense<1.000000e-03> : tensor<2x4x1xf32>
  %11 = stablehlo.add %9, %10 : tensor<2x4x1xf32>
  %12 = stablehlo.rsqrt %11 : tensor<2x4x1xf32>
  %13 = stablehlo.broadcast_in_dim %12, dims = [0, 1, 2] : (tensor<2x4x1xf32>) -> tensor<2x4x8xf32>
  %14 = stablehlo.broadcast_in_dim %gain, dims = [2] : (tensor<8xf32>) -> tensor<2x4x8xf32>
  %15 = stablehlo.multiply %13, %14 : tensor<2x4x8xf32>
  %16 = stablehlo.negate %3 : tensor<2x4x1xf32>
  %17 = stablehlo.broadcast_in_dim %16, dims = [0, 1, 2] : (tensor<2x4x1xf32>) -> tensor<2x4x8xf32>
  %18 = stablehlo.multiply %17, %15 : tensor<2x4x8xf32>
  %19 = stablehlo.broadcast_in_dim %bias, dims = [2] : (tensor<8xf32>) -> tensor<2x4x8xf32>
  %20 = stablehlo.add %18, %19 : tensor<2x4x8xf32>
  %21 = stablehlo.multiply %x, %15 : tensor<2x4x8xf32>
  %22 = stablehlo.add %21, %20 : tensor<2x4x8xf32>
  return %22 : tensor<2x4x8xf32>
}

func.func public @layernorm_2d_keras(%x: tensor<2x3x5x4xf32>, %gain: tensor<5x4xf32>, %bias: tensor<5x4xf32>) -> tensor<2x3x5x4xf32> {
  %zero = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %0 = stablehlo.constant dense<2.000000e+01> : tensor<2x3x1x1xf32>
  %1 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [2, 3] : (tensor<2x3x5x4xf32>, tensor<f32>) -> tensor<2x3xf32>
  %2 = stablehlo.broadcast_in_dim %1, dims = [0, 1] : (tensor<2x3xf32>) -> tensor<2x3x1x1xf32>
  %3 = stablehlo.divide %2, %0 : tensor<2x3x1x1xf32>
  %4 = stablehlo.broadcast_in_dim %3, dims = [0, 1, 2, 3] : (tensor<2x3x1x1xf32>) -> tensor<2x3x5x4xf32>
  %5 = stablehlo.subtract %x, %4 : tensor<2x3x5x4xf32>
  %6 = stablehlo.multiply %5, %5 : tensor<2x3x5x4xf32>
  %7 = stablehlo.reduce(%6 init: %zero) applies stablehlo.add across dimensions = [2, 3] : (tensor<2x3x5x4xf32>, tensor<f32>) -> tensor<2x3xf32>
  %8 = stablehlo.broadcast_in_dim %7, dims = [0, 1] : (tensor<2x3xf32>) -> tensor<2x3x1x1xf32>
  %9 = stablehlo.divide %8, %0 : tensor<2x3x1x1xf32>
  %10 = stablehlo.constant dense<1.000000e-03> : tensor<2x3x1x1xf32>
  %11 = stablehlo.add %9, %10 : tensor<2x3x1x1xf32>
  %12 = stablehlo.rsqrt %11 : tensor<2x3x1x1xf32>
  %13 = stablehlo.broadcast_in_dim %12, dims = [0, 1, 2, 3] : (tensor<2x3x1x1xf32>) -> tensor<2x3x5x4xf32>
  %14 = stablehlo.broadcast_in_dim %gain, dims = [2, 3] : (tensor<5x4xf32>) -> tensor<2x3x5x4xf32>
  %15 = stablehlo.multiply %13, %14 : tensor<2x3x5x4xf32>
  %16 = stablehlo.negate %3 : tensor<2x3x1x1xf32>
  %17 = stablehlo.broadcast_in_dim %16, dims = [0, 1, 2, 3] : (tensor<2x3x1x1xf32>) -> tensor<2x3x5x4xf32>
  %18 = stablehlo.multiply %17, %15 : tensor<2x3x5x4xf32>
  %19 = stablehlo.broadcast_in_dim %bias, dims = [2, 3] : (tensor<5x4xf32>) -> tensor<2x3x5x4xf32>
  %20 = stablehlo.add %18, %19 : tensor<2x3x5x4xf32>
  %21 = stablehlo.multiply %x, %15 : tensor<2x3x5x4xf32>
  %22 = stablehlo.add %21, %20 : tensor<2x3x5x4xf32>
  return %22 : tensor<2x3x5x4xf32>
}

func.func public @layernorm_alone_keras(%x: tensor<2x4x8xf32>) -> tensor<2x4x8xf32> {
  %zero = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %0 = stablehlo.constant dense<8.000000e+00> : tensor<2x4x1xf32>
  %1 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [2] : (tensor<2x4x8xf32>, tensor<f32>) -> tensor<2x4xf32>
  %2 = stablehlo.broadcast_in_dim %1, dims = [0, 1] : (tensor<2x4xf32>) -> tensor<2x4x1xf32>
  %3 = stablehlo.divide %2, %0 : tensor<2x4x1xf32>
  %4 = stablehlo.broadcast_in_dim %3, dims = [0, 1, 2] : (tensor<2x4x1xf32>) -> tensor<2x4x8xf32>
  %5 = stablehlo.subtract %x, %4 : tensor<2x4x8xf32>
  %6 = stablehlo.multiply %5, %5 : tensor<2x4x8xf32>
  %7 = stablehlo.reduce(%6 init: %zero) applies stablehlo.add across dimensions = [2] : (tensor<2x4x8xf32>, tensor<f32>) -> tensor<2x4xf32>
  %8 = stablehlo.broadcast_in_dim %7, dims = [0, 1] : (tensor<2x4xf32>) -> tensor<2x4x1xf32>
  %9 = stablehlo.divide %8, %0 : tensor<2x4x1xf32>
  %10 = stablehlo.constant dense<1.000000e-03> : tensor<2x4x1xf32>
  %11 = stablehlo.add %9, %10 : tensor<2x4x1xf32>
  %12 = stablehlo.rsqrt %11 : tensor<2x4x1xf32>
  %13 = stablehlo.broadcast_in_dim %12, dims = [0, 1, 2] : (tensor<2x4x1xf32>) -> tensor<2x4x8xf32>
  %14 = stablehlo.negate %3 : tensor<2x4x1xf32>
  %15 = stablehlo.broadcast_in_dim %14, dims = [0, 1, 2] : (tensor<2x4x1xf32>) -> tensor<2x4x8xf32>
  %16 = stablehlo.multiply %15, %13 : tensor<2x4x8xf32>
  %17 = stablehlo.multiply %x, %13 : tensor<2x4x8xf32>
  %18 = stablehlo.add %17, %16 : tensor<2x4x8xf32>
  return %18 : tensor<2x4x8xf32>
}

func.func public @batchnorm_nhwc_keras(%x: tensor<2x5x4x3xf32>, %mean: tensor<3xf32>, %variance: tensor<3xf32>, %gain: tensor<3xf32>, %bias: tensor<3xf32>) -> tensor<2x5x4x3xf32> {
  %0 = stablehlo.reshape %mean : (tensor<3xf32>) -> tensor<1x1x1x3xf32>
  %1 = stablehlo.reshape %variance : (tensor<3xf32>) -> tensor<1x1x1x3xf32>
  %2 = stablehlo.constant dense<1.000000e-03> : tensor<1x1x1x3xf32>
  %3 = stablehlo.add %1, %2 : tensor<1x1x1x3xf32>
  %4 = stablehlo.rsqrt %3 : tensor<1x1x1x3xf32>
  %5 = stablehlo.reshape %gain : (tensor<3xf32>) -> tensor<1x1x1x3xf32>
  %6 = stablehlo.multiply %4, %5 : tensor<1x1x1x3xf32>
  %7 = stablehlo.negate %0 : tensor<1x1x1x3xf32>
  %8 = stablehlo.multiply %7, %6 : tensor<1x1x1x3xf32>
  %9 = stablehlo.reshape %bias : (tensor<3xf32>) -> tensor<1x1x1x3xf32>
  %10 = stablehlo.add %8, %9 : tensor<1x1x1x3xf32>
  %11 = stablehlo.broadcast_in_dim %6, dims = [0, 1, 2, 3] : (tensor<1x1x1x3xf32>) -> tensor<2x5x4x3xf32>
  %12 = stablehlo.multiply %x, %11 : tensor<2x5x4x3xf32>
  %13 = stablehlo.broadcast_in_dim %10, dims = [0, 1, 2, 3] : (tensor<1x1x1x3xf32>) -> tensor<2x5x4x3xf32>
  %14 = stablehlo.add %12, %13 : tensor<2x5x4x3xf32>
  return %14 : tensor<2x5x4x3xf32>
}

func.func public @batchnorm_nhwc_without_eps_keras(%x: tensor<2x5x4x3xf32>, %mean: tensor<3xf32>, %variance: tensor<3xf32>, %gain: tensor<3xf32>, %bias: tensor<3xf32>) -> tensor<2x5x4x3xf32> {
  %0 = stablehlo.reshape %mean : (tensor<3xf32>) -> tensor<1x1x1x3xf32>
  %1 = stablehlo.reshape %variance : (tensor<3xf32>) -> tensor<1x1x1x3xf32>
  %2 = stablehlo.rsqrt %1 : tensor<1x1x1x3xf32>
  %3 = stablehlo.reshape %gain : (tensor<3xf32>) -> tensor<1x1x1x3xf32>
  %4 = stablehlo.multiply %2, %3 : tensor<1x1x1x3xf32>
  %5 = stablehlo.negate %0 : tensor<1x1x1x3xf32>
  %6 = stablehlo.multiply %5, %4 : tensor<1x1x1x3xf32>
  %7 = stablehlo.reshape %bias : (tensor<3xf32>) -> tensor<1x1x1x3xf32>
  %8 = stablehlo.add %6, %7 : tensor<1x1x1x3xf32>
  %9 = stablehlo.broadcast_in_dim %4, dims = [0, 1, 2, 3] : (tensor<1x1x1x3xf32>) -> tensor<2x5x4x3xf32>
  %10 = stablehlo.multiply %x, %9 : tensor<2x5x4x3xf32>
  %11 = stablehlo.broadcast_in_dim %8, dims = [0, 1, 2, 3] : (tensor<1x1x1x3xf32>) -> tensor<2x5x4x3xf32>
  %12 = stablehlo.add %10, %11 : tensor<2x5x4x3xf32>
  return %12 : tensor<2x5x4x3xf32>
}

func.func public @batchnorm_nchw_keras(%x: tensor<2x3x5x4xf32>, %mean: tensor<3xf32>, %variance: tensor<3xf32>, %gain: tensor<3xf32>, %bias: tensor<3xf32>) -> tensor<2x3x5x4xf32> {
  %0 = stablehlo.reshape %mean : (tensor<3xf32>) -> tensor<1x3x1x1xf32>
  %1 = stablehlo.reshape %variance : (tensor<3xf32>) -> tensor<1x3x1x1xf32>
  %2 = stablehlo.constant dense<1.000000e-03> : tensor<1x3x1x1xf32>
  %3 = stablehlo.add %1, %2 : tensor<1x3x1x1xf32>
  %4 = stablehlo.rsqrt %3 : tensor<1x3x1x1xf32>
  %5 = stablehlo.reshape %gain : (tensor<3xf32>) -> tensor<1x3x1x1xf32>
  %6 = stablehlo.multiply %4, %5 : tensor<1x3x1x1xf32>
  %7 = stablehlo.negate %0 : tensor<1x3x1x1xf32>
  %8 = stablehlo.multiply %7, %6 : tensor<1x3x1x1xf32>
  %9 = stablehlo.reshape %bias : (tensor<3xf32>) -> tensor<1x3x1x1xf32>
  %10 = stablehlo.add %8, %9 : tensor<1x3x1x1xf32>
  %11 = stablehlo.broadcast_in_dim %6, dims = [0, 1, 2, 3] : (tensor<1x3x1x1xf32>) -> tensor<2x3x5x4xf32>
  %12 = stablehlo.multiply %x, %11 : tensor<2x3x5x4xf32>
  %13 = stablehlo.broadcast_in_dim %10, dims = [0, 1, 2, 3] : (tensor<1x3x1x1xf32>) -> tensor<2x3x5x4xf32>
  %14 = stablehlo.add %12, %13 : tensor<2x3x5x4xf32>
  return %14 : tensor<2x3x5x4xf32>
}

func.func public @batchnorm_nchw_without_eps_keras(%x: tensor<2x3x5x4xf32>, %mean: tensor<3xf32>, %variance: tensor<3xf32>, %gain: tensor<3xf32>, %bias: tensor<3xf32>) -> tensor<2x3x5x4xf32> {
  %0 = stablehlo.reshape %mean : (tensor<3xf32>) -> tensor<1x3x1x1xf32>
  %1 = stablehlo.reshape %variance : (tensor<3xf32>) -> tensor<1x3x1x1xf32>
  %2 = stablehlo.rsqrt %1 : tensor<1x3x1x1xf32>
  %3 = stablehlo.reshape %gain : (tensor<3xf32>) -> tensor<1x3x1x1xf32>
  %4 = stablehlo.multiply %2, %3 : tensor<1x3x1x1xf32>
  %5 = stablehlo.negate %0 : tensor<1x3x1x1xf32>
  %6 = stablehlo.multiply %5, %4 : tensor<1x3x1x1xf32>
  %7 = stablehlo.reshape %bias : (tensor<3xf32>) -> tensor<1x3x1x1xf32>
  %8 = stablehlo.add %6, %7 : tensor<1x3x1x1xf32>
  %9 = stablehlo.broadcast_in_dim %4, dims = [0, 1, 2, 3] : (tensor<1x3x1x1xf32>) -> tensor<2x3x5x4xf32>
  %10 = stablehlo.multiply %x, %9 : tensor<2x3x5x4xf32>
  %11 = stablehlo.broadcast_in_dim %8, dims = [0, 1, 2, 3] : (tensor<1x3x1x1xf32>) -> tensor<2x3x5x4xf32>
  %12 = stablehlo.add %10, %11 : tensor<2x3x5x4xf32>
  return %12 : tensor<2x3x5x4xf32>
}

func.func public @batchnorm_nchw_row_keras(%x: tensor<2x3x7xf32>, %mean: tensor<3xf32>, %variance: tensor<3xf32>, %gain: tensor<3xf32>, %bias: tensor<3xf32>) -> tensor<2x3x7xf32> {
  %0 = stablehlo.reshape %mean : (tensor<3xf32>) -> tensor<1x3x1xf32>
  %1 = stablehlo.reshape %variance : (tensor<3xf32>) -> tensor<1x3x1xf32>
  %2 = stablehlo.constant dense<1.000000e-03> : tensor<1x3x1xf32>
  %3 = stablehlo.add %1, %2 : tensor<1x3x1xf32>
  %4 = stablehlo.rsqrt %3 : tensor<1x3x1xf32>
  %5 = stablehlo.reshape %gain : (tensor<3xf32>) -> tensor<1x3x1xf32>
  %6 = stablehlo.multiply %4, %5 : tensor<1x3x1xf32>
  %7 = stablehlo.negate %0 : tensor<1x3x1xf32>
  %8 = stablehlo.multiply %7, %6 : tensor<1x3x1xf32>
  %9 = stablehlo.reshape %bias : (tensor<3xf32>) -> tensor<1x3x1xf32>
  %10 = stablehlo.add %8, %9 : tensor<1x3x1xf32>
  %11 = stablehlo.broadcast_in_dim %6, dims = [0, 1, 2] : (tensor<1x3x1xf32>) -> tensor<2x3x7xf32>
  %12 = stablehlo.multiply %x, %11 : tensor<2x3x7xf32>
  %13 = stablehlo.broadcast_in_dim %10, dims = [0, 1, 2] : (tensor<1x3x1xf32>) -> tensor<2x3x7xf32>
  %14 = stablehlo.add %12, %13 : tensor<2x3x7xf32>
  return %14 : tensor<2x3x7xf32>
}

func.func public @batchnorm_nchw_row_without_eps_keras(%x: tensor<2x3x7xf32>, %mean: tensor<3xf32>, %variance: tensor<3xf32>, %gain: tensor<3xf32>, %bias: tensor<3xf32>) -> tensor<2x3x7xf32> {
  %0 = stablehlo.reshape %mean : (tensor<3xf32>) -> tensor<1x3x1xf32>
  %1 = stablehlo.reshape %variance : (tensor<3xf32>) -> tensor<1x3x1xf32>
  %2 = stablehlo.rsqrt %1 : tensor<1x3x1xf32>
  %3 = stablehlo.reshape %gain : (tensor<3xf32>) -> tensor<1x3x1xf32>
  %4 = stablehlo.multiply %2, %3 : tensor<1x3x1xf32>
  %5 = stablehlo.negate %0 : tensor<1x3x1xf32>
  %6 = stablehlo.multiply %5, %4 : tensor<1x3x1xf32>
  %7 = stablehlo.reshape %bias : (tensor<3xf32>) -> tensor<1x3x1xf32>
  %8 = stablehlo.add %6, %7 : tensor<1x3x1xf32>
  %9 = stablehlo.broadcast_in_dim %4, dims = [0, 1, 2] : (tensor<1x3x1xf32>) -> tensor<2x3x7xf32>
  %10 = stablehlo.multiply %x, %9 : tensor<2x3x7xf32>
  %11 = stablehlo.broadcast_in_dim %8, dims = [0, 1, 2] : (tensor<1x3x1xf32>) -> tensor<2x3x7xf32>
  %12 = stablehlo.add %10, %11 : tensor<2x3x7xf32>
  return %12 : tensor<2x3x7xf32>
}

func.func public @any_groupnorm_keras(%x: tensor<2x5x3x8xf32>, %gain: tensor<8xf32>, %bias: tensor<8xf32>) -> tensor<2x5x3x8xf32> {
  %zero = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %0 = stablehlo.reshape %x : (tensor<2x5x3x8xf32>) -> tensor<2x5x3x2x4xf32>
  %1 = stablehlo.constant dense<6.000000e+01> : tensor<2x1x1x2x1xf32>
  %2 = stablehlo.reduce(%0 init: %zero) applies stablehlo.add across dimensions = [1, 2, 4] : (tensor<2x5x3x2x4xf32>, tensor<f32>) -> tensor<2x2xf32>
  %3 = stablehlo.broadcast_in_dim %2, dims = [0, 3] : (tensor<2x2xf32>) -> tensor<2x1x1x2x1xf32>
  %4 = stablehlo.divide %3, %1 : tensor<2x1x1x2x1xf32>
  %5 = stablehlo.broadcast_in_dim %4, dims = [0, 1, 2, 3, 4] : (tensor<2x1x1x2x1xf32>) -> tensor<2x5x3x2x4xf32>
  %6 = stablehlo.subtract %0, %5 : tensor<2x5x3x2x4xf32>
  %7 = stablehlo.multiply %6, %6 : tensor<2x5x3x2x4xf32>
  %8 = stablehlo.reduce(%7 init: %zero) applies stablehlo.add across dimensions = [1, 2, 4] : (tensor<2x5x3x2x4xf32>, tensor<f32>) -> tensor<2x2xf32>
  %9 = stablehlo.broadcast_in_dim %8, dims = [0, 3] : (tensor<2x2xf32>) -> tensor<2x1x1x2x1xf32>
  %10 = stablehlo.divide %9, %1 : tensor<2x1x1x2x1xf32>
  %11 = stablehlo.constant dense<1.000000e-03> : tensor<2x1x1x2x1xf32>
  %12 = stablehlo.add %10, %11 : tensor<2x1x1x2x1xf32>
  %13 = stablehlo.rsqrt %12 : tensor<2x1x1x2x1xf32>
  %14 = stablehlo.broadcast_in_dim %13, dims = [0, 1, 2, 3, 4] : (tensor<2x1x1x2x1xf32>) -> tensor<2x1x1x2x4xf32>
  %15 = stablehlo.reshape %gain : (tensor<8xf32>) -> tensor<1x1x1x2x4xf32>
  %16 = stablehlo.broadcast_in_dim %15, dims = [0, 1, 2, 3, 4] : (tensor<1x1x1x2x4xf32>) -> tensor<2x1x1x2x4xf32>
  %17 = stablehlo.multiply %14, %16 : tensor<2x1x1x2x4xf32>
  %18 = stablehlo.negate %4 : tensor<2x1x1x2x1xf32>
  %19 = stablehlo.broadcast_in_dim %18, dims = [0, 1, 2, 3, 4] : (tensor<2x1x1x2x1xf32>) -> tensor<2x1x1x2x4xf32>
  %20 = stablehlo.multiply %19, %17 : tensor<2x1x1x2x4xf32>
  %21 = stablehlo.reshape %bias : (tensor<8xf32>) -> tensor<1x1x1x2x4xf32>
  %22 = stablehlo.broadcast_in_dim %21, dims = [0, 1, 2, 3, 4] : (tensor<1x1x1x2x4xf32>) -> tensor<2x1x1x2x4xf32>
  %23 = stablehlo.add %20, %22 : tensor<2x1x1x2x4xf32>
  %24 = stablehlo.broadcast_in_dim %17, dims = [0, 1, 2, 3, 4] : (tensor<2x1x1x2x4xf32>) -> tensor<2x5x3x2x4xf32>
  %25 = stablehlo.multiply %0, %24 : tensor<2x5x3x2x4xf32>
  %26 = stablehlo.broadcast_in_dim %23, dims = [0, 1, 2, 3, 4] : (tensor<2x1x1x2x4xf32>) -> tensor<2x5x3x2x4xf32>
  %27 = stablehlo.add %25, %26 : tensor<2x5x3x2x4xf32>
  %28 = stablehlo.reshape %27 : (tensor<2x5x3x2x4xf32>) -> tensor<2x5x3x8xf32>
  return %28 : tensor<2x5x3x8xf32>
}

func.func public @any_groupnorm_alone(%x: tensor<2x5x3x8xf32>) -> tensor<2x5x3x8xf32> {
  %zero = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %0 = stablehlo.reshape %x : (tensor<2x5x3x8xf32>) -> tensor<2x5x3x2x4xf32>
  %1 = stablehlo.constant dense<6.000000e+01> : tensor<2x1x1x2x1xf32>
  %2 = stablehlo.reduce(%0 init: %zero) applies stablehlo.add across dimensions = [1, 2, 4] : (tensor<2x5x3x2x4xf32>, tensor<f32>) -> tensor<2x2xf32>
  %3 = stablehlo.broadcast_in_dim %2, dims = [0, 3] : (tensor<2x2xf32>) -> tensor<2x1x1x2x1xf32>
  %4 = stablehlo.divide %3, %1 : tensor<2x1x1x2x1xf32>
  %5 = stablehlo.broadcast_in_dim %4, dims = [0, 1, 2, 3, 4] : (tensor<2x1x1x2x1xf32>) -> tensor<2x5x3x2x4xf32>
  %6 = stablehlo.subtract %0, %5 : tensor<2x5x3x2x4xf32>
  %7 = stablehlo.multiply %6, %6 : tensor<2x5x3x2x4xf32>
  %8 = stablehlo.reduce(%7 init: %zero) applies stablehlo.add across dimensions = [1, 2, 4] : (tensor<2x5x3x2x4xf32>, tensor<f32>) -> tensor<2x2xf32>
  %9 = stablehlo.broadcast_in_dim %8, dims = [0, 3] : (tensor<2x2xf32>) -> tensor<2x1x1x2x1xf32>
  %10 = stablehlo.divide %9, %1 : tensor<2x1x1x2x1xf32>
  %11 = stablehlo.constant dense<1.000000e-03> : tensor<2x1x1x2x1xf32>
  %12 = stablehlo.add %10, %11 : tensor<2x1x1x2x1xf32>
  %13 = stablehlo.rsqrt %12 : tensor<2x1x1x2x1xf32>
  %14 = stablehlo.broadcast_in_dim %13, dims = [0, 1, 2, 3, 4] : (tensor<2x1x1x2x1xf32>) -> tensor<2x5x3x2x4xf32>
  %15 = stablehlo.multiply %6, %14 : tensor<2x5x3x2x4xf32>
  %16 = stablehlo.reshape %15 : (tensor<2x5x3x2x4xf32>) -> tensor<2x5x3x8xf32>
  return %16 : tensor<2x5x3x8xf32>
}
