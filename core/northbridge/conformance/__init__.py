"""The tests that every backend must pass, shipped with Northbridge.

Plain pytest classes, a few for each level (:mod:`northbridge.conformance.levels`, which says how a backend's own tests
adopt them). ``northbridge conformance`` runs them in a pytest that it watches, and writes a report.

They compare with the CPU, with one process, or with a value worked out in the test. Whatever trains does so in
processes of its own, as users' scripts do; tests that ask about one run share it.
"""

from __future__ import annotations

import sys

MODULES = (
    "agreement",
    "autocast",
    "averaging",
    "callbacks",
    "checkpoints",
    "collective_reductions",
    "compilation",
    "declaration",
    "detection",
    "device",
    "devices",
    "distributed_training",
    "dtypes",
    "endurance",
    "fabric",
    "gradients",
    "groups",
    "hooks",
    "interruptions",
    "joining",
    "launches",
    "layers",
    "loading",
    "memory",
    "metrics",
    "missing_parts",
    "missing_rank",
    "normalization",
    "operations",
    "optimization",
    "out_of_memory",
    "outlasting",
    "pickling",
    "placement",
    "plugin_import",
    "plugin_metadata",
    "precision",
    "profilers",
    "random_numbers",
    "random_states",
    "reductions",
    "refusals",
    "saved_tensors",
    "sharding",
    "side_by_side",
    "software_loading",
    "strategies",
    "streams",
    "suite",
    "training",
    "transfers",
    "views",
    "waits",
)
"""The modules with tests."""

# Without this a vendor sees a bare AssertionError: pytest rewrites assertions in test files alone. Where it does not
# run, it need not be there: reports are read and compared without it.
if "pytest" in sys.modules:
    import pytest

    pytest.register_assert_rewrite(*(f"northbridge.conformance.{module}" for module in MODULES))
