"""The examples of the documentation: specs that load, commands and calls that there are, links that lead somewhere."""

from __future__ import annotations

import argparse
import ast
import inspect
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

import opsplice
from opsplice import cli
from opsplice.spec_lang.formatting import formatter
from opsplice.spec_lang.syntax import parser
from tests import command_line
from tests.packages import install

ROOT = Path(__file__).parent.parent
BLOCK = re.compile(r"^```splice\n(.*?)^```", re.DOTALL | re.MULTILINE)
LIBRARY, LIBRARIES = 'import "opsplice:', 'import "acme_kernels:'
EXAMPLES = [
    pytest.param(path, text, id=f"{path.stem}-{number}")
    for path in sorted((ROOT / "docs").glob("*.md"))
    for number, text in enumerate(BLOCK.findall(path.read_text()))
]


def test_the_examples_of_locks_and_trust_are_ones() -> None:
    from opsplice.targets.registry.trust import lock, trust

    blocks = re.findall(r"^```toml\n(.*?)^```", (ROOT / "docs" / "registry.md").read_text(), re.DOTALL | re.MULTILINE)
    (locked,) = [lock.parse(block.encode()) for block in blocks if "lock = 1" in block]
    (trusted,) = [trust.parse(block.encode()) for block in blocks if "[keys." in block]
    assert locked.text() in blocks
    assert trusted.text() in blocks
    assert locked.packages[0].key == trusted.keys[0].key.id


def test_there_are_examples() -> None:
    assert len(EXAMPLES) > 4


@pytest.mark.parametrize(("path", "text"), EXAMPLES)
def test_examples_are_formatted(path: Path, text: str) -> None:
    assert formatter.format(text, path) == text


def test_examples_of_the_language_load_together(tmp_path: Path) -> None:
    from opsplice.spec_lang.loading.loader import load

    blocks = [
        b for b in BLOCK.findall((ROOT / "docs" / "language.md").read_text()) if LIBRARY not in b and LIBRARIES not in b
    ]
    (rules,) = (block for block in blocks if block.startswith("import"))
    blocks.remove(rules)
    (tmp_path / "layers.splice").write_text("\n".join(blocks))
    kernel = (
        'kernel softmax_rows<T in {f32, f64}>(x: T[...m, n]) -> T[...m, n] { symbol "softmax_{T}" cpu "softmax.c" }'
    )
    (tmp_path / "rules.splice").write_text(rules + kernel)
    spec = load(tmp_path / "rules.splice")
    named = ["activated_layer", "layer", "mixed_linear", "negated", "softmax", "squares", "swap", "swish"]
    assert sorted({r.pattern for r in spec.rules}) == [*named, "torch_softsign"]
    assert not spec.warnings


def test_the_examples_of_the_library_load(tmp_path: Path) -> None:
    from opsplice.spec_lang.loading.loader import load_text

    blocks = [b for b in BLOCK.findall((ROOT / "docs" / "language.md").read_text()) if LIBRARY in b]
    specs = [load_text(block, tmp_path / "rules.splice") for block in blocks]
    assert [[r.pattern for r in spec.rules] for spec in specs] == [["linear"] * 3, ["softmax"]]
    assert not any(spec.warnings for spec in specs)


def test_the_example_of_names_loads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from opsplice.spec_lang.loading.loader import load_text

    (block,) = [b for b in BLOCK.findall((ROOT / "docs" / "language.md").read_text()) if LIBRARIES in b]
    monkeypatch.syspath_prepend(tmp_path)
    softmax = "pattern softmax(x: tensor<m x n x f32>) { exp(x) }\n"
    kernel = 'kernel softmax_rows(x: f32[m, n]) -> f32[m, n] { cpu "softmax.c" }\n'
    install(tmp_path, "acme_kernels", {"attention.splice": softmax})
    install(tmp_path, "zeta", {"zeta.splice": softmax + kernel})
    (rule,) = load_text(block, tmp_path / "rules.splice").rules
    assert (rule.pattern, rule.kernel) == ("acme_kernels.softmax", "softmax_rows")


def test_the_readme_shows_the_sample() -> None:
    readme = (ROOT / "README.md").read_text()
    spec = (ROOT / "samples" / "mul_abs_negate" / "replace.splice").read_text()
    shown = readme.partition("```\nkernel")[2].partition("```")[0]
    assert "kernel" + shown == parser_text(spec)


def test_the_captures_are_what_is_captured() -> None:
    """The patterns that the documentation shows are those that the commands before them write."""
    model = ROOT / "samples" / "transformer" / "torch.mlir"
    page = (ROOT / "docs" / "capture.md").read_text()
    assert opsplice.capture(model, "torch.mlir:59", name="layernorm", packs=True).spec == BLOCK.findall(page)[0]
    shown = (ROOT / "README.md").read_text().partition("$ cat softmax.splice\n")[2].partition("```")[0]
    assert opsplice.capture(model, "torch.mlir:40-40", name="softmax", packs=True).spec == shown


def pages() -> list[Path]:
    documents = sorted((ROOT / "docs").glob("*.md"))
    return [ROOT / "README.md", *documents, *sorted((ROOT / "samples").rglob("README.md")), *kernel_pages()]


