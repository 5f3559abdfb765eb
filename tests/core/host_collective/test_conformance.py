"""The suite judges HostCollective as any library, and a chip that says None as one that trains alone.

The chip trains in one package of Lightning; cpu_sim's proof has both.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.backends.one_namespace import leaving_to_cpu_sim
from tests.core.conftest import Site, install_in
from tests.faults.wrong_backends import try_backend

from northbridge_conformance.report.report import TestResult
from northbridge_conformance.run import FOLDER, folder_of_runs
from northbridge_conformance.verdict import Verdict

pytestmark = pytest.mark.timeout(1800)  # a run of the suite each

LIBRARY = (
    "C3/CollectiveReductions/",
    "C3/Transfers/",
    "C3/OptionalCollectives/",
    "C3/Groups/",
    "C3/RepeatedGroups/",
    "C3/Waits/",
    "C3/MissingRank/",
    "C3/GradientAveraging/",
    "C3/FirstStep/",
)
LIGHTNING = (
    "C3/DistributedTraining/",
    "C3/DataLoading/",  # the chip denies pinned memory
    "C3/Checkpoints/",
    "C3/Sharding/",
    "C3/Resharding/",
    "C3/FSDP/",
)
TWO_NODES = ("C4/Launches/test_a_trainer_is_started_by_an_external_launcher[two nodes]",)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    return install_in(tmp_path_factory.mktemp("hosted"), "hosted")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the runs: the CPU's serves all."""
    return folder_of_runs() or tmp_path_factory.mktemp("runs")


Judge = Callable[..., list[TestResult]]


@pytest.fixture
def judge(site: Site, runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Judge:
    """Run tests of the suite on the chip."""

    def judge(only: tuple[str, ...], **more: str) -> list[TestResult]:
        for name, value in more.items():
            monkeypatch.setenv(name, value)
        environ = leaving_to_cpu_sim({**site.environ(), FOLDER: str(runs)}, tmp_path / "left.txt")
        return try_backend("hosted", only[0].partition("/")[0], only, environ)

    monkeypatch.setattr(sys, "path", [*map(str, site.folders), *sys.path])
    return judge


@pytest.mark.parametrize("only", [LIBRARY, LIGHTNING, TWO_NODES], ids=["library", "Lightning", "two nodes"])
def test_suite_passes_over_the_host(judge: Judge, only: tuple[str, ...]) -> None:
    results = judge(only)

    assert [part for part in only if not any(part in each.id for each in results)] == []
    assert [(each.id, each.evidence[-800:]) for each in results if each.verdict is not Verdict.PASS] == []


def test_chip_without_a_library_passes_what_it_claims(judge: Judge) -> None:
    results = judge(("C0/",), HOSTED_ALONE="1")

    assert results
    assert [(each.id, each.evidence[-800:]) for each in results if each.verdict is Verdict.FAIL] == []
