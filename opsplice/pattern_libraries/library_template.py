"""A new library, as a Python package that works: a pattern, a kernel in C, a test of its numbers, how to publish it."""

from __future__ import annotations

import re
from pathlib import Path

from opsplice.errors import OpspliceError
from opsplice.files import write_files
from opsplice.spec_lang.loading.libraries import GROUP, OWN

_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}\Z")

_PYPROJECT = """\
[build-system]
requires = ["setuptools>=61"]
build-backend = "setuptools.build_meta"

[project]
name = "{project}"
version = "0.1.0"
description = "Patterns and kernels for opsplice"
readme = "README.md"
requires-python = ">=3.11"
# Say here what others may do with it, and put the text of the licence into the file LICENSE.
license = {{ text = "all rights reserved" }}
dependencies = ["opsplice"]

# The library's name, and the folder of its specs.
[project.entry-points."{group}"]
{name} = "{name}:specs"

[tool.setuptools.packages.find]
where = ["src"]

[tool.setuptools.package-data]
{name} = ["specs/**/*"]
"""

_SPEC = """\
pattern soft_sign(x: tensor<...a x f32>) {{
  divf(x, addf(absf(x), 1.0))
}}

kernel soft_sign_rows(x: f32[...a]) -> f32[...a] {{
  symbol "{name}_soft_sign"
  cpu "soft_sign.c" as bitcode
}}

replace soft_sign with soft_sign_rows(x)
"""

_C = """\
#include <stddef.h>

/* x / (1 + |x|) of a elements. */
void {name}_soft_sign(const float *x, float *out, size_t a) {{
  for (size_t i = 0; i < a; ++i) {{
    const float size = x[i] < 0 ? -x[i] : x[i];
    out[i] = x[i] / (1 + size);
  }}
}}
"""

_TEST = """\
import numpy as np
import opsplice

MODEL = \"\"\"
func.func @main(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {{
  %one = arith.constant dense<1.0> : tensor<4x8xf32>
  %size = math.absf %x : tensor<4x8xf32>
  %sum = arith.addf %size, %one : tensor<4x8xf32>
  %y = arith.divf %x, %sum : tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}}
\"\"\"


def test_soft_sign() -> None:
    program = opsplice.compile(MODEL, ["{name}"], require_match=True)
    x = np.linspace(-5, 5, 32, dtype=np.float32).reshape(4, 8)
    np.testing.assert_allclose(program.run("main", x), x / (1 + np.abs(x)), rtol=1e-6)


def test_the_library() -> None:
    assert [finding for finding in opsplice.check_library("{name}") if finding.outcome == "failed"] == []
"""

_README = """\
# {name}

Patterns and kernels for opsplice.

```
pip install {project}
opsplice compile model.mlir --spec={name} -o model.vmfb
```

or in a spec of your own: `import "{name}"`.

| pattern | kernel |
|---|---|
| `soft_sign` | `soft_sign_rows`, in C |

## Work on it

```
pip install --editable .
opsplice library check .        # format, warnings, builds for all targets, each pattern and its numbers
pytest
make wheel                      # sources of kernels, built where they are used
make wheel TARGETS=x86_64,aarch64   # kernels built before, for users without a compiler
```

Each file of `src/{name}/specs` can be imported: `{name}:other` is `other.splice`. A pattern that cannot be tried on
itself gets an example: `src/{name}/specs/examples/PATTERN.mlir`.
"""

_MAKEFILE = """\
# make wheel: a wheel for any platform in dist/; with TARGETS=x86_64,aarch64,... its kernels are built before.
TARGETS ?=
PIP_FLAGS ?=

.PHONY: wheel
wheel:
\trm -rf build
\tmkdir -p build/package dist
\tcp -r pyproject.toml README.md LICENSE src build/package
ifneq ($(TARGETS),)
\trm -r build/package/src/{name}/specs
\topsplice kernel build src/{name}/specs/{name}.splice --target=$(TARGETS) -o build/package/src/{name}/specs
endif
\tpip wheel $(PIP_FLAGS) --no-deps --wheel-dir dist build/package
"""

_LICENSE = "Put the text of your licence here, and its name into pyproject.toml.\n"

_FILES = {
    "pyproject.toml": _PYPROJECT,
    "README.md": _README,
    "LICENSE": _LICENSE,
    "Makefile": _MAKEFILE,
    "src/{name}/__init__.py": '"""Patterns and kernels for opsplice, in the folder `specs`."""\n',
    "src/{name}/specs/{name}.splice": _SPEC,
    "src/{name}/specs/soft_sign.c": _C,
    "tests/test_{name}.py": _TEST,
}


def create(name: str, folder: Path | None = None) -> list[Path]:
    """Write a new library into a folder, by default one of its name here. Returns the files.

    Raises OpspliceError for a name that is none of a Python package, and for a folder that has something in it.
    """
    if _NAME.match(name) is None or name == OWN.name:
        raise OpspliceError(
            f"a library cannot be called '{name}'", hint="use lowercase letters, digits and _, such as acme_kernels"
        )
    root = Path(name) if folder is None else folder
    words = {"name": name, "project": name.replace("_", "-"), "group": GROUP}
    files = {path.format(**words): text.format(**words).encode() for path, text in _FILES.items()}
    return write_files(root, files, new="name a new folder: --folder FOLDER")
