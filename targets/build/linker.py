"""LLVM's linker: objects with archives, made one object that needs nothing besides.

An archive gives the members that something needs, and sections that no function of the kernel reaches are dropped. What
compilers call by themselves is there: `memset` and its like, and what a stack that was overwritten calls. It must not
know what the code computes.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from opsplice.common.errors import OpspliceError
from opsplice.targets.artifacts import temporary_folders
from opsplice.targets.artifacts.artifact import CpuTarget
from opsplice.targets.build import llvm, programs

# What objects may call without bringing it along.
SUPPORT = frozenset({"memcpy", "memmove", "memset", "memcmp", "bcmp", "__stack_chk_fail", "__stack_chk_guard"})

_ARCHIVE, _THIN = b"!<arch>\n", b"!<thin>\n"
_INDEX = len(_ARCHIVE) + 60  # behind the header of the first member
# Loops that LLVM must not turn into calls of the functions that they are. Weak: the kernel's own come first.
_SUPPORT_IR = """
define weak hidden ptr @memset(ptr %to, i32 %value, i64 %count) #0 {
  %byte = trunc i32 %value to i8
  %none = icmp eq i64 %count, 0
  br i1 %none, label %end, label %loop
loop:
  %i = phi i64 [ 0, %0 ], [ %next, %loop ]
  %at = getelementptr i8, ptr %to, i64 %i
  store i8 %byte, ptr %at
  %next = add i64 %i, 1
  %done = icmp eq i64 %next, %count
  br i1 %done, label %end, label %loop
end:
  ret ptr %to
}
define weak hidden ptr @memcpy(ptr %to, ptr %from, i64 %count) #0 {
  %result = call ptr @memmove(ptr %to, ptr %from, i64 %count)
  ret ptr %result
}
define weak hidden ptr @memmove(ptr %to, ptr %from, i64 %count) #0 {
  %behind = icmp ugt ptr %to, %from
  %none = icmp eq i64 %count, 0
  br i1 %none, label %end, label %start
start:
  br i1 %behind, label %backward, label %forward
backward:
  %left = phi i64 [ %count, %start ], [ %b, %backward ]
  %b = sub i64 %left, 1
  %bsource = getelementptr i8, ptr %from, i64 %b
  %bbyte = load i8, ptr %bsource
  %bat = getelementptr i8, ptr %to, i64 %b
  store i8 %bbyte, ptr %bat
  %bdone = icmp eq i64 %b, 0
  br i1 %bdone, label %end, label %backward
forward:
  %i = phi i64 [ 0, %start ], [ %next, %forward ]
  %source = getelementptr i8, ptr %from, i64 %i
  %byte = load i8, ptr %source
  %at = getelementptr i8, ptr %to, i64 %i
  store i8 %byte, ptr %at
  %next = add i64 %i, 1
  %done = icmp eq i64 %next, %count
  br i1 %done, label %end, label %forward
end:
  ret ptr %to
}
define weak hidden i32 @memcmp(ptr %one, ptr %other, i64 %count) #0 {
  br label %loop
loop:
  %i = phi i64 [ 0, %0 ], [ %next, %same ]
  %done = icmp eq i64 %i, %count
  br i1 %done, label %equal, label %compare
compare:
  %at = getelementptr i8, ptr %one, i64 %i
  %where = getelementptr i8, ptr %other, i64 %i
  %x = load i8, ptr %at
  %y = load i8, ptr %where
  %next = add i64 %i, 1
  %is = icmp eq i8 %x, %y
  br i1 %is, label %same, label %differ
same:
  br label %loop
differ:
  %wide = zext i8 %x to i32
  %large = zext i8 %y to i32
  %sign = sub i32 %wide, %large
  ret i32 %sign
equal:
  ret i32 0
}
define weak hidden i32 @bcmp(ptr %one, ptr %other, i64 %count) #0 {
  %found = call i32 @memcmp(ptr %one, ptr %other, i64 %count)
  ret i32 %found
}
define weak hidden void @__stack_chk_fail() #0 {
  call void @llvm.trap()
  unreachable
}
declare void @llvm.trap()
; What is at the end of a stack that was not overwritten, where the system has no such number for a thread.
@__stack_chk_guard = weak hidden constant i64 u0x7B1D5E93A64FC200
attributes #0 = { nounwind "no-builtins" }
"""


def join(
    objects: Sequence[Path], archives: Sequence[Path], symbols: Sequence[str], output: Path, target: CpuTarget
) -> None:
    """Link objects, and what they need of archives, into one that defines `symbols`, or all that they do.

    Raises OpspliceError for a file that is not an archive, and for objects that do not go together.
    """
    for path in archives:
        _check_archive(path)
    with temporary_folders.folder() as name:
        support = Path(name) / "support.ll"
        support.write_text(_SUPPORT_IR, encoding="utf-8")
        llvm.compile_ir(support, Path(name) / "support.o", target, "object")
        made = Path(name) / "joined.o"
        roots = ["--gc-sections", *(f"--undefined={symbol}" for symbol in symbols)] if symbols else []
        # The linker runs in a folder of its own, from where paths in that of a spec lead nowhere.
        joined, taken = ([str(path.absolute()) for path in paths] for paths in (objects, archives))
        files = [*joined, "--start-group", *taken, "--end-group", f"{name}/support.o"]
        command = [embedded(), "-flavor", "gnu", "-r", *roots, "-o", str(made), *files]
        programs.must_run(command, "the objects of a kernel do not go together")
        output.write_bytes(made.read_bytes())


def _check_archive(path: Path) -> None:
    with path.open("rb") as file:
        begin = file.read(len(_ARCHIVE))
    if begin == _THIN:
        raise OpspliceError(
            f"{path.name} is a thin archive, which only names its objects", hint="make it with `ar rcs`"
        )
    if begin != _ARCHIVE:
        is_shared = ".so" in path.suffixes
        hint = "a shared library is linked to what is `as plugin`" if is_shared else "`ar rcs` makes one"
        raise OpspliceError(f"{path.name} is not an archive of objects", hint=hint)


def defined_in(archive: Path) -> frozenset[str]:
    """The names in the index of an archive, as GNU's and LLVM's `ar` write it first; none without such an index."""
    content = archive.read_bytes()
    header, body = content[len(_ARCHIVE) : _INDEX], content[_INDEX:]
    if header[:16].rstrip() != b"/" or not header[48:58].strip().isdigit():
        return frozenset()
    index = body[: int(header[48:58])]
    names = index[4 + 4 * int.from_bytes(index[:4], "big") :].split(b"\0")
    return frozenset(name.decode(errors="replace") for name in names if name)


def embedded() -> str:
    """LLVM's linker: the one in the wheel of IREE's compiler, else the system's."""
    compiler = programs.package_folder("iree.compiler")
    if compiler is not None and (inside := compiler / "_mlir_libs" / "iree-lld").is_file():
        return str(inside)
    for name in ("iree-lld", "lld"):
        if (found := shutil.which(name)) is not None:
            return found
    raise OpspliceError("no linker here makes embedded ELF", hint="pip install iree-base-compiler==3.13.0")
