func.func @attention_explicit(%q: tensor<4x16x8xf32>, %k: tensor<4x16x8xf32>, %v: tensor<4x16x8xf32>) -> tensor<4x16x8xf32> {
  %zero = arith.constant 0.0 : f32
  %s_e = tensor.empty() : tensor<4x16x16xf32>
  %s_z = linalg.fill ins(%zero : f32) outs(%s_e : tensor<4x16x16xf32>) -> tensor<4x16x16xf32>
  %s = linalg.generic {indexing_maps = [affine_map<(b, i, j, d) -> (b, i, d)>, affine_map<(b, i, j, d) -> (b, j, d)>, affine_map<(b, i, j, d) -> (b, i, j)>],
    iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%q, %k : tensor<4x16x8xf32>, tensor<4x16x8xf32>) outs(%s_z : tensor<4x16x16xf32>) {
  ^bb0(%x: f32, %y: f32, %acc: f32):
    %xy = arith.mulf %x, %y : f32
    %sum = arith.addf %xy, %acc : f32
    linalg.yield %sum : f32
  } -> tensor<4x16x16xf32>
  %c = arith.constant dense<0.25> : tensor<4x16x16xf32>
  %scaled = arith.mulf %s, %c : tensor<4x16x16xf32>
  %pe = tensor.empty() : tensor<4x16x16xf32>
  %p = linalg.softmax dimension(2) ins(%scaled : tensor<4x16x16xf32>) outs(%pe : tensor<4x16x16xf32>) -> tensor<4x16x16xf32>
  %oe = tensor.empty() : tensor<4x16x8xf32>
  %oz = linalg.fill ins(%zero : f32) outs(%oe : tensor<4x16x8xf32>) -> tensor<4x16x8xf32>
  %o = linalg.batch_matmul ins(%p, %v : tensor<4x16x16xf32>, tensor<4x16x8xf32>) outs(%oz : tensor<4x16x8xf32>) -> tensor<4x16x8xf32>
  return %o : tensor<4x16x8xf32>
}

func.func @attention_unscaled(%q: tensor<4x16x8xf32>, %k: tensor<4x16x8xf32>, %v: tensor<4x16x8xf32>) -> tensor<4x16x8xf32> {
  %zero = arith.constant 0.0 : f32
  %s_e = tensor.empty() : tensor<4x16x16xf32>
  %s_z = linalg.fill ins(%zero : f32) outs(%s_e : tensor<4x16x16xf32>) -> tensor<4x16x16xf32>
  %s = linalg.generic {indexing_maps = [affine_map<(b, i, j, d) -> (b, i, d)>, affine_map<(b, i, j, d) -> (b, j, d)>, affine_map<(b, i, j, d) -> (b, i, j)>],
    iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%q, %k : tensor<4x16x8xf32>, tensor<4x16x8xf32>) outs(%s_z : tensor<4x16x16xf32>) {
  ^bb0(%x: f32, %y: f32, %acc: f32):
    %xy = arith.mulf %x, %y : f32
    %sum = arith.addf %xy, %acc : f32
    linalg.yield %sum : f32
  } -> tensor<4x16x16xf32>
  %pe = tensor.empty() : tensor<4x16x16xf32>
  %p = linalg.softmax dimension(2) ins(%s : tensor<4x16x16xf32>) outs(%pe : tensor<4x16x16xf32>) -> tensor<4x16x16xf32>
  %oe = tensor.empty() : tensor<4x16x8xf32>
  %oz = linalg.fill ins(%zero : f32) outs(%oe : tensor<4x16x8xf32>) -> tensor<4x16x8xf32>
  %o = linalg.batch_matmul ins(%p, %v : tensor<4x16x16xf32>, tensor<4x16x8xf32>) outs(%oz : tensor<4x16x8xf32>) -> tensor<4x16x8xf32>
  return %o : tensor<4x16x8xf32>
}

