"""What a build depends on, found by reading the source."""

import os
import shutil

import pytest

from opsplice.common.errors import OpspliceError
from opsplice.targets.artifacts.source_inputs import check_complete, check_file, read_inputs
from opsplice.targets.build.shaders import slang_names


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "inc").mkdir()
    (tmp_path / "headers").mkdir()
    (tmp_path / "k.c").write_text('#include <stddef.h>\n#include "a.h"\n')
    (tmp_path / "a.h").write_text('#  include "inc/b.h"\n')
    (tmp_path / "inc" / "b.h").write_text("#define N 4\n")
    return tmp_path


def digest(folder, flags=()):
    return read_inputs(folder / "k.c", flags, folder / "headers").digest


def test_headers_of_headers_count(folder):
    files = read_inputs(folder / "k.c", (), folder / "headers").files
    assert {path.name for path in files} == {"k.c", "a.h", "b.h"}


@pytest.mark.parametrize("name", ["k.c", "a.h", "inc/b.h"])
def test_a_change_of_any_file_changes_the_digest(folder, name):
    before = digest(folder)
    with open(folder / name, "a") as file:
        file.write("\n")
    assert digest(folder) != before


def test_nothing_changed_is_the_same_digest_in_another_folder(folder, tmp_path_factory):
    other = tmp_path_factory.mktemp("other") / "copy"
    shutil.copytree(folder, other)
    assert digest(other) == digest(folder)


def test_a_new_header_that_takes_precedence_changes_the_digest(folder):
    (folder / "k.c").write_text("#include <late.h>\n")
    (folder / "headers" / "late.h").write_text("late")
    before = digest(folder, ["-I", "inc"])
    (folder / "inc" / "late.h").write_text("late")
    assert digest(folder, ["-I", "inc"]) != before


@pytest.mark.parametrize(
    "flags",
    [
        ["-Iinc"],
        ["-I", "inc"],
        ["-isystem", "inc"],
        ["-include", "inc/only.h"],
        ['-DHEADER="inc/only.h"'],
        ["-fprofile-use=inc/only.h"],
    ],
)
def test_files_that_flags_lead_to_count(folder, flags):
    (folder / "k.c").write_text("#include <only.h>\n")
    (folder / "inc" / "only.h").write_text("1")
    before = digest(folder, flags)
    (folder / "inc" / "only.h").write_text("2")
    assert digest(folder, flags) != before


@pytest.mark.parametrize("text", ['__asm__(".incbin \\"table.bin\\"");', '#embed "table.bin"'])
def test_embedded_files_count(folder, text):
    (folder / "k.c").write_text(text)
    (folder / "table.bin").write_bytes(b"\x00\xff")
    assert folder / "table.bin" in read_inputs(folder / "k.c", (), folder / "headers").files


def test_a_stray_bracket_hides_no_include(folder):
    (folder / "k.c").write_text('/* a < b */ #include "a.h"\n')
    assert folder / "a.h" in read_inputs(folder / "k.c", (), folder / "headers").files


def test_headers_that_include_each_other_end(folder):
    (folder / "inc" / "b.h").write_text('#include "../a.h"\n')
    assert len(read_inputs(folder / "k.c", (), folder / "headers").files) == 3


def test_a_file_that_was_missed_is_an_error_with_the_remedy(folder):
    inputs = read_inputs(folder / "k.c", (), folder / "headers")
    check_complete(inputs, [folder / "a.h"], folder / "k.c")
    with pytest.raises(OpspliceError, match=r"put together by macros") as caught:
        check_complete(inputs, [folder / "hidden.h"], folder / "k.c")
    assert '#include "hidden.h"' in caught.value.hint


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("import my_helper;", "my-helper.slang"),
        ("import lib.scaling;", "lib/scaling.slang"),
        ("__include part ;", "part.slang"),
        ("implementing scaling;", "scaling.slang"),
        ('import "lib/scaling";', "lib/scaling.slang"),
        ('#include "top.slangh"', "top.slangh"),
    ],
)
def test_slang_names_of_modules_and_files(text, name):
    assert name in slang_names(text)


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("dangling", r"is a link to .*absent\.comp, which leads to no file"),
        ("loop", r"is a link to .*k\.comp, which leads to no file"),
        ("pipe", "is a device or a pipe, not a file"),
    ],
)
def test_what_is_no_file_of_its_own(tmp_path, kind, message):
    path = tmp_path / "k.comp"
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to(tmp_path / ("absent.comp" if kind == "dangling" else "k.comp"))
    with pytest.raises(OpspliceError, match=message):
        check_file(path, (".comp",))
