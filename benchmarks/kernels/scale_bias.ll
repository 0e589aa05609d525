declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.y()

define ptx_kernel void @scale_bias(ptr %x, ptr %bias, ptr %out, float %gain, i32 %m, i32 %n) {
  %thread = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %block = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %row = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.y()
  %first = shl i32 %block, 6
  %column = add i32 %first, %thread
  %inside = icmp ult i32 %column, %n
  br i1 %inside, label %do, label %done
do:
  %start = mul i32 %row, %n
  %at = add i32 %start, %column
  %wide = zext i32 %at to i64
  %wide_column = zext i32 %column to i64
  %from = getelementptr float, ptr %x, i64 %wide
  %value = load float, ptr %from
  %bias_from = getelementptr float, ptr %bias, i64 %wide_column
  %shift = load float, ptr %bias_from
  %scaled = fmul float %value, %gain
  %sum = fadd float %scaled, %shift
  %to = getelementptr float, ptr %out, i64 %wide
  store float %sum, ptr %to
  br label %done
done:
  ret void
}
