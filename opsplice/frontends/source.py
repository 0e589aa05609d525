"""A module as it was given, not read yet: the name for messages, and a file or the content itself.

It checks only what needs no MLIR: that the file is there, is not empty, and which format it has. Model files that are
no MLIR are imported (`importing`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from opsplice.common.errors import OpspliceError
from opsplice.common.files import check_file, check_name
from opsplice.frontends.importing import FORMATS, JAX, ONNX, Format, import_model
from opsplice.runtime.weights import Parameters

# https://mlir.llvm.org/docs/BytecodeFormat/#magic-number
BYTECODE_MAGIC = b"ML\xefR"

# Behind it stand the format's version, one byte so far, and who wrote it.
_PORTABLE = re.compile(re.escape(BYTECODE_MAGIC) + rb".StableHLO_v([\w.]{1,32})\0", re.DOTALL)
_HEAD_SIZE = 64
_HEAD_SIZE_OF_EXPORT = 4096
_SHARDY = b"sdy\0"

# How MLIR's parser calls text that has no file.
UNNAMED = "-"

# Larger weights belong into an archive of parameters: IREE writes no program that holds them.
_LARGEST = 2 << 30

_ZIP_MAGIC = b"PK\x03\x04"

# How ONNX models begin: the version of the format, then the next field.
_ONNX = re.compile(rb"\x08[\x03-\x20][\x12\x1a\x22\x28\x32\x3a\x42]", re.DOTALL)

_OTHER_FORMATS = {
    ".pt": "export the PyTorch model with opsplice.torch.export, or to a .pt2 with torch.export.save",
    ".tflite": "convert it to ONNX first, as with tf2onnx: there is no package with IREE's importer for it",
    ".vmfb": "this is a compiled program already; it can be run as it is",
}


@dataclass(frozen=True)
class ModuleSource:
    """MLIR as text or bytecode: a file at `path`, or `content` in memory. It pickles, so it can cross processes.

    parameters: the weights that the module names; they stay in the process. given: what messages call it, if not its
    path. flags: those that the compiler needs for it. facts: what the frontend that imported it wants to know later.
    """

    path: Path | None = None
    content: str | bytes | None = None
    parameters: Parameters = field(default=(), compare=False)
    given: str = ""
    flags: tuple[str, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "parameters": ()}

    @property
    def name(self) -> str:
        """What messages call it."""
        return self.given or ("<module>" if self.path is None else str(self.path))

    @property
    def is_bytecode(self) -> bool:
        return self._head.startswith(BYTECODE_MAGIC)

    @property
    def portable_version(self) -> str:
        """The version of a portable artifact of StableHLO, as `1.15.0`; "" for other modules."""
        found = _PORTABLE.match(self._head)
        return found[1].decode() if found else ""

    def read(self) -> bytes:
        """The whole content; text as UTF-8."""
        if self.path is not None:
            return self.path.read_bytes()
        assert self.content is not None
        return self.content.encode() if isinstance(self.content, str) else self.content

    def line(self, number: int) -> str | None:
        """The text of a line (from 1), or None when there is none to show."""
        if self.is_bytecode or not 0 < number <= len(self._lines):
            return None
        return self._lines[number - 1]

    @property
    def _head(self) -> bytes:
        size = _HEAD_SIZE
        if self.path is not None:
            with self.path.open("rb") as file:
                return file.read(size)
        assert self.content is not None
        return self.content[:size].encode() if isinstance(self.content, str) else self.content[:size]

    @cached_property
    def _lines(self) -> list[str]:
        text = self.read().decode("utf-8", "replace")
        # Not splitlines(): MLIR ends lines at \n alone.
        return [line.removesuffix("\r") for line in text.split("\n")]


def load(source: Any, dims: Mapping[str, int] | None = None) -> ModuleSource:
    """Accepts a path, MLIR text, bytes of text or bytecode, or an MLIR module object; and ONNX: a path, bytes, a model.

    Bytes and files may also be what `jax.export.Exported.serialize` gives.

    A str with a newline or a brace is text, any other is a path. A module object (`ir.Module` of IREE's bindings, of
    JAX's or of torch-mlir's; what JAX lowers and exports) is serialised; it is not changed.
    dims: the sizes of symbolic dims that have names in the model; the others stay dynamic.

    Raises OpspliceError when there is no such file, it is a folder, cannot be read, is empty or is visibly not MLIR,
    for a model that cannot be imported, and for dims that it does not have.
    """
    model = _imported_form(source)
    if model is not None:
        return _from_model(*model, dims)
    if dims:
        raise OpspliceError(
            f"the model has no named dims, so '{next(iter(dims))}' cannot be bound",
            hint="those of ONNX models have names; a module in MLIR is exported with the sizes that it is to have",
        )
    if isinstance(source, ModuleSource):
        return source
    if isinstance(source, str) and ("\n" in source or "{" in source):
        return _from_content(source)
    if isinstance(source, str | os.PathLike):
        return _from_path(Path(source))
    if isinstance(source, bytes | bytearray | memoryview):
        return _from_content(bytes(source))
    if hasattr(source, "operation"):
        return _from_module(source)
    if hasattr(source, "compiler_ir"):  # what jax.jit(f).lower(...) gives
        return _from_module(source.compiler_ir("stablehlo"))
    if hasattr(source, "mlir_module_serialized"):  # what jax.export gives
        return _from_export(source)
    of_torch = any(base.__module__.partition(".")[0] == "torch" for base in type(source).__mro__)
    instead = ": opsplice.torch.export takes models of PyTorch" if of_torch else ""
    raise TypeError(f"expected a path, MLIR text, bytes or a module, not {type(source).__name__}{instead}")


def _from_export(exported: Any) -> ModuleSource:
    import jax  # where the model is from
    from jax._src.interpreters.mlir import make_ir_context

    if _SHARDY not in bytes(exported.mlir_module_serialized):
        with make_ir_context():  # a portable artifact has ops of its own, of which nothing is mended (`pipeline`)
            return _from_module(exported.mlir_module(serialized=False))

    # IREE reads no bytecode of JAX's partitioner: JAX has to write the module anew.
    shapes = [jax.ShapeDtypeStruct(each.shape, each.dtype) for each in exported.in_avals]
    arguments, named = exported.in_tree.unflatten(shapes)
    traced = jax.jit(exported.call, keep_unused=True).trace(*arguments, **named)
    return _from_module(traced.lower(lowering_platforms=("cpu",)).compiler_ir("stablehlo"))


def _imported_form(source: Any) -> tuple[Path | bytes, Format] | None:
    """A model that is to be imported, and its format."""
    is_path = isinstance(source, os.PathLike) or (isinstance(source, str) and "\n" not in source)
    if is_path and (form := FORMATS.get(Path(source).suffix.lower())):
        return Path(source), form
    if is_path and _is_export(_beginning(Path(source))):
        return Path(source), JAX
    if isinstance(source, bytes | bytearray | memoryview):
        content = bytes(source)
        if _ONNX.match(content[:4]):
            return content, ONNX
        return (content, JAX) if _is_export(content[:_HEAD_SIZE_OF_EXPORT]) else None
    if hasattr(source, "mlir_module_serialized") and any(
        not isinstance(size, int) for each in source.in_avals for size in each.shape
    ):
        return bytes(source.serialize()), JAX
    if type(source).__module__.startswith("onnx.") and hasattr(source, "SerializeToString"):
        return source.SerializeToString(), ONNX
    return None


def _beginning(path: Path) -> bytes:
    """Of a file that can be read; nothing of others."""
    try:
        if not path.is_file():
            return b""
        with path.open("rb") as file:
            return file.read(_HEAD_SIZE_OF_EXPORT)
    except (OSError, ValueError):
        return b""


def _is_export(head: bytes) -> bool:
    """Whether a portable artifact stands behind other things: what `jax.export.Exported.serialize` writes."""
    return not head.startswith(BYTECODE_MAGIC) and _PORTABLE.search(head) is not None


def _from_model(model: Path | bytes, form: Format, dims: Mapping[str, int] | None) -> ModuleSource:
    given = f"<{form.name} model>"
    if isinstance(model, Path):
        given = str(model)
        check_file(model, form.largest, hint=f"a model is a file, {form.name} here")
        check_name(model)
        if not model.stat().st_size:
            raise OpspliceError(f"{model} is empty", hint="export the model again")
    found = import_model(model, form, dims)
    flags = tuple(found.facts.get("flags", ()))
    return ModuleSource(found.module, None, found.parameters, given, flags, found.facts)


def _from_path(path: Path) -> ModuleSource:
    check_file(path, _LARGEST, hint="a model is a file: MLIR, .onnx or .pt2")
    check_name(path)
    try:
        with path.open("rb") as file:
            head = file.read(4096)
    except OSError as error:
        raise OpspliceError(f"cannot read {path}: {(error.strerror or str(error)).lower()}") from None
    _check_format(head, str(path), path.suffix.lower())
    return ModuleSource(path=path)


def _from_content(content: str | bytes) -> ModuleSource:
    head = content[:4096].encode() if isinstance(content, str) else content[:4096]
    _check_format(head, "the module", "")
    return ModuleSource(content=content)


def _from_module(module: Any) -> ModuleSource:
    operation = module.operation
    if type(module).__module__.startswith("iree."):
        from opsplice.rewrites.ir import emit  # it loads the compiler, as the module did

        return ModuleSource(content=emit.bytecode(operation))
    # Another package's MLIR may be older or newer than IREE's. Bytecode of unversioned dialects and the pretty syntax
    # both drift between releases; the generic form is the one that lasts.
    return ModuleSource(content=operation.get_asm(print_generic_op_form=True, enable_debug_info=True))


def _check_format(head: bytes, name: str, suffix: str) -> None:
    if not head.strip():
        raise OpspliceError(f"{name} is empty", hint="an MLIR module was expected, as text or bytecode")
    if head.startswith(BYTECODE_MAGIC):
        return
    if suffix in _OTHER_FORMATS:
        raise OpspliceError(f"{name} is not MLIR", hint=_OTHER_FORMATS[suffix])
    if b"\0" in head or head.startswith(_ZIP_MAGIC):
        raise OpspliceError(f"{name} is not MLIR: neither text nor MLIR bytecode")
