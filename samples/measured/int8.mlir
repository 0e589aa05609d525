module {
  func.func @main(%arg0: !torch.vtensor<[64,256],f32>, %arg1: !torch.vtensor<[256,1024],si8>, %arg2: !torch.vtensor<[1],f32>, %arg3: !torch.vtensor<[1024],f32>, %arg4: !torch.vtensor<[1024,256],si8>, %arg5: !torch.vtensor<[1],f32>, %arg6: !torch.vtensor<[256],f32>) -> !torch.vtensor<[64,256],f32> attributes {torch.onnx_meta.ir_version = 10 : si64, torch.onnx_meta.opset_version = 20 : si64, torch.onnx_meta.producer_name = "", torch.onnx_meta.producer_version = ""} {
    %none = torch.constant.none
    %0:3 = torch.operator "onnx.DynamicQuantizeLinear"(%arg0) : (!torch.vtensor<[64,256],f32>) -> (!torch.vtensor<[64,256],ui8>, !torch.vtensor<[],f32>, !torch.vtensor<[],ui8>) 
    %1 = torch.operator "onnx.MatMulInteger"(%0#0, %arg1, %0#2) : (!torch.vtensor<[64,256],ui8>, !torch.vtensor<[256,1024],si8>, !torch.vtensor<[],ui8>) -> !torch.vtensor<[64,1024],si32> 
    %2 = torch.operator "onnx.Cast"(%1) {torch.onnx.to = 1 : si64} : (!torch.vtensor<[64,1024],si32>) -> !torch.vtensor<[64,1024],f32> 
    %3 = torch.operator "onnx.Mul"(%0#1, %arg2) : (!torch.vtensor<[],f32>, !torch.vtensor<[1],f32>) -> !torch.vtensor<[1],f32> 
    %4 = torch.operator "onnx.Mul"(%2, %3) : (!torch.vtensor<[64,1024],f32>, !torch.vtensor<[1],f32>) -> !torch.vtensor<[64,1024],f32> 
    %5 = torch.operator "onnx.Add"(%4, %arg3) : (!torch.vtensor<[64,1024],f32>, !torch.vtensor<[1024],f32>) -> !torch.vtensor<[64,1024],f32> 
    %6 = torch.operator "onnx.Relu"(%5) : (!torch.vtensor<[64,1024],f32>) -> !torch.vtensor<[64,1024],f32> 
    %7:3 = torch.operator "onnx.DynamicQuantizeLinear"(%6) : (!torch.vtensor<[64,1024],f32>) -> (!torch.vtensor<[64,1024],ui8>, !torch.vtensor<[],f32>, !torch.vtensor<[],ui8>) 
    %8 = torch.operator "onnx.MatMulInteger"(%7#0, %arg4, %7#2) : (!torch.vtensor<[64,1024],ui8>, !torch.vtensor<[1024,256],si8>, !torch.vtensor<[],ui8>) -> !torch.vtensor<[64,256],si32> 
    %9 = torch.operator "onnx.Cast"(%8) {torch.onnx.to = 1 : si64} : (!torch.vtensor<[64,256],si32>) -> !torch.vtensor<[64,256],f32> 
    %10 = torch.operator "onnx.Mul"(%7#1, %arg5) : (!torch.vtensor<[],f32>, !torch.vtensor<[1],f32>) -> !torch.vtensor<[1],f32> 
    %11 = torch.operator "onnx.Mul"(%9, %10) : (!torch.vtensor<[64,256],f32>, !torch.vtensor<[1],f32>) -> !torch.vtensor<[64,256],f32> 
    %12 = torch.operator "onnx.Add"(%11, %arg6) : (!torch.vtensor<[64,256],f32>, !torch.vtensor<[256],f32>) -> !torch.vtensor<[64,256],f32> 
    return %12 : !torch.vtensor<[64,256],f32>
  }
}
