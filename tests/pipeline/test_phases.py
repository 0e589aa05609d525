import re
import subprocess
import sys
from pathlib import Path

import pytest

from opsplice.common.errors import OpspliceError
from opsplice.pipeline.phases import PHASES, phase_index


def test_phases_are_those_of_the_installed_compiler():
    tool = Path(sys.executable).with_name("iree-compile")
    if not tool.exists():
        pytest.skip("iree-compile is not beside this Python")
    help_text = subprocess.run([tool, "--help"], capture_output=True, text=True).stdout
    listed = help_text.partition("--compile-to=")[2].partition("\n  --")[0]
    assert tuple(re.findall(r"^    =([\w-]+)", listed, re.MULTILINE)) == PHASES


def test_phases_are_ordered():
    assert phase_index("start") < phase_index("preprocessing") < phase_index("hal") < phase_index("end")


def test_unknown_phase_suggests_the_nearest():
    with pytest.raises(OpspliceError) as error:
        phase_index("preprocesing")
    assert error.value.message == "there is no phase 'preprocesing'"
    assert error.value.hint == "did you mean preprocessing?"


def test_phase_like_no_other_lists_them():
    with pytest.raises(OpspliceError) as error:
        phase_index("xyz")
    assert "global-optimization" in error.value.hint
