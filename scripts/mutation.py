"""Takes one check at a time out of a module of matchers/ and lists those that no search of the tests notices.

A check is a guard, an operand of `and` or `or`, a condition of a comprehension, or a comparison, which is negated. What
counts as noticed is another outcome (another match, another value or dim in it, an error) of any search that the tests
of the matchers make, with what they search recorded once. `python -m scripts.mutation constants chains --most 40`
"""

from __future__ import annotations

import argparse
import ast
import importlib.abc
import importlib.util
import os
import random
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from iree.compiler import ir
from iree.compiler.api import Session

from opsplice.common.errors import OpspliceError
from opsplice.spec_lang.loading.loader import LoadedSpec, load_text
from scripts.recorded import ROOT, recorded, recording

_NOTICED, _UNNOTICED = 3, 0
_SECONDS = 60
_LEAVING = (ast.Return, ast.Raise, ast.Continue, ast.Break)
_NEGATED: dict[type[ast.cmpop], str] = {
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.Lt: ">=",
    ast.LtE: ">",
    ast.Gt: "<=",
    ast.GtE: "<",
    ast.In: "not in",
    ast.NotIn: "in",
    ast.Is: "is not",
    ast.IsNot: "is",
}


@dataclass(frozen=True)
class Mutation:
    """Source with one check changed."""

    module: str
    line: int
    told: str
    source: str


@dataclass(frozen=True)
class Question:
    """A search of the tests."""

    program: ir.Module
    spec: LoadedSpec
    pattern: str


def _path(module: str) -> Path:
    [path] = (ROOT / "matchers").rglob(f"{module}.py")
    return path


def mutations(module: str) -> list[Mutation]:
    source = _path(module).read_text()
    starts = [0]
    for line in source.encode().splitlines(keepends=True):
        starts.append(starts[-1] + len(line))

    def changed(node: ast.expr, text: str, told: str) -> Mutation:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        low, high = starts[node.lineno - 1] + node.col_offset, starts[node.end_lineno - 1] + node.end_col_offset
        data = source.encode()
        return Mutation(module, node.lineno, told, (data[:low] + text.encode() + data[high:]).decode())

    return [changed(node, f"({text})", told) for node, text, told in _checks(ast.parse(source))]


def _checks(tree: ast.Module) -> Iterator[tuple[ast.expr, str, str]]:
    """Each check with what stands in its place."""
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and not node.orelse and isinstance(node.body[-1], _LEAVING):
            yield node.test, "False", f"no `if {ast.unparse(node.test)}`"
        if isinstance(node, ast.BoolOp):
            neutral = "True" if isinstance(node.op, ast.And) else "False"
            yield from ((each, neutral, f"`{ast.unparse(each)}` is {neutral}") for each in node.values)
        if isinstance(node, ast.comprehension):
            yield from ((each, "True", f"no `if {ast.unparse(each)}` in a comprehension") for each in node.ifs)
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            other = _NEGATED[type(node.ops[0])]
            text = f"{ast.unparse(node.left)} {other} {ast.unparse(node.comparators[0])}"
            yield node, text, f"`{ast.unparse(node)}` as `{text}`"


# ---- asking ------------------------------------------------------------------------------------------------------


def questions(path: Path | None) -> list[Question]:
    """The searches that a file has, or those of a run of the tests."""
    with tempfile.TemporaryDirectory() as folder:
        if path is None:
            path = Path(folder) / "searches.jsonl"
            recording(path).wait()
        asked = list(recorded(path))
    context = Session().context
    context.enable_multithreading(False)
    specs: dict[str, LoadedSpec] = {}
    found = []
    for each in asked:
        specs.setdefault(each.spec, load_text(each.spec))
        found.append(Question(ir.Module.parse(each.text, context=context), specs[each.spec], each.pattern))
    return found


