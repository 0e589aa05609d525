"""Names of captured patterns: none is a word of the language."""

from __future__ import annotations

from pathlib import Path

import pytest

from opsplice.common.errors import OpspliceError
from opsplice.reports.captured import check_name, name_for


@pytest.mark.parametrize("word", ["exp", "band", "take"])
def test_words_of_the_language_are_no_names(word: str) -> None:
    assert name_for(Path(f"{word}.splice")) == f"{word}_pattern"
    with pytest.raises(OpspliceError, match=f"'{word}' (is the name of an op|cannot be a pattern's name)"):
        check_name(word)
    assert check_name(f"{word}_pattern") == f"{word}_pattern"
