; x / (1 + exp(-1.702 x)). The exponential is that of ROCm's device library, which IREE links.
declare float @__ocml_exp_f32(float)

define float @quick_gelu(float %x) {
  %scaled = fmul float %x, 0xBFFB3B6460000000
  %exp = call float @__ocml_exp_f32(float %scaled)
  %sum = fadd float %exp, 1.0
  %result = fdiv float %x, %sum
  ret float %result
}
