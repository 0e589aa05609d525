"""Reads what `torch.export.save` writes, and runs nothing of it.

`torch.export.load` runs code of the file: it unpickles sample inputs and odd weights, has sympy evaluate expressions,
has the names of inputs compiled as Python, imports modules that trees name, runs guards, and loads compiled libraries.
So what is pickled or compiled is not read here, guards and all that says nothing to IREE is left out, and of the text
that is left each string has to be what it claims to be.

Only child processes load this module: of imports, and of what times PyTorch.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch._export.serde import schema
from torch._export.serde.serialize import ExportedProgramDeserializer, SerializeError, _dict_to_dataclass
from torch._export.verifier import SpecViolationError
from torch.export import ExportedProgram
from torch.export.pt2_archive import _package, constants
from torch.export.pt2_archive._package import PT2ArchiveReader

from opsplice.common.errors import OpspliceError
from opsplice.frontends.importing import ARCHIVE, MODULE, Request
from opsplice.runtime.weights import write_archive
from opsplice.torch.backend import FLAGS
from opsplice.torch.decompositions.table import OF_PACKAGES, decomposed
from opsplice.torch.importing.exported import import_programs

# Names of values, weights and types. They get into Python that PyTorch writes and compiles.
_NAME = re.compile(r"[\w.:-]*", re.ASCII)
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_TARGET = re.compile(
    r"torch\.ops\.(aten|prims)\.\w+\.\w+|torch\._?sym_\w+|(_operator|math)\.\w+"
    r"|torch\.ops\.higher_order\.(cond|while_loop|wrap_with_set_grad_enabled|wrap_with_autocast)",
    re.ASCII,
)
# What PyTorch writes as Python strings, with quotes around, or nowhere.
_ANY_TEXT = {"as_string", "as_strings", "stack_trace", "torch_version"}
_TREES = {"builtins.dict", "builtins.list", "builtins.tuple"}

# Sizes are written as calls of sympy's and PyTorch's constructors: Add(Symbol('s0', integer=True), Integer(-1)).
_NODES = (ast.Expression, ast.Call, ast.Constant, ast.UnaryOp, ast.USub, ast.keyword, ast.expr_context)
_CONSTRUCTORS = {
    *("Symbol", "Integer", "Rational", "Float", "Add", "Mul", "Pow", "Max", "Min", "true", "false"),
    *("Equality", "Unequality", "StrictLessThan", "LessThan", "StrictGreaterThan", "GreaterThan", "And", "Or", "Not"),
    *("FloorDiv", "ModularIndexing", "Where", "PythonMod", "Mod", "CleanDiv", "CeilToInt", "FloorToInt", "CeilDiv"),
    *("RoundToInt", "RoundDecimal", "TruncToInt", "TruncToFloat", "IntTrueDiv", "FloatTrueDiv", "ToFloat"),
    *("LShift", "RShift", "PowByNatural", "FloatPow"),
}


_PACKAGE = re.compile(r"torch\.ops\.(\w+)\.", re.ASCII)
# An op that PyTorch does not know, where it reads a call of it. Its own are `aten` and others that are always there.
_FOREIGN = re.compile(r"Node\(target='torch\.ops\.((?!aten\.|prims\.)\w+\.\w+)")

# How transformers declares its own.
_SCHEMAS = {
    "grouped_mm_fallback": "(Tensor input, Tensor weight, Tensor offs) -> Tensor",
    "grouped_mm_fallback_backward": "(Tensor input, Tensor weight, Tensor offs, Tensor grad) -> (Tensor, Tensor)",
}


class _RefusedError(Exception):
    """What a file has that is not read."""


def import_model(request: Request) -> dict[str, Any]:
    """See `frontends.importing`: each program of the file is a function; a single one is `main`."""
    if request.dims:
        raise OpspliceError(
            f"the dims of {request.name} have no names, so none can be fixed by one",
            hint="torch.export keeps no names of dims: leave them open, or export the model without dynamic_shapes",
        )
    programs = read_programs(request.path, request.name)
    if len(programs) == 1:
        programs = {"main": programs.popitem()[1]}
    source = import_programs({name: decomposed(program) for name, program in programs.items()})
    (request.folder / MODULE).write_bytes(source.read())
    if source.parameters:
        write_archive(request.folder / ARCHIVE, source.parameters)
    return {"flags": list(FLAGS)}


def read_programs(path: Path, name: str) -> dict[str, ExportedProgram]:
    """The programs of a file by their names. name: what messages call the file.

    Trees of inputs and results are of dicts, lists and tuples only. Raises OpspliceError for what is not read.
    """
    try:
        return _read(path)
    except _RefusedError as refused:
        raise OpspliceError(
            f"{name} holds {refused}, which is not read: loading it can run code of its author",
            hint="if it is yours, load it with torch.export.load and call opsplice.torch.export in Python",
        ) from None
    except (
        OSError,
        RuntimeError,
        AssertionError,
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        SerializeError,
        SpecViolationError,
    ) as error:
        foreign = _FOREIGN.search(str(error)) if isinstance(error, SerializeError) else None
        if foreign is not None:
            raise OpspliceError(
                f"{name} has the op {foreign[1]}, which another package than PyTorch brings",
                hint="no package is imported for a file: export the model in Python, with opsplice.torch.export",
            ) from None
        if any(sign in str(error) for sign in ("archive_format", "not a ZIP archive")):
            raise OpspliceError(
                f"{name} was not written by torch.export.save",
                hint="a file of torch.save holds Python objects, which are not loaded: export the model, "
                "torch.export.save(torch.export.export(model, args), 'model.pt2')",
            ) from None
        raise OpspliceError(
            f"this PyTorch cannot read {name}",
            details=f"{type(error).__name__}: {error}"[:1000],
            hint="write it with torch.export.save, of the PyTorch that is installed here",
        ) from None


def _read(path: Path) -> dict[str, ExportedProgram]:
    with PT2ArchiveReader(str(path)) as archive:
        names = archive.get_file_names()
        if any(name.startswith(constants.AOTINDUCTOR_DIR) for name in names):
            raise _RefusedError("compiled code")
        prefix, suffix = constants.MODELS_FILENAME_FORMAT.split("{}")
        models = [name.removeprefix(prefix).removesuffix(suffix) for name in names if name.startswith(prefix)]
        if not models:
            raise ValueError("there is no program in it")
        return {model: _program(archive, model, names) for model in models}


def _program(archive: PT2ArchiveReader, model: str, names: list[str]) -> ExportedProgram:
    for folder, form, prefix in (
        (constants.WEIGHTS_DIR, constants.WEIGHTS_CONFIG_FILENAME_FORMAT, constants.WEIGHT_FILENAME_PREFIX),
        (
            constants.CONSTANTS_DIR,
            constants.CONSTANTS_CONFIG_FILENAME_FORMAT,
            constants.TENSOR_CONSTANT_FILENAME_PREFIX,
        ),
    ):
        if f"{folder}{model}.pt" in names:
            raise _RefusedError("pickled weights")
        for key, payload in json.loads(archive.read_string(form.format(model)))["config"].items():
            if payload["use_pickle"] or not payload["path_name"].startswith(prefix):
                raise _RefusedError(f"the pickled object '{key}'")
    text = archive.read_string(constants.MODELS_FILENAME_FORMAT.format(model))
    for package in {*_PACKAGE.findall(text)}:
        _declare_ops(package)
    content = json.loads(text)
    content["guards_code"] = []
    ranges = content["range_constraints"]
    content["range_constraints"] = {symbol: ranges[symbol] for symbol in ranges if _IDENTIFIER.fullmatch(symbol)}
    _check(_plain(content))
    return ExportedProgramDeserializer().deserialize(
        _dict_to_dataclass(schema.ExportedProgram, content),
        _package._load_state_dict(archive, model),
        _package._load_constants(archive, model),
        None,
    )


def _declare_ops(package: str) -> None:
    """Declare the ops of a package that are taken apart here: a file may have them, and imports no package."""
    if package == "quantized_decomposed":
        from torch.ao.quantization.fx import _decomposed  # noqa: F401, PyTorch's own, which declares them itself
    for name, form in _SCHEMAS.items() if package == "transformers" else ():
        if not hasattr(torch.ops.transformers, name):
            torch.library.define(f"{package}::{name}", form)
            body = OF_PACKAGES[package][f"{name}.default"]
            torch.library.impl(f"{package}::{name}", "CompositeExplicitAutograd", body)


def _plain(content: Any) -> Any:
    """Make trees plain, and leave out of the nodes' metadata all but where they come from, in place."""
    if isinstance(content, dict):
        for key, value in content.items():
            if key in ("in_spec", "out_spec") and value:
                protocol, tree = json.loads(value)
                content[key] = json.dumps([int(protocol), _plain_tree(tree)])
            elif key == "metadata" and isinstance(value, dict):
                content[key] = {"stack_trace": value["stack_trace"]} if "stack_trace" in value else {}
            else:
                _plain(value)
    elif isinstance(content, list):
        for value in content:
            _plain(value)
    return content


