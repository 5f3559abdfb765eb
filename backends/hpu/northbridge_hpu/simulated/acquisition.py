"""Acquisition of a process's card."""

from __future__ import annotations

import warnings

from northbridge_cpu_sim import CardTakenError
from northbridge_hpu.simulated.machine import device_count, module_ids, server
from northbridge_hpu.simulated.record import variable

_ACQUIRED = "synStatus=20 [Device already acquired] Device acquire failed."
_FAILED = "synStatus=26 [Generic failure] Device acquire failed."


def acquire() -> int:
    """Acquire the card that HLS_MODULE_ID names, or the first free one without it, and return its index.

    If the named card cannot be acquired, any free one is, with a warning, unless HABANA_VISIBLE_MODULES is set or
    there are fewer cards than ranks. Raises RuntimeError with the vendor's text if no card can be acquired.
    """
    wanted = variable("HLS_MODULE_ID")
    if wanted is None:
        return _acquire_any()
    try:
        return _acquire_module(wanted)
    except RuntimeError as error:
        if variable("HABANA_VISIBLE_MODULES") is not None or device_count() < int(variable("WORLD_SIZE") or 1):
            raise
        warnings.warn(f"module {wanted} cannot be acquired ({error}); any free one is taken", stacklevel=1)
        return _acquire_any()


def _acquire_module(text: str) -> int:
    modules = {str(module): card for card, module in enumerate(module_ids())}
    card = modules.get(text.strip())
    if card is None:
        raise RuntimeError(_FAILED)
    try:
        server().acquire(card)
    except CardTakenError:
        raise RuntimeError(_ACQUIRED) from None
    return card


def _acquire_any() -> int:
    for card in range(device_count()):
        try:
            server().acquire(card)
        except CardTakenError:
            continue
        return card
    raise RuntimeError(_ACQUIRED)
