import pytest

from opsplice.pipeline.diagnostics import Diagnostic, Location, parse_callback, renamed, render, unique, unlowered


def line_reader(text):
    lines = text.split("\n")
    return lambda location: lines[location.line - 1]


def test_callback_text_is_split_into_place_message_and_notes():
    text = "a b.py:3:4: failed to legalize\n\nx.py:1:2: called from\n\na b.py:3:4: see current operation: %0 = ..."
    assert parse_callback(2, text) == Diagnostic(
        "error",
        "failed to legalize",
        Location("a b.py", 3, 4),
        (
            Diagnostic("note", "called from", Location("x.py", 1, 2)),
            Diagnostic("note", "see current operation: %0 = ...", Location("a b.py", 3, 4)),
        ),
    )


def test_the_place_is_the_users_line_not_that_of_a_framework():
    chain = [f"/x/site-packages/flax/{n}.py:{n}:1" for n in (1, 2)] + ["/home/me/model.py:7:2", "/home/me/train.py:9:1"]
    text = "\n\n".join([f"{chain[0]}: cannot", *(f"{place}: called from" for place in chain[1:])])
    caller = Diagnostic("note", "called from", Location("/home/me/train.py", 9, 1))
    assert parse_callback(2, text) == Diagnostic("error", "cannot", Location("/home/me/model.py", 7, 2), (caller,))
    assert parse_callback(2, f"{chain[0]}: cannot\n\n{chain[1]}: called from").location.line == 1


def test_callback_text_without_a_file():
    assert parse_callback(2, "loc(unknown): no devices") == Diagnostic("error", "no devices")
    assert parse_callback(1, 'loc("my op"): odd') == Diagnostic("warning", "odd", Location("my op"))


def test_empty_lines_within_a_message_make_no_notes():
    parsed = parse_callback(2, "m.mlir:1:1: first\n\nsecond paragraph")
    assert parsed.message == "first\n\nsecond paragraph"
    assert parsed.notes == ()


def test_advice_on_the_generic_cpu_is_one_line():
    text = 'm.mlir:4:8: while creating CPU target: \nDefaulting to ...\n\nThis can be done\n    cpu="name"\n'
    parsed = parse_callback(1, text)
    assert parsed.severity == "warning"
    assert parsed.location is None
    assert "\n" not in parsed.message
    assert "--iree-llvmcpu-target-cpu=host" in parsed.message


def test_source_line_and_caret():
    shown = render([Diagnostic("error", "no such value", Location("m.mlir", 2, 5))], line_reader("one\n\t two %x"))
    assert shown == "m.mlir:2:5: error: no such value\n    2 |      two %x\n      |        ^"


def test_nothing_in_a_source_line_steers_the_terminal():
    shown = render([Diagnostic("error", "here", Location("m", 1, 6))], line_reader("\x1b[2J %x"))
    assert shown.splitlines()[1:] == ["    1 | \ufffd[2J %x", "      |      ^"]


def test_caret_counts_bytes_and_wide_characters():
    text = 'é"数"%x'
    column = len('é"数"'.encode()) + 1
    caret = render([Diagnostic("error", "here", Location("m", 1, column))], line_reader(text)).splitlines()[-1]
    # Four characters stand before it, one of them two columns wide.
    assert caret == "      | " + " " * 5 + "^"


def test_long_lines_are_windowed_around_the_caret():
    text = "a" * 5000 + "%x" + "b" * 5000
    excerpt, caret = render([Diagnostic("error", "here", Location("m", 1, 5001))], line_reader(text)).splitlines()[1:]
    assert len(excerpt) < 130
    assert excerpt[caret.index("^")] == "%"
    assert excerpt.endswith("...")
    assert "| ..." in excerpt


def test_a_place_without_text_shows_no_excerpt():
    diagnostic = Diagnostic("error", "bad", Location("other.py", 3, 1))
    assert render([diagnostic], lambda _location: None) == "other.py:3:1: error: bad"


