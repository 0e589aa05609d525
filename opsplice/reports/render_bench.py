"""How measured times look in a terminal."""

from __future__ import annotations

import re

from opsplice.measuring.timing.benching import IREE, KERNELS, Bench, Timed
from opsplice.measuring.timing.paired import Paired
from opsplice.reports.render import aligned, brief, brief_location, dims_text, style, times

# The sizes of a match, as its row has them.
_DIMS = re.compile(r"\(.*\)(?= => )")
_HEADS = ("", "", IREE, KERNELS, "", "10th to 90th percentile")


def bench_text(found: Bench, *, color: bool = False, width: int | None = None) -> str:
    """Matches, functions, peers, and what the programs take. width: of the terminal; a narrow one is not told sizes,
    spreads and what part of the core is used.
    """
    rounds = max((len(next(iter(each.seconds.values()))) for each in found.timed), default=0)
    lines = [style(f"{found.machine.told}, medians of up to {rounds} rounds in turn", "bold", color)]
    matches = [each for each in found.timed if each.replacement is not None]
    rows = [_row(each, found) for each in (*matches, *found.whole) if KERNELS in each.seconds]
    heads = (*_HEADS, "of the core" if found.machine.cores else "")
    table = aligned([heads, *rows]) if rows else []
    if width is not None and max(map(len, table), default=0) > width:
        table = aligned([heads[:5], *((row[0], _DIMS.sub("", row[1]), *row[2:5]) for row in rows)])
    lines += table
    for each in found.whole:
        if KERNELS not in each.seconds:
            lines.append(f"  {each.name}: {time_text(each.median(IREE))} by {IREE}; nothing is replaced")
        for peer in (name for name in each.seconds if name not in (IREE, KERNELS)):
            ours = KERNELS if KERNELS in each.seconds else IREE
            pair = each.against(peer, ours)
            assert pair is not None
            said = pair.verdict if pair.verdict == "no difference" else f"{ours} {ratio_text(pair)} as fast"
            lines.append(f"  {each.name} by {peer}: {time_text(each.median(peer))}; {said}")
    return "\n".join([*lines, *costs(found), *(f"{style('note:', 'cyan', color)} {note}" for note in found.notes)])


def _row(each: Timed, found: Bench) -> tuple[str, ...]:
    pair = each.against(IREE)
    assert pair is not None
    low, high = pair.spread
    used = found.machine.used(each.operations, each.moved, each.median(KERNELS))
    match = each.replacement
    what = "the whole" if match is None else f"{brief(f'{match.pattern}({dims_text(match)})')} => {match.kernel}"
    seconds = (time_text(each.median(IREE)), time_text(each.median(KERNELS)))
    return (
        times(brief_location(each.name), len(each.same) + 1),
        what,
        *seconds,
        ratio_text(pair),
        f"{1 / high:.2f} to {1 / low:.2f}",
        used,
    )


def ratio_text(pair: Paired) -> str:
    """How one side is against another, in words where it is within the noise."""
    return pair.verdict if pair.verdict == "no difference" else f"x{1 / pair.ratio:.2f}"


def costs(found: Bench) -> list[str]:
    """What both programs take besides time."""
    compiled, sizes, memory = found.compiled, found.sizes, found.memory
    return [
        f"compiled in {compiled[0]:.2f} s, with kernels in {compiled[1]:.2f} s of processor time",
        f"program of {sizes[0] / 1e3:.0f} kB, with kernels {sizes[1] / 1e3:.0f} kB",
        *([f"running takes {memory[0] / 1e6:.0f} MB, with kernels {memory[1] / 1e6:.0f} MB"] if any(memory) else []),
    ]


def time_text(seconds: float) -> str:
    """A time in the unit that fits."""
    for unit, name in ((1.0, "s"), (1e-3, "ms"), (1e-6, "us")):
        if seconds >= unit:
            return f"{seconds / unit:.3g} {name}"
    return f"{seconds * 1e9:.3g} ns"
