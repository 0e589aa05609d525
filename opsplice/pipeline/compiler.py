"""IREE's compiler in this process, phase by phase, with edits applied in between.

`Compilation` wraps one session and one module. `run` drives it through the phases and applies edits; it knows nothing
of patterns, kernels or rules: an edit is a phase, a description for messages and a callable on the module.

IREE's C API has calls for phases and diagnostics that its Python wrapper lacks; they are declared here, from
iree/compiler/embedding_api.h. A fatal error in the compiler ends the process: see `isolate`.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import linecache
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from opsplice.common.errors import OpspliceError, failure_outside
from opsplice.frontends import stablehlo
from opsplice.frontends.declarations import declare_functions
from opsplice.frontends.numbering import number_ops
from opsplice.frontends.shardings import drop_shardings
from opsplice.frontends.source import UNNAMED, ModuleSource
from opsplice.isolation.noise import captured
from opsplice.pipeline import diagnostics as diag
from opsplice.pipeline.bytecode import parse_bytecode
from opsplice.pipeline.flags import apply_process_flags, asks_to_print, conversions, split_flags, with_default_target
from opsplice.pipeline.phases import END, PHASES, START, phase_index
from opsplice.rewrites.ir import stand_ins
from opsplice.rewrites.plan.forbidden_passes import check_module

if TYPE_CHECKING:
    from iree.compiler import ir

_DIAGNOSTIC_CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)


_SYMBOLIC = "failed to legalize operation 'stablehlo.dynamic_"

# MLIR's words where a portable artifact of StableHLO has ops of JAX's partitioner.
_SHARDY = "dialect 'sdy'"

# What IREE makes of a portable artifact of StableHLO, without a word to its context.
_OF_PORTABLE = ("func", "stablehlo", "chlo", "shape", "quant")

# The dialects that IREE converts from, and the flags that say what else it is to do.
_CONVERTED = ("chlo", "stablehlo", "tm_tensor", "torch", "torch_c", "tosa", "vhlo")
_CONVERSIONS = ("--iree-input-type", "--iree-plugin", "--iree-load-plugin")


@dataclass(frozen=True)
class Step:
    """One change of the module (or a look at it), bound to a phase.

    `apply` is called with the module as it stands at `phase`. It may return further steps, for that phase or later
    ones: so a look at the module can plan what to do. It must not keep operations beyond its call: running the compiler
    frees them. is_own: it puts in nothing that specs or users wrote, which might name passes.
    """

    phase: str
    description: str
    apply: Callable[[ir.Module], Iterable[Step] | None]
    is_own: bool = False


@dataclass(frozen=True)
class Progress:
    """Where a compile is: in a phase, or applying an edit at one. notes: what to say if it goes no further."""

    phase: str
    edit: str | None = None
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"phase {self.phase}" if self.edit is None else f"'{self.edit}' at phase {self.phase}"


class CompileError(OpspliceError):
    """The module does not parse, does not verify or does not compile; `details` shows the compiler's own words."""


@dataclass(frozen=True)
class CompiledModule:
    """A flatbuffer for IREE's runtime, and the compiler's warnings."""

    vmfb: bytes = field(repr=False)
    warnings: tuple[diag.Diagnostic, ...]


