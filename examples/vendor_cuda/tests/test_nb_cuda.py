"""Tests of the plugin's own code, on any machine: torch.cuda is replaced where it would use a driver."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from lightning.pytorch import Trainer
from lightning.pytorch.accelerators import CUDAAccelerator
from torch.distributed.distributed_c10d import Backend, BackendConfig

import northbridge

QUIET: dict[str, Any] = dict.fromkeys(
    ("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False
)


@pytest.fixture
def gpus(monkeypatch: pytest.MonkeyPatch) -> northbridge.Backend:
    """The backend, loaded where torch counts two GPUs."""
    monkeypatch.setattr(torch.backends.cuda, "is_built", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    if torch.version.cuda is None:
        monkeypatch.setattr(torch.version, "cuda", "12.8")  # another chip might pass for CUDA, and would be refused
    backend = northbridge.load("nb_cuda")
    monkeypatch.setattr(backend.bridge, "detect", backend.device.count)  # a child process would see no replacement
    return backend


def test_a_torch_without_cuda_is_missing_software(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.cuda, "is_built", lambda: False)

    with pytest.raises(northbridge.SoftwareMissingError) as refusal:
        northbridge.get("nb_cuda").bridge.load()

    assert str(refusal.value) == (
        f"backend 'nb_cuda': torch {torch.__version__} was built without CUDA; install one with CUDA"
    )
    assert refusal.value.backend == "nb_cuda"


@pytest.mark.usefixtures("gpus")
class TestTrainer:
    def test_two_gpus_are_two_ranks_on_torchs_cuda(self) -> None:
        strategy: Any = Trainer(accelerator="nb_cuda", devices=2, **QUIET).strategy

        assert [str(each) for each in strategy.parallel_devices] == ["cuda:0", "cuda:1"]
        assert strategy.process_group_backend == "nccl"

    def test_a_gpu_is_taken_by_its_index(self) -> None:
        trainer = Trainer(accelerator="nb_cuda", devices=[1], **QUIET)

        assert trainer.strategy.root_device == torch.device("cuda", 1)

    @pytest.mark.parametrize("precision", ["bf16-mixed", "16-mixed"])
    def test_mixed_precision_is_autocast_on_cuda(self, precision: Any) -> None:
        plugin: Any = Trainer(accelerator="nb_cuda", devices=1, precision=precision, **QUIET).precision_plugin

        assert (plugin.precision, plugin.device) == (precision, "cuda")

    @pytest.mark.parametrize("asked", ["cuda", "gpu", "auto"])
    def test_lightnings_own_words_stay_lightnings(self, asked: str) -> None:
        trainer = Trainer(accelerator=asked, devices=1, **QUIET)

        assert type(trainer.accelerator) is CUDAAccelerator


class TestCollective:
    def test_the_process_group_is_nccls_and_bound_to_the_gpu(
        self, gpus: northbridge.Backend, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        asked: list[tuple[str, Any]] = []

        def init_process_group(name: str, **options: Any) -> None:
            asked.append((name, options["device_id"]))

        monkeypatch.setattr(torch.distributed, "init_process_group", init_process_group)

        gpus.require_collective().initialize(rank=0, world_size=1, timeout=None, device=torch.device("cuda", 1))

        assert asked == [("nccl", torch.device("cuda", 1))]

    def test_nccl_group_carries_gpu_tensors(self, gpus: northbridge.Backend, monkeypatch: pytest.MonkeyPatch) -> None:
        backend: Any = Backend("nccl")  # a str in torch's own words, which makes one of itself
        config = str(BackendConfig(backend))
        monkeypatch.setattr(torch.distributed, "get_backend_config", lambda _group: config)
        monkeypatch.setattr(torch.distributed, "get_world_size", lambda _group: 1)  # with others, ones are summed

        gpus.require_collective().assert_carries(torch.device("cuda", 0))

        assert config == "cuda:nccl"

    def test_a_group_over_gloo_is_refused(self, gpus: northbridge.Backend, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(torch.distributed, "get_backend_config", lambda _group: "cpu:gloo,cuda:gloo")

        with pytest.raises(northbridge.CollectiveError, match="'cuda' needs 'nccl', but the process group uses 'gloo'"):
            gpus.require_collective().assert_carries(torch.device("cuda", 0))

    def test_what_nccl_does_not_know_travels_as_bytes(self, gpus: northbridge.Backend) -> None:
        small, known = torch.tensor([1, 2], dtype=torch.int16), torch.tensor([1.0, 2.0], dtype=torch.bfloat16)

        assert gpus.require_collective().as_carried(small).dtype == torch.uint8
        assert gpus.require_collective().as_carried(known) is known


class TestDevice:
    def test_autocast_takes_what_torch_takes_on_cuda(self, gpus: northbridge.Backend) -> None:
        assert gpus.device.module is torch.cuda
        assert set(gpus.device.autocast_dtypes()) == {torch.float16, torch.bfloat16}
