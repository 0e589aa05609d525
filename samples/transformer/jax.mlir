module @jit_transformer_block attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<1x128x256xf32>, %arg1: tensor<256xf32>, %arg2: tensor<256xf32>, %arg3: tensor<256x768xf32>, %arg4: tensor<768xf32>, %arg5: tensor<256x256xf32>, %arg6: tensor<256xf32>, %arg7: tensor<256xf32>, %arg8: tensor<256xf32>, %arg9: tensor<256x1024xf32>, %arg10: tensor<1024xf32>, %arg11: tensor<1024x256xf32>, %arg12: tensor<256xf32>) -> (tensor<1x128x256xf32> {jax.result_info = "result"}) {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.reduce(%arg0 init: %cst) applies stablehlo.add across dimensions = [2] : (tensor<1x128x256xf32>, tensor<f32>) -> tensor<1x128xf32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [0, 1] : (tensor<1x128xf32>) -> tensor<1x128x1xf32>
    %cst_0 = stablehlo.constant dense<2.560000e+02> : tensor<f32>
    %2 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<1x128x1xf32>
    %3 = stablehlo.divide %1, %2 : tensor<1x128x1xf32>
    %4 = stablehlo.broadcast_in_dim %3, dims = [0, 1, 2] : (tensor<1x128x1xf32>) -> tensor<1x128x256xf32>
    %5 = stablehlo.subtract %arg0, %4 : tensor<1x128x256xf32>
    %6 = chlo.square %5 : tensor<1x128x256xf32> -> tensor<1x128x256xf32>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %7 = stablehlo.reduce(%6 init: %cst_1) applies stablehlo.add across dimensions = [2] : (tensor<1x128x256xf32>, tensor<f32>) -> tensor<1x128xf32>
    %8 = stablehlo.broadcast_in_dim %7, dims = [0, 1] : (tensor<1x128xf32>) -> tensor<1x128x1xf32>
    %cst_2 = stablehlo.constant dense<2.560000e+02> : tensor<f32>
    %9 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<1x128x1xf32>
    %10 = stablehlo.divide %8, %9 : tensor<1x128x1xf32>
    %cst_3 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %11 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<1x128x1xf32>
    %12 = stablehlo.add %10, %11 : tensor<1x128x1xf32>
    %13 = stablehlo.rsqrt %12 : tensor<1x128x1xf32>
    %14 = stablehlo.broadcast_in_dim %13, dims = [0, 1, 2] : (tensor<1x128x1xf32>) -> tensor<1x128x256xf32>
    %15 = stablehlo.multiply %5, %14 : tensor<1x128x256xf32>
    %16 = stablehlo.broadcast_in_dim %arg1, dims = [2] : (tensor<256xf32>) -> tensor<1x1x256xf32>
    %17 = stablehlo.broadcast_in_dim %16, dims = [0, 1, 2] : (tensor<1x1x256xf32>) -> tensor<1x128x256xf32>
    %18 = stablehlo.multiply %15, %17 : tensor<1x128x256xf32>
    %19 = stablehlo.broadcast_in_dim %arg2, dims = [2] : (tensor<256xf32>) -> tensor<1x1x256xf32>
    %20 = stablehlo.broadcast_in_dim %19, dims = [0, 1, 2] : (tensor<1x1x256xf32>) -> tensor<1x128x256xf32>
    %21 = stablehlo.add %18, %20 : tensor<1x128x256xf32>
    %22 = stablehlo.dot_general %21, %arg3, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1x128x256xf32>, tensor<256x768xf32>) -> tensor<1x128x768xf32>
    %23 = stablehlo.broadcast_in_dim %arg4, dims = [2] : (tensor<768xf32>) -> tensor<1x1x768xf32>
    %24 = stablehlo.broadcast_in_dim %23, dims = [0, 1, 2] : (tensor<1x1x768xf32>) -> tensor<1x128x768xf32>
    %25 = stablehlo.add %22, %24 : tensor<1x128x768xf32>
    %26 = stablehlo.reshape %25 : (tensor<1x128x768xf32>) -> tensor<1x128x3x4x64xf32>
    %27 = stablehlo.transpose %26, dims = [2, 0, 3, 1, 4] : (tensor<1x128x3x4x64xf32>) -> tensor<3x1x4x128x64xf32>
    %28 = stablehlo.slice %27 [0:1, 0:1, 0:4, 0:128, 0:64] : (tensor<3x1x4x128x64xf32>) -> tensor<1x1x4x128x64xf32>
    %29 = stablehlo.reshape %28 : (tensor<1x1x4x128x64xf32>) -> tensor<1x4x128x64xf32>
    %30 = stablehlo.slice %27 [1:2, 0:1, 0:4, 0:128, 0:64] : (tensor<3x1x4x128x64xf32>) -> tensor<1x1x4x128x64xf32>
    %31 = stablehlo.reshape %30 : (tensor<1x1x4x128x64xf32>) -> tensor<1x4x128x64xf32>
    %32 = stablehlo.slice %27 [2:3, 0:1, 0:4, 0:128, 0:64] : (tensor<3x1x4x128x64xf32>) -> tensor<1x1x4x128x64xf32>
    %33 = stablehlo.reshape %32 : (tensor<1x1x4x128x64xf32>) -> tensor<1x4x128x64xf32>
    %34 = stablehlo.transpose %31, dims = [0, 1, 3, 2] : (tensor<1x4x128x64xf32>) -> tensor<1x4x64x128xf32>
    %35 = stablehlo.reshape %29 : (tensor<1x4x128x64xf32>) -> tensor<4x128x64xf32>
    %36 = stablehlo.reshape %34 : (tensor<1x4x64x128xf32>) -> tensor<4x64x128xf32>
    %37 = stablehlo.dot_general %35, %36, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<4x128x64xf32>, tensor<4x64x128xf32>) -> tensor<4x128x128xf32>
    %38 = stablehlo.broadcast_in_dim %37, dims = [1, 2, 3] : (tensor<4x128x128xf32>) -> tensor<1x4x128x128xf32>
    %cst_4 = stablehlo.constant dense<8.000000e+00> : tensor<f32>
    %39 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<1x4x128x128xf32>
    %40 = stablehlo.divide %38, %39 : tensor<1x4x128x128xf32>
    %cst_5 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %41 = stablehlo.reduce(%40 init: %cst_5) applies stablehlo.maximum across dimensions = [3] : (tensor<1x4x128x128xf32>, tensor<f32>) -> tensor<1x4x128xf32>
    %cst_6 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %42 = stablehlo.broadcast_in_dim %cst_6, dims = [] : (tensor<f32>) -> tensor<1x4x128xf32>
    %43 = stablehlo.maximum %42, %41 : tensor<1x4x128xf32>
    %44 = stablehlo.broadcast_in_dim %43, dims = [0, 1, 2] : (tensor<1x4x128xf32>) -> tensor<1x4x128x1xf32>
    %45 = stablehlo.broadcast_in_dim %44, dims = [0, 1, 2, 3] : (tensor<1x4x128x1xf32>) -> tensor<1x4x128x128xf32>
    %46 = stablehlo.subtract %40, %45 : tensor<1x4x128x128xf32>
    %47 = stablehlo.exponential %46 : tensor<1x4x128x128xf32>
    %cst_7 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %48 = stablehlo.reduce(%47 init: %cst_7) applies stablehlo.add across dimensions = [3] : (tensor<1x4x128x128xf32>, tensor<f32>) -> tensor<1x4x128xf32>
    %49 = stablehlo.broadcast_in_dim %48, dims = [0, 1, 2] : (tensor<1x4x128xf32>) -> tensor<1x4x128x1xf32>
    %50 = stablehlo.broadcast_in_dim %49, dims = [0, 1, 2, 3] : (tensor<1x4x128x1xf32>) -> tensor<1x4x128x128xf32>
    %51 = stablehlo.divide %47, %50 : tensor<1x4x128x128xf32>
    %52 = stablehlo.reshape %51 : (tensor<1x4x128x128xf32>) -> tensor<4x128x128xf32>
    %53 = stablehlo.reshape %33 : (tensor<1x4x128x64xf32>) -> tensor<4x128x64xf32>
    %54 = stablehlo.dot_general %52, %53, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<4x128x128xf32>, tensor<4x128x64xf32>) -> tensor<4x128x64xf32>
    %55 = stablehlo.broadcast_in_dim %54, dims = [1, 2, 3] : (tensor<4x128x64xf32>) -> tensor<1x4x128x64xf32>
    %56 = stablehlo.transpose %55, dims = [0, 2, 1, 3] : (tensor<1x4x128x64xf32>) -> tensor<1x128x4x64xf32>
    %57 = stablehlo.reshape %56 : (tensor<1x128x4x64xf32>) -> tensor<1x128x256xf32>
    %58 = stablehlo.dot_general %57, %arg5, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1x128x256xf32>, tensor<256x256xf32>) -> tensor<1x128x256xf32>
    %59 = stablehlo.broadcast_in_dim %arg6, dims = [2] : (tensor<256xf32>) -> tensor<1x1x256xf32>
    %60 = stablehlo.broadcast_in_dim %59, dims = [0, 1, 2] : (tensor<1x1x256xf32>) -> tensor<1x128x256xf32>
    %61 = stablehlo.add %58, %60 : tensor<1x128x256xf32>
    %62 = stablehlo.add %arg0, %61 : tensor<1x128x256xf32>
    %cst_8 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %63 = stablehlo.reduce(%62 init: %cst_8) applies stablehlo.add across dimensions = [2] : (tensor<1x128x256xf32>, tensor<f32>) -> tensor<1x128xf32>
    %64 = stablehlo.broadcast_in_dim %63, dims = [0, 1] : (tensor<1x128xf32>) -> tensor<1x128x1xf32>
    %cst_9 = stablehlo.constant dense<2.560000e+02> : tensor<f32>
    %65 = stablehlo.broadcast_in_dim %cst_9, dims = [] : (tensor<f32>) -> tensor<1x128x1xf32>
    %66 = stablehlo.divide %64, %65 : tensor<1x128x1xf32>
    %67 = stablehlo.broadcast_in_dim %66, dims = [0, 1, 2] : (tensor<1x128x1xf32>) -> tensor<1x128x256xf32>
    %68 = stablehlo.subtract %62, %67 : tensor<1x128x256xf32>
    %69 = chlo.square %68 : tensor<1x128x256xf32> -> tensor<1x128x256xf32>
    %cst_10 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %70 = stablehlo.reduce(%69 init: %cst_10) applies stablehlo.add across dimensions = [2] : (tensor<1x128x256xf32>, tensor<f32>) -> tensor<1x128xf32>
    %71 = stablehlo.broadcast_in_dim %70, dims = [0, 1] : (tensor<1x128xf32>) -> tensor<1x128x1xf32>
    %cst_11 = stablehlo.constant dense<2.560000e+02> : tensor<f32>
    %72 = stablehlo.broadcast_in_dim %cst_11, dims = [] : (tensor<f32>) -> tensor<1x128x1xf32>
    %73 = stablehlo.divide %71, %72 : tensor<1x128x1xf32>
    %cst_12 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %74 = stablehlo.broadcast_in_dim %cst_12, dims = [] : (tensor<f32>) -> tensor<1x128x1xf32>
    %75 = stablehlo.add %73, %74 : tensor<1x128x1xf32>
    %76 = stablehlo.rsqrt %75 : tensor<1x128x1xf32>
    %77 = stablehlo.broadcast_in_dim %76, dims = [0, 1, 2] : (tensor<1x128x1xf32>) -> tensor<1x128x256xf32>
    %78 = stablehlo.multiply %68, %77 : tensor<1x128x256xf32>
    %79 = stablehlo.broadcast_in_dim %arg7, dims = [2] : (tensor<256xf32>) -> tensor<1x1x256xf32>
    %80 = stablehlo.broadcast_in_dim %79, dims = [0, 1, 2] : (tensor<1x1x256xf32>) -> tensor<1x128x256xf32>
    %81 = stablehlo.multiply %78, %80 : tensor<1x128x256xf32>
    %82 = stablehlo.broadcast_in_dim %arg8, dims = [2] : (tensor<256xf32>) -> tensor<1x1x256xf32>
    %83 = stablehlo.broadcast_in_dim %82, dims = [0, 1, 2] : (tensor<1x1x256xf32>) -> tensor<1x128x256xf32>
    %84 = stablehlo.add %81, %83 : tensor<1x128x256xf32>
    %85 = stablehlo.dot_general %84, %arg9, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1x128x256xf32>, tensor<256x1024xf32>) -> tensor<1x128x1024xf32>
    %86 = stablehlo.broadcast_in_dim %arg10, dims = [2] : (tensor<1024xf32>) -> tensor<1x1x1024xf32>
    %87 = stablehlo.broadcast_in_dim %86, dims = [0, 1, 2] : (tensor<1x1x1024xf32>) -> tensor<1x128x1024xf32>
    %88 = stablehlo.add %85, %87 : tensor<1x128x1024xf32>
    %89 = stablehlo.multiply %88, %88 : tensor<1x128x1024xf32>
    %90 = stablehlo.multiply %89, %88 : tensor<1x128x1024xf32>
    %cst_13 = stablehlo.constant dense<4.471500e-02> : tensor<f32>
    %91 = stablehlo.broadcast_in_dim %cst_13, dims = [] : (tensor<f32>) -> tensor<1x128x1024xf32>
    %92 = stablehlo.multiply %91, %90 : tensor<1x128x1024xf32>
    %93 = stablehlo.add %88, %92 : tensor<1x128x1024xf32>
    %cst_14 = stablehlo.constant dense<0.797884583> : tensor<f32>
    %94 = stablehlo.broadcast_in_dim %cst_14, dims = [] : (tensor<f32>) -> tensor<1x128x1024xf32>
    %95 = stablehlo.multiply %94, %93 : tensor<1x128x1024xf32>
    %96 = stablehlo.tanh %95 : tensor<1x128x1024xf32>
    %cst_15 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %97 = stablehlo.broadcast_in_dim %cst_15, dims = [] : (tensor<f32>) -> tensor<1x128x1024xf32>
    %98 = stablehlo.add %97, %96 : tensor<1x128x1024xf32>
    %cst_16 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
    %99 = stablehlo.broadcast_in_dim %cst_16, dims = [] : (tensor<f32>) -> tensor<1x128x1024xf32>
    %100 = stablehlo.multiply %99, %98 : tensor<1x128x1024xf32>
    %101 = stablehlo.multiply %88, %100 : tensor<1x128x1024xf32>
    %102 = stablehlo.dot_general %101, %arg11, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1x128x1024xf32>, tensor<1024x256xf32>) -> tensor<1x128x256xf32>
    %103 = stablehlo.broadcast_in_dim %arg12, dims = [2] : (tensor<256xf32>) -> tensor<1x1x256xf32>
    %104 = stablehlo.broadcast_in_dim %103, dims = [0, 1, 2] : (tensor<1x1x256xf32>) -> tensor<1x128x256xf32>
    %105 = stablehlo.add %102, %104 : tensor<1x128x256xf32>
    %106 = stablehlo.add %62, %105 : tensor<1x128x256xf32>
    return %106 : tensor<1x128x256xf32>
  }
}
