; x / (1 + exp(-1.702 x)). The exponential is that of libdevice, which IREE links.
declare float @__nv_expf(float)

define float @quick_gelu(float %x) {
  %scaled = fmul float %x, 0xBFFB3B6460000000
  %exp = call float @__nv_expf(float %scaled)
  %sum = fadd float %exp, 1.0
  %result = fdiv float %x, %sum
  ret float %result
}
