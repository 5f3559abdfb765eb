"""What a Trainer and a Fabric make of Intel's GPUs, on any machine: torch.xpu counts twelve tiles without a driver."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
import torch
from lightning.pytorch import Trainer

import northbridge

QUIET: dict[str, Any] = dict.fromkeys(
    ("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False
)
SAID = (
    "this torch was built without Intel's GPUs. Fix: pip install torch --index-url"
    " https://download.pytorch.org/whl/xpu, or set NORTHBRIDGE_SIMULATE=xpu"
)
TILES = 12  # of a node of Aurora: six cards of two


@pytest.fixture
def tiles(monkeypatch: pytest.MonkeyPatch) -> northbridge.Backend:
    """The backend, loaded where torch counts the tiles of six cards."""
    monkeypatch.setattr(torch.xpu, "_is_compiled", lambda: True)
    monkeypatch.setattr(torch.xpu, "device_count", lambda: TILES)
    backend = northbridge.get("xpu")
    monkeypatch.setattr(backend.bridge, "detect", lambda: TILES)  # a child process would see no replacement
    northbridge.load("xpu")
    return backend


@pytest.mark.usefixtures("tiles")
def test_tiles_are_taken_by_index_or_as_ranks_over_xccl() -> None:
    one: Any = Trainer(accelerator="xpu", devices=[3], **QUIET).strategy
    several: Any = Trainer(accelerator="xpu", devices=2, **QUIET).strategy

    assert one.root_device == torch.device("xpu", 3)
    assert [str(each) for each in several.parallel_devices] == ["xpu:0", "xpu:1"]
    assert several.process_group_backend == "xccl"
    assert Trainer(accelerator="xpu", **QUIET).num_devices == TILES
    assert northbridge.get("xpu").acceleration.deepspeed_accelerator == "xpu"


@pytest.mark.usefixtures("tiles")
def test_auto_takes_them() -> None:
    assert Trainer(accelerator="auto", devices=1, **QUIET).strategy.root_device.type == "xpu"


class TestXCCL:
    def test_the_process_group_is_bound_to_no_device(
        self, tiles: northbridge.Backend, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """torch cannot make a Gloo group beside a bound one, and Lightning makes one to prepare data."""
        asked: list[tuple[str, bool]] = []

        def init_process_group(name: str, **options: Any) -> None:
            asked.append((name, "device_id" in options))

        monkeypatch.setattr(torch.distributed, "init_process_group", init_process_group)
        device = torch.device("xpu", 3)

        tiles.require_collective().initialize(rank=0, world_size=1, timeout=timedelta(seconds=9), device=device)

        assert asked == [("xccl", False)]

    def test_a_dtype_that_it_lacks_travels_as_bytes(self, tiles: northbridge.Backend) -> None:
        assert tiles.require_collective().as_carried(torch.tensor([1, 2], dtype=torch.int16)).dtype == torch.uint8
        assert tiles.require_collective().carries(torch.bfloat16)


class TestWithoutIntel:
    """A torch that was built for something else."""

    @pytest.fixture(autouse=True)
    def other_torch(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(torch.xpu, "_is_compiled", lambda: False)

    def test_a_trainer_names_the_index_that_has_them(self) -> None:
        with pytest.raises(northbridge.SoftwareMissingError) as refused:
            Trainer(accelerator="xpu", devices=1, **QUIET)

        assert str(refused.value).endswith(f": {SAID}")
        assert str(refused.value).startswith("backend 'xpu' (northbridge-xpu ")

    def test_auto_passes_it_over(self) -> None:
        trainer = Trainer(accelerator="auto", **QUIET)

        assert trainer.strategy.root_device.type != "xpu"
        assert ("auto", "passed over xpu") in {(entry.subject, entry.outcome) for entry in northbridge.record()}
