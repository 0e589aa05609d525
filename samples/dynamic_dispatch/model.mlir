// 3 x + y, then 5 times that + x: two factors, one kernel.

func.func @main(%x: tensor<?xf32>, %y: tensor<?xf32>) -> tensor<?xf32> {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?xf32>
  %empty = tensor.empty(%n) : tensor<?xf32>
  %three = arith.constant 3.0 : f32
  %threes = linalg.fill ins(%three : f32) outs(%empty : tensor<?xf32>) -> tensor<?xf32>
  %0 = arith.mulf %x, %threes : tensor<?xf32>
  %1 = arith.addf %0, %y : tensor<?xf32>
  %five = arith.constant 5.0 : f32
  %fives = linalg.fill ins(%five : f32) outs(%empty : tensor<?xf32>) -> tensor<?xf32>
  %2 = arith.mulf %1, %fives : tensor<?xf32>
  %3 = arith.addf %2, %x : tensor<?xf32>
  return %3 : tensor<?xf32>
}
