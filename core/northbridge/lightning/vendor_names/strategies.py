"""Vendors' names for strategies."""

from __future__ import annotations

import inspect
from collections.abc import Collection
from typing import Any, ClassVar

import torch
from torch.nn.parallel import DistributedDataParallel

from northbridge.discovery.declared import get
from northbridge.discovery.loaded import load
from northbridge.errors import ArgumentsError, UnsupportedError
from northbridge.lightning.classes import classes
from northbridge.lightning.namespaces import Namespace
from northbridge.lightning.strategies.chip import _ChipMixin
from northbridge.lightning.vendor_names.names import (
    AcceleratorName,
    VendorName,
    arguments_of,
    draft_of,
    is_open,
    namespace_at_hand,
)
from northbridge.lightning.vendor_names.plugins import CheckpointIOName, PrecisionName

PRECISION_OF_STRATEGY = ("precision_plugin", "precision")
"""Names of the precision argument of a Trainer's and of a Fabric's strategy."""

_FIRST = ("accelerator", "parallel_devices", "cluster_environment", "checkpoint_io", "precision_plugin")
"""The positional arguments with which Lightning's strategies for several devices begin."""


class StrategyName(VendorName):
    """Base of the names of strategies, which serve a Trainer and a Fabric alike."""

    strategy_name: ClassVar[str] = ""
    """The word that the vendor's package registered for it, which scripts ask a strategy for; empty for Lightning's."""

    @classmethod
    def passed_on(cls) -> Collection[str]:
        return PRECISION_OF_STRATEGY

    def make(self, namespace: Namespace, arguments: dict[str, Any]) -> Any:
        """Make the strategy of ``namespace``. Raises :class:`ArgumentsError` for an argument that it lacks."""
        cls = next(each for each in classes(namespace).strategies if each.__name__ == self.kind)
        accepted = inspect.signature(cls.stock_class.__init__).parameters
        for argument in arguments:
            if argument not in accepted and argument not in self.passed_on():
                raise ArgumentsError(
                    f"{type(self).__name__}({argument}=…): the strategies of a {namespace.host} have no such"
                    " argument. Fix: leave it out"
                )
        made = cls(**arguments)
        if self.strategy_name:
            made.strategy_name = self.strategy_name
        return made

    def make_draft(self, namespace: Namespace) -> Any:
        load(get(self.backend_name))  # torch may know the device's name only now
        given = dict(self.arguments)
        found = [given.pop(argument) for argument in PRECISION_OF_STRATEGY if argument in given]
        if any(each is not None for each in found):
            given[PRECISION_OF_STRATEGY[0 if namespace.is_trainer else 1]] = found[-1]
        given = {key: draft_of(each) if is_open(each, VendorName) else each for key, each in given.items()}
        made = self.make(namespace, given)
        if made._accelerator is None:
            made._accelerator = classes(namespace).accelerator(self.backend_name)
        return made

    def answer(self, attribute: str) -> Any:
        # Without the index that the process will give it: no card is chosen yet.
        draft = draft_of(self)
        if attribute == "root_device":
            return super(_ChipMixin, draft).root_device  # type: ignore[misc]  # a mixin of the combined class
        return getattr(draft, attribute)


class SingleDeviceStrategyName(StrategyName):
    """A vendor's name for the single-device strategy. Its device defaults to that of ``devices=``."""

    kind = "SingleDeviceStrategy"
    positional: ClassVar[tuple[str, ...]] = ("device", "accelerator", "checkpoint_io", "precision_plugin")

    def make(self, namespace: Namespace, arguments: dict[str, Any]) -> Any:
        return super().make(namespace, {"device": get(self.backend_name).device.type, **arguments})


