"""One pattern, every spelling: what matches, and what its inputs and dims are bound to."""

from __future__ import annotations

import pytest

# ---- elementwise -----------------------------------------------------------------------------------------------------

NEG_ABS = "pattern p(x: tensor<m x n x f32>) { negf(absf(x)) }"

ELEMENTWISE = {
    "arith and math on tensors": """
        %a = math.absf %x : tensor<4x8xf32>
        %r = arith.negf %a : tensor<4x8xf32>""",
    "two generics": """
        %a = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
          ins(%x : tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) {
        ^bb0(%i: f32, %o: f32): %1 = math.absf %i : f32  linalg.yield %1 : f32 } -> tensor<4x8xf32>
        %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
          ins(%a : tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) {
        ^bb0(%i: f32, %o: f32): %1 = arith.negf %i : f32  linalg.yield %1 : f32 } -> tensor<4x8xf32>""",
    "one fused generic": """
        %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
          ins(%x : tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) {
        ^bb0(%i: f32, %o: f32):
          %1 = math.absf %i : f32
          %2 = arith.negf %1 : f32
          linalg.yield %2 : f32 } -> tensor<4x8xf32>""",
    "another loop order": """
        %r = linalg.generic {indexing_maps = [#ti, #ti], iterator_types = ["parallel", "parallel"]}
          ins(%x : tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) {
        ^bb0(%i: f32, %o: f32):
          %1 = math.absf %i : f32
          %2 = arith.negf %1 : f32
          linalg.yield %2 : f32 } -> tensor<4x8xf32>""",
    "the input read from the destination": """
        %r = linalg.generic {indexing_maps = [#id], iterator_types = ["parallel", "parallel"]}
          outs(%x : tensor<4x8xf32>) {
        ^bb0(%o: f32):
          %1 = math.absf %o : f32
          %2 = arith.negf %1 : f32
          linalg.yield %2 : f32 } -> tensor<4x8xf32>""",
    "linalg.map": """
        %a = linalg.map { math.absf } ins(%x : tensor<4x8xf32>) outs(%e : tensor<4x8xf32>)
        %r = linalg.map { arith.negf } ins(%a : tensor<4x8xf32>) outs(%e : tensor<4x8xf32>)""",
    "linalg.elementwise": """
        %a = linalg.elementwise <abs> ins(%x : tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) -> tensor<4x8xf32>
        %r = linalg.elementwise <negf> ins(%a : tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) -> tensor<4x8xf32>""",
    "transposed there and back": """
        %t = linalg.transpose ins(%x : tensor<4x8xf32>) outs(%et : tensor<8x4xf32>) permutation = [1, 0]
        %a = math.absf %t : tensor<8x4xf32>
        %b = linalg.transpose ins(%a : tensor<8x4xf32>) outs(%e : tensor<4x8xf32>) permutation = [1, 0]
        %r = arith.negf %b : tensor<4x8xf32>""",
    "flattened there and back": """
        %f = tensor.collapse_shape %x [[0, 1]] : tensor<4x8xf32> into tensor<32xf32>
        %a = math.absf %f : tensor<32xf32>
        %b = tensor.expand_shape %a [[0, 1]] output_shape [4, 8] : tensor<32xf32> into tensor<4x8xf32>
        %r = arith.negf %b : tensor<4x8xf32>""",
    "discardable attributes": """
        %a = math.absf %x fastmath<fast> {my.note = 1 : i32} : tensor<4x8xf32>
        %r = arith.negf %a {other.note} : tensor<4x8xf32>""",
}

FUNCTION = """
#id = affine_map<(i, j) -> (i, j)>
#ti = affine_map<(i, j) -> (j, i)>
func.func @f(%x: tensor<4x8xf32>, %e: tensor<4x8xf32>, %et: tensor<8x4xf32>) -> tensor<4x8xf32> {{
  {body}
  return %r : tensor<4x8xf32>
}}
"""


@pytest.mark.parametrize("body", ELEMENTWISE.values(), ids=list(ELEMENTWISE))
def test_elementwise_spellings(find, body):
    outcome = find(FUNCTION.format(body=body), NEG_ABS)
    assert outcome.dims == {"m": 4, "n": 8}
    assert outcome.only.function == "f"
    returned = next(iter(outcome.module.body.operations)).regions[0].blocks[0].operations[-1].operands[0]
    assert outcome.only.roots == (returned,)
    assert outcome.inputs == {"x": "%arg0"}


def test_a_cast_is_looked_through_and_the_nearest_value_bound(find):
    body = """
      %c = tensor.cast %x : tensor<4x8xf32> to tensor<?x8xf32>
      %a = math.absf %c : tensor<?x8xf32>
      %b = tensor.cast %a : tensor<?x8xf32> to tensor<4x8xf32>
      %r = arith.negf %b : tensor<4x8xf32>"""
    outcome = find(FUNCTION.format(body=body), NEG_ABS)
    assert outcome.inputs == {"x": "%cast"}
    assert outcome.dims == {"m": "%cast#0", "n": 8}
    assert outcome.only.root_sizes == ((4, 8),)


# ---- contractions ----------------------------------------------------------------------------------------------------

MATMUL = "pattern p(a: tensor<m x k x f32>, b: tensor<k x n x f32>) { contract[m k, k n -> m n](a, b) }"


def generic_matmul(maps: str, iterators: str, body: str = "%1 = arith.mulf %x, %y : f32") -> str:
    return f"""
    %r = linalg.generic {{indexing_maps = [{maps}], iterator_types = [{iterators}]}}
      ins(%a, %b : tensor<4x16xf32>, tensor<16x8xf32>) outs(%z : tensor<4x8xf32>) {{
    ^bb0(%x: f32, %y: f32, %o: f32):
      {body}
      %2 = arith.addf %o, %1 : f32
      linalg.yield %2 : f32 }} -> tensor<4x8xf32>"""


