"""All that reads bytes or text from outside, as targets: each takes any bytes, and raises OpspliceError only.

Seeds are good inputs, most of them made by the builders of the readers' own tests. To add a reader, add a function and
a row to the table.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import io
import itertools
import re
import resource
import struct
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from opsplice.common.errors import OpspliceError

ROOT = Path(__file__).parent.parent.parent
FOUND = Path(__file__).parent / "found"
BUILD = ROOT / "build" / "fuzz"
_SPLICE_BLOCK = re.compile(rb"^```splice\n(.*?)^```", re.DOTALL | re.MULTILINE)
# What costs the square of its size shows with parts that are written again and again, so seeds can be small.
_LARGEST_SEED = 4000


@dataclass(frozen=True)
class Target:
    """A reader. native: code of others reads the bytes, in a process of its own, so nothing tells which lines ran."""

    name: str
    read: Callable[[bytes], object]
    made: Callable[[], Iterable[bytes]]
    native: bool = False

    def seeds(self) -> list[bytes]:
        """Good inputs."""
        return list(self.made())

    def found(self) -> list[bytes]:
        """Inputs that were not handled once."""
        return [path.read_bytes() for path in sorted((FOUND / self.name).glob("*"))]


def _refusals() -> contextlib.suppress:
    """Lets a target go on to another reader of the same bytes."""
    return contextlib.suppress(OpspliceError)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


@contextlib.contextmanager
def _file(data: bytes, name: str) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="opsplice-fuzz-") as folder:
        path = Path(folder) / name
        path.write_bytes(data)
        yield path


# ---- specs and programs ----------------------------------------------------------------------------------------------


def _specs() -> list[bytes]:
    files = [path.read_bytes() for path in sorted((ROOT / "samples").glob("*/*.splice"))]
    examples = _SPLICE_BLOCK.findall((ROOT / "docs" / "language.md").read_bytes())
    library = (ROOT / "spec_lang" / "library" / "nn.splice").read_bytes().split(b"\n\n")
    return [text for text in (*files, *examples, *library[:60:6]) if len(text) <= _LARGEST_SEED]


def _read_spec(data: bytes) -> None:
    """Parsed, checked and linted; written anew by the formatter it loads again."""
    from opsplice.compiling import linting
    from opsplice.spec_lang.formatting import formatter
    from opsplice.spec_lang.loading import loader

    text = loader.decoded(data, "s.splice")
    spec = loader.load_text(text)
    linting.findings(spec)
    formatted = formatter.format(text)
    assert formatter.format(formatted) == formatted, "what is formatted is formatted otherwise"
    loader.load_text(formatted)


def _match_spec(data: bytes) -> None:
    """What the patterns of a spec find in a program, and why not more."""
    from opsplice.spec_lang.loading import loader

    _explain(_program(), loader.load_text(loader.decoded(data, "s.splice")))


def _explain(module: Any, spec: Any) -> None:
    from opsplice.matchers.explain.diagnosis import Explainer
    from opsplice.matchers.find import engine
    from opsplice.matchers.patterns.compiled import compile_pattern

    graphs = [compile_pattern(spec, name) for name in spec.patterns]
    found = engine.find(module, [graph for each in graphs for graph in each])
    for each in graphs:
        Explainer(spec.patterns).nearest(module, each, found.matches, 3)


@functools.cache
def _context() -> Any:
    from opsplice.pipeline.session import Session

    session = Session()
    session.context.enable_multithreading(False)
    return session, session.context


# What MLIR's parser dies of, as the command line then says: nesting fills its stack, and `linalg.broadcast` and its
# like take it for granted that a list stands there.
_NO_LIST = re.compile(rb"\b(?:dimensions|permutation)\s*+=\s*+(?!\[)")
_DEEPEST = 200
_BRACKET = re.compile(rb"->|[\[({<]|[\])}>]")
_SIGNS = re.compile(rb"(?:-\s*+){200}")


def _check_harmless(data: bytes) -> None:
    depths = itertools.accumulate({b"->": 0}.get(each, 1 if each in b"[({<" else -1) for each in _BRACKET.findall(data))
    if max(depths, default=0) > _DEEPEST or _NO_LIST.search(data) or _SIGNS.search(data):
        raise OpspliceError("MLIR's parser dies of this")


def _parsed(data: bytes) -> Any:
    from opsplice.frontends import source
    from opsplice.pipeline import compiler
    from opsplice.pipeline.diagnostics import render

    _check_harmless(data)
    given = source.load(data)
    module = compiler._read(given, _context()[1])
    if isinstance(module, list):
        raise OpspliceError("cannot read the module", details=render(module, lambda place: given.line(place.line)))
    return module


@functools.cache
def _program() -> Any:
    return _parsed((ROOT / "tests" / "matchers" / "library" / "norms.mlir").read_bytes())


@functools.cache
def _many_patterns() -> Any:
    from opsplice.spec_lang.loading import loader

    return loader.load_text((ROOT / "samples" / "transformer" / "transformer.splice").read_text(), ROOT / "s.splice")


def _models() -> list[bytes]:
    paths = [*(ROOT / "samples").glob("*/model.mlir"), *(ROOT / "tests" / "matchers" / "library").glob("*.mlir")]
    return [text for path in sorted(paths) if len(text := path.read_bytes()) <= 2 * _LARGEST_SEED]


def _bytecode() -> list[bytes]:
    return _in_child(_written)


def _written() -> list[bytes]:
    from opsplice.rewrites.ir import emit

    return [emit.bytecode(_parsed(text).operation) for text in _models()[:6]]


def _read_model(data: bytes) -> None:
    """A program as text, matched with the patterns of a spec."""
    from opsplice.frontends.declarations import declare_functions
    from opsplice.matchers.explain.pointing import Ops, parse_place

    module = _parsed(data)
    declare_functions(module)
    _explain(module, _many_patterns())
    with _refusals():
        Ops(module).at(parse_place("3"))


def _read_bytecode(data: bytes) -> None:
    _many_patterns()  # read once, and found here by each process
    _apart(_read_model, b"ML\xefR" + data[4:])


def _apart(read: Callable[[bytes], object], data: bytes) -> None:
    """A reader of bytes that are not ours to check, as the command line calls it: in a process of its own."""
    _in_child(_within_limits, read, data)


def _within_limits(read: Callable[[bytes], object], data: bytes) -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (30, 30))
    read(data)


def _in_child(work: Callable[..., Any], *arguments: Any) -> Any:
    import iree.compiler.ir
    import iree.runtime  # noqa: F401 - what each child would load

    from opsplice.isolation.isolate import call_isolated

    # With other threads a child may wait for ever for what they held.
    tasks = Path("/proc/self/task")
    alone = tasks.is_dir() and len(list(tasks.iterdir())) == 1
    return call_isolated(_work, (work, arguments), method="fork" if alone else "spawn")


def _work(_report: Any, work: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    return work(*arguments)


def _transform_specs() -> list[bytes]:
    return [path.read_bytes() for path in sorted((ROOT / "samples").glob("*/replace.mlir"))]


def _import_spec(data: bytes) -> None:
    """A transform spec read as a `.splice` file, which loads."""
    _check_harmless(data)
    from opsplice.rewrites.transform_dialect import interpreter
    from opsplice.rewrites.transform_dialect.importing.importer import import_spec
    from opsplice.spec_lang.loading import loader

    context = _context()[1]
    with _file(data, "spec.mlir") as path, context:
        found = import_spec(interpreter.parse(context, path))
    if found.text:
        loader.load_text(found.text)


# ---- code for CPUs ---------------------------------------------------------------------------------------------------


def _objects() -> list[bytes]:
    from tests.targets.formats.test_object_files import FUNCTION, GLOBAL, KERNEL, LOCAL, TEXT, WEAK, elf

    symbols = [KERNEL, ("expf", GLOBAL, 0, 0), ("helper", LOCAL, FUNCTION, TEXT), ("hook", WEAK, 0, 0)]
    return [elf(symbols, relocations=[1, 2], text=".init_array"), elf([KERNEL], machine=183), elf([KERNEL], kind=3)]


def _read_object(data: bytes) -> None:
    from opsplice.targets.backends import cpu_dispatch
    from opsplice.targets.formats import elf as objects

    with _refusals():
        code = objects.read_object(data, "k.o")
        objects.check_arch(code, "k.o", "x86_64")
        objects.check_links(code, "k.o", ["scale"], "object")
    with _refusals():
        cpu_dispatch.check(data, "k.so", "x86_64")


def _plugins() -> list[bytes]:
    from opsplice.targets.formats import fatelf

    libraries = [data for data in _objects() if data[16] == 3]
    parts = [library[:18] + struct.pack("<H", machine) + library[20:] for machine in (62, 183) for library in libraries]
    return [*libraries, fatelf.write(parts)]


def _read_plugin(data: bytes) -> None:
    from opsplice.targets.plugins import plugin_file

    with _file(data, "k.sos") as path:
        plugin_file.check_loadable(plugin_file.read(path))


def _code_objects() -> list[bytes]:
    from tests.targets.formats.test_rocm import GOOD, library

    return [library(GOOD)]


def _read_code_object(data: bytes) -> None:
    from opsplice.targets.formats import hsaco

    module = hsaco.reflect(data, "k.hsaco")
    with _refusals():
        hsaco.check_target(module, "k.hsaco", "gfx942")
    _launch(hsaco.find_entry(module, "k.hsaco", "scale"), 2, 1, (64, 1, 1))


def _launch(*call: Any) -> None:
    from tests.targets.link.launching import launch

    launch(*call)


# ---- code for GPUs ---------------------------------------------------------------------------------------------------


def _spirv() -> list[bytes]:
    from tests.targets.formats import spirv_assembly, test_spirv_binary
    from tests.targets.link import test_spirv_link

    binary = spirv_assembly.binary
    return [
        test_spirv_binary.RICH,
        test_spirv_link.program(),
        binary(*test_spirv_link.LIBRARY),
        binary(*test_spirv_link.LIBRARY, order=">"),
    ]


def _read_spirv(data: bytes) -> None:
    from opsplice.targets.formats.spirv import spirv_binary, spirv_reader
    from opsplice.targets.link import spirv_link

    name = "k.spv"
    with _refusals():
        module = spirv_binary.reflect(data, name)
        entry = spirv_binary.choose_entry(module, name, "scale")
        _launch(spirv_binary.find_entry(module, name, entry), (False, True), 2, (4, 2, 2))
    with _refusals():
        spirv_reader.without_sources(spirv_reader.little_endian(data), name)
    with _refusals():
        functions = spirv_link.Library(name, data)
        spirv_link.check(functions, list(functions.functions()))
    seeds = _spirv()
    for program, library in ((seeds[1], data), (data, seeds[2])):
        with _refusals():
            spirv_link.link(program, name, [spirv_link.Library("f.spv", library)])
    spirv_link.imports(spirv_link.as_library(data, name), name)


def _ptx() -> list[bytes]:
    from tests.targets.formats import test_ptx
    from tests.targets.link import test_ptx_link

    return [text.encode() for text in (test_ptx.TEXT, test_ptx_link.PROGRAM, test_ptx_link.LIBRARY)]


def _read_ptx(data: bytes) -> None:
    from opsplice.targets.formats import ptx
    from opsplice.targets.link import ptx_link

    text = ptx.decode(data, "k.ptx")
    with _refusals():
        module = ptx.reflect(text, "k.ptx")
        _launch(ptx.find_entry(module, "k.ptx", "scale"), 1, 0, (64, 1, 1))
    seeds = [seed.decode() for seed in _ptx()]
    for program, library in ((seeds[1], text), (text, seeds[2])):
        with _refusals():
            ptx_link.link(program, "p", [ptx_link.Library("k.ptx", library)])


def _metal() -> list[bytes]:
    from tests.targets.formats.test_metal import SHADER

    return [SHADER.encode()]


def _read_metal(data: bytes) -> None:
    from opsplice.targets.formats import metal_source

    entries = metal_source.reflect(_text(data), "k.metal")
    for entry in entries:
        metal_source.unchecked(entry)
    _launch(metal_source.find_entry(entries, "k.metal", "scale"), (False, True), 2, (64, 1, 1))


def _executables() -> list[bytes]:
    """Code for Vulkan, CUDA and Metal as IREE's compiler wraps it."""
    held = ((b"VKE1", 4, _spirv()[1]), (b"CDA1", 2, _ptx()[1]), (b"MTL1", 2, _metal()[0]))
    return [_executable(*each) for each in held]


