"""A pattern from ops of a program: read, lift, write, and prove by matching the program with what was written.

    model --to phase--> ops at a place --slices--> slice --lift--> parts --capture--> spec --find--> the same place

Nothing is given back that was not found again. It imports the compiler; import it only when there is a model to read.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from iree.compiler import ir

from opsplice.common.errors import OpspliceError
from opsplice.compiling.resolution import unread
from opsplice.matchers.capture import pattern_text
from opsplice.matchers.capture.expressions import Captured, Opaque, walk
from opsplice.matchers.capture.leading_dims import packed
from opsplice.matchers.capture.lift import lift
from opsplice.matchers.capture.naming import name as name_parts
from opsplice.matchers.capture.opaque_ops import unreadable
from opsplice.matchers.capture.shared_parts import shared
from opsplice.matchers.capture.slices import RESHAPES, Slice, above, select
from opsplice.matchers.explain.pointing import Ops
from opsplice.matchers.find import engine
from opsplice.matchers.ir.op_names import FUNCTIONS, around, location_text, symbol_of
from opsplice.matchers.ir.tensor_values import VIEWS, defining_op, is_elementwise, is_tensor
from opsplice.matchers.patterns.compiled import compile_patterns
from opsplice.matchers.search.matches import Found, Match
from opsplice.matchers.terms.views import Views
from opsplice.pipeline.compiler import Compilation, Step, run
from opsplice.reports.captured import Capture, CaptureJob, Op
from opsplice.rewrites.ir.executable_targets import targets_of
from opsplice.rewrites.link import fallback
from opsplice.rewrites.plan.planner import Planner
from opsplice.rewrites.reference.plain_c import reference
from opsplice.spec_lang.formatting import formatter
from opsplice.spec_lang.loading.loader import LoadedSpec, load_text

_SHOWN = 3
_MOST_SHOWN = 5  # ops in the body of one, its end included


def run_capture(on_progress: Any, job: CaptureJob) -> Capture:
    """Capture in this process. Raises OpspliceError; a crash of the compiler ends the process."""
    made: list[Capture] = []
    with Compilation(job.flags, verbose=job.verbose) as compilation:
        compilation.load(job.source)
        step = Step(job.phase, "capture", lambda module: made.append(capture_module(module, job)))
        run(compilation, [step], to=job.phase, on_progress=on_progress)
    return made[0]


def list_ops(on_progress: Any, job: CaptureJob) -> tuple[Op, ...]:
    """The ops that can be pointed at: those that make tensors."""
    with Compilation(job.flags, verbose=job.verbose) as compilation:
        compilation.load(job.source)
        run(compilation, [], to=job.phase, on_progress=on_progress)
        return _listed(compilation.module)


def _listed(module: ir.Module) -> tuple[Op, ...]:
    ops = Ops(module)
    states: dict[ir.Operation, ir.AsmState] = {}
    found = []
    for op in ops.all:
        tensors = [value for value in op.results if isinstance(value.type, ir.RankedTensorType)]
        if not tensors or op.name in ("tensor.empty", "linalg.fill", "arith.constant", "hal.tensor.barrier"):
            continue
        function = _function_of(op)
        state = states.setdefault(function, ir.AsmState(function))
        values = tuple(value.get_name(state) for value in op.results)
        kind = ", ".join(str(value.type) for value in tensors)
        found.append(Op(ops.handle(op), values, kind, symbol_of(function), location_text(op), _does(op)))
    return tuple(found)


def _does(op: ir.Operation) -> str:
    if op.name != "linalg.generic":
        return ""
    names = [each.operation.name.partition(".")[2] for each in op.regions[0].blocks[0].operations]
    shown = names[:-1] if len(names) <= _MOST_SHOWN else [*names[: _MOST_SHOWN - 1], "..."]
    return "reduce " * (not is_elementwise(op)) + ", ".join(shown or ["rearranges"])


def capture_module(module: ir.Module, job: CaptureJob) -> Capture:
    """Capture from a module that is at the job's phase; it is not changed."""
    try:
        return _capture(module, job)
    except RecursionError:
        hint = "say where it starts, with --to or --inputs"
        raise OpspliceError("this part of the program nests too deep to capture", hint=hint) from None


