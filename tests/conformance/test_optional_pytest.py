"""pytest, which ranks do not import."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from northbridge_conformance.run import run
from northbridge_conformance.runs.scenario import Scenario

REPORTING = """
import pkgutil, sys
from importlib import import_module
from northbridge_conformance import tests
from northbridge_conformance.runs.scenario import write

def look(scenario, folder):
    modules = [each.name for each in pkgutil.walk_packages(tests.__path__, f"{tests.__name__}.")]
    for each in modules:
        import_module(each)
    write(folder, "look", 0, {"modules": modules, "pytest": "pytest" in sys.modules})
"""

EARLY = """
import sys
import northbridge_conformance.suite
import pytest
sys.exit(pytest.main(["-q", "-p", "northbridge_conformance.pytest_plugin", "-c", "pytest.ini", "test_early.py"]))
"""

TEST = """
from northbridge_conformance.suite import Suite

class TestAcme(Suite):
    def test_nothing(self):
        pass
"""


def test_a_rank_has_every_behaviour_without_pytest(tmp_path: Path) -> None:
    (tmp_path / "reporting.py").write_text(REPORTING)

    found = run(Scenario("cpu", "", ("reporting:look",)), {"PYTHONPATH": str(tmp_path)}).only("look")

    assert not found["pytest"]
    assert "northbridge_conformance.tests.lightning.training" in found["modules"]


def test_tests_imported_before_pytest_are_refused(tmp_path: Path) -> None:
    """Their decorators did nothing."""
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_early.py").write_text(TEST)

    ran = subprocess.run(
        [sys.executable, "-c", EARLY], cwd=tmp_path, env={**os.environ}, capture_output=True, text=True, check=False
    )

    assert ran.returncode
    assert "northbridge_conformance.suite was imported before pytest. Fix: import it first" in ran.stdout
