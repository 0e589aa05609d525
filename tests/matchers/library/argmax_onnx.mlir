func.func @argmax_onnx(%x: !torch.vtensor<[4,32],f32>) -> !torch.vtensor<[4],si64> attributes {torch.onnx_meta.ir_version = 7 : si64, torch.onnx_meta.opset_version = 13 : si64} {
  %r = torch.operator "onnx.ArgMax"(%x) {torch.onnx.axis = 1 : si64, torch.onnx.keepdims = 0 : si64} : (!torch.vtensor<[4,32],f32>) -> !torch.vtensor<[4],si64>
  return %r : !torch.vtensor<[4],si64>
}
