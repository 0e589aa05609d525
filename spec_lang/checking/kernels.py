"""What a kernel's declaration gets wrong."""

from __future__ import annotations

import math
import re
from collections.abc import Collection

from opsplice.common.errors import did_you_mean
from opsplice.spec_lang.checking import scalar_kernels
from opsplice.spec_lang.checking.conditions import (
    LIMITS,
    Names,
    check_arithmetic,
    check_condition,
    check_parameters,
)
from opsplice.spec_lang.checking.types.element_types import Report, check_element
from opsplice.spec_lang.syntax import tree, vocabulary
from opsplice.spec_lang.syntax.spec_errors import error, warning
from opsplice.spec_lang.syntax.tree import Dim, ScalarType, Span, TensorType, Type

# Threads in a workgroup that CUDA takes, and Vulkan on the usual devices.
MOST_THREADS = 1024


BACKENDS = ("cpu", "cuda", "rocm", "spirv", "vulkan", "metal", "wgsl")


# Buffers that IREE's runtime takes in a dispatch (3.13, runtime/src/iree/modules/hal/module.c).
MOST_BUFFERS = 32


FORMS = ("object", "bitcode", "dispatch", "plugin", "provided", "command", "recorded", "generated")


# The backends of forms that are not for CPUs only.
_BACKENDS_OF = {"provided": BACKENDS, "command": BACKENDS, "recorded": BACKENDS}


# What takes strided and optional buffers: functions that are called by what we write, and whole dispatches.
_STRIDED_FORMS = (None, "object", "bitcode", "plugin", "dispatch", "provided", "generated", "command")


_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")


