"""``torch.compile`` in Lightning: without a backend of the user's the chip's is taken; one that it lacks is refused.

torch itself is not patched. A Fabric compiles a model once more when it has set it up, and there a backend can be put
in. A Trainer keeps what the user's call of ``torch.compile`` has made, so that there one can only be refused.
"""

from __future__ import annotations

from typing import Any

import torch

from northbridge.backend import Backend
from northbridge.errors import UnsupportedError
from northbridge.lightning.accelerators.held import held

ASKED = "northbridge_compile_arguments"
"""Where the compiler's context in a LightningModule keeps what the user gave to ``torch.compile``."""

_TORCHS_OWN = "inductor"


def choose_compiler(module: torch.nn.Module, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the ``arguments`` with which a Fabric compiles ``module`` once more, the chip's backend among them.

    Raises :class:`UnsupportedError` for a backend that the chip lacks.
    """
    kinds = {each.device.type for each in module.parameters()}
    for backend in held().values():
        if backend.device.type in kinds:
            named = backend.bridge.compile_backend
            # Modes and options are those of torch's own backend.
            if named is not None and not {"backend", "mode", "options"} & arguments.keys():
                _reject_absent(backend, named)
                arguments = {**arguments, "backend": named}
            reject_compiler(backend, arguments)
    return arguments


def reject_compiler(backend: Backend, arguments: dict[str, Any]) -> None:
    """Raise :class:`UnsupportedError` where ``torch.compile(…, **arguments)`` asks for what the chip lacks."""
    asked = arguments.get("backend", _TORCHS_OWN)
    reason = backend.bridge.missing_compile_backends.get(asked) if isinstance(asked, str) else None
    if reason is None and asked == _TORCHS_OWN and not _is_known_to_dynamo(backend.device.type):
        reason = f"torch knows no interface for devices of type {backend.device.type!r}, which it generates code by"
    if reason is None:
        return
    unsaid = "" if "backend" in arguments else ", which torch takes where none is named"
    raise UnsupportedError(
        f"{backend.name!r} cannot compile with {asked!r}{unsaid}: {reason}. Fix: {_instead(backend)}",
        capability="compile",
    )


def _reject_absent(backend: Backend, named: str) -> None:
    if not _is_registered(named):
        known = ", ".join(torch.compiler.list_backends())
        raise UnsupportedError(
            f"{backend.name!r} compiles with {named!r}, which torch does not have; found {known}. Fix:"
            f" {_instead(backend)}",
            capability="compile",
        )


def _instead(backend: Backend) -> str:
    named = backend.bridge.compile_backend
    if named is not None and _is_registered(named):
        return f"write torch.compile(model, backend={named!r})"
    return "leave torch.compile out"


def _is_registered(named: str) -> bool:
    return named in torch.compiler.list_backends(exclude_tags=None)  # those for debugging too, such as 'aot_eager'


def _is_known_to_dynamo(device_type: str) -> bool:
    from torch._dynamo.device_interface import get_registered_device_interfaces  # imported by torch.compile itself

    return any(name.partition(":")[0] == device_type for name, _ in get_registered_device_interfaces())
