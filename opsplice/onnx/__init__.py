"""ONNX: files taken as they are, and `session`, which looks like onnxruntime's InferenceSession.

    session = opsplice.onnx.session("model.onnx", specs=["mine.splice"])
    (y,) = session.run(None, {"x": x})

`opsplice.onnx.backend` is ONNX's own interface of backends. The package `onnx` is needed only where a model is imported
for the first time.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from opsplice.onnx import backend as backend
    from opsplice.onnx.inference import InferenceSession as InferenceSession
    from opsplice.onnx.inference import NodeArg as NodeArg
    from opsplice.onnx.inference import get_available_providers as get_available_providers
    from opsplice.onnx.inference import session as session

__all__ = ["InferenceSession", "NodeArg", "backend", "get_available_providers", "session"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'opsplice.onnx' has no attribute '{name}'")
    if name == "backend":
        return import_module("opsplice.onnx.backend")
    return getattr(import_module("opsplice.onnx.inference"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