def test_dump_of_the_operation_is_left_out_beside_the_source_line():
    place = Location("m", 1, 1)
    diagnostic = Diagnostic("error", "bad", place, (Diagnostic("note", "see current operation: DUMP", place),))
    assert "DUMP" not in render([diagnostic], line_reader("text"))
    assert "DUMP" in render([diagnostic])
    assert "DUMP" in render([diagnostic], line_reader("text"), verbose=True)


def test_operators_of_onnx_that_are_not_lowered_are_in_its_own_words():
    """Without MLIR, and so that what IREE lacks is still found in the text."""
    text = (
        """failed to legalize operation 'torch.operator' that was explicitly marked illegal: """
        """%1 = "torch.operator"(%arg0, %2) <{name = "onnx.Resize"}> {torch.onnx.a = -5.000000e-01 : f32, """
        """torch.onnx.mode = "cubic", torch.onnx.pads = [1 : si64, 2 : si64]} : (!torch.vtensor<[1,?],f32>, """
        """!torch.none, !torch.vtensor<[],si64>) -> !torch.vtensor<[1,?],f32>"""
    )
    node = Location("/resize")
    diagnostic = Diagnostic("error", text, node, (Diagnostic("note", "see current operation: DUMP", node),))
    shown = render([diagnostic])
    assert shown == (
        "/resize: error: failed to legalize operation 'onnx.Resize' of 1x?xf32, none, si64, "
        'with a = -5.000000e-01, mode = "cubic", pads = [1, 2]'
    )
    assert unlowered(shown) == unlowered(text) == "onnx.Resize"
    bare = text.partition("{torch.onnx.a")[0] + ": (!torch.vtensor<[1,?],f32>) -> !torch.vtensor<[1,?],f32>"
    assert render([Diagnostic("error", bare)]).endswith("'onnx.Resize' of 1x?xf32")
    assert "DUMP" in render([diagnostic], verbose=True)


def test_operators_of_torch_are_in_its_own_words():
    text = (
        """failed to legalize operation 'torch.operator' that was explicitly marked illegal: """
        """%3:2 = "torch.operator"(%a) <{name = "torch.aten.geqrf"}> : (!torch.vtensor<[4,4],f32>) """
        """-> (!torch.vtensor<[4,4],f32>, !torch.none)"""
    )
    shown = render([Diagnostic("error", text)])
    assert shown == "error: failed to legalize operation 'torch.aten.geqrf' of 4x4xf32"
    assert unlowered(shown) == unlowered(text) == "torch.aten.geqrf"


def test_long_messages_are_cut_unless_verbose():
    diagnostic = Diagnostic("error", "\n".join(f"line {n}" for n in range(100)))
    assert render([diagnostic]).endswith("... (88 more lines)")
    assert render([diagnostic], verbose=True).endswith("line 99")


def test_repeated_diagnostics_are_shown_once():
    one, two = Diagnostic("error", "a"), Diagnostic("error", "b")
    assert unique([one, two, one]) == [one, two]


def test_renamed_reaches_the_notes():
    diagnostic = Diagnostic("error", "a", Location("-", 1, 2), (Diagnostic("note", "n", Location("-", 3, 4)),))
    changed = renamed(diagnostic, "-", "<module>")
    assert str(changed.location) == "<module>:1:2"
    assert str(changed.notes[0].location) == "<module>:3:4"


@pytest.mark.parametrize(
    ("text", "op"),
    [
        ("m:1:2: error: failed to legalize operation 'arith.truncf' that was", "arith.truncf"),
        ("failed to legalize operation 'torch.operator': %1 = <{name = \"torch.aten.addmv\"}>", "torch.aten.addmv"),
        ("failed to legalize operation 'stablehlo.custom_call': {backend_config, call_target_name = \"a_b\"}", "a_b"),
        ("failed to legalize operation 'stablehlo.custom_call' that was", "stablehlo.custom_call"),
        ('no such thing as <{name = "x"}>', ""),
        (
            "failed to legalize operation 'torch.constant.int': failed to legalize operation 'torch.aten.i0'",
            "torch.aten.i0",
        ),
    ],
)
def test_an_op_that_is_not_lowered_has_its_name(text, op):
    assert unlowered(text) == op
