"""The patterns that come with the package, each on kernels that are spelled in many ways.

A function is named after the pattern that it is, with words for what it has and its spelling behind. `library/` holds
what jax.export makes of one-line functions, and, written by hand, `gelu.mlir`, `relu.mlir`, `conv_nchw.mlir`,
`conv_grouped.mlir`, `norms_keras.mlir`, `argmax_torch.mlir` and `argmax_onnx.mlir`.
"""

from __future__ import annotations

import functools
import itertools
import operator
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from opsplice import spec_lang
from opsplice.frontends.source import ModuleSource
from opsplice.matchers.find import engine
from opsplice.matchers.patterns.compiled import compile_pattern
from opsplice.matchers.patterns.nodes import Graph
from opsplice.matchers.search.matches import Match
from opsplice.pipeline.compiler import Compilation
from opsplice.spec_lang.loading.loader import load_text
from opsplice.spec_lang.syntax.tree import TensorType

FOLDER = Path(__file__).parent
# test_match_attention.py has those of attention.
FILES = sorted(path for path in FOLDER.glob("*.mlir") if "attention" not in path.stem)
HELPERS = {"activated", "normed", "normed_with_all", "layernorm_with", "layernorm_by_moments_with", "root_normed"}
# Of opsplice:strided, and what is resized, with tests of their own.
ELSEWHERE = {
    "shares_beside", "largest_of_both", "attended", "any_attention", "banded_attention", "any_linear", "any_norm",
    "any_convolution", "any_pool", "bilinear",
}  # fmt: skip
# Those for kernels that say how their buffers lie: one pattern for all layouts.
IN_ANY_LAYOUT = {
    "any_groupnorm", "average_pool", "batchnorm", "conv1d", "conv2d", "conv3d",
    "depthwise_conv2d", "grouped_conv2d", "linear", "linear_heads", "max_pool", "softmax", "swiglu",
}  # fmt: skip
FUNCTION = re.compile(r"func\.func (?:public )?@(\w+)\(")

# What else is in a layer besides itself: its own parts, and the same layer said with fewer words.
PARTS = {
    "conv1d_ncw_fcw_bias_pointwise": {"linear": 1},
    "conv2d_nchw_fchw_bias_squeezed": {"linear": 1, "linear_heads": 1},
    "conv2d_nchw_fchw_one_place": {"linear": 1},
    "conv3d_ncdhw_fcdhw": {"grouped_conv2d": 1},  # with one filter for each depth
    "any_groupnorm_instances": {"global_average_pool": 2},
    "layernorm": {"rmsnorm": 1, "any_groupnorm": 1},
    "layernorm_2d": {"global_average_pool": 2},
    "layernorm_by_moments": {"relu": 1},
    "linear_heads": {"linear": 1},
    "gelu": {"erfc_by_polynomials": 1},
    "linear_kn_bias_gelu": {"gelu": 1, "erfc_by_polynomials": 1},
    "linear_kn_bias_gelu_tanh": {"gelu_tanh": 1},
    "linear_kn_bias_relu": {"relu": 1},
    "linear_kn_bias_silu": {"silu": 1, "sigmoid": 1},
    "linear_nk_bias_gelu": {"gelu": 1, "erfc_by_polynomials": 1},
    "linear_nk_bias_gelu_tanh": {"gelu_tanh": 1},
    "linear_nk_bias_relu": {"relu": 1},
    "linear_nk_bias_silu": {"silu": 1, "sigmoid": 1},
    "silu": {"sigmoid": 1},
    "swiglu": {"linear": 2, "silu": 1, "sigmoid": 1},
}

# Layers that look like those of the library but for one op: the function, what is in it, what there is instead.
OTHERS = [
    ("argmax_jax", "stablehlo.iota dim = 1", "stablehlo.iota dim = 0"),
    ("argmax_jax", "stablehlo.compare GT", "stablehlo.compare LT"),
    ("rope", "stablehlo.negate %second", "stablehlo.negate %first"),
    ("rope", "%0, %first, dim = 2", "%first, %0, dim = 2"),
    ("rope_by_halves", "stablehlo.subtract %0, %1", "stablehlo.subtract %1, %0"),
    ("layernorm_keras", "stablehlo.negate", "stablehlo.abs"),
    ("layernorm_keras", "stablehlo.multiply %17, %15", "stablehlo.multiply %17, %13"),
    ("layernorm_2d_keras", "stablehlo.multiply %x, %15", "stablehlo.multiply %5, %15"),
    ("layernorm_alone_keras", "stablehlo.add %17, %16", "stablehlo.subtract %17, %16"),
    ("any_groupnorm_keras", "stablehlo.negate", "stablehlo.abs"),
    ("any_groupnorm_alone", "dense<6.000000e+01>", "dense<6.100000e+01>"),
    ("batchnorm_nhwc_keras", "stablehlo.negate", "stablehlo.abs"),
    ("batchnorm_nhwc_without_eps_keras", "stablehlo.rsqrt", "stablehlo.sqrt"),
]


