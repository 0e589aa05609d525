"""Halves of all sizes on a CPU without an instruction that makes halves, as x86_64 is where no features are named."""

import numpy as np

import opsplice

ALL = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
BODIES = {
    "square": ("f16", "%r = arith.mulf %a, %a : f16"),
    "clamped": ("f16", "%zero = arith.constant 0.0 : f16\n    %r = arith.maximumf %a, %zero : f16"),
    "narrowed": ("f32", "%r = arith.truncf %a : f32 to f16"),
}
TEXT = """
func.func @{name}(%x: tensor<?x{kind}>) -> tensor<?xf16> {{
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?x{kind}>
  %e = tensor.empty(%n) : tensor<?xf16>
  %y = linalg.generic {{
      indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}}
      ins(%x : tensor<?x{kind}>) outs(%e : tensor<?xf16>) {{
  ^bb0(%a: {kind}, %o: f16):
    {body}
    linalg.yield %r : f16
  }} -> tensor<?xf16>
  return %y : tensor<?xf16>
}}
"""


def test_each_half_is_rounded_to_even():
    program = opsplice.compile("".join(TEXT.format(name=name, kind=k, body=b) for name, (k, b) in BODIES.items()))
    random = np.random.default_rng(0)
    exact = ALL[np.isfinite(ALL)].astype(np.float32)
    between = (np.sort(exact)[1:] + np.sort(exact)[:-1]) / 2
    bits = random.integers(0, 1 << 32, 1 << 16, dtype=np.uint32).view(np.float32)
    numbers = np.concatenate([exact, between, np.nextafter(between, np.float32(0)), bits])
    with np.errstate(all="ignore"):
        wanted = {
            "square": (ALL, (ALL.astype(np.float32) ** 2).astype(np.float16)),
            "clamped": (ALL, np.maximum(ALL, np.float16(0))),
            "narrowed": (numbers, numbers.astype(np.float16)),
        }
    for name, (given, expected) in wanted.items():
        np.testing.assert_array_equal(program.run(name, given), expected, err_msg=name)