ORDINARY = (
    "affine_map<(i, j, k) -> (i, k)>, affine_map<(i, j, k) -> (k, j)>, affine_map<(i, j, k) -> (i, j)>",
    '"parallel", "parallel", "reduction"',
)
CONTRACTIONS = {
    "linalg.matmul": """%r = linalg.matmul ins(%a, %b : tensor<4x16xf32>, tensor<16x8xf32>)
        outs(%z : tensor<4x8xf32>) -> tensor<4x8xf32>""",
    "a generic": generic_matmul(*ORDINARY),
    "reduction loop first": generic_matmul(
        "affine_map<(k, j, i) -> (i, k)>, affine_map<(k, j, i) -> (k, j)>, affine_map<(k, j, i) -> (i, j)>",
        '"reduction", "parallel", "parallel"',
    ),
    "operands commuted": generic_matmul(*ORDINARY, "%1 = arith.mulf %y, %x : f32"),
    "linalg.contract": """%r = linalg.contract indexing_maps = [affine_map<(i, j, k) -> (i, k)>,
        affine_map<(i, j, k) -> (k, j)>, affine_map<(i, j, k) -> (i, j)>]
        ins(%a, %b : tensor<4x16xf32>, tensor<16x8xf32>) outs(%z : tensor<4x8xf32>) -> tensor<4x8xf32>""",
    "a transposed operand": """
        %et = tensor.empty() : tensor<8x16xf32>
        %t = linalg.transpose ins(%b : tensor<16x8xf32>) outs(%et : tensor<8x16xf32>) permutation = [1, 0]
        %r = linalg.matmul indexing_maps = [affine_map<(i, j, k) -> (i, k)>, affine_map<(i, j, k) -> (j, k)>,
          affine_map<(i, j, k) -> (i, j)>] ins(%a, %t : tensor<4x16xf32>, tensor<8x16xf32>)
          outs(%z : tensor<4x8xf32>) -> tensor<4x8xf32>""",
    "a batch of one": """
        %a3 = tensor.expand_shape %a [[0, 1], [2]] output_shape [1, 4, 16]
          : tensor<4x16xf32> into tensor<1x4x16xf32>
        %b3 = tensor.expand_shape %b [[0, 1], [2]] output_shape [1, 16, 8]
          : tensor<16x8xf32> into tensor<1x16x8xf32>
        %e3 = tensor.empty() : tensor<1x4x8xf32>
        %z3 = linalg.fill ins(%zero : f32) outs(%e3 : tensor<1x4x8xf32>) -> tensor<1x4x8xf32>
        %r3 = linalg.batch_matmul ins(%a3, %b3 : tensor<1x4x16xf32>, tensor<1x16x8xf32>)
          outs(%z3 : tensor<1x4x8xf32>) -> tensor<1x4x8xf32>
        %r = tensor.collapse_shape %r3 [[0, 1], [2]] : tensor<1x4x8xf32> into tensor<4x8xf32>""",
}

CONTRACTION = """
func.func @f(%a: tensor<4x16xf32>, %b: tensor<16x8xf32>) -> tensor<4x8xf32> {{
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x8xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<4x8xf32>) -> tensor<4x8xf32>
  {body}
  return %r : tensor<4x8xf32>
}}
"""


@pytest.mark.parametrize("body", CONTRACTIONS.values(), ids=list(CONTRACTIONS))
def test_contraction_spellings(find, body):
    outcome = find(CONTRACTION.format(body=body), MATMUL)
    assert outcome.dims == {"m": 4, "k": 16, "n": 8}
    assert set(outcome.inputs) == {"a", "b"}


@pytest.mark.parametrize(
    ("op", "types", "result", "subscripts", "kinds"),
    [
        ("batch_matmul", ("2x4x16", "2x16x8"), "2x4x8", "s m k, s k n -> s m n", ("s x m x k", "s x k x n")),
        ("matvec", ("4x16", "16"), "4", "m k, k -> m", ("m x k", "k")),
        ("vecmat", ("16", "16x8"), "8", "k, k n -> n", ("k", "k x n")),
        ("dot", ("16", "16"), "", "k, k ->", ("k", "k")),
        ("mmt4d", ("2x3x4x5", "6x3x7x5"), "2x6x4x7", "m k q c, n k s c -> m n q s", ("m x k x q x c", "n x k x s x c")),
    ],
)
def test_named_contractions(find, op, types, result, subscripts, kinds):
    first, second = (f"tensor<{t}xf32>" for t in types)
    out = f"tensor<{result}xf32>" if result else "tensor<f32>"
    payload = f"""
    func.func @f(%a: {first}, %b: {second}) -> {out} {{
      %zero = arith.constant dense<0.0> : {out}
      %r = linalg.{op} ins(%a, %b : {first}, {second}) outs(%zero : {out}) -> {out}
      return %r : {out}
    }}"""
    spec = f"""pattern p(a: tensor<{kinds[0]} x f32>, b: tensor<{kinds[1]} x f32>) {{
      contract[{subscripts}](a, b)
    }}"""
    assert find(payload, spec).count == 1


def test_an_outer_product_is_a_contraction_without_a_sum(find):
    payload = """
    func.func @f(%a: tensor<4xf32>, %b: tensor<8xf32>, %e: tensor<4x8xf32>) -> tensor<4x8xf32> {
      %r = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (j)>,
        affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
        ins(%a, %b : tensor<4xf32>, tensor<8xf32>) outs(%e : tensor<4x8xf32>) {
      ^bb0(%x: f32, %y: f32, %o: f32): %1 = arith.mulf %x, %y : f32  linalg.yield %1 : f32 } -> tensor<4x8xf32>
      return %r : tensor<4x8xf32>
    }"""
    spec = "pattern p(a: tensor<m x f32>, b: tensor<n x f32>) { contract[m, n -> m n](a, b) }"
    assert find(payload, spec).dims == {"m": 4, "n": 8}


def test_a_start_other_than_zero_is_an_addition(find):
    payload = """
    func.func @f(%a: tensor<4x16xf32>, %b: tensor<16x8xf32>, %c: tensor<8xf32>, %e: tensor<4x8xf32>)
        -> tensor<4x8xf32> {
      %z = linalg.broadcast ins(%c : tensor<8xf32>) outs(%e : tensor<4x8xf32>) dimensions = [0]
      %r = linalg.matmul ins(%a, %b : tensor<4x16xf32>, tensor<16x8xf32>) outs(%z : tensor<4x8xf32>) -> tensor<4x8xf32>
      return %r : tensor<4x8xf32>
    }"""
    bare = find(payload, MATMUL)
    assert bare.count == 0
    spec = """pattern p(a: tensor<m x k x f32>, b: tensor<k x n x f32>, bias: tensor<n x f32>) {
      addf(contract[m k, k n -> m n](a, b), broadcast[n -> m n](bias))
    }"""
    assert find(payload, spec).inputs == {"a": "%arg0", "b": "%arg1", "bias": "%arg2"}