class Compilation:
    """One module on its way through IREE's phases. Use as a context manager.

    flags: IREE's compiler flags, `--iree-...` and `--mlir-...`; the host's CPU backend is the target when they name
    none. With verbose, what IREE writes to stderr is left to go there and messages are shown in full.

    Raises OpspliceError for a flag that IREE does not take.
    """

    def __init__(self, flags: Sequence[str] = (), *, verbose: bool = False) -> None:
        from opsplice.pipeline.session import Session

        flag_set = split_flags(with_default_target(flags))
        apply_process_flags(flag_set.process)
        self.phase = START
        self.warnings: list[diag.Diagnostic] = []
        self._verbose = verbose or asks_to_print(flag_set.process)
        self._source: ModuleSource | None = None
        self._module: ir.Module | None = None
        self._reported: list[tuple[int, bytes]] = []
        self._callback: Any = _DIAGNOSTIC_CALLBACK(self._receive)
        self._session = Session()
        self._session.set_flags(*flag_set.session)
        self._detects_input = not any(flag.startswith(_CONVERSIONS) for flag in flags)
        self._invocation = self._session.invocation()
        _library().ireeCompilerInvocationEnableCallbackDiagnostics(self._invocation._inv_p, 0, self._callback, None)

    def __enter__(self) -> Compilation:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Frees the compiler's state: the invocation that borrows the module, then the module, then the session.

        The context goes with the session, or with the last op or type of it that is still held.
        """
        self._invocation.close()
        self._callback = None  # it refers to this object
        self._module = None
        self._session.close()

    @property
    def context(self) -> ir.Context:
        """The session's context, with IREE's dialects. Modules of other contexts cannot be compiled here."""
        return self._session.context

    @property
    def module(self) -> ir.Module:
        """The module as it is now. Fetch it again after each `run_to`: what it held before may be gone."""
        assert self._module is not None, "no module was loaded"
        return self._module

    @property
    def conversions(self) -> dict[str, str]:
        """The element types that IREE converts before phase `input`, each with the flag that asks for it."""
        return conversions(self._session.get_flags())

    def load(self, source: ModuleSource) -> None:
        """Reads a module. Raises CompileError when it does not parse or verify, with the line shown."""
        self._source = source
        if source.portable_version:
            for dialect in _OF_PORTABLE:
                self.context.dialects[dialect]
        with self._captured():
            module = _read(source, self.context)
        if isinstance(module, list):
            raise self._unreadable(module)
        with _utf8():
            check_module(module, self._name)
            drop_shardings(module)
            number_ops(module)
            declare_functions(module)
            stablehlo.mend(module)
        self.adopt(module)

    def adopt(self, module: ir.Module) -> None:
        """Takes a module of this session's own context. It is changed in place."""
        if module.context != self.context:
            raise ValueError("the module is of another context; load it as a source")
        with self._captured() as noise:
            try:
                self._invocation.import_module(module.operation)
            except RuntimeError:
                raise self._failure("IREE does not take the module", noise.text) from None
        self._module = module

    def run_to(self, phase: str) -> None:
        """Runs the compiler up to a phase, at or after the present one. Raises CompileError when it fails."""
        if phase_index(phase) < phase_index(self.phase):
            raise ValueError(f"the module is at phase '{self.phase}', past '{phase}'")
        if phase == self.phase:
            return
        library = _library()
        if self.phase == START:
            stand_ins.put_in(self.module)
            self._leave_out_conversions()
        else:
            library.ireeCompilerInvocationSetCompileFromPhase(self._invocation._inv_p, self.phase.encode())
        library.ireeCompilerInvocationSetCompileToPhase(self._invocation._inv_p, phase.encode())
        with self._captured() as noise:
            succeeded = self._invocation.execute()
        if not succeeded:
            raise self._failure(f"{self._name} does not compile (phase {phase})", noise.text)
        self._drain()
        self.phase = phase

    def _leave_out_conversions(self) -> None:
        """Tells IREE that nothing is to be converted where the module has no op of a framework.

        IREE would find that out itself, but only once it has all ops of all frameworks: 1,500 of PyTorch alone. Each
        pass that is made later looks at all of them.
        """
        if self._detects_input and not any(map(self.context.is_dialect_loaded, _CONVERTED)):
            self._session.set_flags("--iree-input-type=none")

    def verify(self, culprit: str) -> None:
        """Checks the module after an edit. Raises CompileError that names the culprit when it is broken."""
        from iree.compiler import ir

        # The verifier's threads report through a callback into Python, whose lock this thread holds while it waits.
        self.context.enable_multithreading(False)
        try:
            self.module.operation.verify()
        except ir.MLIRError as error:
            raise self._broken(culprit, diag.from_mlir_error(error)) from None
        finally:
            self.context.enable_multithreading(True)

    def apply(self, edit: Step) -> list[Step]:
        """Applies an edit and checks the module. Returns the edits that it asks for.

        Raises CompileError when MLIR refuses what the edit builds, or the module does not verify afterwards.
        """
        from iree.compiler import ir

        culprit = f"'{edit.description}' at phase {self.phase}"
        try:
            with _utf8():
                further = list(edit.apply(self.module) or ())
                if not edit.is_own:
                    check_module(self.module, culprit)
        except ir.MLIRError as error:
            raise self._broken(culprit, diag.from_mlir_error(error)) from None
        self.verify(culprit)
        return further

    def emit_vmfb(self) -> bytes:
        """The flatbuffer. The module must be at phase `end`."""
        return self._written("the program", lambda output: self._invocation.output_vm_bytecode(output))

    def emit_executable(self) -> bytes:
        """What a device loads, of a module at phase `hal` that is one executable for one target."""
        from iree.compiler.api import ctypes_dl

        write, invocation = _library().ireeCompilerInvocationOutputHALExecutable, self._invocation._inv_p
        check = ctypes_dl._handle_error
        return self._written("an executable", lambda output: check(write(invocation, output._output_p)))

    def _written(self, what: str, write: Callable[[Any], object]) -> bytes:
        from iree.compiler.api import Output

        with self._captured() as noise, contextlib.closing(Output.open_membuffer()) as output:
            try:
                write(output)
            except ValueError as error:
                raise self._failure(f"IREE cannot write {what}: {error}", noise.text) from None
            return bytes(output.map_memory())

    @property
    def _name(self) -> str:
        return self._source.name if self._source else "the module"

    def _captured(self) -> contextlib.AbstractContextManager[Any]:
        return captured(enabled=not self._verbose)

    def _receive(self, severity: int, text: int, size: int, _user_data: object) -> None:
        # Called by native code, maybe from a thread of its own: only copy.
        self._reported.append((severity, ctypes.string_at(text, size)))

    def _drain(self) -> list[diag.Diagnostic]:
        """The diagnostics since the last call; warnings are also kept in `warnings`."""
        reported, self._reported = self._reported, []
        parsed = [
            self._named(diag.parse_callback(severity, text.decode("utf-8", "replace"))) for severity, text in reported
        ]
        kept = [*self.warnings, *(one for one in parsed if one.severity == "warning")]
        self.warnings = diag.unique(kept)
        return parsed

    def _named(self, diagnostic: diag.Diagnostic) -> diag.Diagnostic:
        return diag.renamed(diagnostic, UNNAMED, self._name)

    def _line(self, location: diag.Location) -> str | None:
        if self._source is not None and location.file == self._source.name:
            return self._source.line(location.line)
        if not location.file.endswith(".py"):
            return None
        return linecache.getline(location.file, location.line).rstrip() or None  # a frontend's ops are lines of Python

    def _rendered(self, diagnostics: Iterable[diag.Diagnostic]) -> str:
        return diag.render(map(self._named, diagnostics), self._line, verbose=self._verbose)

    def _unreadable(self, diagnostics: list[diag.Diagnostic]) -> CompileError:
        if any(one.is_verifier_error for one in diagnostics):
            return CompileError(f"{self._name} is not valid", details=self._rendered(diagnostics))
        hint = "expected MLIR, as text or bytecode, in dialects that IREE 3.13 knows"
        if self._source is not None and (version := self._source.portable_version):
            hint = f"it is StableHLO {version}, damaged or newer than IREE 3.13: give its text, or an older version"
            if any(_SHARDY in one.message for one in diagnostics):
                hint = "it says how arrays are spread over devices: give the jax.export.Exported itself"
        return CompileError(f"cannot read {self._name} as MLIR", details=self._rendered(diagnostics), hint=hint)

    def _broken(self, culprit: str, diagnostics: list[diag.Diagnostic]) -> CompileError:
        return CompileError(
            f"{culprit} made an invalid module",
            details=self._rendered(diagnostics),
            hint="unless inline MLIR of a rule is at fault, this is a bug in opsplice: please report it",
        )

    def _failure(self, message: str, noise: str) -> CompileError:
        errors = [one for one in self._drain() if one.severity == "error"]
        details = [self._rendered(errors), noise.strip()]
        hint = None
        if op := next(filter(None, (diag.unlowered(one.message) for one in errors)), ""):
            op = f"an op that is given a {op}" if op.startswith(diag.CONSTANT) else op
            hint = f"IREE 3.13 cannot compile {op} as it stands there: write it with other ops"
        if any(_SYMBOLIC in one.message for one in errors):
            hint = "IREE compiles no StableHLO with symbolic shapes: export the model for each shape it is called with"
        return CompileError(message, details="\n".join(part for part in details if part), hint=hint)


