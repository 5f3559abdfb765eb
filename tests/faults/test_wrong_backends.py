"""Each backend that is wrong on purpose is caught, by a test that its right parent passes in the same run."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from tests.faults.wrong_backends import PAGE, PARENT, Fault, Trial, catching, install_wrong, read_faults
from tests.tiers import draw, read_seed

from northbridge_conformance.levels import LEVELS
from northbridge_conformance.run import folder_of_runs
from northbridge_conformance.runner.supervisor import plan
from northbridge_conformance.verdict import Verdict

pytestmark = pytest.mark.timeout(1800)  # a test waits for those before it


ON_ROUNDING = draw([each for fault in read_faults() if (each := fault.on_a_chip_that_rounds())], read_seed())
"""Those that are tried on a chip that rounds; ``python -m tests.faults.wrong_backends --rounding`` tries all."""


@pytest.fixture(scope="module")
def trial(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trial]:
    """The runs that the chosen tests ask for; the first is waited for the longest."""
    yield from _try(request, tmp_path_factory, read_faults(), "test_it_is_caught_and_its_parent_is_not")


@pytest.fixture(scope="module")
def rounding_trial(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trial]:
    """The same on a chip that rounds."""
    yield from _try(request, tmp_path_factory, ON_ROUNDING, "test_it_is_caught_on_a_chip_that_rounds", rounding=True)


def _try(
    request: pytest.FixtureRequest,
    paths: pytest.TempPathFactory,
    faults: Iterable[Fault],
    test: str,
    *,
    rounding: bool = False,
) -> Iterator[Trial]:
    root = paths.mktemp("wrong")
    runs = folder_of_runs() or root / "runs"
    runs.mkdir(exist_ok=True)
    asked = {item.name for item in request.session.items}
    chosen = [fault for fault in faults if f"{test}[{fault.backend}]" in asked]
    trial = Trial(install_wrong(root), runs, chosen, rounding=rounding)
    yield trial
    trial.end()


def test_every_wrong_backend_has_a_test_that_ought_to_catch_it() -> None:
    faults, part = read_faults(), "northbridge_wrong."
    announced = [name for name in sys.modules if hasattr(sys.modules[name], "northbridge_backend")]
    wrong = {name.replace(part, "wrong_") for name in announced if name.startswith(part)}

    assert wrong | {"wrong_import_waits"} == {fault.backend for fault in faults}  # that one announces itself elsewhere


def test_every_test_that_ought_to_catch_one_is_there(tmp_path: Path) -> None:
    planned = plan(tmp_path, PARENT, tuple(LEVELS))
    named = [test for fault in read_faults() for test in (fault.test, fault.rounding) if test]

    assert [test for test in named if not any(test in each for each in planned)] == []


def test_the_page_is_a_record_of_all_of_them() -> None:
    rows = [line.strip("| ").split(" | ") for line in PAGE.read_text().splitlines() if line.startswith("| ")][1:]

    assert [fault for fault, *_ in rows] == [fault.fault for fault in read_faults()]
    for fault, (_, caught_by, verdict, parent) in zip(read_faults(), rows, strict=True):
        assert fault.test in caught_by, "write it anew: python -m tests.faults.wrong_backends"
        assert verdict in (Verdict.FAIL.value, Verdict.UNDERCLAIM.value, Verdict.TIMEOUT.value)
        assert parent == "passes"


@pytest.mark.parametrize("fault", read_faults(), ids=lambda fault: fault.backend)
def test_it_is_caught_and_its_parent_is_not(trial: Trial, fault: Fault) -> None:
    _check(trial, fault)


@pytest.mark.parametrize("fault", ON_ROUNDING, ids=lambda fault: fault.backend)
def test_it_is_caught_on_a_chip_that_rounds(rounding_trial: Trial, fault: Fault) -> None:
    _check(rounding_trial, fault)


def _check(trial: Trial, fault: Fault) -> None:
    results, parents = trial.of(fault), trial.of_the_parent(fault)

    assert catching(results), [(result.id, result.verdict.value, result.evidence[-800:]) for result in results]
    assert parents
    assert [(each.id, each.evidence[-800:]) for each in parents if each.verdict is not Verdict.PASS] == []


@pytest.mark.parametrize(
    ("backend", "error", "following"),
    [
        (
            "wrong_error_comes_late",
            "the kernel of prelu has failed",
            "C1/Layers/test_forward_and_backward_match_the_cpu[CrossEntropyLoss]",
        ),
        (
            "wrong_group_asserts",
            "this group has no store",
            "C3/GradientAveraging/test_weights_match_training_in_one_process[two devices]",
        ),
    ],
)
def test_error_fails_its_own_test_alone(tmp_path: Path, backend: str, error: str, following: str) -> None:
    """The test that ought to fail does so, and ``following`` passes in the same processes."""
    (fault,) = (fault for fault in read_faults() if fault.backend == backend)
    trial = Trial(install_wrong(tmp_path), tmp_path, [], together=True)

    try:
        found = trial.start(backend, fault.level, {fault.test, following}).result()
    finally:
        trial.end()

    failed, passed = sorted(found, key=lambda result: result.verdict.value)
    assert (failed.id, failed.verdict) == (fault.test, Verdict.FAIL)
    assert (passed.id, passed.verdict) == (following, Verdict.PASS), passed.evidence
    assert error in failed.evidence
