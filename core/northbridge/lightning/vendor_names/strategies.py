"""Vendors' names for strategies."""

from __future__ import annotations

import inspect
from collections.abc import Collection
from typing import Any, ClassVar

from northbridge.discovery.declared import get
from northbridge.errors import ArgumentsError
from northbridge.lightning.classes import classes
from northbridge.lightning.namespaces import Namespace
from northbridge.lightning.vendor_names.arguments import arguments_of_ddp
from northbridge.lightning.vendor_names.names import VendorName

PRECISION_OF_STRATEGY = ("precision_plugin", "precision")
"""Names of the precision argument of a Trainer's and of a Fabric's strategy."""


class StrategyName(VendorName):
    """Base of the names of strategies, which serve a Trainer and a Fabric alike."""

    @classmethod
    def passed_on(cls) -> Collection[str]:
        return PRECISION_OF_STRATEGY

    def settle(self, namespace: Namespace, arguments: dict[str, Any]) -> Any:
        """Become the strategy of ``namespace`` that ``arguments`` build. The chip's software is loaded already."""
        cls = classes(namespace).ddp if self.kind == "DDPStrategy" else classes(namespace).single_device
        accepted = inspect.signature(cls.stock_class.__init__).parameters
        for argument in arguments:
            if argument not in accepted and argument not in self.passed_on():
                raise ArgumentsError(
                    f"{type(self).__name__}({argument}=…): the strategies of a {namespace.host} have no such"
                    " argument. Fix: leave it out"
                )
        return self.become(cls(**arguments))


class SingleDeviceStrategyName(StrategyName):
    """A vendor's name for the single-device strategy. Its device defaults to that of ``devices=``."""

    kind = "SingleDeviceStrategy"
    positional: ClassVar[tuple[str, ...]] = ("device", "accelerator", "checkpoint_io", "precision_plugin")

    def settle(self, namespace: Namespace, arguments: dict[str, Any]) -> Any:
        return super().settle(namespace, {"device": get(self.backend_name).device.type, **arguments})


class DDPStrategyName(StrategyName):
    """A vendor's name for the DDP strategy, ``AcmeDDPStrategy()``; it accepts the arguments of torch's DDP too."""

    kind = "DDPStrategy"
    positional: ClassVar[tuple[str, ...]] = (
        "accelerator",
        "parallel_devices",
        "cluster_environment",
        "checkpoint_io",
        "precision_plugin",
        "ddp_comm_state",
        "ddp_comm_hook",
        "ddp_comm_wrapper",
        "model_averaging_period",
        "process_group_backend",
        "timeout",
        "start_method",
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        import torch

        super().__init__(*args, **kwargs)
        devices = self.arguments.get("parallel_devices")
        is_list = isinstance(devices, (list, tuple)) and all(isinstance(each, torch.device) for each in devices)
        if devices is not None and not is_list:
            raise ArgumentsError(
                f"{type(self).__name__}(parallel_devices={devices!r}) is not a list of torch.device. Fix:"
                " devices=8 for the Trainer"
            )

    @classmethod
    def passed_on(cls) -> Collection[str]:
        return (*super().passed_on(), *arguments_of_ddp())
