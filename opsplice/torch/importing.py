"""An FX graph as MLIR bytecode whose ops stand at the lines of the user's Python."""

from __future__ import annotations

import io
import re
import site
import sysconfig
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import fx

from opsplice.torch.empty import fill_empty

_FRAME = re.compile(r'File "([^"]+)", line (\d+)')
_TORCH = f"{Path(torch.__file__).parent}/"
_INSTALLED = tuple({f"{Path(path)}/" for path in (*site.getsitepackages(), *sysconfig.get_paths().values())})


@dataclass(frozen=True)
class Output:
    """One value that a graph returns: a `result` of the program, an `input` of the graph, by number, or a `constant`.

    What is an input already, or known before anything runs, is no result: IREE would copy it, and has no None.
    """

    kind: Literal["result", "input", "constant"]
    value: Any


@dataclass(frozen=True)
class ImportedGraph:
    """A graph as a program to be compiled. ops: how many there are of each."""

    bytecode: bytes
    outputs: tuple[Output, ...]
    ops: Counter[str]

    @property
    def is_empty(self) -> bool:
        """Whether the program computes nothing."""
        return not any(output.kind == "result" for output in self.outputs)


def import_graph(module: fx.GraphModule) -> ImportedGraph:
    """Bring a graph without mutation, as aot_autograd makes it, into IREE's Torch dialect."""
    from iree.compiler.extras.fx_importer import FxImporter

    graph = fx.Graph()
    returned = graph.graph_copy(module.graph, {})
    outputs, results = _outputs(graph, returned if isinstance(returned, Sequence) else (returned,))
    graph.output(tuple(results))
    fill_empty(graph)
    graph.eliminate_dead_code()
    locate(graph)
    importer = FxImporter()
    importer.import_graph_module(fx.GraphModule(module, graph))
    buffer = io.BytesIO()
    importer.module_op.write_bytecode(buffer)
    ops = Counter(str(node.target) for node in graph.nodes if node.op == "call_function")
    return ImportedGraph(buffer.getvalue(), tuple(outputs), ops)


def _outputs(graph: fx.Graph, returned: Sequence[Any]) -> tuple[list[Output], list[fx.Node]]:
    """What the graph returns, and the nodes among it that a program has to compute, each once."""
    inputs = [node for node in graph.nodes if node.op == "placeholder"]
    results: dict[fx.Node, int] = {}
    outputs = []
    for value in returned:
        if not isinstance(value, fx.Node):
            outputs.append(Output("constant", value))
        elif value in inputs:
            outputs.append(Output("input", inputs.index(value)))
        else:
            outputs.append(Output("result", results.setdefault(value, len(results))))
    return outputs, list(results)


def locate(graph: fx.Graph) -> None:
    """Let the trace of each node end where the user's own code asks for it: IREE's importer reads locations there."""
    for node in graph.nodes:
        frames = _FRAME.findall(node.meta.get("stack_trace") or "")
        if frames:
            nearest = max(range(len(frames)), key=lambda i: (-_foreignness(frames[i][0]), i))
            node.meta["stack_trace"] = "\n".join(
                f'  File "{file}", line {line}, in' for file, line in frames[: nearest + 1]
            )


def _foreignness(file: str) -> int:
    """How far a file is from the user's own code: 0 for that, 1 for what is installed, 2 for PyTorch."""
    if file.startswith((_TORCH, "<")):
        return 2
    return int(file.startswith(_INSTALLED))
