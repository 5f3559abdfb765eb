"""Train with the user's own arguments for DDP."""

from __future__ import annotations

from functools import wraps
from pathlib import Path
from typing import Any

from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import (
    allreduce_hook,
    bf16_compress_hook,
    fp16_compress_hook,
    fp16_compress_wrapper,
)
from torch.distributed.algorithms.ddp_comm_hooks.post_localSGD_hook import PostLocalSGDState, post_localSGD_hook

import northbridge
from northbridge_conformance.runs.findings import write
from northbridge_conformance.runs.hosts import _Classifier, classifier, lightnings, trainer
from northbridge_conformance.runs.models import loader
from northbridge_conformance.runs.scenario import Scenario


def perform(scenario: Scenario, folder: Path) -> None:
    """Train with a stock strategy object, a registered variant, and communication hooks; each rank reports.

    A hook does not compress to a dtype that the chip denies; then nothing is compressed.
    """
    stock = lightnings(scenario, "strategies").DDPStrategy
    calls: list[int] = []
    denied = _denied(scenario.accelerator)
    compress_hook = allreduce_hook if "float16" in denied else fp16_compress_hook

    @wraps(fp16_compress_hook)  # DDP reads the annotations of a hook
    def counting_hook(state: Any, bucket: Any) -> Any:
        calls.append(bucket.index())
        return compress_hook(state, bucket)

    _train(scenario, folder, "object", stock(find_unused_parameters=True, gradient_as_bucket_view=True))
    _train(scenario, folder, "name", "ddp_find_unused_parameters_true")
    rank = _train(scenario, folder, "hook", stock(ddp_comm_hook=counting_hook), model="mlp")
    write(folder, "strategies hook calls", rank, {"calls": len(calls)})
    averaging: Any = PostLocalSGDState
    options: dict[str, Any] = {
        "static_graph": {"static_graph": True},
        "bucket_cap_mb": {"bucket_cap_mb": 0.001},
        "bf16 compression": {"ddp_comm_hook": allreduce_hook if "bfloat16" in denied else bf16_compress_hook},
        "fp16 compression, wrapped": {
            "ddp_comm_hook": allreduce_hook,
            "ddp_comm_wrapper": None if "float16" in denied else fp16_compress_wrapper,
        },
        "model_averaging_period": {
            "ddp_comm_state": averaging(process_group=None, subgroup=None, start_localSGD_iter=2),
            "ddp_comm_hook": post_localSGD_hook,
            "model_averaging_period": 3,
        },
    }
    for name, arguments in options.items():
        _train(scenario, folder, name, stock(**arguments), model="mlp")


def _denied(accelerator: str) -> set[str]:
    if accelerator == "cpu":
        return set()
    claims = northbridge.load(accelerator).present_capabilities().claims()
    return {name for name, claim in claims.items() if claim.denied}


def _train(scenario: Scenario, folder: Path, topic: str, strategy: Any, model: str = "unused") -> int:
    host = trainer(scenario, folder, strategy=strategy)
    topic = f"strategies {topic}"
    module = classifier(scenario.namespace, model, folder, f"{topic} fit", _Inspecting)
    host.fit(module, loader())
    write(folder, topic, host.global_rank, {**module.options, "kept": host.strategy is strategy})
    rank: int = host.global_rank
    return rank


class _Inspecting(_Classifier):
    def on_train_start(self) -> None:
        ddp = self.trainer.strategy.model
        names = ("find_unused_parameters", "gradient_as_bucket_view", "static_graph", "bucket_bytes_cap")
        self.options = {name: getattr(ddp, name) for name in names}
