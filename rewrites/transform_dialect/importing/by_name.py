"""A matcher without a template: it asks ops for their names, operands, loops and bodies."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator
from fnmatch import fnmatch

from iree.compiler import ir

from opsplice.matchers.terms import bodies
from opsplice.rewrites.transform_dialect.importing.handles import (
    Asked,
    Handle,
    NamedOp,
    asked_of_dim,
    block_of,
    follow,
    value_of,
)
from opsplice.rewrites.transform_dialect.importing.not_importable import UnreadableError
from opsplice.rewrites.transform_dialect.importing.template import Draft, Input, check_root
from opsplice.spec_lang.checking.contraction_query import KINDS, written
from opsplice.spec_lang.dims.dim_conditions import COMPARISONS
from opsplice.spec_lang.formatting.one_line import quote

CONTRACTION = "transform.iree.match.contraction"
NAME = "transform.match.operation_name"
UNTUNED = "transform.iree.match.has_no_lowering_config"
_IDLE = frozenset({"transform.print", "transform.debug.emit_remark_at", "transform.yield"})
_REGIONS = "transform.iree.match.regions"
_STRUCTURED = "transform.match.structured"
_SUPPRESS = 2  # of FailurePropagationMode
_COUNTS = {f"{_STRUCTURED}.{word}": word for word in ("rank", "num_inputs", "num_inits")}
_OPERANDS = (f"{_STRUCTURED}.input", f"{_STRUCTURED}.init")
_MAPS = {"is_all", "is_inverted", "permutation", "projected_permutation"}
_GENERIC, _LINALG = "linalg.generic", "linalg.*"
_KINDS = ("parallel", "reduction")
_MOST_LOOPS = 6


class ByName:
    """A matcher that names its op. Raises UnreadableError for what patterns have no words for."""

    def __init__(self, sequence: ir.Operation, handles: dict[ir.Value, Handle]) -> None:
        """handles: to be filled with what the values of the sequence stand for."""
        self.sequence = sequence
        self.handles = handles
        self.conditions: list[str] = []
        self.dims = _dim_names()
        self.kinds: dict[str, tuple[int | None, ...]] = {}  # the sizes that are asked of a contraction

    def read(self) -> Draft:
        block = block_of(self.sequence)
        root = block.arguments[0]
        ops = list(_flat(block))
        contracts = next((op for op in ops if op.name == CONTRACTION), None)
        named = next((op for op in ops if op.name == NAME and op.operands[0] == root), contracts)
        if named is None:
            strange = next((op for op in ops if op.name.startswith("transform.iree.match.")), self.sequence)
            raise UnreadableError(strange, "a matcher with neither a template that can be read nor the name of an op")
        found = self.handles[root] = NamedOp((_LINALG,) if named is contracts else names_of(named), named)
        for op in ops:
            if op.name == NAME and op == named:
                continue
            if not navigates(op, self.handles):
                self._check(op)
        if contracts is not None:
            self.conditions.append(f'contracts("{written(self.kinds)}")')
        return dataclasses.replace(named_template(found, self.dims), conditions=tuple(self.conditions))

    def _check(self, op: ir.Operation) -> None:
        of = self.handles.get(op.operands[0]) if len(op.operands) else None
        if op.name == _STRUCTURED:
            self.handles[op.regions[0].blocks[0].arguments[0]] = of
        elif op.name == f"{_STRUCTURED}.yield":
            results = op.parent.operation.results
            self.handles.update(zip(results, map(self.handles.get, op.operands), strict=True))
        elif op.name == "transform.iree.match.cast_compatible_type":
            self._value(op).kind = ir.TypeAttr(op.attributes["target_type"]).value
        elif op.name == f"{_STRUCTURED}.elemental_bitwidth":
            self.handles[op.results[0]] = self._value(op)
        elif op.name == "transform.iree.match.dims_equal":
            sizes = list(ir.DenseI64ArrayAttr(op.attributes["expected_values"]))
            self._sized(op, of, tuple(None if size == -1 else size for size in sizes))
        elif op.name == "transform.match.param.cmpi":
            self._compare(op, of)
        elif isinstance(of, NamedOp):
            self._ask(op, of)
        else:
            self.conditions += asked_of_dim(op, lambda axis: self._dim(self._value(op), axis))

    def _ask(self, op: ir.Operation, of: NamedOp) -> None:
        """A question about an op itself."""
        if op.name == NAME:
            of.names = _both(of.names, op)
        elif op.name == CONTRACTION:
            self._contracts(op, of)
        elif op.name == UNTUNED:
            of.absent.append("lowering_config")
        elif op.name == _REGIONS:
            of.body = _body_text(op)
        elif op.name in _COUNTS:
            self.handles[op.results[0]] = (of, _COUNTS[op.name])
        elif op.name == f"{_STRUCTURED}.dim" and not len(op.results):
            of.loops.append(op)
        elif op.name in _OPERANDS and str(op.results[0].type) != "!transform.affine_map":
            self._go(op, of)
        else:
            raise UnreadableError(op, "a check that patterns have no words for")

    def _go(self, op: ir.Operation, of: NamedOp) -> None:
        """From a structured op to one of its operands, or to what makes that."""
        places = list(ir.DenseI64ArrayAttr(op.attributes["raw_position_list"]))
        if len(places) != 1 or places[0] < 0 or _MAPS & set(op.attributes):
            raise UnreadableError(op, "other than one operand by its place from the start")
        number = places[0]
        if op.name.endswith("init"):
            if "num_inputs" not in of.counts:
                why = "an operand to write to, where nothing before it asks for the number of inputs"
                raise UnreadableError(op, why)
            number += of.counts["num_inputs"]
        is_value = str(op.results[0].type) == "!transform.any_value"
        self.handles[op.results[0]] = (of.value(number, is_result=False),) if is_value else of.producer(number, op)

    def _compare(self, op: ir.Operation, of: Handle) -> None:
        comparison = list(COMPARISONS)[ir.IntegerAttr(op.attributes["predicate"]).value]
        number = self.handles.get(op.operands[1])
        if isinstance(number, ir.IntegerAttr) and isinstance(of, Asked):
            self.conditions.append(f"bits(T{of.position}) {comparison} {number.value}")
        elif isinstance(number, ir.IntegerAttr) and isinstance(of, tuple) and comparison == "==":
            asked, word = of
            if word in KINDS:
                self._sized(op, of, (number.value,))
            else:
                asked.counts[word] = number.value
        else:
            raise UnreadableError(op, "a comparison that patterns have no words for")

    def _sized(self, op: ir.Operation, of: Handle, sizes: tuple[int | None, ...]) -> None:
        _, kind = of if isinstance(of, tuple) else (None, "")
        if kind not in KINDS or self.kinds.setdefault(kind, sizes) != sizes:
            raise UnreadableError(op, "a check of what are not dims of a contraction, or of other sizes than before")

    def _contracts(self, op: ir.Operation, of: NamedOp) -> None:
        """A contraction of any maps: of which types its operands are, and what its sizes are known by."""
        for number, role in enumerate(("lhs_type", "rhs_type", "output_type")):
            of.value(number, is_result=False).element = str(ir.TypeAttr(op.attributes[role]).value)
        of.counts.update(num_inputs=2, num_inits=1)
        self.handles.update(zip(op.results, ((of, kind) for kind in KINDS), strict=True))

    def _value(self, op: ir.Operation) -> Asked:
        value = value_of(op, self.handles)
        assert isinstance(value, Asked), "an op by name has no other values"
        return value

    def _dim(self, value: Asked, axis: int) -> str:
        if axis not in value.axes:
            value.axes[axis] = next(self.dims)
        return value.axes[axis]


def _flat(block: ir.Block) -> Iterator[ir.Operation]:
    """The ops of a matcher, with those of a `match.structured` behind it."""
    for op in (each.operation for each in block.operations):
        yield op
        if op.name == _STRUCTURED:
            if ir.IntegerAttr(op.attributes["failure_propagation_mode"]).value == _SUPPRESS:
                raise UnreadableError(op, "with failures(suppress), so that it goes on where a check fails")
            yield from _flat(op.regions[0].blocks[0])


def navigates(op: ir.Operation, handles: dict[ir.Value, Handle]) -> bool:
    """Whether an op of a matcher asks for nothing, and only goes from handle to handle."""
    if op.name == "transform.get_result":
        raise UnreadableError(op, "the interpreter takes no such op in a matcher; actions may have it")
    return op.name in _IDLE or follow(op, handles)


def names_of(op: ir.Operation) -> tuple[str, ...]:
    """The names that a `match.operation_name` takes."""
    return tuple(ir.StringAttr(n).value for n in ir.ArrayAttr(op.attributes["op_names"]))


def _both(known: tuple[str, ...], op: ir.Operation) -> tuple[str, ...]:
    """The names that an op may have that is asked for its name once more."""
    found = tuple(name for name in names_of(op) if any(fnmatch(name, each) for each in known))
    if not found:
        raise UnreadableError(op, "it never holds: the op has another name")
    return found


def _body_text(op: ir.Operation) -> str:
    """What the one region of the op in a check of regions holds."""
    inner = op.regions[0].blocks[0].operations[0].operation if len(op.regions[0].blocks) else op
    found = None if inner is op else bodies.text(inner)
    if found is None:
        raise UnreadableError(op, "a check of regions that is not a body of one block")
    return found


def _dim_names() -> Iterator[str]:
    return (f"d{number}" for number in itertools.count())


def named_template(named: NamedOp, dims: Iterator[str] | None = None) -> Draft:
    """The pattern of an op by its name. dims: names that are free.

    Raises UnreadableError for what patterns have no words for.
    """
    return _NamedTemplate(named, dims or _dim_names()).draft()


class _NamedTemplate:
    """Ops by their names as a pattern in the making."""

    def __init__(self, root: NamedOp, dims: Iterator[str]) -> None:
        self.root = root
        self.dims = dims
        self.sizes: dict[str, int] = {}
        self.inputs: list[Input] = []

    def draft(self) -> Draft:
        check_root(self.root.op, *self.root.names)
        body = self._called(self.root)
        return Draft(sorted(self.inputs, key=lambda each: each.position), body, self.root.op, sizes=self.sizes)

    def _called(self, named: NamedOp, kind: str = "") -> str:
        """A call of the op, with alternatives for its names. kind: the type that is written for it."""
        operands = {n: self._operand(asked) for (is_result, n), asked in named.values.items() if not is_result}
        count = _operand_count(named)
        words = [operands.get(n, "_") for n in range(max(max(operands, default=-1) + 1, count or 0))]
        words += ["..."] * (count is None)
        asked = [*(f"!{name}" for name in dict.fromkeys(named.absent)), *_iterators(named)]
        asked += ["..."] * (named.body is None)
        attributes = f" {{{', '.join(asked)}}}" * bool(asked)
        body = "" if named.body is None else f" mlir {{\n{named.body}\n}}"
        return " | ".join(f'"{name}"({", ".join(words)}){attributes}{body}{kind}' for name in named.names)

    def _operand(self, asked: Asked) -> str:
        kind, sizes = asked.kind, self._sizes(asked)
        is_tensor = kind is None or isinstance(kind, ir.RankedTensorType)
        element = asked.element or f"T{asked.position}"
        if kind is not None:
            element = str(getattr(kind, "element_type", kind))
        if asked.producer is not None:
            if kind is None and asked.axes:
                why = "a check of a dim of what an op makes whose type is not asked for"
                raise UnreadableError(asked.producer.op, why)
            shape = "".join(f"{size or '?'} x " for size in sizes)
            written = "" if kind is None else f" : tensor<{shape}{element}>" if is_tensor else f" : {element}"
            return f"({self._called(asked.producer, written)})"
        name = f"x{asked.position}"
        names = tuple(asked.axes.get(axis) or next(self.dims) for axis in range(len(sizes)))
        self.sizes.update((dim, size) for dim, size in zip(names, sizes, strict=True) if size is not None)
        is_any = kind is None
        variable = is_any and not asked.element
        self.inputs.append(Input(name, element, names if is_tensor else None, asked.position, variable, is_any))
        return name

    def _sizes(self, asked: Asked) -> list[int | None]:
        """The sizes of an operand's dims, None for those that are not known."""
        count = max(asked.axes, default=-1) + 1
        kind, sizes = asked.kind, []
        if kind is None:
            return [None] * count
        if isinstance(kind, ir.RankedTensorType):
            sizes = [None if kind.is_dynamic_dim(i) else kind.get_dim_size(i) for i in range(kind.rank)]
        if count > len(sizes):
            raise UnreadableError(self.root.op, "it never holds: a check of a dim that the type does not have")
        return sizes