@pytest.mark.parametrize(
    ("given", "made", "pattern_given", "pattern_made", "count"),
    [
        ("i8", "i32", "i8", "i32", 1),
        ("bf16", "f32", "bf16", "f32", 1),
        ("f16", "f32", "f16", "f32", 1),
        ("i8", "i32", "i8", "i64", 0),
        ("f32", "f32", "f32", "f32", 1),
        ("i32", "i32", "i32", "i32", 1),
        ("f64", "f64", "f32", "f32", 0),
    ],
)
def test_widening_contractions(find, given, made, pattern_given, pattern_made, count):
    zero = "0.0" if made.startswith("f") else "0"
    payload = f"""
    func.func @f(%a: tensor<4x16x{given}>, %b: tensor<16x8x{given}>) -> tensor<4x8x{made}> {{
      %z = arith.constant dense<{zero}> : tensor<4x8x{made}>
      %r = linalg.matmul ins(%a, %b : tensor<4x16x{given}>, tensor<16x8x{given}>)
        outs(%z : tensor<4x8x{made}>) -> tensor<4x8x{made}>
      return %r : tensor<4x8x{made}>
    }}"""
    spec = f"""pattern p(a: tensor<m x k x {pattern_given}>, b: tensor<k x n x {pattern_given}>) {{
      contract[m k, k n -> m n](a, b) : tensor<m x n x {pattern_made}>
    }}"""
    assert find(payload, spec).count == count


@pytest.mark.parametrize("element", ["f32", "f64", "i32", "i8"])
def test_a_type_variable_may_be_an_integer_or_a_float(find, element):
    zero = "0.0" if element.startswith("f") else "0"
    payload = f"""
    func.func @f(%a: tensor<4x16x{element}>, %b: tensor<16x8x{element}>) -> tensor<4x8x{element}> {{
      %z = arith.constant dense<{zero}> : tensor<4x8x{element}>
      %r = linalg.matmul ins(%a, %b : tensor<4x16x{element}>, tensor<16x8x{element}>)
        outs(%z : tensor<4x8x{element}>) -> tensor<4x8x{element}>
      return %r : tensor<4x8x{element}>
    }}"""
    spec = "pattern p<{}>(a: tensor<m x k x T>, b: tensor<k x n x T>) {{ contract[m k, k n -> m n](a, b) }}"
    assert find(payload, spec.format("T")).only.types == {"T": element}
    some = find(payload, spec.format("T in {f32, i32}"))
    assert some.count == (element in ("f32", "i32"))


# ---- reductions ------------------------------------------------------------------------------------------------------

SUM = "pattern p(x: tensor<m x n x f32>) { reduce addf[m n -> m](x) }"


def reduction(body: str, start: str = "0.0") -> str:
    return f"""
    #id = affine_map<(i, j) -> (i, j)>
    #rows = affine_map<(i, j) -> (i)>
    func.func @f(%x: tensor<4x8xf32>) -> tensor<4xf32> {{
      %z = arith.constant dense<{start}> : tensor<4xf32>
      {body}
      return %r : tensor<4xf32>
    }}"""


@pytest.mark.parametrize(
    "body",
    [
        "%r = linalg.reduce { arith.addf } ins(%x : tensor<4x8xf32>) outs(%z : tensor<4xf32>) dimensions = [1]",
        """%r = linalg.reduce ins(%x : tensor<4x8xf32>) outs(%z : tensor<4xf32>) dimensions = [1]
          (%i: f32, %o: f32) { %1 = arith.addf %i, %o : f32  linalg.yield %1 : f32 }""",
        """%r = linalg.generic {indexing_maps = [#id, #rows], iterator_types = ["parallel", "reduction"]}
          ins(%x : tensor<4x8xf32>) outs(%z : tensor<4xf32>) {
          ^bb0(%i: f32, %o: f32): %1 = arith.addf %o, %i : f32  linalg.yield %1 : f32 } -> tensor<4xf32>""",
    ],
)
def test_reduction_spellings(find, body):
    assert find(reduction(body), SUM).dims == {"m": 4, "n": 8}


MAX_BODY = "%r = linalg.reduce { arith.maximumf } ins(%x : tensor<4x8xf32>) outs(%z : tensor<4xf32>) dimensions = [1]"


@pytest.mark.parametrize("start", ["0xFF800000", "0xFF7FFFFF"])
def test_a_maximum_starts_at_minus_infinity_or_the_lowest_number(find, start):
    spec = "pattern p(x: tensor<m x n x f32>) { reduce maximumf[m n -> m](x) }"
    assert find(reduction(MAX_BODY, start), spec).count == 1


def test_a_result_beside_the_index_of_the_maximum(find):
    payload = """
    func.func @f(%x: tensor<4x8xf32>) -> (tensor<4xf32>, tensor<4xi32>) {
      %z = arith.constant dense<0xFF800000> : tensor<4xf32>
      %zi = arith.constant dense<0> : tensor<4xi32>
      %r:2 = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>,
        affine_map<(i, j) -> (i)>], iterator_types = ["parallel", "reduction"]}
        ins(%x : tensor<4x8xf32>) outs(%z, %zi : tensor<4xf32>, tensor<4xi32>) {
      ^bb0(%i: f32, %o: f32, %oi: i32):
        %j = linalg.index 1 : index
        %ji = arith.index_cast %j : index to i32
        %m = arith.maximumf %i, %o : f32
        %c = arith.cmpf ogt, %i, %o : f32
        %s = arith.select %c, %ji, %oi : i32
        linalg.yield %m, %s : f32, i32 } -> (tensor<4xf32>, tensor<4xi32>)
      return %r#0, %r#1 : tensor<4xf32>, tensor<4xi32>
    }"""
    outcome = find(payload, "pattern p(x: tensor<m x n x f32>) { reduce maximumf[m n -> m](x) }")
    assert outcome.count == 1
    assert outcome.only.roots[0] == outcome.only.roots[0].owner.operation.results[0]


def test_a_reduction_over_two_dims_in_either_order(find):
    payload = """
    func.func @f(%x: tensor<4x8x2xf32>, %z: tensor<8xf32>) -> tensor<8xf32> {
      %zero = arith.constant 0.0 : f32
      %s = linalg.fill ins(%zero : f32) outs(%z : tensor<8xf32>) -> tensor<8xf32>
      %r = linalg.reduce { arith.addf } ins(%x : tensor<4x8x2xf32>) outs(%s : tensor<8xf32>) dimensions = [0, 2]
      return %r : tensor<8xf32>
    }"""
    assert find(payload, "pattern p(x: tensor<a x b x c x f32>) { reduce addf[a b c -> b](x) }").count == 1
    assert find(payload, "pattern p(x: tensor<a x b x c x f32>) { reduce addf[a b c -> b c](x) }").count == 0


SOFTMAX = """pattern p(x: tensor<...m x n x f32>) {
  peak = reduce maximumf[...m n -> ...m](x)
  e = exp(subf(x, broadcast[...m -> ...m n](peak)))
  divf(e, broadcast[...m -> ...m n](reduce addf[...m n -> ...m](e)))
}"""