func.func @attention_masked(%q: tensor<4x16x8xf32>, %k: tensor<4x16x8xf32>, %v: tensor<4x16x8xf32>, %mask: tensor<16x16xf32>) -> tensor<4x16x8xf32> {
  %zero = arith.constant 0.0 : f32
  %s_e = tensor.empty() : tensor<4x16x16xf32>
  %s_z = linalg.fill ins(%zero : f32) outs(%s_e : tensor<4x16x16xf32>) -> tensor<4x16x16xf32>
  %s = linalg.generic {indexing_maps = [affine_map<(b, i, j, d) -> (b, i, d)>, affine_map<(b, i, j, d) -> (b, j, d)>, affine_map<(b, i, j, d) -> (b, i, j)>],
    iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%q, %k : tensor<4x16x8xf32>, tensor<4x16x8xf32>) outs(%s_z : tensor<4x16x16xf32>) {
  ^bb0(%x: f32, %y: f32, %acc: f32):
    %xy = arith.mulf %x, %y : f32
    %sum = arith.addf %xy, %acc : f32
    linalg.yield %sum : f32
  } -> tensor<4x16x16xf32>
  %c = arith.constant dense<0.25> : tensor<4x16x16xf32>
  %scaled = arith.mulf %s, %c : tensor<4x16x16xf32>
  %me = tensor.empty() : tensor<4x16x16xf32>
  %wide = linalg.broadcast ins(%mask : tensor<16x16xf32>) outs(%me : tensor<4x16x16xf32>) dimensions = [0]
  %m = arith.addf %scaled, %wide : tensor<4x16x16xf32>
  %pe = tensor.empty() : tensor<4x16x16xf32>
  %p = linalg.softmax dimension(2) ins(%m : tensor<4x16x16xf32>) outs(%pe : tensor<4x16x16xf32>) -> tensor<4x16x16xf32>
  %oe = tensor.empty() : tensor<4x16x8xf32>
  %oz = linalg.fill ins(%zero : f32) outs(%oe : tensor<4x16x8xf32>) -> tensor<4x16x8xf32>
  %o = linalg.batch_matmul ins(%p, %v : tensor<4x16x16xf32>, tensor<4x16x8xf32>) outs(%oz : tensor<4x16x8xf32>) -> tensor<4x16x8xf32>
  return %o : tensor<4x16x8xf32>
}

func.func @attention_masked_unscaled(%q: tensor<4x16x8xf32>, %k: tensor<4x16x8xf32>, %v: tensor<4x16x8xf32>, %mask: tensor<16x16xf32>) -> tensor<4x16x8xf32> {
  %zero = arith.constant 0.0 : f32
  %s_e = tensor.empty() : tensor<4x16x16xf32>
  %s_z = linalg.fill ins(%zero : f32) outs(%s_e : tensor<4x16x16xf32>) -> tensor<4x16x16xf32>
  %s = linalg.generic {indexing_maps = [affine_map<(b, i, j, d) -> (b, i, d)>, affine_map<(b, i, j, d) -> (b, j, d)>, affine_map<(b, i, j, d) -> (b, i, j)>],
    iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%q, %k : tensor<4x16x8xf32>, tensor<4x16x8xf32>) outs(%s_z : tensor<4x16x16xf32>) {
  ^bb0(%x: f32, %y: f32, %acc: f32):
    %xy = arith.mulf %x, %y : f32
    %sum = arith.addf %xy, %acc : f32
    linalg.yield %sum : f32
  } -> tensor<4x16x16xf32>
  %me = tensor.empty() : tensor<4x16x16xf32>
  %wide = linalg.broadcast ins(%mask : tensor<16x16xf32>) outs(%me : tensor<4x16x16xf32>) dimensions = [0]
  %m = arith.addf %s, %wide : tensor<4x16x16xf32>
  %pe = tensor.empty() : tensor<4x16x16xf32>
  %p = linalg.softmax dimension(2) ins(%m : tensor<4x16x16xf32>) outs(%pe : tensor<4x16x16xf32>) -> tensor<4x16x16xf32>
  %oe = tensor.empty() : tensor<4x16x8xf32>
  %oz = linalg.fill ins(%zero : f32) outs(%oe : tensor<4x16x8xf32>) -> tensor<4x16x8xf32>
  %o = linalg.batch_matmul ins(%p, %v : tensor<4x16x16xf32>, tensor<4x16x8xf32>) outs(%oz : tensor<4x16x8xf32>) -> tensor<4x16x8xf32>
  return %o : tensor<4x16x8xf32>
}