def _capture(module: ir.Module, job: CaptureJob) -> Capture:
    views, ops = Views(), Ops(module)
    part = select(ops, views, job.at, job.to, job.inputs)
    failure = ""
    for captured in _lifted(views, part):
        _check_order(part.roots, captured, ops)
        _check_connected(part.roots, captured, ops)
        try:
            return _tried(module, job, part, captured, ops)
        except _UnprovenError as reason:
            failure = str(reason)
    hint = "this is a bug in opsplice; please report it with the model"
    if len(part.roots) > 1:
        hint = "several results are found from the first: give --at in another order, or for one result alone"
    message = "the captured pattern does not match the place that it was taken from"
    raise OpspliceError(message, details=failure, hint=hint)


def _lifted(views: Views, part: Slice) -> tuple[Captured, ...]:
    """The slice with dims apart that it merges, and as its tensors have them, which comes first if it says as much."""
    apart = shared(lift(views, part))
    if not apart.is_split:
        return (apart,)
    plain = shared(lift(views, part, splitting=False))
    if _opaque(plain) <= _opaque(apart) and all(_is_edge(part, stop.value) for stop in plain.stops):
        return dataclasses.replace(plain, stops=()), apart
    return apart, plain


def _opaque(captured: Captured) -> int:
    """How many ops are only known by name."""
    return sum(isinstance(part, Opaque) for part in walk(captured.results))


def _is_edge(part: Slice, value: ir.Value) -> bool:
    """Whether a value only reshapes what the slice starts at: nothing is cut off there."""
    op = defining_op(value)
    return op is not None and op.name in RESHAPES and part.starts_at(op.operands[0])


def _is_given(value: ir.Value) -> bool:
    """Whether a value is a view of what the program is given, as an argument or a weight."""
    op = defining_op(value)
    while op is not None and op.name in VIEWS:
        op = defining_op(op.operands[0])
    return op is None or not any(map(is_tensor, op.operands))


def _tried(module: ir.Module, job: CaptureJob, part: Slice, captured: Captured, ops: Ops) -> Capture:
    """What is captured, with packs if they are asked for. Raises _UnprovenError where it does not match."""
    stops = [stop for stop in captured.stops if not _is_given(stop.value)]
    notes = [f"cut at {_shown(ops, s.value)}, now an input: above it, {s.reason}" for s in stops]
    notes += [
        f"cut at {_shown(ops, each.value)}, now an input: {unreadable(op)}"
        for each in captured.inputs
        if (op := defining_op(each.value)) in part.unread and op is not None
    ]
    options = pattern_text.Options(job.name, job.concrete, job.element_variable)
    attempts = [captured]
    if job.packs:
        wider = packed(captured, part.roots)
        if wider is None:
            notes.append("no leading dims are only carried along, so there is no pack")
        else:
            attempts.insert(0, wider)
    failure = ""
    for attempt in attempts:
        try:
            made = _written(attempt, options, job.file)
            matches, problem = _proven(module, made, part.roots)
        except _UnprovenError as reason:
            failure = str(reason)
            continue
        if problem and (attempt is not captured or captured.is_split):
            failure = problem
            continue
        if problem:
            made = _written(attempt, options, job.file, problem)
        if attempt is captured and len(attempts) > 1:
            notes.append("with a pack the pattern does not match here, so there is none")
        return _result(job, part.roots[0], attempt, made, matches, ops, notes)
    raise _UnprovenError(failure)


def _check_order(roots: tuple[ir.Value, ...], captured: Captured, ops: Ops) -> None:
    """Raise OpspliceError if an input is made from a result: a kernel needs its inputs before it has results."""
    made = {root.owner.operation for root in roots}
    for part in captured.inputs:
        op = defining_op(part.value)
        if op is not None and made & above([op]):
            raise OpspliceError(
                f"{_shown(ops, part.value)} would be an input, and is made from a result",
                hint="take what lies between as well, with --to, or one result alone",
            )


def _check_connected(roots: tuple[ir.Value, ...], captured: Captured, ops: Ops) -> None:
    """Raise OpspliceError if a result shares no input with those before it: a match finds one result from another."""
    known = set(map(id, walk(captured.results[:1])))
    for root, part in zip(roots[1:], captured.results[1:], strict=True):
        own = set(map(id, walk((part,))))
        if not own & known:
            raise OpspliceError(
                f"{_shown(ops, root)} has no input in common with the results before it",
                hint="capture it on its own: nothing is gained by one kernel for both",
            )
        known |= own


