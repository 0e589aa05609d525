"""Parts of models as `linalg` ops, one op for each elementwise step, as frontends write them."""

from __future__ import annotations

ROWS, WIDTH, HEADS = 128, 256, 4


class Layer:
    """The lines of a function, made op by op; each method gives the name of its result."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.count = 0

    def softmax(self, x: str, shape: tuple[int, ...]) -> str:
        peak = self.reduce("arith.maximumf", "%lowest", shape, x)
        e = self.map("math.exp", shape, self.rows("arith.subf", shape, x, peak))
        return self.rows("arith.divf", shape, e, self.reduce("arith.addf", "%zero", shape, e))

    # ---- ops ----

    def map(self, op: str, shape: tuple[int, ...], *args: str) -> str:
        """An op on tensors of the shape; names of constants stand for themselves."""
        every = _dims(len(shape))
        return self.generic(op, shape, [(a, every, shape) for a in args])

    def rows(self, op: str, shape: tuple[int, ...], x: str, y: str) -> str:
        """An op on a tensor and one that lacks its last dim."""
        return self.last(op, shape, x, y, _dims(len(shape) - 1), shape[:-1])

    def columns(self, op: str, shape: tuple[int, ...], x: str, y: str) -> str:
        """An op on a tensor and a vector along its last dim."""
        return self.last(op, shape, x, y, f"(d{len(shape) - 1})", shape[-1:])

    def last(self, op: str, shape: tuple[int, ...], x: str, y: str, at: str, small: tuple[int, ...]) -> str:
        return self.generic(op, shape, [(x, _dims(len(shape)), shape), (y, at, small)])

    def generic(self, op: str, shape: tuple[int, ...], args: list[tuple[str, str, tuple[int, ...]]]) -> str:
        every, kind = _dims(len(shape)), tensor(shape)
        constants = ("%zero", "%one", "%eps", "%width", "%scale")
        tensors = [arg for arg in args if arg[0] not in constants]
        names = iter(f"%in{i}" for i in range(len(tensors)))
        inner = ", ".join(a if a in constants else next(names) for a, _, _ in args)
        maps = ", ".join(f"affine_map<{every} -> {at}>" for at in (*(at for _, at, _ in tensors), every))
        iterators = ", ".join(['"parallel"'] * len(shape))
        arguments = ", ".join([*(f"%in{i}: f32" for i in range(len(tensors))), "%out: f32"])
        ins = f"ins({', '.join(t[0] for t in tensors)} : {', '.join(tensor(t[2]) for t in tensors)})"
        out = self.make(f"tensor.empty() : {kind}")
        return self.make(
            f"linalg.generic {{indexing_maps = [{maps}], iterator_types = [{iterators}]}} "
            f"{ins} outs({out} : {kind}) {{\n  ^bb0({arguments}):\n    %v = {op} {inner} : f32\n"
            f"    linalg.yield %v : f32\n  }} -> {kind}"
        )

    def reduce(self, op: str, start: str, shape: tuple[int, ...], x: str) -> str:
        """Over the last dim."""
        kind, every = tensor(shape[:-1]), _dims(len(shape))
        maps = f"affine_map<{every} -> {every}>, affine_map<{every} -> {_dims(len(shape) - 1)}>"
        iterators = ", ".join([*(['"parallel"'] * (len(shape) - 1)), '"reduction"'])
        out = self.filled(start, shape[:-1])
        return self.make(
            f"linalg.generic {{indexing_maps = [{maps}], iterator_types = [{iterators}]}} ins({x} : {tensor(shape)}) "
            f"outs({out} : {kind}) {{\n  ^bb0(%in: f32, %out: f32):\n    %v = {op} %in, %out : f32\n"
            f"    linalg.yield %v : f32\n  }} -> {kind}"
        )

    def filled(self, value: str, shape: tuple[int, ...]) -> str:
        kind = tensor(shape)
        out = self.make(f"tensor.empty() : {kind}")
        return self.make(f"linalg.fill ins({value} : f32) outs({out} : {kind}) -> {kind}")

    # ---- lines ----

    def fresh(self) -> str:
        self.count += 1
        return f"%t{self.count}"

    def make(self, text: str, result: int | tuple[int, ...] | None = None) -> str:
        name = self.fresh()
        if result is not None:
            shape = (ROWS, result) if isinstance(result, int) else result
            text = f"{text} -> {tensor(shape)}"
        self.lines.append(f"{name} = {text}")
        return name


def _dims(count: int) -> str:
    return f"({', '.join(f'd{i}' for i in range(count))})"


def tensor(shape: tuple[int, ...]) -> str:
    return f"tensor<{''.join(f'{s}x' for s in shape)}f32>"
