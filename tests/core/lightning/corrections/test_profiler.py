from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from tests.core.lightning.conftest import Build, Claims
from torch.profiler import ProfilerActivity

from northbridge.capabilities import no
from northbridge.discovery import declared, named
from northbridge.lightning.corrections import profiler
from northbridge.lightning.namespaces import Namespace

# Lightning's CombinedLoader asks torch's trees in a way that torch deprecates.
pytestmark = pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning")


@pytest.fixture
def namespace(trainer_namespace: Namespace) -> Namespace:
    """Each namespace with a Trainer."""
    return trainer_namespace


def profile(namespace: Namespace, build: Build, folder: Path, **asked: Any) -> str:
    """Fit under Lightning's profiler, and return what it has written."""
    measured = namespace.module("profilers").PyTorchProfiler(dirpath=folder, filename="profile", **asked)
    host = build(
        accelerator="cpu_sim",
        devices=1,
        max_epochs=1,
        limit_train_batches=6,
        limit_val_batches=0,
        log_every_n_steps=1,
        profiler=measured,
    )
    host.fit(namespace.module("demos.boring_classes").BoringModel())
    return (folder / "fit-profile.txt").read_text()


def test_the_chips_kernels_and_their_time_are_in_the_table(namespace: Namespace, build: Build, tmp_path: Path) -> None:
    said = profile(namespace, build, tmp_path)

    assert "CPU_SIM total" in said
    assert re.search(r"Self CPU_SIM time total: \d", said)


def test_activities_that_the_user_names_are_recorded(namespace: Namespace, build: Build, tmp_path: Path) -> None:
    said = profile(namespace, build, tmp_path, activities=[ProfilerActivity.CPU])

    assert "aten::" in said
    assert "CPU_SIM total" not in said


def test_profiler_made_before_the_chip_is_told_at_its_begin() -> None:
    named.load("cpu_sim")
    chosen = {"activities": profiler.Unasked([ProfilerActivity.CPU])}

    for _ in range(2):  # the second profile of a run too
        profiler.add_chip(chosen)

    assert chosen["activities"] == [ProfilerActivity.CPU, ProfilerActivity.PrivateUse1]


def test_a_chip_that_denies_it_is_not_asked(claims: Claims, monkeypatch: pytest.MonkeyPatch) -> None:
    claims(profiler=no("its tool traces all or nothing"))
    monkeypatch.setattr(profiler, "loaded", lambda: declared.get("cpu_sim"))
    chosen = {"activities": profiler.Unasked([ProfilerActivity.CPU])}

    profiler.add_chip(chosen)

    assert chosen["activities"] == [ProfilerActivity.CPU]


def test_a_chip_of_which_torch_records_nothing_adds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.profiler.supported_activities", lambda: {ProfilerActivity.CPU})

    assert profiler.activity_of(named.load("cpu_sim").device) is None