def run(
    compilation: Compilation,
    edits: Iterable[Step],
    *,
    to: str = END,
    on_progress: Callable[[Progress], None] | None = None,
) -> None:
    """Runs the loaded module through the phases up to `to` and applies each edit at its phase.

    Edits of one phase are applied in the order given, those that an edit asks for after all that were there before.
    on_progress is told of each phase as it starts and of each edit.

    Raises CompileError as `Compilation` does, and OpspliceError for an edit at an unknown phase or past `to`.
    """
    report = on_progress or (lambda _progress: None)
    pending = _by_phase(edits)
    for phase in PHASES[phase_index(compilation.phase) : phase_index(to) + 1]:
        if phase != compilation.phase:
            report(Progress(phase))
            compilation.run_to(phase)
        queue = pending.pop(phase, [])
        for edit in queue:
            report(Progress(phase, edit.description))
            for later in compilation.apply(edit):
                # At this phase it joins the queue that is being walked.
                (queue if later.phase == phase else pending.setdefault(later.phase, [])).append(later)
    for phase, left in pending.items():
        phase_index(phase)
        raise OpspliceError(f"'{left[0].description}' is for phase {phase}, which this compile does not come to")


def compile_module(
    source: ModuleSource,
    edits: Iterable[Step] = (),
    flags: Sequence[str] = (),
    *,
    verbose: bool = False,
    on_progress: Callable[[Progress], None] | None = None,
) -> CompiledModule:
    """Compiles a module with edits to a flatbuffer, in this process. Raises as `Compilation` and `run` do."""
    with Compilation(flags, verbose=verbose) as compilation:
        compilation.load(source)
        run(compilation, edits, on_progress=on_progress)
        return CompiledModule(compilation.emit_vmfb(), tuple(compilation.warnings))


