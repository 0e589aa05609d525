"""Rules and runs that no transform spec says, told before anything is written."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

from opsplice.rewrites.approaches.approach_table import approach_of
from opsplice.rewrites.plan.actions import KernelCall
from opsplice.rewrites.spelling.not_exportable import GapError
from opsplice.rewrites.transform_dialect.export.sequences import Pass
from opsplice.spec_lang.loading.loader import LoadedSpec
from opsplice.spec_lang.syntax import tree

_PASSES = re.compile(r"util\.func\(([\w,-]+)\)|([\w-]+)")
_PIPELINE = re.compile(rf"(?:{_PASSES.pattern})(?:,(?:{_PASSES.pattern}))*")


def check_call(rule: tree.Rule, call: KernelCall) -> None:
    what, name = f"`{rule.title}`", approach_of(call).name(call)
    if call.kept:
        missing = ", ".join(map(str, call.kept))
        why = f"a spec cannot leave only some targets to the compiler, and there is no artifact for {missing}"
        raise GapError.at(rule.span, what, why)
    if name not in ("static function", "static dispatch"):
        raise GapError.at(rule.span, what, f"a spec has no {name}: only what is linked into the program")
    if approach_of(call).later([call]):
        why = "shaders for Metal and whole executables are put in after IREE has made its own, which no spec does"
        raise GapError.at(rule.span, what, why)


def check_rule(rule: tree.Rule, spec: LoadedSpec) -> None:
    """Raise GapError for a rule that does something that is not exported."""
    what, pattern = f"`{rule.title}`", spec.patterns[rule.pattern]
    if not (rule.replaces or rule.attributes):
        raise GapError.at(rule.span, what, "a spec says what is replaced, not what stays")
    if rule.attributes:
        _check_attributes(rule, spec)
    elif rule.kernel in spec.kernels:
        _check_kernel(rule, spec.kernels[rule.kernel])
    if rule.when is not None:
        raise GapError.at(rule.when.span, what, "a spec chooses when compiling only")
    if len(rule.called) > 1:
        raise GapError.at(rule.span, what, "a spec has one call of a kernel in the place of a match")
    if rule.phase not in (None, "preprocessing"):
        raise GapError.at(rule.phase_span or rule.span, what, "IREE applies specs at phase preprocessing only")
    for looked in set(pattern.through) & {"reshape", "ones"}:
        why = f"a matcher looks through nothing, and the pattern looks through {looked}"
        raise GapError.at(pattern.name_span, f"pattern '{pattern.name}'", why)


def _check_kernel(rule: tree.Rule, kernel: tree.Kernel) -> None:
    if kernel.is_scalar:
        raise GapError.at(rule.span, f"`{rule.title}`", "a spec cannot put functions on elements into IREE's code")
    for clause in kernel.artifacts:
        if clause.is_generated:
            why = "a spec is made before there are matches, and code is generated for each"
            raise GapError.at(clause.span, f"kernel '{rule.kernel}'", why)
        if clause.takes:
            raise GapError.at(clause.span, f"kernel '{rule.kernel}'", "a spec names the file as it is")


def _check_attributes(rule: tree.Rule, spec: LoadedSpec) -> None:
    """Rules that set the same attributes are tried in their order; the first that holds sets all of its own."""
    names = {attribute.name for attribute in rule.attributes}
    for other in itertools.takewhile(lambda each: each is not rule, spec.rules):
        earlier = {attribute.name for attribute in other.attributes}
        if names & earlier and not names <= earlier:
            both = ", ".join(sorted(names & earlier))
            why = (
                f"where the rule at {other.span} sets {both} first, none of this rule's attributes is set, and a "
                "spec sets each by itself; set the others by a rule of their own"
            )
            raise GapError.at(rule.span, f"`{rule.title}`", why)


def passes_of(run: tree.Run) -> Iterator[Pass]:
    """The passes of a run. Raises GapError for what a spec cannot run."""
    what = f"`{run.title}`"
    if run.phase not in ("preprocessing", "global-optimization"):
        raise GapError.at(run.phase_span, what, "IREE applies specs at phase preprocessing only, and what comes next")
    text = "".join(run.passes.split())
    if _PIPELINE.fullmatch(text) is None:
        raise GapError.at(run.passes_span, what, "only names of passes, and util.func(...) around them, are exported")
    for nested, plain in _PASSES.findall(text):
        for name in (nested or plain).split(","):
            yield Pass(name, on_functions=bool(nested), is_after=run.phase == "global-optimization")