def _executable(magic: bytes, fields: int, code: bytes) -> bytes:
    """A FlatBuffer with a vector of one table in each field, whose fields all lead to the same vector of bytes."""
    vtable = struct.pack("<HH", 4 + 2 * fields, 4 + 4 * fields) + b"".join(
        struct.pack("<H", 4 + 4 * number) for number in range(fields)
    )
    vtable += bytes(-len(vtable) % 4)
    root = 4 + len(vtable)
    vector, inner = root + 4 + 4 * fields, root + 4 + 4 * fields + 8
    leaf = inner + 4 + 4 * fields
    data = struct.pack("<I", root) + vtable
    data += struct.pack("<i", root - 4) + b"".join(
        struct.pack("<I", vector - (root + 4 + 4 * number)) for number in range(fields)
    )
    data += struct.pack("<II", 1, inner - vector - 4)
    data += struct.pack("<i", inner - 4) + b"".join(
        struct.pack("<I", leaf - (inner + 4 + 4 * number)) for number in range(fields)
    )
    data += struct.pack("<I", len(code) // 4) + code + bytes(8)
    return struct.pack("<4sIQ", magic, 0, len(data)).ljust(64, b"\0") + data


def _read_executable(data: bytes) -> None:
    from opsplice.targets.formats import metal_executable
    from opsplice.targets.link import function_link

    form = {b"VKE1": function_link.SPIRV, b"CDA1": function_link.CUDA}.get(data[:4])
    if form is None:
        metal_executable.replace(data, metal_executable.Kernel("kernel void k() {}", "k", (1, 1, 1)))
    else:
        function_link.imports(data, form, "k.bin")


# ---- inputs, parameters, and words -----------------------------------------------------------------------------------


def _input_texts() -> list[bytes]:
    return [b"8xf32=2", b"2x2xi32=1,2,3,4", b"8xf32", b"1.5", b"i1=true", b"2xcomplex<f32>=1 2", b"2xbf16=nan", b"1"]


def _read_input(data: bytes) -> None:
    from opsplice.runtime import value_text as values

    for value in values.parse_input(_text(data)):
        values.format_value(value)


def _arrays() -> list[bytes]:
    import numpy as np

    found = []
    rows = np.arange(6, dtype="<f4").reshape(2, 3)
    for array in (rows, np.zeros((), ">i8"), np.asfortranarray(rows), np.ones(2, bool)):
        buffer = io.BytesIO()
        np.save(buffer, array)
        found.append(buffer.getvalue())
    return [*found, found[0] + found[1]]


def _read_array(data: bytes) -> None:
    from opsplice.runtime import value_text as values

    with _file(data, "x.npy") as path:
        for value in values.parse_input(f"@{path}"):
            values.format_value(value)


def _words() -> list[bytes]:
    return [
        b"model.mlir:12", b"model.mlir:10-25", b"linalg.generic#3", b"x86_64+avx2+fma", b"aarch64", b"+avx2,-avx512f",
        b"sync func @main(%input0: tensor<?x4xf32>, %x: i32 {a = 1}) -> (%output0: tensor<?xf32>)",
        b'file.mlir:3:4: error: no\n\nloc("x"): a note', b"k.o: k.c \\\n  a\\ b.h $$c.h\n", b"vulkan:llvmpipe",
    ]  # fmt: skip


def _read_words(data: bytes) -> None:
    """What stands in arguments, in programs' declarations, and in what compilers say."""
    from opsplice.matchers.explain import pointing
    from opsplice.pipeline import devices, diagnostics
    from opsplice.runtime.declared_functions import declared_function
    from opsplice.targets.artifacts import arch
    from opsplice.targets.build import toolchains

    text = _text(data)
    declared_function("main", {"iree.abi.declaration": text})
    diagnostics.render([diagnostics.parse_callback(2, text)], lambda _place: text)
    arch.feature_string(arch.parse_features(text))
    with _file(data.replace(b"\0", b""), "k.d") as path:  # a compiler writes it, about files
        toolchains.read_dependencies(path, path.parent)
    for read in (pointing.parse_place, arch.normalize, arch.from_iree_key):
        with _refusals():
            read(text)
    with _refusals():
        devices.parse_archs(text.split(","))
    devices.target_step(text.split(","), ())


def _sources() -> list[bytes]:
    includes = b'#include "a.h"\n#include <b.h>\n__asm__(".incbin \\"c\\"");\n'
    return [includes, b"import a.b;\n__include scale;\nmodule x;", b"int f(void) { return 1 < 2; }"]


def _read_source(data: bytes) -> None:
    """What a source includes: files of its folder, each of which includes the others."""
    from opsplice.targets.artifacts import source_inputs
    from opsplice.targets.build import shaders

    with _file(data, "k.c") as path:
        for name in ("a.h", "b.h", "c"):
            (path.parent / name).write_bytes(data)
        flags = [flag for flag in _text(data[:64]).split() if "\0" not in flag]
        with _refusals():
            source_inputs.read_inputs(path, flags)
        source_inputs.read_inputs(path, (), names=shaders.slang_names)


def _archives() -> list[bytes]:
    import numpy as np

    from tests.archives import gguf, irpa, safetensors

    return [make("w", np.ones((2, 2), np.float32)) for make in (irpa, gguf, safetensors)]


def _read_archive(data: bytes) -> None:
    _apart(_index, data)


def _index(data: bytes) -> None:
    import iree.runtime

    from opsplice.runtime import weights

    suffix = {b"IRPA": "irpa", b"GGUF": "gguf"}.get(data[:4], "safetensors")
    with _file(data, f"w.{suffix}") as path:
        weights.module_of(iree.runtime.VmInstance(), weights.read_archives(path))


def _packages() -> list[bytes]:
    """An index, a manifest, a config, a list of tags and docker's config.json, as strangers give them."""
    from opsplice.targets.registry.package import contents, read, write
    from opsplice.targets.registry.places import oci
    from opsplice.targets.registry.places.layout import Layout
    from tests.targets.registry.sample import ABOUT, parts

    with tempfile.TemporaryDirectory(prefix="opsplice-fuzz-") as folder:
        layout = Layout(Path(folder) / "layout")
        found = read(layout, write(layout, ABOUT, parts(Path(folder) / "files"), "1"))
        variant = found.variants[0]
        config = contents(layout, found, variant).config
        documents = [layout.read(each) for each in (found.descriptor, variant.descriptor, config)]
    docker = b'{"auths":{"localhost:1":{"auth":"dXNlcjpzZWNyZXQ="}},"credsStore":""}'
    return [*documents, b'{"name":"a","tags":["1"]}', docker, f"oci://localhost:1/a:1@{oci.digest_of(b'')}".encode()]


def _read_package(data: bytes) -> None:
    """As an index, as a manifest with a good config, and as a config of a good manifest."""
    from opsplice.targets.registry import package
    from opsplice.targets.registry.places import credentials, oci, reference

    index, manifest, config, *_ = _package_seeds()
    for as_index, others in ((data, {}), (index, {oci.parse_index(index).manifests[0].digest: data}), (index, None)):
        with _refusals():
            place: Any = _Given(data, config, manifest, others)
            found = package.read(place, oci.Descriptor.of(as_index, oci.INDEX))
            package.choose(found, package.for_targets("x86_64"))
            package.merged(found, [package.contents(place, found, variant) for variant in found.variants[:3]])
    with _refusals():
        assert oci.parse_index(oci.parse_index(data).to_bytes()) == oci.parse_index(data)
    with _refusals():
        text = _text(data)
        assert str(reference.Reference.parse(text)) == text
    with _file(data, "config.json") as path:
        credentials.find("localhost:1", {"DOCKER_CONFIG": str(path.parent), "PATH": "/nowhere"})


@functools.cache
def _package_seeds() -> list[bytes]:
    return _packages()


@dataclass(frozen=True)
class _Given:
    """A place that gives the bytes under test for what the seeds name; nothing is compared with its digest."""

    data: bytes
    config: bytes
    manifest: bytes
    others: dict[str, bytes] | None

    def read(self, descriptor: Any) -> bytes:
        from opsplice.targets.registry.places import oci

        if descriptor.media_type == oci.INDEX:
            return self.data if self.others == {} else _package_seeds()[0]
        if descriptor.media_type == oci.MANIFEST:
            return (self.others or {}).get(descriptor.digest, self.manifest)
        return self.data if self.others is None else self.config


def _programs() -> list[bytes]:
    return [_in_child(_compiled)]


def _compiled() -> bytes:
    from opsplice.frontends.source import ModuleSource
    from opsplice.pipeline.compiler import compile_module

    text = """func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = arith.negf %x : tensor<4xf32>
  return %y : tensor<4xf32>
}"""
    flags = ["--iree-hal-target-device=local", "--iree-hal-local-target-device-backends=vmvx"]
    return compile_module(ModuleSource(content=text), (), flags).vmfb


def _read_program(data: bytes) -> None:
    _apart(_load, data)


def _load(data: bytes) -> None:
    import numpy as np

    from opsplice.runtime.loaded_program import load_program

    load_program(data, "local-sync").call("main", np.zeros(4, np.float32))


def _bitcode() -> list[bytes]:
    from llvmlite import binding

    text = "define void @scale(ptr %x, i64 %n) { store float 1.0, ptr %x ret void }\n@t = thread_local global i32 0"
    return [binding.parse_assembly(text).as_bitcode()]


def _read_bitcode(data: bytes) -> None:
    from opsplice.targets.artifacts.artifact import CpuTarget
    from opsplice.targets.build import llvm

    with _file(data, "k.bc") as path:
        llvm.import_bitcode(path, "k.bc", CpuTarget.of("x86_64"), neutral=path.with_suffix(".out"))


def _llvm_texts() -> list[bytes]:
    return [path.read_bytes() for path in sorted((ROOT / "samples").glob("*/*.ll"))]


def _compile_llvm(data: bytes) -> None:
    from opsplice.targets.artifacts.artifact import CpuTarget
    from opsplice.targets.build import llvm

    with _file(data, "k.ll") as path:
        llvm.compile_ir(path, path.with_suffix(".o"), CpuTarget.of("x86_64"), "object")


# ---- packages --------------------------------------------------------------------------------------------------------


def _locks() -> list[bytes]:
    from tests.targets.registry import test_lock, test_trust

    return [test_lock.TEXT.encode(), test_trust.TEXT.encode()]


def _read_lock(data: bytes) -> None:
    """A lock and a trust file; what is read is written so that it is read again."""
    from opsplice.targets.registry.trust import lock, trust

    with _refusals():
        found = lock.parse(data)
        assert lock.parse(found.text().encode()) == found, "what is written is read otherwise"
    known = trust.parse(data)
    assert trust.parse(known.text().encode()) == known, "what is written is read otherwise"


def _signatures() -> list[bytes]:
    from tests.packaging import test_provenance
    from tests.targets.registry import signers, test_envelope

    note = test_provenance.Provenance("0.1.0", "3.13.0", (test_provenance.USE,)).to_text()
    statement = test_envelope.Statement("acme/kernels", signers.DIGEST, {"opsplice": "0.1.0"}).to_bytes()
    return [signers.signed(signers.key(1)), signers.signed(signers.key(1), signers.key(2)), statement, note.encode()]


def _read_signature(data: bytes) -> None:
    """What was not signed is not trusted, and what a program says of its kernels can be shown."""
    from opsplice import provenance
    from opsplice.targets.registry.trust import envelope, trust
    from tests.targets.registry import signers

    trusted = signers.trusting(signers.key(1))
    with _refusals():
        trust.vouched(trusted, [data], "acme/kernels", signers.DIGEST)
    with _refusals():
        envelope.parse_statement(data)
    note = provenance.parse(_text(data))
    assert provenance.parse(note.to_text()) == note, "what is written is read otherwise"


def _shaders() -> list[bytes]:
    return [path.read_bytes() for path in sorted((ROOT / "samples").glob("*/*.wgsl"))]


def _compile_shader(data: bytes) -> None:
    from opsplice.targets.artifacts.artifact import SpirvTarget
    from opsplice.targets.build import shaders
    from opsplice.targets.formats.spirv import spirv_binary

    with _file(data, "k.wgsl") as path:
        module = path.with_suffix(".spv")
        shaders.choose("WGSL", path.name).compile(path, module, SpirvTarget())
        spirv_binary.reflect(module.read_bytes(), path.name)


def _has_naga() -> bool:
    from opsplice.targets.build import shaders

    return shaders.find("naga") is not None


def _has_onnx() -> bool:
    return importlib.util.find_spec("onnx") is not None


def _onnx_models() -> list[bytes]:
    import numpy as np

    from tests.onnx.models import make_model, node

    weights = {"w": np.ones((4, 4), np.float32), "shape": np.array([-1, 2, 2])}
    nodes = [node("MatMul", "x w", "m"), node("Reshape", "m shape", "r"), node("ReduceMean", "r", "y", keepdims=0)]
    scaled = {"s": np.float32(0.5), "z": np.uint8(3)}
    quantised = [node("QuantizeLinear", "x s z", "q"), node("DequantizeLinear", "q s z", "y")]
    models = [
        make_model(nodes, {"x": ["batch", 4]}, {"y": []}, weights, 17),
        make_model(quantised, {"x": [2, 4]}, {"y": [2, 4]}, scaled),
    ]
    return [model.SerializeToString() for model in models]


def _import_onnx(data: bytes) -> None:
    from opsplice.frontends.importing import Request
    from opsplice.onnx.importing import import_model

    with _file(data, "model.onnx") as path:
        import_model(Request(path, "model.onnx", path.parent, {}))


TARGETS = (
    Target("spec", _read_spec, _specs),
    Target("match", _match_spec, _specs),
    Target("model", _read_model, _models),
    Target("bytecode", _read_bytecode, _bytecode, native=True),
    Target("transform", _import_spec, _transform_specs),
    Target("object", _read_object, _objects),
    Target("plugin", _read_plugin, _plugins),
    Target("hsaco", _read_code_object, _code_objects),
    Target("spirv", _read_spirv, _spirv),
    Target("ptx", _read_ptx, _ptx),
    Target("metal", _read_metal, _metal),
    Target("executable", _read_executable, _executables),
    Target("input", _read_input, _input_texts),
    Target("npy", _read_array, _arrays),
    Target("words", _read_words, _words),
    Target("source", _read_source, _sources),
    Target("package", _read_package, _packages),
    Target("lock", _read_lock, _locks),
    Target("signature", _read_signature, _signatures),
    Target("archive", _read_archive, _archives, native=True),
    Target("vmfb", _read_program, _programs, native=True),
    Target("bitcode", _read_bitcode, _bitcode, native=True),
    Target("llvm", _compile_llvm, _llvm_texts, native=True),
    *([Target("onnx", _import_onnx, _onnx_models, native=True)] if _has_onnx() else []),
    *([Target("wgsl", _compile_shader, _shaders, native=True)] if _has_naga() else []),
)