def kernel_pages() -> list[Path]:
    """That of the library of kernels, and one for each family."""
    folder = ROOT / "kernels"
    families = (folder / "opsplice_kernels").glob("[!_]*/")
    return [folder / "README.md", *sorted(path / "README.md" for path in families)]


def commands(text: str) -> Iterator[list[str]]:
    """The arguments of each `opsplice ...` in the blocks of a page that are not output or code."""
    for language, block in re.findall(r"^```(\w*)\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
        for line in block.replace("\\\n", " ").splitlines():
            line = line.removeprefix("$ ").partition(" && ")[0].partition(" > ")[0]
            words = shlex.split(line, comments=True) if not language and line.startswith("opsplice ") else []
            if words and words[1] != "writes" and "$(" not in line:  # a sample's output, and a shell's own work
                yield [word for word in words[1:] if not word.startswith("[")]


def test_the_commands_of_the_documentation_are_ones(capsys: pytest.CaptureFixture[str]) -> None:
    found = [(path.name, words) for path in pages() for words in commands(path.read_text())]
    assert len(found) > 60
    for path in pages():
        found += [(path.name, [word, "--help"]) for word in re.findall(r"`opsplice ([a-z]+)[ `]", path.read_text())]
    wrong = []
    for name, words in found:
        try:
            assert isinstance(cli._options(words), argparse.Namespace)
        except SystemExit as ended:
            if ended.code:
                wrong.append((name, " ".join(words), capsys.readouterr().err.splitlines()[-1]))
    assert not wrong


def test_the_calls_of_the_documentation_are_ones() -> None:
    """Python that parses, and calls `opsplice.name(...)` of functions that there are, with arguments that they take."""
    called = set()
    for path in pages():
        for block in re.findall(r"^```python\n(.*?)^```", path.read_text(), re.DOTALL | re.MULTILINE):
            for call in ast.walk(ast.parse(block)):
                if not isinstance(call, ast.Call) or not re.fullmatch(r"opsplice\.\w+", ast.unparse(call.func)):
                    continue
                name = ast.unparse(call.func).removeprefix("opsplice.")
                signature = inspect.signature(getattr(opsplice, name))
                signature.bind(*call.args, **{each.arg: each.value for each in call.keywords if each.arg})
                called.add(name)
    assert called >= {"compile", "transform", "load"}


def test_each_page_begins_with_what_the_reader_can_do_after_it() -> None:
    pages = [page for page in (ROOT / "docs").glob("*.md") if page.name != "README.md"] + kernel_pages()
    beginnings = {page: page.read_text().split("\n", 3)[2] for page in pages}
    assert {page: line for page, line in beginnings.items() if not line.startswith("After this page you ")} == {}


def test_the_page_of_the_kernels_leads_to_each_family() -> None:
    top, *families = kernel_pages()
    linked = set(re.findall(r"\]\(opsplice_kernels/(\w+)/README\.md\)", top.read_text()))
    assert linked == {page.parent.name for page in families}


def test_the_smallest_sample_says_what_it_does(samples: Path) -> None:
    folder = samples / "mul_abs_negate"
    (shown,) = re.findall(r"^```\n(.*?)^```", (folder / "README.md").read_text(), re.DOTALL | re.MULTILINE)
    for command in shown.removeprefix("$ ").split("\n$ "):
        line, _, output = command.partition("\n")
        assert command_line.opsplice(*shlex.split(line)[1:], cwd=folder, check=True).stdout.strip() == output.strip()


def test_the_map_has_every_page_and_links_lead_somewhere() -> None:
    listed = set(re.findall(r"\]\(([a-z-]+\.md)\)", (ROOT / "docs" / "README.md").read_text()))
    assert listed == {path.name for path in (ROOT / "docs").glob("*.md")} - {"README.md"}
    lacking = [folder.name for folder in (ROOT / "samples").iterdir() if not (folder / "README.md").exists()]
    assert lacking == []
    for path in [*pages(), ROOT / "ARCHITECTURE.md"]:
        text = re.sub(r"```.*?```|`[^`]*`", "", path.read_text(), flags=re.DOTALL)
        for target in re.findall(r"\]\((?!https?:)([^)#\s]+)", text):
            assert (path.parent / target).exists(), f"{path}: {target}"
        for target, anchor in re.findall(r"\]\((?!https?:)([^)#\s]*)#([^)]+)\)", text):
            page = path.parent / target if target else path
            heads = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
            assert anchor in {re.sub(r"[^\w -]", "", head.lower()).replace(" ", "-") for head in heads}, (path, anchor)


def parser_text(spec: str) -> str:
    """A spec without the comment that it begins with."""
    assert parser.parse(spec).rules
    return spec[spec.index("kernel") :]


def test_the_modules_that_architecture_names_are_there() -> None:
    folders = ("opsplice", "matchers", "rewrites", "spec_lang", "targets", "scripts", "tests")
    paths = [path.relative_to(ROOT).as_posix() for folder in folders for path in (ROOT / folder).rglob("*.py")]
    named = set(re.findall(r"`([\w/]+\.py)`", (ROOT / "ARCHITECTURE.md").read_text()))
    assert len(named) > 100
    assert [name for name in sorted(named) if not any(f"/{path}".endswith(f"/{name}") for path in paths)] == []