class _UnprovenError(Exception):
    """A pattern that does not hold where it was taken from; the message shows it, and why not."""


@dataclass(frozen=True)
class _Spec:
    text: str
    code: str
    reference: bool
    problem: str


def _written(captured: Captured, options: pattern_text.Options, file: str, problem: str = "") -> _Spec:
    """problem: why there can be no kernel."""
    names = name_parts(captured)
    written = pattern_text.write(captured, names, options)
    signature = written.signature
    problem = problem or signature.problem
    if problem:
        return _Spec(formatter.format(written.pattern), "", False, problem)
    code = reference(captured, names, options)
    arguments = ", ".join(name for name, _ in signature.parameters)
    rule = f"replace {options.name} with {signature.name}({arguments})"
    text = "\n\n".join([_kernel(signature, options, file, code.bitcode), written.pattern, rule])
    return _Spec(formatter.format(text), code.text, code.complete, "")


def _kernel(signature: pattern_text.Signature, options: pattern_text.Options, file: str, bitcode: bool) -> str:
    variable, symbol = "", ""
    if options.element_variable:
        variable = f"<{pattern_text.VARIABLE} in {{{', '.join(pattern_text.VARIABLE_CHOICES)}}}>"
        symbol = f'symbol "{signature.name}_{{{pattern_text.VARIABLE}}}"\n'
    parameters = ", ".join(f"{name}: {kind}" for name, kind in signature.parameters)
    results = ", ".join(signature.results)
    made = results if len(signature.results) == 1 else f"({results})"
    form = " as bitcode" if bitcode else ""
    return f'kernel {signature.name}{variable}({parameters}) -> {made} {{\n{symbol}cpu "{file}"{form}\n}}'


# ---- proof -------------------------------------------------------------------------------------------------------


def _proven(module: ir.Module, made: _Spec, roots: tuple[ir.Value, ...]) -> tuple[Found, str]:
    """What the spec's pattern finds in the module, and why its kernel could not take the place, "" if it could.

    Raises _UnprovenError if the place is not among what is found.
    """
    try:
        spec = load_text(made.text)
    except OpspliceError as failure:
        raise _UnprovenError(f"{made.text}\n{failure}") from None
    found = engine.find(module, compile_patterns(spec))
    here = [match for match in found.matches if match.roots == roots]
    if not here:
        missed = [f"nearest: {miss}" for miss in found.near_misses[:_SHOWN]]
        raise _UnprovenError("\n".join([made.text, *missed]))
    return found, _refusal(module, spec, here[0])


def _refusal(module: ir.Module, spec: LoadedSpec, match: Match) -> str:
    """Why the kernel could not take the place of the match, "" if it could."""
    targets = targets_of(module) if spec.rules else ()
    if not targets:
        return ""  # before phase `preprocessing` nothing says what the program is compiled for
    inputs = (spec.rules, spec.given, spec.kernels, targets, unread, fallback.obstacle(module, targets))
    planned = Planner([match], *inputs).plan()
    return planned.left[0].reason if planned.left else ""


# ---- what is given back ------------------------------------------------------------------------------------------


def _result(
    job: CaptureJob,
    root: ir.Value,
    captured: Captured,
    made: _Spec,
    found: Found,
    ops: Ops,
    notes: list[str],
) -> Capture:
    if made.problem:
        notes.append(f"there is no kernel: {made.problem}")
    names = name_parts(captured)
    function = _function_of(root.owner.operation)
    return Capture(
        name=job.name,
        spec=made.text,
        code=made.code,
        file=job.file,
        function=symbol_of(function),
        location=location_text(root.owner.operation),
        inputs={names.inputs[part]: _shown(ops, part.value) for part in captured.inputs},
        matches=tuple(match.location for match in found.matches),
        reference=made.reference,
        notes=tuple(notes),
    )


def _shown(ops: Ops, value: ir.Value) -> str:
    """What a user calls a value: the op that makes it, or its name in the program."""
    owner = value.owner
    if isinstance(owner, ir.Block):
        return str(value.get_name())
    op = owner.operation
    return f"{ops.handle(op)} ({location_text(op)})"


def _function_of(op: ir.Operation) -> ir.Operation:
    return next(each for each in around(op) if each.parent is None or each.name.endswith(FUNCTIONS))