def check_kernel(kernel: tree.Kernel, builds: Collection[str], report: Report) -> None:
    """builds: the names that stand for several clauses."""
    dims = check_parameters(kernel, report)
    for parameter in kernel.parameters:
        if parameter.type.element.name == "i4":
            _check_nibbles(parameter, kernel, report)
        else:
            _check_kernel_type(parameter.type, kernel, report)
        for dim in (dim for dim in parameter.type.dims if dim.sum is not None):
            report(error(dim.span, "only the sizes of results are computed", "name the dim, and ask for it in `where`"))
    if kernel.is_scalar:
        scalar_kernels.check(kernel, report)
    else:
        _check_kernel_results(kernel, dims, report)
    declared = [(p.name, p.type) for p in kernel.parameters] + [(r.name, r.type) for r in kernel.results if r.type]
    strided = {name: kind for name, kind in declared if isinstance(kind, TensorType) and kind.strided}
    names = Names(dims, [v.name for v in kernel.type_variables], strided=strided)
    check_condition(kernel.where, names, report)
    for size in kernel.grid:
        check_arithmetic(size, names, report)
        for asked in (part for part in tree.parts(size) if isinstance(part, tree.Property)):
            report(error(asked.span, f"a grid is made of dims, and {asked.kind} is for conditions"))
        if isinstance(size, tree.Literal) and size.value < 1:
            report(error(size.span, f"a grid of {size.value} workgroups runs nothing"))
    if len(kernel.grid) > 3:
        report(error(kernel.grid[3].span, f"a grid has 3 dims at most, found {len(kernel.grid)}"))
    _check_buffers(kernel, report)
    _check_strided(kernel, report)
    _check_zeroed(kernel, report)
    _check_scratch(kernel, report)
    _check_finite(kernel, report)
    _check_order(kernel, report)
    if kernel.workgroup_span is not None:
        _check_workgroup(kernel.workgroup, kernel.workgroup_span, report)
    _check_symbol(kernel, report)
    if not kernel.artifacts:
        report(error(kernel.name_span, f"kernel {kernel.name} has no code", f'name its file: cpu "{kernel.name}.c"'))
    for clause in kernel.artifacts:
        if clause.backend not in BACKENDS:
            known = [*BACKENDS, *builds]
            near = None if clause.backend == "gpu" else did_you_mean(clause.backend, known)
            advice = near or f"there are {' '.join(known)}"
            report(error(clause.span.first(clause.backend), f"unknown backend {clause.backend}", advice))
        for limit in clause.limits:
            _check_limit(limit, clause, report)
        # IREE 3.13 drops the number for ROCm, and the workgroup would have no memory.
        if clause.shared and clause.backend != "cuda":
            message = f"the code says how much memory a workgroup shares on {clause.backend}"
            report(error(clause.span, message, "`shared` is for cuda: write the size into the source"))
        if clause.threads and clause.backend == "cpu":
            report(error(clause.span, "a workgroup has threads on GPUs", "leave out `threads`"))
        elif clause.threads:
            _check_workgroup((clause.threads,), clause.span, report)
        if clause.takes and clause.backend != "cuda":
            message = f"parameters in an order of their own are for cuda, and this clause is for {clause.backend}"
            report(error(clause.span, message, "let the code take what a dispatch is passed"))
        if clause.links and (clause.backend != "cpu" or clause.form not in (None, "object", "provided", "plugin")):
            what = clause.backend if clause.backend != "cpu" else f"as {clause.form}"
            report(error(clause.span, f"archives are linked with objects for CPUs, and this clause is `{what}`"))
        for name in LIMITS:
            if name in clause.features:
                report(error(clause.span, f"{name} is a number, and is compared", f"write such as `{name} >= 32`"))
        if clause.form is not None and clause.form not in FORMS:
            advice = did_you_mean(clause.form, FORMS) or f"there are {' '.join(FORMS)}"
            report(error(clause.span, f"a kernel's code cannot be taken as {clause.form}", advice))
        elif kernel.is_scalar and clause.form not in (None, "object", "bitcode"):
            scalar_kernels.check_form(clause, report)
        elif clause.is_generated:
            _check_generated(clause, report)
        elif clause.form is not None and clause.backend not in _BACKENDS_OF.get(clause.form, ("cpu",)):
            backends = " and ".join(_BACKENDS_OF.get(clause.form, ("cpu",)))
            message = f"`as {clause.form}` is for {backends}, and this clause is for {clause.backend}"
            report(error(clause.span, message, "its file holds a whole dispatch"))
        elif clause.form is None and clause.path.endswith(".py") and not kernel.is_scalar:
            advice = "write `as generated` if it writes the code, `as command` if the program calls it"
            report(error(clause.path_span, f"{clause.path} is a Python file, and not a kernel's code itself", advice))


def check_builds(spec: tree.Spec, report: Report) -> None:
    """Judge what stands for several clauses: names that are its own, and clauses that a kernel could have."""
    seen: set[str] = set()
    for builds in (item for item in spec.items if isinstance(item, tree.Builds)):
        if builds.name in BACKENDS or builds.name in seen:
            what = "the name of a backend" if builds.name in BACKENDS else "declared twice"
            report(error(builds.name_span, f"{builds.name} is {what}", "choose another name for the builds"))
        seen.add(builds.name)
        for clause in builds.clauses:
            if clause.backend not in BACKENDS:
                advice = did_you_mean(clause.backend, BACKENDS) or f"there are {' '.join(BACKENDS)}"
                report(error(clause.span, f"unknown backend {clause.backend}", advice))


def _check_buffers(kernel: tree.Kernel, report: Report) -> None:
    kinds = [p.type for p in kernel.parameters] + [r.type for r in kernel.results if r.alias is None]
    count = sum(isinstance(kind, TensorType) for kind in kinds)
    if count > MOST_BUFFERS and not all(clause.is_command for clause in kernel.artifacts):
        message = f"kernel {kernel.name} has {count} buffers, and a dispatch takes {MOST_BUFFERS}"
        report(error(kernel.name_span, message, "pass several tensors as one"))


