"""Processes that tests start do not see what `make setup` keeps apart: scipy and matplotlib (pyproject.toml, science).

They see it again where a test takes the variable back. pytest itself sees it, and so does whoever runs an example.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

WITHOUT_SCIENCE = "WITHOUT_SCIENCE"
"""What the environment's science.pth asks for, when Python starts."""

os.environ[WITHOUT_SCIENCE] = "1"

collect_ignore = ["vendors"]  # some of the distributions there bring tests of their own, for where they are installed


@pytest.fixture(scope="module")
def with_science() -> Iterator[None]:
    """Let the processes of a module's tests see scikit-learn and matplotlib."""
    with pytest.MonkeyPatch.context() as environ:
        environ.delenv(WITHOUT_SCIENCE)
        yield
