"""Archives with parameters (weights) that programs do not hold, as IREE reads them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from opsplice.errors import OpspliceError
from opsplice.files import check_file

# The module that programs import parameters from.
MODULE = "io_parameters"
_SUFFIXES = (".irpa", ".gguf", ".safetensors")


def module_of(instance: Any, archives: Sequence[str]) -> Any:
    """The module to load before a program, with what archives hold.

    archives: as iree-run-module takes them: the path of a file, maybe with the scope that programs know it by in front,
    `model=weights.irpa`. Raises OpspliceError for one that cannot be read.
    """
    from iree.runtime import ParameterIndex, create_io_parameters_module

    indexes: dict[str, Any] = {}
    for text in archives:
        scope, equals, path = text.partition("=")
        if not equals:
            scope, path = "", text
        check_file(Path(path), None)
        try:
            indexes.setdefault(scope, ParameterIndex()).load(path)
        except (ValueError, RuntimeError, OSError) as error:
            from opsplice.devices import status

            raise OpspliceError(
                f"cannot read the parameters in {path}",
                details=status(error),
                hint=f"archives end in {' '.join(_SUFFIXES)}",
            ) from None
    providers = [index.create_provider(scope=scope) for scope, index in indexes.items()]
    return create_io_parameters_module(instance, *providers)
