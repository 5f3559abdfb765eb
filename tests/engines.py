"""The libraries of float8, which `make engines` keeps apart from .venv: only processes that need them see them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / ".engines"
READY = FOLDER / ".ready"

needs_engines = pytest.mark.skipif(not READY.exists(), reason=f"{READY.name} is not in .engines: make engines")
"""Skip a test where they are not installed."""


def with_engines(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return ``environ`` for a process that sees them, if they are installed."""
    if not READY.exists():
        return dict(environ)
    path = [each for each in (environ.get("PYTHONPATH"), str(FOLDER)) if each]
    return {**environ, "PYTHONPATH": os.pathsep.join(path)}
