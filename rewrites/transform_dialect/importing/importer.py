"""A transform spec as a `.splice` file: matchers become patterns, what actions put in becomes kernels and rules.

It reads specs whose matchers are templates (`cast_compatible_dag_from_root`) or contractions, with checks of dims, and
whose actions call a function that dispatches a plain C shim, as those do that `opsplice export` writes. Matchers that
come to the same pattern become one.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum

from iree.compiler import ir
from iree.compiler.passmanager import PassManager

from opsplice.matchers.ir.op_names import location_text, ops_in, symbol_of
from opsplice.rewrites.ir.symbols import defined
from opsplice.rewrites.transform_dialect import interpreter
from opsplice.rewrites.transform_dialect.importing import includes, insertions, kernel_declarations
from opsplice.rewrites.transform_dialect.importing.by_name import named_template
from opsplice.rewrites.transform_dialect.importing.contention import Pair, Shape, ordered
from opsplice.rewrites.transform_dialect.importing.handles import Handle, NamedOp, argument_of, follow
from opsplice.rewrites.transform_dialect.importing.not_importable import UnreadableError
from opsplice.rewrites.transform_dialect.importing.shims import read_call
from opsplice.rewrites.transform_dialect.importing.spec_actions import Action, attribute_set, read_action
from opsplice.rewrites.transform_dialect.importing.spec_matchers import Matcher
from opsplice.rewrites.transform_dialect.importing.template import Draft, Input, Reading
from opsplice.spec_lang.formatting import formatter
from opsplice.spec_lang.formatting.one_line import quote
from opsplice.spec_lang.loading.loader import load_text
from opsplice.spec_lang.syntax import vocabulary
from opsplice.spec_lang.syntax.condition_nodes import RESERVED
from opsplice.spec_lang.syntax.spec_errors import SpecError

_CANONICAL = "transform.apply_patterns.canonicalization"
# Ops of the entry that clean up, which rules do by themselves; before matching two of them are passes.
_ENTRY_OPS = frozenset(f"transform.{name}" for name in ("apply_cse", "apply_dce", "apply_patterns", "print", "yield"))
_DAG = "transform.iree.match.cast_compatible_dag_from_root"
_PASS = "transform.apply_registered_pass"


class Scope(Enum):
    """What a handle of the entry stands for, where rules apply to all of it."""

    MODULE = "module"
    UTIL_FUNCTIONS = "util.func"
    FUNC_FUNCTIONS = "func.func"


@dataclass(frozen=True)
class Collected:
    """What a handle of the entry stands for: what matchers have found, after the stage of that number."""

    matchers: tuple[ir.Operation, ...]
    stage: int


@dataclass(frozen=True)
class Imported:
    """text: the `.splice` file. patterns, rules: how many it has. left_out: what could not be read, with its place."""

    text: str
    patterns: int
    rules: int
    left_out: tuple[str, ...]


def import_spec(module: ir.Module) -> Imported:
    """Read a parsed transform spec, in which it changes what includes others. Needs its context to be current."""
    return _Importer(module).read()


class _Importer:
    def __init__(self, module: ir.Module) -> None:
        self.symbols = defined(module.operation)
        includes.expand(self.symbols)
        self.left_out: dict[str, None] = {}
        self.runs: list[str] = []
        self.cleaning: ir.Operation | None = None  # the first pass after matching
        self.called: dict[str, None] = {}  # functions that inserted MLIR calls
        self.kernels: dict[str, str] = {}
        self.patterns: dict[str, str] = {}
        self.pairs: list[Pair] = []
        self.stage = 0  # which op of the entry that changes the program
        self.setters = Counter(str(each.attributes["name"]) for each in ops_in(module.operation, "transform.annotate"))
        self.read_before: set[ir.Operation] = set()  # annotations that are part of the rules of others

    def read(self) -> Imported:
        entry = next(self.symbols[name] for name in interpreter.ENTRIES if name in self.symbols)
        handles: dict[ir.Value, Handle] = dict.fromkeys(entry.regions[0].blocks[0].arguments, Scope.MODULE)
        for op in _walk(entry):
            with self._noting():
                self._entry(op, handles)
        rules = ordered(self.pairs, self.left_out)
        codes = [insertions.symbols_text(self.called, self.symbols)] if self.called else []
        parts = [*self.runs, *codes, *self.kernels, *self.patterns, *rules]
        text = formatter.format("\n".join(parts)) if parts else ""
        return Imported(text, len(self.patterns), len(rules), tuple(self.left_out))

    @contextmanager
    def _noting(self) -> Iterator[None]:
        """Note what cannot be read, and go on behind."""
        try:
            yield
        except UnreadableError as error:
            self.left_out[str(error)] = None

    def _entry(self, op: ir.Operation, handles: dict[ir.Value, Handle]) -> None:
        """An op of the entry. handles: what is known of what its handles stand for."""
        if op.name == includes.INCLUDE:
            includes.check(op)
        if op.name == "transform.foreach_match":
            self._foreach_match(op, handles)
        elif op.name == _PASS:
            self._run(op, handles)
        elif op.name == "transform.structured.match":
            handles[op.results[0]] = _matched(op, handles)
        elif op.name == "transform.foreach":
            handles.update(zip(op.regions[0].blocks[0].arguments, map(handles.get, op.operands), strict=True))
        elif op.name == "transform.collect_matching":
            self._collect(op, handles)
        elif op.name == "transform.merge_handles" and isinstance(handles.get(op.operands[0]), Collected):
            handles[op.results[0]] = _merged(op, handles)
        elif op.name == "transform.annotate":
            self._annotate(op, handles)
        elif op.name == "transform.apply_cse" and not self.stage:
            self._pass(op, handles.get(op.operands[0]), "cse")
        elif op.name == _CANONICAL and not self.stage:
            cleaning = op.parent.operation
            self._pass(cleaning, handles.get(cleaning.operands[0]), "canonicalize")
        elif op.name not in (*_ENTRY_OPS, _CANONICAL) and not follow(op, handles):
            raise UnreadableError(op, "an op of the entry that rules have no words for")

    def _foreach_match(self, op: ir.Operation, handles: dict[ir.Value, Handle]) -> None:
        if not isinstance(handles.get(op.operands[0]), Scope) or "restrict_root" in op.attributes:
            raise UnreadableError(op, "in a part of the program only: rules apply everywhere")
        if len(op.operands) != 1:
            raise UnreadableError(op, "with further handles for the matchers")
        handles[op.results[0]] = handles[op.operands[0]]
        self._next_stage(op)
        for matcher, action in zip(*(_names(op.attributes[n]) for n in ("matchers", "actions")), strict=True):
            with self._noting():
                self._rule(self.symbols[matcher], self.symbols[action])

    def _collect(self, op: ir.Operation, handles: dict[ir.Value, Handle]) -> None:
        if not isinstance(handles.get(op.operands[0]), Scope):
            raise UnreadableError(op, "in a part of the program only: rules apply everywhere")
        if len(op.results) != 1:
            raise UnreadableError(op, "of other than the ops that are found")
        matcher = ir.FlatSymbolRefAttr(op.attributes["matcher"]).value
        handles[op.results[0]] = Collected((self.symbols[matcher],), self.stage)

    def _annotate_collected(self, op: ir.Operation, collected: Collected, handles: dict[ir.Value, Handle]) -> None:
        """Annotations of what was found before: no attribute that was set since keeps it from being found."""
        self._next_stage(op)
        texts: dict[str, str] = {}
        for each in self._together(op, handles):
            self.read_before.add(each)
            with self._noting():
                name, text = attribute_set(each, handles)
                texts[name] = text
        for sequence in collected.matchers if texts else ():
            with self._noting():
                matcher = Matcher(sequence)
                template, yielded = matcher.read(), matcher.yielded()
                # The bindings compare ops with ops alone.
                if [*map(type, yielded)] != [type(matcher.root)] or yielded != [matcher.root]:
                    raise UnreadableError(sequence, "a matcher that yields other than the op that it is given")
                pattern = self._pattern(sequence, template)
                self._mark(pattern, texts, matcher.shape(), (op, sequence), collected.stage)

    def _mark(
        self,
        pattern: str,
        texts: Mapping[str, str],
        shape: Shape,
        at: tuple[ir.Operation, ir.Operation],
        found: int | None = None,
    ) -> None:
        """A rule that sets attributes. at: what asks for it, and the matcher, for messages. found: as of `Pair`."""
        rule = f"annotate {pattern} with {{{', '.join(texts.values())}}}"
        asked, matcher = at
        _check(f"{self._text(pattern)}\n{rule}", asked, "rule")
        self.pairs.append(Pair(rule, shape, self.stage, matcher, frozenset(texts), found))

    def _together(self, op: ir.Operation, handles: dict[ir.Value, Handle]) -> list[ir.Operation]:
        """An annotation with those right behind it of the same ops; alone where others set any of their attributes."""
        found: list[ir.Operation] = []
        rest = itertools.dropwhile(lambda each: each != op, (each.operation for each in op.block.operations))
        for each in rest:
            if each.name == "transform.annotate" and each.operands[0] == op.operands[0]:
                found.append(each)
            elif each.name != "transform.param.constant":
                break
            else:
                follow(each, handles)
        return found if all(self.setters[str(each.attributes["name"])] == 1 for each in found) else [op]

    def _annotate(self, op: ir.Operation, handles: dict[ir.Value, Handle]) -> None:
        if op in self.read_before:
            return
        named = handles.get(op.operands[0])
        if isinstance(named, Collected):
            self._annotate_collected(op, named, handles)
            return
        if not isinstance(named, NamedOp):
            raise UnreadableError(op, "attributes of other than all ops of some names")
        self._next_stage(op)
        name, text = attribute_set(op, handles)
        pattern = self._declared(self.patterns, named_template(named).text(), f"ops_for_{_word(name)}")
        self._mark(pattern, {name: text}, Shape(names=named.names), (op, op))

    def _run(self, op: ir.Operation, handles: dict[ir.Value, Handle]) -> None:
        options = str(op.attributes["options"]) if "options" in op.attributes else "{}"
        if options not in ("{}", '""') or len(op.operands) != 1:
            raise UnreadableError(op, "a pass with options")
        scope = handles[op.results[0]] = handles.get(op.operands[0])
        self._pass(op, scope, ir.StringAttr(op.attributes["pass_name"]).value)

    def _pass(self, op: ir.Operation, scope: Handle, name: str) -> None:
        if not isinstance(scope, Scope):
            raise UnreadableError(op, "a pass on a part of the program only")
        passes = name if scope is Scope.MODULE else f"{scope.value}({name})"
        try:
            PassManager.parse(f"builtin.module({passes})")
        except ValueError as failure:
            raise UnreadableError(op, f"a pass that cannot be run: {_reason(failure)}") from None
        if self.stage and self.cleaning is None:
            self.cleaning = op
        self.runs.append(f"run {quote(passes)} at {'global-optimization' if self.stage else 'preprocessing'}")

    def _next_stage(self, op: ir.Operation) -> None:
        """Raises UnreadableError behind a pass that follows other matching: passes come before all rules or after."""
        if self.cleaning is not None:
            raise UnreadableError(
                op, f"matching after the pass at {location_text(self.cleaning)}, which runs after all rules"
            )
        self.stage += 1

    # ---- one pair -------------------------------------------------------------------------------------------------

    def _rule(self, sequence: ir.Operation, action: ir.Operation) -> None:
        matcher, template, done = _read(sequence, action, self.symbols)
        pattern = self._pattern(sequence, template)
        if isinstance(done, UnreadableError):
            raise done
        if done.attributes:
            self._mark(pattern, done.attributes, matcher.shape(), (action, sequence))
            return
        rule = f"replace {pattern} with {self._replacement(template, done, action, pattern)}"
        self.pairs.append(Pair(rule, matcher.shape(), self.stage, sequence))

    def _pattern(self, sequence: ir.Operation, template: Draft) -> str:
        """The name of the pattern that a matcher is."""
        text = template.text()
        _check(text, sequence, "pattern")
        return self._declared(self.patterns, text, _word(symbol_of(sequence)))

    def _text(self, pattern: str) -> str:
        """The declaration of a pattern by its name."""
        return next(text for text, name in self.patterns.items() if name == pattern)

    def _replacement(self, template: Draft, done: Action, action: ir.Operation, pattern: str) -> str:
        """A call of a kernel, where the function is a plain shim around one; else MLIR that calls the function."""
        if done.called not in self.symbols:
            raise UnreadableError(action, f"there is no function @{done.called}")
        function = self.symbols[done.called]
        passed = [argument_of(value) for value in done.passed]
        known: Mapping[int, Input] = {
            number: each for number, at in enumerate(passed) for each in template.inputs if each.position == at
        }
        try:
            text, names = kernel_declarations.kernel(read_call(function, self.symbols), template, known)
            _check(f"{text}\n{self._text(pattern)}\nreplace {pattern} with NAME({', '.join(names)})", action, "rule")
        except UnreadableError:
            insertions.check_symbols(done.called, self.symbols)
            call = insertions.call_text(function, template, known, passed)
            _check(f"{self._text(pattern)}\nreplace {pattern} with {call}", action, "rule")
            self.called[done.called] = None
            return call
        return f"{self._declared(self.kernels, text, f'kernel{len(self.kernels)}')}({', '.join(names)})"

    def _declared(self, known: dict[str, str], text: str, wanted: str) -> str:
        """The name of a declaration, `NAME` in its text, that is added unless there is an equal one."""
        for other, name in known.items():
            if other == text.replace("NAME", name, 1):
                return name
        name = wanted
        taken = {*self.kernels.values(), *self.patterns.values(), *RESERVED}
        while name in taken or vocabulary.is_word(name):
            name += "_"
        known[text.replace("NAME", name, 1)] = name
        return name


def _read(
    sequence: ir.Operation, action: ir.Operation, symbols: Mapping[str, ir.Operation]
) -> tuple[Matcher, Draft, Action | UnreadableError]:
    """A matcher with its pattern, and its action, or why that cannot be read."""
    matcher = Matcher(sequence)
    template = matcher.read()
    try:
        done = read_action(action, matcher.yielded(), matcher.root)
        # What is passed on must be known: it is the value that reductions start from in nearly all programs.
        from_neutral = any(argument_of(value) in template.starts for value in done.passed)
        scalars = _scalars(template, done, symbols)
        if from_neutral or scalars:
            matcher = Matcher(sequence, Reading(from_neutral, scalars))
            template = matcher.read()
            done = read_action(action, matcher.yielded(), matcher.root)
        return matcher, template.of_result(done.result) if done.result else template, done
    except UnreadableError as error:
        return matcher, template, error


def _scalars(template: Draft, done: Action, symbols: Mapping[str, ir.Operation]) -> frozenset[int]:
    """The arguments of the template, tensors of rank 0, that a C function is handed as scalars."""
    if done.called not in symbols:
        return frozenset()
    try:
        call = read_call(symbols[done.called], symbols)
    except UnreadableError:
        return frozenset()
    given = {argument for argument, scalar in zip(call.arguments, call.scalars, strict=True) if scalar}
    at = {argument_of(value) for number, value in enumerate(done.passed) if number in given}
    return frozenset(each.position for each in template.inputs if each.dims == () and each.position in at)


def _check(text: str, op: ir.Operation, what: str) -> None:
    """Raises UnreadableError, for the op that it was read from, where a part of the file does not load."""
    try:
        load_text(text)
    except SpecError as error:
        why = next(d.message for d in error.diagnostics if d.severity == "error")
        raise UnreadableError(op, f"a {what} that cannot be said: {why}") from None


# ---- pieces ------------------------------------------------------------------------------------------------------


def _walk(root: ir.Operation) -> Iterator[ir.Operation]:
    """The ops below an op, those inside of templates left out."""
    for region in root.regions:
        for block in region.blocks:
            for op in block.operations:
                yield op.operation
                if op.operation.name != _DAG:
                    yield from _walk(op.operation)


def _matched(op: ir.Operation, handles: Mapping[ir.Value, Handle]) -> Scope | NamedOp | None:
    """What a `structured.match` finds, as far as rules can say it: all functions, or all ops of some names."""
    restricted = {"op_attrs", "interface", "filter_result_type", "filter_operand_types"} & set(op.attributes)
    if "ops" not in op.attributes or restricted or not isinstance(handles.get(op.operands[0]), Scope):
        return None
    names = tuple(ir.StringAttr(n).value for n in ir.ArrayAttr(op.attributes["ops"]))
    return next((scope for scope in Scope if scope.value in names), NamedOp(names, op))


def _merged(op: ir.Operation, handles: Mapping[ir.Value, Handle]) -> Collected | None:
    """What several matchers have found, at once."""
    found = [handles.get(value) for value in op.operands]
    collected = [each for each in found if isinstance(each, Collected)]
    if len(collected) != len(found) or len({each.stage for each in collected}) != 1:
        return None
    return Collected(tuple(m for each in collected for m in each.matchers), collected[0].stage)


def _reason(failure: ValueError) -> str:
    """What a pass manager says of a pass."""
    lines = [line for line in str(failure).splitlines() if "error:" in line] or [str(failure)]
    return lines[0].rpartition("error: ")[2]


def _word(name: str) -> str:
    """A symbol or an attribute's name as a name of our language."""
    return re.sub(r"[^A-Za-z0-9_]|^(?=[0-9])", "_", name)


def _names(attribute: ir.Attribute) -> list[str]:
    return [ir.FlatSymbolRefAttr(symbol).value for symbol in ir.ArrayAttr(attribute)]
