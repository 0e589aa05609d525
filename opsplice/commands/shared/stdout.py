"""Keeps stdout for what a command answers: what others print meanwhile goes to stderr."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def kept_free() -> Iterator[None]:
    """Meanwhile what is written to stdout, by code of the user's, its libraries and its children, goes to stderr."""
    sys.stdout.flush()
    try:
        kept = os.dup(1)
    except OSError:  # there is none
        yield
        return
    os.dup2(2, 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)
