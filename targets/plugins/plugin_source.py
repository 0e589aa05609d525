"""The C around a user's functions that makes them a plugin of IREE's CPU runtime.

IREE calls an imported function with one pointer, to a struct of the call's arguments in order, laid out as C lays it
out; a function of ours unpacks it and calls the user's plain C function. The runtime finds ours through the one
function that it looks for in a plugin, `iree_hal_executable_plugin_query`, whose structs are declared here as far as
they are needed: version 0.1 of IREE's `iree/hal/local/executable_plugin.h`.

It must not know specs, compilers or files.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from opsplice.targets.plugins import call_types

# What IREE looks for in a plugin.
QUERY = "iree_hal_executable_plugin_query"
# Before the name of each function that a plugin of ours has, among its exports: so that others can list them. Alone in
# a plugin without functions.
IMPORT_PREFIX = "opsplice_import_"

# Before what a function is called with (`call_types`) and its name: a further export for each of them.
TYPES_PREFIX = "opsplice_types_"

_C_TYPES = {
    "f32": "float",
    "f64": "double",
    "f16": "_Float16",
    "bf16": "_Float16",  # C passes it as it passes an f16, and compilers convert what is of type __bf16
    "i1": "_Bool",
    "i8": "int8_t",
    "i16": "int16_t",
    "i32": "int32_t",
    "i64": "int64_t",
    "index": "size_t",
}
# Older compilers do not know these types, and an address needs none.
_UNNAMED = frozenset({"f16", "bf16"})

_FEATURE_STANDALONE = 1


@dataclass(frozen=True)
class Argument:
    """One argument of a plain C function: a value of an element type, or the address of such (`const` if only read)."""

    element: str
    pointer: bool = False
    const: bool = False

    @property
    def c_type(self) -> str:
        """The type that the function takes."""
        if not self.pointer:
            return _C_TYPES[self.element]
        pointee = "void" if self.element in _UNNAMED else _C_TYPES[self.element]
        return f"{'const ' * self.const}{pointee} *"

    @property
    def field_type(self) -> str:
        """The type in the struct that IREE passes."""
        return self.c_type if self.pointer else _C_TYPES[call_types.passed(self.element)]


SIZE = Argument("index")


@dataclass(frozen=True)
class Function:
    """A plain C function that returns nothing, by the name that programs import."""

    symbol: str
    arguments: tuple[Argument, ...]

    def __str__(self) -> str:
        return f"void {self.symbol}({', '.join(a.c_type for a in self.arguments)})"

    @property
    def types(self) -> str:
        """What it is called with, as one word."""
        return call_types.encoded(call_types.ADDRESS if a.pointer else a.element for a in self.arguments)


def write(name: str, functions: Sequence[Function], *, standalone: bool) -> str:
    """The C source of a plugin. name: what IREE calls it; standalone: it needs nothing of the system."""
    parts = [_HEAD, *(_wrapper(number, function) for number, function in enumerate(functions))]
    entries = "".join(f"    {{{_quoted(f.symbol)}, import_{number}}},\n" for number, f in enumerate(functions))
    parts.append(f"static const struct entry entries[] = {{\n{entries}}};\n")
    features = _FEATURE_STANDALONE if standalone else 0
    if not functions:  # so that it is known to have none
        declared = f"EXPORTED int nothing(void) __asm__({_quoted(IMPORT_PREFIX)});"
        parts.append(f"{declared}\nint nothing(void) {{ return 0; }}\n")
    parts.append(_TAIL.format(name=_quoted(name), features=features, count=len(functions)))
    return "\n".join(parts)


def _wrapper(number: int, function: Function) -> str:
    """The function that IREE calls. Names in assembly, so that no symbol is a word of C or one of ours."""
    fields = "".join(f"  {a.field_type} a{i};\n" for i, a in enumerate(function.arguments))
    given = ", ".join(_given(i, a) for i, a in enumerate(function.arguments))
    types = ", ".join(a.c_type for a in function.arguments)
    return f"""\
struct call_{number} {{
{fields}}};
extern void function_{number}({types}) __asm__({_quoted(function.symbol)});
EXPORTED int import_{number}(void *, void *, void *) __asm__({_quoted(IMPORT_PREFIX + function.symbol)});
int import_{number}(void *params, void *context, void *reserved) {{
  const struct call_{number} *call = params;
  function_{number}({given});
  return 0;
}}
EXPORTED int types_{number}(void) __asm__({_quoted(f"{TYPES_PREFIX}{function.types}_{function.symbol}")});
int types_{number}(void) {{ return 0; }}
"""


def _given(position: int, argument: Argument) -> str:
    field = f"call->a{position}"
    if argument.field_type == argument.c_type:
        return field
    return f"({field} & 1)" if argument.element == "i1" else f"({argument.c_type}){field}"


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


_HEAD = """\
// Made by opsplice: a plugin of IREE's CPU runtime, interface version 0.1.
#include <stddef.h>
#include <stdint.h>

#define EXPORTED __attribute__((visibility("default")))

typedef int (*imported)(void *params, void *context, void *reserved);

struct entry {
  const char *symbol;
  imported function;
};

struct header {
  uint32_t version;
  const char *name;
  const char *description;
  uint32_t features;
  int32_t sanitizer;
  uint64_t reserved[8];
};

struct request {
  size_t count;
  const char *const *symbols;
  void **functions;
  void **contexts;
};

// A status is its code in a pointer, 0 for success.
struct plugin {
  const struct header *header;
  void *(*load)(const void *environment, size_t param_count, const void *params, void **self);
  void (*unload)(void *self);
  void *(*resolve)(void *self, const struct request *request, uint32_t *resolution);
};
"""

_TAIL = """\
static int same(const char *left, const char *right) {{
  while (*left && *left == *right) ++left, ++right;
  return *left == *right;
}}

static void *load(const void *environment, size_t param_count, const void *params, void **self) {{
  *self = NULL;
  return NULL;
}}

static void unload(void *self) {{}}

// Fills in what is not found yet. A name that begins with ? may stay open, which bit 0 of the resolution says.
static void *resolve(void *self, const struct request *request, uint32_t *resolution) {{
  int missing = 0;
  *resolution = 0;
  for (size_t i = 0; i < request->count; ++i) {{
    if (request->functions[i]) continue;
    const char *symbol = request->symbols[i];
    int optional = *symbol == '?';
    size_t at = 0;
    while (at < {count} && !same(entries[at].symbol, symbol + optional)) ++at;
    if (at < {count}) {{
      request->functions[i] = (void *)entries[at].function;
      request->contexts[i] = NULL;
    }} else if (optional) {{
      *resolution |= 1;
    }} else {{
      missing = 1;
    }}
  }}
  return (void *)(uintptr_t)(missing ? 5 : 0);
}}

static const struct header header = {{1, {name}, "kernels of an opsplice spec", {features}, 0, {{0}}}};
static const struct plugin plugin = {{&header, load, unload, resolve}};

EXPORTED const void *iree_hal_executable_plugin_query(uint32_t max_version, void *reserved);
const void *iree_hal_executable_plugin_query(uint32_t max_version, void *reserved) {{
  return max_version >= 1 ? &plugin : NULL;
}}
"""
