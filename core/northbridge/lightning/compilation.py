"""``torch.compile`` in Lightning: without a backend of the user's the chip's is taken; one that it lacks is refused.

torch itself is not patched. A Fabric compiles a model once more when it has set it up, and there a backend can be put
in. A Trainer keeps what the user's call of ``torch.compile`` has made, so that there one can only be refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from northbridge.errors import UnsupportedError
from northbridge.lightning.held import held

if TYPE_CHECKING:
    import torch

    from northbridge.backend import Backend

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
                arguments = {**arguments, "backend": named}
            refuse_compiler(backend, arguments)
    return arguments


def refuse_compiler(backend: Backend, arguments: dict[str, Any]) -> None:
    """Raise :class:`UnsupportedError` where ``torch.compile(…, **arguments)`` asks for what the chip lacks."""
    asked = arguments.get("backend", _TORCHS_OWN)
    reason = backend.bridge.missing_compile_backends.get(asked) if isinstance(asked, str) else None
    if reason is None:
        return
    named = backend.bridge.compile_backend
    unsaid = "" if "backend" in arguments else ", which torch takes where none is named"
    instead = f"write torch.compile(model, backend={named!r})" if named else "leave torch.compile out"
    raise UnsupportedError(
        f"torch.compile was asked for {asked!r}{unsaid}, and {backend.name!r} was asked for: {reason}; {instead}",
        capability="compile",
    )
