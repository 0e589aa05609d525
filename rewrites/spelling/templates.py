"""A pattern spelled out as ops on tensors: the text of a region's body over typed arguments.

It is the template that a matcher looks for, and the program on which the replacement is made. Sizes that the pattern
leaves open are dynamic; a pack is given a rank, and a type variable a type.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from opsplice.rewrites.spelling.not_exportable import GapError
from opsplice.rewrites.spelling.spelled_template import Choices, Instance, Template
from opsplice.rewrites.spelling.speller import Speller
from opsplice.rewrites.spelling.spellings import Spelling
from opsplice.rewrites.spelling.template_text import Writer
from opsplice.spec_lang.syntax import tree

MAX_CHOICES = 64


def spell(
    pattern: tree.Pattern, patterns: Mapping[str, tree.Pattern], instance: Instance, spelling: Spelling
) -> Template:
    """Spell a checked pattern out, in a context with its dialects loaded. Raises GapError for what cannot be.

    Of alternatives the first is written, and optional ops are.
    """
    found = next(spell_each(pattern, patterns, instance, spelling))
    if isinstance(found, GapError):
        raise found
    return found


def spell_each(
    pattern: tree.Pattern, patterns: Mapping[str, tree.Pattern], instance: Instance, spelling: Spelling
) -> Iterator[Template | GapError]:
    """A template for each choice of alternatives, with and without each optional op, or why there is none."""
    choices = Choices(())

    def spelled(outside: frozenset[str], parameters: Sequence[tree.Parameter]) -> tuple[Writer, Template]:
        choices.counts.clear()
        writer = Writer(spelling, outside)
        return writer, Speller(patterns, instance, spelling, writer, choices).spell(pattern, parameters)

    for _ in range(MAX_CHOICES):
        try:
            writer, template = spelled(frozenset(), pattern.parameters)
            lines = *template.lines, f"return {template.root}"
            read = [p for p in pattern.parameters if _is_read(f"%{p.name}", lines)]
            if len(read) < len(pattern.parameters):
                writer, template = spelled(frozenset(), read)
            yield spelled(frozenset(writer.fills), read)[1] if template.inside else template
        except GapError as error:
            yield error
        taken = choices.following()
        if taken is None:
            return
        choices = Choices(taken)
    why = f"it would need more than {MAX_CHOICES} matchers for each spelling; give it fewer alternatives"
    yield GapError.at(pattern.span, f"pattern '{pattern.name}'", why)


def _is_read(name: str, lines: Sequence[str]) -> bool:
    """Whether ops other than those that ask for its sizes have a value as an operand."""
    word = re.compile(rf"{re.escape(name)}\b")
    return any(word.search(line) is not None for line in lines if "tensor.dim" not in line)