func.func @attention_biased_explicit(%q: tensor<4x16x8xf32>, %k: tensor<4x16x8xf32>, %v: tensor<4x16x8xf32>, %mask: tensor<4x16x16xf32>) -> tensor<4x16x8xf32> {
  %zero = arith.constant 0.0 : f32
  %s_e = tensor.empty() : tensor<4x16x16xf32>
  %s_z = linalg.fill ins(%zero : f32) outs(%s_e : tensor<4x16x16xf32>) -> tensor<4x16x16xf32>
  %s = linalg.generic {indexing_maps = [affine_map<(b, i, j, d) -> (b, i, d)>, affine_map<(b, i, j, d) -> (b, j, d)>, affine_map<(b, i, j, d) -> (b, i, j)>],
    iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%q, %k : tensor<4x16x8xf32>, tensor<4x16x8xf32>) outs(%s_z : tensor<4x16x16xf32>) {
  ^bb0(%x: f32, %y: f32, %acc: f32):
    %xy = arith.mulf %x, %y : f32
    %sum = arith.addf %xy, %acc : f32
    linalg.yield %sum : f32
  } -> tensor<4x16x16xf32>
  %c = arith.constant dense<0.25> : tensor<4x16x16xf32>
  %scaled = arith.mulf %s, %c : tensor<4x16x16xf32>
  %m = arith.addf %scaled, %mask : tensor<4x16x16xf32>
  %pe = tensor.empty() : tensor<4x16x16xf32>
  %p = linalg.softmax dimension(2) ins(%m : tensor<4x16x16xf32>) outs(%pe : tensor<4x16x16xf32>) -> tensor<4x16x16xf32>
  %oe = tensor.empty() : tensor<4x16x8xf32>
  %oz = linalg.fill ins(%zero : f32) outs(%oe : tensor<4x16x8xf32>) -> tensor<4x16x8xf32>
  %o = linalg.batch_matmul ins(%p, %v : tensor<4x16x16xf32>, tensor<4x16x8xf32>) outs(%oz : tensor<4x16x8xf32>) -> tensor<4x16x8xf32>
  return %o : tensor<4x16x8xf32>
}

func.func @attention_biased_unscaled(%q: tensor<4x16x8xf32>, %k: tensor<4x16x8xf32>, %v: tensor<4x16x8xf32>, %mask: tensor<4x16x16xf32>) -> tensor<4x16x8xf32> {
  %zero = arith.constant 0.0 : f32
  %s_e = tensor.empty() : tensor<4x16x16xf32>
  %s_z = linalg.fill ins(%zero : f32) outs(%s_e : tensor<4x16x16xf32>) -> tensor<4x16x16xf32>
  %s = linalg.generic {indexing_maps = [affine_map<(b, i, j, d) -> (b, i, d)>, affine_map<(b, i, j, d) -> (b, j, d)>, affine_map<(b, i, j, d) -> (b, i, j)>],
    iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%q, %k : tensor<4x16x8xf32>, tensor<4x16x8xf32>) outs(%s_z : tensor<4x16x16xf32>) {
  ^bb0(%x: f32, %y: f32, %acc: f32):
    %xy = arith.mulf %x, %y : f32
    %sum = arith.addf %xy, %acc : f32
    linalg.yield %sum : f32
  } -> tensor<4x16x16xf32>
  %m = arith.addf %s, %mask : tensor<4x16x16xf32>
  %pe = tensor.empty() : tensor<4x16x16xf32>
  %p = linalg.softmax dimension(2) ins(%m : tensor<4x16x16xf32>) outs(%pe : tensor<4x16x16xf32>) -> tensor<4x16x16xf32>
  %oe = tensor.empty() : tensor<4x16x8xf32>
  %oz = linalg.fill ins(%zero : f32) outs(%oe : tensor<4x16x8xf32>) -> tensor<4x16x8xf32>
  %o = linalg.batch_matmul ins(%p, %v : tensor<4x16x16xf32>, tensor<4x16x8xf32>) outs(%oz : tensor<4x16x8xf32>) -> tensor<4x16x8xf32>
  return %o : tensor<4x16x8xf32>
}

