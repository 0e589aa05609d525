func.func @linear_kn(%arg0: !torch.vtensor<[8,32],bf16>, %arg1: !torch.vtensor<[32,16],bf16>) -> !torch.vtensor<[8,16],bf16> {
  %0 = torch.aten.matmul %arg0, %arg1 : !torch.vtensor<[8,32],bf16>, !torch.vtensor<[32,16],bf16> -> !torch.vtensor<[8,16],bf16>
  return %0 : !torch.vtensor<[8,16],bf16>
}

func.func @linear_nk_bias(%arg0: !torch.vtensor<[8,32],bf16>, %arg1: !torch.vtensor<[16,32],bf16>, %arg2: !torch.vtensor<[16],bf16>) -> !torch.vtensor<[8,16],bf16> {
  %0 = torch.aten.linear %arg0, %arg1, %arg2 : !torch.vtensor<[8,32],bf16>, !torch.vtensor<[16,32],bf16>, !torch.vtensor<[16],bf16> -> !torch.vtensor<[8,16],bf16>
  return %0 : !torch.vtensor<[8,16],bf16>
}

func.func @linear_nk_bias_relu(%arg0: !torch.vtensor<[8,32],bf16>, %arg1: !torch.vtensor<[16,32],bf16>, %arg2: !torch.vtensor<[16],bf16>) -> !torch.vtensor<[8,16],bf16> {
  %0 = torch.aten.linear %arg0, %arg1, %arg2 : !torch.vtensor<[8,32],bf16>, !torch.vtensor<[16,32],bf16>, !torch.vtensor<[16],bf16> -> !torch.vtensor<[8,16],bf16>
  %1 = torch.aten.relu %0 : !torch.vtensor<[8,16],bf16> -> !torch.vtensor<[8,16],bf16>
  return %1 : !torch.vtensor<[8,16],bf16>
}

func.func @conv2d_nchw_fchw_bias(%arg0: !torch.vtensor<[1,3,8,8],bf16>, %arg1: !torch.vtensor<[4,3,3,3],bf16>, %arg2: !torch.vtensor<[4],bf16>) -> !torch.vtensor<[1,4,6,6],bf16> {
  %int1 = torch.constant.int 1
  %int1_0 = torch.constant.int 1
  %0 = torch.prim.ListConstruct %int1, %int1_0 : (!torch.int, !torch.int) -> !torch.list<int>
  %int0 = torch.constant.int 0
  %int0_1 = torch.constant.int 0
  %1 = torch.prim.ListConstruct %int0, %int0_1 : (!torch.int, !torch.int) -> !torch.list<int>
  %int1_2 = torch.constant.int 1
  %int1_3 = torch.constant.int 1
  %2 = torch.prim.ListConstruct %int1_2, %int1_3 : (!torch.int, !torch.int) -> !torch.list<int>
  %int1_4 = torch.constant.int 1
  %3 = torch.aten.conv2d %arg0, %arg1, %arg2, %0, %1, %2, %int1_4 : !torch.vtensor<[1,3,8,8],bf16>, !torch.vtensor<[4,3,3,3],bf16>, !torch.vtensor<[4],bf16>, !torch.list<int>, !torch.list<int>, !torch.list<int>, !torch.int -> !torch.vtensor<[1,4,6,6],bf16>
  return %3 : !torch.vtensor<[1,4,6,6],bf16>
}

func.func @attention(%arg0: !torch.vtensor<[2,4,6,8],bf16>, %arg1: !torch.vtensor<[2,4,6,8],bf16>, %arg2: !torch.vtensor<[2,4,6,8],bf16>) -> !torch.vtensor<[2,4,6,8],bf16> {
  %none = torch.constant.none
  %float0.000000e00 = torch.constant.float 0.000000e+00
  %false = torch.constant.bool false
  %none_0 = torch.constant.none
  %false_1 = torch.constant.bool false
  %0 = torch.aten.scaled_dot_product_attention %arg0, %arg1, %arg2, %none, %float0.000000e00, %false, %none_0, %false_1 : !torch.vtensor<[2,4,6,8],bf16>, !torch.vtensor<[2,4,6,8],bf16>, !torch.vtensor<[2,4,6,8],bf16>, !torch.none, !torch.float, !torch.bool, !torch.none, !torch.bool -> !torch.vtensor<[2,4,6,8],bf16>
  return %0 : !torch.vtensor<[2,4,6,8],bf16>
}

