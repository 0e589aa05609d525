// The same replacement as replace.splice, by hand in the transform dialect: one matcher for each spelling.

#cpu = #hal.executable.target<"llvm-cpu", "embedded-elf-x86_64">

module attributes {transform.with_named_sequence} {
  // The shim that turns IREE's bindings into the plain C arguments of functions.c.
  stream.executable private @executable attributes {
    hal.executable.objects = #hal.executable.objects<{#cpu = [#hal.executable.object<{path = "functions.c"}>]}>
  } {
    stream.executable.export public @mul_abs_negate_shim workgroups(%n: index) -> (index, index, index) {
      %c1 = arith.constant 1 : index
      %c64 = arith.constant 64 : index
      %count = arith.ceildivui %n, %c64 : index
      stream.return %count, %c1, %c1 : index, index, index
    }
    builtin.module {
      func.func private @mul_abs_negate(!llvm.ptr, !llvm.ptr, !llvm.ptr, index, index)
          attributes {hal.import.static, llvm.bareptr = true}
      func.func @mul_abs_negate_shim(
          %lhs: !stream.binding, %rhs: !stream.binding, %n: index, %out: !stream.binding) {
        %c0 = arith.constant 0 : index
        %c4 = arith.constant 4 : index
        %workgroup_x = stream.dispatch.workgroup.id[0] : index
        %lhs_memref = stream.binding.subspan %lhs[%c0] : !stream.binding -> memref<?xf32>{%n}
        %lhs_base, %lhs_offset, %lhs_size, %lhs_stride = iree_codegen.extract_strided_metadata %lhs_memref
            : memref<?xf32> -> memref<f32>, index, index, index
        %lhs_start = memref.extract_aligned_pointer_as_index %lhs_base : memref<f32> -> index
        %lhs_skipped = arith.muli %lhs_offset, %c4 : index
        %lhs_address = arith.addi %lhs_start, %lhs_skipped : index
        %lhs_number = arith.index_cast %lhs_address : index to i64
        %lhs_pointer = llvm.inttoptr %lhs_number : i64 to !llvm.ptr
        %rhs_memref = stream.binding.subspan %rhs[%c0] : !stream.binding -> memref<?xf32>{%n}
        %rhs_base, %rhs_offset, %rhs_size, %rhs_stride = iree_codegen.extract_strided_metadata %rhs_memref
            : memref<?xf32> -> memref<f32>, index, index, index
        %rhs_start = memref.extract_aligned_pointer_as_index %rhs_base : memref<f32> -> index
        %rhs_skipped = arith.muli %rhs_offset, %c4 : index
        %rhs_address = arith.addi %rhs_start, %rhs_skipped : index
        %rhs_number = arith.index_cast %rhs_address : index to i64
        %rhs_pointer = llvm.inttoptr %rhs_number : i64 to !llvm.ptr
        %out_memref = stream.binding.subspan %out[%c0] : !stream.binding -> memref<?xf32>{%n}
        %out_base, %out_offset, %out_size, %out_stride = iree_codegen.extract_strided_metadata %out_memref
            : memref<?xf32> -> memref<f32>, index, index, index
        %out_start = memref.extract_aligned_pointer_as_index %out_base : memref<f32> -> index
        %out_skipped = arith.muli %out_offset, %c4 : index
        %out_address = arith.addi %out_start, %out_skipped : index
        %out_number = arith.index_cast %out_address : index to i64
        %out_pointer = llvm.inttoptr %out_number : i64 to !llvm.ptr
        func.call @mul_abs_negate(%lhs_pointer, %rhs_pointer, %out_pointer, %n, %workgroup_x)
            : (!llvm.ptr, !llvm.ptr, !llvm.ptr, index, index) -> ()
        return
      }
    }
  }

  util.func private @call_mul_abs_negate(%lhs: tensor<?xf32>, %rhs: tensor<?xf32>) -> tensor<?xf32> {
    %c0 = arith.constant 0 : index
    %n = tensor.dim %lhs, %c0 : tensor<?xf32>
    %m = tensor.dim %rhs, %c0 : tensor<?xf32>
    %result = flow.dispatch @executable::@mul_abs_negate_shim[%n](%lhs, %rhs, %n)
        : (tensor<?xf32>{%n}, tensor<?xf32>{%m}, index) -> tensor<?xf32>{%n}
    util.return %result : tensor<?xf32>
  }

  transform.named_sequence @match_on_tensors(%root: !transform.any_op {transform.readonly})
      -> (!transform.any_value, !transform.any_value) {
    %ins, %outs = transform.iree.match.cast_compatible_dag_from_root %root {
    ^bb0(%lhs: tensor<?xf32>, %rhs: tensor<?xf32>):
      %product = arith.mulf %lhs, %rhs : tensor<?xf32>
      %magnitude = math.absf %product : tensor<?xf32>
      %result = arith.negf %magnitude : tensor<?xf32>
    } : (!transform.any_op) -> (!transform.any_value, !transform.any_value)
    transform.yield %ins, %outs : !transform.any_value, !transform.any_value
  }

  transform.named_sequence @match_in_generic(%root: !transform.any_op {transform.readonly})
      -> (!transform.any_value, !transform.any_value) {
    %ins, %outs = transform.iree.match.cast_compatible_dag_from_root %root {
    ^bb0(%lhs: tensor<?xf32>, %rhs: tensor<?xf32>):
      %c0 = arith.constant 0 : index
      %n = tensor.dim %lhs, %c0 : tensor<?xf32>
      %empty = tensor.empty(%n) {"match.operation_name_only"} : tensor<?xf32>
      %result = linalg.generic {
          indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>],
          iterator_types = ["parallel"]}
          ins(%lhs, %rhs : tensor<?xf32>, tensor<?xf32>) outs(%empty : tensor<?xf32>) {
      ^bb0(%a: f32, %b: f32, %out: f32):
        %mul = arith.mulf %a, %b : f32
        %abs = math.absf %mul : f32
        %neg = arith.negf %abs : f32
        linalg.yield %neg : f32
      } -> tensor<?xf32>
    } : (!transform.any_op) -> (!transform.any_value, !transform.any_value)
    transform.yield %ins, %outs : !transform.any_value, !transform.any_value
  }

  transform.named_sequence @cast_and_call(
      %ins: !transform.any_value {transform.readonly}, %out: !transform.any_value {transform.readonly}) {
    %root = transform.get_defining_op %out : (!transform.any_value) -> !transform.any_op
    %module = transform.util.get_nearest_symbol_table %root : (!transform.any_op) -> !transform.any_op
    %executable = transform.util.import_symbol @executable into %module if undefined
        : (!transform.any_op) -> !transform.any_op
    %function = transform.util.import_symbol @call_mul_abs_negate into %module if undefined
        : (!transform.any_op) -> !transform.any_op
    transform.util.cast_and_call %function(%ins) -> %out after %root {
      transform.type_conversion.tensor.cast_shape_dynamic_dims
    } : (!transform.any_op, !transform.any_value, !transform.any_value, !transform.any_op) -> !transform.any_op
    transform.yield
  }

  transform.named_sequence @__transform_main(%module: !transform.any_op) {
    %functions = transform.structured.match ops{["util.func"]} in %module : (!transform.any_op) -> !transform.any_op
    transform.foreach %functions : !transform.any_op {
    ^bb1(%function: !transform.any_op):
      transform.foreach_match in %function
          @match_on_tensors -> @cast_and_call,
          @match_in_generic -> @cast_and_call
          : (!transform.any_op) -> !transform.any_op
    }
    transform.apply_dce to %module : !transform.any_op
    transform.yield
  }
}
