"""Chips are tested as harsh as they come, and each personality in a pytest of its own.

``NORTHBRIDGE_SIMULATE=name pytest tests/backends/name`` runs them; ``make test`` does so for each: torch serves one
accelerator per process.
"""

from __future__ import annotations

import os

import pytest

from northbridge.discovery import announced
from northbridge.personality import GROUP

HARSH = {
    "NORTHBRIDGE_CPU_SIM_STREAMS": "deferred",
    "NORTHBRIDGE_CPU_SIM_FRESH": "nan",
    "NORTHBRIDGE_CPU_SIM_CHECK_COLLECTIVES": "1",
}
"""What a test may take back for a process that it starts."""

for _variable, _value in HARSH.items():
    os.environ.setdefault(_variable, _value)

collect_ignore = [plugin.name for plugin in announced(GROUP) if plugin.name != os.environ.get("NORTHBRIDGE_SIMULATE")]

# pytest rewrites assertions in test files alone, and these are the bodies of tests.
pytest.register_assert_rewrite("tests.backends.posed")
