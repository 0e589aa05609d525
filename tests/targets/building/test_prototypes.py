"""The types of C functions, as each compiler lists them."""

import pytest

from opsplice.targets.artifacts.artifact import CpuTarget
from opsplice.targets.formats import prototypes

SOURCE = """
#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#define bool_t bool
#else
#define bool_t _Bool
#endif
struct pair { float one, other; };
struct large { long of[10]; };
static int helper(int x) { return x; }
void nothing(void) {}
void kernel(const float *x, float *out, int64_t k, double scale, size_t n) { out[helper(0)] = x[n] * scale + k; }
bool_t narrow(bool_t b, int8_t c, uint16_t s, unsigned u) { return b; }
float *address(float (*f)(int, float), void *p, struct pair *q) { return (float *)p; }
float by_value(struct large s) { return s.of[0]; }
int open(int a, ...) { return a; }
void renamed(float x) __asm__("other");
void renamed(float x) {}
#ifdef __cplusplus
}
#endif
"""
EXPECTED = {
    "nothing": "void ()",
    "kernel": "void (ptr, ptr, i64, double, i64)",
    "narrow": "i1 (i1, i8, i16, i32)",
    "address": "ptr (ptr, ptr, ptr)",
    "other": "void (float)",
}


@pytest.mark.parametrize("language", ["c", "c++"])
def test_what_each_compiler_lists(tmp_path, compiler, language):
    source = tmp_path / "k.c"
    source.write_text(SOURCE)
    for arch in compiler.archs:
        found = compiler.types(source, CpuTarget(arch), language)
        assert {name: found[name] for name in EXPECTED} == EXPECTED
        assert found["open"] not in ("i32 (i32)", "void (i32)")
        # What is large goes by its address there.
        assert found["by_value"] != "float (ptr)" or arch in ("aarch64", "riscv64")


def test_types_that_a_compiler_writes_in_many_words():
    text = """
define dso_local noundef zeroext i1 @flag(i1 noundef zeroext %0, <4 x float> noundef %1) local_unnamed_addr #0 {
define internal fastcc { float, i64 } @"a name"([2 x i64] %0, { i8, i16 } %1, ptr addrspace(1) noalias align 4 %2) {
define float* @old(i32 (i32, float)* noundef %0, %struct.s* byval(%struct.s) align 8 %1) personality i32 (...)* @p {
define void @"\\01given"(half %0) #0 {
declare float @expf(float)
"""
    assert prototypes.of_ir(text) == {
        "flag": "i1 (i1, <4 x float>)",
        "a name": "{ float, i64 } ([2 x i64], { i8, i16 }, ptr)",
        "old": "ptr (ptr, struct)",
        "given": "void (half)",
    }


def test_sixteen_bit_floats_of_gcc():
    text = 'func _f (*float32, uint64)  __asm__("f")\n// func _h (INVALID-float-16) INVALID-float-16 __asm__("h")\n'
    assert prototypes.of_go(text) == {"f": "void (ptr, i64)", "h": "half (half)"}
