func.func @argmax_torch(%x: !torch.vtensor<[4,32],f32>) -> !torch.vtensor<[4],si64> {
  %d = torch.constant.int -1
  %false = torch.constant.bool false
  %r = torch.aten.argmax %x, %d, %false : !torch.vtensor<[4,32],f32>, !torch.int, !torch.bool -> !torch.vtensor<[4],si64>
  return %r : !torch.vtensor<[4],si64>
}
