"""How much random tests try: a little for each commit, a lot with OPSPLICE_SOAK=1 (`make soak`)."""

from __future__ import annotations

import os


def examples(each_commit: int, at_night: int) -> int:
    return at_night if os.environ.get("OPSPLICE_SOAK") else each_commit
