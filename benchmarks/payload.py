"""A llama-like program of any size: one decoder layer as `linalg` ops, in as many functions as are asked for.

The layer is what a frontend makes of it: two norms, projections with transposed weights, scaled and masked attention
with its softmax, and a gated feed-forward part, one op for each elementwise step.
"""

from __future__ import annotations

ROWS, WIDTH, HEADS, HEAD, HIDDEN = 128, 256, 4, 64, 688


def program(layers: int) -> str:
    """The text of a module with one function for each layer."""
    return "\n".join(layer(f"layer_{i}") for i in range(layers))


def layer(name: str) -> str:
    """The text of a function that is one decoder layer."""
    return Layer().function(name)


class Layer:
    """The lines of a function, made op by op; each method gives the name of its result."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.count = 0

    def function(self, name: str) -> str:
        parameters = {
            "%x": (ROWS, WIDTH),
            "%mask": (ROWS, ROWS),
            "%gain0": (WIDTH,),
            "%gain1": (WIDTH,),
            "%wq": (WIDTH, WIDTH),
            "%wk": (WIDTH, WIDTH),
            "%wv": (WIDTH, WIDTH),
            "%wo": (WIDTH, WIDTH),
            "%wg": (HIDDEN, WIDTH),
            "%wu": (HIDDEN, WIDTH),
            "%wd": (WIDTH, HIDDEN),
        }
        arguments = ", ".join(f"{n}: {tensor(shape)}" for n, shape in parameters.items())
        for key, value in (("zero", 0.0), ("one", 1.0), ("eps", 1e-5), ("width", WIDTH), ("scale", HEAD**-0.5)):
            self.lines.append(f"%{key} = arith.constant {value:e} : f32")
        self.lines.append("%lowest = arith.constant 0xFF800000 : f32")
        x = self.add("%x", self.attention(self.norm("%x", "%gain0")))
        x = self.add(x, self.feed_forward(self.norm(x, "%gain1")))
        kind = tensor((ROWS, WIDTH))
        body = "\n  ".join([*self.lines, f"return {x} : {kind}"])
        return f"func.func @{name}({arguments}) -> {kind} {{\n  {body}\n}}"

    # ---- parts ----

    def norm(self, x: str, gain: str) -> str:
        square = self.map("arith.mulf", (ROWS, WIDTH), x, x)
        mean = self.map("arith.divf", (ROWS,), self.reduce("arith.addf", "%zero", (ROWS, WIDTH), square), "%width")
        scale = self.map("math.rsqrt", (ROWS,), self.map("arith.addf", (ROWS,), mean, "%eps"))
        scaled = self.rows("arith.mulf", (ROWS, WIDTH), x, scale)
        return self.columns("arith.mulf", (ROWS, WIDTH), scaled, gain)

    def attention(self, x: str) -> str:
        q, k, v = (self.heads(self.linear(x, w, WIDTH, WIDTH)) for w in ("%wq", "%wk", "%wv"))
        shape = (HEADS, ROWS, ROWS)
        scores = self.map("arith.mulf", shape, self.batch_matmul(q, self.swapped(k), HEAD, ROWS), "%scale")
        masked = self.last("arith.addf", shape, scores, "%mask", "(d1, d2)", (ROWS, ROWS))
        mixed = self.batch_matmul(self.softmax(masked, shape), v, ROWS, HEAD)
        return self.linear(self.joined(mixed), "%wo", WIDTH, WIDTH)

    def softmax(self, x: str, shape: tuple[int, ...]) -> str:
        peak = self.reduce("arith.maximumf", "%lowest", shape, x)
        e = self.map("math.exp", shape, self.rows("arith.subf", shape, x, peak))
        return self.rows("arith.divf", shape, e, self.reduce("arith.addf", "%zero", shape, e))

    def feed_forward(self, x: str) -> str:
        gate, up = (self.linear(x, w, WIDTH, HIDDEN) for w in ("%wg", "%wu"))
        shape = (ROWS, HIDDEN)
        e = self.map("math.exp", shape, self.map("arith.negf", shape, gate))
        sigmoid = self.map("arith.divf", shape, "%one", self.map("arith.addf", shape, e, "%one"))
        swish = self.map("arith.mulf", shape, gate, sigmoid)
        return self.linear(self.map("arith.mulf", shape, swish, up), "%wd", HIDDEN, WIDTH)

    def add(self, x: str, y: str) -> str:
        return self.map("arith.addf", (ROWS, WIDTH), x, y)

    # ---- ops ----

    def linear(self, x: str, w: str, k: int, n: int) -> str:
        """x of [ROWS, k] with a weight of [n, k]."""
        turned = self.fresh()
        out = self.make(f"tensor.empty() : {tensor((k, n))}")
        types = f"ins({w} : {tensor((n, k))}) outs({out} : {tensor((k, n))})"
        self.lines.append(f"{turned} = linalg.transpose {types} permutation = [1, 0]")
        operands = f"ins({x}, {turned} : {tensor((ROWS, k))}, {tensor((k, n))})"
        return self.make(f"linalg.matmul {operands} outs({self.filled('%zero', (ROWS, n))} : {tensor((ROWS, n))})", n)

    def batch_matmul(self, a: str, b: str, k: int, n: int) -> str:
        shape = (HEADS, ROWS, n)
        operands = f"ins({a}, {b} : {tensor((HEADS, ROWS, k))}, {tensor((HEADS, k, n))})"
        return self.make(f"linalg.batch_matmul {operands} outs({self.filled('%zero', shape)} : {tensor(shape)})", shape)

    def heads(self, x: str) -> str:
        shape = (ROWS, HEADS, HEAD)
        text = f"tensor.expand_shape {x} [[0], [1, 2]] output_shape {list(shape)}"
        split = self.make(f"{text} : {tensor((ROWS, WIDTH))} into {tensor(shape)}")
        return self.transposed(split, shape, (1, 0, 2))

    def swapped(self, k: str) -> str:
        return self.transposed(k, (HEADS, ROWS, HEAD), (0, 2, 1))

    def joined(self, x: str) -> str:
        turned = self.transposed(x, (HEADS, ROWS, HEAD), (1, 0, 2))
        types = f"{tensor((ROWS, HEADS, HEAD))} into {tensor((ROWS, WIDTH))}"
        return self.make(f"tensor.collapse_shape {turned} [[0], [1, 2]] : {types}")

    def transposed(self, x: str, shape: tuple[int, ...], order: tuple[int, ...]) -> str:
        kind = tensor(tuple(shape[i] for i in order))
        out = self.make(f"tensor.empty() : {kind}")
        return self.make(
            f"linalg.transpose ins({x} : {tensor(shape)}) outs({out} : {kind}) permutation = {list(order)}"
        )

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
