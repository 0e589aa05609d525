"""The Python interface: compile a model with specs, look at what they would replace, transform a frontend's module."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from opsplice import frontends
from opsplice.common.errors import OpspliceError, counted
from opsplice.common.files import read_file
from opsplice.compiling.job import Job, Outcome, Question
from opsplice.compiling.spec_sources import PackageOptions, SpecPath, SpecSource, resolve
from opsplice.isolation.isolate import call_apart
from opsplice.pipeline.flags import for_this_cpu
from opsplice.program import Program
from opsplice.reports.report import Report

if TYPE_CHECKING:
    from iree.compiler import ir

    from opsplice.compiling.spec_export import Exported
    from opsplice.measuring.cutting.records import Verification
    from opsplice.measuring.timing.benching import Bench
    from opsplice.measuring.timing.survey_model import Survey
    from opsplice.measuring.tuning.tuning import Tuning
    from opsplice.measuring.verifying.verification import Prepared
    from opsplice.reports.captured import Capture
    from opsplice.reports.explanation import Explanation

# A program may hold its weights.
_LARGEST_PROGRAM = 1 << 36

Progress = Callable[[Any], None]


def compile(  # noqa: A001 - the name that users of compilers expect
    model: Any,
    specs: Iterable[SpecPath | SpecSource] = (),
    flags: Sequence[str] = (),
    *,
    targets: Sequence[str] = (),
    require_match: bool = False,
    no_code: bool = False,
    packages: PackageOptions | None = None,
    dims: Mapping[str, int] | None = None,
    cache: bool = False,
    isolate: bool = False,
    verbose: bool = False,
    on_progress: Progress | None = None,
) -> Program:
    """Compile a model with specs.

    model: a path to MLIR text or bytecode, MLIR text, bytecode, or an `ir.Module`; a path to an ONNX model, its bytes
           or the `onnx.ModelProto`.
    specs: `.splice` files, transform-dialect `.mlir` files, and installed libraries by name (`acme_kernels`, or
           `acme_kernels:attention` for a part of one), and packages of registries (`oci://...`), applied in order.
    flags: IREE's compiler flags.
    targets: what one program is to hold code for, instead of the one target that the flags name: CPU architectures
           (`cpu`, `x86_64`, `aarch64`, `riscv64`), and `vulkan`, `cuda`, `rocm` and `metal`, maybe with a chip
           (`vulkan:llvmpipe`, `cuda:sm_80`). It runs on the first of its devices that is there.
    require_match: raise when a rule matches nothing; of libraries, when all of their rules do.
    no_code: build and run nothing of the specs: take prebuilt artifacts only, and no sources, generators, commands or
           plugins.
    packages: which packages of registries may be used: their lock, trust and mirrors.
    dims: the sizes of symbolic dims that have names in the model, as in ONNX; the others stay dynamic.
    cache: keep the program and its report in the user's cache, and take them from there when nothing that they are made
           from has changed (docs/cache.md).
    isolate: compile in a child process, so that a crash of the compiler is an OpspliceError. Programs for CPUs and
           other devices at once are always compiled so: they need a flag that a process can only set once. A process
           that has compiled otherwise must not fork (docs/security.md).

    Raises OpspliceError, and its kind SpecError for what is wrong in a spec.
    """
    from opsplice.compiling import program_cache

    source = frontends.load(model, dims)
    job = _job(source, specs, flags, targets, packages, verbose=verbose, no_code=no_code)

    def compiled() -> Outcome:
        from opsplice.compiling.compilation import run_isolated, run_job
        from opsplice.pipeline.devices import flags_for

        if isolate or flags_for(job.targets, job.flags):
            return run_isolated(job, on_progress)
        return run_job(on_progress or _silent, job)

    outcome = program_cache.cached(job, compiled) if cache else compiled()
    if require_match:
        check_matched(outcome.report)
    made = (outcome.vmfb, outcome.report, outcome.warnings, outcome.provided, outcome.commands)
    return Program(*made, parameters=source.parameters, specs=job.specs)


def load(
    vmfb: bytes | str | os.PathLike[str],
    *,
    providers: Iterable[SpecPath] = (),
    commands: str | Sequence[str] = (),
    parameters: SpecPath | Sequence[SpecPath] = (),
) -> Program:
    """A compiled program, from its bytes or a file, to be run.

    providers: folders of kernels that are not in it, as `Program.save_kernels` writes them; the first one that has a
    kernel is taken. commands: the Python files of what it calls on the host, `"MODULE=FILE"`, or the file alone, whose
    name is then the module's.
    parameters: the archives of its weights, as `Program.run` takes them; by default the one beside it, `model.irpa` for
    `model.vmfb`.

    Raises OpspliceError for a file that cannot be read, or holds no compiled program.
    """
    from iree.runtime import VmInstance

    from opsplice.runtime.host_commands import named_files
    from opsplice.runtime.loaded_program import read_module
    from opsplice.runtime.weights import found_beside, joined, read_archives

    name = "the program"
    weights = read_archives(parameters)
    if not isinstance(vmfb, bytes):
        name = str(vmfb)
        weights = joined(weights, found_beside(Path(vmfb)))
        vmfb = read_file(Path(vmfb), _LARGEST_PROGRAM)
    read_module(vmfb, name, VmInstance())
    return Program(vmfb, None, commands=named_files(_texts(commands)), providers=_paths(providers), parameters=weights)


def match(
    model: Any,
    specs: Iterable[SpecPath],
    flags: Sequence[str] = (),
    *,
    targets: Sequence[str] = (),
    packages: PackageOptions | None = None,
    dims: Mapping[str, int] | None = None,
) -> Report:
    """What `compile` would replace, with nothing built and nothing compiled beyond input conversion.

    Takes what `compile` takes and raises what it raises.
    """
    from opsplice.compiling.compilation import preview

    return preview(_silent, _job(model, specs, flags, targets, packages, dims))


def verify(
    model: Any,
    specs: Iterable[SpecPath | SpecSource],
    flags: Sequence[str] = (),
    *,
    function: str | None = None,
    inputs: Sequence[Any] | None = None,
    tolerance: float | None = None,
    trials: Sequence[str] | None = None,
    again: bool = False,
    targets: Sequence[str] = (),
    no_code: bool = False,
    packages: PackageOptions | None = None,
    dims: Mapping[str, int] | None = None,
    on_progress: Progress | None = None,
) -> Verification:
    """Check that the numbers of replacements hold, match by match and for the whole program (docs/verify.md).

    function, inputs: what is run of the whole program; by default every function, on random numbers.
    tolerance: how far floats may be off, as a part of the largest of their row; by default by type and length of sums.
    trials: the kinds of trials, all by default. again: run also what is known from before.
    Takes what `compile` takes otherwise, and raises what it raises. What fails is in the result, not an error.
    """
    from opsplice.measuring.verifying import trials as known
    from opsplice.measuring.verifying import verification

    job = _job(model, specs, flags, targets, packages, dims, here=True, no_code=no_code)
    report = on_progress or _silent
    given = None if inputs is None else tuple(inputs)
    kinds = known.KINDS if trials is None else tuple(trials)
    options = verification.Options(function, given, kinds, tolerance, cache=not again)
    return call_apart(verification.verify, job, verification.prepare(report, job), options, on_progress=report)


def survey(
    model: Any,
    specs: Iterable[SpecPath] = (),
    flags: Sequence[str] = (),
    *,
    timed: bool = True,
    targets: Sequence[str] = (),
    packages: PackageOptions | None = None,
    dims: Mapping[str, int] | None = None,
    on_progress: Progress | None = None,
) -> Survey:
    """What a model computes, by the patterns that come with opsplice, what that costs, and what specs have kernels for.

    specs: by default the installed libraries. timed: whether IREE's own code is timed. Takes what `compile` takes, too.
    """
    from opsplice.measuring.timing import surveying

    job = _job(model, specs, flags, targets, packages, dims, here=True)
    return surveying.survey(job, on_progress or _silent, timed=timed)


def bench(
    model: Any,
    specs: Iterable[SpecPath] = (),
    flags: Sequence[str] = (),
    *,
    function: str | None = None,
    inputs: Sequence[Any] | None = None,
    against: Sequence[str] = (),
    seconds: float = 1.0,
    targets: Sequence[str] = (),
    no_code: bool = False,
    packages: PackageOptions | None = None,
    dims: Mapping[str, int] | None = None,
    on_progress: Progress | None = None,
) -> Bench:
    """Time each match and the whole program with and without kernels, in turn on one core (docs/verify.md).

    model: as for `compile`, or what `prepare` compiled, with nothing else that `prepare` takes.
    function, inputs: as for `verify`. against: other runtimes that run the model: `onnxruntime` for `.onnx` files,
    `torch` for `.pt2` files. seconds: for each match and each function.
    Takes what `compile` takes otherwise, and raises what it raises.
    """
    from opsplice.measuring.timing import benching, peers
    from opsplice.measuring.verifying import verification

    report, is_prepared = on_progress or _silent, isinstance(model, verification.Prepared)
    if is_prepared and (specs or flags or targets or no_code or packages or dims or against):
        raise OpspliceError("what `prepare` compiled is timed as it is", hint="give `prepare` all but how to time")
    peers.check(against, model)
    made: dict[str, Any] = {"targets": targets, "no_code": no_code, "packages": packages, "dims": dims}
    prepared = model if is_prepared else prepare(model, specs, flags, on_progress=report, **made)
    given = None if inputs is None else tuple(inputs)
    how = {"seconds": seconds, "function": function, "inputs": given, "against": against, "model": against and model}
    return call_apart(benching.bench, prepared, on_progress=report, **how)


def prepare(
    model: Any,
    specs: Iterable[SpecPath] = (),
    flags: Sequence[str] = (),
    *,
    targets: Sequence[str] = (),
    no_code: bool = False,
    packages: PackageOptions | None = None,
    dims: Mapping[str, int] | None = None,
    on_progress: Progress | None = None,
) -> Prepared:
    """Compile what `bench` times: a program with kernels and without, and its matches alone.

    Several models may be compiled side by side, in processes of their own, and timed later with nothing beside: what is
    returned can be pickled. Takes what `compile` takes, and raises what it raises.
    """
    from opsplice.measuring.verifying import verification

    job = _job(model, specs, flags, targets, packages, dims, here=True, no_code=no_code)
    return verification.prepare(on_progress or _silent, job, False)


def tune(
    model: Any,
    specs: Iterable[SpecPath],
    flags: Sequence[str] = (),
    *,
    seconds: float = 60.0,
    database: str | os.PathLike[str] | None = None,
    dask: str | None = None,
    again: bool = False,
    targets: Sequence[str] = (),
    no_code: bool = False,
    packages: PackageOptions | None = None,
    dims: Mapping[str, int] | None = None,
    on_progress: Progress | None = None,
) -> Tuning:
    """Measure which kernel is the fastest for each computation here; `save` of the result writes it as a spec.

    seconds: the budget. database: the file of measurements, by default in the cache. dask: the address of a scheduler
    whose workers measure. again: measure also what is known. Takes what `compile` takes otherwise.
    """
    from opsplice.measuring.tuning import candidates, tuning
    from opsplice.measuring.tuning.database import Database, default_path

    report = on_progress or _silent
    job = _job(model, specs, flags, targets, packages, dims, here=True, no_code=no_code)
    tuning.check(job)
    known = Database(Path(database) if database is not None else default_path())
    return tuning.tune(job, candidates.find(report, job), known, report, seconds=seconds, dask=dask, again=again)


def explain(
    model: Any,
    specs: Iterable[SpecPath],
    flags: Sequence[str] = (),
    *,
    pattern: str | None = None,
    at: str | None = None,
    targets: Sequence[str] = (),
    packages: PackageOptions | None = None,
    dims: Mapping[str, int] | None = None,
) -> Explanation:
    """Why the patterns of `.splice` specs match in a model, and why they do not.

    pattern: only this one; None for those that rules use, or all if there are no rules.
    at: only at these ops: a line of the model, `model.mlir:12`, or `linalg.generic#3`, the third such op.
    Takes what `compile` takes otherwise. Raises what it raises, and OpspliceError for a pattern or a place that is not
    there.
    """
    from opsplice.compiling.compilation import explained

    job = _job(model, specs, flags, targets, packages, dims)
    return explained(_silent, job, Question(pattern, at))


def transform(
    module: Any,
    specs: Iterable[SpecPath],
    flags: Sequence[str] = (),
    *,
    targets: Sequence[str] = (),
    no_code: bool = False,
    packages: PackageOptions | None = None,
    dims: Mapping[str, int] | None = None,
) -> tuple[ir.Module, Report]:
    """Rewrite a frontend's module by specs, for the frontend's own call of IREE's compiler.

    module, no_code, packages, dims: as for `compile`. Returns a new module, at IREE's phase `input` (input conversion
    done, so compile it with `--iree-input-type=none`), and the report. Raises what `compile` raises.

    What `compile` does at later phases against wrong numbers of IREE 3.13 (`rewrites/memory`: inputs that are
    overwritten, reductions that are read at two places) is not done, for the frontend's call has these phases.
    """
    from opsplice.compiling.compilation import transformed

    return transformed(_job(module, specs, flags, targets, packages, dims, no_code=no_code))


def export(
    spec: SpecPath,
    flags: Sequence[str] = (),
    *,
    targets: Sequence[str] = (),
    objects: Literal["path", "copy", "bytes"] = "path",
    folder: str | os.PathLike[str] = "",
    partial: bool = False,
    no_code: bool = False,
) -> Exported:
    """A `.splice` spec as a transform-dialect spec, for IREE's flag `--iree-preprocessing-transform-spec-filename`.

    spec: a file, or an installed library by name. flags, targets, no_code: as for `compile`. objects: kernels by their
    `path` in the store, as a `copy` that is to be written to `folder` beside the spec, or as `bytes` in it. partial:
    leave out what has no counterpart instead of raising.

    Raises OpspliceError, with all constructs that have no counterpart at once, and what `compile` raises for specs.
    """
    from opsplice.compiling.spec_export import export_spec

    return export_spec(spec, tuple(flags), tuple(targets), objects, Path(folder), partial=partial, no_code=no_code)


def capture(
    model: Any,
    at: str | Sequence[str],
    flags: Sequence[str] = (),
    *,
    to: str | Sequence[str] = (),
    inputs: str | Sequence[str] = (),
    name: str = "captured",
    file: str | None = None,
    phase: str = "preprocessing",
    concrete: bool = False,
    element_variable: bool = False,
    packs: bool = False,
    dims: Mapping[str, int] | None = None,
) -> Capture:
    """Write a pattern from ops of a model, proven by matching the model with it.

    model, flags, dims: as for `compile`.
    at: what it makes, a place for each result: `model.mlir:12`, `model.mlir:10-25` or `linalg.softmax#1`. A place takes
        the op and what leads up to it, a range its own ops.
    to: where it starts instead: all that lies between is taken.
    inputs: where it stops instead: places, or SSA names of the program at `phase`, such as `%5`.
    name, file: what the pattern and the kernel's C file are called; the file is `<name>.c` if it is not said.
    phase: `preprocessing`, or `input`, where the program is read before that.
    concrete: write sizes as they are. element_variable: write a type variable for the results' element type.
    packs: write leading dims that are only carried along as a pack.

    Raises OpspliceError where there is no such place, or what is there has no pattern.
    """
    from opsplice.compiling.capturing import run_capture
    from opsplice.reports.captured import PHASES, CaptureJob, check_name

    if phase not in PHASES:
        raise OpspliceError(f"nothing can be captured at phase '{phase}'", hint=f"write {' or '.join(PHASES)}")
    source = frontends.load(model, dims)
    job = CaptureJob(
        source=source,
        at=_texts(at),
        to=_texts(to),
        inputs=_texts(inputs),
        name=check_name(name),
        file=file if file is not None else f"{name}.c",
        phase=phase,
        concrete=concrete,
        element_variable=element_variable,
        packs=packs,
        flags=(*source.flags, *flags),
    )
    return run_capture(_silent, job)


def check_matched(report: Report) -> None:
    """Raise OpspliceError if a rule matched nothing: one of the user's own, or where nothing matched of a library."""
    lost = [u for u in report.unmatched if not u.library or not report.replacements]
    if not lost:
        return
    rules = [f"{u.rule_location}: `{u.rule}`" for u in lost]
    raise OpspliceError(f"{counted(len(rules), 'rule')} matched nothing", details="\n".join(f"  {r}" for r in rules))


def _job(
    model: Any,
    specs: Iterable[SpecPath | SpecSource],
    flags: Sequence[str],
    targets: Sequence[str],
    packages: PackageOptions | None,
    dims: Mapping[str, int] | None = None,
    *,
    here: bool = False,
    **options: Any,
) -> Job:
    """here: whether it is for this machine's CPU where nothing else is said."""
    if here:
        flags = for_this_cpu(tuple(flags), tuple(targets))
    sources = resolve(specs, packages=packages, targets=targets, flags=flags)
    source = frontends.load(model, dims)
    return Job(source, sources, (*source.flags, *flags), tuple(targets), **options)


def _paths(files: Iterable[SpecPath]) -> tuple[Path, ...]:
    if isinstance(files, (str, os.PathLike)):
        return (Path(files),)
    return tuple(map(Path, files))


def _texts(given: str | Sequence[str]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)


def _silent(_event: Any) -> None:
    """Progress that nobody watches."""