@pytest.mark.parametrize(("shape", "pack"), [("8", ()), ("4x8", (4,)), ("2x4x8", (2, 4))])
def test_the_softmax_op_is_its_formula(find, shape, pack):
    kind = f"tensor<{shape}xf32>"
    payload = f"""
    func.func @f(%x: {kind}, %e: {kind}) -> {kind} {{
      %r = linalg.softmax dimension({len(pack)}) ins(%x : {kind}) outs(%e : {kind}) -> {kind}
      return %r : {kind}
    }}"""
    assert find(payload, SOFTMAX).dims == {"m": pack, "n": 8}


def test_softmax_over_another_axis_is_another_computation(find):
    payload = """
    func.func @f(%x: tensor<4x8xf32>, %e: tensor<4x8xf32>) -> tensor<4x8xf32> {
      %r = linalg.softmax dimension(0) ins(%x : tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) -> tensor<4x8xf32>
      return %r : tensor<4x8xf32>
    }"""
    assert find(payload, SOFTMAX).count == 0


BYTES = """pattern p(x: tensor<m x n x i8>, scale: tensor<n x f32>, zero: i32 = 0) {
  wide = extui(x) : i32
  mulf(sitofp(wide | subi(wide, zero)) : f32, broadcast[n -> m n](scale))
}"""
ROUNDED = """pattern p(x: tensor<m x n x f32>, scale: f32, zero: f32 = 0.0) {
  whole = roundeven(divf(x, scale))
  fptoui(minimumf(maximumf(whole | addf(whole, zero), 0.0), 255.0)) : i8
}"""
AFFINE = """
  func.func @f(%x: tensor<4x8x{taken}>, %s: {scale}) -> tensor<4x8x{made}> {{
    %z = arith.constant 7 : i64
    %e = tensor.empty() : tensor<4x8x{made}>
    %r = iree_linalg_ext.{op}_affine <indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> {at}>,
      {zero}affine_map<(i, j) -> (i, j)>], quant_min = {limits}> ins(%x, %s{given} : tensor<4x8x{taken}>, {scale}{kind})
      outs(%e : tensor<4x8x{made}>) -> tensor<4x8x{made}>
    return %r : tensor<4x8x{made}>
  }}"""
WITH_ZERO = {"zero": "affine_map<(i, j) -> ()>, ", "given": ", %z", "kind": ", i64"}
WITHOUT_ZERO = {"zero": "", "given": "", "kind": ""}
TO_FLOATS = {"op": "dequantize", "taken": "i8", "made": "f32", "scale": "tensor<8xf32>", "at": "(j)"}
TO_BYTES = {"op": "quantize", "taken": "f32", "made": "i8", "scale": "f32", "at": "()"}


@pytest.mark.parametrize(("zero", "number"), [(WITH_ZERO, 7), (WITHOUT_ZERO, 0)])
def test_quantising_ops_are_their_formulas(find, zero, number):
    unsigned = AFFINE.format(**TO_FLOATS, **zero, limits="0, quant_max = 255, input_unsigned")
    assert find(unsigned, BYTES).inputs.get("zero", 0) == number
    assert find(AFFINE.format(**TO_FLOATS, **zero, limits="-128, quant_max = 127"), BYTES).count == 0
    unsigned = AFFINE.format(**TO_BYTES, **zero, limits="0, quant_max = 255, storage_unsigned")
    assert find(unsigned, ROUNDED).count == 1
    assert find(AFFINE.format(**TO_BYTES, **zero, limits="-128, quant_max = 127"), ROUNDED).count == 0


@pytest.mark.parametrize(("sign", "cast"), [(", zp_unsigned", "extui"), ("", "extsi")])
def test_zero_points_of_channels_are_bytes(find, sign, cast):
    """ONNX has one for each scale, and IREE leaves them as narrow as they are."""
    form = {"zero": "affine_map<(i, j) -> (j)>, ", "given": ", %s1", "kind": ", tensor<8xi8>"}
    program = AFFINE.format(**TO_FLOATS, **form, limits=f"-128, quant_max = 127{sign}")
    program = program.replace("%s: tensor<8xf32>", "%s: tensor<8xf32>, %s1: tensor<8xi8>")
    pattern = """pattern p(x: tensor<m x n x i8>, s: tensor<n x f32>, z: tensor<n x i8>) {
      wide = subi(extsi(x) : i32, CAST(broadcast[n -> m n](z)) : i32)
      mulf(sitofp(wide) : f32, broadcast[n -> m n](s))
    }"""
    assert find(program, pattern.replace("CAST", cast)).count == 1
    assert find(program, pattern.replace("CAST", "extsi" if cast == "extui" else "extui")).count == 0


# ---- broadcasts and units --------------------------------------------------------------------------------------------

SHIFT = "pattern p(x: tensor<m x n x f32>, b: tensor<n x f32>) { addf(x, broadcast[n -> m n](b)) }"
BROADCASTS = {
    "linalg.broadcast": """
        %w = linalg.broadcast ins(%b : tensor<8xf32>) outs(%e : tensor<4x8xf32>) dimensions = [0]
        %r = arith.addf %w, %x : tensor<4x8xf32>""",
    "a map": """
        %r = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j)>,
          affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
          ins(%x, %b : tensor<4x8xf32>, tensor<8xf32>) outs(%e : tensor<4x8xf32>) {
        ^bb0(%1: f32, %2: f32, %o: f32): %3 = arith.addf %1, %2 : f32 linalg.yield %3 : f32 } -> tensor<4x8xf32>""",
    "a dim of size one": """
        %u = tensor.expand_shape %b [[0, 1]] output_shape [1, 8] : tensor<8xf32> into tensor<1x8xf32>
        %r = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (0, j)>,
          affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
          ins(%x, %u : tensor<4x8xf32>, tensor<1x8xf32>) outs(%e : tensor<4x8xf32>) {
        ^bb0(%1: f32, %2: f32, %o: f32): %3 = arith.addf %1, %2 : f32 linalg.yield %3 : f32 } -> tensor<4x8xf32>""",
}


@pytest.mark.parametrize("body", BROADCASTS.values(), ids=list(BROADCASTS))
def test_broadcast_spellings(find, body):
    payload = f"""
    func.func @f(%x: tensor<4x8xf32>, %b: tensor<8xf32>, %e: tensor<4x8xf32>) -> tensor<4x8xf32> {{
      {body}
      return %r : tensor<4x8xf32>
    }}"""
    assert find(payload, SHIFT).dims == {"m": 4, "n": 8}


