"""Which declaration a name means where libraries are read together.

The names of a library are its own, as are those of the user's files. A name means what is declared in its own library,
else what the libraries that this one imports declare; `acme_kernels.softmax` says of which. So two libraries with a
pattern of one name do not meet, and what a library imports for itself is nobody else's name.

Everything after this sees one kind of name: what several libraries declare is called `acme_kernels.softmax` wherever it
stands, but for those of the spec that is loaded, and all else as it is written.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from opsplice.common.errors import did_you_mean
from opsplice.common.reaching import reachable
from opsplice.spec_lang.checking.op_parameters import renaming, with_callees
from opsplice.spec_lang.checking.walks import expressions
from opsplice.spec_lang.syntax import tree, vocabulary
from opsplice.spec_lang.syntax.spec_errors import Diagnostic, error

_NAME = re.compile(r"[A-Za-z_][\w.]*")


@dataclass(frozen=True)
class File:
    """A file of a load. library: the one that it belongs to, "" for the user's. imports: files, by number."""

    spec: tree.Spec
    library: str
    imports: tuple[int, ...]


def resolved(files: Sequence[File]) -> tuple[list[tree.Spec], list[Diagnostic]]:
    """The files with names that mean one thing each, and the errors in using them."""
    if not any(file.library for file in files):
        return [file.spec for file in files], []
    names = _Names(files)
    return [names.settled(file) for file in files], names.errors


class _Names:
    def __init__(self, files: Sequence[File]) -> None:
        self.files = files
        self.main = files[-1].library
        self.errors: list[Diagnostic] = []
        # The first declaration of each name in each library.
        self.declared: dict[str, dict[str, tree.Kernel | tree.Pattern]] = {}
        for file in files:
            for item in _declarations(file.spec):
                self.declared.setdefault(item.name, {}).setdefault(file.library, item)
        self.imported: dict[str, set[tuple[str, str]]] = {file.library: set() for file in files}
        for file in files:
            for number in file.imports:
                if files[number].library != file.library:
                    self.imported[file.library] |= self._brought(number)

    def _brought(self, number: int) -> set[tuple[str, str]]:
        """The names that importing a file of a library brings, each with the library."""
        library = self.files[number].library

        def imported(at: int) -> list[int]:
            return [each for each in self.files[at].imports if self.files[each].library == library]

        files = reachable([number], imported)
        return {(library, item.name) for each in files for item in _declarations(self.files[each].spec)}

    def settled(self, file: File) -> tree.Spec:
        known = len(self.errors)
        items = tuple(self._item(item, file.library) for item in file.spec.items)
        self.errors[known:] = sorted(self.errors[known:], key=lambda each: each.span.start)
        return dataclasses.replace(file.spec, items=items)

    def _item(self, item: tree.Item, library: str) -> tree.Item:
        match item:
            case tree.Kernel():
                name, symbol = self._unique(library, item.name), item.symbol or item.name
                return item if name == item.name else dataclasses.replace(item, name=name, symbol=symbol)
            case tree.Pattern():
                return self._pattern(item, library)
            case tree.Rule():
                pattern = self._meant(item.pattern, item.pattern_span, library)
                kernel = self._meant(item.kernel, item.kernel_span, library)
                meant = renaming(lambda call: self._meant(call.callee, call.callee_span, library))
                return dataclasses.replace(item, pattern=pattern, kernel=kernel, args=tree.rebuilt(item.args, meant))
        return item

    def _pattern(self, pattern: tree.Pattern, library: str) -> tree.Pattern:
        given = frozenset(variable.name for variable in pattern.op_variables)
        calls = [e for e in expressions(pattern) if isinstance(e, tree.Call) and not e.quoted]
        meant = {call.callee: self._meant(call.callee, call.callee_span, library, given) for call in calls}
        changed = dataclasses.replace(pattern, name=self._unique(library, pattern.name))
        if all(callee == name for callee, name in meant.items()):
            return changed
        return with_callees(changed, lambda call: meant[call.callee])

    def _meant(self, text: str, span: tree.Span, library: str, given: frozenset[str] = frozenset()) -> str:
        """A name, or a pattern with ops put in. given: names of ops that are put in elsewhere."""
        return _NAME.sub(lambda word: word[0] if word[0] in given else self._word(word[0], span, library), text)

    def _word(self, word: str, span: tree.Span, library: str) -> str:
        qualifier, _, name = word.rpartition(".")
        owners = self.declared.get(name, {})
        if vocabulary.is_word(word):
            return word
        if qualifier:
            return self._qualified(qualifier, name, span, library)
        if library in owners:
            return self._unique(library, name)
        seen = [owner for owner in owners if (owner, name) in self.imported[library]]
        if len(seen) == 1:
            return self._unique(seen[0], name)
        notes = [(owners[owner].name_span, f"that of {owner}" if owner else "it is here") for owner in seen or owners]
        if seen:
            hint = f"say which: {' or '.join(f'{owner}.{name}' for owner in seen)}"
            self.errors.append(error(span, f"{' and '.join(seen)} both declare {name}", hint, notes))
        elif owners:
            self.errors.append(error(span, *_unseen(name, owners, library), notes))
        return word

    def _qualified(self, qualifier: str, name: str, span: tree.Span, library: str) -> str:
        known = {name for owner, name in self.imported[library] if owner == qualifier}
        if qualifier == library:
            known = {name for name, owners in self.declared.items() if library in owners}
        if name in known:
            return self._unique(qualifier, name)
        if known:
            self.errors.append(error(span, f"{qualifier} declares no {name}", did_you_mean(name, sorted(known))))
        return f"{qualifier}.{name}"

    def _unique(self, library: str, name: str) -> str:
        return f"{library}.{name}" if library != self.main and len(self.declared[name]) > 1 else name


def _declarations(spec: tree.Spec) -> tuple[tree.Kernel | tree.Pattern, ...]:
    return (*spec.kernels, *spec.patterns)


def _unseen(name: str, owners: Mapping[str, tree.Kernel | tree.Pattern], library: str) -> tuple[str, str]:
    """What to say of a name that others declare, and what to do."""
    owner = next(iter(owners))
    path = owners[owner].span.source.path
    if not owner or path is None:
        return f"library {library} declares no {name}", f"a library sees no names of those who import it: rename {name}"
    who = f"library {library}" if library else "this file"
    return f"{name} is declared in {owner}, which {who} does not import", f'write import "{owner}:{path.stem}"'
