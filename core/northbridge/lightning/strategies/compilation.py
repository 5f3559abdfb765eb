"""``torch.compile`` in Lightning: use the chip's backend if the user names none; reject a missing one.

torch itself is not patched. A Fabric compiles a model again after set-up, where a backend can be inserted. A Trainer
keeps the user's compiled model, so there a backend can only be rejected.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from typing import Any

import torch

from northbridge.backend import Backend
from northbridge.errors import UnsupportedError
from northbridge.lightning.accelerators.accelerator import held
from northbridge.lightning.namespaces import Namespace

ASKED = "northbridge_compile_arguments"
"""Key of the user's arguments to ``torch.compile`` in a LightningModule's compiler context."""

_DEFAULT = "inductor"


def choose_compiler(
    namespace: Namespace, original: Callable[..., Any], module: torch.nn.Module, compile_kwargs: dict[str, Any]
) -> Any:
    """Let a Fabric's second compilation of ``module`` use the chip's backend.

    Raises :class:`UnsupportedError` for a backend that the chip lacks.
    """
    kinds = {each.device.type for each in module.parameters()}
    for backend in held().values():
        if backend.device.type in kinds:
            compile_kwargs = with_compiler(backend, compile_kwargs)
    return original(module, compile_kwargs)


def with_compiler(backend: Backend, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return ``arguments`` to ``torch.compile`` with the chip's backend, unless they name one.

    Raises :class:`UnsupportedError` for a backend that the chip lacks, and for an option that its backend lacks.
    """
    named = backend.bridge.compile_backend
    # Modes and options belong to torch's own backend.
    if named is not None and not {"backend", "mode", "options"} & arguments.keys():
        if not _is_registered(named):
            known = ", ".join(torch.compiler.list_backends())
            raise UnsupportedError(
                f"{backend.name!r} compiles with {named!r}, which torch does not have; found {known}. Fix:"
                f" {_instead(backend)}",
                capability="compile",
            )
        arguments = {**arguments, "backend": named}
    reject_compiler(backend, arguments)
    return arguments


def reject_compiler(backend: Backend, arguments: dict[str, Any]) -> None:
    """Raise :class:`UnsupportedError` if the chip lacks what ``torch.compile(…, **arguments)`` needs.

    That is a backend, or an option of the chip's own backend.
    """
    _reject_options(backend, arguments)
    asked = arguments.get("backend", _DEFAULT)
    reason = backend.bridge.missing_compile_backends.get(asked) if isinstance(asked, str) else None
    if reason is None and asked == _DEFAULT and not _is_known_to_dynamo(backend.device.type):
        reason = f"torch._dynamo has no device interface for {backend.device.type!r}"
    if reason is None:
        return
    unsaid = "" if "backend" in arguments else ", torch's default"
    raise UnsupportedError(
        f"{backend.name!r} cannot compile with {asked!r}{unsaid}: {reason}. Fix: {_instead(backend)}",
        capability="compile",
    )


def _reject_options(backend: Backend, arguments: dict[str, Any]) -> None:
    named = backend.bridge.compile_backend
    if named is None or arguments.get("backend") != named or not arguments.get("options"):
        return
    known = backend.acceleration.compile_options()
    for option in arguments["options"] if known else ():
        if option not in known:
            near = difflib.get_close_matches(option, known, n=1)
            meant = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(sorted(known))}."
            raise UnsupportedError(
                f"{named!r} of {backend.name!r} has no option {option!r}; {meant} Fix: correct options=",
                capability="compile",
            )


def _instead(backend: Backend) -> str:
    named = backend.bridge.compile_backend
    if named is not None and _is_registered(named):
        return f"write torch.compile(model, backend={named!r})"
    return "leave torch.compile out"


def _is_registered(named: str) -> bool:
    return named in torch.compiler.list_backends(exclude_tags=None)  # also those for debugging: 'aot_eager'


def _is_known_to_dynamo(device_type: str) -> bool:
    from torch._dynamo.device_interface import get_registered_device_interfaces  # imported by torch.compile itself

    return any(name.partition(":")[0] == device_type for name, _ in get_registered_device_interfaces())
