"""pytest, which a rank does not import: it would add 0.1 s to the start of each.

The functions that ranks run stand beside the tests that judge them. In a process that has not imported pytest, the
decorators of these tests do nothing, and any other name imports it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any


class _Undecorated:
    """pytest in a rank."""

    @property
    def mark(self) -> _Undecorated:
        return self

    def parametrize(self, *_: object, **__: object) -> Callable[[Any], Any]:
        return lambda decorated: decorated

    def fixture(self, function: Any = None, **_: object) -> Any:
        return (lambda decorated: decorated) if function is None else function

    def __getattr__(self, name: str) -> Any:
        import pytest

        return getattr(pytest, name)


IS_HERE: bool = "pytest" in sys.modules
"""True if the decorators are pytest's own."""

if TYPE_CHECKING or IS_HERE:
    import pytest as pytest
else:
    pytest = _Undecorated()