@pytest.mark.parametrize("used", [False, True])
def test_a_result_that_is_a_view(find, used):
    payload = """
    func.func @f(%x: tensor<4x8xf32>, %e: tensor<8x4xf32>) -> tensor<8x4xf32> {
      %a = math.absf %x : tensor<4x8xf32>
      %r = linalg.transpose ins(%a : tensor<4x8xf32>) outs(%e : tensor<8x4xf32>) permutation = [1, 0]
      return %r : tensor<8x4xf32>
    }"""
    turned = "t = transpose[m n -> n m](absf(x)) t"
    spec = f"pattern p(x: tensor<m x n x f32>) {{ {turned} }}"
    if used:
        spec = (
            f"pattern turned(x: tensor<m x n x f32>) {{ {turned} }} pattern p(x: tensor<a x b x f32>) {{ turned(x) }}"
        )
    outcome = find(payload, spec)
    assert outcome.inputs == {"x": "%arg0"}
    assert outcome.only.roots[0].owner.name == "linalg.transpose"
    assert outcome.only.root_sizes == ((8, 4),)


@pytest.mark.parametrize("spelling", ["constant", "splat", "body", "fill", "captured constant"])
def test_constants_however_they_are_spelled(find, spelling):
    generic = """linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>],
        iterator_types = ["parallel"]} ins(%x : tensor<8xf32>) outs(%e : tensor<8xf32>) {
        ^bb0(%1: f32, %o: f32):"""
    bodies = {
        "constant": "%c = arith.constant dense<0.5> : tensor<8xf32>  %r = arith.mulf %x, %c : tensor<8xf32>",
        "splat": "%s = tensor.splat %half : tensor<8xf32>  %r = arith.mulf %s, %x : tensor<8xf32>",
        "body": f"""%r = {generic} %c = arith.constant 0.5 : f32
          %2 = arith.mulf %1, %c : f32 linalg.yield %2 : f32 }} -> tensor<8xf32>""",
        "fill": """%s = linalg.fill ins(%half : f32) outs(%e : tensor<8xf32>) -> tensor<8xf32>
          %r = arith.mulf %s, %x : tensor<8xf32>""",
        "captured constant": f"""%r = {generic}
          %2 = arith.mulf %1, %half : f32 linalg.yield %2 : f32 }} -> tensor<8xf32>""",
    }
    payload = f"""
    func.func @f(%x: tensor<8xf32>, %e: tensor<8xf32>) -> tensor<8xf32> {{
      %half = arith.constant 0.5 : f32
      {bodies[spelling]}
      return %r : tensor<8xf32>
    }}"""
    assert find(payload, "pattern p(x: tensor<n x f32>) { mulf(x, 0.5) }").count == 1
    assert find(payload, "pattern p(x: tensor<n x f32>) { mulf(x, const(0.4..0.6)) }").count == 1
    assert find(payload, "pattern p(x: tensor<n x f32>) { mulf(x, 0.25) }").count == 0
    assert find(payload, "pattern p(x: tensor<n x f32>, s: f32) { mulf(x, s) }").inputs["s"] == 0.5


def test_a_scalar_from_outside_a_body(find):
    payload = """
    func.func @f(%x: tensor<8xf32>, %s: f32, %e: tensor<8xf32>) -> tensor<8xf32> {
      %r = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>],
        iterator_types = ["parallel"]} ins(%x : tensor<8xf32>) outs(%e : tensor<8xf32>) {
      ^bb0(%1: f32, %o: f32): %2 = arith.mulf %1, %s : f32 linalg.yield %2 : f32 } -> tensor<8xf32>
      return %r : tensor<8xf32>
    }"""
    spec = "pattern p(x: tensor<n x f32>, s: f32) { mulf(x, s) }"
    assert find(payload, spec).inputs == {"x": "%arg0", "s": "%arg1"}
    # A scalar is not a buffer that a kernel could read.
    assert find(payload, "pattern p(x: tensor<n x f32>, s: tensor<f32>) { mulf(x, s) }").count == 0


# ---- equal forms -----------------------------------------------------------------------------------------------------


CONDITIONAL = """%c = arith.cmpf {predicate}, %x, %z : tensor<8xf32>
  %r = arith.select %c, {order} : tensor<8xi1>, tensor<8xf32>"""
POWER = """%p = arith.constant dense<{power}> : tensor<8x{kind}>
  %r = math.{op} : tensor<8xf32>{rest}"""


@pytest.mark.parametrize(
    ("body", "spec"),
    [
        (CONDITIONAL.format(predicate="ugt", order="%x, %z"), "max"),
        (CONDITIONAL.format(predicate="oge", order="%x, %z"), "max"),
        (CONDITIONAL.format(predicate="olt", order="%z, %x"), "max"),
        ("%r = arith.maximumf %z, %x : tensor<8xf32>", "max"),
        (CONDITIONAL.format(predicate="olt", order="%x, %z"), "min"),
        (CONDITIONAL.format(predicate="oeq", order="%x, %z"), ""),
        (CONDITIONAL.format(predicate="ogt", order="%x, %x"), ""),
        ("%r = arith.mulf %x, %x : tensor<8xf32>", "square"),
        (POWER.format(power=2, kind="i32", op="fpowi %x, %p", rest=", tensor<8xi32>"), "square"),
        (POWER.format(power=4, kind="i32", op="fpowi %x, %p", rest=", tensor<8xi32>"), ""),
        (POWER.format(power=2.0, kind="f32", op="powf %x, %p", rest=""), "square"),
        (POWER.format(power=2.0, kind="f32", op="powf %p, %x", rest=""), ""),
        (POWER.format(power=3.0, kind="f32", op="powf %x, %p", rest=""), ""),
        ("%q = math.sqrt %x : tensor<8xf32>\n%r = arith.divf %one, %q : tensor<8xf32>", "root"),
        ("%q = math.sqrt %x : tensor<8xf32>\n%r = arith.divf %q, %one : tensor<8xf32>", ""),
        ("%r = math.rsqrt %x : tensor<8xf32>", "root"),
    ],
)
def test_equal_forms_of_scalar_ops(find, body, spec):
    payload = f"""
    func.func @f(%x: tensor<8xf32>) -> tensor<8xf32> {{
      %z = arith.constant dense<0.0> : tensor<8xf32>
      %one = arith.constant dense<1.0> : tensor<8xf32>
      {body}
      return %r : tensor<8xf32>
    }}"""
    patterns = {
        "max": ["maximumf(x, 0.0)", "select(cmpf(x, 0.0) {predicate = ogt}, x, 0.0)"],
        "min": ["minimumf(0.0, x)", "select(cmpf(x, 0.0) {predicate = ugt}, 0.0, x)"],
        "square": ["mulf(x, x)", "fpowi(x, 2)", "powf(x, 2.0)"],
        "root": ["rsqrt(x)", "divf(1.0, sqrt(x))"],
    }
    for name, forms in patterns.items():
        for form in forms:
            assert find(payload, f"pattern p(x: tensor<n x f32>) {{ {form} }}").count == (name == spec), form


