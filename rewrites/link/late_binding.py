"""What makes dispatches dynamic: their code leaves the program, which asks a provider for it when it is loaded.

At `TAKE_PHASE` each executable whose name begins with `PREFIX` is compiled on its own, for each
target, and what stays of it is empty functions: IREE needs their layout, and may link them with all others into one
executable.
At `BIND_PHASE` each dispatch on such a function is turned to an executable that an initializer has made:

    util.func private @provided$k$embedded-elf-x86_64(%device, %affinity) -> !hal.executable {
      %x = util.call @registry.load("k", "embedded-elf-x86_64")
      util.return util.call @hal.executable.create(%device, %affinity, "embedded-elf-x86_64", %x, no constants)
    }

Both callees are imports: `registry` is any module that has such a function, in Python or compiled; the other one is the
HAL's own, which a program can only name so to make an executable from bytes that it does not hold. Functions of an
executable are looked up by name, so it matters to nobody how many there are in it, or in which order. What is nothing
but a file, such as a shader, is linked with nothing: there the initializer that IREE made asks the provider.

It must not know how a kernel is called.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Sequence

from iree.compiler import ir

from opsplice.common.errors import OpspliceError
from opsplice.matchers.ir.op_names import global_of, ops_in, symbol_of
from opsplice.matchers.ir.tensor_values import defining_op
from opsplice.rewrites.ir import emit
from opsplice.rewrites.ir import executables as hal
from opsplice.rewrites.ir.executable_targets import parse_target
from opsplice.rewrites.ir.symbols import defined, symbols
from opsplice.rewrites.link import metal_link
from opsplice.targets.formats import metal_executable
from opsplice.targets.link import function_link

# No kernel's name has a `$`, so nothing else in a program is called so.
PREFIX = "provided$"

TAKE_PHASE = "executable-sources"
BIND_PHASE = "hal"

# The import that providers have: name and format in, the executable out.
PROVIDER = "registry"
LOAD = f"{PROVIDER}.load"
_CREATE = "hal.executable.create"

# The function that makes an executable of what a provider has, with those that it calls.
_MAKER = f"""
  util.func private @{LOAD}(!util.buffer, !util.buffer) -> !util.buffer
  util.func private @{_CREATE}(!hal.device, i64, !util.buffer, !util.buffer, !util.buffer) -> !hal.executable
  util.func private @"{{symbol}}"(%device: !hal.device, %affinity: i64) -> !hal.executable
      attributes {{{{inlining_policy = #util.inline.never}}}} {{{{
    %name = util.buffer.constant : !util.buffer = "{{name}}"
    %form = util.buffer.constant : !util.buffer = "{{form}}"
    %code = util.call @{LOAD}(%name, %form) : (!util.buffer, !util.buffer) -> !util.buffer
    %none = util.null : !util.buffer
    %made = util.call @{_CREATE}(%device, %affinity, %form, %code, %none)
      : (!hal.device, i64, !util.buffer, !util.buffer, !util.buffer) -> !hal.executable
    util.return %made : !hal.executable
  }}}}