class _ParallelStrategyName(StrategyName):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        devices = self.arguments.get("parallel_devices")
        is_list = isinstance(devices, (list, tuple)) and all(isinstance(each, torch.device) for each in devices)
        if devices is not None and not is_list:
            raise ArgumentsError(
                f"{type(self).__name__}(parallel_devices={devices!r}) is not a list of torch.device. Fix:"
                " devices=8 for the Trainer"
            )

    def make_draft(self, namespace: Namespace) -> Any:
        made = super().make_draft(namespace)
        made._process_group_backend = made._get_process_group_backend()
        if made.parallel_devices is None:
            made.parallel_devices = [torch.device(made.backend.device.type)] * made.accelerator.auto_device_count()
        return made


class DDPStrategyName(_ParallelStrategyName):
    """A vendor's name for the DDP strategy, ``AcmeDDPStrategy()``; it accepts the arguments of torch's DDP too."""

    kind = "DDPStrategy"
    positional: ClassVar[tuple[str, ...]] = (
        *_FIRST,
        "ddp_comm_state",
        "ddp_comm_hook",
        "ddp_comm_wrapper",
        "model_averaging_period",
        "process_group_backend",
        "timeout",
        "start_method",
    )

    @classmethod
    def passed_on(cls) -> Collection[str]:
        return (*super().passed_on(), *arguments_of(DistributedDataParallel, "device_ids", "output_device"))


class FSDPStrategyName(_ParallelStrategyName):
    """A vendor's name for the FSDP strategy, ``AcmeFSDPStrategy()``; it accepts the arguments of torch's FSDP too."""

    kind = "FSDPStrategy"
    positional: ClassVar[tuple[str, ...]] = (
        *_FIRST,
        "process_group_backend",
        "timeout",
        "cpu_offload",
        "mixed_precision",
        "auto_wrap_policy",
        "activation_checkpointing",
        "activation_checkpointing_policy",
        "sharding_strategy",
        "state_dict_type",
    )

    @classmethod
    def passed_on(cls) -> Collection[str]:
        from torch.distributed.fsdp import FullyShardedDataParallel

        return (*super().passed_on(), *arguments_of(FullyShardedDataParallel, "device_id"))


class DeepSpeedStrategyName(StrategyName):
    """A vendor's name for the DeepSpeed strategy; it accepts the arguments of Lightning's.

    An optimizer of ``configure_optimizers()`` trains, even if DeepSpeed's configuration has one too.
    """

    kind = "DeepSpeedStrategy"
    positional: ClassVar[tuple[str, ...]] = ("accelerator", "zero_optimization", "stage")
    _of_inference = frozenset(
        {
            "dtype",
            "enable_cuda_graph",
            "kernel_inject",
            "mp_size",
            "replace_with_kernel_inject",
            "tensor_parallel",
            "tp",
        }
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        asked = sorted(self._of_inference.intersection(kwargs))
        if asked:
            raise UnsupportedError(
                f"{type(self).__name__}({asked[0]}=…) is for deepspeed.init_inference(), which no strategy calls here."
                " Fix: leave it out; stage=3 shards predict() too",
                capability="deepspeed",
            )
        super().__init__(*args, **kwargs)

    @classmethod
    def passed_on(cls) -> Collection[str]:
        stock: Any = classes(namespace_at_hand()).deepspeed.stock_class
        return (*super().passed_on(), *tuple(inspect.signature(stock.__init__).parameters)[1:])

    def make(self, namespace: Namespace, arguments: dict[str, Any]) -> Any:
        made = super().make(namespace, arguments)
        made.prefers_module = True
        return made


def register_as_lightning_types(namespace: Namespace) -> None:
    """Let every vendor's name be an object of Lightning's type, which ``isinstance`` and LightningCLI ask for."""
    plugins: Any = namespace.module("plugins")
    if not issubclass(PrecisionName, plugins.Precision):  # it is not an ABC, which could register
        name, *others = PrecisionName.__bases__
        kept = (each for each in others if not issubclass(plugins.Precision, each))  # a Trainer's has the Fabric's
        PrecisionName.__bases__ = (name, plugins.Precision, *kept)
    namespace.module("accelerators").Accelerator.register(AcceleratorName)
    plugins.CheckpointIO.register(CheckpointIOName)
    namespace.module("strategies").Strategy.register(StrategyName)
