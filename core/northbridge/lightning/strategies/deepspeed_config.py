"""Settings of DeepSpeed's configuration that a chip, or a host of Lightning, does not follow."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import torch

from northbridge.backend import Backend
from northbridge.errors import ArgumentValueError, UnsupportedError

Config = Mapping[str, Any]

_STAGES = range(4)

_OPERATORS = {"lamb": "FusedLambBuilder", "lion": "FusedLionBuilder"}
"""DeepSpeed's operators of optimizers that few of its accelerators have."""


def reject_config(backend: Backend, accelerator: Any, config: Config, remote_device: str | None) -> None:
    """Raise :class:`UnsupportedError` for settings that DeepSpeed does not follow on the chip, or in a training.

    Raises :class:`ArgumentValueError` for a stage that ZeRO does not have.
    """
    for part in ("zero_optimization", "optimizer"):
        if not isinstance(config.get(part), (Mapping, type(None))):
            raise _unsupported(f"{part}={config[part]!r} is not a dict. Fix: write its settings")
    stage = _zero(config).get("stage", 0)
    if stage not in (*_STAGES, *map(str, _STAGES)):
        raise ArgumentValueError(f"ZeRO has no stage={stage!r}. Fix: 0, 1, 2 or 3")
    _reject_inference(config)
    _reject_disks(backend, accelerator, config, remote_device)


def reject_file(path: Any) -> None:
    """Raise :class:`ArgumentValueError` if ``path`` is a file's, and the file is not a configuration."""
    if not isinstance(path, (str, Path)):
        return
    try:
        read = json.loads(Path(path).read_text())
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ArgumentValueError(f"DeepSpeed's config={str(path)!r}: {reason}. Fix: name a JSON file") from error
    if not isinstance(read, dict):
        raise ArgumentValueError(f"DeepSpeed's config={str(path)!r} must be a JSON object. Fix: name a file with {{…}}")


def reject_accumulation(config: Config) -> None:
    """Raise :class:`UnsupportedError` if the ``config`` of a Fabric accumulates gradients: only an engine counts."""
    if config.get("gradient_accumulation_steps", 1) != 1:
        raise _unsupported("a Fabric has no gradient_accumulation_steps. Fix: leave it out")


def reject_no_optimizer(config: Config) -> None:
    """Raise :class:`UnsupportedError` if ``config`` shards an optimizer, and there is none."""
    stage = _zero(config).get("stage", 0)
    if stage in (1, 2):
        raise _unsupported(f"ZeRO {stage} needs an optimizer. Fix: stage=3 or 0")


def reject_rebuilt_optimizer(config: Config, optimizer: Any, scheduler: Any) -> None:
    """Raise :class:`UnsupportedError` if ZeRO would drop settings of ``optimizer``, or what ``scheduler`` sets.

    DeepSpeed 0.19.8 makes torch's Adagrad anew, in one group and with the optimizer's defaults.
    """
    stage = _zero(config).get("stage", 0)
    if not stage or not isinstance(optimizer, torch.optim.Adagrad):
        return
    first, *others = optimizer.param_groups
    if others or scheduler is not None or any(first[name] != value for name, value in optimizer.defaults.items()):
        raise _unsupported(f"ZeRO {stage} drops Adagrad's groups and schedule. Fix: stage=0 or another optimizer")


def reject_optimizer(backend: Backend, config: Config) -> None:
    """Raise :class:`UnsupportedError` if ``config`` has the optimizer that trains, and DeepSpeed lacks its operator."""
    name = str((config.get("optimizer") or {}).get("type"))
    offloads = _zero(config).get("offload_optimizer")
    builder = _OPERATORS.get(name.lower())
    if offloads and name.lower() == "lion":
        return  # by its operator for the host
    if builder is not None and _lacks(import_module("deepspeed.accelerator").get_accelerator(), builder):
        raise _unsupported(f"DeepSpeed has no {name} for {backend.name!r}. Fix: type='AdamW'")


def _unsupported(said: str) -> UnsupportedError:
    return UnsupportedError(said, capability="deepspeed")


def _zero(config: Config) -> Config:
    return config.get("zero_optimization") or {}


def _reject_inference(config: Config) -> None:
    # Of init_inference()'s keys, a training has these two as well.
    keys = set(import_module("deepspeed").default_inference_config()) | {"kernel_inject", "tp"}
    asked = sorted(keys.difference(("checkpoint", "tensor_parallel")).intersection(config))
    parallel = config.get("tensor_parallel")
    if isinstance(parallel, Mapping) and "tp_size" in parallel:
        asked.append("tensor_parallel.tp_size")
    if asked:
        raise _unsupported(f"{asked[0]} is for init_inference(). Fix: leave it out; stage=3 shards predict()")


def _reject_disks(backend: Backend, accelerator: Any, config: Config, remote_device: str | None) -> None:
    zero = _zero(config)
    offloads = {part: (zero.get(part) or {}).get("device") for part in ("offload_optimizer", "offload_param")}
    to_disk = [part for part, device in {**offloads, "remote_device": remote_device}.items() if device == "nvme"]
    if to_disk and _lacks(accelerator, "AsyncIOBuilder"):
        raise _unsupported(
            f"{to_disk[0]} to 'nvme': DeepSpeed has no AsyncIO operator for {backend.name!r}. Fix: offload to 'cpu'"
        )


def _lacks(accelerator: Any, operator: str) -> bool:
    builder = accelerator.get_op_builder(operator)
    return builder is None or builder.__name__ == "NotImplementedBuilder"
