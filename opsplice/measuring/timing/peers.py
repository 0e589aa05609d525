"""Other runtimes that run the same model on the same inputs, on one thread."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from opsplice.common.errors import OpspliceError

PEERS = ("onnxruntime", "torch")
# What each takes, by the ending of the file.
_TAKES = {"onnxruntime": ".onnx", "torch": ".pt2"}


def check(names: Sequence[str], model: Any) -> None:
    """Raise OpspliceError for peers that are not known, not installed, or that do not run such a model."""
    from importlib.util import find_spec

    for name in names:
        if name not in PEERS:
            raise OpspliceError(f"there is no peer '{name}'", hint=f"there are: {', '.join(PEERS)}")
        if find_spec(name) is None:
            raise OpspliceError(f"{name} is not installed", hint=f"pip install {name}")
        if Path(str(model)).suffix != _TAKES[name]:
            raise OpspliceError(
                f"{name} runs {_TAKES[name]} files, and the model is {model}",
                hint=f"leave {name} out, or give the model as a {_TAKES[name]} file",
            )


def sides(name: str, model: Any, inputs: Sequence[Any]) -> dict[str, Callable[[], object]]:
    """What to time of a peer, by name."""
    return _onnxruntime(model, inputs) if name == "onnxruntime" else _torch(model, inputs)


def _onnxruntime(model: Any, inputs: Sequence[Any]) -> dict[str, Callable[[], object]]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    given = dict(zip((each.name for each in session.get_inputs()), inputs, strict=True))
    return {"onnxruntime": lambda: session.run(None, given)}


def _torch(model: Any, inputs: Sequence[Any]) -> dict[str, Callable[[], object]]:
    import torch
    from torch.utils._pytree import tree_unflatten

    from opsplice.torch.importing.pt2 import read_programs

    torch.set_num_threads(1)
    programs = read_programs(Path(str(model)), str(model))
    if len(programs) > 1:
        raise OpspliceError(f"torch is timed on a single program, and {model} holds {len(programs)}")
    (program,) = programs.values()
    module, left = program.module(), iter(inputs)
    tensors = {node.name for node in program.graph.find_nodes(op="placeholder")}
    taken = [torch.as_tensor(next(left)) if each in tensors else each for each in program.graph_signature.user_inputs]
    args, kwargs = tree_unflatten(taken, program.call_spec.in_spec)
    compiled = torch.compile(module)

    def call(function: Any) -> Callable[[], object]:
        def run() -> object:
            with torch.no_grad():
                return function(*args, **kwargs)

        return run

    inductor = call(compiled)
    try:
        inductor()
    except RuntimeError as error:
        message = str(error).strip().partition("\n")[0]
        hint = "it needs a C++ compiler: apt install g++"
        raise OpspliceError("torch.compile cannot run the model", details=message, hint=hint) from None
    return {"torch": call(module), "inductor": inductor}
