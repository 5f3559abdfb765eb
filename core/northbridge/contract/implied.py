"""The functions of torch's module of the chip that the defaults of a Device call: implied lines of its contract."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from northbridge.backend import Backend
from northbridge.capabilities import Capabilities
from northbridge.contract.signature import IncomparableError, difference, parse, signature_of
from northbridge.device import Device, is_renamed


@dataclass(frozen=True)
class ImpliedLine:
    """The function of ``torch.<type>`` that the default of a Device's method calls, and how."""

    function: str
    signature: str
    claims: tuple[str, ...] = ()
    """The claims that it serves; it is not needed if the chip denies them all."""
    renamed: bool = False
    """True if only a renamed device type needs it."""


IMPLIED: Mapping[str, ImpliedLine] = MappingProxyType(
    {
        "count": ImpliedLine("device_count", "() -> int"),
        "select": ImpliedLine("set_device", "(index, /)"),
        "synchronize": ImpliedLine("synchronize", "()"),
        "label": ImpliedLine("get_device_name", "(index, /) -> str"),
        "memory_stats": ImpliedLine("memory_stats", "(index, /) -> dict", ("memory_stats",)),
        "memory_allocated": ImpliedLine("memory_allocated", "(index, /) -> int", ("memory_stats",)),
        "random_state": ImpliedLine("get_rng_state", "() -> Tensor", ("random_numbers",)),
        "set_random_state": ImpliedLine("set_rng_state", "(state, /)", ("random_numbers",)),
        "seed": ImpliedLine("manual_seed_all", "(seed, /)", ("random_numbers",)),
        "autocast_dtypes": ImpliedLine("get_amp_supported_dtype", "() -> list", ("bfloat16", "float16"), renamed=True),
    }
)
"""The line of each method's default. ``empty_cache`` and ``current_index`` need no function of the module."""


def broken_defaults(backend: Backend, claimed: Capabilities | None = None) -> list[str]:
    """Return the problem of each broken default that the Device does not override.

    ``claimed`` are the claims that hold; by default they are the present ones, for which the software must be loaded.
    It acquires no card: it looks functions up, and calls none of them.
    """
    device, claims = backend.device, (claimed or backend.present_capabilities()).claims()
    problems = []
    for method, line in IMPLIED.items():
        is_default = getattr(type(device), method) is getattr(Device, method)
        is_denied = bool(line.claims) and all(claims[name].denied for name in line.claims)
        is_needed = is_default and not is_denied and (is_renamed(device.type) or not line.renamed)
        reason = _reason_against(line, device) if is_needed else ""
        if reason:
            deny = f", or deny {' and '.join(line.claims)}" if line.claims else ""
            problems.append(
                f"{type(device).__name__}.{method}() calls torch.{device.type}.{line.function}{line.signature}, and"
                f" {reason}. Fix: override {method}(){deny}"
            )
    return problems


def _reason_against(line: ImpliedLine, device: Device) -> str:
    found = getattr(device.module, line.function, None)
    if not callable(found):
        return "it is not there" if found is None else f"it cannot be called, being a {type(found).__name__}"
    try:
        own = signature_of(found)
        reason = difference(parse(line.signature), own)
    except IncomparableError:
        return ""
    return f"{reason}: {own}" if reason else ""