def _check_strided(kernel: tree.Kernel, report: Report) -> None:
    """What kernels with strided or optional buffers have to keep to."""
    kinds = [*(p.type for p in kernel.parameters), *(r.type for r in kernel.results if r.type is not None)]
    strided = [kind for kind in kinds if kind.strided]
    optional = [kind for kind in kinds if kind.optional]
    given = {None, *(dim.name for kind in kinds if not kind.optional for dim in kind.dims)}
    for kind in optional:
        for dim in (dim for dim in kind.dims if dim.name not in given):
            report(error(dim.span, f"nothing says how large {dim.name} is where this buffer is left out"))
    overwritten = {result.alias: result for result in kernel.results if result.alias is not None}
    for parameter in kernel.parameters:
        words = [word for word in ("strided", "optional", "copied") if getattr(parameter.type, word)]
        if parameter.name in overwritten and (words or parameter.type.lies):
            word = words[0] if words else "as"
            what = f"is {word}" if words else "has an order of its own"
            message = f"{parameter.name} {what} and cannot be overwritten"
            report(error(overwritten[parameter.name].span, message, f"make a result of its own, or leave out `{word}`"))
    for result in kernel.results:
        if result.type in optional:
            report(error(result.span, "a result is always there", "leave out `optional`"))
    whole = {size.name for size in kernel.grid if isinstance(size, tree.DimRef)}
    packs = {dim.pack: dim for kind in strided for dim in kind.dims if dim.pack is not None and dim.pack not in whole}
    for pack, dim in packs.items() if not all(map(_on_the_host, kernel.artifacts)) else ():
        advice = f"make it a dim of the grid, grid ({pack}): the kernel gets the address of its workgroup's part"
        report(error(dim.span, f"no dim of the grid is {pack}, a pack of a strided buffer", advice))
    for clause in kernel.artifacts if strided or optional else ():
        late = bool(optional) and (clause.form, clause.backend) == ("provided", "cpu")  # one function for all calls
        if late or clause.form not in _STRIDED_FORMS or (clause.is_command and not _on_the_host(clause)):
            word = "strided" if strided and not late else "optional"
            which = " in a module of IREE's" if clause.form == "command" else ""
            message = f"no kernel `as {clause.form}`{which} takes {word} buffers"
            instead = "write `copied` in place of `strided`: the program then makes dense copies"
            report(error(clause.span, message, instead if word == "strided" else None))


def _on_the_host(clause: tree.ArtifactClause) -> bool:
    """Whether a clause is a function that we call, with arrays: in any layout, and with all dims of a pack."""
    return clause.form == "command" and not clause.path.endswith(".vmfb")


def _check_zeroed(kernel: tree.Kernel, report: Report) -> None:
    for parameter in kernel.parameters:
        if parameter.type.zeroed:
            report(error(parameter.type.span, "only results start at zero", "leave out `zeroed`"))
    for result in kernel.results:
        if result.type is not None and result.type.zeroed and (result.type.strided or result.type.copied):
            word = "strided" if result.type.strided else "copied"
            report(error(result.type.span, "a result that starts at zero is dense", f"leave out `{word}`"))
    zeroed = [each.type is not None and each.type.zeroed for each in kernel.results]
    if zeroed != sorted(zeroed, reverse=True):
        late = kernel.results[zeroed.index(True, zeroed.index(False))]
        report(error(late.span, "results that start at zero come before the others"))


def _check_scratch(kernel: tree.Kernel, report: Report) -> None:
    for parameter in kernel.parameters:
        if parameter.type.scratch:
            report(error(parameter.type.span, "memory of the kernel's own is a result", "put it behind the arrow"))
    kinds = [*(p.type for p in kernel.parameters), *(r.type for r in kernel.made if r.type is not None)]
    known = {dim.symbol or dim.pack for kind in kinds for dim in kind.dims}
    for result in (each for each in kernel.results if each not in kernel.made):
        assert result.type is not None, "only a type is `scratch`"
        word = next((word for word in ("strided", "copied") if getattr(result.type, word)), None)
        if word is not None:
            report(error(result.type.span, "memory of the kernel's own is dense", f"leave out `{word}`"))
        for dim in result.type.dims:
            if dim.symbol is not None and dim.symbol not in known:
                advice = "make it of the kernel's dims, ceildiv(n, 64), or a number"
                report(error(dim.span, f"nothing says how large {dim.symbol} is", advice))
    for clause in (each for each in kernel.artifacts if each.is_command and kernel.made != kernel.results):
        report(error(clause.span, "a command takes what memory it wants by itself", "leave out the `scratch` result"))
    if not kernel.made:
        report(error(kernel.results[0].span, "a kernel makes more than memory of its own"))


