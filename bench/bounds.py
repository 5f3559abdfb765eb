"""Every figure that is measured, and what it may be at most."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Unit = Literal["×", "s", "ms"]


@dataclass(frozen=True)
class Bound:
    """One figure: its name for ``--only``, what it says to people, and its limit; ``None`` where there is none."""

    name: str
    what: str
    unit: Unit
    limit: float | None


BOUNDS = (
    Bound("step-mlp", "training step, MLP 784-512-512-10, batch 128: cpu_sim ÷ CPU", "×", 1.10),
    Bound("step-convnet", "training step, ConvNet, 28×28, batch 64: cpu_sim ÷ CPU", "×", 1.05),
    Bound("step-transformer", "training step, Transformer, 4×256, sequence 128, batch 8: cpu_sim ÷ CPU", "×", 1.05),
    Bound("step-ddp", "2-rank DDP step, ConvNet: cpu_sim over simccl ÷ CPU over Gloo", "×", 1.05),
    Bound("step-hpu", "training step, ConvNet: the simulated Gaudi ÷ cpu_sim", "×", 1.05),
    Bound("step-hpu-ddp", "2-rank DDP step, ConvNet: the simulated Gaudi ÷ cpu_sim", "×", 1.05),
    Bound("step-sdaa", "training step, ConvNet: the simulated Teco card ÷ cpu_sim", "×", 1.05),
    Bound("step-sdaa-ddp", "2-rank DDP step, ConvNet: the simulated Teco card ÷ cpu_sim", "×", 1.05),
    Bound("memory", "peak memory of the process, ConvNet: cpu_sim ÷ CPU", "×", 1.10),
    Bound("strategy", "training step, one parameter, on the CPU: our strategy ÷ Lightning's", "×", 1.05),
    # Chiefly what the chip's operators cost, 2 µs each, on work that is too small to hide it.
    Bound("step-one-parameter", "training step, one parameter: cpu_sim ÷ CPU", "×", None),
    Bound("autoload", "time that autoload adds to `import torch`", "ms", 2.0),
    Bound("list", "`northbridge list --no-probe`, the whole process", "s", 0.3),
    Bound("discovery", "installed() among 100 more plugins ÷ entry_points()", "×", 1.5),
    Bound("start", "`northbridge.load('cpu_sim')` beyond `import torch`, the whole process", "s", 0.3),
    Bound("compile", "first compile of the chip, 2 compilers at a time", "s", 90.0),
)
"""In the order in which they are measured and shown."""
