"""The suite judges HostCollective as any library, and a chip that says None as one that trains alone."""

from __future__ import annotations

from pathlib import Path

import pytest
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
LIGHTNING = ("C3/DistributedTraining/", "C3/Checkpoints/", "C3/Sharding/", "C3/Resharding/", "C3/FSDP/")
TWO_NODES = ("C4/Launches/test_a_trainer_is_started_by_an_external_launcher[two nodes]",)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    return install_in(tmp_path_factory.mktemp("hosted"), "hosted")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the runs: the CPU's serves all."""
    return folder_of_runs() or tmp_path_factory.mktemp("runs")


def judge(site: Site, runs: Path, only: tuple[str, ...], **more: str) -> list[TestResult]:
    return try_backend("hosted", only[0].partition("/")[0], only, {**site.environ(**more), FOLDER: str(runs)})


@pytest.mark.parametrize("only", [LIBRARY, LIGHTNING, TWO_NODES], ids=["library", "Lightning", "two nodes"])
def test_suite_passes_over_the_host(site: Site, runs: Path, only: tuple[str, ...]) -> None:
    results = judge(site, runs, only)

    assert [part for part in only if not any(part in each.id for each in results)] == []
    assert [(each.id, each.evidence[-800:]) for each in results if each.verdict is not Verdict.PASS] == []


def test_chip_without_a_library_passes_what_it_claims(site: Site, runs: Path) -> None:
    results = judge(site, runs, ("C0/",), HOSTED_ALONE="1")

    assert results
    assert [(each.id, each.evidence[-800:]) for each in results if each.verdict is Verdict.FAIL] == []
