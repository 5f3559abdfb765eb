"""A backend's own pytest judges as the command does, and ranks do without pytest."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from northbridge_conformance.run import run
from northbridge_conformance.runs.scenario import Scenario

TESTS = """
import pytest

import northbridge
from northbridge import Capabilities, no, yes
from northbridge_conformance.suite import Suite, shows
from northbridge_conformance.tests.device.claimed_operators import PROPERTY
from northbridge.errors import UnsupportedError

northbridge.get("cpu_sim")
backend = northbridge.discovery.declared._declared["cpu_sim"]
object.__setattr__(backend, "capabilities", Capabilities(
    views=yes, float16=no("it has no such unit"), operators={"lstm": no("it has no cell")}
))


UNIT = UnsupportedError("float16 was asked for", capability="float16")


class TestSample(Suite):
    level = "C1"
    adopted_for = "cpu_sim"

    @shows("views")
    def test_claimed_and_works(self):
        pass

    @shows("views")
    def test_claimed_and_fails(self):
        raise AssertionError("it copies")

    @shows("float16")
    def test_denied_and_refused(self):
        raise UNIT

    @shows("float16")
    def test_denied_and_works(self):
        pass

    @pytest.fixture
    def called(self, request):
        request.node.user_properties.append((PROPERTY, "operators.lstm"))

    def test_denied_operator_is_refused(self, called):
        raise UnsupportedError("it raised", capability="operators.lstm")

    def test_denied_operator_works(self, called):
        pass

    @shows("barrier")
    def test_unknown_and_works(self):
        pass

    @shows("barrier")
    def test_unknown_and_fails(self):
        raise AssertionError("it does not wait")

    @pytest.fixture
    def refused(self):
        raise UNIT

    @shows("float16")
    def test_denied_and_what_it_needs_is_refused(self, refused):
        raise AssertionError("never called")

    def test_of_no_claim(self):
        raise UNIT


class TestOfAnAbsentBackend(Suite):
    level = "C1"
    adopted_for = "nobody"

    @shows("views")
    def test_its_claims_are_unreadable_and_it_fails(self):
        raise AssertionError("it copies")

    @shows("views")
    def test_its_claims_are_unreadable_and_it_works(self):
        pass


class Broken:
    @property
    def capabilities(self):
        raise ValueError("the card has no name")


northbridge.discovery.declared._declared["broken"] = Broken()


class TestOfABrokenBackend(Suite):
    level = "C1"
    adopted_for = "broken"

    @shows("views")
    def test_its_claims_raise(self):
        pass


def test_of_somebody_else():
    raise UNIT


class Probe:
    calls = []

    def select(self, index):
        self.calls.append(index)

    def synchronize(self):
        self.calls.append("synchronize")


class TestOfAStranger:
    adopted_for = 5
    claims = "views"
    level = "C1"

    @pytest.fixture
    def chip(self):
        return Probe()

    @pytest.fixture
    def device(self):
        return "probe"

    @pytest.fixture
    def index(self):
        return 3

    def test_strangers_fixtures_are_not_called(self, chip, device, index):
        assert chip.calls == []

    def test_strangers_class_is_not_judged(self):
        raise UNIT


class TestProbe(TestOfAStranger, Suite):
    adopted_for = "cpu_sim"

    def test_class_of_ours_with_other_fixtures(self, chip, device, index):
        assert chip.calls == []
"""

FORGOTTEN = """
from northbridge_conformance.levels import C0


class TestC0(C0):
    backend = "cpu_sim"


def test_of_somebody_else():
    pass
"""


def run_pytest(folder: Path, tests: str, ini: str, *options: str) -> str:
    """Return the output of pytest for a file of ``tests``."""
    (folder / "pytest.ini").write_text(f"[pytest]\n{ini}\n")
    (folder / "test_sample.py").write_text(tests)
    command = [sys.executable, "-m", "pytest", "-v", "-rs", "-p", "no:cacheprovider", "--tb=short", *options]
    return subprocess.run([*command, folder], cwd=folder, capture_output=True, text=True, check=False).stdout


ENDS = {
    "claimed_and_works": "PASSED",
    "claimed_and_fails": "FAILED",
    "denied_operator_is_refused": "PASSED",
    "denied_operator_works": "FAILED",
    "denied_and_refused": "PASSED",
    "denied_and_works": "FAILED",
    "unknown_and_works": "SKIPPED",
    "unknown_and_fails": "SKIPPED",
    "denied_and_what_it_needs_is_refused": "SKIPPED",
    "of_no_claim": "FAILED",
    "of_somebody_else": "FAILED",
    "its_claims_raise": "FAILED",
    "strangers_fixtures_are_not_called": "PASSED",
    "strangers_class_is_not_judged": "FAILED",
    "class_of_ours_with_other_fixtures": "PASSED",
    "its_claims_are_unreadable_and_it_fails": "FAILED",
    "its_claims_are_unreadable_and_it_works": "FAILED",
}


def test_a_test_ends_as_its_verdict_and_says_why(tmp_path: Path) -> None:
    said = run_pytest(tmp_path, TESTS, "addopts = -p northbridge_conformance.pytest_plugin")

    ended = re.findall(r"::test_(\w+) (PASSED|FAILED|SKIPPED)", said)
    assert {name: word for name, word in ended if name in ENDS} == ENDS
    assert "UNDERCLAIM: cpu_sim says float16: no, and it works; claim it, or refuse it" in said
    assert "cpu_sim says barrier: unknown; it worked" in said
    assert "cpu_sim says barrier: unknown; it failed" in said
    assert "cpu_sim says float16: no, and it is refused" in said
    assert "E   AssertionError: it copies" in said
    assert "\nValueError: the card has no name\n" in said
    assert "nobody" in said.partition("test_its_claims_are_unreadable_and_it_works")[2]


def test_suite_without_the_plugin_is_not_collected(tmp_path: Path) -> None:
    said = run_pytest(tmp_path, FORGOTTEN, "", "--continue-on-collection-errors")

    assert "1 passed" in said
    assert (
        "TestC0.TestDeclaration: pytest has not loaded Northbridge's plugin, which judges these tests."
        ' Fix: addopts = ["-p", "northbridge_conformance.pytest_plugin"] in [tool.pytest.ini_options]\n'
    ) in said


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
sys.exit(pytest.main(["-q", "-p", "northbridge_conformance.pytest_plugin", "-c", "pytest.ini", "test_sample.py"]))
"""


def test_a_rank_has_every_behaviour_without_pytest(tmp_path: Path) -> None:
    (tmp_path / "reporting.py").write_text(REPORTING)

    found = run(Scenario("cpu", "", ("reporting:look",)), {"PYTHONPATH": str(tmp_path)}).only("look")

    assert not found["pytest"]
    assert "northbridge_conformance.tests.lightning.training" in found["modules"]


def test_tests_imported_before_pytest_are_refused(tmp_path: Path) -> None:
    """Their decorators did nothing."""
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_sample.py").write_text(FORGOTTEN)

    ran = subprocess.run([sys.executable, "-c", EARLY], cwd=tmp_path, capture_output=True, text=True, check=False)

    assert ran.returncode
    assert "northbridge_conformance.suite was imported before pytest. Fix: import it first" in ran.stdout
