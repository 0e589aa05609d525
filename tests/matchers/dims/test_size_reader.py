"""Sizes that a program computes in small tensors, as frontends of ONNX write shapes."""

from __future__ import annotations

import pytest
from iree.compiler import ir

from opsplice.matchers.dims.size_reader import SizeReader
from opsplice.matchers.ir.op_names import ops_in
from opsplice.pipeline.compiler import Compilation

PROGRAM = """
#one = affine_map<(d) -> (d)>
#none = affine_map<() -> ()>
#all = affine_map<(d) -> ()>
#first = affine_map<(d) -> (0)>
util.func public @f(%v: !hal.buffer_view, %unknown: tensor<2xi64>) {{
  %d0 = hal.buffer_view.dim<%v : !hal.buffer_view>[0] : index
  %d1 = hal.buffer_view.dim<%v : !hal.buffer_view>[1] : index
  %m = arith.index_cast %d0 : index to i64
  %n = arith.index_cast %d1 : index to i64
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  %mn = arith.muli %m, %n : i64
  %both = arith.constant dense<[4, 1]> : tensor<2xi64>
  %e = tensor.empty() : tensor<2xi64>
  %e1 = tensor.empty() : tensor<1xi64>
  %s = tensor.empty() : tensor<i64>
  %sizes = tensor.from_elements %mn, %n : tensor<2xi64>
  {program}
}}"""
ON_TWO = """linalg.generic {{indexing_maps = [#one, {map}, #one], iterator_types = ["parallel"]}}
    ins({x}, {y} : tensor<2xi64>, {kind}) outs(%e : tensor<2xi64>) {{
  ^bb0(%a: i64, %b: i64, %o: i64):
    {body}
    linalg.yield %r : i64
  }} -> tensor<2xi64>"""


def on_two(body: str, x: str = "%sizes", y: str = "%both", map_: str = "#one", kind: str = "tensor<2xi64>") -> str:
    return "%t = " + ON_TWO.format(x=x, y=y, map=map_, kind=kind, body=body)


TIMES = "%r = arith.muli %a, %b : i64"
AT_LEAST_ONE = "%k = arith.maxsi %b, %one : i64 %r = arith.divsi %a, %k : i64"
CHOSEN = """%t = linalg.generic {{indexing_maps = [#none, #none, #none, #none], iterator_types = []}}
    ins(%i, %x, %y : tensor<i1>, tensor<i64>, tensor<i64>) outs(%s : tensor<i64>) {{
  ^bb0(%p: i1, %a: i64, %b: i64, %o: i64):
    %r = arith.select %p, %a, %b : i64
    linalg.yield %r : i64
  }} -> tensor<i64>
  %x_ = arith.constant 0 : i64"""


def chosen(asked: str, then: str, otherwise: str) -> str:
    return f"""%is = arith.cmpi {asked} : i64
  %s1 = tensor.empty() : tensor<i1>
  %i = linalg.fill ins(%is : i1) outs(%s1 : tensor<i1>) -> tensor<i1>
  %x = linalg.fill ins({then} : i64) outs(%s : tensor<i64>) -> tensor<i64>
  %y = linalg.fill ins({otherwise} : i64) outs(%s : tensor<i64>) -> tensor<i64>
  """ + CHOSEN.format()


@pytest.mark.parametrize(
    ("program", "kind", "at", "wanted"),
    [
        ("%t = tensor.from_elements %m, %n : tensor<2xi64>", "tensor<2xi64>", "%c1", "n"),
        (on_two(TIMES), "tensor<2xi64>", "%c0", "4mn"),
        (on_two(TIMES), "tensor<2xi64>", "%c1", "n"),
        (on_two(TIMES, y="%sizes"), "tensor<2xi64>", "%c1", "nn"),
        (on_two(TIMES, y="%unknown"), "tensor<2xi64>", "%c1", None),
        (on_two(TIMES), "tensor<2xi64>", "%d0", None),
        (on_two("%i = linalg.index 0 : index %r = arith.index_cast %i : index to i64"), "tensor<2xi64>", "%c1", None),
        (on_two(AT_LEAST_ONE, y="%sizes"), "tensor<2xi64>", "%c1", "1"),
        (on_two(AT_LEAST_ONE, y="%half", map_="#first", kind="tensor<1xi64>"), "tensor<2xi64>", "%c0", "m"),
        (on_two(AT_LEAST_ONE, y="%whole", map_="#all", kind="tensor<i64>"), "tensor<2xi64>", "%c0", "m"),
        (on_two(AT_LEAST_ONE, y="%half", map_="#first", kind="tensor<1xi64>"), "tensor<2xi64>", "%c1", "1"),
        (on_two("%r = arith.maxsi %a, %one : i64"), "tensor<2xi64>", "%c1", None),
        ("%scales = arith.constant dense<[1.0, 2.0]> : tensor<2xf32> "
         + on_two("%r = arith.fptosi %b : f32 to i64", y="%scales", kind="tensor<2xf32>").replace("%b: i64", "%b: f32"),
         "tensor<2xi64>", "%c1", None),
        ("%j = tensor.concat dim(0) %both, %sizes : (tensor<2xi64>, tensor<2xi64>) -> tensor<4xi64> "
         "%t = tensor.extract_slice %j[1] [2] [2] : tensor<4xi64> to tensor<2xi64>", "tensor<2xi64>", "%c1", "n"),
        (chosen("eq, %n, %zero", "%mn", "%n"), "tensor<i64>", "", "n"),
        (chosen("eq, %n, %zero", "%m", "%n"), "tensor<i64>", "", None),
        (chosen("eq, %m, %zero", "%mn", "%n"), "tensor<i64>", "", None),
        (chosen("eq, %one, %zero", "%mn", "%n"), "tensor<i64>", "", "n"),
        (chosen("eq, %n, %n", "%mn", "%n"), "tensor<i64>", "", "mn"),
    ],
)  # fmt: skip
def test_numbers_are_read_from_small_tensors(program, kind, at, wanted):
    """And none of a tensor of which not all is known, or at a place that is not."""
    for name, made in (("half", "tensor<1xi64>"), ("whole", "tensor<i64>")):
        start = "%e1" if name == "half" else "%s"
        program = f"%{name} = linalg.fill ins(%n : i64) outs({start} : {made}) -> {made}\n  {program}"
    program += f"\n  %found = tensor.extract %t[{at}] : {kind}\n  util.return"
    with Compilation() as compilation:
        module = ir.Module.parse(PROGRAM.format(program=program), compilation.context)
        assert module.operation.verify()
        (extract,) = ops_in(module.operation, "tensor.extract")
        dims = ops_in(module.operation, "hal.buffer_view.dim")
        casts = {op.results[0]: name for op, name in zip(dims, "mn", strict=True)}
        found = SizeReader().number(extract.results[0])
        if wanted is None:
            assert found.atom == extract.results[0]
            return
        powers = "".join(casts[atom] * power for atom, power in found.atoms)
        assert f"{'' if found.factor == 1 and powers else found.factor}{''.join(sorted(powers))}" == wanted
