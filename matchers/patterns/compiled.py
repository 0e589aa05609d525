"""The graphs of a spec's patterns, each made once for as long as a process has the spec."""

from __future__ import annotations

import dataclasses
from weakref import WeakKeyDictionary

from opsplice.matchers.patterns import graph
from opsplice.matchers.patterns.nodes import Graph
from opsplice.spec_lang.checking.checker import Checked
from opsplice.spec_lang.loading.loader import LoadedSpec

# By what the checker says of some files, which the loader keeps for those read last.
_known: WeakKeyDictionary[Checked, dict[tuple[str, frozenset[str], bool], tuple[Graph, ...]]] = WeakKeyDictionary()


def compile_patterns(spec: LoadedSpec) -> tuple[Graph, ...]:
    """The graphs of all patterns of a spec. Raises what `compile_pattern` raises."""
    return tuple(each for name in spec.patterns for each in compile_pattern(spec, name))


def compile_pattern(
    spec: LoadedSpec, name: str, strided: frozenset[str] = frozenset(), reordered: bool = False
) -> tuple[Graph, ...]:
    """The graphs of a pattern: the same objects each time, while the files of its spec stay as they are.

    strided, reordered: see Graph. Raises OpspliceError for a pattern that nests too deep, which only hundreds of ops in
    a row do, or uses too many.
    """
    known = _known.setdefault(spec.checked, {})
    key = (name, strided, reordered)
    if key not in known:
        if strided or reordered:
            plain = compile_pattern(spec, name)
            known[key] = tuple(dataclasses.replace(each, strided=strided, reordered=reordered) for each in plain)
        else:
            known[key] = graph.built(spec.checked, spec.patterns[name])
    return known[key]
