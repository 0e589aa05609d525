"""What a SPIR-V module offers to its caller: entry points, bindings and push constants.

Vulkan finds no mistakes in these: too few bindings give zeros, a wrong entry name fails at run time. So they are read
from the binary, to be compared before anything is compiled. It must not know where a module came from or who calls it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from opsplice.common.errors import OpspliceError
from opsplice.targets.formats.entries import Access, Entry, Limits, Slot, Threads, find, missing
from opsplice.targets.formats.spirv import spirv_names
from opsplice.targets.formats.spirv.spirv_access import Access as Accessed
from opsplice.targets.formats.spirv.spirv_access import Accesses
from opsplice.targets.formats.spirv.spirv_reader import (
    Declarations,
    Decoration,
    Op,
    StorageClass,
    Variable,
    damaged,
    read_declarations,
    read_instructions,
)

# What every Vulkan device takes (the specification's minimum of maxPushConstantsSize, 128 bytes).
LIMITS = Limits(words=32)

_KIND = "compute entry point"
_NO_ENTRY = "it has no entry point: write the kernel as a compute shader, with a local size"

_GL_COMPUTE = 5
_LOCAL_SIZE, _LOCAL_SIZE_ID = 17, 38
_ARRAYS = (Op.TYPE_ARRAY, Op.TYPE_RUNTIME_ARRAY)
_BOUND_CLASSES = (StorageClass.UNIFORM_CONSTANT, StorageClass.UNIFORM, StorageClass.STORAGE_BUFFER)
_OPAQUE = {Op.TYPE_IMAGE: "image", Op.TYPE_SAMPLER: "sampler", Op.TYPE_SAMPLED_IMAGE: "sampled image"}

# A descriptor set and a binding's number in it.
Place = tuple[int, int]


@dataclass(frozen=True)
class Binding:
    """A resource that the module declares, whether or not an entry point uses it.

    kind:     `storage` for a storage buffer, else `uniform`, `image`, `sampler`, `sampled image`, `other`, or one of
              these after `array of `.
    writable: not declared NonWritable; of a block, when one of its members is not.
    label:    its name in the source, or its block's; "" when the module was stripped.
    """

    set: int
    number: int
    kind: str
    writable: bool
    label: str = ""

    @property
    def place(self) -> Place:
        return self.set, self.number


@dataclass(frozen=True)
class SpirvModule:
    """A SPIR-V module as its caller sees it.

    version:      (major, minor).
    capabilities: by SPIR-V's names; ones that are not known here as `capability <number>`.
    entries:      compute entry points only, in the module's order.
    """

    version: tuple[int, int]
    capabilities: frozenset[str]
    entries: tuple[Entry, ...]
    bindings: tuple[Binding, ...]


def reflect(data: bytes, name: str) -> SpirvModule:
    """Reads a SPIR-V binary in either byte order.

    name: how errors call the file. Raises OpspliceError for anything else than SPIR-V, a damaged module, a resource
    without a binding, or a push-constant block whose layout the module does not say.
    """
    version, instructions = read_instructions(data, name)
    declared, first_function = read_declarations(instructions, name)
    accesses = Accesses(instructions[first_function:], declared, name)
    bindings: dict[int, Binding] = {}
    blocks: dict[int, _Block] = {}
    shared: dict[int, int] = {}
    read_only = Counter(struct for struct, _, each in declared.members if each == Decoration.NON_WRITABLE)
    for target, variable in declared.variables.items():
        if variable.storage_class in _BOUND_CLASSES:
            bindings[target] = _binding(declared, read_only, target, variable, name)
        elif variable.storage_class == StorageClass.PUSH_CONSTANT:
            blocks[target] = _block(declared, variable, name)
        elif variable.storage_class == StorageClass.WORKGROUP and variable.pointee is not None:
            held = declared.types.get(variable.pointee)
            shared[target] = (held.size if held else None) or 0
    ordered = sorted(bindings.values(), key=lambda binding: (*binding.place, binding.label))
    found = _Resources({at: each.place for at, each in bindings.items()}, {}, blocks, shared)
    for binding in ordered:
        found.bindings.setdefault(binding.place, []).append(binding)
    size_constant = declared.workgroup_size
    return SpirvModule(
        version=version,
        capabilities=frozenset(map(spirv_names.capability, declared.capabilities)),
        entries=tuple(
            _entry(entry, name, _local_size(declared, size_constant, function), accesses.of(function), found)
            for model, function, entry in declared.entries
            if model == _GL_COMPUTE
        ),
        bindings=tuple(ordered),
    )


def choose_entry(module: SpirvModule, name: str, symbol: str) -> str:
    """The entry point for the kernel `symbol`: the one of that name, or `main` where that is the only one (as in GLSL).

    Raises OpspliceError that lists the entry points.
    """
    names = [entry.name for entry in module.entries]
    if symbol in names:
        return symbol
    if names == ["main"]:
        return "main"
    raise missing(f"{name} has no {_KIND} '{symbol}'", symbol, names, none=_NO_ENTRY)


def find_entry(module: SpirvModule, name: str, entry: str) -> Entry:
    """The entry point called `entry`. Raises OpspliceError, with what there is, when there is none."""
    return find(module.entries, name, entry, _KIND, _NO_ENTRY)


@dataclass(frozen=True)
class _Resources:
    """What a module declares: where variables are bound and what is there; push constants and shared bytes by id."""

    places: Mapping[int, Place]
    bindings: dict[Place, list[Binding]]
    blocks: Mapping[int, _Block]
    shared: Mapping[int, int]


def _entry(symbol: str, name: str, local_size: Threads | None, access: Accessed, found: _Resources) -> Entry:
    """A compute entry point: what it, or a function that it calls, touches. name: how errors call the file.

    local_size: with specialization constants at their defaults. Compilers of shaders drop what is not read, so a buffer
    may be unused.
    """
    used, written, unclear = (
        {found.places[at] for at in ids if at in found.places} for ids in (access.used, access.written, access.unclear)
    )
    bound = [binding for place in sorted(used) for binding in found.bindings[place]]
    numbered: dict[int, list[Binding]] = {}
    for binding in bound:
        numbered.setdefault(binding.number, []).append(binding)

    def accessed(bindings: Sequence[Binding]) -> Access:
        places = {binding.place for binding in bindings}
        if not any(binding.writable for binding in bindings):
            return "reads"
        return "writes" if places & written else "may write" if places & unclear else "reads"

    refusals = [_foreign(binding) for binding in bound if binding.set != 0 or binding.kind != "storage"]
    if local_size is None:
        how = "write it as numbers: layout(local_size_x = 64) in; or [numthreads(64, 1, 1)]"
        refusals.append(("does not say its local size in a way that can be read", how))
    taken = [found.blocks[target] for target in access.used if target in found.blocks]
    return Entry(
        symbol,
        name,
        buffers={number: Slot(_called(each[0]), accessed(each)) for number, each in numbered.items()},
        words=max((-(-block.size // 4) for block in taken), default=0),
        floats=frozenset(word for block in taken for word in block.floats),
        threads=local_size,
        shared=sum(found.shared.get(target, 0) for target in access.used),
        refusals=tuple(refusals),
    )


def _foreign(binding: Binding) -> tuple[str, str]:
    """Why a kernel cannot be given a resource, and what to do."""
    if binding.set != 0:
        told = f"uses {_called(binding)} of set {binding.set}, but a kernel's buffers are in set 0"
        return told, "declare it with set = 0, and bindings from 0 on"
    told = f"has {_article(binding.kind)} at {_called(binding)}, but the kernel passes a storage buffer"
    return told, "declare it as a buffer: 'buffer' in GLSL, StructuredBuffer or RWStructuredBuffer in Slang"


def _called(binding: Binding) -> str:
    return f"binding {binding.number}" + (f" ('{binding.label}')" if binding.label else "")


def _article(kind: str) -> str:
    return f"{'an' if kind[0] in 'aio' else 'a'} {kind}{' buffer' if kind == 'uniform' else ''}"


def _local_size(declared: Declarations, constant: int | None, function: int) -> Threads | None:
    sizes: list[int | None]
    # A constant with the built-in WorkgroupSize takes precedence (SPIR-V, 3.21).
    if constant is not None:
        sizes = [declared.constants.get(part) for part in declared.composites.get(constant, ())]
    elif (literal := declared.modes.get((function, _LOCAL_SIZE))) is not None:
        sizes = list(literal)
    else:
        sizes = [declared.constants.get(part) for part in declared.modes.get((function, _LOCAL_SIZE_ID), ())]
    known = [size for size in sizes if size is not None]
    return (known[0], known[1], known[2]) if len(sizes) == len(known) == 3 else None


def _binding(declared: Declarations, read_only: Counter[int], target: int, variable: Variable, name: str) -> Binding:
    """read_only: of each struct, how many members are not writable."""
    pointee = variable.pointee
    held = declared.types.get(pointee) if pointee is not None else None
    arrayed = held is not None and held.opcode in _ARRAYS
    if held is not None and arrayed and held.operands:
        pointee = held.operands[0]
        held = declared.types.get(pointee)
    kind = "other"
    if held is not None and held.opcode == Op.TYPE_STRUCT:
        storage = variable.storage_class == StorageClass.STORAGE_BUFFER
        storage = storage or (pointee, Decoration.BUFFER_BLOCK) in declared.decorations
        kind = "storage" if storage else "uniform"
    elif held is not None:
        kind = _OPAQUE.get(held.opcode, "other")
    in_set = declared.decorations.get((target, Decoration.DESCRIPTOR_SET))
    number = declared.decorations.get((target, Decoration.BINDING))
    label = declared.names.get(target) or (declared.names.get(pointee, "") if pointee is not None else "")
    if not in_set or not number:
        called = f"'{label}'" if label else "a resource"
        raise OpspliceError(
            f"{name} declares {called} without a set and a binding",
            hint="give it both: layout(set = 0, binding = 0) in GLSL, [[vk::binding(0, 0)]] in Slang",
        )
    count = len(held.operands) if held is not None and kind in ("storage", "uniform") else 0
    is_read = pointee is not None and count > 0 and read_only[pointee] == count
    return Binding(
        set=in_set[0],
        number=number[0],
        kind=f"array of {kind}" if arrayed else kind,
        writable=not is_read and (target, Decoration.NON_WRITABLE) not in declared.decorations,
        label=label,
    )


@dataclass(frozen=True)
class _Block:
    """Push constants: how many bytes, and the words of them that are `float`, by number."""

    size: int
    floats: frozenset[int]


def _block(declared: Declarations, variable: Variable, name: str) -> _Block:
    held = declared.types.get(variable.pointee) if variable.pointee is not None else None
    if held is None:
        raise damaged(name, "its push constants have no type")
    if held.size is None:
        raise OpspliceError(
            f"{name} does not say how its push constants lie in memory",
            hint="make them one block of numbers, vectors, and arrays of a fixed length",
        )
    return _Block(held.size, frozenset(_floats(declared, variable.pointee, held.operands)))


def _floats(declared: Declarations, struct: int | None, members: Sequence[int]) -> Iterator[int]:
    """The words of a struct that are 32-bit floats, alone or in vectors."""
    for index, member in enumerate(members):
        kind, count = declared.types.get(member), 1
        if kind is not None and kind.opcode == Op.TYPE_VECTOR:
            count = kind.operands[1]
            kind = declared.types.get(kind.operands[0])
        offset = declared.members.get((struct or 0, index, Decoration.OFFSET))
        if offset and kind is not None and kind.opcode == Op.TYPE_FLOAT and kind.operands[0] == 32:
            yield from range(offset[0] // 4, offset[0] // 4 + count)
