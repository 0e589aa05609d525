// exp(x - max(x)) for each row: the first half of a softmax.
func.func @main(%x: tensor<?x?xf32>) -> tensor<?x?xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %m = tensor.dim %x, %c0 : tensor<?x?xf32>
  %n = tensor.dim %x, %c1 : tensor<?x?xf32>
  %least = arith.constant 0xFF800000 : f32
  %row = tensor.empty(%m) : tensor<?xf32>
  %start = linalg.fill ins(%least : f32) outs(%row : tensor<?xf32>) -> tensor<?xf32>
  %max = linalg.reduce {arith.maximumf} ins(%x : tensor<?x?xf32>) outs(%start : tensor<?xf32>) dimensions = [1]
  %empty = tensor.empty(%m, %n) : tensor<?x?xf32>
  %each = linalg.broadcast ins(%max : tensor<?xf32>) outs(%empty : tensor<?x?xf32>) dimensions = [1]
  %shifted = arith.subf %x, %each : tensor<?x?xf32>
  %result = math.exp %shifted : tensor<?x?xf32>
  return %result : tensor<?x?xf32>
}
