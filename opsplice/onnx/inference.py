"""Sessions: an ONNX model compiled with specs, in the shape of onnxruntime's InferenceSession.

What the two share has the same names and means the same. Errors are OpspliceErrors.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

from opsplice import api, frontends
from opsplice.common.errors import OpspliceError
from opsplice.compiling.spec_sources import PackageOptions, SpecPath
from opsplice.pipeline.flags import for_this_cpu
from opsplice.runtime.device_choice import targets_for

if TYPE_CHECKING:
    from opsplice.program import Program
    from opsplice.reports.report import Report
    from opsplice.runtime.direct_call import DirectCall

# onnxruntime's names of providers, and what they are to IREE.
_PROVIDERS = {
    "CPUExecutionProvider": "local-task",
    "CUDAExecutionProvider": "cuda",
    "ROCMExecutionProvider": "hip",
    "MIGraphXExecutionProvider": "hip",
}
_DEVICES = ("local-task", "local-sync", "vulkan", "cuda", "hip", "metal")


@dataclass(frozen=True)
class NodeArg:
    """An input or output. type: `tensor(float)`. shape: a size, the name of a symbolic one, or None for each dim."""

    name: str
    type: str
    shape: list[int | str | None]

    @cached_property
    def dtype(self) -> np.dtype:
        """The numpy type of its elements."""
        word = self.type.removeprefix("tensor(").removesuffix(")")
        name = {"float": "float32", "double": "float64"}.get(word, word.replace("float8e", "float8_e"))
        return np.dtype(getattr(ml_dtypes, name, name))


@dataclass(frozen=True)
class ModelMetadata:
    """What a model says of itself."""

    producer_name: str = ""
    graph_name: str = ""
    domain: str = ""
    description: str = ""
    graph_description: str = ""
    version: int = 0
    custom_metadata_map: dict[str, str] = field(default_factory=dict)


class InferenceSession:
    """An ONNX model, compiled, ready to be run."""

    def __init__(
        self,
        path_or_bytes: Any,
        sess_options: Any = None,
        providers: Sequence[Any] | None = None,
        provider_options: Any = None,
        *,
        specs: Iterable[SpecPath] = (),
        flags: Sequence[str] = (),
        dims: Mapping[str, int] | None = None,
        packages: PackageOptions | None = None,
        no_code: bool = False,
        plugins: Sequence[SpecPath] = (),
        cache: bool = True,
    ) -> None:
        """path_or_bytes: a file, its bytes, or an `onnx.ModelProto`.

        providers: where to run, the first that is there: names of onnxruntime (`CPUExecutionProvider`) or devices of
        IREE (`local-sync`, `vulkan`); by default this machine's CPU. sess_options and provider_options are
        onnxruntime's own: they are not used, which a warning says.
        specs, flags, dims, packages, no_code, cache: as for `opsplice.compile`. plugins: as for `Program.run`.

        Raises OpspliceError for a model that cannot be imported or compiled, and for unknown providers.
        """
        for name, given in (("sess_options", sess_options), ("provider_options", provider_options)):
            if given is not None:
                warnings.warn(f"{name} are for onnxruntime, and not used here", stacklevel=2)
        provider, device = _chosen(providers)
        source = frontends.load(path_or_bytes, dims)
        if "inputs" not in source.facts:
            raise OpspliceError(f"{source.name} is not an ONNX model", hint="opsplice.compile takes programs in MLIR")
        targets = targets_for(device)
        flags = for_this_cpu(tuple(flags), targets)
        program = api.compile(source, specs, flags, targets=targets, packages=packages, no_code=no_code, cache=cache)
        self._bind(program, source.facts, provider, program.direct(None, device=device, plugins=tuple(plugins)))

    @classmethod
    def of_function(cls, program: Program, function: str, facts: Mapping[str, Any]) -> InferenceSession:
        """A session of a function of a program that holds more. facts: those of its import."""
        made = cls.__new__(cls)
        made._bind(program, facts, "local-sync", program.direct(function, device="local-sync"))
        return made

    def _bind(self, program: Program, facts: Mapping[str, Any], provider: str, call: DirectCall) -> None:
        self._program, self._provider, self._call = program, provider, call
        self._inputs, self._outputs = _arguments(facts["inputs"]), _arguments(facts["outputs"])
        self._constants = frozenset(facts["constants"])
        self._metadata = ModelMetadata(**facts["metadata"])

    @property
    def program(self) -> Program:
        """The compiled program."""
        return self._program

    @property
    def report(self) -> Report:
        """What the specs replaced."""
        assert self._program.report is not None
        return self._program.report

    def get_inputs(self) -> list[NodeArg]:
        """What `run` takes."""
        return list(self._inputs)

    def get_outputs(self) -> list[NodeArg]:
        """What `run` returns."""
        return list(self._outputs)

    def get_overridable_initializers(self) -> list[NodeArg]:
        """None: what has a value in the model is a constant of the program."""
        return []

    def get_providers(self) -> list[str]:
        """The provider that it runs on, by the name that it was given."""
        return [self._provider]

    def get_modelmeta(self) -> ModelMetadata:
        """What the model says of itself."""
        return self._metadata

    def run(
        self, output_names: Sequence[str] | None, input_feed: Mapping[str, Any], run_options: Any = None
    ) -> list[np.ndarray]:
        """Run the model and return the named outputs, all for None.

        input_feed: arrays by the names of inputs. Raises OpspliceError for names and arrays that the model does not
        take, and when the program fails.
        """
        if run_options is not None:
            warnings.warn("run_options are for onnxruntime, and not used here", stacklevel=2)
        chosen = self._chosen_outputs(output_names)
        arrays = self._checked(input_feed)
        results = self._call(arrays)
        return [_array(results[index], self._outputs[index].dtype) for index in chosen]

    def _chosen_outputs(self, names: Sequence[str] | None) -> list[int]:
        known = [output.name for output in self._outputs]
        if not names:
            return list(range(len(known)))
        for name in names:
            if name not in known:
                raise OpspliceError(f"the model has no output '{name}'", hint=f"it has: {', '.join(known)}")
        return [known.index(name) for name in names]

    def _checked(self, feed: Mapping[str, Any]) -> list[np.ndarray]:
        known = [each.name for each in self._inputs]
        if missing := [name for name in known if name not in feed]:
            raise OpspliceError(
                f"the input '{missing[0]}' is missing", hint=f"the model has the inputs: {', '.join(known)}"
            )
        if unknown := [name for name in feed if name not in known]:
            raise OpspliceError(
                f"'{unknown[0]}' is a constant of the model, and cannot be given"
                if unknown[0] in self._constants
                else f"the model has no input '{unknown[0]}'",
                hint=f"its inputs are: {', '.join(known) or 'none'}",
            )
        sizes: dict[str, tuple[int, str]] = {}
        return [_checked(each, feed[each.name], sizes) for each in self._inputs]


def session(
    model: Any,
    specs: Iterable[SpecPath] = (),
    flags: Sequence[str] = (),
    **options: Any,
) -> InferenceSession:
    """A model with specs, ready to be run.

    options: `providers`, `dims`, `packages`, `no_code`, `plugins` and `cache`, as InferenceSession takes them.
    """
    return InferenceSession(model, specs=specs, flags=flags, **options)


def get_available_providers() -> list[str]:
    """The providers that this machine has, by onnxruntime's names and by IREE's."""
    here = [device for device in _DEVICES if _opens(device)]
    return [*(name for name, device in _PROVIDERS.items() if device in here), *here]


def _chosen(providers: Sequence[Any] | None) -> tuple[str, str]:
    """The first provider that is there, and its device."""
    # onnxruntime takes pairs of a name and options as well.
    names = [each if isinstance(each, str) else each[0] for each in providers or ["CPUExecutionProvider"]]
    for name in names:
        device = _PROVIDERS.get(name, name)
        if device.partition(":")[0] not in _DEVICES:
            raise OpspliceError(
                f"there is no provider '{name}'", hint=f"providers are: {', '.join((*_PROVIDERS, *_DEVICES))}"
            )
    for name in names:
        device = _PROVIDERS.get(name, name)
        if _opens(device):
            return name, device
        warnings.warn(f"provider '{name}' is not available on this machine", stacklevel=4)
    raise OpspliceError(
        f"none of the providers {', '.join(names)} is available on this machine",
        hint=f"available are: {', '.join(get_available_providers())}",
    )


def _opens(device: str) -> bool:
    from opsplice.runtime.runtime_devices import open_device

    try:
        open_device(device)
    except OpspliceError:
        return False
    return True


def _arguments(described: Sequence[Mapping[str, Any]]) -> tuple[NodeArg, ...]:
    return tuple(NodeArg(each["name"], f"tensor({each['type']})", list(each["shape"])) for each in described)


def _checked(wanted: NodeArg, value: Any, sizes: dict[str, tuple[int, str]]) -> np.ndarray:
    """An input as the model takes it. sizes: those of symbolic dims so far, and the input that each comes from."""
    array = np.asarray(value)
    if array.dtype != wanted.dtype:
        # Python's numbers have no size of their own.
        if hasattr(value, "dtype") or array.dtype.kind in "OSU":
            raise _mismatch(wanted, array, f"convert it: x.astype({_numpy_name(wanted.dtype)})")
        array = array.astype(wanted.dtype)
    if array.ndim != len(wanted.shape):
        raise _mismatch(wanted, array)
    for index, (size, dim) in enumerate(zip(array.shape, wanted.shape, strict=True)):
        if isinstance(dim, int) and dim != size:
            raise _mismatch(wanted, array, f"dim {index} is {size}, and the model has {dim}")
        if isinstance(dim, str):
            first, where = sizes.setdefault(dim, (size, wanted.name))
            if first != size:
                raise _mismatch(wanted, array, f"'{dim}' is {size} here, and {first} in the input '{where}'")
    return array


def _array(result: Any, dtype: np.dtype) -> np.ndarray:
    """A result as numpy has it; IREE's integers have no sign."""
    array = np.asarray(result)
    return array if array.dtype == dtype else array.view(dtype)


def _mismatch(wanted: NodeArg, array: np.ndarray, hint: str | None = None) -> OpspliceError:
    given = f"{array.dtype}{list(array.shape)}"
    shape = ", ".join(str(dim if dim is not None else "?") for dim in wanted.shape)
    return OpspliceError(f"the input '{wanted.name}' is {given}, the model takes {wanted.type}[{shape}]", hint=hint)


def _numpy_name(dtype: np.dtype) -> str:
    return f"np.{dtype.name}" if dtype.type.__module__ == "numpy" else f"ml_dtypes.{dtype.name}"
