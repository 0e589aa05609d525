"""Ops by their full names that no program has as a value, or of which what they compute is not looked at."""

from __future__ import annotations

from collections.abc import Iterator

from opsplice.common.errors import counted, did_you_mean
from opsplice.spec_lang.checking.walks import expressions, named_values
from opsplice.spec_lang.linting.lint import never_matches, reached_patterns
from opsplice.spec_lang.loading.loader import LoadedSpec
from opsplice.spec_lang.syntax import tree, vocabulary
from opsplice.spec_lang.syntax.spec_errors import Diagnostic, warning

# Ops on elements that the language has no word for.
_FURTHER = ("arith.addui_extended", "arith.constant", "arith.mulsi_extended", "arith.mului_extended", "math.sincos")
_ELEMENTWISE = frozenset([*(op.full_name for op in vocabulary.OPS.values()), *_FURTHER])
# How the names of ops end that make no value, in any dialect.
_ENDING = frozenset(
    {"br", "cond_br", "func", "global", "initializer", "module", "return", "store", "terminator", "yield"}
)
_NO_TENSOR = "a pattern ends with a tensor, and {name} makes a scalar"
# Why ops are no end of a pattern.
_INNER = {
    **dict.fromkeys(("linalg.index", "tensor.dim", "tensor.extract", "tensor.rank"), _NO_TENSOR),
    **dict.fromkeys(("torch.constant.bool", "torch.constant.float", "torch.constant.int"), _NO_TENSOR),
    "tensor.expand_shape": "{name} is looked through: a match ends with what it makes several dims of",
}
# Structured ops whose name does not say what their body computes, and another op whose name does.
_OPEN = ("linalg.generic", "linalg.map", "linalg.reduce")
_TOLD = ("iree_linalg_ext.attention",)
# Dialects whose ops have no bodies, but for a few.
_BODILESS, _BODIED = ("arith", "math", "tensor"), ("tensor.generate", "tensor.pad")
# The attribute that says, besides the body, what an op computes.
_BESIDE_BODY = {"linalg.generic": "indexing_maps", "linalg.reduce": "dimensions"}
# The attribute that names what an op computes, whatever form its body has.
_NAMING = {"torch.operator": "name"}


def mistakes(spec: LoadedSpec) -> Iterator[Diagnostic]:
    """Warnings `never-matches` and `unlooked-body`."""
    for pattern in spec.patterns.values():
        lets = named_values(pattern)
        ends = [lets.get(each.name) if isinstance(each, tree.Name) else each for each in pattern.results]
        for call in _calls(pattern):
            why = unmatchable(call.callee, is_end=call in ends) or _misspelt(call)
            if why is not None:
                yield never_matches(pattern, why, call.callee_span)
    replaced = [spec.patterns[rule.pattern] for rule in spec.rules if rule.replaces]
    reached = {each.name: each for pattern in replaced for each in (pattern, *reached_patterns(pattern, spec))}
    for pattern in reached.values():
        asked = {part.name for part in tree.parts(pattern.where) if isinstance(part, tree.Predicate)}
        for call in _calls(pattern):
            yield from _unlooked(call, contracts="contracts" in asked)


def unmatchable(name: str, *, is_end: bool) -> str | None:
    """Why no pattern finds an op of a full name, None where it may be found. is_end: whether a pattern ends with it."""
    if "*" not in name and name.rpartition(".")[2] in _ENDING:
        return f"{name} makes no value"
    return _INNER[name].format(name=name) if is_end and name in _INNER else None


def _calls(pattern: tree.Pattern) -> Iterator[tree.Call]:
    return (expr for expr in expressions(pattern) if isinstance(expr, tree.Call) and expr.quoted)


def _misspelt(call: tree.Call) -> str | None:
    if not vocabulary.is_elementwise(call.callee):
        return None
    if call.callee not in _ELEMENTWISE:
        advice = did_you_mean(call.callee, sorted(_ELEMENTWISE))
        return f"there is no op {call.callee}{f'; {advice}' if advice else ''}"
    known = vocabulary.find(call.callee)
    if known is not None and not (len(call.args) < known.arity if call.rest else len(call.args) == known.arity):
        return f"{call.callee} has {counted(known.arity, 'operand')}"
    return None


def _unlooked(call: tree.Call, *, contracts: bool) -> Iterator[Diagnostic]:
    """What is replaced although nobody has looked at what it computes. contracts: whether it is a contraction."""
    name = call.callee
    dialect, _, rest = name.partition(".")
    if name in _TOLD or (dialect in _BODILESS and name not in _BODIED and "*" not in name):
        return
    if dialect == "linalg" and name not in _OPEN and "*" not in rest:
        return
    if any(a.name == _NAMING.get(name) and not a.absent for a in call.attributes):
        return
    attribute = _BESIDE_BODY.get(name)
    open_maps = attribute is not None and not any(a.name == attribute and not a.absent for a in call.attributes)
    if call.regions and contracts:
        what = f"this takes any {name} that contracts: transposed operands, and any value that it adds to"
        advice = "write contract[m k, k n -> m n](x, y), which says where dims lie"
    elif call.regions:
        what = f"this takes any {name}, whatever its body computes: an argmin as well as an argmax"
        advice = f'write the body: "{name}"(...) mlir {{ ^bb0(...): ... }}'
    elif call.body is not None and open_maps:
        what = f"this takes {name} whatever its {attribute} are: over rows as well as over columns"
        advice = f'ask for them: {{{attribute} = mlir "[...]"}}'
    else:
        return
    yield warning(call.callee_span, what, advice, code="unlooked-body")
