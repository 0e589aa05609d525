"""ONNX's interface of backends: `prepare`, `run_model` and `supports_device`, as `onnx.backend.test` asks for them.

onnx.backend.test.BackendTest(opsplice.onnx.backend, __name__)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onnx.backend.base import Backend, BackendRep, Device, DeviceType, namedtupledict

from opsplice.common.errors import OpspliceError
from opsplice.onnx.inference import InferenceSession


class Prepared(BackendRep):
    """A model that can be run with inputs in their order."""

    def __init__(self, session: InferenceSession) -> None:
        self.session = session

    def run(self, inputs: Any, **_: Any) -> tuple[Any, ...]:
        """The outputs, by position and by name."""
        names = [each.name for each in self.session.get_inputs()]
        given = inputs if isinstance(inputs, Sequence) else [inputs]
        outputs = [each.name for each in self.session.get_outputs()]
        return namedtupledict("Outputs", outputs)(*self.session.run(None, dict(zip(names, given, strict=True))))


class OpspliceBackend(Backend):
    """Models on this machine's CPU, compiled by IREE with opsplice's rules."""

    @classmethod
    def prepare(cls, model: Any, device: str = "CPU", **options: Any) -> Prepared:
        """options: what `opsplice.onnx.session` takes."""
        if not cls.supports_device(device):
            raise OpspliceError(f"the backend has no device {device}", hint="it has CPU; sessions take other providers")
        return Prepared(InferenceSession(model, **options))

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Only this machine's CPU; sessions take other providers."""
        return Device(device).type == DeviceType.CPU


prepare = OpspliceBackend.prepare
run_model = OpspliceBackend.run_model
supports_device = OpspliceBackend.supports_device
