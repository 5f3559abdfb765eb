"""One rank of trainings in Ray's local mode, in which torchrun starts the workers: ``CHIP STRATEGIES FILE``.

It is where only pytorch_lightning is installed: Ray takes the other package if it finds it.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

sys.modules["lightning"] = None  # type: ignore[assignment]  # its import fails

from ray.train import ScalingConfig  # noqa: E402  # pyright: ignore[reportMissingImports]
from ray.train.torch import TorchTrainer  # noqa: E402  # pyright: ignore[reportMissingImports]
from tests.backends.together.ray_model import expected, fit  # noqa: E402

found: dict[str, Any] = {"expected": expected(1)}


def train(config: dict[str, str]) -> None:
    for name in config["strategies"].split(","):
        found[name] = fit(config["chip"], name, 1)


if __name__ == "__main__":
    chip, strategies, file = sys.argv[1:]
    TorchTrainer(
        train,
        train_loop_config={"chip": chip, "strategies": strategies},
        scaling_config=ScalingConfig(num_workers=0),
    ).fit()
    Path(file).write_text(json.dumps(found))
