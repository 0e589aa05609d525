"""Compilers of shading languages to SPIR-V: which are here, and how each is run.

GLSL by glslang or glslc, Slang by slangc (also the one inside the slangtorch wheel, which needs no torch for it), WGSL
by naga: the program, or the npm package naga-wasm, which `naga.mjs` runs in Node.js. It must not know the store, nor
what a shader is a kernel of.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from opsplice.common.errors import MissingToolError, OpspliceError
from opsplice.targets.artifacts.artifact import SpirvTarget
from opsplice.targets.build import programs
from opsplice.targets.build.toolchains import read_dependencies

Language = Literal["GLSL", "Slang", "WGSL"]

# In order of preference.
COMPILERS: dict[Language, tuple[str, ...]] = {"GLSL": ("glslang", "glslc"), "Slang": ("slangc",), "WGSL": ("naga",)}
HOW_TO_GET = {
    "glslang": "apt-get install glslang-tools",
    "glslc": "apt-get install glslc",
    # Its dependencies, torch above all, are for its Python side; the compiler needs none of them.
    "slangc": "pip install --no-deps slangtorch",
    # The version is named because npm takes an older one, which is empty, for Node.js before 24; 18 and 20 run this.
    "naga": "npm install --global naga-wasm@30.1.0",
}

# The newest version that anything here knows.
_NEWEST = (1, 6)

_IMPORT = re.compile(r"\b(?:import|__include|implementing|__import)\s+(\"[^\"\n]+\"|[\w.]+)\s*;")


@dataclass(frozen=True)
class ShaderCompiler:
    """One compiler.

    name:    `glslang`, `glslc`, `slangc` or `naga`.
    command: how it is started.
    """

    name: str
    command: tuple[str, ...]

    @property
    def identity(self) -> str:
        """Changes whenever the compiler may have changed."""
        return programs.identity_of(self.command)

    def version(self) -> str:
        """Its name and version, such as `glslang 11:12.0.0`. Runs it."""
        done = programs.run_program([*self.command, "-v" if self.name == "slangc" else "--version"])
        # glslang tells the versions of all that it speaks; its own comes first.
        release = programs.release_in(f"{done.stdout}\n{done.stderr}", r"(?:\d+:)?\d+\.\d+[\w.-]*")
        return f"{self.name} {release}"

    def compile(self, source: Path, output: Path, target: SpirvTarget, flags: Sequence[str] = ()) -> frozenset[Path]:
        """Compiles one source file into `output`; returns the files it included, with the source.

        flags: the user's, after ours, so that they win, as `compiler_flags` gives them.
        Raises OpspliceError with the compiler's own lines as details.
        """
        dependencies = output.with_name(f"{output.name}.d")
        command = self._command_line(source, output, dependencies, target, flags)
        programs.must_run(command, f"{self.name} cannot compile {source.name}", partial(_hint, self.name))
        if not output.is_file():
            raise OpspliceError(
                f"{self.name} made no module from {source.name}",
                hint="remove the flags that make it do something else, such as -E",
            )
        if self.name == "naga":
            # WGSL has no includes.
            return frozenset({source})
        if not dependencies.is_file():
            raise OpspliceError(
                f"{self.name} did not list what {source.name} includes", hint="remove the flags that list it elsewhere"
            )
        return read_dependencies(dependencies, source.parent)

    def _command_line(
        self, source: Path, output: Path, dependencies: Path, target: SpirvTarget, flags: Sequence[str]
    ) -> list[str]:
        major, minor = min(target.version, _NEWEST)
        beside = f"-I{source.parent}"
        if self.name == "glslang":
            environment = ["--target-env", target.vulkan, "--target-env", f"spirv{major}.{minor}"]
            options = ["-V", "--quiet", *environment, "-S", "comp", beside, "--depfile", str(dependencies)]
        elif self.name == "glslc":
            environment = [f"--target-env={target.vulkan}", f"--target-spv=spv{major}.{minor}"]
            options = ["-fshader-stage=compute", *environment, "-O", beside, "-MD", "-MF", str(dependencies)]
        elif self.name == "slangc":
            # The wheel has no optimizer; drivers have one.
            environment = ["-target", "spirv", "-profile", f"spirv_{major}_{minor}", "-fvk-use-entrypoint-name"]
            options = [*environment, "-O0", beside, "-depfile", str(dependencies)]
        else:
            return [*self.command, *flags, str(source), str(output)]
        return [*self.command, *options, *flags, str(source), "-o", str(output)]


def slang_names(text: str) -> frozenset[str]:
    """The names of files that Slang may include: quoted ones, and those of modules (`import a.b;` is a/b.slang)."""
    found = set(re.findall(r'"([^"\n\0]{1,255})"', text))
    for name in _IMPORT.findall(text):
        bare = name.strip('"') if name.startswith('"') else name.replace(".", "/")
        for spelled in (bare, bare.replace("_", "-")):
            found |= {spelled, f"{spelled}.slang", f"{spelled}.slang-module"}
    return frozenset(found)


def find(name: str) -> ShaderCompiler | None:
    """The compiler of that name, or None where it is absent."""
    return _FINDERS[name]()


def choose(language: Language, source: str, instead: str = ".spv") -> ShaderCompiler:
    """The preferred compiler for a language. Raises OpspliceError when there is none.

    source: the file's name. instead: what file does without a compiler there.
    """
    for name in COMPILERS[language]:
        if (found := find(name)) is not None:
            return found
    names = COMPILERS[language]
    raise MissingToolError(
        f"{source} is {language}, which no compiler here makes into SPIR-V; that needs {' or '.join(names)}",
        hint=f"{HOW_TO_GET[names[0]]}, or give a {instead} that you built elsewhere",
    )


def _on_path(name: str, *programs: str) -> ShaderCompiler | None:
    path = next(filter(None, map(shutil.which, programs or (name,))), None)
    return None if path is None else ShaderCompiler(name, (path,))


def _find_slangc() -> ShaderCompiler | None:
    if (found := _on_path("slangc")) is not None:
        return found
    # Looked up, not imported: importing it needs torch.
    wheel = programs.package_folder("slangtorch")
    path = wheel and wheel / "bin" / "slangc"
    return ShaderCompiler("slangc", (str(path),)) if path and os.access(path, os.X_OK) else None


def _find_naga() -> ShaderCompiler | None:
    if (found := _on_path("naga")) is not None:
        return found
    node = shutil.which("node")
    if node is None:
        return None
    told = [Path(folder) for folder in os.environ.get("NODE_PATH", "").split(os.pathsep) if folder]
    # Where `npm install --global` puts packages, with and without `--prefix`.
    prefixes = [Path(sys.prefix), Path(node).parent.parent, Path(node).resolve().parent.parent, Path("/usr/local")]
    for folder in (*told, *(prefix / "lib" / "node_modules" for prefix in prefixes)):
        package = folder / "naga-wasm"
        if (package / "dist" / "node.js").is_file():
            script = Path(__file__).with_name("naga.mjs")
            return ShaderCompiler("naga", (node, str(script), str(package)))
    return None


_FINDERS: dict[str, Callable[[], ShaderCompiler | None]] = {
    "glslang": partial(_on_path, "glslang", "glslangValidator", "glslang"),
    "glslc": partial(_on_path, "glslc"),
    "slangc": _find_slangc,
    "naga": _find_naga,
}


def _hint(name: str, said: str) -> str | None:
    if name in ("glslang", "glslc"):
        if "compute shaders require" in said:
            return "begin the file with: #version 450"
        if "GL_GOOGLE_include_directive" in said:
            return "to include files, write after #version: #extension GL_GOOGLE_include_directive : require"
        if found := re.search(r"required extension not requested: (?:Possible extensions include:\s*)?(\w+)", said):
            return f"write after #version: #extension {found.group(1)} : require"
    if name == "naga" and "address space: `push_constant`" in said:
        return "WGSL's name for them is now `immediate`: var<immediate> words: Words;"
    if name == "slangc" and "spirv-opt" in said:
        return "this slangc has no optimizer: remove the -O flag"
    return None
