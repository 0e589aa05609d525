"""Loops that IREE takes only in another form, and those that are refused."""

import numpy as np
import pytest

pytest.importorskip("onnx", reason="the package 'onnx' is not installed (make frontends)")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed (make frontends)")

from onnx import TensorProto, helper

import opsplice.onnx
from opsplice.common.errors import OpspliceError
from opsplice.onnx.rules import loops
from tests.onnx.models import make_model, node
from tests.onnx.test_expansion import check

I64, BOOL = TensorProto.INT64, TensorProto.BOOL


def value(name, kind=TensorProto.FLOAT, shape=()):
    return helper.make_tensor_value_info(name, kind, shape)


def loop(inputs, outputs, *nodes, name, stacked=(), ends="goes"):
    """A loop that carries one value, `v`, of three numbers."""
    results = [value(f"{name}_{ends}", BOOL), value(f"{name}_next", shape=[3])]
    results += [value(each, shape=[3]) for each in stacked]
    given = [value(f"{name}_i", I64), value(f"{name}_goes", BOOL), value(f"{name}_v", shape=[3])]
    body = helper.make_graph(nodes, f"{name}_body", given, results)
    return node("Loop", inputs, outputs, body=body, name=name)


PLAIN = loop("n - x", "y", node("Add", "a_v x", "a_next"), name="a")
# Each round chooses, in a graph of its own, what is stacked.
CHOICE = node(
    "If", "b_odd", "b_choice",
    then_branch=helper.make_graph([node("Neg", "b_next", "b_neg")], "odd", [], [value("b_neg", shape=[3])]),
    else_branch=helper.make_graph([node("Abs", "b_next", "b_abs")], "even", [], [value("b_abs", shape=[3])]),
)  # fmt: skip
STACKING = loop(
    "three always x", "z zs",
    node("Mul", "b_v x", "b_next"), node("Mod", "b_i two", "b_bit"), node("Cast", "b_bit", "b_odd", to=BOOL), CHOICE,
    name="b", stacked=["b_choice"],
)  # fmt: skip


def ending(name, begins="always"):
    """A loop whose condition is false once the sum of its state reaches a limit."""
    nodes = [
        node("Add", f"{name}_v x", f"{name}_next"), node("ReduceSum", f"{name}_next", f"{name}_sum", keepdims=0),
        node("Less", f"{name}_sum limit", f"{name}_ends"),
    ]  # fmt: skip
    return loop(f"n {begins} x", f"{name}_y", *nodes, name=name, ends="ends")


CONSTANTS = {"three": np.array(3), "two": np.array(2), "always": np.array(True), "huge": np.array(2**63 - 1)}


def test_loops_without_a_condition_and_loops_that_stack_results():
    outputs = {"y": [3], "z": [3], "zs": [None, 3]}
    model = make_model([PLAIN, STACKING], {"x": [3], "n": (I64, [])}, outputs, CONSTANTS)
    check(model, {"x": np.array([0.5, -2, 3], np.float32), "n": np.array(4)})


def test_a_condition_that_is_cast_from_a_constant_is_always_true():
    """PyTorch writes EmbeddingBag so, whose rounds take rows at offsets that its input's size says."""
    body = [node("Cast", "a_yes", "a_on", to=BOOL), node("Softsign", "a_v", "a_next")]
    outputs = {"y": [3], "ys": [4, 3]}
    sizes = [node("Shape", "w", "shape"), node("Gather", "shape zero", "rounds")]
    stacking = loop("rounds always x", "y ys", *body, name="a", stacked=["a_next"], ends="on")
    constants = {"always": np.array(True), "zero": np.array(0), "a_yes": np.array(1)}
    model = make_model([*sizes, stacking], {"x": [3], "w": [4, 2]}, outputs, constants)
    check(model, {"x": np.array([0.5, -2, 3], np.float32), "w": np.ones((4, 2), np.float32)})