def _plain_tree(tree: Mapping[str, Any]) -> dict[str, Any]:
    """A tree of dicts, lists and tuples: other kinds, which call what a class or a module says, are lists."""
    children = [_plain_tree(child) for child in tree["children_spec"]]
    kind, context = tree["type"], tree["context"]
    if kind is None:
        return {"type": None, "context": None, "children_spec": []}
    context = json.dumps([str(key) for key in json.loads(context)]) if kind == "builtins.dict" else "null"
    return {"type": kind if kind in _TREES else "builtins.list", "context": context, "children_spec": children}


def _check(content: Any, field: str = "") -> None:
    """Raise _RefusedError for a string that is not what its field says."""
    if isinstance(content, dict):
        for key, value in content.items():
            if not _NAME.fullmatch(key):
                raise _RefusedError(f"the name {key[:80]!r}")
            _check(value, key)
    elif isinstance(content, list):
        for value in content:
            _check(value, field)
    elif isinstance(content, str) and field not in (*_ANY_TEXT, "in_spec", "out_spec") and not _is_fit(content, field):
        raise _RefusedError(f"the {'size' if field == 'expr_str' else 'name'} {content[:80]!r}")


def _is_fit(text: str, field: str) -> bool:
    if field == "expr_str":
        return _is_arithmetic(text)
    if field == "as_operator":
        return bool(_TARGET.fullmatch(text))
    if field == "name":
        return not text or bool(_IDENTIFIER.fullmatch(text))
    return bool(_NAME.fullmatch(text))


def _is_arithmetic(text: str) -> bool:
    try:
        nodes = list(ast.walk(ast.parse(text, mode="eval")))
    except (SyntaxError, ValueError, RecursionError):
        return False
    texts = {id(node.args[0]) for node in nodes if isinstance(node, ast.Call) and node.args and _takes_text(node)}
    return all(_is_part(node, id(node) in texts) for node in nodes)


def _is_part(node: ast.AST, may_be_text: bool) -> bool:
    if isinstance(node, ast.Name):
        return node.id in _CONSTRUCTORS
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return may_be_text and bool(re.fullmatch(r"[\w.]+", node.value, re.ASCII))
    return isinstance(node, _NODES)


def _takes_text(call: ast.Call) -> bool:
    """Whether the first argument is a name, of a symbol, or the digits of a float."""
    return isinstance(call.func, ast.Name) and call.func.id in ("Symbol", "Float")
