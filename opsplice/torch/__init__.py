"""PyTorch: `torch.compile(model, backend="opsplice")`, found by its entry point, and `export` ahead of time."""

from opsplice.reports.frontend_reports import GraphReport, TorchReport, report, reports, reset
from opsplice.torch.backend import Options, backend
from opsplice.torch.calls.background import wait
from opsplice.torch.explaining import explain
from opsplice.torch.export import export

__all__ = [
    "GraphReport",
    "Options",
    "TorchReport",
    "backend",
    "explain",
    "export",
    "report",
    "reports",
    "reset",
    "wait",
]
