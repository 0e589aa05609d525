"""opsplice: find computations in MLIR programs by pattern, splice in your own kernels, let IREE do the rest.

    program = opsplice.compile("model.mlir", specs=["replace.splice"])
    program.run("main", x, y)
    program.report

Nothing heavy is imported before it is used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from opsplice.api import bench as bench
    from opsplice.api import capture as capture
    from opsplice.api import compile as compile  # noqa: A004
    from opsplice.api import explain as explain
    from opsplice.api import export as export
    from opsplice.api import load as load
    from opsplice.api import match as match
    from opsplice.api import prepare as prepare
    from opsplice.api import survey as survey
    from opsplice.api import transform as transform
    from opsplice.api import tune as tune
    from opsplice.api import verify as verify
    from opsplice.common.errors import OpspliceError as OpspliceError
    from opsplice.compiling.spec_export import Exported as Exported
    from opsplice.compiling.spec_sources import PackageOptions as PackageOptions
    from opsplice.measuring.cutting.records import Verification as Verification
    from opsplice.measuring.timing.benching import Bench as Bench
    from opsplice.measuring.timing.survey_model import Survey as Survey
    from opsplice.measuring.tuning.tuning import Tuning as Tuning
    from opsplice.measuring.verifying.verification import Prepared as Prepared
    from opsplice.pattern_libraries.finding import Finding as Finding
    from opsplice.pattern_libraries.library_list import LibraryInfo as LibraryInfo
    from opsplice.program import Program as Program
    from opsplice.reports.captured import Capture as Capture
    from opsplice.reports.explanation import Explanation as Explanation
    from opsplice.reports.report import Report as Report
    from opsplice.rewrites.transform_dialect.importing.importer import Imported as Imported
    from opsplice.spec_lang.syntax.spec_errors import Diagnostic as Diagnostic
    from opsplice.spec_lang.syntax.spec_errors import SpecError as SpecError
    from opsplice.targets.doctor import Check as Check
    from opsplice.tools import check_library as check_library
    from opsplice.tools import doctor as doctor
    from opsplice.tools import format as format  # noqa: A004
    from opsplice.tools import import_spec as import_spec
    from opsplice.tools import libraries as libraries
    from opsplice.tools import lint as lint
    from opsplice.tools import new_library as new_library

__version__ = "0.1.0"

_IN = {
    "opsplice.api": "bench capture compile explain export load match prepare survey transform tune verify",
    "opsplice.common.errors": "OpspliceError",
    "opsplice.compiling.spec_export": "Exported",
    "opsplice.compiling.spec_sources": "PackageOptions",
    "opsplice.measuring.cutting.records": "Verification",
    "opsplice.measuring.timing.benching": "Bench",
    "opsplice.measuring.timing.survey_model": "Survey",
    "opsplice.measuring.tuning.tuning": "Tuning",
    "opsplice.measuring.verifying.verification": "Prepared",
    "opsplice.pattern_libraries.finding": "Finding",
    "opsplice.pattern_libraries.library_list": "LibraryInfo",
    "opsplice.program": "Program",
    "opsplice.reports.captured": "Capture",
    "opsplice.reports.explanation": "Explanation",
    "opsplice.reports.report": "Report",
    "opsplice.rewrites.transform_dialect.importing.importer": "Imported",
    "opsplice.spec_lang.syntax.spec_errors": "Diagnostic SpecError",
    "opsplice.targets.doctor": "Check",
    "opsplice.tools": "check_library doctor format import_spec libraries lint new_library",
}
_HOMES = {name: module for module, names in _IN.items() for name in names.split()}

__all__ = [*_HOMES, "__version__"]


# What is imported only when it is asked for: the actions of `opsplice kernel`, and what imports a framework of its own.
_MODULES = ("jax", "onnx", "packages", "plugins", "provenance", "signatures", "torch")


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"opsplice.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'opsplice' has no attribute '{name}'")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*__all__, *_MODULES])
