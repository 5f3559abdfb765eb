"""torch serves one accelerator per process: the tests of a personality run in a pytest of their own.

``NORTHBRIDGE_SIMULATE=name pytest tests/backends/name`` runs them; ``make test`` does so for each.
"""

from __future__ import annotations

import os

import pytest

from northbridge.discovery import announced
from northbridge.personality import GROUP

collect_ignore = [plugin.name for plugin in announced(GROUP) if plugin.name != os.environ.get("NORTHBRIDGE_SIMULATE")]

# pytest rewrites assertions in test files alone, and these are the bodies of tests.
pytest.register_assert_rewrite("tests.backends.posed")