"""

# Compiles an executable with one variant, a module in bytecode at `TAKE_PHASE`, to its bytes.
Compile = Callable[[bytes], bytes]
# An executable by the name that a provider knows it as, and the format of its code.
Provided = dict[tuple[str, str], bytes]


def take(module: ir.Module, compile_executable: Compile) -> Provided:
    """Compile what a provider is to have, and leave empty functions. The module must be at `TAKE_PHASE`.

    A variant with nothing to link stays as it is: its target keeps the compiler's own code.
    """
    found: Provided = {}
    for executable in hal.executables(module):
        if not symbol_of(executable).startswith(PREFIX):
            continue
        name = symbol_of(executable).removeprefix(PREFIX)
        shaders = metal_link.shaders_of(executable)
        for number, variant in enumerate(hal.variants(executable)):
            shader = shaders.get(symbol_of(variant))
            if shader is None and "objects" not in variant.attributes:
                continue
            key = name, parse_target(str(variant.attributes["target"])).format
            if key in found:
                raise OpspliceError(
                    f"two targets of the program have the format {key[1]}, and a provider cannot tell them apart",
                    hint="link the kernel into the program, or compile for one of them at a time",
                )
            code = compile_executable(_alone(module, executable, number))
            found[key] = code if shader is None else metal_executable.replace(code, shader)
            _empty(variant)
    return found


def bind(module: ir.Module, provided: Provided) -> None:
    """Turn dispatches to the executables that a provider has. The module must be at `BIND_PHASE`."""
    lookups = [op for op in ops_in(module.operation, "hal.executable.lookup.function") if _provided_name(op)]
    if not lookups:
        return
    with emit.building(module):
        Binder(module, provided).bind(lookups)


def bind_functions(module: ir.Module, provided: Provided) -> None:
    """Take executables that import functions out of the program, as they are. The module must be at `BIND_PHASE`.

    The provider that has them has to link them. They are added to `provided`, by names that depend on what they hold.
    """
    taken: Provided = {}
    executables: set[tuple[str, str]] = set()
    for executable in hal.executables(module):
        for binary in hal.binaries(executable):
            symbol, form = symbol_of(executable), ir.StringAttr(binary.attributes["format"]).value
            code = hal.code_of(binary)
            if function_link.imports(code, form, symbol):
                name = f"{symbol}-{hashlib.sha256(code).hexdigest()[:12]}"
                taken[name, form] = code
                executables.add((symbol, name))
    if not taken:
        return
    with emit.building(module):
        Binder(module, taken).put_in(executables)
    provided.update(taken)


# ---- taking --------------------------------------------------------------------------------------------------------


def _alone(module: ir.Module, executable: ir.Operation, number: int) -> bytes:
    """A module with one variant of an executable, and nothing else."""
    with module.context, ir.Location.unknown():
        single = ir.Module.create()
        with ir.InsertionPoint(single.body):
            copy = executable.clone().operation
        # IREE drops a private one, which nothing uses.
        copy.attributes["sym_visibility"] = emit.text("public")
        for other, variant in enumerate(hal.variants(copy)):
            if other != number:
                variant.erase()
    return emit.bytecode(single.operation)


def _empty(variant: ir.Operation) -> None:
    """Take the code out of a variant. One that is nothing but a file, such as a shader, goes as a whole in `bind`."""
    if "objects" not in variant.attributes or not ops_in(variant, "builtin.module"):
        return
    del variant.attributes["objects"]
    for op in ops_in(variant, "func.func"):
        blocks = list(op.regions[0].blocks)
        if not blocks:
            op.erase()
            continue
        for inner in reversed([each.operation for each in blocks[0].operations][:-1]):
            inner.erase()


# ---- binding -------------------------------------------------------------------------------------------------------


class Binder:
    """`made`: the globals of the executables that a provider has, by the one that IREE made and the provided name."""

    def __init__(self, module: ir.Module, provided: Provided) -> None:
        self.module = module
        self.provided = provided
        self.made: dict[tuple[str, str], str] = {}
        self.makers: set[str] = set()
        self.formats: dict[tuple[str, ...], str] = {
            (symbol_of(executable), symbol_of(binary)): ir.StringAttr(binary.attributes["format"]).value
            for executable in hal.executables(module)
            for binary in hal.binaries(executable)
        }

    def bind(self, lookups: Sequence[ir.Operation]) -> None:
        apart = {_executable(lookup) for lookup in lookups if _executable(lookup).startswith(PREFIX)}
        self.put_in({(executable, _name(executable)) for executable in apart})
        self.turn_all([(lookup, _provided_name(lookup)) for lookup in lookups if _executable(lookup) not in apart])

    def turn_all(self, lookups: Sequence[tuple[ir.Operation, str]]) -> None:
        """Make dispatches go to other executables, of these names, and drop what nothing is dispatched to any more."""
        for lookup, name in lookups:
            self._turn(lookup, name)
        for old in dict.fromkeys(old for old, _ in self.made):
            self._drop_unused(old)

    def put_in(self, executables: Collection[tuple[str, str]]) -> None:
        """Put others in the place of executables that IREE has not linked, each given with the name of the other."""
        for create in ops_in(self.module.operation, _CREATE):
            form = self.formats[_target(create)]
            for executable, name in executables:
                if _target(create)[0] == executable and (name, form) in self.provided:
                    self.put(create, name, form)
                    break
        self.drop_binaries({executable for executable, _ in executables})

    def _turn(self, lookup: ir.Operation, name: str) -> None:
        """Make a dispatch go to another executable."""
        load = defining_op(lookup.operands[0])
        if load is None or load.name != "util.global.load":
            raise _unforeseen("an executable is not loaded from a global")
        old = global_of(load)
        if (old, name) not in self.made:
            self.made[old, name] = self._make(old, name)
        with ir.InsertionPoint(lookup):
            new = load.clone().operation
        new.attributes["global"] = ir.FlatSymbolRefAttr.get(self.made[old, name])
        lookup.operands[0] = new.results[0]
        for use in list(lookup.results[0].uses):
            user = use.owner.operation
            if not user.name.startswith("hal.command_buffer.dispatch"):
                raise _unforeseen(f"a function of an executable is used by {user.name}")
            at = next(i for i, v in enumerate(user.operands) if v.type == new.results[0].type)
            user.operands[at] = new.results[0]

    def _make(self, old: str, name: str) -> str:
        """A global like the one that holds an executable, with an initializer like that one's."""
        new = f"{old}_provided_{name}"
        holder, initializer = defined(self.module.operation)[old], self._initializer(old)
        with ir.InsertionPoint(initializer):
            copy = holder.clone().operation
            copy.attributes["sym_name"] = emit.text(new)
            made = initializer.clone().operation
        made.move_after(initializer)
        copy.move_after(initializer)
        for store in ops_in(made, "util.global.store"):
            store.attributes["global"] = ir.FlatSymbolRefAttr.get(new)
        for create in ops_in(made, _CREATE):
            form = self.formats[_target(create)]
            if (name, form) in self.provided:
                self.put(create, name, form)
        return new

    def put(self, create: ir.Operation, name: str, form: str) -> None:
        """Put an executable from a provider in the place of one that the program holds."""
        with ir.InsertionPoint(create), create.location:
            callee = ir.FlatSymbolRefAttr.get(self._maker(name, form))
            made = emit.value("util.call", list(create.operands), create.results[0].type, callee=callee)
        emit.replace(create, made)

    def _maker(self, name: str, form: str) -> str:
        """The function that makes an executable from what a provider has.

        One for each: IREE would merge the branches of an initializer, and cannot compile a choice between buffers.
        """
        symbol = f"{PREFIX}{name}${form}"
        if symbol in self.makers:
            return symbol
        self.makers.add(symbol)
        known = symbols(self.module)
        for op in ir.Module.parse(_MAKER.format(symbol=symbol, name=name, form=form)).body.operations:
            if symbol_of(op.operation) not in known:
                op.operation.clone(ir.InsertionPoint.at_block_begin(self.module.body))
        return symbol

    def _drop_unused(self, old: str) -> None:
        """Drop an executable of empty functions that nothing is dispatched to any more."""
        loads = [op for op in ops_in(self.module.operation, "util.global.load") if global_of(op) == old]
        dead = [op for op in loads if next(iter(op.results[0].uses), None) is None]
        for op in dead:
            op.erase()
        if len(dead) < len(loads):
            return
        initializer = self._initializer(old)
        held = {_target(op)[0] for op in ops_in(initializer, _CREATE)}
        initializer.erase()
        defined(self.module.operation)[old].erase()
        self.drop_binaries(held)

    def drop_binaries(self, executables: set[str]) -> None:
        """Drop what no device gets any more of executables, and those of which nothing is left."""
        used = {_target(op) for op in ops_in(self.module.operation, _CREATE)}
        for executable in hal.executables(self.module):
            name, binaries = symbol_of(executable), hal.binaries(executable)
            if name not in executables:
                continue
            unused = [binary for binary in binaries if (name, symbol_of(binary)) not in used]
            for gone in [executable] if len(unused) == len(binaries) else unused:
                gone.erase()

    def _initializer(self, name: str) -> ir.Operation:
        """The initializer of a global, which must be of that one alone."""
        for top in self.module.body.operations:
            if top.operation.name != "util.initializer":
                continue
            stores = ops_in(top.operation, "util.global.store")
            if any(global_of(store) == name for store in stores):
                if not all(global_of(store) == name for store in stores):
                    raise _unforeseen(f"the initializer of {name} has other work too")
                return top.operation
        raise _unforeseen(f"{name} has no initializer")


def _unforeseen(what: str) -> OpspliceError:
    return OpspliceError(
        f"cannot make a dispatch dynamic: {what}",
        hint="this is a bug in opsplice: please report it; a kernel that is linked into the program does not need this",
    )


def _provided_name(lookup: ir.Operation) -> str:
    """What a provider knows the executable of a function as; "" for those that are none of its.

    What is nothing but a file has function names of its own, and the others may be linked into any executable.
    """
    names = _executable(lookup), symbols_in(lookup.attributes["entry_point"])[-1]
    return _name(next((name for name in names if name.startswith(PREFIX)), ""))


def _executable(lookup: ir.Operation) -> str:
    return symbols_in(lookup.attributes["entry_point"])[0]


def _name(symbol: str) -> str:
    return symbol.removeprefix(PREFIX).partition("$")[0]


def _target(create: ir.Operation) -> tuple[str, ...]:
    """The executable that is made, and the binary of it."""
    return symbols_in(create.attributes["executable_target"])


def symbols_in(attribute: ir.Attribute) -> tuple[str, ...]:
    return tuple(ir.SymbolRefAttr(attribute).value)
