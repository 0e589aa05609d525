"""Functions of PTX texts put where another one declares them: what is written, and what is refused."""

from __future__ import annotations

import pytest

from opsplice.common.errors import OpspliceError
from opsplice.common.store import Store
from opsplice.targets.link import function_link
from opsplice.targets.link.ptx_link import Library, imports, link

PROGRAM = """//
.version 7.6
.target sm_80
.address_size 64

.extern .func (.param .b32 func_retval0) gelu
(
	.param .b32 gelu_param_0
)
;
.extern .func  (.param .b32 func_retval0) vprintf (.param .b64 a, .param .b64 b);
.visible .entry main_dispatch_0(.param .u64 p)
{
	call.uni (retval0), gelu, (param0);
	call.uni (retval0), vprintf, (param0, param1);
	ret;
}
"""
LIBRARY = """
.version 7.8
.target sm_70
.address_size 64
.func (.param .b32 r) helper(.param .f32 x) { ret; }
// .visible .func (.param .b32 r) commented(.param .b32 x) { }
.visible .func  (.param .b32 func_retval0) gelu(
	.param .f32 gelu_param_0
)
{
	call.uni (r), helper, (x);
	ret;
}
"""


def test_what_is_there_and_what_is_wanted():
    assert imports(PROGRAM, "p") == {"gelu": "(b32) -> b32"}
    assert Library("k.ptx", LIBRARY).functions() == {"helper": "(b32) -> b32", "gelu": "(b32) -> b32"}


def test_a_function_takes_the_place_of_its_declaration():
    linked = link(PROGRAM, "p", [Library("k.ptx", LIBRARY)])
    assert imports(linked, "linked") == {}
    assert linked.count(".version") == linked.count(".target") == linked.count(".address_size") == 1
    assert ".version 7.8" in linked
    assert ".target sm_80" in linked
    assert linked.index("helper(") < linked.index(" gelu(") < linked.index("main_dispatch_0")
    assert "vprintf (" in linked  # the driver's
    assert Library("linked", linked).functions().keys() == {"helper", "gelu"}


def test_libraries_may_need_each_other():
    one = LIBRARY.replace("{ ret; }", ";").replace(
        ".func (.param .b32 r) helper", ".extern .func (.param .b32 r) helper"
    )
    program = PROGRAM.replace(
        ".visible .entry", ".extern .func (.param .b32 r) helper(.param .b32 x);\n.visible .entry"
    ).replace("call.uni (retval0), vprintf", "call (r), helper, (x);\n call.uni (retval0), vprintf")
    other = ".version 7.0\n.target sm_60\n.visible .func (.param .b32 r) helper(.param .b32 x) { ret; }\n"
    linked = link(program, "p", [Library("k.ptx", one), Library("h.ptx", other)])
    assert imports(linked, "linked") == {}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (LIBRARY.replace(" gelu(", " relu("), r"p imports the function 'gelu' : \(b32\) -> b32, which no plugin has"),
        (LIBRARY.replace(".f32 gelu_param_0", ".f64 gelu_param_0"), r"gelu of k\.ptx is \(b64\) -> b32, and p imports"),
        (LIBRARY.replace("sm_70", "sm_90"), r"k\.ptx is for sm_90, but the target is sm_80, which is older"),
        (
            LIBRARY.replace("{ ret; }", ";").replace(".func (.param .b32 r) h", ".extern .func (.param .b32 r) h"),
            "calls helper",
        ),
        (LIBRARY + ".visible .entry main_dispatch_0() { ret; }", "defines main_dispatch_0, which is there already"),
        ("int gelu(int x);", "k.ptx"),
        (LIBRARY[:-3], "a body does not end"),
    ],
)
def test_libraries_that_cannot_be_linked(text, message):
    with pytest.raises(OpspliceError, match=message):
        link(PROGRAM, "p", [Library("k.ptx", text)])


def test_executables_that_are_none():
    for form in ("vulkan-spirv-fb", "cuda-nvptx-fb"):
        for code in (b"", b"VKE1", b"CDA1" + bytes(200), b"\0" * 100):
            with pytest.raises(OpspliceError, match="format that is not known"):
                function_link.imports(code, form, "k")
    assert function_link.imports(b"anything", "embedded-elf-x86_64", "k") == {}


def test_files_that_are_none(tmp_path):
    for name, content in (("k.spv", b"\x7fELF"), ("k.ptx", b"hello"), ("k.spv", b"")):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(OpspliceError, match=name):
            function_link.read(tmp_path / name, Store())
    with pytest.raises(OpspliceError, match="no such file"):
        function_link.read(tmp_path / "absent.spv", Store())


LLVM = """
declare float @__nv_expf(float)
define float @slope(float %x, i8 %n) {
  %r = fmul float %x, 2.0
  ret float %r
}
"""


def test_functions_of_llvm_ir_are_listed(tmp_path):
    pytest.importorskip("llvmlite")
    path = tmp_path / "slope.ll"
    path.write_text(LLVM)
    assert function_link.read(path, Store(tmp_path / "store")).functions() == {"slope": "(b32, b32) -> b32"}


def test_libdevice_is_not_linked_into_plugins():
    library = LIBRARY.replace(
        ".func (.param .b32 r) helper(",
        ".extern .func (.param .b32 r) __nv_expf(.param .b32 x);\n.func (.param .b32 r) helper(",
    ).replace("helper(.param .f32 x) { ret; }", "helper(.param .f32 x) { call (r), __nv_expf, (x); ret; }")
    with pytest.raises(OpspliceError, match=r"k\.ptx calls __nv_expf, which nothing defines") as error:
        link(PROGRAM, "p", [Library("k.ptx", library)])
    assert "libdevice" in error.value.hint
