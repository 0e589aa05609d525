"""Rules by the number, in two languages: ours and transform-dialect specs for `foreach_match`.

The first rule is softmax. The others are in no model: softmax with rows of sizes that no model has, sums of squares
that are scaled otherwise, and chains of elementwise ops. Many end with the same ops as the models' own, so that a name
alone does not rule them out.
"""

from __future__ import annotations

from benchmarks.programs.payload import HEADS, ROWS, WIDTH, Layer, tensor

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