# ---- loops and operands of structured ops --------------------------------------------------------------------------


def _operand_count(named: NamedOp) -> int | None:
    """How many operands a structured op has, if that is asked."""
    asked = [named.counts[word] for word in ("num_inputs", "num_inits") if word in named.counts]
    if len(asked) == 1:
        raise UnreadableError(named.op, "the number of inputs without that of results to write to, or the other way")
    return sum(asked) if asked else None


def _iterators(named: NamedOp) -> list[str]:
    """The question for the kinds of a generic op's loops, as its attribute with any kind where none is asked for."""
    rank = named.counts.get("rank")
    if rank is None and not named.loops:
        return []
    if named.names != (_GENERIC,):
        why = f"loops of other ops than {_GENERIC}, which alone has their kinds as an attribute"
        raise UnreadableError(named.op, why)
    if rank is None or rank > _MOST_LOOPS:
        raise UnreadableError(named.op, f"kinds of loops without their number, or of more than {_MOST_LOOPS}")
    kinds = [set(_KINDS) for _ in range(rank)]
    for op in named.loops:
        for loop in _loops(op, rank):
            kinds[loop] &= {kind for kind in _KINDS if kind in op.attributes}
    options = [", ".join(f"#linalg.iterator_type<{kind}>" for kind in each) for each in itertools.product(*kinds)]
    texts = ", ".join(f"mlir {quote(f'[{each}]')}" for each in sorted(options))
    if not options:
        raise UnreadableError(named.op, "it never holds: a loop of two kinds, or that there is not")
    return [f"iterator_types = {texts}" if len(options) == 1 else f"iterator_types in {{{texts}}}"]


def _loops(op: ir.Operation, rank: int) -> list[int]:
    """The loops that a question is about."""
    listed = [n + rank * (n < 0) for n in ir.DenseI64ArrayAttr(op.attributes["raw_dim_list"])]
    if not all(0 <= n < rank for n in listed):
        raise UnreadableError(op, f"it never holds: a loop that is none of {rank}")
    if "is_all" in op.attributes:
        return list(range(rank))
    return [n for n in range(rank) if n not in listed] if "is_inverted" in op.attributes else listed
