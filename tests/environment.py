"""Calls under other variables of the environment."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, TypeVar
from unittest import mock

Made = TypeVar("Made")


def under(environ: Mapping[str, str], function: Callable[..., Made], *args: Any, **keywords: Any) -> Made:
    """What a function gives where these variables are set."""
    with mock.patch.dict(os.environ, environ):
        return function(*args, **keywords)