# ---- dynamic shapes --------------------------------------------------------------------------------------------------


def test_dynamic_dims_are_read_from_the_inputs(find):
    payload = """
    func.func @f(%a: tensor<?x16xf32>, %b: tensor<16x?xf32>, %z: tensor<?x?xf32>) -> tensor<?x?xf32> {
      %zero = arith.constant 0.0 : f32
      %s = linalg.fill ins(%zero : f32) outs(%z : tensor<?x?xf32>) -> tensor<?x?xf32>
      %r = linalg.matmul ins(%a, %b : tensor<?x16xf32>, tensor<16x?xf32>) outs(%s : tensor<?x?xf32>) -> tensor<?x?xf32>
      return %r : tensor<?x?xf32>
    }"""
    outcome = find(payload, MATMUL)
    assert outcome.dims == {"m": "%arg0#0", "k": 16, "n": "%arg1#1"}
    assert [f"{s.value.get_name()}#{s.axis}" for s in outcome.only.root_sizes[0]] == ["%arg0#0", "%arg1#1"]


MEAN = "pattern p(x: tensor<m x n x f32>) { divf(reduce addf[m n -> m](x), n) }"


def mean(shape: str, size: str, axis: int = 1) -> str:
    return f"""
    func.func @f(%x: tensor<{shape}xf32>, %z: tensor<4xf32>) -> tensor<4xf32> {{
      %zero = arith.constant 0.0 : f32
      %axis = arith.constant {axis} : index
      %s = linalg.fill ins(%zero : f32) outs(%z : tensor<4xf32>) -> tensor<4xf32>
      %t = linalg.reduce {{ arith.addf }} ins(%x : tensor<{shape}xf32>) outs(%s : tensor<4xf32>) dimensions = [1]
      {size}
      %w = tensor.splat %n : tensor<4xf32>
      %r = arith.divf %t, %w : tensor<4xf32>
      return %r : tensor<4xf32>
    }}"""


DYNAMIC_SIZE = """%d = tensor.dim %x, %axis : tensor<4x?xf32>
  %i = arith.index_cast %d : index to i64
  %n = arith.sitofp %i : i64 to f32"""


def test_a_dim_as_a_number(find):
    assert find(mean("4x8", "%n = arith.constant 8.0 : f32"), MEAN).count == 1
    assert find(mean("4x?", DYNAMIC_SIZE), MEAN).count == 1
    wrong = find(mean("4x8", "%n = arith.constant 4.0 : f32"), MEAN)
    assert wrong.count == 0
    assert wrong.reasons == ["wanted the constant n, found 4.0"]
    assert find(mean("4x?", DYNAMIC_SIZE, axis=0), MEAN).count == 0
    assert find(mean("4x?", "%n = arith.constant 8.0 : f32"), MEAN).count == 0


@pytest.mark.parametrize(
    ("shape", "kind", "where", "count"),
    [
        ("4x8", "m x n", "where n % 8 == 0 and m <= 4", 1),
        ("4x8", "m x n", "where n % 16 == 0", 0),
        ("4x8", "m x n", "where n == 16 or m == 4", 1),
        ("4x8", "m x n", "where not n == 8", 0),
        ("4x?", "m x n", "where m == 4", 1),
        ("4x?", "m x n", "where n % 8 == 0", 0),
        ("4x8", "m x m", "", 0),
        ("8x8", "m x m", "", 1),
        ("4x8", "4 x n", "", 1),
        ("4x8", "n x 4", "", 0),
        ("4x?", "4 x 8", "", 0),
        ("4x?", "? x ?", "", 1),
        ("4x8", "...s", "", 1),
        ("4x8", "...s x 8", "", 1),
        ("4x8", "4 x ...s x 8", "", 1),
        ("4x8", "...s x a x b x c", "", 0),
        ("4x8", "n", "", 0),
    ],
)
def test_dims_and_conditions(find, shape, kind, where, count):
    payload = f"""
    func.func @f(%x: tensor<{shape}xf32>) -> tensor<{shape}xf32> {{
      %r = math.absf %x : tensor<{shape}xf32>
      return %r : tensor<{shape}xf32>
    }}"""
    assert find(payload, f"pattern p(x: tensor<{kind} x f32>) {where} {{ absf(x) }}").count == count


def test_a_condition_that_depends_on_a_dynamic_dim_says_so(find):
    payload = """
    func.func @f(%x: tensor<?xf32>) -> tensor<?xf32> {
      %a = math.absf %x : tensor<?xf32>
      %r = arith.negf %a : tensor<?xf32>
      return %r : tensor<?xf32>
    }"""
    outcome = find(payload, "pattern p(x: tensor<n x f32>) where n % 8 == 0 { negf(absf(x)) }")
    assert outcome.reasons == ["wanted n % 8 == 0, found n = dynamic"]


# ---- several results, quoted ops, patterns in patterns ---------------------------------------------------------------


def test_several_results(find):
    payload = """
    func.func @f(%x: tensor<8xf32>, %y: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
      %d = arith.subf %x, %y : tensor<8xf32>
      %s = arith.addf %y, %x : tensor<8xf32>
      return %s, %d : tensor<8xf32>, tensor<8xf32>
    }"""
    outcome = find(payload, "pattern p(a: tensor<n x f32>, b: tensor<n x f32>) { addf(a, b), subf(a, b) }")
    assert outcome.inputs == {"a": "%arg0", "b": "%arg1"}
    assert [root.owner.name for root in outcome.only.roots] == ["arith.addf", "arith.subf"]


QUOTED = """
func.func @f(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %a = math.absf %x : tensor<4x8xf32>
  %g = "my.gelu"(%a) {approximate = "tanh", note.x = 1 : i32} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %r = arith.negf %g : tensor<4x8xf32>
  return %r : tensor<4x8xf32>
}"""


@pytest.fixture
def quoted(session, find):
    before = session.context.allow_unregistered_dialects
    session.context.allow_unregistered_dialects = True
    yield lambda spec: find(QUOTED, spec)
    session.context.allow_unregistered_dialects = before