func.func @layernorm(%arg0: !torch.vtensor<[8,32],bf16>, %arg1: !torch.vtensor<[32],bf16>, %arg2: !torch.vtensor<[32],bf16>) -> !torch.vtensor<[8,32],bf16> {
  %int32 = torch.constant.int 32
  %0 = torch.prim.ListConstruct %int32 : (!torch.int) -> !torch.list<int>
  %float1.000000e-05 = torch.constant.float 1.000000e-05
  %false = torch.constant.bool false
  %1 = torch.aten.layer_norm %arg0, %0, %arg1, %arg2, %float1.000000e-05, %false : !torch.vtensor<[8,32],bf16>, !torch.list<int>, !torch.vtensor<[32],bf16>, !torch.vtensor<[32],bf16>, !torch.float, !torch.bool -> !torch.vtensor<[8,32],bf16>
  return %1 : !torch.vtensor<[8,32],bf16>
}

func.func @rmsnorm(%arg0: !torch.vtensor<[8,32],bf16>, %arg1: !torch.vtensor<[32],bf16>) -> !torch.vtensor<[8,32],bf16> {
  %int32 = torch.constant.int 32
  %0 = torch.prim.ListConstruct %int32 : (!torch.int) -> !torch.list<int>
  %eps = torch.constant.float 1.000000e-05
  %1 = torch.aten.rms_norm %arg0, %0, %arg1, %eps : !torch.vtensor<[8,32],bf16>, !torch.list<int>, !torch.vtensor<[32],bf16>, !torch.float -> !torch.vtensor<[8,32],bf16>
  return %1 : !torch.vtensor<[8,32],bf16>
}

func.func @softmax(%arg0: !torch.vtensor<[8,32],bf16>) -> !torch.vtensor<[8,32],bf16> {
  %int-1 = torch.constant.int -1
  %none = torch.constant.none
  %0 = torch.aten.softmax.int %arg0, %int-1, %none : !torch.vtensor<[8,32],bf16>, !torch.int, !torch.none -> !torch.vtensor<[8,32],bf16>
  return %0 : !torch.vtensor<[8,32],bf16>
}

func.func @gelu(%arg0: !torch.vtensor<[8,32],bf16>) -> !torch.vtensor<[8,32],bf16> {
  %str = torch.constant.str "none"
  %0 = torch.aten.gelu %arg0, %str : !torch.vtensor<[8,32],bf16>, !torch.str -> !torch.vtensor<[8,32],bf16>
  return %0 : !torch.vtensor<[8,32],bf16>
}

func.func @gelu_tanh(%arg0: !torch.vtensor<[8,32],bf16>) -> !torch.vtensor<[8,32],bf16> {
  %str = torch.constant.str "tanh"
  %0 = torch.aten.gelu %arg0, %str : !torch.vtensor<[8,32],bf16>, !torch.str -> !torch.vtensor<[8,32],bf16>
  return %0 : !torch.vtensor<[8,32],bf16>
}

func.func @silu(%arg0: !torch.vtensor<[8,32],bf16>) -> !torch.vtensor<[8,32],bf16> {
  %0 = torch.aten.silu %arg0 : !torch.vtensor<[8,32],bf16> -> !torch.vtensor<[8,32],bf16>
  return %0 : !torch.vtensor<[8,32],bf16>
}

