"""Whatever is given as a spec, it is judged soon or refused with a clear error: no crash, no hang."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opsplice.cli import main
from opsplice.common.errors import OpspliceError
from opsplice.compiling import linting
from opsplice.matchers.patterns.compiled import compile_pattern
from opsplice.matchers.patterns.graph import MAX_USES
from opsplice.spec_lang.formatting import formatter
from opsplice.spec_lang.loading import loader
from opsplice.spec_lang.loading.loader import MAX_BYTES, MAX_IMPORT_DEPTH, load, load_text
from opsplice.spec_lang.syntax.spec_errors import SpecError
from tests.effort import examples

ROOT = Path(__file__).parents[2]
MANY = 100_000
SOME = examples(1000, 5000)
X = "x: tensor<n x f32>"
KERNEL = 'kernel k(x: f32[n]) -> f32[n] { cpu "k.c" }\n'
PATTERN = f"pattern p({X}) {{ exp(x) }}\n"


def judged(text: str) -> str:
    """Load, format and lint a text; what is wrong with it, or ""."""
    failure = ""
    for work in (load_text, formatter.format, lambda text: linting.findings(load_text(text))):
        try:
            work(text)
        except SpecError as error:
            failure = str(error)
            assert len(failure) < 5000
            failure.encode()
    return failure


LARGE = {
    "parentheses in a condition": (f"pattern p({X}) where {'(' * MANY}n > 1{')' * MANY} {{ exp(x) }}", ""),
    "parentheses in arithmetic": (f"pattern p({X}) where {'(' * MANY}n{')' * MANY} > 1 {{ exp(x) }}", ""),
    "calls in calls": (f"pattern p({X}) {{ {'exp(' * MANY}x{')' * MANY} }}", "nests more than 100 deep"),
    "nots": (f"pattern p({X}) where {'not ' * MANY}n > 1 {{ exp(x) }}", "nests more than 100 deep"),
    "sums": (f"pattern p({X}) where {' + '.join(['n'] * MANY)} > 1 {{ exp(x) }}", "nests more than 100 deep"),
    "conditions": (f"pattern p({X}) where {' and '.join(f'n % {i + 2} == 1' for i in range(SOME))} {{ exp(x) }}", ""),
    "alternatives": (f"pattern p({X}) where {' or '.join(f'n != {i}' for i in range(5000))} {{ exp(x) }}", ""),
    "inequalities": (f"pattern p({X}) where {' and '.join(f'n != {i}' for i in range(SOME))} {{ exp(x) }}", ""),
    "open brackets": (f"pattern p({'[' * MANY}", "expected"),
    "a long name": (f"pattern {'a' * 1_000_000}({X}) {{ exp(x) }}", ""),
    "a long unknown name": (f"pattern p({X}) {{ {'a' * 1_000_000}(x) }}", "unknown op or pattern aaa"),
    "a long name before an error": (f"pattern {'a' * 1_000_000}) )", "expected"),
    "many names before an error": (f"pattern p({X}) {{ {'b1 ' * 50_000} )", "expected"),
    "an integer of a million digits": (f"pattern p({X}) where n > {'9' * 1_000_000} {{ exp(x) }}", "no integer type"),
    "a float of a million digits": (f"pattern p({X}) {{ mulf(x, {'9' * 1_000_000}.0) }}", "no float type holds"),
    "type variables": (
        f"pattern p<{', '.join(f'T{i}' for i in range(3000))}>"
        f"({', '.join(f'x{i}: tensor<n x T{i}>' for i in range(3000))}) {{ exp(x1) }}",
        "",
    ),
    "parameters": (f"pattern p({', '.join(f'x{i}: tensor<n x f32>' for i in range(5000))}) {{ exp(x1) }}", ""),
    "dims": (f"pattern p(x: tensor<{' x '.join(f'n{i}' for i in range(5000))} x f32>) {{ exp(x) }}", ""),
    "labels": (f"pattern p({X}) {{ reduce addf[{' '.join(f'n{i}' for i in range(5000))} -> ](x) }}", "error: [n0 n1"),
    "letters": (f"pattern p({X}) {{ reduce addf[{'ab' * 20_000} -> a](x) }}", "appears twice"),
    "values": (f"pattern p({X}) {{ {' '.join(f'a{i} = exp(x)' for i in range(5000))} exp(x) }}", ""),
    "a chain of values": (
        f"pattern p({X}) {{ a0 = exp(x) {' '.join(f'a{i + 1} = exp(a{i})' for i in range(5000))} exp(a5000) }}",
        "",
    ),
    "patterns in a circle": (
        " ".join(f"pattern p{i}({X}) {{ exp(p{(i + 1) % 2000}(x)) }}" for i in range(2000)),
        "cannot be recursive",
    ),
    "patterns that use each other": (
        PATTERN.replace("p(", "p0(", 1)
        + " ".join(f"pattern p{i + 1}({X}) where n > 1 {{ exp(p{i}(x)) }}" for i in range(300)),
        "",
    ),
    "patterns that double": (
        PATTERN.replace("p(", "p0(", 1)
        + " ".join(f"pattern p{i + 1}({X}) where n > 1 {{ addf(p{i}(x), p{i}(x)) }}" for i in range(40)),
        "",
    ),
    "artifacts": ("kernel k(x: f32[n]) -> f32[n] { " + 'cpu "k.c" ' * 5000 + "}", ""),
    "a grid": ("kernel k(x: f32[n]) -> f32[n] { grid (" + ", ".join(["n"] * 5000) + ') cpu "k.c" }', "3 dims"),
    "comments": ("// a\n" * MANY, ""),
    "comments in a list": (f"pattern p({'// a' + chr(10)}{'// b' + chr(10) * 5000}{X}) {{ exp(x) }}", ""),
    "values without names": (f"pattern p({X}) {{ {'exp(x) ' * 10_000}", "the file ends here"),
    "a string without an end": (f'import "{chr(92) * 100_001}', "not closed"),
    "rules": (KERNEL + PATTERN + "replace p with k(x)\n" * 4 * SOME, ""),
    "rules with conditions": (
        KERNEL + PATTERN + "".join(f"replace p where n % {i + 2} == 1 with k(x)\n" for i in range(SOME // 5)),
        "",
    ),
}  # fmt: skip


@pytest.mark.usefixtures("must_end")
@pytest.mark.parametrize("name", LARGE)
def test_large_texts_are_judged_or_refused(name: str):
    text, message = LARGE[name]
    failure = judged(text)
    assert message in failure if message else not failure


def test_thousands_of_rules_load():
    spec = load_text(KERNEL + PATTERN + "replace p with k(x)\n" * 20 * SOME)
    assert len(spec.rules) == 20 * SOME


@pytest.mark.usefixtures("must_end")
@pytest.mark.parametrize("op", ["negf?({})", "mulf?({}, y)", "mulf?(y, {})", '"a.b"({})', "mulf?({}, negf?(x))"])
def test_optional_ops_nest_as_deep_as_others(op: str):
    expr = "x"
    for _ in range(80):
        expr = op.format(expr)
    spec = load_text(f"pattern p({X}, y: tensor<n x f32>) {{ absf(mulf({expr}, y)) }}")
    assert compile_pattern(spec, "p")


def test_what_is_wrong_in_an_optional_op_is_said_once():
    with pytest.raises(SpecError) as raised:
        load_text(f"pattern p({X}) {{ absf(negf?(negf?(unknown))) }}")
    assert [d.message for d in raised.value.diagnostics if d.severity == "error"] == ["unknown name unknown"]


def test_a_pattern_that_doubles_is_refused():
    doubling = (f"pattern p{i + 1}({X}) {{ addf(p{i}(x), p{i}(x)) }}" for i in range(40))
    spec = load_text(PATTERN.replace("p(", "p0(", 1) + " ".join(doubling))
    with pytest.raises(OpspliceError, match=f"uses others more than {MAX_USES} times"):
        compile_pattern(spec, "p40")


# ---- odd characters and files ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"pattern p\x00(x: f32) { exp(x) }", "expected '(' or '<'"),
        (b"// \x00 in a comment\n", None),
        (b"\xef\xbb\xbf" + PATTERN.encode(), None),
        (PATTERN.replace(" ", "\r\n").encode(), None),
        (b"// caf\xe9\n", "is not UTF-8 text (line 1)"),
        (b"\xed\xa0\x80", "is not UTF-8 text"),
        (b"\xff\xfe" + PATTERN.encode("utf-16-le"), "is not UTF-8 text"),
        ("pattern \u200bp(x: f32) { exp(x) }".encode(), "expected a name"),
        (b'import "a\x00b"', "this cannot be the name of a file"),
        (b'import "' + b"a" * 100_000 + b'"', "error: cannot read"),
        (b'import ""', "is a folder"),
    ],
)
def test_odd_bytes(tmp_path: Path, capsys, data, message):
    path = tmp_path / "odd.splice"
    path.write_bytes(data)
    assert main(["lint", str(path)]) == (message is not None)
    shown = capsys.readouterr()
    assert message is None or message in shown.out + shown.err
    assert "Traceback" not in shown.err


@pytest.mark.parametrize("text", ["pattern \ud800", 'import "\ud800"', "pattern p(x: f32) { \udfff(x) }"])
def test_lone_surrogates_are_errors_that_can_be_printed(text):
    with pytest.raises(SpecError) as raised:
        load_text(text)
    assert str(raised.value).encode()


def test_a_file_that_is_too_large_is_refused_before_it_is_read(tmp_path: Path, capsys):
    path = tmp_path / "large.splice"
    with path.open("wb") as file:
        file.truncate(100 << 20)
    for command in ("lint", "format"):
        assert main([command, str(path)]) == 1
        assert f"is larger than {MAX_BYTES >> 20} MiB" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["/dev/zero", "/dev/null", "pipe"])
def test_devices_and_pipes_are_refused(tmp_path: Path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe")
    with pytest.raises(OpspliceError, match="is a device or a pipe"):
        load(name)
    with pytest.raises(SpecError, match="is a device or a pipe"):
        load_text(f'import "{name}"')


def test_links_in_a_circle_and_files_without_end(tmp_path: Path):
    (tmp_path / "a.splice").symlink_to(tmp_path / "b.splice")
    (tmp_path / "b.splice").symlink_to(tmp_path / "a.splice")
    with pytest.raises(SpecError, match=r"links|cannot be the name|no file"):
        load_text('import "a.splice"', tmp_path / "main.splice")
    with pytest.raises(OpspliceError):
        load(tmp_path / "a.splice")


def test_a_file_that_imports_itself_by_another_name(tmp_path: Path):
    (tmp_path / "link.splice").symlink_to(tmp_path / "main.splice")
    (tmp_path / "main.splice").write_text('import "link.splice"')
    with pytest.raises(SpecError, match="import each other"):
        load(tmp_path / "main.splice")


def test_chains_of_imports_end(tmp_path: Path):
    for number in range(3000):
        (tmp_path / f"f{number}.splice").write_text(f'import "f{number + 1}.splice"')
    (tmp_path / "f3000.splice").write_text(PATTERN)
    with pytest.raises(SpecError, match=f"imports nest more than {MAX_IMPORT_DEPTH} deep"):
        load(tmp_path / "f0.splice")
    assert list(load(tmp_path / f"f{3001 - MAX_IMPORT_DEPTH}.splice").patterns) == ["p"]


def test_a_file_imported_a_thousand_times_is_read_once(tmp_path: Path, monkeypatch):
    (tmp_path / "lib.splice").write_text(PATTERN)
    read: list[Path] = []
    monkeypatch.setattr(loader, "read", lambda path, plain=loader.read: (read.append(path), plain(path))[1])
    load_text('import "lib.splice"\n' * 1000, tmp_path / "main.splice")
    assert len(read) == 1


# ---- fuzz ------------------------------------------------------------------------------------------------------------

BLOCK = re.compile(r"^```splice\n(.*?)^```", re.DOTALL | re.MULTILINE)
CORPUS = [path.read_text() for path in sorted((ROOT / "samples").glob("*/*.splice"))]
CORPUS += [block for path in sorted((ROOT / "docs").glob("*.md")) for block in BLOCK.findall(path.read_text())]
TOKEN = re.compile(r'"[^"\n]*"|[A-Za-z_0-9]+|\.\.\.|->|[=!<>]=|\s+|.')
TOKENS = sorted({token for text in CORPUS for token in TOKEN.findall(text) if not token.isspace()})


def unharmed(text: str) -> None:
    """Judge a text in every way; only SpecError may come of it. What loads is kept by the formatter."""
    try:
        spec = load_text(text)
    except SpecError as failure:
        str(failure).encode()  # what cannot be printed raises
        with contextlib.suppress(SpecError):
            formatter.format(text)
        return
    linting.findings(spec)
    formatted = formatter.format(text)
    assert formatter.format(formatted) == formatted
    again = load_text(formatted)
    assert [d.code for d in linting.findings(again)] == [d.code for d in linting.findings(spec)]


@st.composite
def mutated_tokens(draw):
    """A spec of the corpus with some tokens dropped, doubled, exchanged or replaced by others of the corpus."""
    tokens = TOKEN.findall(draw(st.sampled_from(CORPUS)))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(tokens) - 1))
        other = draw(st.integers(0, len(tokens) - 1))
        kind = draw(st.sampled_from(["drop", "double", "exchange", "replace", "insert"]))
        if kind == "drop":
            tokens[at] = ""
        elif kind == "double":
            tokens[at] += tokens[at]
        elif kind == "exchange":
            tokens[at], tokens[other] = tokens[other], tokens[at]
        elif kind == "replace":
            tokens[at] = draw(st.sampled_from(TOKENS))
        else:
            tokens[at] += f" {draw(st.sampled_from(TOKENS))} "
    return "".join(tokens)


@settings(max_examples=examples(40, 20000), deadline=None)
@given(mutated_tokens())
def test_no_mutation_of_a_spec_does_harm(text):
    unharmed(text)


@settings(max_examples=examples(50, 10000), deadline=None)
@given(st.sampled_from(CORPUS), st.lists(st.tuples(st.floats(0, 1), st.binary(max_size=4)), min_size=1, max_size=5))
def test_no_bytes_in_a_spec_do_harm(text, changes):
    data = bytearray(text.encode())
    for place, new in changes:
        at = int(place * len(data))
        data[at : at + len(new)] = new
    with contextlib.suppress(OpspliceError):
        unharmed(loader.decoded(bytes(data), "fuzz"))


@settings(max_examples=examples(50, 10000), deadline=None)
@given(st.lists(st.sampled_from(TOKENS), max_size=60).map(" ".join))
def test_no_words_in_any_order_do_harm(text):
    unharmed(text)


def test_the_corpus_is_worth_mutating():
    assert len(CORPUS) > 20
    assert len(list(itertools.chain.from_iterable(TOKEN.findall(text) for text in CORPUS))) > 3000
