"""A transform spec as a `.splice` file: matchers become patterns, what actions put in becomes kernels and rules.

It reads specs whose matchers are templates (`cast_compatible_dag_from_root`) or contractions, with checks of dims, and
whose actions call a function that dispatches a plain C shim, as those do that `opsplice export` writes. Matchers that
come to the same pattern become one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from iree.compiler import ir

from opsplice.rewrites.importing import insertions, kernels
from opsplice.rewrites.importing.actions import Action, attribute_set, read_action
from opsplice.rewrites.importing.gaps import UnreadableError
from opsplice.rewrites.importing.handles import Handle, NamedOp, argument_of, follow
from opsplice.rewrites.importing.matchers import Matcher, named_template
from opsplice.rewrites.importing.shims import read_call
from opsplice.rewrites.importing.templates import Input, Template, quoted
from opsplice.spec_lang import formatter
from opsplice.spec_lang.parser import RESERVED

_ENTRY = "__transform_main"
# Ops of the entry that say where to look, and clean up after: rules are applied everywhere, and leave nothing dead.
_ENTRY_OPS = frozenset(
    {
        "transform.structured.match",
        "transform.foreach",
        "transform.foreach_match",
        "transform.apply_cse",
        "transform.apply_dce",
        "transform.apply_patterns",
        "transform.apply_patterns.canonicalization",
        "transform.print",
        "transform.yield",
    }
)
_DAG = "transform.iree.match.cast_compatible_dag_from_root"
_PASS = "transform.apply_registered_pass"


@dataclass(frozen=True)
class Imported:
    """text: the `.splice` file. patterns, rules: how many it has. unread: what could not be read, with its place."""

    text: str
    patterns: int
    rules: int
    unread: tuple[str, ...]


def import_spec(module: ir.Module) -> Imported:
    """Read a parsed transform spec. Needs the module's context to be current."""
    return _Importer(module).read()


class _Importer:
    def __init__(self, module: ir.Module) -> None:
        tops = [op.operation for op in module.body.operations]
        self.symbols = {
            ir.StringAttr(op.attributes["sym_name"]).value: op for op in tops if "sym_name" in op.attributes
        }
        self.unread: dict[str, None] = {}
        self.runs: list[str] = []
        self.called: dict[str, None] = {}  # functions that inserted MLIR calls
        self.kernels: dict[str, str] = {}
        self.patterns: dict[str, str] = {}
        self.rules: dict[str, None] = {}

    def read(self) -> Imported:
        handles: dict[ir.Value, Handle] = {}
        for op in _walk(self.symbols[_ENTRY]):
            try:
                self._entry(op, handles)
            except UnreadableError as error:
                self.unread[str(error)] = None
        codes = [insertions.symbols_text(self.called, self.symbols)] if self.called else []
        parts = [*self.runs, *codes, *self.kernels, *self.patterns, *self.rules]
        text = formatter.format("\n".join(parts)) if parts else ""
        return Imported(text, len(self.patterns), len(self.rules), tuple(self.unread))

    def _entry(self, op: ir.Operation, handles: dict[ir.Value, Handle]) -> None:
        """An op of the entry. handles: what is known of what its handles stand for."""
        if op.name == "transform.foreach_match":
            for matcher, action in zip(*(_names(op.attributes[n]) for n in ("matchers", "actions")), strict=True):
                try:
                    self._rule(self.symbols[matcher], self.symbols[action])
                except UnreadableError as error:
                    self.unread[str(error)] = None
        elif op.name == _PASS:
            self._run(op)
        elif op.name == "transform.structured.match" and "ops" in op.attributes:
            if not {"op_attrs", "interface", "filter_result_type", "filter_operand_types"} & set(op.attributes):
                names = tuple(ir.StringAttr(n).value for n in ir.ArrayAttr(op.attributes["ops"]))
                handles[op.results[0]] = NamedOp(names, op)
        elif op.name == "transform.annotate" and op.operands[0] in handles:
            name, text = attribute_set(op, handles)
            template = named_template(handles[op.operands[0]])
            pattern = self._declared(self.patterns, _pattern(template, []), f"ops_for_{name.replace('.', '_')}")
            self.rules[f"annotate {pattern} with {{{text}}}"] = None
        elif op.name not in _ENTRY_OPS and not follow(op, handles):
            raise UnreadableError(op, "an op of the entry that rules have no words for")

    def _run(self, op: ir.Operation) -> None:
        if self.patterns:
            raise UnreadableError(op, "a pass after matching: rules come after all passes of their phase")
        options = str(op.attributes["options"]) if "options" in op.attributes else "{}"
        if options not in ("{}", '""') or len(op.operands) != 1:
            raise UnreadableError(op, "a pass with options")
        name = ir.StringAttr(op.attributes["pass_name"]).value
        self.runs.append(f"run {quoted(name)} at preprocessing")

    # ---- one pair -------------------------------------------------------------------------------------------------

    def _rule(self, sequence: ir.Operation, action: ir.Operation) -> None:
        template, conditions, done = _read(sequence, action)
        wanted = re.sub(r"\W", "_", ir.StringAttr(sequence.attributes["sym_name"]).value)
        pattern = self._declared(self.patterns, _pattern(template, conditions), wanted)
        if isinstance(done, UnreadableError):
            raise done
        if done.attributes:
            self.rules[f"annotate {pattern} with {{{', '.join(done.attributes)}}}"] = None
        else:
            self.rules[f"replace {pattern} with {self._replacement(template, done, action)}"] = None

    def _replacement(self, template: Template, done: Action, action: ir.Operation) -> str:
        """A call of a kernel, where the function is a plain shim around one; else MLIR that calls the function."""
        if done.called not in self.symbols:
            raise UnreadableError(action, f"there is no function @{done.called}")
        function = self.symbols[done.called]
        passed = [argument_of(value) for value in done.passed]
        known: Mapping[int, Input] = {
            number: each for number, at in enumerate(passed) for each in template.inputs if each.position == at
        }
        try:
            text, names = kernels.kernel(read_call(function, self.symbols), template, known)
        except UnreadableError:
            call = insertions.call_text(function, template, known, passed)
            self.called[done.called] = None
            return call
        return f"{self._declared(self.kernels, text, f'kernel{len(self.kernels)}')}({', '.join(names)})"

    def _declared(self, known: dict[str, str], text: str, wanted: str) -> str:
        """The name of a declaration, `NAME` in its text, that is added unless there is an equal one."""
        for other, name in known.items():
            if other == text.replace("NAME", name, 1):
                return name
        name = wanted
        while name in known.values() or name in RESERVED:
            name += "_"
        known[text.replace("NAME", name, 1)] = name
        return name


