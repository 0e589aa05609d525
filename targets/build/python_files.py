"""Loads a user's Python file as a module that may import the files beside it, as a script may.

`import helper` means the `helper.py` in the file's own folder, even if the process has another module of that name. The
process's path and modules do not change. The module has its own builtins, whose `__import__` looks beside the file
first. Modules that it imports from there have the same.
"""

from __future__ import annotations

import builtins
import hashlib
import importlib
import importlib.machinery
import importlib.util
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath
from types import CodeType, ModuleType
from typing import Any

_PREFIX = "opsplice_beside_"


def module_of(path: str) -> str:
    """The module that a kernel's file becomes. IREE takes what stands before the first dot of a call for it."""
    return PurePath(path).stem.replace(".", "_")


def load(name: str, path: Path) -> ModuleType:
    """Execute a file as the module `name`, under which Python then knows it; no byte code is written or read.

    What it imports from its folder is executed anew, too. Raises what the file raises; it is not known then.
    """
    beside = _Beside(path.absolute())
    beside.begin()
    loader = _Loader(name, str(path), beside)
    spec = importlib.util.spec_from_file_location(name, path, loader=loader)
    assert spec is not None, "there is a loader"
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        loader.exec_module(module)
    except BaseException:
        sys.modules.pop(name, None)
        beside.forget()
        raise
    return module


class _Beside:
    """What stands beside a file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._package = _PREFIX + hashlib.sha256(os.fsencode(path)).hexdigest()[:12]
        self.builtins = {**vars(builtins), "__import__": self._import}

    def begin(self) -> None:
        """Begin anew: nothing has been imported yet."""
        self.forget()
        package = ModuleType(self._package)
        package.__path__ = [str(self._path.parent)]
        sys.modules[self._package] = package
        _FINDER.besides[self._package] = self
        if _FINDER not in sys.meta_path:
            sys.meta_path.insert(0, _FINDER)
        importlib.invalidate_caches()

    def forget(self) -> None:
        """Leave nothing of it to Python."""
        _FINDER.besides.pop(self._package, None)
        for known in [n for n in sys.modules if n.partition(".")[0] == self._package]:
            del sys.modules[known]

    def _has(self, name: str) -> bool:
        """Whether a module is in the folder. The file itself is none: what it imports by its name is another."""
        folder = self._path.parent
        return (folder / name / "__init__.py").is_file() or (
            (folder / f"{name}.py").is_file() and folder / f"{name}.py" != self._path
        )

    def _import(
        self,
        name: str,
        globals: Mapping[str, object] | None = None,  # noqa: A002 (as Python calls it)
        locals: Mapping[str, object] | None = None,  # noqa: A002
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> Any:
        top = name.partition(".")[0]
        if level or not self._has(top):
            return builtins.__import__(name, globals, locals, fromlist or (), level)
        found = builtins.__import__(f"{self._package}.{name}", globals, locals, fromlist or (), 0)
        return found if fromlist else sys.modules[f"{self._package}.{top}"]


class _Finder:
    """Finds what is imported from beside files, and nothing else."""

    def __init__(self) -> None:
        self.besides: dict[str, _Beside] = {}

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: Any = None) -> Any:
        beside = self.besides.get(name.partition(".")[0])
        spec = None if beside is None else importlib.machinery.PathFinder.find_spec(name, path)
        if spec is not None and beside is not None and isinstance(spec.loader, importlib.machinery.SourceFileLoader):
            spec.loader = _Loader(name, spec.loader.path, beside)
        return spec


_FINDER = _Finder()


class _Loader(importlib.machinery.SourceFileLoader):
    """Executes a file with builtins that know what stands beside it."""

    def __init__(self, name: str, path: str, beside: _Beside) -> None:
        super().__init__(name, path)
        self._builtins = beside.builtins

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)

    def exec_module(self, module: ModuleType) -> None:
        module.__dict__["__builtins__"] = self._builtins
        super().exec_module(module)