def _check_finite(kernel: tree.Kernel, report: Report) -> None:
    for result in kernel.results:
        if result.type is not None and result.type.finite:
            report(error(result.type.span, "only what a kernel takes is to be finite", "leave out `finite`"))
    for parameter in kernel.parameters:
        if parameter.type.finite and vocabulary.is_integer(parameter.type.element.name):
            report(error(parameter.type.span, "whole numbers are always finite", "leave out `finite`"))


def _check_order(kernel: tree.Kernel, report: Report) -> None:
    """A dense buffer may have its dims in another order in memory: the same dims, each once."""
    kinds = [*(p.type for p in kernel.parameters), *(r.type for r in kernel.results if r.type is not None)]
    for kind in (kind for kind in kinds if kind.lies):
        dims = list(map(str, kind.dims))
        if sorted(map(str, kind.lies)) != sorted(dims) or len(set(dims)) < len(dims):
            report(error(kind.lies[0].span, f"`as` takes the buffer's dims, each once: {', '.join(dims)}"))
        word = next((word for word in ("strided", "zeroed", "scratch") if getattr(kind, word)), None)
        if word is not None:
            report(error(kind.span, f"a buffer that is {word} has no order of its own", "leave out `as`"))


def _check_limit(limit: tree.Limit, clause: tree.ArtifactClause, report: Report) -> None:
    word = limit.span.first(limit.name)
    if limit.name not in LIMITS:
        advice = did_you_mean(limit.name, LIMITS) or f"there are {' '.join(LIMITS)}"
        report(error(word, f"a device has no number {limit.name}", advice))
    elif clause.backend == "cpu":
        report(error(word, f"{limit.name} is a number of GPUs, and this clause is for cpu"))


def _check_generated(clause: tree.ArtifactClause, report: Report) -> None:
    if clause.path and not clause.path.endswith(".py"):
        message = f"{clause.path} is not a Python file, and a generator is one"
        report(error(clause.path_span, message, "without `as generated` the file is the code itself"))


def _check_workgroup(workgroup: tuple[int, ...], span: Span, report: Report) -> None:
    if len(workgroup) > 3:
        report(error(span, f"a workgroup has 3 dims at most, found {len(workgroup)}"))
    elif 0 in workgroup:
        report(error(span, "a workgroup has a thread at least in each dim"))
    elif math.prod(workgroup) > MOST_THREADS:
        report(error(span, f"a workgroup has {MOST_THREADS} threads at most, found {math.prod(workgroup)}"))


def _check_kernel_type(written: Type, kernel: tree.Kernel, report: Report) -> None:
    element = written.element
    variable = next((v for v in kernel.type_variables if v.name == element.name), None)
    for choice in variable.choices if variable else (element,):
        scalar_index = choice.name == "index" and isinstance(written, ScalarType)
        if vocabulary.is_element(choice.name) and choice.name not in vocabulary.KERNEL_ELEMENTS and not scalar_index:
            advice = f"there are {' '.join(vocabulary.KERNEL_ELEMENTS)}, and index for a scalar"
            report(error(choice.span, f"kernels take no {choice}", advice))
    for dim in written.dims:
        if dim.name is None and dim.size is None and dim.sum is None:
            report(error(dim.span, "a kernel is told its sizes, so each dim has a name or a size"))


