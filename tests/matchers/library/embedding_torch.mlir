func.func @embedding_torch(%w: !torch.vtensor<[50,12],f32>, %ids: !torch.vtensor<[3,7],si64>) -> !torch.vtensor<[3,7,12],f32> {
  %none = torch.constant.int -1
  %false = torch.constant.bool false
  %0 = torch.aten.embedding %w, %ids, %none, %false, %false : !torch.vtensor<[50,12],f32>, !torch.vtensor<[3,7],si64>, !torch.int, !torch.bool, !torch.bool -> !torch.vtensor<[3,7,12],f32>
  return %0 : !torch.vtensor<[3,7,12],f32>
}
