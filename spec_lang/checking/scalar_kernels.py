"""What the checker asks of scalar kernels: functions on elements, which the compiler calls inside its own code.

    kernel fast_gelu(x: f32) -> f32 { cpu "gelu.c"  vulkan "gelu.mlir" }

Their parameters and their single result are scalars. In a rule, a tensor of the result's shape stands for its elements.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from opsplice.spec_lang.checking.types.element_types import Report, check_element
from opsplice.spec_lang.checking.types.signature_binding import Binding
from opsplice.spec_lang.syntax import tree, vocabulary
from opsplice.spec_lang.syntax.spec_errors import error
from opsplice.spec_lang.syntax.tree import ScalarType, TensorType, Type

# The backends that code for such functions can be named for.
BACKENDS = ("cpu", "cuda", "rocm", "vulkan", "metal", "wgsl")
_WITHOUT = ("spirv",)
# Those whose code can be linked with such functions when it is loaded, and why others' cannot.
_IMPORTING = ("vulkan", "wgsl", "cuda")
_LINKED_WHEN_COMPILED = {
    "cpu": "on a CPU the compiler links its loops, and imports only kernels with loops of their own",
    "rocm": "for ROCm the compiler links its code into an object that nothing can be added to",
    "metal": "for Metal nothing here can link",
}
# The program's ops are in dispatches already.
FORMED_PHASES = ("dispatch-creation", "flow")


def check(kernel: tree.Kernel, report: Report) -> None:
    """Judge what only scalar kernels have to keep to."""
    for result in kernel.results:
        if isinstance(result.type, ScalarType):
            _check_result(result, result.type, kernel, report)
    if kernel.grid:
        report(error(kernel.grid[0].span, "a function on elements has no grid", "IREE makes the loop around it"))
    for clause in kernel.artifacts:
        _check_clause(clause, report)


def check_form(clause: tree.ArtifactClause, report: Report) -> None:
    """Judge a clause whose form is not one of those that are linked."""
    if clause.backend in _WITHOUT or (clause.form == "plugin" and clause.backend in _IMPORTING):
        return
    message = f"a function that is called for each element cannot be taken as {clause.form}"
    advice = "it goes into the compiler's own loops: `as bitcode` or `as object`"
    if clause.form == "plugin":
        message += f" for {clause.backend}"
        reason = _LINKED_WHEN_COMPILED.get(clause.backend)
        advice = "; ".join(filter(None, [f"it can for {', '.join(_IMPORTING)}", reason]))
    report(error(clause.span, message, advice))


def check_rule(
    rule: tree.Rule,
    kernel: tree.Kernel,
    parameters: Mapping[str, tree.Parameter],
    results: Sequence[Type | None],
    binding: Binding,
    report: Report,
) -> None:
    """Judge a rule with a scalar kernel, whose arguments have the right elements: shapes, and the phase."""
    if rule.phase in FORMED_PHASES and rule.phase_span is not None:
        advice = "at global-optimization or earlier"
        report(error(rule.phase_span, f"a function on elements cannot be put in at {rule.phase}", advice))
    if len(results) != 1 or results[0] is None:
        return
    wanted = results[0].dims
    values = [a for a in rule.args if isinstance(a, tree.Name) and a.name in parameters]
    if not values:
        message = f"{kernel.name} is given no value of the program"
        report(error(rule.kernel_span, message, "give it an input of the pattern"))
    for arg in values:
        kind = parameters[arg.name].type
        if not isinstance(kind, TensorType):
            continue
        unnamed = any(str(dim) == "?" for dim in (*kind.dims, *wanted))
        if [str(d) for d in kind.dims] != [str(d) for d in wanted] or unnamed:
            message = f"{arg.name} is {kind}, and {rule.pattern} is {results[0]}"
            advice = "a function on elements takes tensors of the result's shape, their dims named, and scalars"
            report(error(arg.span, message, advice))


def _check_result(result: tree.KernelResult, kind: ScalarType, kernel: tree.Kernel, report: Report) -> None:
    if not check_element(kind, kernel.type_variables, report):
        return
    buffer = next((p for p in kernel.parameters if isinstance(p.type, TensorType)), None)
    if len(kernel.results) > 1:
        advice = f"write {kind}[] for a buffer with a single value"
        report(error(result.span, "a function on elements has one result", advice))
    elif buffer is not None:
        advice = f"a result is then a buffer: {kind}[n], or {kind}[] for a single value"
        notes = [(buffer.span, "it takes this buffer")]
        report(error(result.span, f"{kernel.name} takes a buffer, so it is not a function on elements", advice, notes))
    elif not kernel.parameters:
        report(error(kernel.name_span, f"{kernel.name} takes no element", "such as x: f32"))
    named = [(p.type, p.span) for p in kernel.parameters if isinstance(p.type, ScalarType)]
    for element, span in [*named, (kind, result.span)]:
        if element.name == "index":
            report(error(span, "no element is an index", "write i64"))
    if vocabulary.is_element(kind.name) and kind.name not in (*vocabulary.KERNEL_ELEMENTS, "index"):
        report(error(kind.span, f"kernels take no {kind}", f"there are {' '.join(vocabulary.KERNEL_ELEMENTS)}"))
    variables = {v.name for v in kernel.type_variables}
    if kind.name in variables and kind.name not in {element.name for element, _ in named}:
        report(error(kind.span, f"no parameter says what {kind} is"))


def _check_clause(clause: tree.ArtifactClause, report: Report) -> None:
    if clause.backend in _WITHOUT:
        message = f"a function on elements has no code for {clause.backend}"
        report(error(clause.span.first(clause.backend), message, f"there are {' '.join(BACKENDS)}"))
    elif clause.backend != "cpu" and (
        clause.features or clause.limits or clause.form not in (None, "plugin") or clause.flags
    ):
        report(error(clause.span, "features, flags and forms but `as plugin` are said of code for cpu alone"))
