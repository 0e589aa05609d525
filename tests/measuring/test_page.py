"""The page of results in a browser: nothing of it is wider than a phone, and it is dark where the system is."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from opsplice.measuring.cutting.records import Trial, Verdict, Verification, Whole
from opsplice.measuring.timing.benching import Bench, Timed
from opsplice.measuring.timing.machine import Machine
from opsplice.measuring.timing.repeated_sequences import Repeated
from opsplice.measuring.timing.survey_model import Item, Survey
from opsplice.reports import measured_page
from opsplice.reports.measured_page import Measured, report_page
from opsplice.reports.report import ArtifactUse, Miss, Replacement, Report, UnmatchedRule

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
LONG = "a_rather_long_name_of_a_file_in_a_folder_that_is_far_away"
PHONE = 360
# What a page measures of itself, in its title.
PROBE = """<script>document.title = [document.documentElement.scrollWidth, document.documentElement.clientWidth,
  getComputedStyle(document.body).backgroundColor, document.querySelectorAll('article').length].join(' ')</script>"""


def page() -> str:
    digest = "5" * 64
    use = ArtifactUse("llvm-cpu embedded-elf-x86_64", f"/{LONG}/{LONG}/norm.c", "x", "object", digest)
    dims = {"m": [1, 128], "n": 1024, "batch": 8, "heads": 32}
    match = Replacement("replace p", f"{LONG}.splice:3:4", LONG, "main", f"{LONG}.mlir:7:8", dims, LONG, "inline")
    match = Replacement(**{**vars(match), "artifacts": (use,), "views": (f"x: {LONG} of {LONG}",)})
    miss = UnmatchedRule("replace q with k", "a:1:1", "q", (Miss("main", f"{LONG}:9:9", LONG, LONG, "a:1:1"),))
    times = {"IREE": (2e-3,) * 9, "kernels": (1e-3,) * 9}
    timed = (Timed(match.location, times, match, (), 10**6, 10**5), Timed("@main", times))
    bench = Bench(
        Report((match,), unmatched=(miss,)), Machine("a CPU", 2, 2e11, 3e10), timed, (1, 2), (1.0, 2.0), (3, 4)
    )
    trials = (Trial("random", 1e-7, 1e-7, 1e-5),)
    verified = Verification(bench.report, (Verdict(match, "ok", trials),), (Whole("main", 1e-6, 1e-3),))
    items = (Item(f"linalg.{LONG}", "tensor<1x128x1024xf32>", ("a:1:1",) * 4, False, 10**9, 10**6, 1e-3),)
    survey = Survey(items, layers={"main": (Repeated(2, (0, 0)),)})
    return report_page("a model", [Measured("a model", bench, verified, survey)])


def test_a_page_has_all_and_needs_nothing_else() -> None:
    text = page()
    assert not re.search(r"https?://|<script|<link|src=", text)
    for wanted in ("norm.c", "5" * 64, "near", "2 layers", "off 1e-07", "x2.00", "@main"):
        assert wanted in text


def test_matches_of_one_line_have_cards_and_verdicts_of_their_own() -> None:
    wide, narrow, whole_only = (
        Replacement("replace p", "a.splice:1:1", "dense", "main", "layer.py:7", {"n": size}, "k", "inline")
        for size in (64, 32, 16)
    )
    times = {"IREE": (2e-3,) * 9, "kernels": (1e-3,) * 9}
    timed = (Timed(wide.location, times, wide), Timed(narrow.location, times, narrow))
    report = Report((wide, narrow, whole_only))
    bench = Bench(report, Machine("a CPU", 2, 2e11, 3e10), timed, (1, 2), (1.0, 2.0), (3, 4), ("open sizes are 3",))
    verdicts = (Verdict(wide, "failed", reason="wrong in row 3"), Verdict(narrow, "ok", ()))
    items = (Item("dense", "n = ?", ("layer.py:7",), True, 1000, 0, 1e-3), Item("q", "", ("a",), True, 0, 2000, 1e-3))
    survey = Survey(items, "open sizes (?) are taken as 17", {"main": (0, 1)})
    text = measured_page.page("a model", bench, Verification(report, verdicts), survey)
    cards = {size: card for card in text.split("<article>") for size in re.findall(r"dense\(n = (\d+)\)", card)}
    assert sorted(cards) == ["16", "32", "64"]
    assert "x2.00" in cards["64"]
    assert "failed: wrong in row 3" in cards["64"]
    assert "x2.00" in cards["32"]
    assert "failed" not in cards["32"]
    assert "x2.00" not in cards["16"]
    for wanted in (">1 k operations each<", ">2 kB each<", "open sizes are 3", "open sizes (?) are taken as 17"):
        assert wanted in text


@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium")
@pytest.mark.parametrize("dark", [False, True])
def test_a_browser_shows_it_on_a_phone_and_in_the_dark(tmp_path: Path, dark: bool) -> None:
    # A frame, for windows are never narrower than 500.
    inner = page().replace("<details", "<details open").replace("</body>", f"{PROBE}</body>")
    (tmp_path / "inner.html").write_text(inner)
    read = "document.title = frames[0].document.title"
    frame = f'<iframe src="inner.html" width="{PHONE}" height="600" onload="{read}"></iframe>'
    (tmp_path / "page.html").write_text(f"<!doctype html><body>{frame}</body>")
    command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--allow-file-access-from-files"]
    command += ["--virtual-time-budget=5000"]  # nothing is told before all is loaded
    command += ["--blink-settings=preferredColorScheme=0"] if dark else []
    command += [f"--user-data-dir={tmp_path / 'user'}", "--dump-dom", (tmp_path / "page.html").as_uri()]
    shown = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True).stdout
    found = re.search(r"<title>(\d+) (\d+) (rgb\(.*?\)) (\d+)</title>", shown)
    assert found is not None, shown
    assert int(found[1]) <= int(found[2]) <= PHONE, "it is wider than the phone"
    assert found[3] == ("rgb(20, 22, 26)" if dark else "rgb(255, 255, 255)")
    assert int(found[4]) >= 4