func.func @attention_where(%q: tensor<4x16x8xf32>, %k: tensor<4x16x8xf32>, %v: tensor<4x16x8xf32>, %mask: tensor<16x16xi1>) -> tensor<4x16x8xf32> {
  %zero = arith.constant 0.0 : f32
  %s_e = tensor.empty() : tensor<4x16x16xf32>
  %s_z = linalg.fill ins(%zero : f32) outs(%s_e : tensor<4x16x16xf32>) -> tensor<4x16x16xf32>
  %s = linalg.generic {indexing_maps = [affine_map<(b, i, j, d) -> (b, i, d)>, affine_map<(b, i, j, d) -> (b, j, d)>, affine_map<(b, i, j, d) -> (b, i, j)>],
    iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%q, %k : tensor<4x16x8xf32>, tensor<4x16x8xf32>) outs(%s_z : tensor<4x16x16xf32>) {
  ^bb0(%x: f32, %y: f32, %acc: f32):
    %xy = arith.mulf %x, %y : f32
    %sum = arith.addf %xy, %acc : f32
    linalg.yield %sum : f32
  } -> tensor<4x16x16xf32>
  %c = arith.constant dense<0.25> : tensor<4x16x16xf32>
  %scaled = arith.mulf %s, %c : tensor<4x16x16xf32>
  %me = tensor.empty() : tensor<4x16x16xi1>
  %wide = linalg.broadcast ins(%mask : tensor<16x16xi1>) outs(%me : tensor<4x16x16xi1>) dimensions = [0]
  %low = arith.constant dense<-1.0e9> : tensor<4x16x16xf32>
  %m = arith.select %wide, %scaled, %low : tensor<4x16x16xi1>, tensor<4x16x16xf32>
  %pe = tensor.empty() : tensor<4x16x16xf32>
  %p = linalg.softmax dimension(2) ins(%m : tensor<4x16x16xf32>) outs(%pe : tensor<4x16x16xf32>) -> tensor<4x16x16xf32>
  %oe = tensor.empty() : tensor<4x16x8xf32>
  %oz = linalg.fill ins(%zero : f32) outs(%oe : tensor<4x16x8xf32>) -> tensor<4x16x8xf32>
  %o = linalg.batch_matmul ins(%p, %v : tensor<4x16x16xf32>, tensor<4x16x8xf32>) outs(%oz : tensor<4x16x8xf32>) -> tensor<4x16x8xf32>
  return %o : tensor<4x16x8xf32>
}

func.func @attention_where_each_explicit(%q: tensor<4x16x8xf32>, %k: tensor<4x16x8xf32>, %v: tensor<4x16x8xf32>, %mask: tensor<4x16x16xi1>) -> tensor<4x16x8xf32> {
  %zero = arith.constant 0.0 : f32
  %s_e = tensor.empty() : tensor<4x16x16xf32>
  %s_z = linalg.fill ins(%zero : f32) outs(%s_e : tensor<4x16x16xf32>) -> tensor<4x16x16xf32>
  %s = linalg.generic {indexing_maps = [affine_map<(b, i, j, d) -> (b, i, d)>, affine_map<(b, i, j, d) -> (b, j, d)>, affine_map<(b, i, j, d) -> (b, i, j)>],
    iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%q, %k : tensor<4x16x8xf32>, tensor<4x16x8xf32>) outs(%s_z : tensor<4x16x16xf32>) {
  ^bb0(%x: f32, %y: f32, %acc: f32):
    %xy = arith.mulf %x, %y : f32
    %sum = arith.addf %xy, %acc : f32
    linalg.yield %sum : f32
  } -> tensor<4x16x16xf32>
  %c = arith.constant dense<0.25> : tensor<4x16x16xf32>
  %scaled = arith.mulf %s, %c : tensor<4x16x16xf32>
  %low = arith.constant dense<-1.0e9> : tensor<4x16x16xf32>
  %m = arith.select %mask, %scaled, %low : tensor<4x16x16xi1>, tensor<4x16x16xf32>
  %pe = tensor.empty() : tensor<4x16x16xf32>
  %p = linalg.softmax dimension(2) ins(%m : tensor<4x16x16xf32>) outs(%pe : tensor<4x16x16xf32>) -> tensor<4x16x16xf32>
  %oe = tensor.empty() : tensor<4x16x8xf32>
  %oz = linalg.fill ins(%zero : f32) outs(%oe : tensor<4x16x8xf32>) -> tensor<4x16x8xf32>
  %o = linalg.batch_matmul ins(%p, %v : tensor<4x16x16xf32>, tensor<4x16x8xf32>) outs(%oz : tensor<4x16x8xf32>) -> tensor<4x16x8xf32>
  return %o : tensor<4x16x8xf32>
}