def test_state_stays_once_the_condition_is_false():
    """After a few rounds, in the first one, and never."""
    nodes = [ending("early"), ending("never_begins", "no"), node("Mul", "limit many", "far")]
    far = ending("late")
    far.attribute[0].g.node[2].input[1] = "far"
    constants = {"always": np.array(True), "no": np.array(False), "many": np.float32(100)}
    outputs = {f"{name}_y": [3] for name in ("early", "never_begins", "late")}
    model = make_model([*nodes, far], {"x": [3], "n": (I64, []), "limit": []}, outputs, constants)
    check(model, {"x": np.array([0.5, -2, 3], np.float32), "n": np.array(6), "limit": np.array(4, np.float32)})


@pytest.mark.parametrize(
    ("count", "stacked", "message"),
    [
        ("huge", (), r"'c' of the model has 9223372036854775807 rounds, and IREE runs all"),
        ("-", (), r"'c' of the model has no limit, and IREE runs all"),
        ("n", ("c_next",), r"'c' of the model stacks results, and its number of rounds"),
    ],
)
def test_loops_that_cannot_run_are_refused(count, stacked, message):
    nodes = [
        node("Add", "c_v x", "c_next"), node("ReduceSum", "c_next", "c_sum", keepdims=0),
        node("Less", "c_sum c_sum", "c_ends"),
    ]  # fmt: skip
    endless = loop(
        f"{count} always x",
        " ".join(["y", *(["ys"] if stacked else [])]),
        *nodes,
        name="c",
        ends="ends",
        stacked=stacked,
    )
    graph = make_model([endless], {"x": [3], "n": (I64, [])}, {"y": [3]}, CONSTANTS).graph
    loops.rewrite(graph)
    with pytest.raises(OpspliceError, match=message):
        loops.check(graph, "the model")


def scan(rows, inside, **form):
    """Of two inputs, with a state."""
    values = [value("state", shape=[inside]), value("row", shape=[inside]), value("other", shape=[inside])]
    results = [value("sum", shape=[inside]), value("made", shape=[inside])]
    nodes = [node("Add", "state row", "sum"), node("Mul", "sum other", "part"), node("Sub", "part f", "made")]
    body = helper.make_graph(nodes, "body", values, results)
    scan = node("Scan", "s x z", "end all", num_scan_inputs=2, body=body, name="rows", **form)
    inputs = {"s": [inside], "x": [rows, inside], "z": [rows, inside], "f": []}
    return make_model([scan], inputs, {"end": [inside], "all": [rows, inside]})


@pytest.mark.parametrize(("rows", "inside"), [("n", 3), (4, "m")])
def test_scans_of_open_sizes_are_loops(rows, inside):
    """IREE's own stack one row alone, or one element of each."""
    given = {name: np.random.default_rng(5).normal(size=(4, 3)).astype(np.float32) for name in "xz"}
    check(scan(rows, inside), given | {"s": np.float32([1, 2, 3]), "f": np.array(0.5, np.float32)})


@pytest.mark.parametrize(
    ("inside", "form", "message"),
    [
        ("m", {}, r"the loop 'rows' of .* stacks results, and its number of rounds or the size"),
        (3, {"scan_input_directions": [1, 0]}, r"'rows' \(Scan\) wrongly: sizes"),
    ],
)
def test_scans_of_open_rows_and_open_ones_that_run_backwards_are_refused(inside, form, message):
    with pytest.raises(OpspliceError, match=message):
        opsplice.onnx.session(scan("n", inside, **form), cache=False)


def test_names_of_bodies_that_mean_another_value_outside():
    """ONNX forbids them, and onnxruntime takes them: within, `x` is the state, and `y` what its branches make."""
    branches = (helper.make_graph([node(kind, "x", "y")], kind, [], [value("y", shape=[3])]) for kind in ("Neg", "Abs"))
    choice = node("If", "odd", "next", **dict(zip(("then_branch", "else_branch"), branches, strict=True)))
    nodes = [node("Mod", "i two", "bit"), node("Cast", "bit", "odd", to=BOOL), choice, node("Add", "next x", "x.1")]
    given = [value("i", I64), value("goes", BOOL), value("x", shape=[3])]
    body = helper.make_graph(nodes, "body", given, [value("goes", BOOL), value("x.1", shape=[3])])
    outer = [node("Exp", "x", "z"), node("Loop", "n always x", "y", body=body, name="rounds"), node("Sub", "y x", "d")]
    inputs, outputs = {"n": (I64, []), "x": [3]}, {"y": [3], "d": [3]}
    model = make_model(outer, inputs, outputs, {"two": np.array(2), "always": np.array(True)})
    check(model, {"n": np.array(3), "x": np.array([1, -2, 3], np.float32)})


