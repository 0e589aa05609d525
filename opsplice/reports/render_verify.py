"""How a verification looks in a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath

from opsplice.common.errors import counted
from opsplice.measuring.cutting.records import Trial, Verdict, Verification, Whole
from opsplice.reports.render import brief, brief_location, dims_text, several_text, style

FOR_FINITE_NUMBERS = "a kernel that is right for finite numbers alone says so: `x: f32[m, n] finite`"
_COLORS = {"ok": "green", "failed": "red", "not tried": "yellow"}
_WORDS = {"ok": "ok", "failed": "FAILED", "not tried": "not tried"}
# How many places of one computation are named.
_NAMED = 3


def verification_text(
    found: Verification, *, color: bool = False, verbose: bool = False, width: int | None = None
) -> str:
    """Each match, then whole functions. verbose: every trial, and the drift of every match. width: of the terminal; in
    a narrow one a match takes two lines, and is not told its sizes.
    """
    lines = [style(heading(found), "bold", color)]
    words = max((len(_WORDS[v.outcome]) for v in found.verdicts), default=0)
    places = max((len(brief_location(v.replacement.location)) for v in found.verdicts), default=0)
    for verdict in found.verdicts:
        word = style(f"{_WORDS[verdict.outcome]:<{words}}", _COLORS[verdict.outcome], color)
        where = brief_location(verdict.replacement.location)
        told = f"{outcome_text(verdict)}{_same(verdict)}"
        if width is None or len(f"  {'':{words}}  {'':{places}}  {what(verdict)}  {told}") <= width:
            lines.append(f"  {word}  {where:<{places}}  {what(verdict)}  {told}")
        else:
            match = verdict.replacement
            lines += [f"  {word}  {where:<{places}}  {match.pattern} => {match.kernel}", f"  {'':{words}}  {told}"]
        if verbose:
            lines += [f"      {t.kind}: {t.reason or f'ok{trial_numbers(t)}'}" for t in verdict.trials]
    if any(map(is_of_finite_numbers, found.verdicts)):
        help_ = style("help:", "cyan", color)
        lines.append(f"{help_} {FOR_FINITE_NUMBERS}")
    for whole in found.whole:
        lines += _whole(whole, color, verbose)
    return "\n".join([*lines, *(f"{style('note:', 'cyan', color)} {note}" for note in found.notes)])


def is_of_finite_numbers(verdict: Verdict) -> bool:
    """Whether a kernel is wrong where an input is not finite, and nowhere else."""
    failed = [trial.kind for trial in verdict.trials if trial.reason]
    return bool(failed) and all(kind.startswith(("nan in", "infinity in", "-infinity in")) for kind in failed)


def heading(found: Verification) -> str:
    """What came out, in a line."""
    if not found.report.replacements:
        return "no rule matched: nothing is replaced. `opsplice explain` shows how far patterns go"
    counts = {outcome: sum(1 + len(v.same) for v in found.verdicts if v.outcome == outcome) for outcome in _WORDS}
    said = [f"{counts['ok']} verified"]
    said += [f"{counts['failed']} failed"] if counts["failed"] else []
    said += [f"{counts['not tried']} not tried alone"] if counts["not tried"] else []
    return f"matches: {', '.join(said)}"


def what(verdict: Verdict) -> str:
    """A match and its kernel."""
    match = verdict.replacement
    sources = dict.fromkeys(PurePath(artifact.source).name for artifact in match.artifacts)
    origin = f" from {', '.join(sources)}" if sources else ""
    return f"{brief(f'{match.pattern}({dims_text(match)})')} => {match.kernel}{origin}"


def outcome_text(verdict: Verdict) -> str:
    """What was found of a match, in a line."""
    if verdict.outcome != "ok":
        return verdict.reason
    worst = verdict.worst
    known = " (known from before)" if verdict.cached else ""
    trials = f"{counted(len(verdict.trials), 'trial')}{known}"
    return trials if worst is None else f"{trials}{trial_numbers(worst)}"


def trial_numbers(trial: Trial) -> str:
    """How far numbers are off, as text behind a word."""
    if trial.off is None:
        return ""
    by = "" if trial.reference_off is None else f" (IREE {trial.reference_off:.0e})"
    return f", off {trial.off:.0e}{by}, limit {trial.limit:.0e}" if trial.off or trial.reference_off else ", equal"


def _same(verdict: Verdict) -> str:
    if not verdict.same:
        return ""
    return f"; the same at {several_text(map(brief_location, verdict.same), _NAMED)}"


def whole_text(whole: Whole) -> str:
    """How far a function's results are off, in a line."""
    if whole.lost == 1 and not whole.difference:
        return "nothing can be said: all its numbers are NaN or infinite; give it better inputs with --input"
    lost = f"; {whole.lost:.0%} of its numbers are NaN or infinite" if whole.lost else ""
    if whole.off is None:
        note = f" ({whole.note})" if whole.note else ""
        return f"with and without kernels differ by {whole.difference:.1e} of the largest number{note}{lost}"
    apart = f"the two differ by {whole.difference:.1e}" if whole.difference else "the two are equal"
    return f"off by {whole.off:.1e} from f64, without kernels by {whole.reference_off:.1e}; {apart}{lost}"


def _whole(whole: Whole, color: bool, verbose: bool) -> Sequence[str]:
    name = f"the whole of @{whole.function}" if whole.function else "the whole program"
    if whole.reason:
        lines = [f"{style('FAILED', 'red', color)} {name}: {whole.reason}"]
        lines += [f"  {whole_text(whole)}"] if whole.function else []
    else:
        lines = [f"{name}: {whole_text(whole)}"]
    drift = whole.drift if verbose else sorted(whole.drift, key=lambda each: -each[2])[:1]
    lead = "" if verbose else "most "
    told = [(f"{lead}{amount:.1e}", brief_location(at), pattern) for at, pattern, amount in drift if amount]
    lines += [f"  drift: {amount} at {at} {pattern}" for amount, at, pattern in told]
    return lines
