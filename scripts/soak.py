"""Sets traps for the matchers for as long as it is told: mutants of programs that match, judged by the interpreter.

Programs are random ones, those of the tests of the matchers, and exports of models. What is found is printed with the
program; then the exit code is 1. `python -m scripts.soak --minutes 10 --seed 1`
"""

from __future__ import annotations

import argparse
import itertools
import random
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from scripts.recorded import recorded, recording
from tests.matchers.soundness.mutants import Change
from tests.matchers.soundness.test_match_random import case
from tests.matchers.soundness.traps import LIBRARY, Hunt, Prey, at_preprocessing, preys

ROOT = Path(__file__).parent.parent
_MODELS = ("tests/matchers/library", "tests/matchers/frontends", "tests/matchers/half", "samples/transformer")
# Longer functions take long.
_LONG = 15_000
_EACH = 40


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, help="which programs and mutants; another each time if left out")
    parser.add_argument("--recorded", type=Path, help="searches that tests wrote to OPSPLICE_PAIRS before")
    arguments = parser.parse_args()
    seed = random.randrange(10**6) if arguments.seed is None else arguments.seed
    print(f"seed {seed}", flush=True)
    rng = random.Random(seed)
    hunt = Hunt()
    sources: list[Iterator[Prey | None]] = [_from_random(rng), _from_tests(rng, arguments.recorded), _from_models(rng)]
    end = time.monotonic() + 60 * arguments.minutes
    told = 0
    for prey in itertools.chain.from_iterable(zip(*map(_forever, sources), strict=True)):
        if prey is not None:
            hunt.go(prey, lambda found: _some(found, rng))
        for finding in hunt.findings[told:]:
            print(f"\n{finding}\n", flush=True)
        told = len(hunt.findings)
        if time.monotonic() > end:
            break
    print(f"{hunt.tally.total()} mutants: " + ", ".join(f"{n} {what}" for what, n in hunt.tally.most_common()))
    return int(bool(hunt.findings))


def _some(found: Sequence[Change], rng: random.Random) -> Sequence[Change]:
    return rng.sample(found, min(len(found), _EACH))


def _forever(source: Iterator[Prey | None]) -> Iterator[Prey | None]:
    return itertools.chain(source, itertools.repeat(None))


def _from_random(rng: random.Random) -> Iterator[Prey]:
    while True:
        each = case(rng.randrange(10**9))
        if not each.wrong:
            yield from preys(each.name, each.text, each.pattern)


def _from_tests(rng: random.Random, path: Path | None) -> Iterator[Prey | None]:
    """What the tests of the matchers search, and find something in; None while they run."""
    with tempfile.TemporaryDirectory() as folder:
        if path is None:
            path = Path(folder) / "searches.jsonl"
            with recording(path) as tests:
                while tests.poll() is None:
                    yield None
        pairs = list(recorded(path))
    rng.shuffle(pairs)
    for each in pairs:
        yield from preys(each.pattern, each.text, each.spec, only=each.pattern)


def _from_models(rng: random.Random) -> Iterator[Prey]:
    """Functions of exported models, with the library's patterns."""
    paths = [path for folder in _MODELS for path in sorted((ROOT / folder).rglob("*.mlir"))]
    rng.shuffle(paths)
    for path in paths:
        for text in at_preprocessing(path):
            if len(text) < _LONG:
                yield from preys(path.name, text, LIBRARY)


if __name__ == "__main__":
    sys.exit(main())