@pytest.mark.parametrize(
    ("body", "count"),
    [
        ('"my.gelu"(x)', 1),
        ('"my.gelu"(x) {approximate = "tanh"}', 1),
        ('"my.gelu"(x) {approximate = "none"}', 0),
        ('"my.gelu"(x) {beta = 1}', 0),
        ('"my.gelu"(absf(x)) : tensor<m x n x f32>', 1),
        ('"my.gelu"(x) : tensor<m x n x f64>', 0),
        ('"my.gelu"(x) : tensor<n x n x f32>', 0),
        ('negf("my.gelu"(absf(x)) : tensor<m x n x f32>)', 1),
        ('negf("my.gelu"(negf(x)) : tensor<m x n x f32>)', 0),
    ],
)
def test_quoted_ops(quoted, body, count):
    assert quoted(f"pattern p(x: tensor<m x n x f32>) {{ {body} }}").count == count


def test_a_pattern_used_in_a_pattern(find):
    payload = FUNCTION.format(body=ELEMENTWISE["one fused generic"])
    inner = "pattern inner<T>(y: tensor<...s x T>) {where} {{ absf(y) }} "
    outer = "pattern p(x: tensor<m x n x f32>) { negf(inner(x)) }"
    assert find(payload, inner.format(where="") + outer).dims == {"m": 4, "n": 8}
    fixed = "pattern inner(y: tensor<a x b x f32>) where {} {{ absf(y) }} "
    assert find(payload, fixed.format("b == 8") + outer).count == 1
    assert find(payload, fixed.format("b == 4") + outer).reasons == ["wanted b == 4, found b = 8"]


def test_dims_of_a_used_pattern_are_its_own(find):
    payload = mean("4x8", "%n = arith.constant 8.0 : f32")
    inner = "pattern average(x: tensor<n x m x f32>) { divf(reduce addf[n m -> n](x), m) } "
    assert find(payload, inner + "pattern p(x: tensor<m x n x f32>) { average(x) }").dims == {"m": 4, "n": 8}


def test_a_used_pattern_with_two_results_is_looked_for_once(find):
    payload = """
    func.func @f(%x: tensor<4x8xf32>, %z: tensor<4xf32>) -> tensor<4xf32> {
      %zero = arith.constant dense<0.0> : tensor<4xf32>
      %s = linalg.reduce { arith.addf } ins(%x : tensor<4x8xf32>) outs(%zero : tensor<4xf32>) dimensions = [1]
      %a = math.exp %s : tensor<4xf32>
      %b = math.absf %s : tensor<4xf32>
      %r = arith.mulf %a, %b : tensor<4xf32>
      return %r : tensor<4xf32>
    }"""
    spec = """
    pattern two(x: tensor<m x n x f32>) { s = reduce addf[m n -> m](x)  exp(s), absf(s) }
    pattern p(x: tensor<m x n x f32>) { a, b = two(x)  mulf(a, b) }"""
    assert find(payload, spec).count == 1


def test_equal_reductions_written_twice_are_the_same_reduction(find):
    payload = """
    func.func @f(%x: tensor<4x8xf32>) -> tensor<4xf32> {
      %zero = arith.constant dense<0.0> : tensor<4xf32>
      %s = linalg.reduce { arith.addf } ins(%x : tensor<4x8xf32>) outs(%zero : tensor<4xf32>) dimensions = [1]
      %a = math.exp %s : tensor<4xf32>
      %r = arith.mulf %a, %s : tensor<4xf32>
      return %r : tensor<4xf32>
    }"""
    spec = "pattern p(x: tensor<m x n x f32>) { mulf(exp(reduce addf[m n -> m](x)), reduce addf[m n -> m](x)) }"
    assert find(payload, spec).count == 1


# ---- places ----------------------------------------------------------------------------------------------------------


def test_regions_functions_and_bodies(find):
    payload = """
    module {
      func.func private @declared(tensor<8xf32>) -> tensor<8xf32>
      func.func @inside(%x: tensor<8xf32>, %c: i1) -> tensor<8xf32> {
        %a = math.absf %x : tensor<8xf32>
        %r = scf.if %c -> tensor<8xf32> {
          %n = arith.negf %a : tensor<8xf32>
          scf.yield %n : tensor<8xf32>
        } else {
          scf.yield %x : tensor<8xf32>
        }
        return %r : tensor<8xf32>
      }
      func.func @looped(%x: tensor<8xf32>, %n: index) -> tensor<8xf32> {
        %zero = arith.constant 0 : index
        %one = arith.constant 1 : index
        %r = scf.for %i = %zero to %n step %one iter_args(%y = %x) -> tensor<8xf32> {
          %a = math.absf %y : tensor<8xf32>
          %m = arith.negf %a : tensor<8xf32>
          scf.yield %m : tensor<8xf32>
        }
        return %r : tensor<8xf32>
      }
      func.func @scalars(%x: f32) -> f32 {
        %a = math.absf %x : f32
        %r = arith.negf %a : f32
        return %r : f32
      }
    }"""
    outcome = find(payload, "pattern p(x: tensor<...n x f32>) { negf(absf(x)) }")
    assert [match.function for match in outcome.found.matches] == ["inside", "looped"]


# As torch does `repeat_kv`: no tensor has the dims of `v`, but one is a reshape of it.
GROUPED = """
func.func @f(%a: tensor<8x3x5xf32>, %v: tensor<2x2x5x4xf32>, %c: tensor<2x3x4xf32>) -> tensor<2x4x3x4xf32> {{
  %e = tensor.empty() : tensor<2x2x2x5x4xf32>
  %b = linalg.broadcast ins(%v : tensor<2x2x5x4xf32>) outs(%e : tensor<2x2x2x5x4xf32>) dimensions = [{repeated}]
  %g = tensor.collapse_shape %b [[0, 1, 2], [3], [4]] : tensor<2x2x2x5x4xf32> into tensor<8x5x4xf32>
  %z = arith.constant 0.0 : f32
  %o = tensor.empty() : tensor<8x3x4xf32>
  %f = linalg.fill ins(%z : f32) outs(%o : tensor<8x3x4xf32>) -> tensor<8x3x4xf32>
  %p = linalg.batch_matmul ins(%a, %g : tensor<8x3x5xf32>, tensor<8x5x4xf32>)
    outs(%f : tensor<8x3x4xf32>) -> tensor<8x3x4xf32>
  %s = tensor.expand_shape %p [[0, 1], [2], [3]] output_shape [{batches}, 3, 4]
    : tensor<8x3x4xf32> into tensor<{made}x3x4xf32>
  %w = tensor.empty() : tensor<{made}x3x4xf32>
  %m = linalg.broadcast ins(%c : tensor<2x3x4xf32>) outs(%w : tensor<{made}x3x4xf32>) dimensions = [{along}]
  %r = arith.addf %s, %m : tensor<{made}x3x4xf32>
  %k = tensor.collapse_shape %r [[0, 1], [2], [3]] : tensor<{made}x3x4xf32> into tensor<8x3x4xf32>
  %y = tensor.expand_shape %k [[0, 1], [2], [3]] output_shape [2, 4, 3, 4]
    : tensor<8x3x4xf32> into tensor<2x4x3x4xf32>
  return %y : tensor<2x4x3x4xf32>
}}"""
BATCHED = """pattern p(a: tensor<b x h x s x t x f32>, v: tensor<b x h x t x e x f32>, c: tensor<b x s x e x f32>) {
  addf(contract[b h s t, b h t e -> b h s e](a, v), broadcast[b s e -> b h s e](c))
}"""


