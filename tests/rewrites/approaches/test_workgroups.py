"""How many workgroups a grid comes to: differences below zero, and more than a device takes."""

from __future__ import annotations

import numpy as np
import pytest

from opsplice.common.errors import OpspliceError

DYNAMIC = """
func.func @main(%a: tensor<?xf32>) -> tensor<?xf32> {
  %0 = arith.negf %a : tensor<?xf32>
  return %0 : tensor<?xf32>
}
"""
# Writes a 1 for each of its workgroups.
C = """
#include <stddef.h>
void k(float *a, size_t n, size_t x) { if (x < n) a[x] = 1; }
"""
THIRD = """
#include <stddef.h>
void k(const float *a, float *out, size_t n, size_t x, size_t y, size_t z) { out[z] = -a[z]; }
"""


def spec(grid: str, form: str = "", result: str = "f32[n]") -> str:
    return f"""
kernel k(a: f32[n]) -> {result} {{ grid ({grid}) cpu "k.c" {form} }}
pattern p(a: tensor<n x f32>) {{ negf(a) }}
replace p with k(a)
"""


# By the op that each grid is for: the grid of a kernel of 6 elements, and how many workgroups that is.
BELOW_ZERO = {
    "arith.negf": ("max(n - 10, 0) + 2", 2),
    "math.absf": ("n - 10", 0),
    "math.ceil": ("max(n - 10, 1)", 1),
    "math.floor": ("min(n, 10 - n)", 4),
    "math.sqrt": ("floordiv(n - 9, 2) + 4", 2),
    "math.exp": ("ceildiv(n - 9, 2) + 4", 3),
    "math.tanh": ("(n - 7) % 4", 3),
}


def test_differences_below_zero(spliced):
    rules, functions = [], []
    for number, (op, (grid, _)) in enumerate(BELOW_ZERO.items()):
        rules.append(f"""
kernel k{number}(a: f32[n]) -> a {{ grid ({grid}) symbol "k" cpu "k.c" }}
pattern p{number}(a: tensor<n x f32>) {{ {op}(a) }}
replace p{number} with k{number}(a)
""")
        for name, size in (("dynamic", "?"), ("static", "6")):
            function = DYNAMIC.replace("?", size).replace("arith.negf", op)
            functions.append(function.replace("main", f"{name}{number}"))
    program = spliced("".join(functions), "".join(rules), {"k.c": C})
    for number, (_, count) in enumerate(BELOW_ZERO.values()):
        for name in ("dynamic", "static"):
            found = program.run(f"{name}{number}", np.zeros(6, np.float32)).tolist()
            assert found == [1] * count + [0] * (6 - count), (name, number)


@pytest.mark.parametrize("form", ["", "as bitcode", "as provided"])
def test_a_third_dim_that_is_too_large_when_it_runs(spliced, form):
    program = spliced(DYNAMIC, spec("1, 1, n", form), {"k.c": THIRD})
    most = np.ones(65535, np.float32)
    np.testing.assert_array_equal(program.run("main", most), -most)
    with pytest.raises(OpspliceError, match="kernel k has more than 65535 workgroups in dim 2 of its grid"):
        program.run("main", np.ones(65536, np.float32))


@pytest.mark.parametrize("form", ["", "as plugin", "as provided"])
def test_a_third_dim_that_is_known_to_be_too_large(spliced, form):
    with pytest.raises(OpspliceError, match="has 70000 workgroups in dim 2 of its grid, and llvm-cpu takes 65535"):
        spliced(DYNAMIC.replace("?", "70000"), spec("1, 1, n", form), {"k.c": THIRD})


def test_more_workgroups_than_32_bits_count(spliced):
    program = spliced(DYNAMIC, spec("n * 4294967296", result="a"), {"k.c": C})
    with pytest.raises(OpspliceError, match="more than 4294967295 workgroups in dim 0"):
        program.run("main", np.ones(1, np.float32))
    with pytest.raises(OpspliceError, match="has 4294967296 workgroups in dim 0 of its grid"):
        spliced(DYNAMIC.replace("?", "1"), spec("n * 4294967296", result="a"), {"k.c": C})


def test_a_command_has_no_workgroups(spliced):
    code = "def k(a, out):\n    out[:] = -a\n"
    model = DYNAMIC.replace("?", "70000")
    program = spliced(model, spec("1, 1, n").replace("k.c", "k.py").replace(" }", " as command }", 1), {"k.py": code})
    np.testing.assert_array_equal(program.run("main", np.ones(70000, np.float32)), -np.ones(70000, np.float32))
