from __future__ import annotations

import re
from enum import Enum
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.core.lightning.conftest import Build, Claims, refusal
from torch.profiler import ProfilerActivity, schedule

from northbridge.capabilities import no
from northbridge.discovery import declared
from northbridge.errors import UnsupportedError
from northbridge.lightning.namespaces import Namespace
from northbridge.lightning.profilers import profile as profiles
from northbridge.lightning.vendor_names.plugins import ProfilerName

# Lightning's CombinedLoader asks torch's trees in a way that torch deprecates.
pytestmark = pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning")


@pytest.fixture
def namespace(trainer_namespace: Namespace) -> Namespace:
    """Each namespace with a Trainer."""
    return trainer_namespace


def profile(namespace: Namespace, build: Build, folder: Path, **asked: Any) -> str:
    """Fit under Lightning's profiler, and return what it has written."""
    measured = namespace.module("profilers").PyTorchProfiler(dirpath=folder, filename="profile", **asked)
    few = {"max_epochs": 1, "limit_train_batches": 6, "limit_val_batches": 0, "log_every_n_steps": 1}
    host = build(accelerator="cpu_sim", devices=1, profiler=measured, **few)
    host.fit(namespace.module("demos.boring_classes").BoringModel())
    return (folder / "fit-profile.txt").read_text()


def test_activities_that_the_user_names_are_recorded(namespace: Namespace, build: Build, tmp_path: Path) -> None:
    said = profile(namespace, build, tmp_path, activities=[ProfilerActivity.CPU])

    assert "aten::" in said
    assert "CPU_SIM total" not in said
    assert "device events" not in said


@pytest.mark.parametrize("exports", [True, False])
def test_the_devices_events_follow_lightnings_table(
    namespace: Namespace, build: Build, tmp_path: Path, exports: bool
) -> None:
    said = profile(namespace, build, tmp_path, export_to_chrome=exports, row_limit=2)

    heading, *rows = said.partition("Profile stats for: device events of cpu_sim")[2].strip().splitlines()
    assert "CPU_SIM total" in said
    assert re.search(r"Self CPU_SIM time total: \d", said)
    assert heading.split() == ["name", "count", "total", "mean", "share"]
    assert all(row.startswith("cpu_sim::") for row in rows[1:3])
    assert rows[-1].startswith("all ")
    assert rows[-1].endswith("100.0%")
    assert said.count("FIT Profiler Report") == 1
    assert len(list(tmp_path.glob("*.trace.json"))) == exports


def test_a_run_that_ends_before_the_schedule_records_says_so(
    namespace: Namespace, build: Build, tmp_path: Path
) -> None:
    said = profile(namespace, build, tmp_path, schedule=schedule(wait=10, warmup=1, active=1))

    assert said == (
        "FIT Profiler Report\nProfile stats for: device events of cpu_sim\nnone: the run ended before the first step"
        " that the schedule records. Fix: lower wait= and warmup= of the schedule, or run more steps"
    )


def test_a_handler_of_the_users_is_called_and_its_file_is_read(
    namespace: Namespace, build: Build, tmp_path: Path
) -> None:
    said = profile(
        namespace,
        build,
        tmp_path,
        on_trace_ready=lambda measured: measured.export_chrome_trace(str(tmp_path / "own.json.gz")),
    )

    assert "cpu_sim::addmm" in said
    assert (tmp_path / "own.json.gz").exists()


def damage(measured: Any, path: Path) -> None:
    measured.export_chrome_trace(str(path))
    path.write_bytes(path.read_bytes()[:100])


@pytest.mark.parametrize(
    ("handler", "told"),
    [
        (lambda measured, path: measured.profiler.export_chrome_trace(str(path)), "the trace cannot be exported: "),
        (damage, "own.json is not complete JSON: "),
    ],
)
def test_a_trace_that_cannot_be_read_is_said_and_ends_no_run(
    namespace: Namespace, build: Build, tmp_path: Path, handler: Any, told: str
) -> None:
    said = profile(namespace, build, tmp_path, on_trace_ready=lambda measured: handler(measured, tmp_path / "own.json"))

    assert "device events of cpu_sim\nnone could be read\n" in said
    assert told in said


def test_a_chip_that_denies_it_is_named_with_the_reason(
    namespace: Namespace, build: Build, claims: Claims, tmp_path: Path
) -> None:
    claims(profiler=no("its tool traces all or nothing"))

    said = profile(namespace, build, tmp_path)

    assert "aten::" in said
    assert said.endswith("none: 'cpu_sim' cannot be profiled: its tool traces all or nothing")


def test_report_on_the_cpu_is_unchanged(
    namespace: Namespace, build: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(profiles, "loaded", lambda: None)

    assert "device events" not in profile(namespace, build, tmp_path)


def test_profiler_made_before_the_chip_is_told_at_its_begin(claims: Claims) -> None:
    """Unless the chip denies that it can be profiled."""
    declared.load("cpu_sim")
    chosen = {"activities": profiles.Unasked([ProfilerActivity.CPU])}

    for _ in range(2):  # the second profile of a run too
        profiles.add_chip(chosen)

    assert chosen["activities"] == [ProfilerActivity.CPU, ProfilerActivity.PrivateUse1]
    claims(profiler=no("its tool traces all or nothing"))
    chosen = {"activities": profiles.Unasked([ProfilerActivity.CPU])}
    profiles.add_chip(chosen)
    assert chosen["activities"] == [ProfilerActivity.CPU]


class Vendors(Enum):
    CPU = 1
    PrivateUse1 = 2


def test_activities_are_those_of_the_vendors_enumeration(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Lightning has imported torch's enumeration before."""
    declared.load("cpu_sim")
    monkeypatch.setattr(torch.profiler, "ProfilerActivity", Vendors)
    chosen = {"activities": [ProfilerActivity.CPU, ProfilerActivity.MTIA]}

    profiles.add_chip(chosen)

    assert chosen["activities"] == [Vendors.CPU, ProfilerActivity.MTIA]


class FlintProfiler(ProfilerName, backend="flint"):
    """A name of another chip."""


def test_a_vendors_name_on_another_chip_is_refused(build: Build) -> None:
    said = refusal(UnsupportedError, build, accelerator="cpu", profiler=FlintProfiler())

    assert said == "FlintProfiler is for 'flint', not for accelerator='CPUAccelerator'. Fix: profiler='pytorch'"
