"""What a program computes without any spec, for tests to compare with: by the interpreter, in microseconds.

Where the interpreter does not know an op, IREE compiles the program. An interpreter in f64 is the better oracle, too:
see docs/trust.md.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

import opsplice
from opsplice import frontends
from opsplice.interpreter import EvaluationError, evaluate
from opsplice.pipeline.compiler import Compilation
from opsplice.pipeline.flags import split_flags


class Plain:
    """A model as IREE's input conversion leaves it. model, flags: as for `opsplice.compile`."""

    def __init__(self, model: str | Path, flags: Sequence[str] = ()) -> None:
        self.model, self.flags = model, tuple(flags)
        self._stack = contextlib.ExitStack()

    @cached_property
    def _module(self) -> Any:
        # Flags of the process would be those of all later tests, and change no numbers.
        compilation = self._stack.enter_context(Compilation(split_flags(self.flags).session))
        compilation.load(frontends.load(self.model))
        compilation.run_to("input")
        return compilation.module

    @cached_property
    def compiled(self) -> opsplice.Program:
        return opsplice.compile(self.model, flags=self.flags)

    def run(self, function: str, *inputs: Any, floats: type[np.floating] | None = None) -> Any:
        """A function's result, or a list where there are several, in the types of the program.

        floats: what floats are computed in meanwhile, such as numpy.float64.
        """
        try:
            results = evaluate(self._module, function, inputs, floats)
        except EvaluationError:
            return self.compiled.run(function, *inputs)
        return results[0] if len(results) == 1 else results
