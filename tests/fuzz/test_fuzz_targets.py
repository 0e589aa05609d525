"""The targets of `make fuzz` read what is good, and handle what was not handled once and a few changed inputs."""

import struct
import tracemalloc
from random import Random

import pytest

from opsplice.common.errors import OpspliceError

from .judging import TooSlowError, outcome
from .mutation import LARGEST, is_text, mutant
from .targets import FOUND, TARGETS

NAMES = [target.name for target in TARGETS]
CHANGED = 40


@pytest.mark.parametrize("target", TARGETS, ids=NAMES)
def test_inputs_are_read_or_refused(target, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # names of files in inputs lead nowhere from there
    seeds, random = target.seeds(), Random(target.name)
    # An input of a native target costs a process.
    seeds = seeds[:1] if target.native else seeds[:8]
    good = [outcome(target.read, seed) for seed in seeds]
    assert not all(found.refused for found in good), "no seed is read: the target tests the first line of its reader"
    changed = [] if target.native else [mutant(random.choice(seeds), seeds, random, 4096) for _ in range(CHANGED)]
    found = [outcome(target.read, data) for data in (*target.found(), *changed)]
    assert [each.trace for each in (*good, *found) if each.failure] == []


# What took the square of its size, or longer: how it begins, and what then comes again and again.
REPEATED = [
    ("ptx", ".version 8.0\n.target sm_80\n.global ", "$"),
    ("ptx", ".version 8.0\n.target sm_80\n", ".global "),
    ("ptx", ".version 8.0\n.target sm_80\n.func ", " "),
    ("spec", "", "mlir {"),
    ("metal", "", '"\\'),
    ("metal", "", "\n"),
    ("metal", "", "/* "),
    ("metal", "#if\n", "void f("),
    ("metal", "#if\n", "kernel void f("),
    ("metal", "#if\nkernel void f(", "[["),
    ("metal", "kernel void f(constant ", "a"),
]


@pytest.mark.parametrize(("name", "begin", "again"), REPEATED)
def test_what_comes_again_and_again_costs_no_more_each_time(name, begin, again):
    target = next(target for target in TARGETS if target.name == name)
    data = (begin + again * (LARGEST // len(again))).encode()
    assert outcome(target.read, data, seconds=3).failure == ""


def test_modules_that_are_one_and_the_same_cost_no_memory_each():
    target = next(target for target in TARGETS if target.name == "executable")
    many, code = 8000, bytes(32_000)
    # The root, whose field 3 is a vector of tables; then the one table that all of it leads to, and its code.
    data = struct.pack("<I6HiI", 16, 12, 8, 0, 0, 0, 4, 12, 4)
    table = len(data) + 4 + 4 * many
    data += struct.pack("<I", many) + b"".join(struct.pack("<I", table - place) for place in range(28, table, 4))
    data += struct.pack("<iI4H", -8, 12, 6, 8, 4, 0) + struct.pack("<I", len(code) // 4) + code
    executable = struct.pack("<4sIQ", b"VKE1", 0, len(data)).ljust(64, b"\0") + data
    tracemalloc.start()
    try:
        with pytest.raises(OpspliceError, match="its modules overlap"):
            target.read(executable)
        assert tracemalloc.get_traced_memory()[1] < 2_000_000
    finally:
        tracemalloc.stop()


def test_numbers_have_no_end():
    target = next(target for target in TARGETS if target.name == "metal")
    data = f"kernel void f(constant B& b [[buffer({'9' * 5000})]]) {{}}".encode()
    assert outcome(target.read, data).failure == ""


def test_what_was_found_belongs_to_a_target():
    pytest.importorskip("onnx", reason="ONNX is not installed (make frontends)")
    assert {path.name for path in FOUND.glob("*")} <= set(NAMES)


def test_failures_are_told_apart():
    def fails(data: bytes) -> None:
        if data == b"slow":
            while True:
                pass
        if data == b"large":
            raise KeyError
        raise ValueError(data)

    first, second, other = (outcome(fails, data) for data in (b"a", b"b", b"large"))
    assert first.failure == second.failure != other.failure
    assert first.failure.startswith("ValueError at test_fuzz_targets.py:")
    assert outcome(fails, b"slow", seconds=0.1).failure.startswith(TooSlowError.__name__)
    assert outcome(len, b"").failure == ""


def test_mutants_differ_and_are_not_too_large():
    for seed in (b"pattern p(x) { negf(x) }", bytes(range(256))):
        random = Random(0)
        made = {mutant(seed, [seed], random) for _ in range(300)}
        assert len(made) > 150
        assert max(map(len, made)) == LARGEST
        assert is_text(seed) == (seed[:1] == b"p")
