"""The tests that every backend must pass, shipped with Northbridge.

Plain pytest classes, a few for each level (:mod:`northbridge.conformance.levels`, which says how a backend's own tests
adopt them), in a package for each: ``plugin``, ``device``, ``lightning``, ``collective``, ``endurance``. ``northbridge
conformance`` runs them in a pytest that it watches (``runner``), and writes a report (``report``).

They compare with the CPU, with one process, or with a value worked out in the test. Whatever trains does so in
processes of its own (``runs``), as users' scripts do; tests that ask about one run share it.
"""

from __future__ import annotations

import sys

WITH_TESTS = ("suite", "tests")
"""The packages, and the module, that assert."""


def rewrite_assertions() -> None:
    """Have failing assertions of the suite show their values, which pytest does for test files alone.

    Without it a vendor sees a bare AssertionError. Called before any of :data:`WITH_TESTS` is imported.
    """
    import pytest

    pytest.register_assert_rewrite(*(f"northbridge.conformance.{module}" for module in WITH_TESTS))


# Where pytest does not run, it need not be there: reports are read and compared without it.
if "pytest" in sys.modules:
    rewrite_assertions()
