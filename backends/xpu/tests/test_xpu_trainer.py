"""What a Trainer and a Fabric make of Intel's GPUs, on any machine: torch.xpu counts twelve tiles without a driver."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import torch
from lightning.fabric import Fabric
from lightning.fabric.strategies.model_parallel import ModelParallelStrategy
from lightning.pytorch import Trainer

import northbridge

QUIET: dict[str, Any] = dict.fromkeys(
    ("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False
)
NORTHBRIDGE = str(Path(sys.executable).with_name("northbridge"))
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
class TestChoices:
    def test_one_tile_is_taken_by_its_index(self) -> None:
        trainer = Trainer(accelerator="xpu", devices=[3], **QUIET)

        assert trainer.strategy.root_device == torch.device("xpu", 3)

    def test_several_tiles_are_ranks_over_xccl(self) -> None:
        strategy: Any = Trainer(accelerator="xpu", devices=2, **QUIET).strategy

        assert [str(each) for each in strategy.parallel_devices] == ["xpu:0", "xpu:1"]
        assert strategy.process_group_backend == "xccl"

    def test_all_tiles_are_the_default(self) -> None:
        assert Trainer(accelerator="xpu", **QUIET).num_devices == TILES

    def test_auto_takes_them(self) -> None:
        assert Trainer(accelerator="auto", devices=1, **QUIET).strategy.root_device.type == "xpu"

    @pytest.mark.parametrize("precision", ["bf16-mixed", "16-mixed"])
    def test_mixed_precision_is_autocast_on_xpu(self, precision: Any) -> None:
        """Lightning's own plugin would take CUDA's autocast, under which nothing is cast."""
        plugin: Any = Trainer(accelerator="xpu", devices=1, precision=precision, **QUIET).precision_plugin

        assert (plugin.precision, plugin.device) == (precision, "xpu")
        assert plugin.scaler is None or torch.device(plugin.scaler._device).type == "xpu"

    @pytest.mark.parametrize(
        "strategy", ["ddp", "fsdp", ModelParallelStrategy(lambda model, _mesh: model)], ids=["ddp", "fsdp", "fsdp2"]
    )
    def test_each_strategy_runs_on_xpu(self, strategy: Any) -> None:
        made: Any = Fabric(accelerator="xpu", devices=2, strategy=strategy).strategy

        assert made.root_device == torch.device("xpu", 0)

    @pytest.mark.parametrize(("precision", "said"), [("transformer-engine", "xpu"), ("bitsandbytes", "precision")])
    def test_a_precision_that_it_lacks_is_refused(self, precision: Any, said: str) -> None:
        with pytest.raises((northbridge.NorthbridgeError, ValueError), match=said):
            Trainer(accelerator="xpu", devices=1, precision=precision, **QUIET)

    def test_deepspeed_has_an_accelerator_of_its_own(self, tiles: northbridge.Backend) -> None:
        assert tiles.acceleration.deepspeed_accelerator == "xpu"


class TestPALS:
    """Aurora's mpiexec, which sets no size of the world."""

    @pytest.fixture(autouse=True)
    def rank_15(self, tiles: northbridge.Backend, monkeypatch: pytest.MonkeyPatch) -> None:
        for name, text in {"PALS_RANKID": 15, "PALS_LOCAL_RANKID": 3, "PALS_NODEID": 1, "PMIX_RANK": 15}.items():
            monkeypatch.setenv(name, str(text))

    def test_a_rank_takes_the_tile_of_its_local_rank(self) -> None:
        trainer: Any = Trainer(accelerator="xpu", devices=TILES, num_nodes=2, **QUIET)

        assert trainer.strategy.root_device == torch.device("xpu", 3)
        assert (trainer.global_rank, trainer.world_size, trainer.node_rank) == (15, 24, 1)

    def test_a_rank_inherited_from_elsewhere_is_an_error(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PMIX_RANK", "0")

        with pytest.raises(northbridge.ClusterError, match="PMIX_RANK='0' contradicts PALS_RANKID='15'"):
            Trainer(accelerator="xpu", devices=TILES, num_nodes=2, **QUIET)

    def test_a_tile_of_its_own_for_each_rank_is_an_error(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A rank takes the tile of its local rank from all tiles of the node."""
        monkeypatch.setenv("ZE_AFFINITY_MASK", "3")
        monkeypatch.setattr(northbridge.get("xpu").bridge, "detect", lambda: 1)

        with pytest.raises(northbridge.DevicesError, match="xpu"):
            Trainer(accelerator="xpu", devices=TILES, num_nodes=2, **QUIET)


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

    def test_a_group_over_gloo_is_refused(self, tiles: northbridge.Backend, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(torch.distributed, "get_backend_config", lambda _group: "cpu:gloo,xpu:gloo")

        with pytest.raises(northbridge.CollectiveError, match="'xpu' needs 'xccl', but the process group uses 'gloo'"):
            tiles.require_collective().assert_carries(torch.device("xpu", 0))


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


@pytest.mark.skipif(torch.xpu._is_compiled(), reason="this torch was built for Intel's GPUs")
@pytest.mark.parametrize("command", [["list", "--json"], ["doctor", "xpu", "--json"]], ids=["list", "doctor"])
def test_commands_say_what_a_trainer_says(command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NORTHBRIDGE_DISABLE", "cpu_sim,hpu,npu,sdaa")  # no other backend is asked

    done = subprocess.run(
        [NORTHBRIDGE, *command], cwd=tmp_path, capture_output=True, text=True, timeout=240, check=False
    )

    found: dict[str, Any] = json.loads(done.stdout)
    rows = [each.get("states", each) for each in found["backends"]]
    (row,) = [each for each in rows if each["name"] == "xpu"]
    assert (row["status"], row["devices"], row["distribution"]) == ("no software", 0, "northbridge-xpu")
    assert row["reason"].endswith(f": {SAID}")