func.func @batchnorm_nchw(%arg0: !torch.vtensor<[1,3,8,8],bf16>, %arg1: !torch.vtensor<[3],bf16>, %arg2: !torch.vtensor<[3],bf16>, %arg3: !torch.vtensor<[3],bf16>, %arg4: !torch.vtensor<[3],bf16>) -> !torch.vtensor<[1,3,8,8],bf16> {
  %false = torch.constant.bool false
  %float1.000000e-01 = torch.constant.float 1.000000e-01
  %float1.000000e-05 = torch.constant.float 1.000000e-05
  %false_0 = torch.constant.bool false
  %0 = torch.aten.batch_norm %arg0, %arg3, %arg4, %arg1, %arg2, %false, %float1.000000e-01, %float1.000000e-05, %false_0 : !torch.vtensor<[1,3,8,8],bf16>, !torch.vtensor<[3],bf16>, !torch.vtensor<[3],bf16>, !torch.vtensor<[3],bf16>, !torch.vtensor<[3],bf16>, !torch.bool, !torch.float, !torch.float, !torch.bool -> !torch.vtensor<[1,3,8,8],bf16>
  return %0 : !torch.vtensor<[1,3,8,8],bf16>
}

// The scale is applied in f32, and the cap in halves.
func.func @attention_capped(%arg0: !torch.vtensor<[2,4,6,8],bf16>, %arg1: !torch.vtensor<[2,4,6,8],bf16>, %arg2: !torch.vtensor<[2,4,6,8],bf16>) -> !torch.vtensor<[2,4,6,8],bf16> {
  %none = torch.constant.none
  %int-1 = torch.constant.int -1
  %int-2 = torch.constant.int -2
  %scale = torch.constant.float 2.8284271247461903
  %cap = torch.constant.int 5
  %0 = torch.aten.transpose.int %arg1, %int-1, %int-2 : !torch.vtensor<[2,4,6,8],bf16>, !torch.int, !torch.int -> !torch.vtensor<[2,4,8,6],bf16>
  %1 = torch.aten.matmul %arg0, %0 : !torch.vtensor<[2,4,6,8],bf16>, !torch.vtensor<[2,4,8,6],bf16> -> !torch.vtensor<[2,4,6,6],bf16>
  %wide = torch.constant.int 6
  %half = torch.constant.int 15
  %w = torch.prims.convert_element_type %1, %wide : !torch.vtensor<[2,4,6,6],bf16>, !torch.int -> !torch.vtensor<[2,4,6,6],f32>
  %s = torch.aten.div.Scalar %w, %scale : !torch.vtensor<[2,4,6,6],f32>, !torch.float -> !torch.vtensor<[2,4,6,6],f32>
  %2 = torch.prims.convert_element_type %s, %half : !torch.vtensor<[2,4,6,6],f32>, !torch.int -> !torch.vtensor<[2,4,6,6],bf16>
  %3 = torch.aten.div.Scalar %2, %cap : !torch.vtensor<[2,4,6,6],bf16>, !torch.int -> !torch.vtensor<[2,4,6,6],bf16>
  %4 = torch.aten.tanh %3 : !torch.vtensor<[2,4,6,6],bf16> -> !torch.vtensor<[2,4,6,6],bf16>
  %5 = torch.aten.mul.Scalar %4, %cap : !torch.vtensor<[2,4,6,6],bf16>, !torch.int -> !torch.vtensor<[2,4,6,6],bf16>
  %false = torch.constant.bool false
  %6 = torch.aten._softmax %5, %int-1, %false : !torch.vtensor<[2,4,6,6],bf16>, !torch.int, !torch.bool -> !torch.vtensor<[2,4,6,6],bf16>
  %7 = torch.aten.matmul %6, %arg2 : !torch.vtensor<[2,4,6,6],bf16>, !torch.vtensor<[2,4,6,8],bf16> -> !torch.vtensor<[2,4,6,8],bf16>
  return %7 : !torch.vtensor<[2,4,6,8],bf16>
}