def _check_nibbles(parameter: tree.Parameter, kernel: tree.Kernel, report: Report) -> None:
    """Numbers of four bits lie in pairs, which only what is linked into the program is handed as they are."""
    kind = parameter.type
    if not isinstance(kind, TensorType) or kind.any_layout:
        report(error(kind.span, "i4 is for dense buffers, of two numbers a byte", "take it as i8"))
    if any(result.alias == parameter.name for result in kernel.results):
        report(error(parameter.span, "a buffer of i4 is not overwritten", "make a result of its own, of i8"))
    for clause in kernel.artifacts:
        if clause.form not in (None, "object", "bitcode", "dispatch", "generated"):
            report(error(clause.span, f"no kernel `as {clause.form}` takes a buffer of i4", "take it as i8"))


def _check_kernel_results(kernel: tree.Kernel, dims: dict[str, Dim], report: Report) -> None:
    parameters = {p.name: p for p in kernel.parameters}
    names = set(parameters)
    aliased: set[str] = set()
    for result in kernel.results:
        if result.alias is not None:
            _check_alias(result, parameters, aliased, report)
            aliased.add(result.alias)
            continue
        assert isinstance(result.type, TensorType), "scalar kernels are judged by themselves"
        if result.name in names:
            advice = "give the result a name of its own: y: f32[n]"
            report(error(result.span, f"{result.name} is declared twice", advice))
        names.add(result.name)
        _check_kernel_type(result.type, kernel, report)
        if not check_element(result.type.element, kernel.type_variables, report):
            continue
        for dim in result.type.dims:
            if dim.pack is not None and dim.pack not in dims:
                advice = did_you_mean(dim.pack, dims) or "a result's packs are those of the kernel's buffers"
                report(error(dim.span, f"no buffer has a pack {dim.pack}", advice))
            elif dim.symbol is not None:
                dims.setdefault(dim.symbol, dim)  # what is replaced says how large it is
            elif dim.sum is not None:
                check_arithmetic(dim.sum, Names(dims, [v.name for v in kernel.type_variables]), report)


def _check_alias(
    result: tree.KernelResult, parameters: dict[str, tree.Parameter], aliased: set[str], report: Report
) -> None:
    assert result.alias is not None
    parameter = parameters.get(result.alias)
    if parameter is None:
        advice = did_you_mean(result.alias, parameters) or "a result is a buffer, f32[n], or a parameter to overwrite"
        if vocabulary.is_element(result.alias):
            advice = f"a result is a buffer: {result.alias}[n], or {result.alias}[] for a single value"
        report(error(result.span, f"unknown parameter {result.alias}", advice))
    elif isinstance(parameter.type, ScalarType):
        report(error(result.span, f"{result.alias} is a scalar and cannot be overwritten", "only buffers can"))
    elif result.alias in aliased:
        report(error(result.span, f"{result.alias} is overwritten by two results"))


def _check_symbol(kernel: tree.Kernel, report: Report) -> None:
    symbol = kernel.symbol if kernel.symbol is not None else kernel.name
    span = kernel.symbol_span or kernel.name_span
    known = [v.name for v in kernel.type_variables]
    named = _PLACEHOLDER.findall(symbol)
    for name in named:
        if name not in known:
            advice = did_you_mean(name, known) or "only type variables stand in braces"
            report(error(span, f"the symbol of {kernel.name} has an unknown {{{name}}}", advice))
    rest = _PLACEHOLDER.sub("", symbol)
    if not symbol or re.search(r"[\s{}]", re.sub(r"<.*>", "", rest)):
        report(error(span, f'"{symbol}" is not a symbol that code can define'))
    # Arrays and tensors of Python say of which type they are, and a generator is told.
    is_told = all(
        clause.form == "generated" or (clause.form == "command" and not clause.path.endswith(".vmfb"))
        for clause in kernel.artifacts
    )
    for variable in kernel.type_variables:
        if len(variable.choices) > 1 and variable.name not in named and not (is_told and kernel.artifacts):
            message = f"{kernel.name} calls one symbol, {symbol}, whatever {variable.name} is"
            advice = f'name one for each type: symbol "{symbol}_{{{variable.name}}}"'
            report(warning(variable.span, message, advice, code="shared-symbol"))