def _read(sequence: ir.Operation, action: ir.Operation) -> tuple[Template, list[str], Action | UnreadableError]:
    """A matcher, and its action, or why that cannot be read."""
    matcher = Matcher(sequence)
    template, conditions = matcher.read()
    try:
        done = read_action(action, matcher.yielded())
        if any(argument_of(value) in template.starts for value in done.passed):
            # What is passed on must be known: it is the value that reductions start from in nearly all programs.
            matcher = Matcher(sequence, from_neutral=True)
            template, conditions = matcher.read()
            done = read_action(action, matcher.yielded())
    except UnreadableError as error:
        return template, conditions, error
    return template, conditions, done


# ---- text --------------------------------------------------------------------------------------------------------


def _pattern(template: Template, conditions: list[str]) -> str:
    parameters = []
    where = list(conditions)
    seen: set[str] = set()
    for each in template.inputs:
        if each.dims is None:
            parameters.append(f"{each.name}: {each.element}")
            continue
        names = [template.dim(axis) for axis in each.dims]
        pack = [f"...r{each.position}"] * each.variable
        parameters.append(f"{each.name}: tensor<{' x '.join([*names, *pack, each.element])}>")
        for name, axis in zip(names, each.dims, strict=True):
            size = template.axes.size(axis)
            if size is not None and name not in seen:
                where.append(f"{name} == {size}")
            seen.add(name)
    free = next((dim for c in conditions if (dim := c.split()[0]) not in seen), None)
    if free is not None:
        raise UnreadableError(template.op, "a check of a dim that no input of the pattern has")
    variables = [each.element for each in template.inputs if each.variable]
    body = "\n".join(
        [*(f"{name} = {template.text(expr)}" for name, expr in template.lets), template.text(template.result)]
    )
    head = f"NAME<{', '.join(variables)}>" if variables else "NAME"
    joined = f" where {' and '.join(dict.fromkeys(where))}" if where else ""
    return f"pattern {head}({', '.join(parameters)}){joined} {{\n{body}\n}}"


# ---- pieces ------------------------------------------------------------------------------------------------------


def _walk(root: ir.Operation) -> Iterator[ir.Operation]:
    """The ops below an op, those inside of templates left out."""
    for region in root.regions:
        for block in region.blocks:
            for op in block.operations:
                yield op.operation
                if op.operation.name != _DAG:
                    yield from _walk(op.operation)


def _names(attribute: ir.Attribute) -> list[str]:
    return [ir.FlatSymbolRefAttr(symbol).value for symbol in ir.ArrayAttr(attribute)]
