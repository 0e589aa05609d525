"""The sizes that a function's inputs may have, as its frontend noted them: IREE computes wrong numbers for others.

    {"inputs": [[["s0", 1, 0], null], [["s0", 2, 1]]], "bounds": {"s0": [2, 64]}}

The first input has any size s0 from 2 to 64 in its first dim, the second one 2 * s0 + 1.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from opsplice.common.errors import OpspliceError

# The key of a function's reflection.
NOTE = "opsplice.runtime.input_sizes"

# A size that is `factor * symbol + offset`.
Size = tuple[str, int, int]


@dataclass(frozen=True)
class Sizes:
    """inputs: for each input, the size of each dim, None where that is not noted.

    bounds: the least and the largest value of a symbol, None where there is none.
    """

    inputs: Sequence[Sequence[Size | None]]
    bounds: Mapping[str, tuple[int, int | None]]

    def note(self) -> str:
        """The text for a function's reflection."""
        return json.dumps({"inputs": self.inputs, "bounds": self.bounds})

    @classmethod
    def read(cls, note: str) -> Sizes:
        """The inverse of `note`."""
        return cls(**json.loads(note))

    def limits(self, number: int) -> tuple[tuple[int, int | None, int] | None, ...]:
        """For each dim of an input its least size, its largest, and what its sizes are multiples of.

        None for a dim of which nothing is noted; no dims for an input that there is not.
        """
        return tuple(map(self._limits, self.inputs[number] if number < len(self.inputs) else ()))

    def _limits(self, size: Size | None) -> tuple[int, int | None, int] | None:
        if size is None:
            return None
        symbol, factor, offset = size
        low, high = self.bounds[symbol]
        return factor * low + offset, None if high is None else factor * high + offset, math.gcd(factor, offset)

    def at(self, number: int, value: int) -> tuple[int | None, ...]:
        """The size of each dim of an input where each symbol has a value, or the nearest that it may have.

        None for a dim of which nothing is noted; no dims for an input that there is not.
        """
        return tuple(
            size and self._at(size, value) for size in (self.inputs[number] if number < len(self.inputs) else ())
        )

    def _at(self, size: Size, value: int) -> int:
        symbol, factor, offset = size
        low, high = self.bounds[symbol]
        return factor * max(low, value if high is None else min(value, high)) + offset

    def check(self, function: str, names: Sequence[str], shapes: Sequence[tuple[int, ...]]) -> None:
        """Raise OpspliceError for shapes that the function does not take. names: what messages call the inputs."""
        known: dict[str, tuple[int, str]] = {}
        for name, sizes, shape in zip(names, self.inputs, shapes, strict=False):
            for dim, (size, actual) in enumerate(zip(sizes, shape, strict=False)):
                if size is None:
                    continue
                symbol, factor, offset = size
                value, rest = divmod(actual - offset, factor)
                low, high = self.bounds[symbol]
                wanted = ""
                if rest:
                    wanted = f"a multiple of {factor}" + f" and {offset} more" * bool(offset)
                elif symbol in known and known[symbol][0] != value:
                    wanted = f"{factor * known[symbol][0] + offset}, because of {known[symbol][1]}"
                elif value < low or (high is not None and value > high):
                    most = "or more" if high is None else f"to {factor * high + offset}"
                    wanted = f"{factor * low + offset} {most}"
                if wanted:
                    raise OpspliceError(
                        f"{name} of '{function}' has size {actual} in dim {dim}, the function takes {wanted}"
                    )
                known.setdefault(symbol, (value, f"the size {actual} of {name} in dim {dim}"))
