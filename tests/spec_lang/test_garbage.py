"""Python's search for cycles of garbage is held back, and comes back."""

from __future__ import annotations

import gc

import pytest

from opsplice.spec_lang import garbage


def test_garbage_is_collected_again_afterwards_also_where_something_failed() -> None:
    held: list[bool] = []

    def fail() -> None:
        with garbage.kept():
            with garbage.kept():
                pass
            held.append(not gc.isenabled())
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert held == [True]
    assert gc.isenabled()


def test_what_is_held_back_by_others_stays_so() -> None:
    gc.disable()
    try:
        with garbage.kept():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
