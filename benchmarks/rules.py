"""Rules by the number, in three languages: ours, transform-dialect specs for `foreach_match`, and PDL.

The first rule is softmax, which is in every layer of the payload. The others are in none: softmax with rows of sizes
that no layer has, sums of squares that are scaled otherwise, and chains of elementwise ops. Many end with the same ops
as the payload's own, so that a name alone does not rule them out.
"""

from __future__ import annotations

from typing import Any

from iree.compiler import ir

from benchmarks.payload import HEADS, ROWS, WIDTH, Layer, tensor

_UNARY = ("tanh", "sin", "cos", "log", "absf", "sqrt", "floor", "ceil", "erf", "exp2")
_BINARY = ("mulf", "addf", "subf", "divf", "maximumf")


def ours(count: int) -> str:
    """A `.splice` file with the patterns p0, p1, ..."""
    return "\n".join(_pattern(i) for i in range(count))


def transform_spec(count: int) -> str:
    """A spec that tries the matchers in order and marks what they find."""
    parts = [_matcher(i) for i in range(count)]
    pairs = ", ".join(f"@match_{i} -> @mark" for i in range(count))
    return f"""module attributes {{transform.with_named_sequence}} {{
      {"".join(parts)}
      transform.named_sequence @mark(%root: !transform.any_op {{transform.readonly}}) {{
        transform.annotate %root "found" : !transform.any_op
        transform.yield
      }}
      transform.named_sequence @__transform_main(%module: !transform.any_op) {{
        transform.foreach_match in %module {pairs} : (!transform.any_op) -> !transform.any_op
        transform.yield
      }}
    }}"""


def pdl(count: int, context: ir.Context) -> str:
    """PDL patterns over the same ops, which call the constraint "found" with the root; PDL cannot look into bodies."""
    return "module {" + "\n".join(_pdl_pattern(i, context) for i in range(count)) + "}"


# ---- the rules ---------------------------------------------------------------------------------------------------


def _choices(i: int) -> tuple[str, str, str, str]:
    return _UNARY[i // 3 % 10], _UNARY[i // 30 % 10], _UNARY[i // 300 % 10], _BINARY[i % 5]


def _row(i: int) -> int:
    """The size of a row of softmax number i."""
    return ROWS if i == 0 else 1000 + i


def _kind(i: int) -> str:
    return "softmax" if i == 0 else ("chain", "norm", "softmax")[i % 3]


def _pattern(i: int) -> str:
    first, second, third, last = _choices(i)
    if _kind(i) == "softmax":
        where = "" if i == 0 else f" where n == {_row(i)}"
        return f"""pattern p{i}(x: tensor<...m x n x f32>){where} {{
          e = exp(subf(x, broadcast[...m -> ...m n](reduce maximumf[...m n -> ...m](x))))
          divf(e, broadcast[...m -> ...m n](reduce addf[...m n -> ...m](e)))
        }}"""
    if _kind(i) == "norm":
        return f"""pattern p{i}(x: tensor<...m x n x f32>, gain: tensor<n x f32>) {{
          scale = {second}(reduce addf[...m n -> ...m](mulf({first}(x), x)))
          mulf(mulf(x, broadcast[...m -> ...m n](scale)), broadcast[n -> ...m n]({third}(gain)))
        }}"""
    return f"pattern p{i}(x: tensor<...m x n x f32>) {{ {last}({first}({second}(x)), {third}(x)) }}"


def _lines(i: int) -> tuple[dict[str, tuple[int, ...]], list[str]]:
    """The ops of a rule as a frontend spells them, with its arguments and their shapes."""
    layer = Layer()
    first, second, third, last = _choices(i)
    if _kind(i) == "softmax":
        shape = (HEADS, ROWS, _row(i))
        layer.lines += ["%zero = arith.constant 0.0 : f32", "%lowest = arith.constant 0xFF800000 : f32"]
        layer.softmax("%x", shape)
        return {"%x": shape}, layer.lines
    shape = (ROWS, WIDTH)
    if _kind(i) == "chain":
        inner = layer.map(f"math.{second}", shape, "%x")
        left, right = layer.map(f"math.{first}", shape, inner), layer.map(f"math.{third}", shape, "%x")
        layer.map(f"arith.{last}", shape, left, right)
        return {"%x": shape}, layer.lines
    layer.lines.append("%zero = arith.constant 0.0 : f32")
    square = layer.map("arith.mulf", shape, layer.map(f"math.{first}", shape, "%x"), "%x")
    scale = layer.map(f"math.{second}", shape[:1], layer.reduce("arith.addf", "%zero", shape, square))
    gain = layer.map(f"math.{third}", shape[1:], "%gain")
    layer.columns("arith.mulf", shape, layer.rows("arith.mulf", shape, "%x", scale), gain)
    return {"%x": shape, "%gain": shape[1:]}, layer.lines


# ---- the peers' languages ----------------------------------------------------------------------------------------


def _matcher(i: int) -> str:
    parameters, lines = _lines(i)
    body = "\n".join(lines)
    return f"""
      transform.named_sequence @match_{i}(%root: !transform.any_op {{transform.readonly}}) -> !transform.any_op {{
        %ins, %outs = transform.iree.match.cast_compatible_dag_from_root %root {{
        ^bb0({_arguments(parameters)}):
          {body}
        }} : (!transform.any_op) -> (!transform.any_value, !transform.any_value)
        transform.yield %root : !transform.any_op
      }}"""


def _arguments(parameters: dict[str, tuple[int, ...]]) -> str:
    return ", ".join(f"{name}: {tensor(shape)}" for name, shape in parameters.items())


def _pdl_pattern(i: int, context: ir.Context) -> str:
    parameters, lines = _lines(i)
    body = "\n".join(lines)
    module = ir.Module.parse(f"func.func @f({_arguments(parameters)}) {{\n{body}\nreturn\n}}", context=context)
    block = module.body.operations[0].regions[0].blocks[0]
    out: list[str] = []
    types: dict[str, str] = {}
    values: dict[Any, str] = {}

    def type_of(value: Any) -> str:
        text = str(value.type)
        if text not in types:
            types[text] = f"%type{len(types)}"
            out.append(f"{types[text]} = pdl.type : {text}")
        return types[text]

    for number, argument in enumerate(block.arguments):
        values[argument] = f"%argument{number}"
        out.append(f"%argument{number} = pdl.operand : {type_of(argument)}")
    *ops, _ = block.operations
    root = ""
    for number, view in enumerate(ops):
        op, root = view.operation, f"%op{number}"
        attributes = []
        for name in ("indexing_maps", "value"):
            if name in op.attributes:
                out.append(f"{root}_{name} = pdl.attribute = {op.attributes[name]}")
                attributes.append(f'"{name}" = {root}_{name}')
        operands = ", ".join(values[v] for v in op.operands)
        given = f"({operands} : {', '.join(['!pdl.value'] * len(op.operands))})" if operands else ""
        named = f" {{{', '.join(attributes)}}}" if attributes else ""
        out.append(f'{root} = pdl.operation "{op.name}" {given}{named} -> ({type_of(op.results[0])} : !pdl.type)')
        out.append(f"%value{number} = pdl.result 0 of {root}")
        values[op.results[0]] = f"%value{number}"
    text = "\n".join(out)
    return f"""pdl.pattern @p{i} : benefit(1) {{
      {text}
      pdl.apply_native_constraint "found"({root} : !pdl.operation)
      pdl.rewrite {root} with "never"
    }}"""
