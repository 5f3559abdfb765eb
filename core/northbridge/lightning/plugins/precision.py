"""Lightning's precision plugins, on the chip's device type, and clipping by the chip's own function."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from inspect import signature
from typing import Any

import torch

from northbridge.acceleration import Acceleration
from northbridge.backend import Backend, reject_denied
from northbridge.errors import ArgumentsError, ArgumentValueError, UnsupportedError
from northbridge.lightning.namespaces import Namespace
from northbridge.lightning.plugins.float8 import reject_float8

_NEEDS = {
    "16-mixed": "float16",
    "16-true": "float16",
    "bf16-mixed": "bfloat16",
    "bf16-true": "bfloat16",
    "64-true": "float64",
}
"""The claim that each of Lightning's precisions requires; 32-true requires none."""

FLOAT8 = "transformer-engine"
"""Lightning's word for training in float8."""

_MIXED = ("16-mixed", "bf16-mixed")
_CUDA_ALONE = {"BitsandbytesPrecision": "quantization", "TransformerEnginePrecision": "float8"}


def reject_precision(backend: Backend, precision: str) -> None:
    """Raise :class:`UnsupportedError` if the chip does not support ``precision``, or if only CUDA does."""
    if precision == FLOAT8:
        reject_float8(backend, f"precision={precision!r}")
    elif precision.startswith(FLOAT8):
        raise UnsupportedError(
            f"precision={precision!r} runs on CUDA only: float8 layers return bfloat16 on {backend.name!r}. Fix:"
            f" precision={FLOAT8!r}",
            capability="float8",
        )
    needed = _NEEDS.get(precision)
    if needed is not None:
        instead = "32-true" if precision == "64-true" else _working(backend)
        what = f"precision={precision!r}: {backend.name!r} has no {needed}"
        reject_denied(backend, needed, what, f"precision={instead!r}")


def reject_float8_word(backend: Backend, asked: object) -> None:
    """Raise :class:`ArgumentValueError` for a word for float8, such as "fp8", that Lightning does not have."""
    if isinstance(asked, str) and asked.lower().startswith(("fp8", "float8")):
        reject_float8(backend, f"precision={asked!r}")
        raise ArgumentValueError(
            f"precision={asked!r} is unknown to Lightning. Fix: precision={FLOAT8!r}, its word for float8"
        )


def reject_cast(backend: Backend, precision: str, device: torch.device) -> None:
    """Raise :class:`UnsupportedError` if ``precision`` needs casts to float64 and ``device`` gives another dtype."""
    if precision != "64-true":
        return
    found = torch.ones(1, device=device).to(torch.float64).dtype
    if found != torch.float64:
        raise UnsupportedError(
            f"precision={precision!r}: a cast to torch.float64 on {backend.name!r} gives {found}."
            " Fix: precision='32-true'",
            capability="float64",
        )


def _working(backend: Backend) -> str:
    """Return a precision that works: a mixed one, unless the chip supports neither."""
    claims = backend.present_capabilities().claims()
    return next((word for word in reversed(_MIXED) if not claims[_NEEDS[word]].denied), "32-true")


def reject_plugin(backend: Backend, plugin: Any) -> None:
    """Raise :class:`UnsupportedError` for a user's precision object that is unsupported or made for another device."""
    device = getattr(plugin, "device", None)
    if isinstance(device, str) and device != backend.device.type:
        raise UnsupportedError(
            f"{type(plugin).__name__} is for {device!r}, not {backend.device.type!r}."
            f" Fix: precision={plugin.precision!r}",
            capability="autocast",
        )
    scaler = getattr(plugin, "scaler", None)
    made_for = getattr(scaler, "_device", backend.device.type)
    if made_for != backend.device.type:
        raise UnsupportedError(
            f"the GradScaler of {type(plugin).__name__} is for {made_for!r}, not {backend.device.type!r}."
            " Fix: leave scaler= out",
            capability="autocast",
        )
    ability = _CUDA_ALONE.get(type(plugin).__name__)
    if ability is not None:
        raise UnsupportedError(
            f"{type(plugin).__name__} runs on CUDA only, not on {backend.name!r}. Fix: precision={_working(backend)!r}",
            capability=ability,
        )
    precision = getattr(plugin, "precision", None)
    if isinstance(precision, str):
        reject_precision(backend, precision)


def mixed_precision(namespace: Namespace, backend: Backend, precision: str) -> Any | None:
    """Build Lightning's plugin for a mixed ``precision`` on the chip's device type; None for other precisions.

    Other precisions do not name a device, so Lightning's own choice is right. The plugin has a gradient scaler for
    float16. Raises :class:`UnsupportedError` if autocast does not support the dtype: torch would train in float32.
    """
    if precision not in _MIXED:
        return None
    reject_autocast(backend, precision)
    scaler = backend.device.grad_scaler() if precision == "16-mixed" else None
    return namespace.module("plugins").MixedPrecision(precision, backend.device.type, scaler)


def reject_autocast(backend: Backend, precision: str) -> None:
    """Raise :class:`UnsupportedError` if the chip's autocast lacks the dtype of a mixed ``precision``."""
    if precision not in _MIXED:
        return
    supported = backend.device.autocast_dtypes()
    if getattr(torch, _NEEDS[precision]) not in supported:
        words = ", ".join(str(dtype) for dtype in supported) or "no dtype at all"
        raise UnsupportedError(
            f"precision={precision!r}: torch.autocast({backend.device.type!r}) supports {words}. Fix:"
            " precision='32-true'",
            capability="autocast",
        )


def precision_plugin(namespace: Namespace, backend: Backend, precision: str) -> Any:
    """Build the plugin of ``namespace`` for ``precision``, as a run on the chip gets it. Raises as a run does."""
    reject_precision(backend, precision)
    plugins: Any = namespace.module("plugins")
    if precision == "32-true":
        return plugins.Precision()
    if precision == "64-true":
        return plugins.DoublePrecision()
    return mixed_precision(namespace, backend, precision) or plugins.HalfPrecision(precision)


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


def clips_by_itself(backend: Backend, parameters: Iterable[torch.nn.Parameter], norm_type: float = 2.0) -> bool:
    """Return True if the chip clips the gradients of ``parameters`` by a function of its own.

    Other norms, sharded gradients and gradients on another device are left to torch.
    """
    if type(backend.acceleration).clip_grad_norm is Acceleration.clip_grad_norm or float(norm_type) != 2.0:
        return False
    gradients = [each.grad for each in parameters if each.grad is not None]
    # A subclass, such as DTensor, may hold a part: the norm of that part is not the whole norm.
    return all(
        type(each) is torch.Tensor and each.device.type == backend.device.type and not each.is_sparse
        for each in gradients
    )


def clip_grad_norm(
    backend: Backend, parameters: Iterable[torch.nn.Parameter], max_norm: float, *, error_if_nonfinite: bool = False
) -> torch.Tensor:
    """Clip the gradients with the chip's own function, and return their norm before.

    Raises :class:`RuntimeError` with torch's text for a norm that is not finite, if ``error_if_nonfinite``. The
    gradients have been scaled by then.
    """
    total = backend.acceleration.clip_grad_norm(parameters, max_norm)
    if error_if_nonfinite and not torch.isfinite(total):
        raise RuntimeError(
            "The total norm of order 2.0 for gradients from `parameters` is non-finite, so it cannot be clipped. To"
            " disable this error and scale the gradients by the non-finite norm anyway, set `error_if_nonfinite=False`"
        )
    return total
