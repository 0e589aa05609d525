"""What a terminal and a notebook show of a value: the same text, in a notebook with its colours as styles."""

from __future__ import annotations

import re
from html import escape
from itertools import zip_longest

from opsplice.reports.render import without_flags

FAINT = "opacity: 0.65"
_STYLES = {"1": "font-weight: bold", "2": FAINT, "31": "color: #d33", "32": "color: #2a2", "33": "color: #b80"}
_STYLES["36"] = "color: #088"
_CODE = re.compile(r"\033\[(\d+)m(.*?)\033\[0m", re.DOTALL)


class Shown:
    """What says in `text_shown` how it looks in a terminal."""

    def text_shown(self, color: bool) -> str:
        """The text, for those who gave a command."""
        raise NotImplementedError

    def __str__(self) -> str:
        """What a terminal shows."""
        return without_flags(self.text_shown(False))

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return preformatted(without_flags(self.text_shown(True)))


def preformatted(text: str) -> str:
    """Text of a terminal as HTML; colours are left to the page, light or dark, and what matters less is fainter."""
    pieces = _CODE.split(text)
    styled = zip_longest(pieces[::3], pieces[1::3], pieces[2::3], fillvalue="")
    lines = "".join(
        escape(plain) + (f'<span style="{_STYLES[code]}">{escape(of)}</span>' if code else "")
        for plain, code, of in styled
    )
    return f'<pre style="text-align: left">{lines}</pre>'
