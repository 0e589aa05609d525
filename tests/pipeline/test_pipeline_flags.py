import subprocess
import sys

import pytest

from opsplice.common.errors import OpspliceError
from opsplice.pipeline.flags import asks_to_print, links_executables, split_flags, with_default_target

LOCAL = "--iree-hal-target-device=local"
LLVM_CPU = "--iree-hal-local-target-device-backends=llvm-cpu"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([], (LOCAL, LLVM_CPU)),
        ([LOCAL], (LLVM_CPU, LOCAL)),
        (["--iree-hal-target-device=cpu=local[1]"], (LLVM_CPU, "--iree-hal-target-device=cpu=local[1]")),
        (["--iree-hal-target-device=vulkan"], ("--iree-hal-target-device=vulkan",)),
        (
            ["--iree-hal-local-target-device-backends=vmvx"],
            (LOCAL, "--iree-hal-local-target-device-backends=vmvx"),
        ),
        (["--iree-hal-target-backends=vmvx"], ("--iree-hal-target-backends=vmvx",)),
    ],
)
def test_default_target_fills_only_what_is_missing(given, expected):
    assert with_default_target(given) == expected


def test_flags_are_sorted_by_scope():
    flags = ["--iree-opt-level=O2", "--iree-hal-link-executables=false", "--iree-input-type=torch"]
    sorted_flags = split_flags(flags)
    assert sorted_flags.session == ("--iree-opt-level=O2", "--iree-input-type=torch")
    assert sorted_flags.process == ("--iree-hal-link-executables=false",)


def test_unknown_flag_suggests_the_nearest():
    with pytest.raises(OpspliceError) as error:
        split_flags(["--iree-llvmcpu-target-cp=host"])
    assert error.value.message == "IREE has no flag --iree-llvmcpu-target-cp=host"
    assert "--iree-llvmcpu-target-cpu=host" in error.value.hint


@pytest.mark.parametrize("flag", ["host", "-o", "--x86-asm-syntax=intel", "--compile-to=hal"])
def test_what_is_no_compiler_flag_is_refused(flag):
    with pytest.raises(OpspliceError, match="is not a flag of IREE's compiler"):
        split_flags([flag])


def test_bad_value_of_a_session_flag_shows_the_parsers_words(capfd):
    with pytest.raises(OpspliceError) as error:
        split_flags(["--iree-opt-level=O7"])
    assert "use O0/O1/O2/O3" in error.value.details
    assert capfd.readouterr().err == ""


def test_bad_value_of_a_process_flag_does_not_end_the_process():
    with pytest.raises(OpspliceError) as error:
        split_flags(["--iree-hal-link-executables=maybe"])
    assert "invalid value for boolean argument" in error.value.details


def test_flag_that_lists_and_exits_is_refused():
    with pytest.raises(OpspliceError):
        split_flags(["--iree-hal-list-target-backends"])


def test_printing_flags_are_known():
    assert asks_to_print(["--iree-opt-level=O2", "--mlir-print-ir-after-all"])
    assert not asks_to_print(["--iree-opt-level=O2", "--mlir-disable-threading"])


PROCESS_FLAGS_TWICE = """
from opsplice.common.errors import OpspliceError
from opsplice.pipeline.flags import apply_process_flags
apply_process_flags(())
apply_process_flags(("--iree-hal-link-executables=false",))
apply_process_flags(("--iree-hal-link-executables=false",))
for other in ((), ("--mlir-disable-threading",)):
    try:
        apply_process_flags(other)
    except OpspliceError as error:
        print(error.message)
"""


def test_process_flags_can_be_set_once_per_process():
    # In a process of its own: what it sets would stay with the other tests.
    done = subprocess.run([sys.executable, "-c", PROCESS_FLAGS_TWICE], capture_output=True, text=True)
    message = "this process compiles with --iree-hal-link-executables=false, and IREE cannot change these flags later"
    assert done.stdout.splitlines() == [message, message]
    assert done.returncode == 0


@pytest.mark.parametrize(
    ("given", "linked"),
    [
        ([], True),
        (["--iree-hal-link-executables"], True),
        (["--iree-hal-link-executables=false"], False),
        (["--iree-hal-link-executables=0"], False),
        (["--iree-hal-link-executables=false", "--iree-hal-link-executables=true"], True),
        (["--iree-hal-link-executables-not=false"], True),
    ],
)
def test_whether_executables_are_linked(given, linked):
    assert links_executables(given) is linked
