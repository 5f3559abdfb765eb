"""Chips that are right, and compute otherwise than the CPU as they say: none of their tests fails."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.core.broken_plugins import write_distribution
from tests.core.conftest import Site
from tests.faults.wrong_backends import VENDOR, try_backend

from northbridge_conformance.report.report import TestResult
from northbridge_conformance.run import FOLDER, folder_of_runs
from northbridge_conformance.verdict import Ending, Verdict
from northbridge_cpu_sim import STRICT_OPTIONS

pytestmark = pytest.mark.timeout(1800)  # a run of most tests of one device each

NAMES: dict[str, dict[str, str]] = {"partial": {}, "coarse": {"NORTHBRIDGE_CPU_SIM_ORDER": "other"}}
"""The chips, each with the options of the simulated chip that it is."""

CLASSES = ("Operations", "OperationOptions", "LargeOperations", "Layers", "Traces", "Gradients", "Views")
CALLED = "C1/Operations/test_result_and_gradient_match_the_cpu[{}]"

Run = Callable[[str], dict[str, TestResult]]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Run the tests of these classes on a chip, once."""
    root = tmp_path_factory.mktemp("right")
    plugins = {name: f"northbridge_{name}" for name in NAMES}
    write_distribution(root / "site", "northbridge-right-chips", "1.0", {"northbridge.backends": plugins})
    site = Site((VENDOR, root / "site"), root)
    found: dict[str, dict[str, TestResult]] = {}

    def run(name: str) -> dict[str, TestResult]:
        if name not in found:
            environ = {FOLDER: str(folder_of_runs() or root), **site.environ(), **STRICT_OPTIONS, **NAMES[name]}
            only = tuple(f"C1/{each}/" for each in CLASSES)
            with pytest.MonkeyPatch.context() as patch:
                for folder in site.folders:
                    patch.syspath_prepend(folder)
                found[name] = {result.id: result for result in try_backend(name, "C1", only, environ)}
        return found[name]

    return run


@pytest.mark.parametrize("name", NAMES)
def test_none_is_charged_to_it(run: Run, name: str) -> None:
    results = run(name)

    assert len(results) > 900
    assert [(each.id, each.evidence[-800:]) for each in results.values() if each.verdict is not Verdict.PASS] == []


def test_denied_operator_is_refused_with_its_reason(run: Run) -> None:
    result = run("partial")[CALLED.format("erfinv")]

    assert (result.ending, result.claims[-1]) == (Ending.REFUSED, "operators.erfinv")
    assert "denies the operator erfinv (it has no table for it), and it raised" in result.evidence


def test_loosened_operator_works(run: Run) -> None:
    result = run("partial")[CALLED.format("asin")]

    assert (result.ending, result.claims[-1]) == (Ending.WORKED, "operators.asin")
