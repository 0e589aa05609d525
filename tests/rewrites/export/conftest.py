"""Shared by the tests of exported specs: our engine and IREE's interpreter on copies of one program, side by side."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
from iree.compiler import ir
from iree.compiler.passmanager import PassManager

from opsplice.compiling.splice import graphs_of
from opsplice.matchers.find import engine
from opsplice.rewrites.apply import apply
from opsplice.rewrites.approaches import insertion, pattern_insertion
from opsplice.rewrites.ir.executable_targets import ProgramTarget, parse_target
from opsplice.rewrites.plan.planner import Planner
from opsplice.rewrites.transform_dialect import interpreter
from opsplice.rewrites.transform_dialect.export.exporter import Export, export
from opsplice.spec_lang.loading.loader import LoadedSpec, load_text
from opsplice.spec_lang.syntax import tree
from opsplice.targets.artifacts.artifact import Artifact

TARGET = parse_target(
    '#hal.executable.target<"llvm-cpu", "embedded-elf-x86_64", {cpu_features = "", '
    'target_triple = "x86_64-unknown-unknown-eabi-elf"}>'
)
_SYMBOL = re.compile(r"@(opsplice_\w+)")


def resolve(clause: tree.ArtifactClause, symbol: str, target: ProgramTarget) -> Artifact:
    """No artifact is built: a program that is not compiled needs none."""
    return Artifact(Path("/kernels") / clause.path, "object", "digest", None, None, False)


def exported(spec: str | LoadedSpec, targets: Sequence[ProgramTarget] = (TARGET,)) -> Export:
    return export(load_text(spec) if isinstance(spec, str) else spec, targets, resolve)


@dataclass(frozen=True)
class Sides:
    """One program after our engine, and after IREE's interpreter with the exported spec."""

    ours: ir.Module
    theirs: ir.Module

    @property
    def graphs(self) -> tuple[dict[str, str], dict[str, str]]:
        """What each function returns, on each side, as text: kernels by name, sizes and casts left out."""
        return _graphs(self.ours), _graphs(self.theirs)

    @property
    def counts(self) -> tuple[int, int]:
        """How many calls of kernels what the functions return needs, on each side."""
        ours, theirs = (sum(text.count("kernel ") for text in side.values()) for side in self.graphs)
        return ours, theirs

    @property
    def texts(self) -> tuple[str, str]:
        """The canonical modules, with symbols in the order in which they come."""
        return _canonical(self.ours), _canonical(self.theirs)


Sider = Callable[..., Sides]


@pytest.fixture(scope="session")
def sides(context: ir.Context, tmp_path_factory: pytest.TempPathFactory) -> Sider:
    """`sides(program, spec)`: the program, text in MLIR, rewritten by both. export: the spec if it is made already."""
    folder = tmp_path_factory.mktemp("specs")

    def run(program: str, spec: str, export: Export | None = None) -> Sides:
        loaded = load_text(spec)
        ours, theirs = (ir.Module.parse(program, context=context) for _ in range(2))
        found = engine.find(ours, graphs_of(loaded))
        write = partial(pattern_insertion.write, patterns=loaded.patterns)
        inputs = (found.matches, loaded.rules, loaded.given, loaded.kernels, [TARGET], resolve)
        chosen = Planner(*inputs, write=write, codes=loaded.codes).plan()
        apply(ours, chosen.actions, chosen.annotations, loaded.codes)
        insertion.forget_rules(ours)
        path = folder / "spec.mlir"
        path.write_text((export or exported(loaded)).text)
        interpreter.apply(theirs, path, lambda name, target: None)
        context.enable_multithreading(False)
        for module in (ours, theirs):
            module.operation.verify()
        return Sides(ours, theirs)

    return run


# ---- modules as text ---------------------------------------------------------------------------------------------


def _functions(module: ir.Module) -> list[ir.Operation]:
    tops = [top.operation for top in module.body.operations]
    named = [op for op in tops if op.name.endswith(".func")]
    return [op for op in named if not ir.StringAttr(op.attributes["sym_name"]).value.startswith("opsplice_")]


def _graphs(module: ir.Module) -> dict[str, str]:
    found = {}
    for function in _functions(module):
        body = function.regions[0].blocks[0].operations
        last = body[len(body) - 1].operation
        found[ir.StringAttr(function.attributes["sym_name"]).value] = ", ".join(map(_graph, last.operands))
    return found


def _graph(value: ir.Value) -> str:
    if isinstance(value.owner, ir.Block):
        return f"argument {ir.BlockArgument(value).arg_number}"
    op = value.owner.operation
    if op.name == "tensor.cast":
        return _graph(op.operands[0])
    if op.name == "flow.dispatch":
        symbol = str(op.attributes["entry_points"][0]).rpartition("@")[2]
        tensors = [v for v in op.operands if isinstance(v.type, ir.RankedTensorType)]
        return f"kernel {re.sub('_[0-9]+$', '', symbol)}({', '.join(map(_graph, tensors))})"
    operands = [v for v in op.operands if isinstance(v.type, ir.RankedTensorType)]
    return f"{op.name}({', '.join(map(_graph, operands))})"


def _canonical(module: ir.Module) -> str:
    pipeline = "builtin.module(canonicalize,cse,symbol-dce,canonicalize,cse)"
    PassManager.parse(pipeline, context=module.context).run(module.operation)
    for function in _functions(module):
        block = function.regions[0].blocks[0]
        constants = [op.operation for op in block.operations if op.operation.name == "arith.constant"]
        for op in sorted(constants, key=lambda op: str(op.attributes["value"])):
            op.move_before(block.operations[0].operation)
    tops = [top.operation.get_asm(use_local_scope=True) for top in module.body.operations]
    functions = [text for text in tops if text.startswith(("util.func", "func.func"))]
    names: dict[str, str] = {}
    for match in _SYMBOL.finditer("\n".join(functions)):
        names.setdefault(match[0], f"@symbol{len(names)}")
    renamed = [_SYMBOL.sub(lambda m: names.get(m[0], m[0]), text) for text in tops]
    return "\n".join(sorted(renamed))