def answers(asked: Sequence[Question], wanted: Sequence[str] | None = None) -> list[str]:
    """What the searches find, as text; only up to the first answer that is not the wanted one."""
    from opsplice.matchers.find import engine
    from opsplice.matchers.patterns.compiled import compile_pattern

    found: list[str] = []
    for number, each in enumerate(asked):
        pattern = each.spec.patterns[each.pattern]
        try:
            matches = engine.find(each.program, compile_pattern(each.spec, pattern.name)).matches
            found.append("; ".join(map(_told, matches)))
        except (OpspliceError, RecursionError) as problem:
            found.append(str(problem))
        if wanted is not None and found[-1] != wanted[number]:
            return found
    return found


def _told(match: Any) -> str:
    inputs = {n: b.constant if b.value is None else str(b.value) for n, b in match.inputs.items()}
    return f"{list(map(str, match.roots))} {inputs} {match.types} {_text(match.dims)} {_text(match.shapes)}"


def _text(sizes: Any) -> str:
    if isinstance(sizes, dict):
        return str({name: _text(size) for name, size in sizes.items()})
    if isinstance(sizes, tuple):
        return str([_text(size) for size in sizes])
    return str(sizes) if isinstance(sizes, int) else f"{sizes.value}#{sizes.axis}"


class _Mutated(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Has one module imported from other source."""

    def __init__(self, mutation: Mutation) -> None:
        self.mutation = mutation

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        mine = name.startswith("opsplice.matchers.") and name.endswith(f".{self.mutation.module}")
        return importlib.util.spec_from_loader(name, self) if mine else None

    def exec_module(self, module: ModuleType) -> None:
        exec(compile(self.mutation.source, f"{self.mutation.module}.py", "exec"), module.__dict__)


def is_noticed(mutation: Mutation, asked: Sequence[Question], wanted: Sequence[str]) -> bool:
    """Asks in a process of its own, which imports the matchers anew."""
    child = os.fork()
    if child == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        signal.alarm(_SECONDS)
        sys.meta_path.insert(0, _Mutated(mutation))
        try:
            same = answers(asked, wanted) == wanted
        except BaseException:
            same = False
        os._exit(_UNNOTICED if same else _NOTICED)
    return os.waitpid(child, 0)[1] != _UNNOTICED


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("modules", nargs="+", help="modules of matchers/, without .py")
    parser.add_argument("--most", type=int, default=10**6, help="at most so many checks of each, chosen at random")
    parser.add_argument("--recorded", type=Path, help="searches that tests wrote to OPSPLICE_PAIRS before")
    options = parser.parse_args()
    asked = questions(options.recorded)
    wanted = _in_a_child(asked)
    print(f"{len(asked)} searches", flush=True)
    source = _path(options.modules[0]).read_text()
    if is_noticed(Mutation(options.modules[0], 0, "nothing", source), asked, wanted):
        sys.exit("the searches find something else each time: nothing can be said of any check")
    total = left = 0
    for module in options.modules:
        found = mutations(module)
        chosen = sorted(random.Random(0).sample(found, min(options.most, len(found))), key=lambda m: m.line)
        unnoticed = [mutation for mutation in chosen if not is_noticed(mutation, asked, wanted)]
        for mutation in unnoticed:
            print(f"{_path(module).relative_to(ROOT)}:{mutation.line}: {mutation.told}")
        print(f"{module}: {len(chosen) - len(unnoticed)} of {len(chosen)} noticed", flush=True)
        total, left = total + len(chosen), left + len(unnoticed)
    print(f"{total - left} of {total} noticed")
    return 0


def _in_a_child(asked: Sequence[Question]) -> list[str]:
    """The answers of the code as it is; asked elsewhere, so that this process never imports the matchers."""
    with tempfile.NamedTemporaryFile("w+") as file:
        child = os.fork()
        if child == 0:
            file.write("\n\0".join(answers(asked)))
            file.flush()
            os._exit(0)
        os.waitpid(child, 0)
        file.seek(0)
        return file.read().split("\n\0")


if __name__ == "__main__":
    sys.exit(main())
