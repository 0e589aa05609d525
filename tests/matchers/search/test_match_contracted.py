"""`contracts("m 32, k ?")`: contractions by the kinds of their dims, however their operands lie."""

from __future__ import annotations

import pytest

from opsplice.common.errors import OpspliceError
from opsplice.spec_lang.formatting import formatter
from opsplice.spec_lang.linting.named_ops import mistakes
from opsplice.spec_lang.loading.loader import load_text

MK_KN = "(m, k)>, affine_map<(m, n, k) -> (k, n)>"
KM_NK = "(k, m)>, affine_map<(m, n, k) -> (n, k)>"


def generic(maps: str, left: str, right: str, times: str = "arith.mulf") -> str:
    return f"""linalg.generic {{indexing_maps = [affine_map<(m, n, k) -> {maps}, affine_map<(m, n, k) -> (m, n)>],
        iterator_types = ["parallel", "parallel", "reduction"]}}
        ins({left}, {right}) outs(%e : tensor<32x48xf32>) {{
    ^bb0(%a: f32, %b: f32, %o: f32):
      %p = {times} %a, %b : f32
      %s = arith.addf %o, %p : f32
      linalg.yield %s : f32
    }} -> tensor<32x48xf32>"""


PROGRAM = f"""
func.func @f(%x: tensor<32x64xf32>, %y: tensor<64x48xf32>, %u: tensor<64x32xf32>, %v: tensor<48x64xf32>,
             %l: tensor<2x32x64xf32>, %r: tensor<2x64x?xf32>, %d: tensor<2x32x?xf32>, %e: tensor<32x48xf32>,
             %vec: tensor<64xf32>, %w: tensor<32xf32>)
    -> (tensor<32x48xf32>, tensor<32x48xf32>, tensor<32x48xf32>, tensor<2x32x?xf32>, tensor<32xf32>,
        tensor<32x48xf32>) {{
  %named = linalg.matmul ins(%x, %y : tensor<32x64xf32>, tensor<64x48xf32>) outs(%e : tensor<32x48xf32>)
      -> tensor<32x48xf32>
  %turned = {generic(KM_NK, "%u", "%v : tensor<64x32xf32>, tensor<48x64xf32>")}
  %largest = {generic(MK_KN, "%x", "%y : tensor<32x64xf32>, tensor<64x48xf32>", "arith.maximumf")}
  %batch = linalg.batch_matmul ins(%l, %r : tensor<2x32x64xf32>, tensor<2x64x?xf32>) outs(%d : tensor<2x32x?xf32>)
      -> tensor<2x32x?xf32>
  %vector = linalg.matvec ins(%x, %vec : tensor<32x64xf32>, tensor<64xf32>) outs(%w : tensor<32xf32>) -> tensor<32xf32>
  %product = {generic(MK_KN, "%x", "%y : tensor<32x64xf32>, tensor<64x48xf32>")}
  return %named, %turned, %largest, %batch, %vector, %product : tensor<32x48xf32>, tensor<32x48xf32>,
      tensor<32x48xf32>, tensor<2x32x?xf32>, tensor<32xf32>, tensor<32x48xf32>
}}
"""
PATTERN = """pattern p(x: tensor<...a x f32>, y: tensor<...b x f32>, z: tensor<...c x f32>) where contracts("{}") {{
  "linalg.*"(x, y, z) {{...}}
}}
"""
ALL = ["linalg.matmul", "linalg.generic", "linalg.batch_matmul", "linalg.matvec", "linalg.generic"]


@pytest.mark.parametrize(
    ("asked", "names"),
    [
        ("", ALL),
        ("m 32, n 48", ["linalg.matmul", "linalg.generic", "linalg.generic"]),
        ("m 48", []),
        ("b", ["linalg.matmul", "linalg.generic", "linalg.matvec", "linalg.generic"]),
        ("b 2, k 64", ["linalg.batch_matmul"]),
        ("n ?", ["linalg.matmul", "linalg.generic", "linalg.batch_matmul", "linalg.generic"]),
        ("b ?, n 48", []),
        ("n", ["linalg.matvec"]),
        ("m 32 2", []),
    ],
)
def test_contractions_are_found_by_the_kinds_of_their_dims(find, asked, names):
    assert [match.roots[0].owner.name for match in find(PROGRAM, PATTERN.format(asked)).found.matches] == names


def test_what_is_no_contraction_is_told_from_one_that_looks_the_same(find):
    """In either order: an engine that remembers a place by its maps and types would take one for the other."""
    for first, second in (("maximumf", "mulf"), ("mulf", "maximumf")):
        bodies = [
            generic(MK_KN, "%x", "%y : tensor<32x64xf32>, tensor<64x48xf32>", f"arith.{name}")
            for name in (first, second)
        ]
        payload = f"""
        func.func @f(%x: tensor<32x64xf32>, %y: tensor<64x48xf32>, %e: tensor<32x48xf32>)
            -> (tensor<32x48xf32>, tensor<32x48xf32>) {{
          %0 = {bodies[0]}
          %1 = {bodies[1]}
          return %0, %1 : tensor<32x48xf32>, tensor<32x48xf32>
        }}"""
        assert find(payload, PATTERN.format("m 32")).roots == [f"%{int(second == 'mulf')}"]


def test_sizes_that_differ_are_said(find):
    reasons = find(PROGRAM, PATTERN.format("k 65")).reasons
    assert 'wanted contracts("k 65"), found b, m 32, n 48, k 64' in reasons
    assert 'wanted contracts("k 65"), found b 2, m 32, n ?, k 64' in reasons
    assert 'wanted contracts("k 65"), found no contraction' in reasons


def test_a_rule_that_replaces_a_contraction_of_any_layout_gets_a_warning():
    rule = 'kernel k(x: f32[...a]) -> f32[...a] { cpu "k.c" }\nreplace p with k(x)\n'
    for text, count in ((PATTERN.format("m 3") + rule, 1), (PATTERN.format("m 3") + "annotate p with {my.tag}", 0)):
        found = [each.message for each in mistakes(load_text(text)) if each.code == "unlooked-body"]
        assert len(found) == count
        assert all("transposed operands" in message for message in found)


def test_the_condition_is_written_as_it_was():
    assert 'contracts("b 2 ?, k 64")' in formatter.format(PATTERN.format("b 2 ?, k 64"))


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ("x 2", "not x"),
        ("m 1, m 2", "not m"),
        ("m,", "not nothing"),
        ("m -1", "a size is a number or [?], not -1"),
        ("m 3x", "not 3x"),
    ],
)
def test_what_asks_for_no_sizes_is_an_error(asked, why):
    with pytest.raises(OpspliceError, match=f"contracts: .*{why}"):
        load_text(PATTERN.format(asked))
