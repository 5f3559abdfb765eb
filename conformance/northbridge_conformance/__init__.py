"""The tests that every backend must pass, in a distribution of their own.

Plain pytest classes, a few for each level, in a package for each: ``plugin``, ``device``, ``lightning``,
``collective``, ``endurance``. A backend's own tests adopt them by :mod:`northbridge_conformance.levels`.
``northbridge conformance`` runs them in a pytest that it supervises (``runner``), and writes a report (``report``).

They compare with the CPU, with one process, or with a value computed in the test. Training runs in processes of its
own (``runs``), as users' scripts do; tests that ask about one run share it.
"""

from __future__ import annotations

import sys

WITH_TESTS = ("suite", "tests")
"""The packages and the module whose assertions pytest must rewrite."""


def rewrite_assertions() -> None:
    """Make failing assertions of the suite show their values, which pytest by itself does for test files only.

    Without it a vendor sees a bare AssertionError. Called before any of :data:`WITH_TESTS` is imported.
    """
    import pytest

    pytest.register_assert_rewrite(*(f"northbridge_conformance.{module}" for module in WITH_TESTS))


# Where pytest does not run, it need not be installed: reports are read and compared without it.
if "pytest" in sys.modules:
    rewrite_assertions()