def test_an_input_may_be_a_reshape_of_a_value(find):
    outcome = find(GROUPED.format(repeated=2, batches="2, 4", made="2x4", along=1), BATCHED)
    assert outcome.inputs == {"a": "%arg0", "v": "%collapsed", "c": "%arg2"}
    assert outcome.dims == {"b": 2, "h": 4, "s": 3, "t": 5, "e": 4}
    assert outcome.only.shapes["v"] == (2, 4, 5, 4)


def test_a_reshape_has_its_dims_in_their_order(find):
    """Here the batch is the second dim, and that is no way to see `a` and `v`."""
    assert find(GROUPED.format(repeated=2, batches="4, 2", made="4x2", along=0), BATCHED).count == 0


def test_a_tensor_of_its_own_dims_goes_before_a_reshape(find):
    payload = """
    func.func @f(%a: tensor<2x4x3xf32>, %c: tensor<2x3xf32>) -> tensor<2x4x3xf32> {
      %g = tensor.collapse_shape %a [[0, 1], [2]] : tensor<2x4x3xf32> into tensor<8x3xf32>
      %n = arith.negf %g : tensor<8x3xf32>
      %s = tensor.expand_shape %n [[0, 1], [2]] output_shape [2, 4, 3] : tensor<8x3xf32> into tensor<2x4x3xf32>
      %w = tensor.empty() : tensor<2x4x3xf32>
      %m = linalg.broadcast ins(%c : tensor<2x3xf32>) outs(%w : tensor<2x4x3xf32>) dimensions = [1]
      %r = arith.addf %s, %m : tensor<2x4x3xf32>
      return %r : tensor<2x4x3xf32>
    }"""
    spec = """pattern p(a: tensor<b x h x s x f32>, c: tensor<b x s x f32>) {
      addf(negf(a), broadcast[b s -> b h s](c))
    }"""
    assert find(payload, spec).inputs == {"a": "%arg0", "c": "%arg1"}


# As jax.vmap over another axis than the first does: what is reduced is read before a transpose, the rest after it.
TRANSPOSED = """
func.func @f(%x: tensor<4x6x32xf32>) -> tensor<6x4x32xf32> {{
  %i = arith.constant dense<0.0> : tensor<4x6xf32>
  %et = tensor.empty() : tensor<6x4x32xf32>
  %ep = tensor.empty() : tensor<6x4xf32>
  %s = linalg.reduce {{arith.addf}} ins(%{first} : tensor<4x6x32xf32>) outs(%i : tensor<4x6xf32>) dimensions = [2]
  %xt = linalg.transpose ins(%x : tensor<4x6x32xf32>) outs(%et : tensor<6x4x32xf32>) permutation = [1, 0, 2]
  %st = linalg.transpose ins(%s : tensor<4x6xf32>) outs(%ep : tensor<6x4xf32>) permutation = [1, 0]
  %sb = linalg.broadcast ins(%st : tensor<6x4xf32>) outs(%et : tensor<6x4x32xf32>) dimensions = [2]
  %r = arith.subf %xt, %sb : tensor<6x4x32xf32>
  return %r : tensor<6x4x32xf32>
}}"""


@pytest.mark.parametrize("rows", ["...m", "m x k"])
def test_an_input_read_before_and_after_a_transpose(find, rows):
    names = rows.replace(" x", "")
    spec = f"""pattern p(x: tensor<{rows} x n x f32>) {{
      subf(x, broadcast[{names} -> {names} n](reduce addf[{names} n -> {names}](x)))
    }}"""
    outcome = find(TRANSPOSED.format(first="x"), spec)
    assert outcome.inputs == {"x": "%transposed"}
    assert sorted(op.name for op in outcome.only.ops) == [
        "arith.subf",
        "linalg.broadcast",
        "linalg.reduce",
        "linalg.transpose",
    ]


def test_an_input_read_before_and_after_a_reshape(find):
    payload = """
    func.func @f(%x: tensor<4x6x32xf32>) -> tensor<24x32xf32> {
      %i = arith.constant dense<0.0> : tensor<4x6xf32>
      %e = tensor.empty() : tensor<24x32xf32>
      %s = linalg.reduce {arith.addf} ins(%x : tensor<4x6x32xf32>) outs(%i : tensor<4x6xf32>) dimensions = [2]
      %xt = tensor.collapse_shape %x [[0, 1], [2]] : tensor<4x6x32xf32> into tensor<24x32xf32>
      %st = tensor.collapse_shape %s [[0, 1]] : tensor<4x6xf32> into tensor<24xf32>
      %sb = linalg.broadcast ins(%st : tensor<24xf32>) outs(%e : tensor<24x32xf32>) dimensions = [1]
      %r = arith.subf %xt, %sb : tensor<24x32xf32>
      return %r : tensor<24x32xf32>
    }"""
    spec = """pattern p(x: tensor<m x n x f32>) {
      subf(x, broadcast[m -> m n](reduce addf[m n -> m](x)))
    }"""
    outcome = find(payload, spec)
    assert outcome.inputs == {"x": "%collapsed"}
    assert outcome.dims == {"m": 24, "n": 32}


def test_code_inside_dispatches_is_left_alone(find):
    payload = """
    flow.executable private @ex {
      flow.executable.export public @entry
      builtin.module {
        func.func @entry(%x: tensor<8xf32>) -> tensor<8xf32> {
          %a = math.absf %x : tensor<8xf32>
          %r = arith.negf %a : tensor<8xf32>
          return %r : tensor<8xf32>
        }
      }
    }"""
    assert find(payload, "pattern p(x: tensor<n x f32>) { negf(absf(x)) }").count == 0


def test_a_value_with_other_uses_still_matches(find):
    payload = """
    func.func @f(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
      %a = math.absf %x : tensor<8xf32>
      %r = arith.negf %a : tensor<8xf32>
      return %r, %a : tensor<8xf32>, tensor<8xf32>
    }"""
    outcome = find(payload, "pattern p(x: tensor<n x f32>) { negf(absf(x)) }")
    assert sorted(op.name for op in outcome.only.ops) == ["arith.negf", "math.absf"]
