"""ONNX's own tests of its operators (`onnx.backend.test`), through sessions.

Many models are compiled as the functions of one module; where that fails, fewer, down to each alone.
"""

from __future__ import annotations

import functools
import re
import tempfile
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from iree.compiler import ir
from onnx.backend.test.case.test_case import TestCase
from onnx.backend.test.loader import load_model_tests

import opsplice
from opsplice.common.errors import OpspliceError
from opsplice.frontends import ModuleSource
from opsplice.frontends.importing import ARCHIVE, MODULE, Request
from opsplice.onnx import importing
from opsplice.onnx.inference import InferenceSession
from opsplice.runtime.weights import read_archives
from scripts.conformance import Case, SkippedError, Specs, UnchangedError, check_close

TITLE = "ONNX: tests of operators"
ABOUT = (
    "The node tests of `onnx.backend.test`, each a model of one operator with inputs and outputs, through\n"
    "`opsplice.onnx.session`, with the tolerances that ONNX gives. Those that end in `_expanded` are the same\n"
    "operators written as ONNX's own functions. Left out are operators of training, and operators on strings,\n"
    "sequences, maps and optional values, for which IREE has no types.\n\n"
    "ONNX's own numbers are rounded, too. Its tolerance is 1e-3 of a value, finer than a step of bf16: attention that\n"
    "differs by a step of f16 or bf16 is nearer to f64 than what it is compared with. The inverse DFT and DeformConv\n"
    "differ by rounding where the result is zero. `resize_downsample_scales_*_align_corners` have onnxruntime's\n"
    "numbers, which are others than ONNX's."
)
PACKAGES = ("onnx",)

_FLAGS = ("--iree-llvmcpu-target-cpu=host",)
_NO_TENSORS = "its inputs or outputs are not tensors of numbers"
# Random numbers have no right value.
_RANDOM = re.compile(r"test_(bernoulli|training_dropout)(?!.*_zero_ratio)")
_DECLARED = re.compile(r"func @main\(")


@functools.cache
def _tests() -> dict[str, TestCase]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {test.name.removeprefix("test_"): test for test in load_model_tests(kind="node")}


@functools.cache
def cases() -> tuple[Case, ...]:
    return tuple(
        Case(name, functools.partial(_run, name))
        for name, test in _tests().items()
        if "ai.onnx.preview.training" not in {each.domain for each in test.model.opset_import}
    )


def _run(name: str, specs: Specs) -> int:
    test = _tests()[name]
    if _RANDOM.match(test.name):
        raise SkippedError("it gives random numbers")
    data = [(_arrays(inputs), _arrays(outputs)) for inputs, outputs in test.data_sets]
    made = _made.get((name, tuple(specs))) or _compiled([_imported(name)], specs)[0]
    if isinstance(made, Exception):
        raise made
    for inputs, outputs in data:
        feed = {each.name: array for each, array in zip(made.session.get_inputs(), inputs, strict=True)}
        for found, wanted in zip(made.session.run(None, feed), outputs, strict=True):
            check_close(*map(_widened, (found, wanted)), test.rtol, test.atol)
            if found.dtype != wanted.dtype:
                check_close(found, wanted, 0, 0)
    return made.replaced


def _arrays(values: Sequence[Any]) -> list[np.ndarray]:
    tensors = [onnx.numpy_helper.to_array(each) if isinstance(each, onnx.TensorProto) else each for each in values]
    if not all(isinstance(each, np.ndarray | np.generic) and each.dtype.kind not in "OSU" for each in tensors):
        raise SkippedError(_NO_TENSORS)
    return [np.asarray(each) for each in tensors]


def _widened(array: np.ndarray) -> np.ndarray:
    is_small = array.dtype.isbuiltin != 1 or array.dtype == np.float16  # others are those of ml_dtypes
    return array.astype(np.float32) if is_small else array


# ---- many models in one module ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Model:
    """An imported test."""

    name: str
    source: ModuleSource


@dataclass(frozen=True)
class _Made:
    session: InferenceSession
    replaced: int


_made: dict[tuple[str, tuple[str, ...]], _Made | OpspliceError | UnchangedError] = {}


def prepare(wanted: Sequence[Case], specs: Specs) -> None:
    """Import the models of cases and compile them together; errors are kept for their cases."""
    key = tuple(specs)
    models = []
    for case in wanted:
        try:
            model = _imported(case.name)
            report = opsplice.match(model.source, specs, _FLAGS)
            if specs and not report.replacements:
                _made[case.name, key] = UnchangedError()
            else:
                models.append(model)
        except OpspliceError as error:
            _made[case.name, key] = error
    for model, made in zip(models, _compiled(models, specs), strict=True):
        _made[model.name, key] = made


@functools.cache
def _folder() -> Path:
    return Path(_holder().name)


@functools.cache
def _holder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="opsplice-conformance-")


def _imported(name: str) -> _Model:
    folder = _folder() / name
    folder.mkdir(exist_ok=True)
    path = folder / "model.onnx"
    path.write_bytes(_tests()[name].model.SerializeToString())
    # As the importing child does it, without a process for each of two thousand models.
    facts = importing.import_model(Request(path, name, folder, {}))
    weights = read_archives(f"model={folder / ARCHIVE}") if (folder / ARCHIVE).is_file() else ()
    return _Model(name, ModuleSource(folder / MODULE, None, weights, name, tuple(facts["flags"]), facts))


def _compiled(models: Sequence[_Model], specs: Specs) -> list[_Made | OpspliceError]:
    """The sessions of models, from one program where that is possible."""
    if not models:
        return []
    if len(models) == 1:
        return [_alone(models[0], specs)]
    if any(model.source.parameters for model in models):
        return [made for model in models for made in _compiled([model], specs)]
    try:
        flags = {flag for model in models for flag in model.source.flags}
        program = opsplice.compile(_merged(models), specs, (*_FLAGS, *sorted(flags)))
    except OpspliceError:
        middle = len(models) // 2
        return [*_compiled(models[:middle], specs), *_compiled(models[middle:], specs)]
    assert program.report is not None
    places = [each.function.partition("$")[0] for each in program.report.replacements]
    return [
        _Made(InferenceSession.of_function(program, f"main{number}", model.source.facts), places.count(f"main{number}"))
        for number, model in enumerate(models)
    ]


def _alone(model: _Model, specs: Specs) -> _Made | OpspliceError:
    try:
        session = InferenceSession(model.source, specs=specs, providers=["local-sync"])
    except OpspliceError as error:
        return error
    return _Made(session, len(session.report.replacements))


def _merged(models: Sequence[_Model]) -> ir.Module:
    """A module with the functions main0, main1, ..."""
    with ir.Context() as context, ir.Location.unknown():
        merged = ir.Module.create()
        for number, model in enumerate(models):
            module = ir.Module.parse(model.source.read(), context)
            for op in list(module.body.operations):
                op.attributes["sym_name"] = ir.StringAttr.get(f"main{number}")
                notes = ir.DictAttr(op.attributes["iree.reflection"])
                renamed = {
                    each.name: ir.StringAttr.get(
                        _DECLARED.sub(f"func @main{number}(", ir.StringAttr(each.attr).value, count=1)
                    )
                    for each in notes
                }
                op.attributes["iree.reflection"] = ir.DictAttr.get(renamed)
                op.detach_from_parent()
                merged.body.append(op)
        return merged
