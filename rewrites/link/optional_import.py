"""Whether a plugin has a function: asked by the program itself, on the CPU that it runs on, before it first calls it.

    util.func private @opsplice_lacks_k(%runs) -> i1   1 if no plugin has k; dispatches the probe once, and remembers

    hal.executable @opsplice_lacks_k_probe             in IREE's ABI for executables on CPUs
      func @opsplice_lacks_k_probe(three pointers)     writes 1 where the import is null, 2 where it is not

The import is weak, as all imports of such a function are made by `dynamic_function.weaken_imports`: then IREE's runtime
takes the program without it, if it is given some plugin.

Format: IREE 3.13, runtime/src/iree/hal/local/executable_library.h: the offsets of `import_funcs` in the environment and
of `binding_ptrs` in the dispatch state, for 64 bits.
"""

from __future__ import annotations

from collections.abc import Sequence

from iree.compiler import ir

from opsplice.rewrites.ir.executable_targets import ProgramTarget
from opsplice.rewrites.ir.symbols import symbols

_IMPORT_FUNCS, _BINDINGS = 16, 32
_BINDING = "#hal.pipeline.binding<storage_buffer, Indirect>"
_LAYOUT = f"#hal.pipeline.layout<constants = 1, bindings = [{_BINDING}], flags = Indirect>"


def lacks(module: ir.Module, symbol: str, targets: Sequence[ProgramTarget], formats: Sequence[str]) -> str:
    """The name of the function that says whether no plugin has a function, which is made if it is not there.

    targets: all of the program's; formats: of those that import the function. It is given whether the device runs code
    of one of these; on others the answer is no.
    """
    name = f"opsplice_lacks_{symbol}"
    if name not in symbols(module):
        at = ir.InsertionPoint.at_block_begin(module.body)
        importing = [symbol if target.format in formats else None for target in targets]
        for op in ir.Module.parse(_text(name, list(zip(targets, importing, strict=True)))).body.operations:
            op.operation.clone(at)
    return name


def _text(name: str, targets: Sequence[tuple[ProgramTarget, str | None]]) -> str:
    """targets: each with the function that it imports."""
    entries = ", ".join(f"@{name}_probe::@v{number}::@{name}_probe" for number in range(len(targets)))
    variants = "\n".join(_variant(number, target, name, symbol) for number, (target, symbol) in enumerate(targets))
    return f"""
      util.global private mutable @{name}_known = 0 : i32
      hal.executable private @{name}_probe {{
        {variants}
      }}
      util.func private @{name}(%runs: i1) -> i1 attributes {{inlining_policy = #util.inline.never}} {{
        %unknown = arith.constant 0 : i32
        %lacks = arith.constant 1 : i32
        %known = util.global.load @{name}_known : i32
        %is_unknown = arith.cmpi eq, %known, %unknown : i32
        %asks = arith.andi %runs, %is_unknown : i1
        %answer = scf.if %asks -> i32 {{
          %word = util.optimization_barrier %unknown : i32  // or IREE would run the probe when it compiles
          %told = flow.dispatch {{{entries}}}(%word) : (i32) -> tensor<1xi32>
          %first = arith.constant 0 : index
          %value = tensor.extract %told[%first] : tensor<1xi32>
          util.global.store %value, @{name}_known : i32
          scf.yield %value : i32
        }} else {{
          scf.yield %known : i32
        }}
        %result = arith.cmpi eq, %answer, %lacks : i32
        util.return %result : i1
      }}
    """


def _variant(number: int, target: ProgramTarget, name: str, symbol: str | None) -> str:
    entry = f"{name}_probe"
    body = f"func.func @{entry}() {{ return }}" if symbol is None else _probe(entry, symbol)
    return f"""
      hal.executable.variant public @v{number} target({target.text}) {{
        hal.executable.export public @{entry} ordinal(0) layout({_LAYOUT})
            count(%device: !hal.device) -> (index, index, index) {{
          %one = arith.constant 1 : index
          hal.return %one, %one, %one : index, index, index
        }}
        builtin.module {{
          {body}
        }}
      }}"""


def _probe(entry: str, symbol: str) -> str:
    place = f"__import_ordinal_{symbol}"
    return f"""
      llvm.mlir.global internal @{place}() {{hal.executable.import.key = "{symbol}", hal.executable.import.weak}} : i32
      llvm.func @{entry}(%environment: !llvm.ptr, %dispatch: !llvm.ptr, %workgroup: !llvm.ptr) -> i32 {{
        %ordinal.at = llvm.mlir.addressof @{place} : !llvm.ptr
        %ordinal = llvm.load %ordinal.at : !llvm.ptr -> i32
        %functions.at = llvm.getelementptr %environment[{_IMPORT_FUNCS}] : (!llvm.ptr) -> !llvm.ptr, i8
        %functions = llvm.load %functions.at : !llvm.ptr -> !llvm.ptr
        %function.at = llvm.getelementptr %functions[%ordinal] : (!llvm.ptr, i32) -> !llvm.ptr, !llvm.ptr
        %function = llvm.load %function.at : !llvm.ptr -> !llvm.ptr
        %null = llvm.mlir.zero : !llvm.ptr
        %has = llvm.icmp "ne" %function, %null : !llvm.ptr
        %more = llvm.zext %has : i1 to i32
        %one = llvm.mlir.constant(1 : i32) : i32
        %answer = llvm.add %more, %one : i32
        %bindings.at = llvm.getelementptr %dispatch[{_BINDINGS}] : (!llvm.ptr) -> !llvm.ptr, i8
        %bindings = llvm.load %bindings.at : !llvm.ptr -> !llvm.ptr
        %result = llvm.load %bindings : !llvm.ptr -> !llvm.ptr
        llvm.store %answer, %result : i32, !llvm.ptr
        %zero = llvm.mlir.constant(0 : i32) : i32
        llvm.return %zero : i32
      }}"""
