"""What `verify` and `bench` say."""

from __future__ import annotations

from opsplice.measuring.cutting.records import Trial, Verdict, Verification
from opsplice.measuring.timing.benching import Bench, Timed
from opsplice.measuring.timing.machine import Machine
from opsplice.reports.render import several_text
from opsplice.reports.render_bench import bench_text
from opsplice.reports.render_verify import heading, verification_text
from opsplice.reports.report import Replacement, Report

DIMS = dict.fromkeys(("m", "heads", "positions", "columns"), 64)
MATCH = Replacement("replace p", "a.splice:1:1", "attention", "main", "model.mlir:117:12", DIMS, "attend", "inline")


def test_that_nothing_matched_is_said() -> None:
    assert heading(Verification(Report(), ())).startswith("no rule matched")


def test_places_are_named_once_with_how_often() -> None:
    places = ["m.py:1", "m.py:1", "m.py:2", "m.py:3", "m.py:1", "m.py:4", "m.py:4"]
    assert several_text(places, 3) == "m.py:1 x3, m.py:2, m.py:3 and 2 more"
    assert several_text(places[:1], 3) == "m.py:1"


def test_in_a_narrow_terminal_a_verdict_takes_two_lines_without_sizes() -> None:
    found = Verification(Report((MATCH,)), (Verdict(MATCH, "ok", (Trial("random", 1e-7, 2e-7, 1e-5),)),))
    told = "1 trial, off 1e-07 (IREE 2e-07), limit 1e-05"
    place = "  ok  model.mlir:117:12  attention"
    assert verification_text(found, width=80).splitlines()[1:] == [f"{place} => attend", f"      {told}"]
    sizes = "(m = 64, heads = 64, positions = 64, columns = 64)"
    for wide in (None, 160):
        assert verification_text(found, width=wide).splitlines()[1:] == [f"{place}{sizes} => attend  {told}"]


def test_a_kernel_that_is_wrong_where_inputs_are_not_finite_alone_is_told_the_word_for_it() -> None:
    right = Trial("random", 1e-7, 2e-7, 1e-5)
    infinite = Trial("-infinity in input 0", None, None, 1e-5, "nan at [0], wanted 0")
    for trials, said in (((right, infinite), True), ((Trial("random", 1.0, 0.0, 1e-5, "wrong"), infinite), False)):
        found = Verification(Report((MATCH,)), (Verdict(MATCH, "failed", trials, "wrong"),))
        assert ("`x: f32[m, n] finite`" in verification_text(found)) is said


def test_in_a_narrow_terminal_times_stand_without_sizes_and_spreads() -> None:
    times = {"IREE": (2e-3,) * 9, "kernels": (1e-3,) * 9}
    timed = (Timed(MATCH.location, times, MATCH, (), 10**6, 10**5), Timed("@main", times))
    found = Bench(Report((MATCH,)), Machine("a CPU", 2, 2e11, 3e10), timed, (1, 2), (1.0, 2.0), (3, 4))
    assert bench_text(found, width=80).splitlines()[1:4] == [
        "                                          IREE  kernels",
        "  model.mlir:117:12  attention => attend  2 ms  1 ms     x2.00",
        "  @main              the whole            2 ms  1 ms     x2.00",
    ]
    assert bench_text(found, width=200) == bench_text(found)
    assert "columns = 64) => attend" in bench_text(found)