@pytest.mark.parametrize("rounds", ["many", "n"])
def test_what_many_rounds_stack_are_rows_of_a_state(rounds):
    """Written out, these would be a thousand nodes; the number of the others is an input."""
    nodes = [
        node("Mul", "a_v x", "a_next"), node("Cast", "a_i", "a_number", to=TensorProto.FLOAT),
        node("Mod", "a_i three", "a_place"), node("Gather", "x a_place", "a_one"),
        node("Greater", "a_next x", "a_flags"), node("Mul", "a_one a_number", "a_scalar"),
    ]  # fmt: skip
    stacking = loop(f"{rounds} - x", "y rows flags scalars", *nodes, name="a", stacked=["a_next"])
    body = stacking.attribute[0].g
    body.output.extend([value("a_flags", BOOL, [3]), value("a_scalar")])
    inputs = {"x": [3], **({"n": (I64, [])} if rounds == "n" else {})}
    outputs = {"y": [3], "rows": [None, 3], "flags": (BOOL, [None, 3]), "scalars": [None]}
    model = make_model([stacking], inputs, outputs, {"three": np.array(3), "many": np.array(300)})
    feed = {"x": np.array([0.5, -0.99, 1.01], np.float32)}
    for count in (5, 1, 0) if rounds == "n" else (None,):
        check(model, feed if count is None else feed | {"n": np.array(count)})


def test_an_open_number_of_rounds_with_a_constant_condition():
    """As PyTorch's exporter writes loops. Nothing else of the model is rewritten."""
    given = value("i", I64), value("goes", BOOL), value("a", shape=[3])
    results = [value("goes", BOOL), value("b", shape=[3]), value("c", shape=[3])]
    body = helper.make_graph([node("Add", "a x", "b"), node("Mul", "b x", "c")], "body", given, results)
    rounds = node("Loop", "n always x", "y rows", body=body, name="rounds")
    outputs = {"y": [3], "rows": [None, 3]}
    model = make_model([rounds], {"n": (I64, []), "x": [3]}, outputs, {"always": np.array(True)})
    for count in (0, 4):
        check(model, {"n": np.array(count), "x": np.array([1, -2, 3], np.float32)})


def rows_below_each_other(ends):
    """A loop whose rounds put a row each below their state."""
    nodes = [
        node("Gather", "x g_i", "row"), node("Mul", "row row", "square"), node("Unsqueeze", "square top", "below"),
        node("Concat", "g_v below", "g_next", axis=0), node("Less", "g_i two", "g_small"),
        node("Identity", "g_goes", "g_on"),
    ]  # fmt: skip
    begins = [value("g_i", I64), value("g_goes", BOOL), value("g_v", shape=[0, 3])]
    results = [value(ends, BOOL), helper.make_tensor_value_info("g_next", TensorProto.FLOAT, None)]
    body = helper.make_graph(nodes, "body", begins, results)
    rounds = [node("Shape", "x", "s", end=1), node("Squeeze", "s", "n")]
    stacked = [node("Loop", "n always none", "rows", body=body, name="g"), node("Neg", "rows", "y")]
    constants = CONSTANTS | {"none": np.zeros((0, 3), np.float32), "top": np.array([0])}
    return make_model([*rounds, *stacked], {"x": ["n", 3]}, {"y": [None, 3]}, constants)


def test_each_round_adds_a_row():
    """As masks are put below each other in Mask R-CNN."""
    for count in (4, 1, 0):
        x = np.random.default_rng(count).standard_normal((count, 3), np.float32)
        check(rows_below_each_other("g_on"), {"x": x})


def test_a_loop_that_may_end_and_adds_rows_is_refused():
    with pytest.raises(OpspliceError, match=r"'g' of the ONNX model .* may change a size of its state"):
        opsplice.onnx.session(rows_below_each_other("g_small"))