def compile_executable(bytecode: bytes, phase: str, flags: Sequence[str] = ()) -> bytes:
    """The bytes of the only `hal.executable` of a module, which is at a phase and has one variant, for one target.

    Raises CompileError as `Compilation` does.
    """
    with Compilation(flags) as compilation:
        compilation.load(ModuleSource(content=bytecode))
        compilation.phase = phase
        compilation.run_to("hal")
        return compilation.emit_executable()


def _read(source: ModuleSource, context: ir.Context) -> ir.Module | list[diag.Diagnostic]:
    """The module, or why it cannot be read."""
    from iree.compiler import ir

    if source.is_bytecode:
        return parse_bytecode(source.read(), context)
    try:
        if source.path is not None:
            # Locations then name the file.
            return ir.Module.parseFile(str(source.path), context=context)
        return ir.Module.parse(source.content, context=context)
    except ir.MLIRError as error:
        return diag.from_mlir_error(error)


@contextlib.contextmanager
def _utf8() -> Iterator[None]:
    """Raise OpspliceError where IREE's bindings cannot read a name, which they say with an error of their own."""
    try:
        yield
    except (RuntimeError, UnicodeDecodeError) as error:
        raise failure_outside(error) or error from None


def _by_phase(edits: Iterable[Step]) -> dict[str, list[Step]]:
    grouped: dict[str, list[Step]] = {}
    for edit in edits:
        phase_index(edit.phase)
        grouped.setdefault(edit.phase, []).append(edit)
    return grouped


@functools.cache
def _library() -> Any:
    """IREE's compiler library, with the calls declared that its Python wrapper leaves out."""
    from iree.compiler.api import ctypes_dl

    library = ctypes_dl._dylib
    for name in ("ireeCompilerInvocationSetCompileFromPhase", "ireeCompilerInvocationSetCompileToPhase"):
        function = getattr(library, name)
        function.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
        function.restype = None
    write = library.ireeCompilerInvocationOutputHALExecutable
    write.argtypes, write.restype = [ctypes.c_void_p, ctypes.c_void_p], ctypes.c_void_p
    enable = library.ireeCompilerInvocationEnableCallbackDiagnostics
    enable.argtypes = [ctypes.c_void_p, ctypes.c_int, _DIAGNOSTIC_CALLBACK, ctypes.c_void_p]
    enable.restype = None
    return library
