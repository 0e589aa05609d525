"""The editor's grammar knows every word of the language, and colours a sample as it should."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import opsplice.spec_lang
from opsplice.spec_lang.syntax import vocabulary
from opsplice.spec_lang.syntax.condition_nodes import RESERVED

FOLDER = Path(opsplice.spec_lang.__file__).parent
EDITOR = FOLDER / "editor"
GRAMMAR = json.loads((EDITOR / "splice.tmLanguage.json").read_text())
RULES = GRAMMAR["repository"]
# Words of the language's grammar, without its single letters.
KEYWORDS = sorted(set(re.findall(r'"([a-z]{2,})"', (FOLDER / "syntax" / "grammar.lark").read_text())) | RESERVED)
COLOURED = ("keyword", "logic", "form", "constant", "type", "mlir")


def scope(word: str, *, of: tuple[str, ...] = tuple(RULES)) -> str | None:
    """The first rule, in the order of the grammar, that takes a whole word."""
    order = [include["include"].removeprefix("#") for include in GRAMMAR["patterns"]]
    for name in order:
        pattern = RULES[name].get("match")
        if name in of and pattern is not None and re.fullmatch(pattern, word):
            return name
    return None


def test_there_are_keywords():
    assert {"pattern", "kernel", "replace", "where", "contract", "otherwise"} <= set(KEYWORDS)


@pytest.mark.parametrize("word", KEYWORDS)
def test_every_keyword_is_coloured(word: str):
    if word == "mlir":
        assert re.match(RULES["mlir"]["begin"], "mlir {")
    else:
        assert scope(word) in COLOURED


@pytest.mark.parametrize("name", sorted(vocabulary.OPS))
def test_every_op_is_coloured(name: str):
    assert scope(name) == "op" or (name in KEYWORDS and scope(name) in COLOURED)
    assert re.fullmatch(RULES["op"]["match"], vocabulary.OPS[name].full_name)


def test_no_op_is_coloured_that_is_none():
    words = re.findall(r"[a-z][a-z0-9_]*", RULES["op"]["match"].partition("?(?:")[2].rpartition(")")[0])
    assert set(words) - set(vocabulary.OPS) <= {"b"}


@pytest.mark.parametrize(
    "element", [*vocabulary.COMMON_ELEMENTS, "f8E4M3FN", "f4E2M1FN", "si8", "ui16", "i4", "f80", "tf32"]
)
def test_element_types_are_types(element: str):
    assert vocabulary.is_element(element)
    assert scope(element) == "type"


@pytest.mark.parametrize("word", ["softmax", "x", "mk", "i", "f3", "patterns", "wherever", "index2", "i12345"])
def test_names_are_no_words_of_the_language(word: str):
    assert scope(word) is None


def test_the_folder_is_an_extension():
    package = json.loads((EDITOR / "package.json").read_text())
    (language,) = package["contributes"]["languages"]
    (grammar,) = package["contributes"]["grammars"]
    assert language["extensions"] == [".splice"]
    assert (EDITOR / language["configuration"]).is_file()
    assert (EDITOR / grammar["path"]).is_file()
    assert grammar["scopeName"] == GRAMMAR["scopeName"] == "source.splice"
    configuration = json.loads((EDITOR / "language-configuration.json").read_text())
    assert configuration["comments"]["lineComment"] == "//"


def test_includes_lead_somewhere():
    text = (EDITOR / "splice.tmLanguage.json").read_text()
    assert {name.removeprefix("#") for name in re.findall(r'"include": "(#[^"]*)"', text)} <= set(RULES)
    for rule in RULES.values():
        for field in ("match", "begin", "end"):
            re.compile(rule.get(field, ""))
