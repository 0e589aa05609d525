// x / (1 + exp(-1.702 x)), for Vulkan and Metal.
spirv.func @quick_gelu(%x: f32) -> f32 "None" {
  %one = spirv.Constant 1.0 : f32
  %factor = spirv.Constant -1.702 : f32
  %scaled = spirv.FMul %x, %factor : f32
  %exp = spirv.GL.Exp %scaled : f32
  %sum = spirv.FAdd %exp, %one : f32
  %result = spirv.FDiv %x, %sum : f32
  spirv.ReturnValue %result : f32
}