@pytest.fixture(scope="module")
def library():
    return load_text('import "opsplice:strided"')


def functions(path: Path) -> list[str]:
    return FUNCTION.findall(path.read_text(encoding="utf-8"))


def graphs_of(library, name: str) -> Sequence[Graph]:
    free = name in IN_ANY_LAYOUT
    inputs = [p.name for p in library.patterns[name].parameters if isinstance(p.type, TensorType)] if free else []
    return compile_pattern(library, name, frozenset(inputs), free)


def text_of(function: str) -> str:
    """A function of the library's kernels by itself."""
    (text,) = (t for t in (p.read_text(encoding="utf-8") for p in FILES) if f"@{function}(" in t)
    start = text.rindex("func.func", 0, text.index(f"@{function}("))
    return text[start : text.index("\n}\n", start) + 3]


def named_after(function: str, patterns) -> str:
    """The pattern that a function is named after: the longest name that its own begins with."""
    return max((p for p in patterns if f"{function}_".startswith(f"{p}_")), key=len)


def parts_of(function: str) -> Counter[str]:
    fitting = (Counter(parts) for name, parts in PARTS.items() if f"{function}_".startswith(f"{name}_"))
    return functools.reduce(operator.or_, fitting, Counter())


def whole(matches: Sequence[Match]) -> list[Match]:
    """The matches that lie in no other of their pattern: a layer with a bias also has one without in it."""
    inner = {(o.pattern.name, value) for o in matches for op in o.ops for value in op.results if value not in o.roots}
    return [m for m in matches if (m.pattern.name, m.roots[0]) not in inner]


@pytest.mark.parametrize("path", FILES, ids=[p.stem for p in FILES])
def test_each_layer_is_found_once_and_nothing_else_in_it(path, library):
    graphs = [graph for name in library.patterns.keys() - HELPERS - ELSEWHERE for graph in graphs_of(library, name)]
    with Compilation() as compilation:
        compilation.load(ModuleSource(path=path))
        compilation.run_to("preprocessing")
        found: dict[str, Counter[str]] = {name: Counter() for name in functions(path)}
        for match in whole(engine.find(compilation.module, graphs).matches):
            found[match.function.removesuffix("$async")][match.pattern.name] += 1
    assert found
    for function, counts in found.items():
        wanted = named_after(function, library.patterns)
        assert counts[wanted] == 1, f"{function}: {dict(counts)}"
        rest = counts - Counter({wanted: 1})
        assert rest <= parts_of(function), f"{function}: {dict(rest)}"


@pytest.mark.parametrize(("function", "old", "new"), OTHERS, ids=[f"{function}: {new}" for function, _, new in OTHERS])
def test_what_differs_in_one_op_is_no_such_layer(function, old, new, library, tmp_path):
    wanted = named_after(function, library.patterns)
    text = text_of(function)
    assert text.count(old) == 1
    for program, count in ((text, 1), (text.replace(old, new), 0)):
        path = tmp_path / "model.mlir"
        path.write_text(program, encoding="utf-8")
        with Compilation() as compilation:
            compilation.load(ModuleSource(path=path))
            compilation.run_to("preprocessing")
            graphs = graphs_of(library, wanted)
            assert len(whole(engine.find(compilation.module, graphs).matches)) == count


def test_every_pattern_of_the_library_has_a_kernel(library):
    tested = {named_after(name, library.patterns) for path in FILES for name in functions(path)}
    assert set(library.patterns) - tested == HELPERS | ELSEWHERE


LIBRARY = sorted((Path(spec_lang.__file__).parent / "library").glob("*.splice"))


def test_each_pattern_has_a_picture_above_it():
    """A picture is a line of its own in the comment, indented: what goes in, what is done to it, what comes out."""
    for path in LIBRARY:
        lines = path.read_text().splitlines()
        for at, line in enumerate(lines):
            if line.startswith("pattern "):
                above = list(itertools.takewhile(lambda text: text.startswith("//"), reversed(lines[:at])))
                assert any(re.match(r"//   \S.* -", text) for text in above), f"{path.name}: {line}"


def test_the_library_is_small():
    """A word of the language is better than one more pattern."""
    texts = [path.read_text() for path in LIBRARY]
    assert sum(text.count("\npattern ") for text in texts) < 60
    assert sum(text.count("\n") for text in texts) < 900
