"""Every figure that is measured, and what it may be at most."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from bench.options import OPTIONS

Unit = Literal["×", "s", "ms"]


@dataclass(frozen=True)
class Bound:
    """One figure: its name for ``--only``, what it says to people, and its limit; ``None`` where there is none."""

    name: str
    what: str
    unit: Unit
    limit: float | None


BOUNDS = (
    Bound("op-add-4", "one operation, add of 4 floats: cpu_sim ÷ CPU", "×", 2.3),
    Bound("op-add-million", "one operation, add of a million floats: cpu_sim ÷ CPU", "×", 1.05),
    Bound("op-view", "one operation, a view: cpu_sim ÷ CPU", "×", 1.1),
    Bound("op-mm-64", "one operation, mm of 64×64: cpu_sim ÷ CPU", "×", 1.3),
    Bound("backward", "one backward, through a product of 4 floats: cpu_sim ÷ CPU", "×", None),
    Bound("step-mlp", "training step, MLP 784-512-512-10, batch 128: cpu_sim ÷ CPU", "×", 1.10),
    Bound("step-convnet", "training step, ConvNet, 28×28, batch 64: cpu_sim ÷ CPU", "×", 1.05),
    Bound("step-transformer", "training step, Transformer, 4×256, sequence 128, batch 8: cpu_sim ÷ CPU", "×", 1.05),
    Bound("step-captured", "training step of many small operations on cpu_sim: captured ÷ eager", "×", 0.9),
    Bound("step-ddp", "2-rank DDP step, ConvNet: cpu_sim over simccl ÷ CPU over Gloo", "×", 1.05),
    Bound("step-hpu", "training step, ConvNet: the simulated Gaudi ÷ cpu_sim", "×", 1.05),
    Bound("step-hpu-ddp", "2-rank DDP step, ConvNet: the simulated Gaudi ÷ cpu_sim", "×", 1.05),
    Bound("step-sdaa", "training step, ConvNet: the simulated Teco card ÷ cpu_sim", "×", 1.05),
    Bound("step-sdaa-ddp", "2-rank DDP step, ConvNet: the simulated Teco card ÷ cpu_sim", "×", 1.05),
    Bound("all-reduce-4kib", "all-reduce, 2 ranks, 4 KiB: simccl ÷ Gloo", "×", 1.2),
    Bound("all-reduce-1mib", "all-reduce, 2 ranks, 1 MiB: simccl ÷ Gloo", "×", 1.05),
    Bound("all-reduce-16mib", "all-reduce, 2 ranks, 16 MiB: simccl ÷ Gloo", "×", 1.05),
    Bound("reduce-scatter-4kib", "reduce-scatter, 2 ranks, 4 KiB: simccl ÷ Gloo", "×", 1.2),
    Bound("reduce-scatter-1mib", "reduce-scatter, 2 ranks, 1 MiB: simccl ÷ Gloo", "×", 1.05),
    Bound("reduce-scatter-16mib", "reduce-scatter, 2 ranks, 16 MiB: simccl ÷ Gloo", "×", 1.05),
    Bound("all-gather-4kib", "all-gather, 2 ranks, 4 KiB: simccl ÷ Gloo", "×", 1.2),
    Bound("all-gather-1mib", "all-gather, 2 ranks, 1 MiB: simccl ÷ Gloo", "×", 1.05),
    Bound("all-gather-16mib", "all-gather, 2 ranks, 16 MiB: simccl ÷ Gloo", "×", 1.05),
    Bound("step-fsdp2", "2-rank FSDP2 step, Transformer: cpu_sim over simccl ÷ CPU over Gloo", "×", 1.10),
    Bound("step-zero-2", "2-rank DeepSpeed ZeRO-2 step, Transformer: cpu_sim over simccl ÷ CPU over Gloo", "×", 1.10),
    Bound("memory", "peak memory of the process, ConvNet: cpu_sim ÷ CPU", "×", 1.10),
    Bound("strategy", "training step, one parameter, on the CPU: our strategy ÷ Lightning's", "×", 1.02),
    Bound("recompilation-watch", "training step, MLP: with RecompilationMonitor ÷ without, on cpu_sim", "×", 1.02),
    Bound("sync-dist", "2 ranks, a metric logged with sync_dist: cpu_sim over simccl ÷ CPU over Gloo", "×", 1.10),
    Bound("checkpoint-save", "a checkpoint of 500 MB, saved: cpu_sim ÷ CPU", "×", 1.05),
    Bound("checkpoint-load", "a checkpoint of 500 MB, loaded: cpu_sim ÷ CPU", "×", 1.05),
    Bound("checkpoint-memory", "peak memory of a process that does both: cpu_sim ÷ CPU", "×", 1.10),
    Bound("step-16-mixed", "training step in 16-mixed, Transformer: cpu_sim ÷ CPU in bf16-mixed", "×", 1.10),
    Bound("step-bf16-mixed", "training step in bf16-mixed, Transformer: cpu_sim ÷ CPU in bf16-mixed", "×", 1.10),
    *(Bound(option.name, f"2-rank DDP step, ConvNet: {option.what} ÷ without", "×", None) for option in OPTIONS),
    # Chiefly what the chip's operators cost, 2 µs each, on work that is too small to hide it.
    Bound("step-one-parameter", "training step, one parameter: cpu_sim ÷ CPU", "×", None),
    Bound("autoload", "time that autoload adds to `import torch`", "ms", 2.0),
    Bound("list", "`northbridge list --no-probe`, the whole process", "s", 0.3),
    Bound("discovery", "installed() among 100 more plugins ÷ entry_points()", "×", 1.5),
    Bound("start", "`northbridge.load('cpu_sim')` beyond `import torch`, the whole process", "s", 0.3),
    Bound("compile", "first compile of the chip, 2 compilers at a time", "s", 90.0),
)
"""In the order in which they are measured and shown."""
