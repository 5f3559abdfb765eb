"""Trainings on simulated NPUs, through what the backend overrides."""

from __future__ import annotations

from collections.abc import Callable

TWO_RANKS = """
import torch
from lightning.pytorch import Trainer
from lightning.pytorch.demos.boring_classes import BoringModel
from lightning.pytorch.strategies import DDPStrategy


class Overflowing(BoringModel):
    def backward(self, loss):
        super().backward(loss)
        if self.trainer.global_rank == 1:
            self.layer.weight.grad.fill_(float("inf"))

    def on_train_end(self):
        scaler = self.trainer.precision_plugin.scaler
        config = torch.distributed.get_backend_config()
        lines = [type(scaler).__module__, config, scaler.get_scale(), self.trainer.strategy.root_device]
        print(f"rank {self.trainer.global_rank}:", *lines, flush=True)


quiet = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
strategy = DDPStrategy(process_group_backend="lccl")
trainer = Trainer(
    accelerator="npu", devices=2, strategy=strategy, precision="16-mixed", max_epochs=1, limit_train_batches=1,
    limit_val_batches=0, **quiet,
)
trainer.fit(Overflowing())
"""


def test_an_overflow_of_one_rank_is_all_ranks_over_lccl(run: Callable[..., str]) -> None:
    """Torch's scaler would halve the scale of one rank alone, and the ranks' weights would come apart."""
    said = run(TWO_RANKS, NORTHBRIDGE_SIMULATE="npu")

    assert sorted(line for line in said.splitlines() if line.startswith("rank ")) == [
        f"rank {rank}: northbridge_npu.simulated.mixed_precision npu:lccl 32768.0 npu:{rank}" for rank in (0, 1)
    ]


ONE_PROCESS = """
import torch
import northbridge

backend = northbridge.load("npu")
graph, total = backend.acceleration.graph(), torch.ones(2, device="npu")
stream = torch.npu.Stream()
with torch.npu.stream(stream):
    graph.capture_begin()
    total.mul_(2)
    graph.capture_end()
    graph.replay()
    graph.replay()
stream.synchronize()
print(type(graph).__name__, total.tolist())
graph.reset()
print(backend.acceleration.profiler_activity() is torch.profiler.ProfilerActivity.PrivateUse1)
print(backend.acceleration.deepspeed_accelerator, backend.bridge.compile_backend)
print(backend.device.autocast_dtypes(), torch.npu.is_initialized())
print(backend.bridge.count_cards([0, 1], total=2), backend.present_capabilities().bfloat16.reason)
"""


def test_graphs_profiler_and_cards_are_the_vendors(run: Callable[..., str]) -> None:
    said = run(
        ONE_PROCESS,
        NORTHBRIDGE_SIMULATE="npu",
        NORTHBRIDGE_NPU_SIM_CARD="910ProB",
        ASCEND_RT_VISIBLE_DEVICES="2,3",
    ).splitlines()

    assert said[:3] == ["NPUGraph [8.0, 8.0]", "True", "npu npugraph_ex"]
    assert said[4] == "2 a 910ProB computes in float16 and float32 alone; 910B1 and later have it"
