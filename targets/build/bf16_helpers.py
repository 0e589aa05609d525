"""C for what compilers call to make a bf16 of a wider float, which libraries of most systems lack.

The functions are those of LLVM's and GCC's own libraries, by name, arguments and rounding: to nearest, ties to even.
"""

from __future__ import annotations

from collections.abc import Collection

NAMES = ("__truncsfbf2", "__truncdfbf2")

_CODE = """\
#include <stdint.h>

#define HELPER __attribute__((weak, visibility("hidden")))

static __bf16 rounded(uint32_t bits) {
  union { uint16_t bits; __bf16 number; } made;
  if ((bits & 0x7fffffff) > 0x7f800000) made.bits = (uint16_t)(bits >> 16 | 0x40);
  else made.bits = (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
  return made.number;
}

HELPER __bf16 __truncsfbf2(float x) {
  union { float number; uint32_t bits; } given = {x};
  return rounded(given.bits);
}

// Rounds to odd first, so that what follows rounds as if it were the only time.
HELPER __bf16 __truncdfbf2(double x) {
  union { float number; uint32_t bits; } given = {(float)x};
  double back = given.number;
  if (back != x && x == x) {
    if ((x < 0 ? -back : back) > (x < 0 ? -x : x)) --given.bits;
    given.bits |= 1;
  }
  return rounded(given.bits);
}
"""


def code_for(wanted: Collection[str]) -> str:
    """The C of the helpers if one of these names is among them, else ""."""
    return "" if set(NAMES).isdisjoint(wanted) else _CODE
