"""Lightning's precision plugin for FSDP, on the chip's device type."""

from __future__ import annotations

from contextlib import AbstractContextManager
from inspect import signature
from typing import Any

import torch

from northbridge.backend import Backend
from northbridge.errors import ArgumentsError
from northbridge.lightning.namespaces import Namespace
from northbridge.lightning.plugins.precision import reject_autocast

OF_FSDP = ("32-true", "16-mixed", "16-true", "bf16-mixed", "bf16-true")
"""The precisions that Lightning has for FSDP."""


class _FSDPPrecisionMixin:
    """A precision for FSDP: "32-true", "16-true", "bf16-true", "16-mixed" or "bf16-mixed".

    Raises :class:`ValueError` for any other, as Lightning's class does.
    """

    precision: str
    scaler: Any
    stock_class: Any
    namespace: Namespace
    device_type: str = ""
    """The chip's device type; empty before a strategy has the plugin."""

    _given: Any = None  # the scaler of the user

    def __init__(self, precision: Any, scaler: Any = None) -> None:
        from torch.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler

        is_scaled = precision == "16-mixed"
        # The two differ there in the scaler alone: Lightning's is CUDA's, and warns that CUDA is not available.
        super().__init__("bf16-mixed" if is_scaled else precision)  # type: ignore[call-arg]  # Lightning's class
        if scaler is not None and not is_scaled:
            raise ArgumentsError("only '16-mixed' uses scaler=. Fix: leave it out")
        self.precision = precision
        self._given = scaler
        self.scaler = ShardedGradScaler(device="cpu") if is_scaled and scaler is None else scaler

    def bind(self, backend: Backend) -> None:
        """Compute on the devices of ``backend``; raise :class:`UnsupportedError` if autocast lacks the dtype there."""
        from torch.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler

        reject_autocast(backend, self.precision)
        self.device_type = backend.device.type
        scaler = self.scaler
        if type(scaler) is ShardedGradScaler and scaler is not self._given and scaler._device != self.device_type:
            self.scaler = scaler = ShardedGradScaler(device=self.device_type)
        # Its default is the group that was the default one when torch's module was imported: another may replace it.
        default = signature(ShardedGradScaler).parameters["process_group"].default
        if isinstance(scaler, ShardedGradScaler) and getattr(scaler, "process_group", None) is default:
            scaler.process_group = None  # the default group of the time when it is used

    def forward_context(self) -> AbstractContextManager[Any]:
        """Compute with mixed precision on the chip."""
        if "mixed" not in self.precision:
            context: AbstractContextManager[Any] = self.stock_class.forward_context(self)
            return context
        return torch.autocast(self.device_type, torch.bfloat16 if self.precision == "bf16-mixed" else torch.float16)