func.func @attention_library(%q: tensor<4x16x8xf32>, %k: tensor<4x16x8xf32>, %v: tensor<4x16x8xf32>) -> tensor<4x16x8xf32> {
  %scale = arith.constant 0.25 : f32
  %e = tensor.empty() : tensor<4x16x8xf32>
  %o = iree_linalg_ext.attention <indexing_maps = [affine_map<(b, i, e, d, j) -> (b, i, d)>, affine_map<(b, i, e, d, j) -> (b, j, d)>, affine_map<(b, i, e, d, j) -> (b, j, e)>, affine_map<(b, i, e, d, j) -> ()>, affine_map<(b, i, e, d, j) -> (b, i, e)>]>
    ins(%q, %k, %v, %scale : tensor<4x16x8xf32>, tensor<4x16x8xf32>, tensor<4x16x8xf32>, f32) outs(%e : tensor<4x16x8xf32>) {
  ^bb0(%score: f32):
    iree_linalg_ext.yield %score : f32
  } -> tensor<4x16x8xf32>
  return %o : tensor<4x16x8xf32>
}

func.func @attention_biased_library(%q: tensor<4x16x8xf32>, %k: tensor<4x16x8xf32>, %v: tensor<4x16x8xf32>, %mask: tensor<4x16x16xf32>) -> tensor<4x16x8xf32> {
  %scale = arith.constant 0.25 : f32
  %e = tensor.empty() : tensor<4x16x8xf32>
  %o = iree_linalg_ext.attention <indexing_maps = [affine_map<(b, i, e, d, j) -> (b, i, d)>, affine_map<(b, i, e, d, j) -> (b, j, d)>, affine_map<(b, i, e, d, j) -> (b, j, e)>, affine_map<(b, i, e, d, j) -> ()>, affine_map<(b, i, e, d, j) -> (b, i, j)>, affine_map<(b, i, e, d, j) -> (b, i, e)>]>
    ins(%q, %k, %v, %scale, %mask : tensor<4x16x8xf32>, tensor<4x16x8xf32>, tensor<4x16x8xf32>, f32, tensor<4x16x16xf32>) outs(%e : tensor<4x16x8xf32>) {
  ^bb0(%score: f32):
    iree_linalg_ext.yield %score : f32
  } -> tensor<4x16x8xf32>
  return %o : tensor<4x16x8xf32>
}

func.func @attention_where_each_library(%q: tensor<4x16x8xf32>, %k: tensor<4x16x8xf32>, %v: tensor<4x16x8xf32>, %mask: tensor<4x16x16xi1>) -> tensor<4x16x8xf32> {
  %scale = arith.constant 0.25 : f32
  %e = tensor.empty() : tensor<4x16x8xf32>
  %o = iree_linalg_ext.attention <indexing_maps = [affine_map<(b, i, e, d, j) -> (b, i, d)>, affine_map<(b, i, e, d, j) -> (b, j, d)>, affine_map<(b, i, e, d, j) -> (b, j, e)>, affine_map<(b, i, e, d, j) -> ()>, affine_map<(b, i, e, d, j) -> (b, i, j)>, affine_map<(b, i, e, d, j) -> (b, i, e)>]>
    ins(%q, %k, %v, %scale, %mask : tensor<4x16x8xf32>, tensor<4x16x8xf32>, tensor<4x16x8xf32>, f32, tensor<4x16x16xi1>) outs(%e : tensor<4x16x8xf32>) {
  ^bb0(%score: f32):
    iree_linalg_ext.yield %score : f32
  } -> tensor<4x16x8xf32>
  return %o : tensor<4x16x8xf32>
}
