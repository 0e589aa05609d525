"""One target's inputs until the time is over, in a process of its own: python -m tests.fuzz.campaign TARGET SECONDS.

atheris guides them by the lines that they reach, where it is installed and the code that reads them is Python.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import sys
import tempfile
import time
from random import Random
from typing import TYPE_CHECKING, Any

from tests.fuzz.mutation import LARGEST, mutant

if TYPE_CHECKING:
    from tests.fuzz.targets import Target

# How many of the inputs are changed by libFuzzer, which knows nothing of words.
_BY_BYTES = 0.3


def main() -> None:
    name, seconds = sys.argv[1], int(sys.argv[2])
    atheris = _atheris()
    # What is imported meanwhile tells which of its lines run; so the seeds are read here, which imports all there is.
    with atheris.instrument_imports(include=["opsplice"]) if atheris else contextlib.nullcontext():
        from tests.fuzz.targets import TARGETS

        target = next(target for target in TARGETS if target.name == name)
        campaign = _Campaign(target, seconds)
        # Names of files in inputs lead nowhere from there.
        os.chdir(tempfile.mkdtemp(prefix="opsplice-fuzz-"))
        for seed in campaign.seeds:
            campaign.judge(seed)
    if atheris is None or target.native:
        campaign.blindly()
    else:
        campaign.guided(atheris)


def _atheris() -> Any:
    try:
        import atheris
    except ImportError:
        print("atheris is not installed: inputs are not guided by what they reach")
        return None
    return atheris


class _Campaign:
    def __init__(self, target: Target, seconds: int) -> None:
        from tests.fuzz.targets import BUILD

        self.target = target
        self.seconds = seconds
        self.end = time.monotonic() + seconds
        self.folder = BUILD / target.name
        self.seeds = [*target.seeds(), *target.found()]
        self.failures: dict[str, str] = {}
        self.inputs = self.refused = 0
        self.saved = 0.0

    def blindly(self) -> None:
        random = Random(time.time_ns())
        while time.monotonic() < self.end:
            self.judge(mutant(random.choice(self.seeds), self.seeds, random))
        self.save()

    def guided(self, atheris: Any) -> None:
        corpus = self.folder / "corpus"
        corpus.mkdir(exist_ok=True)
        for seed in self.seeds:
            (corpus / hashlib.sha256(seed).hexdigest()[:16]).write_bytes(seed)

        def changed(data: bytes, largest: int, number: int) -> bytes:
            random = Random(number)
            if random.random() < _BY_BYTES:
                return atheris.Mutate(data, largest)
            return mutant(data, self.seeds, random, largest)

        limits = [f"-max_total_time={self.seconds}", f"-max_len={LARGEST}", "-rss_limit_mb=6000", "-timeout=600"]
        arguments = [sys.argv[0], *limits, "-len_control=0", f"-artifact_prefix={self.folder}/", str(corpus)]
        atheris.Setup(arguments, self.judge, custom_mutator=changed)
        atheris.Fuzz()  # it ends the process

    def judge(self, data: bytes) -> None:
        from tests.fuzz.judging import outcome

        (self.folder / "last").write_bytes(data)
        self.inputs += 1
        found = outcome(self.target.read, data)
        self.refused += found.refused
        if found.failure and found.failure not in self.failures:
            path = self.folder / re.sub(r"\W+", "-", found.failure)
            path.write_bytes(data)
            path.with_name(f"{path.name}.txt").write_text(found.trace, errors="surrogateescape")
            self.failures[found.failure] = str(path)
            self.save()
        if time.monotonic() > self.saved + 1:
            self.save()

    def save(self) -> None:
        told = {"inputs": self.inputs, "refused": self.refused, "failures": self.failures}
        (self.folder / "result.json").write_text(json.dumps(told))
        self.saved = time.monotonic()


if __name__ == "__main__":
    main()
