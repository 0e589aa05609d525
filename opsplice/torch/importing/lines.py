"""Where the nodes of an FX graph come from in the user's Python."""

from __future__ import annotations

import re
import site
import sysconfig
from pathlib import Path

import torch
from torch import fx

from opsplice.reports.render import short_location

_FRAME = re.compile(r'File "([^"]+)", line (\d+)')
_TORCH = f"{Path(torch.__file__).parent}/"
_INSTALLED = tuple({f"{Path(path)}/" for path in (*site.getsitepackages(), *sysconfig.get_paths().values())})


def locate(graph: fx.Graph) -> None:
    """Let the trace of each node end where the user's own code asks for it: IREE's importer reads locations there."""
    for node in graph.nodes:
        kept = _frames(node)
        if kept:
            node.meta["stack_trace"] = "\n".join(f'  File "{file}", line {line}, in' for file, line in kept)


def location_of(node: fx.Node) -> str:
    """The line of the user's code that a node comes from, as messages begin with it: `model.py:41: `; "" for none."""
    frames = _frames(node)
    return f"{short_location(':'.join(frames[-1]))}: " if frames else ""


def _frames(node: fx.Node) -> list[tuple[str, str]]:
    """The frames of a node's trace, outermost first, up to the innermost of those nearest to the user's own code."""
    frames = _FRAME.findall(node.meta.get("stack_trace") or "")
    if not frames:
        return []
    return frames[: 1 + max(range(len(frames)), key=lambda i: (-_foreignness(frames[i][0]), i))]


def _foreignness(file: str) -> int:
    """How far a file is from the user's own code: 0 for that, 1 for what is installed, 2 for PyTorch."""
    if file.startswith((_TORCH, "<")):
        return 2
    return int(file.startswith(_INSTALLED))
